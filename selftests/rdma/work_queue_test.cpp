// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally::work_queue on a device: the same bytes as libmlx5 writes, and what they do.
#include "ktap.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <infiniband/mlx5dv.h>
#include <numeric>
#include <tally/completion_queue.hpp>
#include <tally/work_queue.hpp>

using namespace rdma;
using namespace tally;

namespace {

constexpr uint64_t all_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
			     IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
			     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			     IBV_QP_EX_WITH_LOCAL_INV;

// A QP with all of libmlx5's builders.
struct Builders {
	Pd pd;
	Cq cq;
	Qp qp;

	explicit Builders(Context &c) : pd(alloc_pd(c)), cq(create_cq(c))
	{
		ibv_qp_init_attr_ex a{};
		a.send_cq = a.recv_cq = cq.get();
		a.cap = {16, 4, 8, 4, 512};
		a.qp_type = IBV_QPT_RC;
		a.pd = pd.get();
		a.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = all_ops;
		mlx5dv_qp_init_attr dv{};
		dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
		dv.send_ops_flags = MLX5DV_QP_EX_WITH_MEMCPY | MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MR_LIST |
				    MLX5DV_QP_EX_WITH_MR_INTERLEAVED;
		qp = own<Qp>(mlx5dv_create_qp(c.get(), &a, &dv), "mlx5dv_create_qp");
	}
	ibv_qp_ex *ex() const { return ibv_qp_to_qp_ex(qp.get()); }
	mlx5dv_qp_ex *dv() const { return mlx5dv_qp_ex_from_ibv_qp_ex(ex()); }
	void connect(Context &c) const { connect_to_itself(qp.get(), c); }
	// A request of libmlx5's that does nothing, of one block.
	void nothing() const
	{
		ibv_wr_start(ex());
		ex()->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex(), 0, 0);
		ibv_wr_set_sge_list(ex(), 0, nullptr);
		must(ibv_wr_complete(ex()), "complete");
		if (ibv_wc wc = expect_wc(cq.get()); wc.status != IBV_WC_SUCCESS)
			fail("an empty WRITE", EIO);
	}
};

struct Mkey {
	mlx5dv_mkey *mkey = nullptr;

	explicit Mkey(ibv_pd *pd)
	{
		mlx5dv_mkey_init_attr a{};
		a.pd = pd;
		a.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
		a.max_entries = 32;
		mkey = mlx5dv_create_mkey(&a);
	}
	~Mkey()
	{
		if (mkey)
			mlx5dv_destroy_mkey(mkey);
	}
	Mkey(const Mkey &) = delete;
	Mkey &operator=(const Mkey &) = delete;
};

// libmlx5's request, ours, and how many blocks they take at most.
struct Twins {
	const char *name;
	std::function<void(ibv_qp_ex *, mlx5dv_qp_ex *)> theirs;
	std::function<posted(work_queue &, uint8_t flags)> ours;
	unsigned more_flags = 0;
};

// Writes both where the queue stands, with one in front of them if so wanted and one behind, and without a doorbell;
// then compares the whole rings.
void expect_twins(const Builders &b, const Twins &t, bool in_front = false, unsigned flags = 0, uint8_t our_flags = 0)
{
	work_queue wq = work_queue::over(*b.qp).value();
	const send_queue_memory &ring = wq.memory();
	auto *bytes = static_cast<uint8_t *>(ring.blocks);
	const size_t size = size_t{ring.count} * wqe::block_bytes;
	ibv_qp_ex *ex = b.ex();

	const auto their_send = [&] {
		ex->wr_flags = 0;
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, 3, 1, 2);
	};
	std::fill_n(bytes, size, uint8_t{0});
	ibv_wr_start(ex);
	if (in_front)
		their_send();
	ex->wr_flags = flags | t.more_flags;
	t.theirs(ex, b.dv());
	their_send();
	ibv_wr_abort(ex);
	const std::vector<uint8_t> theirs(bytes, bytes + size);
	ASSERT_TRUE(std::any_of(theirs.begin(), theirs.end(), [](uint8_t v) { return v; }));

	std::fill_n(bytes, size, uint8_t{0});
	if (in_front) {
		ASSERT_TRUE(wq.post(wqe::send{wqe::data{1, 2, 3}}));
	}
	ASSERT_TRUE(t.ours(wq, our_flags)) << t.name;
	ASSERT_TRUE(wq.post(wqe::send{wqe::data{1, 2, 3}}));
	const auto differ = std::mismatch(theirs.begin(), theirs.end(), bytes);
	ASSERT_EQ(differ.first - theirs.begin(), static_cast<ptrdiff_t>(size))
		<< t.name << ": libmlx5 writes " << +*differ.first << ", we " << +*differ.second;
}

