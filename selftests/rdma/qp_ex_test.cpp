// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ibv_wr_*() and mlx5dv_wr_*() of libtally-mlx5: the same program, and what libmlx5 makes of it.
#include "ktap.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <infiniband/mlx5dv.h>
#include <tally/mlx5.h>

using namespace rdma;

namespace {

constexpr uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
			 IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
			 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			 IBV_QP_EX_WITH_LOCAL_INV;
constexpr uint64_t dv_ops = MLX5DV_QP_EX_WITH_MEMCPY | MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MR_LIST |
			    MLX5DV_QP_EX_WITH_MR_INTERLEAVED;

using Handle = std::unique_ptr<mlx5dv_qp_ex, Deleter<tally_destroy_mlx5dv_qp_ex>>;
using CqEx = std::unique_ptr<ibv_cq_ex, Deleter<[](ibv_cq_ex *cq) { ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); }>>;

CqEx create_cq_ex(Context &c)
{
	ibv_cq_init_attr_ex a{};
	a.cqe = 256;
	return own<CqEx>(ibv_create_cq_ex(c.get(), &a), "create_cq_ex");
}

struct DvQp {
	Context &c;
	Pd pd;
	CqEx cq_ex;
	ibv_cq *cq;
	Memory from, to;
	Qp qp;
	Handle dv;

	explicit DvQp(Context &ctx, bool all_signaled = false)
		: c(ctx), pd(alloc_pd(ctx)), cq_ex(create_cq_ex(ctx)), cq(ibv_cq_ex_to_cq(cq_ex.get())),
		  from(pd.get(), 1 << 16), to(pd.get(), 1 << 16)
	{
		ibv_qp_init_attr_ex a{};
		a.send_cq = a.recv_cq = cq;
		a.cap = {16, 16, 4, 4, 128};
		a.qp_type = IBV_QPT_RC;
		a.sq_sig_all = all_signaled;
		a.pd = pd.get();
		a.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = ops;
		mlx5dv_qp_init_attr d{};
		d.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
		d.send_ops_flags = dv_ops;
		qp = own<Qp>(mlx5dv_create_qp(ctx.get(), &a, &d), "mlx5dv_create_qp");
		dv = own<Handle>(tally_mlx5dv_qp_ex_from_qp(qp.get(), ops, dv_ops), "tally_mlx5dv_qp_ex_from_qp");
		from.pattern(1);
	}
	void connect() const { connect_to_itself(qp.get(), c); }
	ibv_qp_ex *ex() const { return tally_ibv_qp_ex_from_mlx5dv_qp_ex(dv.get()); }
	ibv_qp_ex *their_ex() const { return ibv_qp_to_qp_ex(qp.get()); }
	mlx5dv_qp_ex *their_dv() const { return mlx5dv_qp_ex_from_ibv_qp_ex(their_ex()); }

	// One WRITE through either of them.
	void write(ibv_qp_ex *q, uint64_t id, size_t at, uint32_t length, unsigned flags = IBV_SEND_SIGNALED) const
	{
		ibv_wr_start(q);
		q->wr_id = id;
		q->wr_flags = flags;
		ibv_wr_rdma_write(q, to.rkey(), to.addr(at));
		ibv_wr_set_sge(q, from.lkey(), from.addr(at), length);
		must(ibv_wr_complete(q), "complete");
	}
};

// The whole send queue after a request that is not told to the device.
std::vector<uint8_t> written(const DvQp &q, ibv_qp_ex *ex, mlx5dv_qp_ex *dv, unsigned flags,
			     const std::function<void(ibv_qp_ex *, mlx5dv_qp_ex *)> &request)
{
	mlx5dv_qp parts{};
	mlx5dv_obj object{};
	object.qp.in = q.qp.get();
	object.qp.out = &parts;
	must(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), "init_obj");
	auto *bytes = static_cast<uint8_t *>(parts.sq.buf);
	const size_t size = size_t{parts.sq.wqe_cnt} * parts.sq.stride;

	std::fill_n(bytes, size, uint8_t{0});
	ibv_wr_start(ex);
	ex->wr_flags = flags;
	request(ex, dv);
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	ibv_wr_abort(ex);
	return {bytes, bytes + size};
}

