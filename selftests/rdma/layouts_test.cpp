// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keys that stand for lists and patterns of memory, registered by work requests of libmlx5; and memory windows.
#include "layouts.hpp"

#include <endian.h>

using namespace rdma;

namespace {

constexpr unsigned depth_limit = 4; // of keys of keys

uint32_t max_inline(ibv_qp *qp)
{
	ibv_qp_attr a{};
	ibv_qp_init_attr i{};
	must(ibv_query_qp(qp, &a, IBV_QP_CAP, &i), "query_qp");
	return i.cap.max_inline_data;
}

// Two connected ends, each with a key to lay out: la over a's memory, lb over b's.
struct Layouts : Pair {
	Mkey la, lb;

	explicit Layouts(Context &ctx, const QpOptions &opt = dv_options())
	    : Pair(ctx, opt), la(a.pd.get()), lb(b.pd.get(), 16, MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE)
	{
		a.mem->pattern(1);
		b.mem->pattern(2);
	}
	void list_a(const Pieces &l, uint32_t access = all_access) { register_list(a, la, l, access); }
	void list_b(const Pieces &l, uint32_t access = all_access) { register_list(b, lb, l, access); }

	void write(ibv_sge from, uint64_t to, uint32_t rkey)
	{
		Wr(IBV_WR_RDMA_WRITE, {&from, 1}).remote(to, rkey).post(a.qp.get());
	}
	// A WRITE that must fail, and change nothing.
	void expect_refused(ibv_sge from, uint64_t to, uint32_t rkey, ibv_wc_status status)
	{
		const Picture before(*b.mem);
		write(from, to, rkey);
		EXPECT_EQ(expect_wc(a.scq.get()).status, status);
		EXPECT_EQ(state_of(a.qp.get()), IBV_QPS_ERR);
		EXPECT_TRUE(before.matches()) << "a request that fails has written";
	}
	void expect_refused_local(ibv_sge from) { expect_refused(from, b.mem->addr(), b.mem->rkey(), IBV_WC_LOC_PROT_ERR); }
	void expect_refused_remote(uint64_t to, uint32_t rkey, size_t len = 8)
	{
		expect_refused(a.mem->sge(0, len), to, rkey, IBV_WC_REM_ACCESS_ERR);
	}
};

// ---- making the QP ----

KTEST(work_requests, "what a QP's type cannot do makes its creation fail with ENOTSUP")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	const struct {
		const char *what;
		ibv_qp_type type;
		uint64_t ops, dv_ops;
	} cases[] = {
	    {"segmentation on RC", IBV_QPT_RC, IBV_QP_EX_WITH_TSO, 0},
	    {"READ on UC", IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ, 0},
	    {"an atomic on UC", IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, 0},
	    {"WRITE on UD", IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE, 0},
	    {"invalidation on UD", IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV, 0},
	    {"lists on UC", IBV_QPT_UC, IBV_QP_EX_WITH_SEND, MLX5DV_QP_EX_WITH_MR_LIST},
	    {"patterns on UD", IBV_QPT_UD, IBV_QP_EX_WITH_SEND, MLX5DV_QP_EX_WITH_MR_INTERLEAVED},
	    {"copies on UC", IBV_QPT_UC, IBV_QP_EX_WITH_SEND, MLX5DV_QP_EX_WITH_MEMCPY},
	    {"copies on UD", IBV_QPT_UD, IBV_QP_EX_WITH_SEND, MLX5DV_QP_EX_WITH_MEMCPY},
	    {"patterns on a DCI", IBV_QPT_DRIVER, IBV_QP_EX_WITH_SEND, MLX5DV_QP_EX_WITH_MR_INTERLEAVED},
	    {"key configuration on a DCI", IBV_QPT_DRIVER, IBV_QP_EX_WITH_SEND, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE},
	    {"what nobody knows", IBV_QPT_RC, IBV_QP_EX_WITH_SEND, UINT64_C(1) << 40},
	};
	for (auto &k : cases) {
		errno = 0;
		Qp qp(try_dv_qp(pd.get(), cq.get(), cq.get(), dv_options(k.dv_ops, k.ops, k.type)));
		EXPECT_EQ(qp, nullptr) << k.what;
		EXPECT_EQ(errno, ENOTSUP) << k.what;
	}
}