// At the ring's beginning, and at each place from which a request may go through its end.
void expect_twins_everywhere(Context &c, const Builders &b, const std::vector<Twins> &twins)
{
	const uint32_t count = work_queue::over(*b.qp).value().memory().count;
	uint32_t place = 0;

	b.connect(c);
	for (const Twins &t : twins) {
		expect_twins(b, t);
		expect_twins(b, t, true, IBV_SEND_SIGNALED, wqe::signaled);
		expect_twins(b, t, true, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, wqe::signaled | wqe::solicited);
		expect_twins(b, t, true, IBV_SEND_FENCE, wqe::strong_fence);
	}
	for (const uint32_t next : {count - 9, count - 8, count - 7, count - 6, count - 5, count - 4, count - 3,
				    count - 2, count - 1, count + 1}) {
		for (; place < next; place++)
			b.nothing();
		for (const Twins &t : twins)
			expect_twins(b, t);
	}
}

constexpr uint64_t raddr = 0x1122334455667788;
constexpr uint32_t rkey = 0x99aabbcc;
constexpr wqe::remote peer{raddr, rkey};
constexpr wqe::data pieces[] = {{1, 2, 3}, {4, 5, 6}, {7, 0, 9}, {10, 11, 12}, {13, 14, 15}, {16, 17, 18}};

std::vector<ibv_sge> sges()
{
	std::vector<ibv_sge> list;
	for (const auto &p : pieces)
		list.push_back({p.addr, p.length, p.lkey});
	return list;
}

KTEST(work_queue, "SENDs, WRITEs, READs and atomics are those of libmlx5, byte by byte")
{
	Context c;
	Builders b(c);
	auto list = sges();
	expect_twins_everywhere(
		c, b,
		{
			{"send", [](auto *ex, auto *) { ibv_wr_send(ex), ibv_wr_set_sge(ex, 3, 1, 2); },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::send{wqe::data{1, 2, 3}}, f);
			 }},
			{"empty send", [](auto *ex, auto *) { ibv_wr_send(ex), ibv_wr_set_sge_list(ex, 0, nullptr); },
			 [](auto &wq, uint8_t f) { return wq.post(wqe::send{wqe::nothing{}}, f); }},
			{"send with immediate",
			 [&](auto *ex, auto *) {
				 ibv_wr_send_imm(ex, htobe32(7)), ibv_wr_set_sge_list(ex, 6, list.data());
			 },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::send_imm{7, wqe::pieces{pieces, 6}}, f);
			 }},
			{"send with invalidate",
			 [&](auto *ex, auto *) { ibv_wr_send_inv(ex, 7), ibv_wr_set_sge(ex, 3, 1, 2); },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::send_inval{7, wqe::data{1, 2, 3}}, f);
			 }},
			{"write",
			 [](auto *ex, auto *) { ibv_wr_rdma_write(ex, rkey, raddr), ibv_wr_set_sge(ex, 3, 1, 2); },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::rdma_write{peer, wqe::data{1, 2, 3}}, f);
			 }},
			{"write of several pieces",
			 [&](auto *ex, auto *) {
				 ibv_wr_rdma_write(ex, rkey, raddr), ibv_wr_set_sge_list(ex, 6, list.data());
			 },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::rdma_write{peer, wqe::pieces{pieces, 6}}, f);
			 }},
			{"write with immediate",
			 [](auto *ex, auto *) {
				 ibv_wr_rdma_write_imm(ex, rkey, raddr, htobe32(7)), ibv_wr_set_sge(ex, 3, 1, 2);
			 },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::rdma_write_imm{7, peer, wqe::data{1, 2, 3}}, f);
			 }},
			{"read",
			 [&](auto *ex, auto *) {
				 ibv_wr_rdma_read(ex, rkey, raddr), ibv_wr_set_sge_list(ex, 6, list.data());
			 },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::rdma_read{peer, wqe::pieces{pieces, 6}}, f);
			 }},
			{"compare and swap",
			 [](auto *ex, auto *) {
				 ibv_wr_atomic_cmp_swp(ex, rkey, raddr, 1, 2), ibv_wr_set_sge(ex, 3, 1, 8);
			 },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::compare_swap{peer, 1, 2, {1, 8, 3}}, f);
			 }},
			{"fetch and add",
			 [](auto *ex, auto *) {
				 ibv_wr_atomic_fetch_add(ex, rkey, raddr, 5), ibv_wr_set_sge(ex, 3, 1, 8);
			 },
			 [](auto &wq, uint8_t f) {
				 return wq.post(wqe::fetch_add{peer, 5, {1, 8, 3}}, f);
			 }},
			{"local invalidation", [](auto *ex, auto *) { ibv_wr_local_inv(ex, 0x12345678); },
			 [](auto &wq, uint8_t f) { return wq.post(wqe::local_inval{0x12345678}, f); }},
		});
}