KTEST(qp_ex, "its WQEs are those of libmlx5, byte by byte")
{
	Context c;
	char text[] = "0123456789012345678901234567890123456789";
	ibv_sge list[] = {{1, 2, 3}, {4, 0, 6}, {7, 8, 9}};
	ibv_data_buf bufs[] = {{text, 3}, {text + 3, 30}};
	const std::function<void(ibv_qp_ex *, mlx5dv_qp_ex *)> requests[] = {
		[](auto *q, auto *) { ibv_wr_send(q), ibv_wr_set_sge(q, 1, 2, 3); },
		[&](auto *q, auto *) { ibv_wr_send_imm(q, htobe32(7)), ibv_wr_set_sge_list(q, 3, list); },
		[&](auto *q, auto *) { ibv_wr_send_inv(q, 7), ibv_wr_set_inline_data(q, text, 40); },
		[&](auto *q, auto *) { ibv_wr_rdma_write(q, 1, 2), ibv_wr_set_inline_data_list(q, 2, bufs); },
		[](auto *q, auto *) { ibv_wr_rdma_write_imm(q, 1, 2, htobe32(3)), ibv_wr_set_sge(q, 1, 2, 0); },
		[&](auto *q, auto *) { ibv_wr_rdma_read(q, 1, 2), ibv_wr_set_sge_list(q, 3, list); },
		[](auto *q, auto *) { ibv_wr_atomic_cmp_swp(q, 1, 2, 3, 4), ibv_wr_set_sge(q, 1, 2, 8); },
		[](auto *q, auto *) { ibv_wr_atomic_fetch_add(q, 1, 2, 3), ibv_wr_set_sge(q, 1, 2, 8); },
		[](auto *q, auto *) { ibv_wr_local_inv(q, 0x12345678); },
	};

	for (bool all_signaled : {false, true}) {
		DvQp q(c, all_signaled);
		for (const auto &request : requests)
			for (int flags : {0, +IBV_SEND_SIGNALED, IBV_SEND_FENCE | IBV_SEND_SOLICITED})
				EXPECT_EQ(written(q, q.ex(), q.dv.get(), flags, request),
					  written(q, q.their_ex(), q.their_dv(), flags, request))
					<< "request " << &request - requests << ", flags " << flags;
	}
}

KTEST(qp_ex, "so are layouts of mkeys")
{
	Context c;
	DvQp q(c);
	mlx5dv_mkey_init_attr a{};
	a.pd = q.pd.get();
	a.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
	a.max_entries = 16;
	std::unique_ptr<mlx5dv_mkey, Deleter<mlx5dv_destroy_mkey>> mkey(mlx5dv_create_mkey(&a));
	if (!mkey && !c.is_tally())
		GTEST_SKIP() << "the device makes no mkeys (mlx5dv_create_mkey): " << std::strerror(errno);
	ASSERT_TRUE(mkey) << std::strerror(errno);
	ibv_sge list[] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}, {13, 14, 15}};
	mlx5dv_mr_interleaved strides[] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}, {13, 14, 15, 16}};

	for (uint16_t n = 1; n <= 5; n++) {
		const auto request = [&](ibv_qp_ex *, mlx5dv_qp_ex *dv) {
			mlx5dv_wr_mr_list(dv, mkey.get(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, n, list);
			if (n < 5)
				mlx5dv_wr_mr_interleaved(dv, mkey.get(),
							 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC, 1000, n,
							 strides);
		};
		EXPECT_EQ(written(q, q.ex(), q.dv.get(), IBV_SEND_INLINE, request),
			  written(q, q.their_ex(), q.their_dv(), IBV_SEND_INLINE, request))
			<< n << " entries";
	}
}