KTEST(work_requests, "every type is made with all that it can do, and gives both handles")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	const uint64_t datagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t unreliable = datagram | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	const struct {
		ibv_qp_type type;
		uint64_t ops, dv_ops;
	} cases[] = {
	    {IBV_QPT_RC, every_send_op, layout_ops | MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MEMCPY},
	    {IBV_QPT_UC, unreliable, MLX5DV_QP_EX_WITH_RAW_WQE},
	    {IBV_QPT_UD, datagram, MLX5DV_QP_EX_WITH_RAW_WQE},
	    {IBV_QPT_XRC_SEND, every_send_op, MLX5DV_QP_EX_WITH_RAW_WQE},
	    {IBV_QPT_DRIVER, every_send_op, MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MEMCPY},
	};
	for (auto &k : cases) {
		Qp qp(try_dv_qp(pd.get(), cq.get(), cq.get(), dv_options(k.dv_ops, k.ops, k.type)));
		ASSERT_NE(qp, nullptr) << "type " << k.type << ": " << strerror(errno);
		ASSERT_NE(ex(qp.get()), nullptr);
		EXPECT_EQ(&ex(qp.get())->qp_base, qp.get());
		EXPECT_NE(dv(qp.get()), nullptr);
	}
	Qp plain = create_qp(pd.get(), cq.get(), cq.get());
	EXPECT_EQ(ibv_qp_to_qp_ex(plain.get()), nullptr) << "no builders were asked for";
}

// ---- lists and patterns ----

KTEST(layouts, "a list is gathered from address 0 on, as one piece")
{
	Context c;
	Layouts p(c);
	const Pieces l = pieces(*p.a.mem);
	const size_t n = sum(l);
	const Bytes data = joined(l);

	p.list_a(l);
	Picture b(*p.b.mem);
	b.scatter({p.b.mem->sge(77, n)}, data);
	p.write(p.la.sge(0, n), p.b.mem->addr(77), p.b.mem->rkey());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(b.matches());

	// From its middle on, over the border between two pieces.
	b.scatter({p.b.mem->sge(500000, 300)}, std::span(data).subspan(4000, 300));
	p.write(p.la.sge(4000, 300), p.b.mem->addr(500000), p.b.mem->rkey());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(b.matches());
}

KTEST(layouts, "a list is scattered by an incoming WRITE, and gathered by an incoming READ")
{
	Context c;
	Layouts p(c);
	const Pieces l = pieces(*p.b.mem);
	const size_t n = sum(l);

	p.list_b(l);
	Picture b(*p.b.mem);
	b.scatter(l, p.a.mem->bytes().subspan(5, n));
	p.write(p.a.mem->sge(5, n), 0, p.lb.rkey());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(b.matches());

	p.b.mem->pattern(9);
	Picture a(*p.a.mem);
	ibv_sge into = p.a.mem->sge(300000, n);
	a.scatter({into}, joined(l));
	Wr(IBV_WR_RDMA_READ, {&into, 1}).remote(0, p.lb.rkey()).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(a.matches());
}

KTEST(layouts, "a matrix column is gathered by one WRITE")
{
	constexpr size_t rows = 128, row = 1024, column = 100, width = 64;
	Context c;
	Layouts p(c);
	Bytes want;

	register_pattern(p.a, p.la, rows, {{p.a.mem->addr(column), width, row - width, p.a.mem->lkey()}});
	for (size_t r = 0; r < rows; r++)
		want.insert(want.end(), p.a.mem->data() + r * row + column, p.a.mem->data() + r * row + column + width);
	Picture b(*p.b.mem);
	b.scatter({p.b.mem->sge(3, want.size())}, want);
	p.write(p.la.sge(0, want.size()), p.b.mem->addr(3), p.b.mem->rkey());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(b.matches());
}

KTEST(layouts, "a pattern of several entries takes a piece of each in turn, and its length is that of all rounds")
{
	constexpr uint32_t rounds = 50;
	Context c;
	Layouts p(c);
	const Blocks blocks = {{p.b.mem->addr(0), 10, 6, p.b.mem->lkey()},
			       {p.b.mem->addr(10001), 3, 0, p.b.mem->lkey()},
			       {p.b.mem->addr(50000), 300, 1000, p.b.mem->lkey()}};
	const Pieces l = pieces_of(rounds, blocks);

	register_pattern(p.b, p.lb, rounds, blocks);
	const size_t n = rounds * (10 + 3 + 300);
	ASSERT_EQ(sum(l), n);
	Picture b(*p.b.mem);
	b.scatter(l, p.a.mem->bytes().first(n));
	p.write(p.a.mem->sge(0, n), 0, p.lb.rkey());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(b.matches());
	p.expect_refused_remote(1, p.lb.rkey(), n);
}