KTEST(work_queue, "so is inline data of any length")
{
	Context c;
	Builders b(c);
	std::vector<uint8_t> bytes(512);
	std::iota(bytes.begin(), bytes.end(), uint8_t{1});

	std::vector<Twins> twins;
	for (uint32_t length : {0u, 1u, 4u, 11u, 12u, 13u, 28u, 29u, 44u, 45u, 100u, 108u, 109u, 333u, 512u})
		twins.push_back(
			{"inline",
			 [&bytes, length](auto *ex, auto *) {
				 ibv_wr_rdma_write(ex, rkey, raddr);
				 ibv_wr_set_inline_data(ex, bytes.data(), length);
			 },
			 [&bytes, length](auto &wq, uint8_t f) {
				 return wq.post(wqe::rdma_write{peer, wqe::inline_bytes{bytes.data(), length}}, f);
			 }});
	expect_twins_everywhere(c, b, twins);
}

// The memory that libmlx5 lets the device scribble on during copies, as its own WQEs name it.
wqe::copy::end scratch_of(const Builders &b)
{
	work_queue wq = work_queue::over(*b.qp).value();

	ibv_wr_start(b.ex());
	mlx5dv_wr_memcpy(b.dv(), 1, 2, 3, 4, 5);
	ibv_wr_abort(b.ex());
	const auto *mmo = reinterpret_cast<const wqe::mmo_seg *>(wq.ctrl_of(0) + 1);
	return {mmo->addr.host(), mmo->lkey.host()};
}

KTEST(work_queue, "so are copies within the host")
{
	Context c;
	Builders b(c);
	const auto scratch = scratch_of(b);

	ASSERT_NE(scratch.addr, 0u);
	std::vector<Twins> twins;
	for (uint64_t length : {UINT64_C(1), UINT64_C(4096), wqe::max_copy - 1, wqe::max_copy})
		twins.push_back({"copy",
				 [length](auto *, auto *dv) { mlx5dv_wr_memcpy(dv, 0x11, 0x22, 0x33, 0x44, length); },
				 [scratch, length](auto &wq, uint8_t f) {
					 return wq.post(wqe::copy({0x22, 0x11}, {0x44, 0x33}, length, scratch), f);
				 }});
	expect_twins_everywhere(c, b, twins);
}

KTEST(work_queue, "so are layouts of mkeys")
{
	Context c;
	Builders b(c);
	Mkey m(b.pd.get());
	if (!m.mkey && !c.is_tally())
		GTEST_SKIP() << "the device makes no mkeys (mlx5dv_create_mkey): " << std::strerror(errno);
	ASSERT_TRUE(m.mkey) << std::strerror(errno);
	constexpr uint16_t most = 20;
	std::vector<mlx5dv_mr_interleaved> strides(most);
	std::vector<wqe::stride> our_strides(most);
	std::vector<ibv_sge> list(most);
	std::vector<wqe::data> our_list(most);
	std::vector<Twins> twins;

	for (uint32_t i = 0; i < most; i++) {
		strides[i] = {.addr = 0x1000 * i, .bytes_count = 10 * i, .bytes_skip = 7, .lkey = i};
		our_strides[i] = {.addr = 0x1000 * i, .bytes = 10 * i, .skip = 7, .lkey = i};
		list[i] = {0x1000 * i, 100 * i, i};
		our_list[i] = {0x1000 * i, 100 * i, i};
	}
	for (uint16_t n = 1; n <= most; n++) {
		twins.push_back(
			{"list",
			 [&, n](auto *, auto *dv) {
				 mlx5dv_wr_mr_list(dv, m.mkey, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, n,
						   list.data());
			 },
			 [&, n](auto &wq, uint8_t f) {
				 return wq.post(wqe::register_list(m.mkey->lkey, wqe::local_write | wqe::remote_atomic,
								   {our_list.data(), n}),
						f);
			 },
			 IBV_SEND_INLINE});
		twins.push_back({"pattern",
				 [&, n](auto *, auto *dv) {
					 mlx5dv_wr_mr_interleaved(dv, m.mkey,
								  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
								  1000, n, strides.data());
				 },
				 [&, n](auto &wq, uint8_t f) {
					 return wq.post(wqe::register_interleaved(m.mkey->lkey,
										  wqe::remote_read | wqe::remote_write,
										  1000, our_strides.data(), n),
							f);
				 },
				 IBV_SEND_INLINE});
	}
	expect_twins_everywhere(c, b, twins);
}