KTEST(qp_ex, "behind requests of libmlx5, which may be UMRs, the first one is fenced")
{
	Context c;
	DvQp q(c);
	uint32_t slot = 0;
	const auto fence = [&] {
		const auto bytes = written(q, q.ex(), q.dv.get(), 0, [](ibv_qp_ex *ex, mlx5dv_qp_ex *) {
			ibv_wr_send(ex);
			ibv_wr_set_sge(ex, 1, 2, 3);
		});
		EXPECT_EQ(bytes[(slot + 1) * MLX5_SEND_WQE_BB + 11], 0);
		return bytes[slot * MLX5_SEND_WQE_BB + 11];
	};

	q.connect();
	EXPECT_EQ(fence(), 0);
	q.write(q.their_ex(), 1, 0, 8);
	expect_wc(q.cq);
	slot++;
	EXPECT_EQ(fence(), MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
	q.write(q.ex(), 2, 0, 8);
	expect_wc(q.cq);
	slot++;
	EXPECT_EQ(fence(), 0);
}

KTEST(qp_ex, "a program polls the wr_ids that it posted, among those of ibv_post_send()")
{
	Context c;
	DvQp q(c);

	q.connect();
	for (uint64_t id = 1; id <= 300; id++) {
		const uint32_t length = 1 + id % 100;
		std::memset(q.to.data(), 0, 512);
		if (id % 3 == 0) {
			ibv_sge sge = q.from.sge(id, length);
			Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, id).remote(q.to.addr(id), q.to.rkey()).post(q.qp.get());
		} else if (id % 3 == 1) {
			q.write(q.their_ex(), id, id, length);
		} else {
			q.write(q.ex(), id, id, length);
		}
		const ibv_wc wc = expect_wc(q.cq);
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		ASSERT_EQ(wc.wr_id, id);
		EXPECT_EQ(wc.qp_num, q.qp->qp_num);
		EXPECT_EQ(wc.opcode, id % 3 == 2 ? IBV_WC_DRIVER2 : IBV_WC_RDMA_WRITE);
		ASSERT_EQ(std::memcmp(q.to.data() + id, q.from.data() + id, length), 0);
	}
}

KTEST(qp_ex, "and by ibv_start_poll()")
{
	Context c;
	DvQp q(c);
	ibv_poll_cq_attr a{};

	q.connect();
	q.write(q.ex(), 77, 0, 100);
	q.write(q.ex(), 78, 0, 100);
	for (uint64_t id : {77, 78}) {
		ASSERT_TRUE(eventually([&] { return !ibv_start_poll(q.cq_ex.get(), &a); }));
		EXPECT_EQ(q.cq_ex->status, IBV_WC_SUCCESS);
		EXPECT_EQ(q.cq_ex->wr_id, id);
		EXPECT_EQ(ibv_wc_read_opcode(q.cq_ex.get()), IBV_WC_DRIVER2);
		ibv_end_poll(q.cq_ex.get());
	}
}

KTEST(qp_ex, "a batch with a copy, atomics and a SEND arrives, and only what is signaled completes")
{
	Context c;
	DvQp q(c);
	ibv_qp_ex *ex = q.ex();

	q.connect();
	post_recv(q.qp.get(), {q.to.sge(8192, 64)}, 5);
	std::memset(q.from.data() + 4096, 0, 8);
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ex->wr_id = 1;
	mlx5dv_wr_memcpy(q.dv.get(), q.to.lkey(), q.to.addr(), q.from.lkey(), q.from.addr(), 3000);
	ibv_wr_atomic_fetch_add(ex, q.from.rkey(), q.from.addr(4096), 42);
	ibv_wr_set_sge(ex, q.to.lkey(), q.to.addr(3000), 8);
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ex->wr_id = 2;
	ibv_wr_send_imm(ex, htobe32(99));
	ibv_wr_set_sge(ex, q.to.lkey(), q.to.addr(), 64);
	must(ibv_wr_complete(ex), "complete");
	for (int i = 0; i < 2; i++) {
		const ibv_wc wc = expect_wc(q.cq);
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV) {
			EXPECT_EQ(wc.wr_id, 5u);
			EXPECT_EQ(wc.imm_data, htobe32(99));
		} else {
			EXPECT_EQ(wc.wr_id, 2u);
		}
	}
	EXPECT_TRUE(empty(q.cq));
	EXPECT_EQ(std::memcmp(q.to.data(), q.from.data(), 3000), 0);
	EXPECT_EQ(std::memcmp(q.to.data() + 8192, q.from.data(), 64), 0);
	EXPECT_EQ(q.from.data()[4096], 42);
}

KTEST(qp_ex, "an error completion has the wr_id of its request, signaled or not")
{
	Context c;
	DvQp q(c);
	ibv_qp_ex *ex = q.ex();

	q.connect();
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	for (uint64_t id : {10, 11, 12}) {
		ex->wr_id = id;
		ibv_wr_rdma_write(ex, q.to.rkey() + (id == 11 ? 256 : 0), q.to.addr());
		ibv_wr_set_sge(ex, q.from.lkey(), q.from.addr(), 8);
	}
	must(ibv_wr_complete(ex), "complete");
	ibv_wc wc = expect_wc(q.cq);
	EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(wc.wr_id, 11u);
	wc = expect_wc(q.cq);
	EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(wc.wr_id, 12u);
}