KTEST(layouts, "a registration needs IBV_SEND_INLINE, and is silent when it is not signaled")
{
	Context c;
	Layouts p(c);

	EXPECT_EQ(post_list(p.a.qp.get(), p.la, {p.a.mem->sge(0, 8)}, all_access, IBV_SEND_SIGNALED), EOPNOTSUPP);
	EXPECT_EQ(post_pattern(p.a.qp.get(), p.la, 2, {{p.a.mem->addr(), 8, 8, p.a.mem->lkey()}}, all_access,
			       IBV_SEND_SIGNALED),
		  EOPNOTSUPP);
	must(post_list(p.a.qp.get(), p.la, {p.a.mem->sge(50, 8)}, all_access, IBV_SEND_INLINE), "mr_list");
	p.write(p.la.sge(0, 8), p.b.mem->addr(), p.b.mem->rkey());
	ibv_wc wc = expect_wc(p.a.scq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	EXPECT_TRUE(empty(p.a.scq.get()));
	EXPECT_EQ(std::memcmp(p.b.mem->data(), p.a.mem->data() + 50, 8), 0);
}

KTEST(layouts, "a QP made for more inline data takes more entries, and one that was not refuses them when posted")
{
	Context c;
	QpOptions small = dv_options(), large = dv_options();
	large.max_inline = 512;
	Layouts p(c, small), q(c, large);
	const Pieces l(30, p.a.mem->sge(0, 8));
	Mkey pk(p.a.pd.get(), 64), qk(q.a.pd.get(), 64);

	EXPECT_EQ(post_list(p.a.qp.get(), pk, l), ENOMEM);
	EXPECT_EQ(post_pattern(p.a.qp.get(), pk, 2, Blocks(30, {p.a.mem->addr(), 8, 8, p.a.mem->lkey()})), ENOMEM);
	// At the border: as many as its inline data with the header of that, of which a pattern's own header takes one.
	const size_t most = (max_inline(p.a.qp.get()) + sizeof(mlx5_wqe_inl_data_seg)) / sizeof(mlx5_wqe_data_seg);
	ASSERT_GE(most, 4u);
	EXPECT_EQ(post_list(p.a.qp.get(), pk, Pieces(most + 1, p.a.mem->sge(0, 8))), ENOMEM);
	register_list(p.a, pk, Pieces(most, p.a.mem->sge(0, 8)));
	EXPECT_EQ(post_pattern(p.a.qp.get(), pk, 2, Blocks(most, {p.a.mem->addr(), 8, 8, p.a.mem->lkey()})), ENOMEM);
	register_pattern(p.a, pk, 2, Blocks(most - 1, {p.a.mem->addr(), 8, 8, p.a.mem->lkey()}));

	Pieces many;
	for (size_t i = 0; i < 30; i++)
		many.push_back(q.a.mem->sge(i * 1000 + i, 20 + i));
	register_list(q.a, qk, many);
	const Bytes want = joined(many);
	q.write(qk.sge(0, want.size()), q.b.mem->addr(), q.b.mem->rkey());
	ASSERT_EQ(expect_wc(q.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(std::equal(want.begin(), want.end(), q.b.mem->data()));

	Blocks blocks;
	for (size_t i = 0; i < 30; i++)
		blocks.push_back({q.a.mem->addr(i * 1000), 4, 4, q.a.mem->lkey()});
	register_pattern(q.a, qk, 7, blocks);
	q.write(qk.sge(30 * 4 * 6, 30 * 4), q.b.mem->addr(), q.b.mem->rkey());
	ASSERT_EQ(expect_wc(q.a.scq.get()).status, IBV_WC_SUCCESS);
	for (size_t i = 0; i < 30; i++)
		EXPECT_EQ(std::memcmp(q.b.mem->data() + i * 4, q.a.mem->data() + i * 1000 + 6 * 8, 4), 0) << i;
}

KTEST(layouts, "a key has room for the entries it was made for, of which a pattern's header takes one")
{
	Context c;
	QpOptions o = dv_options();
	o.max_inline = 512;
	Layouts p(c, o);
	Mkey four(p.a.pd.get(), 4);

	EXPECT_EQ(post_list(p.a.qp.get(), four, Pieces(5, p.a.mem->sge(0, 8))), ENOMEM);
	register_list(p.a, four, Pieces(4, p.a.mem->sge(0, 8)));
	register_pattern(p.a, four, 2, Blocks(3, {p.a.mem->addr(), 8, 8, p.a.mem->lkey()}));
	must(post_pattern(p.a.qp.get(), four, 2, Blocks(4, {p.a.mem->addr(), 8, 8, p.a.mem->lkey()})), "post");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_MW_BIND_ERR);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_ERR);
}

KTEST(layouts, "a registration goes among other requests of one post, and those behind it use it")
{
	Context c;
	Layouts p(c);
	const Pieces l = pieces(*p.a.mem);
	const size_t n = sum(l);
	Pieces other = {p.a.mem->sge(500000, 10), p.a.mem->sge(600000, 20)};
	Pieces first = l;

	must(post(p.a.qp.get(), [&](ibv_qp_ex *e, mlx5dv_qp_ex *d) {
		auto write = [&](size_t at, size_t len) {
			e->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(e, p.b.mem->rkey(), p.b.mem->addr(at));
			ibv_wr_set_sge(e, p.la.lkey(), 0, static_cast<uint32_t>(len));
		};
		e->wr_flags = IBV_SEND_INLINE;
		mlx5dv_wr_mr_list(d, p.la.get(), all_access, static_cast<uint16_t>(first.size()), first.data());
		write(0, n);
		e->wr_flags = IBV_SEND_INLINE;
		mlx5dv_wr_mr_list(d, p.la.get(), all_access, static_cast<uint16_t>(other.size()), other.data());
		write(200000, 30);
	}), "complete");
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(empty(p.a.scq.get()));
	const Bytes want = joined(l), then = joined(other);
	EXPECT_TRUE(std::equal(want.begin(), want.end(), p.b.mem->data()));
	EXPECT_TRUE(std::equal(then.begin(), then.end(), p.b.mem->data() + 200000));
}

KTEST(layouts, "the next registration takes the place of the last, whether that was invalidated or not")
{
	Context c;
	Layouts p(c);

	for (size_t round = 0; round < 20; round++) {
		const Pieces l = {p.b.mem->sge(round * 1000, 100 + round), p.b.mem->sge(400000 + round, 7)};
		const size_t n = sum(l);

		if (round % 4 == 3)
			register_pattern(p.b, p.lb, 1, {{l[0].addr, l[0].length, 0, l[0].lkey}, {l[1].addr, 7, 5, l[1].lkey}});
		else
			p.list_b(l);
		Picture b(*p.b.mem);
		b.scatter(l, p.a.mem->bytes().subspan(round, n));
		p.write(p.a.mem->sge(round, n), 0, p.lb.rkey());
		ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
		ASSERT_TRUE(b.matches()) << "round " << round;
		if (round % 2) {
			must(post_local_inv(p.b.qp.get(), p.lb.rkey()), "local_inv");
			ibv_wc wc = expect_wc(p.b.scq.get());
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
		}
	}
}

KTEST(layouts, "a key answers with an error before its first registration and after an invalidation")
{
	Context c;
	for (bool invalidated : {false, true}) {
		Layouts p(c);
		if (invalidated) {
			p.list_a({p.a.mem->sge(0, 64)});
			must(post_local_inv(p.a.qp.get(), p.la.rkey()), "local_inv");
			EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
		}
		p.expect_refused_local(p.la.sge(0, 8));
	}
	for (bool invalidated : {false, true}) {
		Layouts p(c);
		if (invalidated) {
			p.list_b({p.b.mem->sge(0, 64)});
			must(post_local_inv(p.b.qp.get(), p.lb.rkey()), "local_inv");
			EXPECT_EQ(expect_wc(p.b.scq.get()).status, IBV_WC_SUCCESS);
		}
		p.expect_refused_remote(0, p.lb.rkey());
		EXPECT_EQ(state_of(p.b.qp.get()), IBV_QPS_ERR);
	}
}

// ---- in every operation ----

KTEST(layouts, "SEND gathers by one key and the receive scatters by another")
{
	Context c;
	Layouts p(c);
	const Pieces from = pieces(*p.a.mem);
	const Pieces to = {p.b.mem->sge(3, 5), p.b.mem->sge(70000, 90000), p.b.mem->sge(8191, 2)};
	const size_t n = sum(from);

	p.list_a(from);
	p.list_b(to);
	Picture b(*p.b.mem);
	b.scatter(to, joined(from));
	post_recv(p.b.qp.get(), {p.lb.sge(0, sum(to))});
	ibv_sge sge = p.la.sge(0, n);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, n);
	EXPECT_TRUE(b.matches());
}

