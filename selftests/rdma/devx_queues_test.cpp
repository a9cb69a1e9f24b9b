// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CQs and QPs made by commands: data through them, and what their commands refuse.
#include "devx_queues.hpp"
#include "ktap.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace rdma;
using devx::Mailbox;
using devx::pdn_of;
using devx::Queue;

namespace {

// A QP with its CQs and memory; regions are the verbs'.
struct End {
	Pd pd;
	Memory mem;
	Queue scq, rcq;
	devx::Qp qp;

	explicit End(const Context &c, const devx::CqOptions &o = {}, const devx::QpShape &s = {})
	    : pd(alloc_pd(c)), mem(pd.get(), 1 << 20), scq(c, o), rcq(c, o), qp(c, pdn_of(pd.get()), scq, rcq, s)
	{
	}
};

void connect(End &a, End &b)
{
	a.qp.connect(b.qp.number);
	b.qp.connect(a.qp.number);
}

KTEST(devx_queues, "bytes are written through queues that are the program's own in every part")
{
	Context c;
	End a(c), b(c);

	connect(a, b);
	EXPECT_EQ(a.qp.state(), 3u);
	// More than the rings are long, so that all of them wrap.
	for (unsigned i = 0; i < 200; i++) {
		a.mem.pattern(i);
		a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 100000), b.mem.addr(5), b.mem.rkey());
		a.qp.ring();
		auto *cqe = a.scq.next();
		ASSERT_NE(cqe, nullptr) << i;
		EXPECT_EQ(cqe->op_own >> 4, MLX5_CQE_REQ);
		EXPECT_EQ(be32toh(cqe->sop_drop_qpn) & 0xffffff, a.qp.number);
		EXPECT_EQ(be16toh(cqe->wqe_counter), i);
		EXPECT_EQ(be32toh(cqe->srqn_uidx) & 0xffffff, 0xabcu);
		a.scq.consumed();
		ASSERT_EQ(std::memcmp(b.mem.data() + 5, a.mem.data(), 100000), 0);
	}
	EXPECT_EQ(a.scq.field([](const void *o) { return DEVX_GET(query_cq_out, o, cqc.producer_counter); }), 200u);
	EXPECT_EQ(a.scq.field([](const void *o) { return DEVX_GET(query_cq_out, o, cqc.consumer_counter); }), 200u);
}

KTEST(devx_queues, "messages arrive in receives, of every size of entry")
{
	Context c;
	for (unsigned stride : {0u, 1u, 2u})
		for (bool large : {false, true}) {
			devx::CqOptions o;
			o.large = large;
			End a(c, o, {6, 4, stride}), b(c, o, {6, 4, stride});
			connect(a, b);
			for (unsigned i = 0; i < 40; i++) {
				b.qp.post_recv(b.mem.sge(i, 1000));
				a.mem.pattern(i);
				a.qp.write_wqe(MLX5_OPCODE_SEND_IMM, a.mem.sge(0, 1000), 0, 0, 77 + i);
				a.qp.ring();
				ASSERT_NE(a.scq.next(), nullptr);
				auto *cqe = b.rcq.next();
				ASSERT_NE(cqe, nullptr);
				EXPECT_EQ(cqe->op_own >> 4, MLX5_CQE_RESP_SEND_IMM);
				EXPECT_EQ(be32toh(cqe->imm_inval_pkey), 77 + i);
				EXPECT_EQ(be32toh(cqe->byte_cnt), 1000u);
				a.scq.consumed();
				b.rcq.consumed();
				EXPECT_EQ(std::memcmp(b.mem.data() + i, a.mem.data(), 1000), 0);
			}
		}
}

