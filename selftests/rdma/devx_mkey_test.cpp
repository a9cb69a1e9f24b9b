// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keys that a command makes of registered memory, as libraries do whose queues and buffers are in it anyway.
#include "ktap.hpp"
#include "dv.hpp"
#include "devx_queues.hpp"
#include "udmabuf.hpp"

#include <cerrno>
#include <functional>

using namespace rdma;
using devx::Mailbox;

namespace {

constexpr uint32_t mtt = 1, variant = 0x5a;

struct UmemDeleter {
	void operator()(mlx5dv_devx_umem *u) const { must(mlx5dv_devx_umem_dereg(u), "umem_dereg"); }
};
using Umem = std::unique_ptr<mlx5dv_devx_umem, UmemDeleter>;

Umem reg(const Context &c, void *addr, size_t size, uint32_t access = IBV_ACCESS_LOCAL_WRITE)
{
	return own<Umem>(mlx5dv_devx_umem_reg(c.get(), addr, size, access), "umem_reg");
}

// All of it may be read and written; what is different, a test says itself.
Mailbox create_mkey(uint32_t pdn, const mlx5dv_devx_umem *u, uint64_t offset, uint64_t start, uint64_t length)
{
	Mailbox m(devx::CREATE_MKEY, 272);
	DEVX_SET(create_mkey_in, m.in.data(), mkey_umem_valid, 1);
	DEVX_SET(create_mkey_in, m.in.data(), mkey_umem_id, u->umem_id);
	DEVX_SET64(create_mkey_in, m.in.data(), mkey_umem_offset, offset);
	DEVX_SET(create_mkey_in, m.in.data(), access_mode_1_0, mtt);
	DEVX_SET(create_mkey_in, m.in.data(), lr, 1);
	DEVX_SET(create_mkey_in, m.in.data(), lw, 1);
	DEVX_SET(create_mkey_in, m.in.data(), rr, 1);
	DEVX_SET(create_mkey_in, m.in.data(), rw, 1);
	DEVX_SET(create_mkey_in, m.in.data(), a, 1);
	DEVX_SET(create_mkey_in, m.in.data(), qpn, 0xffffff);
	DEVX_SET(create_mkey_in, m.in.data(), mkey_7_0, variant);
	DEVX_SET(create_mkey_in, m.in.data(), pd, pdn);
	DEVX_SET64(create_mkey_in, m.in.data(), start_addr, start);
	DEVX_SET64(create_mkey_in, m.in.data(), len, length);
	return m;
}

uint32_t key_of(const Mailbox &m) { return m.number() << 8 | variant; }

uint64_t address_of(const void *p) { return reinterpret_cast<uintptr_t>(p); }

// A connection, and memory of each end's process that verbs know nothing of.
struct Ends {
	Context c;
	Pair p;
	devx::Buffer far{1 << 16}, near{1 << 16};
	Umem far_umem, near_umem;