KTEST(layouts, "a receive of a shared queue scatters by a key")
{
	Context c;
	Pd pd = alloc_pd(c);
	Srq srq = create_srq(pd.get());
	Memory mem(pd.get(), 1 << 20);
	QpOptions o = dv_options();
	o.srq = srq.get();
	Layouts p(c, o);
	Mkey k(pd.get());
	const Pieces to = pieces(mem);
	const size_t n = sum(to);

	register_for(c, pd.get(), k, to);
	Picture picture(mem);
	picture.scatter(to, p.a.mem->bytes().first(n));
	post_srq_recv(srq.get(), {k.sge(0, n)}, 5);
	ibv_sge sge = p.a.mem->sge(0, n);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.wr_id, 5u);
	EXPECT_TRUE(picture.matches());
	p.b.qp.reset();
}

KTEST(layouts, "READ scatters what it brings by a key")
{
	Context c;
	Layouts p(c);
	const Pieces to = pieces(*p.a.mem);
	const size_t n = sum(to);

	p.list_a(to);
	Picture a(*p.a.mem);
	a.scatter(to, p.b.mem->bytes().subspan(11, n));
	ibv_sge sge = p.la.sge(0, n);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(p.b.mem->addr(11), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(a.matches());
}

KTEST(layouts, "an atomic reaches the word behind a key, and puts the old value behind another")
{
	Context c;
	Layouts p(c);
	uint64_t word = 40, old = 0;

	std::memcpy(p.b.mem->data() + 4096, &word, 8);
	p.list_a({p.a.mem->sge(100, 3), p.a.mem->sge(200, 5)});
	p.list_b({p.b.mem->sge(0, 16), p.b.mem->sge(4096, 8)});
	ibv_sge sge = p.la.sge(0, 8);
	Wr(IBV_WR_ATOMIC_FETCH_AND_ADD, {&sge, 1}).atomic(16, p.lb.rkey(), 2).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	std::memcpy(&word, p.b.mem->data() + 4096, 8);
	EXPECT_EQ(word, 42u);
	std::memcpy(&old, p.a.mem->data() + 100, 3);
	std::memcpy(reinterpret_cast<uint8_t *>(&old) + 3, p.a.mem->data() + 200, 5);
	EXPECT_EQ(old, 40u);

	Wr(IBV_WR_ATOMIC_CMP_AND_SWP, {&sge, 1}).atomic(16, p.lb.rkey(), 42, 7).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	std::memcpy(&word, p.b.mem->data() + 4096, 8);
	EXPECT_EQ(word, 7u);
}

KTEST(layouts, "mlx5dv_wr_memcpy() gathers by one key and scatters by another")
{
	Context c;
	Layouts p(c, dv_options(layout_ops | MLX5DV_QP_EX_WITH_MEMCPY));
	Mkey k(p.a.pd.get());
	Memory mem(p.a.pd.get(), 1 << 20);
	const Pieces from = pieces(*p.a.mem), to = {mem.sge(1, 70000), mem.sge(200000, 4000), mem.sge(300001, 125)};
	const size_t n = sum(from);

	ASSERT_EQ(sum(to), n);
	p.list_a(from);
	register_list(p.a, k, to);
	Picture picture(mem);
	picture.scatter(to, joined(from));
	must(post(p.a.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_memcpy(d, k.lkey(), 0, p.la.lkey(), 0, n);
	}), "memcpy");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(picture.matches());
}