KTEST(devx_queues, "a collapsed CQ shows the last completion in its first entry, and needs no more memory")
{
	Context c;
	devx::CqOptions o;
	o.collapsed = o.ignore_overrun = true;
	o.log_size = 4;
	End a(c, o), b(c);

	connect(a, b);
	for (unsigned i = 0; i < 50; i++) {
		a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), b.mem.addr(), b.mem.rkey());
		a.qp.ring();
		// As GPU-initiated libraries wait: for the index.
		auto *cqe = a.scq.entry(0);
		const auto end = std::chrono::steady_clock::now() + 5s;
		while (be16toh(cqe->wqe_counter) != i || cqe->op_own >> 4 != MLX5_CQE_REQ)
			ASSERT_LT(std::chrono::steady_clock::now(), end) << i;
	}
	for (size_t k = 1; k < 16; k++)
		EXPECT_EQ(reinterpret_cast<mlx5_cqe64 *>(a.scq.buf.data() + Queue::records + k * 64)->op_own >> 4,
			  MLX5_CQE_INVALID);
	EXPECT_EQ(a.scq.field([](const void *q) { return DEVX_GET(query_cq_out, q, cqc.status); }), 0u);
}

KTEST(devx_queues, "a CQ overruns unless that is not looked at, and MODIFY_CQ says so")
{
	Context c;
	devx::CqOptions o;
	o.log_size = 2;
	End a(c, o), b(c), d(c, o);
	auto status = [](const void *q) { return DEVX_GET(query_cq_out, q, cqc.status); };

	connect(a, b);
	Mailbox m(devx::MODIFY_CQ, DEVX_ST_SZ_BYTES(modify_cq_in));
	m.names(a.scq.number);
	DEVX_SET(modify_cq_in, m.in.data(), field_select, 1 << 2);
	DEVX_SET(modify_cq_in, m.in.data(), cqc.oi, 1);
	must(devx::modify(a.scq.obj, m), "MODIFY_CQ");
	for (unsigned i = 0; i < 20; i++) {
		a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), b.mem.addr(), b.mem.rkey());
		a.qp.ring();
		ASSERT_NE(a.scq.next(), nullptr) << i;
	}
	EXPECT_EQ(a.scq.field(status), 0u);
	DEVX_SET(modify_cq_in, m.in.data(), field_select, 1 << 3);
	EXPECT_EQ(devx::modify(a.scq.obj, m), devx::BAD_PARAM);

	d.qp.connect(d.qp.number);
	for (unsigned i = 0; i < 6; i++)
		d.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, d.mem.sge(0, 8), d.mem.addr(), d.mem.rkey());
	d.qp.ring();
	const auto end = std::chrono::steady_clock::now() + 5s;
	while (d.scq.field(status) == 0)
		ASSERT_LT(std::chrono::steady_clock::now(), end);
	EXPECT_NE(d.scq.field(status), 0u);
}

KTEST(devx_queues, "arming by hand is seen, and answered by the next completion")
{
	Context c;
	End a(c), b(c);
	auto state = [](const void *q) { return DEVX_GET(query_cq_out, q, cqc.st); };

	connect(a, b);
	EXPECT_EQ(a.scq.field(state), 0xau);
	a.scq.arm();
	EXPECT_EQ(a.scq.field(state), 0x9u);
	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), b.mem.addr(), b.mem.rkey());
	a.qp.ring();
	ASSERT_NE(a.scq.next(), nullptr);
	EXPECT_EQ(a.scq.field(state), 0xau);
}

KTEST(devx_queues, "a QP of a command's and one of the verbs' speak with each other, and share a CQ")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	Memory mem(pd.get(), 1 << 16);
	Qp verbs = create_qp(pd.get(), cq.get(), cq.get());
	mlx5dv_cq dv{};
	mlx5dv_obj dvo{};
	dvo.cq = {cq.get(), &dv};
	must(mlx5dv_init_obj(&dvo, MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
	End a(c);

	must(to_init(verbs.get()), "init");
	must(to_rtr(verbs.get(), c, c.gid(), a.qp.number), "rtr");
	must(to_rts(verbs.get()), "rts");
	a.qp.connect(verbs->qp_num);
	a.mem.pattern(3);
	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 5000), mem.addr(), mem.rkey());
	a.qp.ring();
	ASSERT_NE(a.scq.next(), nullptr);
	EXPECT_EQ(std::memcmp(mem.data(), a.mem.data(), 5000), 0);
	ibv_sge sge = mem.sge(0, 100);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(a.mem.addr(500000), a.mem.rkey()).post(verbs.get());
	EXPECT_EQ(expect_wc(cq.get()).status, IBV_WC_SUCCESS);

	// On the verbs' CQ, which stays as long as the QP does.
	Mailbox m = a.qp.request();
	DEVX_SET(create_qp_in, m.in.data(), qpc.cqn_snd, dv.cqn);
	devx::Obj other = devx::create(c, m, "CREATE_QP");
	verbs.reset();
	EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
	other.reset();
}