// A QP that is connected to itself and posted to by us.
struct Own : Builders {
	Memory from, to;
	Mr scratch_mr;
	alignas(64) uint8_t scratch[64];
	work_queue wq;
	completion_queue done;

	explicit Own(Context &c)
		: Builders(c), from(pd.get(), 1 << 20), to(pd.get(), 1 << 20),
		  scratch_mr(own<Mr>(ibv_reg_mr(pd.get(), scratch, sizeof(scratch), IBV_ACCESS_LOCAL_WRITE), "reg_mr")),
		  wq(work_queue::over(*qp).value()), done(completion_queue::over(*cq).value())
	{
		connect(c);
		from.pattern(1);
	}
	wqe::data source(uint32_t length, size_t at = 0) const { return {from.addr(at), length, from.lkey()}; }
	wqe::data sink(uint32_t length, size_t at = 0) const { return {to.addr(at), length, to.lkey()}; }
	wqe::remote remote(size_t at = 0) const { return {to.addr(at), to.rkey()}; }
	wqe::copy copy(uint64_t length, size_t at = 0) const
	{
		return {{to.addr(at), to.lkey()},
			{from.addr(), from.lkey()},
			length,
			{reinterpret_cast<uintptr_t>(scratch), scratch_mr->lkey}};
	}
	// One completion, which must come; frees the slots.
	completion wait()
	{
		std::optional<completion> d;
		if (!eventually([&] { return (d = done.poll()).has_value(); }))
			fail("no completion", ETIMEDOUT);
		if (d->kind == MLX5_CQE_REQ || d->kind == MLX5_CQE_REQ_ERR) {
			EXPECT_TRUE(wq.completed(d->index));
		}
		return *d;
	}
};

KTEST(work_queue, "a batch of all kinds goes with one doorbell and arrives")
{
	Context c;
	Own o(c);

	post_recv(o.qp.get(), {o.to.sge(8192, 64)}, 5);
	std::memset(o.from.data() + 4096, 0, 8);
	ASSERT_TRUE(o.wq.post(wqe::rdma_write{o.remote(), o.source(1000)}));
	ASSERT_TRUE(o.wq.post(wqe::rdma_write{o.remote(1000), wqe::inline_bytes{o.from.data() + 1000, 300}}));
	ASSERT_TRUE(o.wq.post(wqe::rdma_read{{o.from.addr(), o.from.rkey()}, o.sink(500, 2000)}));
	ASSERT_TRUE(o.wq.post(wqe::fetch_add{{o.from.addr(4096), o.from.rkey()}, 42, o.sink(8, 3000)}));
	ASSERT_TRUE(o.wq.post(wqe::compare_swap{{o.from.addr(4096), o.from.rkey()}, 42, 43, o.sink(8, 3008)}));
	ASSERT_TRUE(o.wq.post(wqe::send_imm{99, o.source(64)}));
	const auto last = o.wq.post(wqe::nop{}, wqe::signaled | wqe::strong_fence);
	EXPECT_FALSE(o.done.poll());
	o.wq.ring();

	bool received = false, sent = false;
	while (!received || !sent) {
		const completion d = o.wait();
		ASSERT_TRUE(d.ok());
		EXPECT_EQ(d.qpn, o.qp->qp_num);
		if (d.kind == MLX5_CQE_REQ) {
			EXPECT_EQ(d.index, last.index);
			EXPECT_EQ(d.opcode, wqe::op_nop);
			sent = true;
		} else {
			EXPECT_EQ(d.kind, MLX5_CQE_RESP_SEND_IMM);
			EXPECT_EQ(d.bytes, 64u);
			EXPECT_EQ(d.imm, 99u);
			received = true;
		}
	}
	EXPECT_EQ(o.wq.room(), o.wq.memory().count);
	EXPECT_EQ(std::memcmp(o.to.data(), o.from.data(), 1300), 0);
	EXPECT_EQ(std::memcmp(o.to.data() + 2000, o.from.data(), 500), 0);
	EXPECT_EQ(std::memcmp(o.to.data() + 8192, o.from.data(), 64), 0);
	uint64_t old[2], now;
	std::memcpy(old, o.to.data() + 3000, sizeof(old));
	std::memcpy(&now, o.from.data() + 4096, sizeof(now));
	EXPECT_EQ(old[0], 0u);
	EXPECT_EQ(old[1], 42u);
	EXPECT_EQ(now, 43u);
}