	Ends() : p(c), far_umem(reg(c, far.data(), far.size())), near_umem(reg(c, near.data(), near.size())) {}
	devx::Obj key(ibv_pd *pd, const Umem &u, uint64_t offset, uint64_t start, uint64_t length, uint32_t *key)
	{
		Mailbox m = create_mkey(devx::pdn_of(pd), u.get(), offset, start, length);
		devx::Obj obj = devx::create(c, m, "create mkey");
		*key = key_of(m);
		return obj;
	}
	ibv_wc_status run(ibv_wr_opcode op, ibv_sge sge, uint64_t raddr, uint32_t rkey)
	{
		Wr(op, {&sge, 1}).remote(raddr, rkey).post(p.a.qp.get());
		return expect_wc(p.a.scq.get()).status;
	}
};

KTEST(devx_mkey, "a key over registered memory is a region's in every operation, at both ends")
{
	Ends e;
	uint32_t lkey = 0, rkey = 0;
	// Any offset, and addresses that begin anywhere.
	devx::Obj far = e.key(e.p.b.pd.get(), e.far_umem, 100, 0x700000000004, 60000, &rkey);
	devx::Obj near = e.key(e.p.a.pd.get(), e.near_umem, 0, address_of(e.near.data()), 65536, &lkey);

	for (size_t i = 0; i < e.near.size(); i++)
		e.near.data()[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
	EXPECT_EQ(e.run(IBV_WR_RDMA_WRITE, {address_of(e.near.data()) + 5, 50000, lkey}, 0x700000000004 + 1, rkey),
		  IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(e.far.data() + 101, e.near.data() + 5, 50000), 0);
	EXPECT_EQ(e.far.data()[100], 0);
	EXPECT_EQ(e.far.data()[50101], 0);

	std::memset(e.near.data(), 0, e.near.size());
	EXPECT_EQ(e.run(IBV_WR_RDMA_READ, {address_of(e.near.data()), 50001, lkey}, 0x700000000004, rkey),
		  IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(e.near.data(), e.far.data() + 100, 50001), 0);

	auto *word = reinterpret_cast<uint64_t *>(e.far.data() + 104);
	*word = 41;
	ibv_sge answer{address_of(e.near.data()), 8, lkey};
	Wr(IBV_WR_ATOMIC_FETCH_AND_ADD, {&answer, 1}).atomic(0x700000000004 + 4, rkey, 1).post(e.p.a.qp.get());
	EXPECT_EQ(expect_wc(e.p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(*word, 42u);

	// Received into, too.
	post_recv(e.p.b.qp.get(), {{0x700000000004 + 200, 64, rkey}});
	ibv_sge message{address_of(e.near.data()) + 1000, 64, lkey};
	Wr(IBV_WR_SEND, {&message, 1}).post(e.p.a.qp.get());
	EXPECT_EQ(expect_wc(e.p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(expect_wc(e.p.b.rcq.get()).byte_len, 64u);
	EXPECT_EQ(std::memcmp(e.far.data() + 300, e.near.data() + 1000, 64), 0);
}

KTEST(devx_mkey, "what is outside of the key, though inside of the memory, is not reached")
{
	for (uint64_t off : {UINT64_C(0) - 1, UINT64_C(4096) - 7}) {
		Ends e;
		uint32_t rkey = 0;
		devx::Obj far = e.key(e.p.b.pd.get(), e.far_umem, 4096, 0x10000, 4096, &rkey);
		EXPECT_EQ(e.run(IBV_WR_RDMA_WRITE, e.p.a.mem->sge(0, 8), 0x10000 + off, rkey), IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(e.far.data()[4095], 0);
		EXPECT_EQ(e.far.data()[8192], 0);
	}
}

KTEST(devx_mkey, "the key allows what the command says, and no more")
{
	struct {
		const char *what;
		std::function<void(uint32_t *)> change;
		ibv_wr_opcode op;
	} const cases[] = {
		{"no remote write", [](uint32_t *in) { DEVX_SET(create_mkey_in, in, rw, 0); }, IBV_WR_RDMA_WRITE},
		{"no remote read", [](uint32_t *in) { DEVX_SET(create_mkey_in, in, rr, 0); }, IBV_WR_RDMA_READ},
		{"free", [](uint32_t *in) { DEVX_SET(create_mkey_in, in, free, 1); }, IBV_WR_RDMA_WRITE},
		{"another variant", [](uint32_t *in) { DEVX_SET(create_mkey_in, in, mkey_7_0, 1); }, IBV_WR_RDMA_READ},
	};
	for (auto &k : cases) {
		Ends e;
		Mailbox m = create_mkey(devx::pdn_of(e.p.b.pd.get()), e.far_umem.get(), 0, 0, 4096);
		k.change(m.in.data());
		devx::Obj far = devx::create(e.c, m, k.what);
		EXPECT_EQ(e.run(k.op, e.p.a.mem->sge(0, 8), 0, key_of(m)), IBV_WC_REM_ACCESS_ERR) << k.what;
	}
}

KTEST(devx_mkey, "memory that the device may only read makes a key that only reads")
{
	Ends e;
	Umem umem = reg(e.c, e.far.data(), 8192, 0);
	Mailbox m = create_mkey(devx::pdn_of(e.p.b.pd.get()), umem.get(), 0, 0, 8192);
	EXPECT_EQ(devx::refused(e.c, m), devx::BAD_PARAM);
	DEVX_SET(create_mkey_in, m.in.data(), lw, 0);
	EXPECT_EQ(devx::refused(e.c, m), devx::BAD_PARAM);
	DEVX_SET(create_mkey_in, m.in.data(), rw, 0);
	EXPECT_EQ(devx::refused(e.c, m), devx::BAD_PARAM);
	DEVX_SET(create_mkey_in, m.in.data(), a, 0);
	devx::Obj far = devx::create(e.c, m, "create mkey");
	e.far.data()[8191] = 77;
	EXPECT_EQ(e.run(IBV_WR_RDMA_READ, e.p.a.mem->sge(0, 8192), 0, key_of(m)), IBV_WC_SUCCESS);
	EXPECT_EQ(e.p.a.mem->data()[8191], 77);
}

KTEST(devx_mkey, "a command that asks for what there is not makes nothing")
{
	Ends e;
	uint32_t pdn = devx::pdn_of(e.p.a.pd.get());
	auto result = [&](const std::function<void(uint32_t *)> &change) {
		Mailbox m = create_mkey(pdn, e.far_umem.get(), 0, 0, 4096);
		change(m.in.data());
		return devx::refused(e.c, m);
	};
	EXPECT_EQ(result([](uint32_t *) {}), devx::OK);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, pg_access, 1); }), devx::OK);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET64(create_mkey_in, in, len, 65536); }), devx::OK);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET64(create_mkey_in, in, len, 65537); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET64(create_mkey_in, in, len, 0); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET64(create_mkey_in, in, len, UINT64_MAX); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET64(create_mkey_in, in, mkey_umem_offset, 61441); }),
		  devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET64(create_mkey_in, in, mkey_umem_offset, UINT64_MAX); }),
		  devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET64(create_mkey_in, in, start_addr, UINT64_MAX - 4094); }),
		  devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, length64, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, qpn, 5); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, bsf_en, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, access_mode_1_0, 0); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, access_mode_1_0, 2); }), devx::BAD_PARAM);
	// Page tables of the program's own have addresses that it cannot know.
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, mkey_umem_valid, 0); }), devx::BAD_PARAM);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, mkey_umem_id, 0xfffff); }), devx::BAD_RES);
	EXPECT_EQ(result([](uint32_t *in) { DEVX_SET(create_mkey_in, in, pd, 0xfffff0); }), devx::BAD_RES);
	// Another process's.
	Context other;
	Umem foreign = reg(other, e.far.data(), 4096);
	EXPECT_EQ(result([&](uint32_t *in) { DEVX_SET(create_mkey_in, in, mkey_umem_id, foreign->umem_id); }),
		  devx::BAD_RES);
}