// ---- what is refused ----

KTEST(layouts, "behind a key's end there is nothing")
{
	Context c;
	{
		Layouts p(c);
		p.list_a({p.a.mem->sge(0, 60), p.a.mem->sge(1000, 40)});
		p.expect_refused_local(p.la.sge(1, 100));
	}
	{
		Layouts p(c);
		p.list_b({p.b.mem->sge(0, 60), p.b.mem->sge(1000, 40)});
		p.expect_refused_remote(1, p.lb.rkey(), 100);
	}
	Layouts p(c);
	register_pattern(p.a, p.la, 10, {{p.a.mem->addr(), 10, 5, p.a.mem->lkey()}});
	p.expect_refused_local(p.la.sge(0, 101));
}

KTEST(layouts, "a key gives no more access than was registered")
{
	Context c;
	{
		Layouts p(c);
		p.list_b({p.b.mem->sge(0, 64)}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
		p.expect_refused_remote(0, p.lb.rkey());
	}
	{
		Layouts p(c);
		p.list_b({p.b.mem->sge(0, 64)}, IBV_ACCESS_LOCAL_WRITE);
		ibv_sge sge = p.a.mem->sge(0, 8);
		Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(0, p.lb.rkey()).post(p.a.qp.get());
		EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_REM_ACCESS_ERR);
	}
	{
		Layouts p(c);
		p.list_b({p.b.mem->sge(0, 64)}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		ibv_sge sge = p.a.mem->sge(0, 8);
		Wr(IBV_WR_ATOMIC_FETCH_AND_ADD, {&sge, 1}).atomic(0, p.lb.rkey(), 1).post(p.a.qp.get());
		EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_REM_ACCESS_ERR);
	}
	Layouts p(c);
	p.list_a({p.a.mem->sge(0, 64)}, IBV_ACCESS_REMOTE_READ);
	ibv_sge sge = p.la.sge(0, 8);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_LOC_PROT_ERR);
}