KTEST(devx_queues, "what something is made on stays until that is gone")
{
	Context c;
	uint32_t pdn = 0;
	devx::Obj pd = devx::alloc_pd(c, &pdn);
	auto q = std::make_unique<Queue>(c);
	auto qp = std::make_unique<devx::Qp>(c, pdn, *q, *q);

	EXPECT_EQ(devx::destroy(pd), EBUSY);
	EXPECT_EQ(devx::destroy(q->obj), EBUSY);
	EXPECT_EQ(q->umem.dereg(), EBUSY);
	EXPECT_EQ(qp->umem.dereg(), EBUSY);
	// And is what it was.
	qp->connect(qp->number);
	EXPECT_EQ(qp->state(), 3u);
	qp.reset();
	EXPECT_EQ(q->umem.dereg(), EBUSY);
	EXPECT_EQ(devx::destroy(q->obj), 0);
	EXPECT_EQ(q->umem.dereg(), 0);
	EXPECT_EQ(devx::destroy(pd), 0);
}

KTEST(devx_queues, "a CQ that makes no sense is refused, and says why")
{
	Context c, other;
	Queue q(c), strange(other);
	struct {
		const char *what;
		void (*wrong)(Mailbox &, const Queue &);
		int status;
	} cases[] = {
	    {"operation", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), op_mod, 1); },
	     devx::BAD_PARAM},
	    {"entry size", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.cqe_sz, 3); },
	     devx::BAD_PARAM},
	    {"compression", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.cqe_comp_en, 1); },
	     devx::BAD_PARAM},
	    {"size", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.log_cq_size, 31); },
	     devx::BAD_PARAM},
	    {"more than the memory has",
	     [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.log_cq_size, 7); },
	     devx::BAD_PARAM},
	    {"event queue 0", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.c_eqn, 0); },
	     devx::BAD_RES},
	    {"event queue", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.c_eqn, 4095); },
	     devx::BAD_RES},
	    {"page", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.uar_page, 64); },
	     devx::BAD_RES},
	    {"page 0", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.uar_page, 0); },
	     devx::BAD_RES},
	    {"far page", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.uar_page, 0xffffff); },
	     devx::BAD_RES},
	    {"memory", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cq_umem_id, 0xffffffff); },
	     devx::BAD_RES},
	    {"no memory", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cq_umem_id, 0); },
	     devx::BAD_RES},
	    {"another context's memory",
	     [](Mailbox &m, const Queue &s) { DEVX_SET(create_cq_in, m.in.data(), cq_umem_id, s.umem.id()); },
	     devx::BAD_RES},
	    {"offset", [](Mailbox &m, const Queue &) { DEVX_SET64(create_cq_in, m.in.data(), cq_umem_offset, 128); },
	     devx::BAD_PARAM},
	    {"odd offset", [](Mailbox &m, const Queue &) { DEVX_SET64(create_cq_in, m.in.data(), cq_umem_offset, 32); },
	     devx::BAD_PARAM},
	    {"offset that overflows",
	     [](Mailbox &m, const Queue &) { DEVX_SET64(create_cq_in, m.in.data(), cq_umem_offset, UINT64_MAX - 63); },
	     devx::BAD_PARAM},
	    {"record", [](Mailbox &m, const Queue &) { DEVX_SET(create_cq_in, m.in.data(), cqc.dbr_umem_id, 0xffff); },
	     devx::BAD_RES},
	    {"odd record", [](Mailbox &m, const Queue &) { DEVX_SET64(create_cq_in, m.in.data(), cqc.dbr_addr, 2); },
	     devx::BAD_PARAM},
	    {"record beyond",
	     [](Mailbox &m, const Queue &q) { DEVX_SET64(create_cq_in, m.in.data(), cqc.dbr_addr, q.buf.size() - 4); },
	     devx::BAD_PARAM},
	    {"record that overflows",
	     [](Mailbox &m, const Queue &) { DEVX_SET64(create_cq_in, m.in.data(), cqc.dbr_addr, UINT64_MAX - 3); },
	     devx::BAD_PARAM},
	};
	// So that the numbers of the two contexts differ.
	Queue more(other);
	for (auto &k : cases) {
		Mailbox m = q.request();
		k.wrong(m, std::string(k.what).find("another") == 0 ? more : q);
		EXPECT_EQ(devx::refused(c, m), k.status) << k.what;
	}
	Mailbox brief = q.request();
	brief.in.resize(brief.in.size() - 1);
	EXPECT_EQ(devx::refused(c, brief), devx::BAD_INP_LEN);
	// Nothing was left behind.
	EXPECT_EQ(devx::destroy(q.obj), 0);
	EXPECT_EQ(q.umem.dereg(), 0);

	// Memory that the device may not write to.
	devx::Buffer buf(8192);
	devx::Umem umem(c, buf.data(), buf.size(), 0);
	Queue fine(c);
	Mailbox m = fine.request();
	DEVX_SET(create_cq_in, m.in.data(), cq_umem_id, umem.id());
	EXPECT_EQ(devx::refused(c, m), devx::BAD_PARAM);
}