KTEST(devx_mkey, "memory stays registered as long as a key is made of it, and the key works until it is destroyed")
{
	Ends e;
	uint32_t rkey = 0;
	devx::Obj far = e.key(e.p.b.pd.get(), e.far_umem, 0, 0, 4096, &rkey);
	EXPECT_EQ(mlx5dv_devx_umem_dereg(e.far_umem.get()), EBUSY);
	EXPECT_EQ(e.run(IBV_WR_RDMA_WRITE, e.p.a.mem->sge(0, 8), 0, rkey), IBV_WC_SUCCESS);
	EXPECT_EQ(devx::destroy(far), 0);
	EXPECT_EQ(e.run(IBV_WR_RDMA_WRITE, e.p.a.mem->sge(0, 8), 0, rkey), IBV_WC_REM_ACCESS_ERR);
	e.far_umem.reset();
}

KTEST(devx_mkey, "a key is made of a dma-buf as well")
{
	NEED_UDMABUF;
	Ends e;
	UDmabuf buf;
	mlx5dv_devx_umem_in in{};
	in.size = buf.size;
	in.access = IBV_ACCESS_LOCAL_WRITE;
	in.pgsz_bitmap = 4096;
	in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
	in.dmabuf_fd = buf.fd;
	Umem umem = own<Umem>(mlx5dv_devx_umem_reg_ex(e.c.get(), &in), "umem_reg_ex");
	uint32_t rkey = 0;
	devx::Obj far = e.key(e.p.b.pd.get(), umem, 4096, 0, 8192, &rkey);
	e.p.a.mem->data()[0] = 9;
	EXPECT_EQ(e.run(IBV_WR_RDMA_WRITE, e.p.a.mem->sge(0, 1), 8191, rkey), IBV_WC_SUCCESS);
	EXPECT_EQ(buf.map[4096 + 8191], 9);
}

KTEST(devx_mkey, "a context closes over keys and memory that its program has forgotten")
{
	devx::Buffer m(1 << 16);
	for (int i = 0; i < 3; i++) {
		Context c;
		uint32_t pdn = 0;
		(void)devx::alloc_pd(c, &pdn).release();
		mlx5dv_devx_umem *u = reg(c, m.data(), m.size()).release();
		for (int k = 0; k < 20; k++) {
			Mailbox in = create_mkey(pdn, u, 0, 0, 4096);
			(void)devx::create(c, in, "create mkey").release();
		}
	}
}

} // namespace