KTEST(layouts, "nor more than the memory below allows, and then not even the pieces before are written")
{
	Context c;
	Layouts p(c);
	Memory readable(p.b.pd.get(), 4096, IBV_ACCESS_REMOTE_READ);

	p.list_b({p.b.mem->sge(0, 100000), readable.sge(0, 64)});
	p.expect_refused_remote(0, p.lb.rkey(), 100064);
	EXPECT_TRUE(std::all_of(readable.data(), readable.data() + 64, [](uint8_t v) { return v == 0; }));
}

KTEST(layouts, "memory of another protection domain, or that is gone, is no part of a key")
{
	Context c;
	Pd other = alloc_pd(c);
	Memory far(other.get(), 4096);
	for (bool gone : {false, true}) {
		Layouts p(c);
		Memory own(p.b.pd.get(), 4096);
		p.list_b({p.b.mem->sge(0, 64), gone ? own.sge(0, 64) : far.sge(0, 64)});
		if (gone)
			own.dereg();
		p.expect_refused_remote(0, p.lb.rkey(), 128);
	}
	Layouts p(c);
	p.list_a({p.a.mem->sge(0, 64), far.sge(0, 64)});
	p.expect_refused_local(p.la.sge(0, 128));
}

KTEST(layouts, "a QP lays out no key of another protection domain, and no key of plain memory")
{
	Context c;
	Pd other = alloc_pd(c);
	Mkey far(other.get());
	Layouts p(c);

	must(post_list(p.a.qp.get(), far, {p.a.mem->sge(0, 8)}), "mr_list");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_MW_BIND_ERR);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_ERR);

	Layouts q(c);
	must(post_local_inv(q.a.qp.get(), q.a.mem->rkey()), "local_inv");
	EXPECT_NE(expect_wc(q.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(state_of(q.a.qp.get()), IBV_QPS_ERR);
}

KTEST(layouts, "keys of keys work to a depth of 4, and no deeper")
{
	Context c;
	for (unsigned depth = 1; depth <= depth_limit + 1; depth++) {
		Layouts p(c);
		std::vector<std::unique_ptr<Mkey>> keys;
		Pieces below{p.a.mem->sge(3, 50), p.a.mem->sge(1003, 50)};
		Bytes want = joined(below);

		for (unsigned i = 0; i < depth; i++) {
			Mkey &k = *keys.emplace_back(std::make_unique<Mkey>(p.a.pd.get()));
			register_list(p.a, k, below);
			// The halves change places on each level.
			below = {k.sge(50, 50), k.sge(0, 50)};
			if (i)
				std::rotate(want.begin(), want.begin() + 50, want.end());
		}
		if (depth > depth_limit) {
			p.expect_refused_local(keys.back()->sge(0, 100));
		} else {
			p.write(keys.back()->sge(0, 100), p.b.mem->addr(), p.b.mem->rkey());
			ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS) << "depth " << depth;
			EXPECT_TRUE(std::equal(want.begin(), want.end(), p.b.mem->data())) << "depth " << depth;
		}
		while (!keys.empty())
			keys.pop_back();
	}
}

// ---- configured by setters ----

KTEST(layouts, "mlx5dv_wr_mkey_configure() with setters does what the builders do, and what is not set stays")
{
	Context c;
	Layouts p(c);
	const Pieces l = {p.b.mem->sge(5, 20), p.b.mem->sge(500, 44)};
	mlx5dv_mkey_conf_attr conf{};

	must(post(p.b.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_mkey_configure(d, p.lb.get(), 2, &conf);
		mlx5dv_wr_set_mkey_access_flags(d, all_access);
		mlx5dv_wr_set_mkey_layout_list(d, 2, l.data());
	}, umr_flags), "configure");
	expect_registered(p.b.scq.get());
	Picture b(*p.b.mem);
	b.scatter(l, p.a.mem->bytes().first(64));
	p.write(p.a.mem->sge(0, 64), 0, p.lb.rkey());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(b.matches());

	// Another layout, with the access as it was.
	const mlx5dv_mr_interleaved block = {p.b.mem->addr(9000), 8, 8, p.b.mem->lkey()};
	must(post(p.b.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_mkey_configure(d, p.lb.get(), 1, &conf);
		mlx5dv_wr_set_mkey_layout_interleaved(d, 4, 1, &block);
	}, umr_flags), "configure");
	expect_registered(p.b.scq.get());
	Pieces column;
	for (size_t i = 0; i < 4; i++)
		column.push_back(p.b.mem->sge(9000 + i * 16, 8));
	b.scatter(column, p.a.mem->bytes().subspan(100, 32));
	p.write(p.a.mem->sge(100, 32), 0, p.lb.rkey());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(b.matches());

	// Another access, with the layout as it was.
	must(post(p.b.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_mkey_configure(d, p.lb.get(), 1, &conf);
		mlx5dv_wr_set_mkey_access_flags(d, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	}, umr_flags), "configure");
	expect_registered(p.b.scq.get());
	ibv_sge sge = p.a.mem->sge(200, 32);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(0, p.lb.rkey()).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(p.a.mem->data() + 200, p.a.mem->data() + 100, 32), 0);
	p.expect_refused_remote(0, p.lb.rkey());
}