KTEST(devx_queues, "a QP that makes no sense is refused, and says why")
{
	Context c, other;
	End a(c), s(other);
	uint32_t foreign_pd = pdn_of(s.pd.get());
	auto refused = [&](auto &&wrong) {
		Mailbox m = a.qp.request();
		wrong(m.in.data());
		return devx::refused(c, m);
	};

	EXPECT_EQ(refused([](void *) {}), devx::OK);
	for (unsigned st : {3u, 4u, 6u, 7u, 0xffu})
		EXPECT_EQ(refused([&](void *m) { DEVX_SET(create_qp_in, m, qpc.st, st); }), devx::BAD_PARAM) << st;
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, op_mod, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, input_qpn, 99); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.rlky, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.wq_signature, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.log_rq_stride, 7); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.log_rq_size, 15); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.log_sq_size, 15); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.log_rq_size, 0); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.rq_type, 2); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.rq_type, 1); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.pd, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.pd, 0xffffff); }), devx::BAD_RES);
	EXPECT_EQ(refused([&](void *m) { DEVX_SET(create_qp_in, m, qpc.pd, foreign_pd); }), devx::BAD_RES);
	EXPECT_EQ(refused([&](void *m) { DEVX_SET(create_qp_in, m, qpc.cqn_snd, s.scq.number); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.cqn_rcv, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.uar_page, 0xffffff); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.uar_page, 64); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, wq_umem_id, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([&](void *m) { DEVX_SET(create_qp_in, m, wq_umem_id, s.qp.umem.id()); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(create_qp_in, m, wq_umem_offset, 128); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(create_qp_in, m, wq_umem_offset, 16); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(create_qp_in, m, wq_umem_offset, UINT64_MAX); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(create_qp_in, m, qpc.dbr_umem_id, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(create_qp_in, m, qpc.dbr_addr, 6); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(create_qp_in, m, qpc.dbr_addr, UINT64_MAX - 7); }), devx::BAD_PARAM);
	Mailbox brief = a.qp.request();
	brief.in.resize(brief.in.size() - 1);
	EXPECT_EQ(devx::refused(c, brief), devx::BAD_INP_LEN);
}

