// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What goes wrong ends in the right completion on both sides, moves nothing and stops the QP.
#include "ktap.hpp"
#include "verbs.hpp"

#include <poll.h>
#include <fcntl.h>

using namespace rdma;

namespace {

constexpr uint32_t nobodys_key = 0xdeadbe00;

// Posts what must fail, then looks at both ends.
void expect_failure(Pair &p, Wr wr, ibv_wc_status status, ibv_qp_state responder_state)
{
	p.b.mem->fill(0x5a);
	wr.wr_id = 42;
	wr.post(p.a.qp.get());
	ibv_wc wc = expect_wc(p.a.scq.get());
	EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
	EXPECT_EQ(wc.wr_id, 42u);
	EXPECT_NE(wc.vendor_err, 0u);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_ERR);
	EXPECT_TRUE(eventually([&] { return state_of(p.b.qp.get()) == responder_state; }))
	    << "responder is in " << state_of(p.b.qp.get());
	for (uint8_t byte : p.b.mem->bytes())
		ASSERT_EQ(byte, 0x5a) << "the destination was touched";

	// The queue behind is flushed.
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 43, 0).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	wc = expect_wc(p.a.scq.get());
	EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(wc.wr_id, 43u);
}

struct Case {
	const char *sentence;
	ibv_wc_status status;
	ibv_qp_state responder;
	void (*change)(Pair &, ibv_sge &, Wr &);
	void (*options)(QpOptions &) = nullptr;
};

void as_write(Pair &p, Wr &wr) { wr.remote(p.b.mem->addr(), p.b.mem->rkey()); }

const Case cases[] = {
    {"a local key that nobody has is a local protection error", IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS,
     [](Pair &, ibv_sge &s, Wr &) { s.lkey = nobodys_key; }},
    {"a local key of a freed region is a local protection error", IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS,
     [](Pair &p, ibv_sge &s, Wr &) {
	     Memory gone(p.a.pd.get(), 4096);
	     s = gone.sge(0, 8);
     }},
    {"a local address past the region is a local protection error", IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS,
     [](Pair &p, ibv_sge &s, Wr &) { s = p.a.mem->sge(p.a.mem->size() - 4, 8); }},
    {"a local address that wraps past 2^64 is a local protection error", IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS,
     [](Pair &, ibv_sge &s, Wr &) { s.addr = ~0ull - 3; }},
    {"a local key of another protection domain is a local protection error", IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS,
     [](Pair &p, ibv_sge &s, Wr &) { s = p.b.mem->sge(0, 8); }},
    {"reading into a region without local write is a local protection error", IBV_WC_LOC_PROT_ERR,
     IBV_QPS_RTS,
     [](Pair &p, ibv_sge &s, Wr &wr) {
	     static std::unique_ptr<Memory> read_only;
	     read_only = std::make_unique<Memory>(p.a.pd.get(), 4096, 0);
	     s = read_only->sge(0, 8);
	     wr.opcode = IBV_WR_RDMA_READ;
     }},
    {"a remote key that nobody has is a remote access error", IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) { wr.remote(p.b.mem->addr(), nobodys_key); }},
    {"a remote key of another protection domain is a remote access error", IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) { wr.remote(p.a.mem->addr(), p.a.mem->rkey()); }},
    {"a remote address past the region is a remote access error", IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) { wr.remote(p.b.mem->addr(p.b.mem->size() - 7), p.b.mem->rkey()); }},
    {"a remote address before the region is a remote access error", IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) { wr.remote(p.b.mem->addr() - 1, p.b.mem->rkey()); }},
    {"a remote address that wraps past 2^64 is a remote access error", IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) { wr.remote(~0ull - 3, p.b.mem->rkey()); }},
    {"READ of a nobody's key is a remote access error", IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) {
	     wr.opcode = IBV_WR_RDMA_READ;
	     wr.remote(p.b.mem->addr(), nobodys_key);
     }},
    {"an atomic on a nobody's key is a remote access error", IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) {
	     wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	     wr.atomic(p.b.mem->addr(), nobodys_key, 1);
     }},
    {"an atomic on a misaligned address is a remote invalid request", IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) {
	     wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	     wr.atomic(p.b.mem->addr(4), p.b.mem->rkey(), 1);
     }},
    {"WRITE to a QP that does not serve writes is a remote invalid request", IBV_WC_REM_INV_REQ_ERR,
     IBV_QPS_ERR, [](Pair &, ibv_sge &, Wr &) {}, [](QpOptions &o) { o.access = IBV_ACCESS_REMOTE_READ; }},
    {"READ from a QP that does not serve reads is a remote invalid request", IBV_WC_REM_INV_REQ_ERR,
     IBV_QPS_ERR, [](Pair &, ibv_sge &, Wr &wr) { wr.opcode = IBV_WR_RDMA_READ; },
     [](QpOptions &o) { o.access = IBV_ACCESS_REMOTE_WRITE; }},
    {"READ from a QP without responder resources is a remote invalid request", IBV_WC_REM_INV_REQ_ERR,
     IBV_QPS_ERR, [](Pair &, ibv_sge &, Wr &wr) { wr.opcode = IBV_WR_RDMA_READ; },
     [](QpOptions &o) { o.dest_rd_atomic = 0; }},
    {"a peer that was never connected exhausts the transport retries", IBV_WC_RETRY_EXC_ERR, IBV_QPS_RESET,
     [](Pair &p, ibv_sge &, Wr &) { must(to_reset(p.b.qp.get()), "reset"); }},
    {"no receive and no RNR retries ends in RNR retry exceeded", IBV_WC_RNR_RETRY_EXC_ERR, IBV_QPS_RTS,
     [](Pair &, ibv_sge &, Wr &wr) { wr.opcode = IBV_WR_SEND; }, [](QpOptions &o) { o.rnr_retry = 0; }},
    {"no receive and three RNR retries ends in RNR retry exceeded", IBV_WC_RNR_RETRY_EXC_ERR, IBV_QPS_RTS,
     [](Pair &, ibv_sge &, Wr &wr) { wr.opcode = IBV_WR_SEND; }, [](QpOptions &o) { o.rnr_retry = 3; }},
    {"WRITE with immediate and no receive ends in RNR retry exceeded, nothing written",
     IBV_WC_RNR_RETRY_EXC_ERR, IBV_QPS_RTS,
     [](Pair &, ibv_sge &, Wr &wr) { wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM; },
     [](QpOptions &o) { o.rnr_retry = 1; }},
    {"a message longer than its receive is a remote invalid request", IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) {
	     post_recv(p.b.qp.get(), {p.b.mem->sge(0, 7)});
	     wr.opcode = IBV_WR_SEND;
     }},
    {"a receive with a bad key is a remote operation error", IBV_WC_REM_OP_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &, Wr &wr) {
	     post_recv(p.b.qp.get(), {{p.b.mem->addr(), 100, nobodys_key}});
	     wr.opcode = IBV_WR_SEND;
     }},
    {"SEND that invalidates a key nobody has is a remote operation error", IBV_WC_REM_OP_ERR, IBV_QPS_ERR,
     [](Pair &p, ibv_sge &s, Wr &wr) {
	     post_recv(p.b.qp.get(), {p.b.mem->sge(0, 7)});
	     s.length = 0;
	     wr.opcode = IBV_WR_SEND_WITH_INV;
	     wr.invalidate_rkey = nobodys_key;
     }},
};