KTEST(layouts, "a setter that is given twice, or access that no key has, is refused when posted")
{
	Context c;
	Layouts p(c);
	mlx5dv_mkey_conf_attr conf{};

	EXPECT_EQ(post(p.a.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_mkey_configure(d, p.la.get(), 2, &conf);
		mlx5dv_wr_set_mkey_access_flags(d, IBV_ACCESS_LOCAL_WRITE);
		mlx5dv_wr_set_mkey_access_flags(d, IBV_ACCESS_LOCAL_WRITE);
	}, umr_flags), EINVAL);
	EXPECT_EQ(post_list(p.a.qp.get(), p.la, {p.a.mem->sge(0, 8)}, IBV_ACCESS_ON_DEMAND), EINVAL);
	p.list_a({p.a.mem->sge(0, 8)});
}

// ---- freed by the peer ----

KTEST(layouts, "SEND with invalidate frees a key that was made for it, and the receiver learns which")
{
	Context c;
	Layouts p(c);

	p.list_b({p.b.mem->sge(0, 64)});
	post_recv(p.b.qp.get(), {p.b.mem->sge(1000, 8)});
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_SEND_WITH_INV, {&sge, 1}).invalidate(p.lb.rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	EXPECT_EQ(wc.invalidated_rkey, p.lb.rkey());
	// Free for the next registration, and until then for nothing.
	p.list_b({p.b.mem->sge(64, 64)});
	p.write(p.a.mem->sge(0, 8), 0, p.lb.rkey());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	post_recv(p.b.qp.get(), {p.b.mem->sge(1000, 8)});
	Wr(IBV_WR_SEND_WITH_INV, {&sge, 1}).invalidate(p.lb.rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	expect_wc(p.b.rcq.get());
	p.expect_refused_remote(0, p.lb.rkey());
}

KTEST(layouts, "SEND with invalidate of a key that was not made for it is an error, and leaves the key alone")
{
	Context c;
	Layouts p(c);
	Mkey own(p.b.pd.get());

	register_list(p.b, own, {p.b.mem->sge(0, 64)});
	post_recv(p.b.qp.get(), {p.b.mem->sge(1000, 8)});
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_SEND_WITH_INV, {&sge, 1}).invalidate(own.rkey()).post(p.a.qp.get());
	EXPECT_NE(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_ERR);

	// It still is what it was.
	must(to_reset(p.a.qp.get()), "reset");
	must(to_reset(p.b.qp.get()), "reset");
	while (!empty(p.b.rcq.get()))
		;
	p.connect();
	p.write(p.a.mem->sge(0, 8), 0, own.rkey());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
}

// ---- memory windows ----

Mw alloc_mw(ibv_pd *pd, ibv_mw_type type) { return own<Mw>(ibv_alloc_mw(pd, type), "alloc_mw"); }

struct Windows : Layouts {
	Memory mem; // b's, which windows may be bound to

	explicit Windows(Context &ctx) : Layouts(ctx), mem(b.pd.get(), 65536, all_access | IBV_ACCESS_MW_BIND) {}