KTEST(devx_queues, "a QP goes only the ways that there are between states, and says which it is in")
{
	Context c;
	End a(c);
	devx::Qp &qp = a.qp;

	EXPECT_EQ(qp.state(), 0u);
	EXPECT_EQ(qp.apply(qp.init2rtr(qp.number)), devx::BAD_QP_STATE);
	EXPECT_EQ(qp.apply(qp.rtr2rts()), devx::BAD_QP_STATE);
	EXPECT_EQ(qp.apply(qp.rst2init()), devx::OK);
	EXPECT_EQ(qp.apply(qp.rst2init()), devx::BAD_QP_STATE);
	EXPECT_EQ(qp.state(), 1u);

	auto rtr = [&](auto &&wrong) {
		Mailbox m = qp.init2rtr(qp.number);
		wrong(m.in.data());
		return qp.apply(m);
	};
	EXPECT_EQ(rtr([](void *m) { DEVX_SET(create_qp_in, m, qpc.mtu, 0); }), devx::BAD_PARAM);
	EXPECT_EQ(rtr([](void *m) { DEVX_SET(create_qp_in, m, qpc.mtu, 7); }), devx::BAD_PARAM);
	EXPECT_EQ(rtr([](void *m) { DEVX_SET(create_qp_in, m, qpc.log_rra_max, 7); }), devx::BAD_PARAM);
	EXPECT_EQ(rtr([](void *m) { DEVX_SET(create_qp_in, m, qpc.primary.src_addr_index, 255); }), devx::BAD_RES);
	EXPECT_EQ(rtr([](void *m) { DEVX_SET(create_qp_in, m, opt_param_mask, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(qp.state(), 1u);
	EXPECT_EQ(rtr([](void *m) {
			  DEVX_SET(create_qp_in, m, opt_param_mask, 1 << 1);
			  DEVX_SET(create_qp_in, m, qpc.rre, 0);
		  }),
		  devx::OK);
	EXPECT_EQ(qp.apply(qp.rtr2rts()), devx::OK);

	Mailbox seen = qp.looked_at();
	const void *q = seen.out.data();
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.state), 3u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.remote_qpn), qp.number);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.mtu), 3u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.rre), 0u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.rwe), 1u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.cqn_snd), a.scq.number);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.log_sq_size), 6u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.log_rq_size), 4u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.log_sra_max), 4u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.primary.ack_timeout), 8u);
	EXPECT_EQ(DEVX_GET(query_qp_out, q, qpc.user_index), 0xabcu);

	EXPECT_EQ(qp.to(devx::TO_ERR_QP), devx::OK);
	EXPECT_EQ(qp.state(), 6u);
	EXPECT_EQ(qp.to(devx::TO_RST_QP), devx::OK);
	EXPECT_EQ(qp.state(), 0u);
	Mailbox sqerr(devx::SQERR2RTS_QP, DEVX_ST_SZ_BYTES(create_qp_in));
	EXPECT_EQ(qp.apply(sqerr.names(qp.number)), devx::BAD_QP_STATE);
	Mailbox brief(devx::QUERY_QP, 16, 128);
	EXPECT_EQ(devx::query(qp.obj, brief.names(qp.number)), devx::BAD_OUTP_LEN);
	Mailbox stranger(devx::QUERY_QP, 16, DEVX_ST_SZ_BYTES(query_qp_out));
	stranger.names(qp.number + 1);
	EXPECT_EQ(mlx5dv_devx_obj_query(qp.obj.get(), stranger.in.data(), stranger.in_len(), stranger.out.data(),
					stranger.out_len()),
		  EINVAL);
}