KTESTS
{
	for (const Case &k : cases)
		ktap::add("errors", k.sentence, [&k] {
			Context c;
			QpOptions o;
			if (k.options)
				k.options(o);
			Pair p(c, o, true, 65536);
			ibv_sge sge = p.a.mem->sge(0, 8);
			Wr wr(IBV_WR_RDMA_WRITE, {&sge, 1});
			as_write(p, wr);
			k.change(p, sge, wr);
			expect_failure(p, wr, k.status, k.responder);
		}, __FILE__, __LINE__);
}

KTEST(errors, "the receiver's own completion says length error when the message is too long")
{
	Context c;
	Pair p(c);
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 7)}, 5);
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 7)}, 6);
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
	EXPECT_EQ(wc.wr_id, 5u);
	wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(wc.wr_id, 6u);
}

KTEST(errors, "receives that are posted in the error state are flushed, too")
{
	Context c;
	Pair p(c);
	must(to_err(p.b.qp.get()), "err");
	for (uint64_t i = 0; i < 3; i++) {
		post_recv(p.b.qp.get(), {p.b.mem->sge(0, 8)}, i);
		ibv_wc wc = expect_wc(p.b.rcq.get());
		EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wc.wr_id, i);
	}
}

KTEST(errors, "a flush keeps the order of the queue")
{
	Context c;
	QpOptions o;
	o.rnr_timer = 31; // half a second: the first SEND waits
	Pair p(c, o);
	ibv_sge sge = p.a.mem->sge(0, 8);
	for (uint64_t i = 0; i < 30; i++)
		Wr(IBV_WR_SEND, {&sge, 1}, i, i % 2 ? IBV_SEND_SIGNALED : 0).post(p.a.qp.get());
	must(to_err(p.a.qp.get()), "err");
	for (uint64_t i = 0; i < 30; i++) {
		ibv_wc wc = expect_wc(p.a.scq.get());
		EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wc.wr_id, i);
	}
}