	ibv_mw_bind_info info(size_t off, size_t len, unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
	{
		return {mem.mr(), mem.addr(off), len, access};
	}
	void bind(ibv_mw *mw, const ibv_mw_bind_info &i)
	{
		ibv_mw_bind b1{};
		b1.wr_id = 17;
		b1.send_flags = IBV_SEND_SIGNALED;
		b1.bind_info = i;
		must(ibv_bind_mw(b.qp.get(), mw, &b1), "bind_mw");
		expect_bound();
	}
	// Of type 2, by a request of its own; the key that it has then.
	uint32_t bind2(ibv_mw *mw, const ibv_mw_bind_info &i, bool good = true)
	{
		const uint32_t rkey = ibv_inc_rkey(mw->rkey);

		must(post(b.qp.get(), [&](ibv_qp_ex *e, mlx5dv_qp_ex *) { ibv_wr_bind_mw(e, mw, rkey, &i); }), "bind");
		if (good)
			expect_bound();
		return rkey;
	}
	void expect_bound()
	{
		ibv_wc wc = expect_wc(b.scq.get());
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
	}
	void expect_written(size_t off, uint32_t rkey, size_t len = 64)
	{
		Picture picture(mem);
		picture.scatter({mem.sge(off, len)}, a.mem->bytes().subspan(off, len));
		write(a.mem->sge(off, len), mem.addr(off), rkey);
		EXPECT_EQ(expect_wc(a.scq.get()).status, IBV_WC_SUCCESS);
		EXPECT_TRUE(picture.matches());
	}
};

KTEST(windows, "a window of type 1 opens a part of a region, and changes its key with each binding")
{
	Context c;
	Windows p(c);
	Mw mw = alloc_mw(p.b.pd.get(), IBV_MW_TYPE_1);
	uint32_t before = mw->rkey;

	p.bind(mw.get(), p.info(4000, 1000));
	EXPECT_NE(mw->rkey, before);
	p.expect_written(4000, mw->rkey, 1000);
	before = mw->rkey;
	p.bind(mw.get(), p.info(20000, 64));
	EXPECT_NE(mw->rkey, before);
	p.expect_written(20000, mw->rkey);
	p.expect_refused_remote(p.mem.addr(4000), before);
}

KTEST(windows, "outside a window of type 1, without its access, or when it is closed, there is nothing")
{
	Context c;
	for (int how = 0; how < 4; how++) {
		Windows p(c);
		Mw mw = alloc_mw(p.b.pd.get(), IBV_MW_TYPE_1);
		p.bind(mw.get(), p.info(4000, 1000, how == 2 ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE));
		if (how == 3)
			p.bind(mw.get(), {p.mem.mr(), 0, 0, 0});
		const uint64_t at = how == 0 ? p.mem.addr(3999) : how == 1 ? p.mem.addr(4993) : p.mem.addr(4000);
		p.expect_refused_remote(at, mw->rkey);
		EXPECT_TRUE(std::all_of(p.mem.data(), p.mem.data() + p.mem.size(), [](uint8_t v) { return v == 0; })) << how;
	}
}

KTEST(windows, "a window of type 2 is for the QP it was bound by, with the key that the binding chose")
{
	Context c;
	Windows p(c);
	Mw mw = alloc_mw(p.b.pd.get(), IBV_MW_TYPE_2);
	const uint32_t rkey = p.bind2(mw.get(), p.info(4000, 1000));

	p.expect_written(4000, rkey, 1000);
	// Another QP of the same domain may not.
	End other(c, dv_options());
	Qp served = create_qp(p.b.pd.get(), other.scq.get(), other.rcq.get());
	for (auto [x, y] : {std::pair{other.qp.get(), served.get()}, {served.get(), other.qp.get()}}) {
		must(to_init(x), "init");
		must(to_rtr(x, c, c.gid(), y->qp_num), "rtr");
		must(to_rts(x), "rts");
	}
	ibv_sge sge = other.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.mem.addr(4000), rkey).post(other.qp.get());
	EXPECT_EQ(expect_wc(other.scq.get()).status, IBV_WC_REM_ACCESS_ERR);
	p.expect_written(4000, rkey, 1000);
}

KTEST(windows, "a window of type 2 that is bound is not bound again before it is invalidated")
{
	Context c;
	Windows p(c);
	Mw mw = alloc_mw(p.b.pd.get(), IBV_MW_TYPE_2);

	mw->rkey = p.bind2(mw.get(), p.info(4000, 1000));
	must(post_local_inv(p.b.qp.get(), mw->rkey), "local_inv");
	EXPECT_EQ(expect_wc(p.b.scq.get()).status, IBV_WC_SUCCESS);
	// An invalidation leaves the library's own part of the key at 0.
	mw->rkey &= ~0xffu;
	mw->rkey = p.bind2(mw.get(), p.info(8000, 1000));
	p.expect_written(8000, mw->rkey);
	p.bind2(mw.get(), p.info(0, 8), false);
	EXPECT_EQ(expect_wc(p.b.scq.get()).status, IBV_WC_MW_BIND_ERR);
	EXPECT_EQ(state_of(p.b.qp.get()), IBV_QPS_ERR);
}

KTEST(windows, "SEND with invalidate closes a window of type 2")
{
	Context c;
	Windows p(c);
	Mw mw = alloc_mw(p.b.pd.get(), IBV_MW_TYPE_2);
	const uint32_t rkey = p.bind2(mw.get(), p.info(4000, 1000));

	p.expect_written(4000, rkey);
	post_recv(p.b.qp.get(), {p.mem.sge(0, 8)});
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_SEND_WITH_INV, {&sge, 1}).invalidate(rkey).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	EXPECT_EQ(wc.invalidated_rkey, rkey);
	p.expect_refused_remote(p.mem.addr(4000), rkey);
}

} // namespace