KTEST(devx_queues, "what is posted when a QP fails is flushed")
{
	Context c;
	End a(c);

	a.qp.connect(a.qp.number);
	for (int i = 0; i < 3; i++)
		a.qp.post_recv(a.mem.sge(0, 8));
	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, {0x1000, 8, 0xdeadbe00}, a.mem.addr(), a.mem.rkey());
	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), a.mem.addr(), a.mem.rkey());
	a.qp.ring();
	auto *cqe = a.scq.next();
	ASSERT_NE(cqe, nullptr);
	EXPECT_EQ(cqe->op_own >> 4, MLX5_CQE_REQ_ERR);
	cqe = a.scq.next();
	ASSERT_NE(cqe, nullptr);
	EXPECT_EQ(reinterpret_cast<volatile mlx5_err_cqe *>(cqe)->syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	for (int i = 0; i < 3; i++) {
		cqe = a.rcq.next();
		ASSERT_NE(cqe, nullptr);
		EXPECT_EQ(cqe->op_own >> 4, MLX5_CQE_RESP_ERR);
	}
	EXPECT_EQ(a.qp.state(), 6u);
}

KTEST(devx_queues, "a command moves a QP of the verbs', and sees it")
{
	Context c;
	Pair p(c, {}, false);
	ibv_qp *qp = p.a.qp.get();
	Mailbox init(devx::RST2INIT_QP, DEVX_ST_SZ_BYTES(create_qp_in));
	Mailbox seen(devx::QUERY_QP, 16, DEVX_ST_SZ_BYTES(query_qp_out));

	init.names(qp->qp_num);
	DEVX_SET(create_qp_in, init.in.data(), qpc.primary.vhca_port_num, 1);
	must(mlx5dv_devx_qp_modify(qp, init.in.data(), init.in_len(), init.out.data(), init.out_len()), "RST2INIT");
	seen.names(qp->qp_num);
	must(mlx5dv_devx_qp_query(qp, seen.in.data(), seen.in_len(), seen.out.data(), seen.out_len()), "QUERY_QP");
	EXPECT_EQ(DEVX_GET(query_qp_out, seen.out.data(), qpc.state), 1u);
	ibv_qp_attr attr{};
	ibv_qp_init_attr ia{};
	must(ibv_query_qp(qp, &attr, IBV_QP_STATE, &ia), "query_qp");
	EXPECT_EQ(attr.qp_state, IBV_QPS_INIT);
}

KTEST(devx_queues, "a process that ends with everything alive leaves nothing behind")
{
	for (int i = 0; i < 4; i++) {
		const pid_t child = fork();
		if (!child) {
			auto *c = new Context;
			auto *a = new End(*c), *b = new End(*c);
			connect(*a, *b);
			for (int k = 0; k < 30; k++)
				a->qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a->mem.sge(0, 1 << 20), b->mem.addr(),
						b->mem.rkey());
			a->qp.ring();
			_exit(a->scq.next() ? 0 : 1);
		}
		int status = 0;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
	}
}

KTEST(devx_queues, "a command on an XRC target, which processes share, is refused")
{
	Context c;
	ibv_xrcd_init_attr x{};
	x.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	x.fd = -1;
	x.oflags = O_CREAT;
	auto xrcd = own<std::unique_ptr<ibv_xrcd, Deleter<ibv_close_xrcd>>>(ibv_open_xrcd(c.get(), &x), "open_xrcd");
	ibv_qp_init_attr_ex t{};
	t.qp_type = IBV_QPT_XRC_RECV;
	t.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	t.xrcd = xrcd.get();
	Qp qp = own<Qp>(ibv_create_qp_ex(c.get(), &t), "create_qp_ex");

	for (devx::Opcode op : {devx::RST2INIT_QP, devx::INIT2INIT_QP}) {
		Mailbox m(op, DEVX_ST_SZ_BYTES(create_qp_in));
		m.names(qp->qp_num);
		EXPECT_EQ(mlx5dv_devx_qp_modify(qp.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len()), EINVAL) << op;
	}
	Mailbox seen(devx::QUERY_QP, 16, DEVX_ST_SZ_BYTES(query_qp_out));
	seen.names(qp->qp_num);
	EXPECT_EQ(mlx5dv_devx_qp_query(qp.get(), seen.in.data(), seen.in_len(), seen.out.data(), seen.out_len()), EINVAL);
	EXPECT_EQ(state_of(qp.get()), IBV_QPS_RESET);
}

} // namespace