KTEST(qp_ex, "what cannot be posted is refused at the batch's end, with all of the batch")
{
	Context c;
	DvQp q(c);
	ibv_qp_ex *ex = q.ex();
	std::vector<uint8_t> much(4096);
	std::vector<ibv_sge> many(64, q.from.sge(0, 1));
	const ibv_sge vast{1, UINT32_MAX, 2}; // a WQE would have it for inline data
	mlx5dv_mkey mkey{.lkey = 0x700, .rkey = 0x700};
	mlx5dv_mr_interleaved wide{.addr = 0, .bytes_count = 1 << 16, .bytes_skip = 0, .lkey = 1};
	struct {
		int err;
		unsigned flags;
		std::function<void()> post;
	} cases[] = {
		{ENOMEM, 0, [&] { ibv_wr_send(ex), ibv_wr_set_inline_data(ex, much.data(), 4096); }},
		{ENOMEM, 0, [&] { ibv_wr_send(ex), ibv_wr_set_sge_list(ex, 64, many.data()); }},
		{EINVAL, 0, [&] { ibv_wr_send(ex), ibv_wr_set_sge(ex, 1, 2, UINT32_C(1) << 31); }},
		{EINVAL, 0, [&] { ibv_wr_send(ex), ibv_wr_set_sge_list(ex, 1, &vast); }},
		{EINVAL, 0, [&] { mlx5dv_wr_memcpy(q.dv.get(), 1, 2, 3, 4, 0); }},
		{EINVAL, 0, [&] { mlx5dv_wr_memcpy(q.dv.get(), 1, 2, 3, 4, (UINT64_C(1) << 31) + 1); }},
		{EOPNOTSUPP, 0, [&] { mlx5dv_wr_mr_list(q.dv.get(), &mkey, 0, 1, many.data()); }},
		{EINVAL, IBV_SEND_INLINE, [&] { mlx5dv_wr_mr_list(q.dv.get(), &mkey, 1 << 20, 1, many.data()); }},
		{ENOMEM, IBV_SEND_INLINE, [&] { mlx5dv_wr_mr_list(q.dv.get(), &mkey, 0, 64, many.data()); }},
		{EINVAL, IBV_SEND_INLINE, [&] { mlx5dv_wr_mr_interleaved(q.dv.get(), &mkey, 0, 1, 1, &wide); }},
	};

	q.connect();
	uint64_t id = 0;
	for (const auto &k : cases) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex, q.to.rkey(), q.to.addr());
		ibv_wr_set_sge(ex, q.from.lkey(), q.from.addr(), 8);
		ex->wr_flags = k.flags;
		k.post();
		EXPECT_EQ(ibv_wr_complete(ex), k.err) << "case " << &k - cases;
		EXPECT_TRUE(empty(q.cq));
		q.write(ex, ++id, 0, 8);
		EXPECT_EQ(expect_wc(q.cq).wr_id, id);
	}
}

KTEST(qp_ex, "what it does not have is refused when it is made")
{
	Context c;
	DvQp q(c);
	Pair plain(c, {}, false);
	const auto refused = [](ibv_qp *qp, uint64_t o, uint64_t d) {
		errno = 0;
		return !Handle(tally_mlx5dv_qp_ex_from_qp(qp, o, d)) && errno == ENOTSUP;
	};

	EXPECT_FALSE(refused(q.qp.get(), ops, dv_ops));
	EXPECT_TRUE(refused(q.qp.get(), IBV_QP_EX_WITH_BIND_MW, 0));
	EXPECT_TRUE(refused(q.qp.get(), IBV_QP_EX_WITH_TSO, 0));
	EXPECT_TRUE(refused(q.qp.get(), UINT64_C(1) << 40, 0));
	EXPECT_TRUE(refused(q.qp.get(), 0, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE));
	EXPECT_TRUE(refused(q.qp.get(), 0, UINT64_C(1) << 40));
	EXPECT_TRUE(refused(plain.a.qp.get(), IBV_QP_EX_WITH_SEND, 0));
	if (const char *name = std::getenv("TALLY_PLAIN_DEVICE")) {
		Context other(name);
		Pair p(other, {}, false);
		EXPECT_TRUE(refused(p.a.qp.get(), IBV_QP_EX_WITH_SEND, 0));
	}
}

} // namespace