KTEST(work_queue, "requests of one to nine blocks go round the ring many times")
{
	Context c;
	Own o(c);
	uint32_t blocks = 0;

	for (uint32_t i = 0; blocks < 70000; i++) {
		const uint32_t length = 1 + i * 37 % 500;
		std::memset(o.to.data(), 0, 512);
		const auto p = o.wq.post(
			wqe::rdma_write{o.remote(), wqe::inline_bytes{o.from.data() + i % 999, length}}, wqe::signaled);
		ASSERT_TRUE(p);
		EXPECT_EQ(p.index, static_cast<uint16_t>(blocks));
		blocks += wqe::blocks_of(2 + (4 + length + 15) / 16);
		o.wq.ring();
		const completion d = o.wait();
		ASSERT_TRUE(d.ok());
		ASSERT_EQ(d.index, p.index);
		ASSERT_EQ(std::memcmp(o.to.data(), o.from.data() + i % 999, length), 0) << i;
		ASSERT_EQ(o.to.data()[length], 0);
	}
}

KTEST(work_queue, "a full ring takes nothing more, and all again when it is completed")
{
	Context c;
	Own o(c);

	for (int round = 0; round < 3; round++) {
		uint32_t n = 0;
		for (;; n++) {
			const auto p = o.wq.post(wqe::rdma_write{o.remote(n), o.source(1, n)},
						 n + 1 == o.wq.memory().count ? wqe::signaled : 0);
			if (!p) {
				EXPECT_EQ(p.what, posted::full);
				break;
			}
		}
		EXPECT_EQ(n, o.wq.memory().count);
		o.wq.ring();
		ASSERT_TRUE(o.wait().ok());
		EXPECT_EQ(std::memcmp(o.to.data(), o.from.data(), n), 0);
	}
}

KTEST(work_queue, "a fenced WRITE behind a copy carries what was copied")
{
	Context c;
	Own o(c);
	Memory last(o.pd.get(), 1 << 20);

	ASSERT_TRUE(o.wq.post(o.copy(500000)));
	ASSERT_TRUE(o.wq.post(wqe::rdma_write{wqe::remote{last.addr(), last.rkey()}, o.sink(500000)},
			      wqe::signaled | wqe::strong_fence));
	o.wq.ring();
	ASSERT_TRUE(o.wait().ok());
	EXPECT_EQ(std::memcmp(last.data(), o.from.data(), 500000), 0);
}

KTEST(work_queue, "an error names its request, and those behind it are flushed")
{
	Context c;
	Own o(c);

	ASSERT_TRUE(o.wq.post(wqe::rdma_write{o.remote(), o.source(10)}));
	const auto bad = o.wq.post(wqe::rdma_write{wqe::remote{o.to.addr(), o.to.rkey() + 256}, o.source(10)});
	const auto behind = o.wq.post(wqe::send{wqe::nothing{}});
	o.wq.ring();
	completion d = o.wait();
	EXPECT_EQ(d.kind, MLX5_CQE_REQ_ERR);
	EXPECT_EQ(d.syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	EXPECT_EQ(d.index, bad.index);
	d = o.wait();
	EXPECT_EQ(d.syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	EXPECT_EQ(d.index, behind.index);
	EXPECT_EQ(std::memcmp(o.to.data(), o.from.data(), 10), 0);
}

KTEST(work_queue, "after RESET it begins anew")
{
	Context c;
	Own o(c);

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++)
			ASSERT_TRUE(o.wq.post(wqe::rdma_write{o.remote(), o.source(10)}, i == 4 ? wqe::signaled : 0));
		o.wq.ring();
		const completion d = o.wait();
		ASSERT_TRUE(d.ok());
		EXPECT_EQ(d.index, 4);
		must(to_reset(o.qp.get()), "reset");
		o.connect(c);
		o.wq.restart();
	}
}

KTEST(work_queue, "a device of another driver is refused")
{
	const char *name = std::getenv("TALLY_PLAIN_DEVICE");
	if (!name)
		GTEST_SKIP() << "no device of another driver (TALLY_PLAIN_DEVICE)";
	Context c(name);
	Pair p(c, {}, false);

	EXPECT_EQ(work_queue::over(*p.a.qp).error(), std::errc::operation_not_supported);
	EXPECT_EQ(completion_queue::over(*p.a.scq).error(), std::errc::operation_not_supported);
}

} // namespace