KTEST(errors, "a SEND that found no receive is delivered once there is one")
{
	Context c;
	Pair p(c);
	p.a.mem->pattern(3);
	ibv_sge sge = p.a.mem->sge(0, 64);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	EXPECT_FALSE(poll(p.a.scq.get(), 30ms).has_value());
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 64)});
	EXPECT_EQ(expect_wc(p.b.rcq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(p.a.mem->data(), p.b.mem->data(), 64), 0);
}

KTEST(errors, "packet numbers that do not match exhaust the retries")
{
	Context c;
	Pair p(c, {}, false);
	p.init();
	must(to_rtr(p.a.qp.get(), c, c.gid(), p.b.qp->qp_num), "rtr");
	must(to_rtr(p.b.qp.get(), c, c.gid(), p.a.qp->qp_num, {}, 1000), "rtr");
	must(to_rts(p.a.qp.get(), {}, 999), "rts");
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_RETRY_EXC_ERR);
}

// The next asynchronous event, or nothing.
std::optional<ibv_async_event> event(Context &c, std::chrono::milliseconds limit = 20s)
{
	fcntl(c.get()->async_fd, F_SETFL, O_NONBLOCK);
	pollfd pfd{c.get()->async_fd, POLLIN, 0};
	if (::poll(&pfd, 1, static_cast<int>(limit.count())) != 1)
		return std::nullopt;
	ibv_async_event e{};
	if (ibv_get_async_event(c.get(), &e))
		return std::nullopt;
	ibv_ack_async_event(&e);
	return e;
}

// Waits for an event of one type; others on the way (communication established) are passed over.
std::optional<ibv_async_event> event_of(Context &c, ibv_event_type type)
{
	while (auto e = event(c))
		if (e->event_type == type)
			return e;
	return std::nullopt;
}

KTEST(errors, "a refused rkey raises an access error event on the responder's QP")
{
	Context c;
	Pair p(c);
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), nobodys_key).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_REM_ACCESS_ERR);
	auto e = event_of(c, IBV_EVENT_QP_ACCESS_ERR);
	ASSERT_TRUE(e.has_value());
	EXPECT_EQ(e->element.qp, p.b.qp.get());
}

KTEST(errors, "an invalid request raises a request error event on the responder's QP")
{
	Context c;
	QpOptions o;
	o.access = 0;
	Pair p(c, o);
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_REM_INV_REQ_ERR);
	auto e = event_of(c, IBV_EVENT_QP_REQ_ERR);
	ASSERT_TRUE(e.has_value());
	EXPECT_EQ(e->element.qp, p.b.qp.get());
}

KTEST(errors, "a QP on an SRQ that enters the error state raises last WQE reached")
{
	Context c;
	Pd pd = alloc_pd(c);
	ibv_srq_init_attr sa{};
	sa.attr.max_wr = 8;
	sa.attr.max_sge = 1;
	Srq srq = own<Srq>(ibv_create_srq(pd.get(), &sa), "create_srq");
	QpOptions o;
	o.srq = srq.get();
	Pair p(c, o);
	must(to_err(p.b.qp.get()), "err");
	auto e = event_of(c, IBV_EVENT_QP_LAST_WQE_REACHED);
	ASSERT_TRUE(e.has_value());
	EXPECT_EQ(e->element.qp, p.b.qp.get());
	p.b.qp.reset();
}

KTEST(errors, "a CQ that overruns raises a CQ error, and the QP stops with a fatal error")
{
	Context c;
	QpOptions o;
	o.max_send = 1024;
	Pd pd = alloc_pd(c);
	Cq small = create_cq(c, 7), rcq = create_cq(c);
	Memory mem(pd.get(), 4096);
	Qp a = create_qp(pd.get(), small.get(), rcq.get(), o), b = create_qp(pd.get(), rcq.get(), rcq.get(), o);
	for (auto [x, y] : {std::pair{a.get(), b.get()}, {b.get(), a.get()}}) {
		must(to_init(x, o), "init");
		must(to_rtr(x, c, c.gid(), y->qp_num, o), "rtr");
		must(to_rts(x, o), "rts");
	}
	ibv_sge sge = mem.sge(0, 8);
	for (int i = 0; i < small->cqe + 10; i++)
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(mem.addr(64), mem.rkey()).post(a.get());
	auto e = event_of(c, IBV_EVENT_CQ_ERR);
	ASSERT_TRUE(e.has_value());
	EXPECT_EQ(e->element.cq, small.get());
	EXPECT_TRUE(eventually([&] { return state_of(a.get()) == IBV_QPS_ERR; }));
}

} // namespace
