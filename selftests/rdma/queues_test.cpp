// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queues, completion events, shared receive queues, QP states.
#include "ktap.hpp"
#include "verbs.hpp"

#include <fcntl.h>
#include <poll.h>

using namespace rdma;

namespace {

bool readable(int fd, int ms)
{
	pollfd p{fd, POLLIN, 0};
	return ::poll(&p, 1, ms) == 1;
}

void take_event(ibv_comp_channel *ch, ibv_cq *expected)
{
	ibv_cq *cq = nullptr;
	void *ctx;
	ASSERT_TRUE(readable(ch->fd, 20000)) << "no completion event";
	ASSERT_EQ(ibv_get_cq_event(ch, &cq, &ctx), 0);
	EXPECT_EQ(cq, expected);
	ibv_ack_cq_events(cq, 1);
}

struct Evented {
	Context c;
	Channel channel = own<Channel>(ibv_create_comp_channel(c.get()), "channel");
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c, 64, channel.get());
	Cq other = create_cq(c, 64);
	Memory mem{pd.get(), 65536};
	QpOptions o;
	Qp a = create_qp(pd.get(), other.get(), other.get(), o);
	Qp b = create_qp(pd.get(), other.get(), cq.get(), o);

	Evented()
	{
		for (auto [x, y] : {std::pair{a.get(), b.get()}, {b.get(), a.get()}}) {
			must(to_init(x, o), "init");
			must(to_rtr(x, c, c.gid(), y->qp_num, o), "rtr");
			must(to_rts(x, o), "rts");
		}
	}
	void send(bool solicited = false)
	{
		post_recv(b.get(), {mem.sge(0, 64)});
		ibv_sge sge = mem.sge(64, 8);
		Wr(IBV_WR_SEND, {&sge, 1}, 0, IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0))
		    .post(a.get());
		EXPECT_EQ(expect_wc(other.get()).status, IBV_WC_SUCCESS);
	}
};

KTEST(queues, "a CQ that is not armed raises no event")
{
	Evented e;
	e.send();
	EXPECT_FALSE(readable(e.channel->fd, 100));
	EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS);
}

KTEST(queues, "an armed CQ raises one event for the next completion, then none until it is armed again")
{
	Evented e;
	for (int i = 0; i < 5; i++) {
		must(ibv_req_notify_cq(e.cq.get(), 0), "arm");
		e.send();
		take_event(e.channel.get(), e.cq.get());
		e.send();
		EXPECT_FALSE(readable(e.channel->fd, 50));
		EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS);
		EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS);
	}
}

KTEST(queues, "arming after a completion has come that was not polled raises the event at once")
{
	Evented e;
	e.send();
	must(ibv_req_notify_cq(e.cq.get(), 0), "arm");
	take_event(e.channel.get(), e.cq.get());
}

KTEST(queues, "a CQ armed for solicited completions waits for one, or for an error")
{
	Evented e;
	must(ibv_req_notify_cq(e.cq.get(), 1), "arm");
	e.send(false);
	EXPECT_FALSE(readable(e.channel->fd, 100));
	e.send(true);
	take_event(e.channel.get(), e.cq.get());
	while (!empty(e.cq.get()))
		;
	must(ibv_req_notify_cq(e.cq.get(), 1), "arm");
	post_recv(e.b.get(), {e.mem.sge(0, 64)});
	must(to_err(e.b.get()), "err");
	take_event(e.channel.get(), e.cq.get());
}

int moderate(ibv_cq *cq, uint16_t count, uint16_t usecs)
{
	ibv_modify_cq_attr a{};
	a.attr_mask = IBV_CQ_ATTR_MODERATE;
	a.moderate.cq_count = count;
	a.moderate.cq_period = usecs;
	return ibv_modify_cq(cq, &a);
}

KTEST(queues, "a CQ that moderates raises its event when its time is over")
{
	Evented e;

	for (uint16_t count : {0, 100}) {
		must(moderate(e.cq.get(), count, 4000), "modify_cq");
		must(ibv_req_notify_cq(e.cq.get(), 0), "notify");
		const auto start = std::chrono::steady_clock::now();
		e.send();
		take_event(e.channel.get(), e.cq.get());
		EXPECT_GE(std::chrono::steady_clock::now() - start, 4ms);
		EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS);
		EXPECT_FALSE(readable(e.channel->fd, 20));
	}
}

KTEST(queues, "a CQ that moderates raises one event for as many completions as it was told")
{
	Evented e;

	must(moderate(e.cq.get(), 5, 4095), "modify_cq");
	for (int round = 0; round < 10; round++) {
		must(ibv_req_notify_cq(e.cq.get(), 0), "notify");
		for (int i = 0; i < 5; i++)
			e.send();
		take_event(e.channel.get(), e.cq.get());
		for (int i = 0; i < 5; i++)
			EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS);
		EXPECT_FALSE(readable(e.channel->fd, 10));
	}
}

KTEST(queues, "a CQ told to wait for completions without a time does not wait at all")
{
	Evented e;

	must(moderate(e.cq.get(), 1000, 0), "modify_cq");
	must(ibv_req_notify_cq(e.cq.get(), 0), "notify");
	e.send();
	take_event(e.channel.get(), e.cq.get());
}

KTEST(queues, "a CQ moderates within the device's limits only")
{
	Context c;
	Cq cq = create_cq(c);
	ibv_device_attr_ex a{};

	must(ibv_query_device_ex(c.get(), nullptr, &a), "query_device_ex");
	EXPECT_EQ(a.cq_mod_caps.max_cq_count, 0xffff);
	EXPECT_EQ(a.cq_mod_caps.max_cq_period, 0xfff);
	EXPECT_EQ(moderate(cq.get(), 0xffff, 0xfff), 0);
	EXPECT_EQ(moderate(cq.get(), 1, 0x1000), EINVAL);
}

KTEST(queues, "a CQ can be destroyed while an event of it waits")
{
	for (int i = 0; i < 50; i++) {
		Evented e;
		must(moderate(e.cq.get(), 1000, static_cast<uint16_t>(i * 80)), "modify_cq");
		must(ibv_req_notify_cq(e.cq.get(), 0), "notify");
		e.send();
		// Events that were raised have to be taken before.
		e.a.reset();
		e.b.reset();
		while (readable(e.channel->fd, i % 2 ? 5 : 0))
			take_event(e.channel.get(), e.cq.get());
	}
}

KTEST(queues, "a CQ can be resized while completions are in it, and none is lost")
{
	Context c;
	Pair p(c);
	ibv_sge sge = p.a.mem->sge(0, 8);
	auto post = [&](uint64_t id) {
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, id)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
	};
	uint64_t posted = 0, polled = 0;
	for (int size : {1000, 63, 4095, 127, 8191}) {
		for (int i = 0; i < 40; i++)
			post(posted++);
		must(ibv_resize_cq(p.a.scq.get(), size), "resize");
		EXPECT_GE(p.a.scq->cqe, size);
		for (int i = 0; i < 10; i++)
			post(posted++);
		while (polled < posted)
			ASSERT_EQ(expect_wc(p.a.scq.get()).wr_id, polled++);
	}
}

KTEST(queues, "a CQ is not resized below what is in it")
{
	Context c;
	Pair p(c);
	ibv_sge sge = p.a.mem->sge(0, 8);
	for (uint64_t i = 0; i < 60; i++)
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, i)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
	EXPECT_NE(ibv_resize_cq(p.a.scq.get(), 15), 0);
	for (uint64_t i = 0; i < 60; i++)
		ASSERT_EQ(expect_wc(p.a.scq.get()).wr_id, i);
}

struct SharedQueue {
	Context c;
	Pd pd = alloc_pd(c);
	Memory mem{pd.get(), 65536};
	Srq srq;

	explicit SharedQueue(uint32_t wrs = 64)
	{
		ibv_srq_init_attr a{};
		a.attr.max_wr = wrs;
		a.attr.max_sge = 4;
		srq = own<Srq>(ibv_create_srq(pd.get(), &a), "create_srq");
	}
};

KTEST(queues, "an SRQ feeds several QPs, and its receives come back in any order")
{
	SharedQueue s;
	QpOptions o;
	o.srq = s.srq.get();
	std::vector<std::unique_ptr<Pair>> pairs;
	for (int i = 0; i < 4; i++)
		pairs.push_back(std::make_unique<Pair>(s.c, o, true, 65536));
	uint64_t id = 0;
	for (int round = 0; round < 100; round++) {
		for (size_t i = 0; i < pairs.size(); i++)
			post_srq_recv(s.srq.get(), {s.mem.sge((id % 64) * 64, 64)}, id), id++;
		for (auto &p : pairs) {
			ibv_sge sge = p->a.mem->sge(0, 32);
			Wr(IBV_WR_SEND, {&sge, 1}).post(p->a.qp.get());
		}
		for (size_t i = pairs.size(); i--;) {
			ASSERT_EQ(expect_wc(pairs[i]->b.rcq.get()).status, IBV_WC_SUCCESS);
			ASSERT_EQ(expect_wc(pairs[i]->a.scq.get()).status, IBV_WC_SUCCESS);
		}
	}
	pairs.clear();
}

KTEST(queues, "an SRQ raises its limit event once, when fewer receives than the limit are left")
{
	SharedQueue s;
	QpOptions o;
	o.srq = s.srq.get();
	Pair p(s.c, o, true, 65536);
	for (uint64_t i = 0; i < 8; i++)
		post_srq_recv(s.srq.get(), {s.mem.sge(0, 64)}, i);
	ibv_srq_attr a{};
	a.srq_limit = 5;
	must(ibv_modify_srq(s.srq.get(), &a, IBV_SRQ_LIMIT), "limit");
	must(ibv_query_srq(s.srq.get(), &a), "query");
	EXPECT_EQ(a.srq_limit, 5u);
	fcntl(s.c.get()->async_fd, F_SETFL, O_NONBLOCK);
	ibv_sge sge = p.a.mem->sge(0, 8);
	bool fired = false;
	for (int i = 0; i < 8; i++) {
		Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
		ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
		ibv_async_event e;
		while (readable(s.c.get()->async_fd, 50) && !ibv_get_async_event(s.c.get(), &e)) {
			if (e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
				EXPECT_FALSE(fired) << "one event for one limit";
				EXPECT_EQ(8 - 1 - i, 4) << "fires when fewer than the limit are left";
				fired = true;
			}
			ibv_ack_async_event(&e);
		}
	}
	EXPECT_TRUE(fired);
	must(ibv_query_srq(s.srq.get(), &a), "query");
	EXPECT_EQ(a.srq_limit, 0u) << "the limit is disarmed";
	p.b.qp.reset();
}

KTEST(queues, "query_qp tells what was set, in every state")
{
	Context c;
	QpOptions o;
	o.rnr_timer = 12;
	o.timeout = 14;
	o.retry_cnt = 5;
	o.rnr_retry = 6;
	Pair p(c, o, false);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_RESET);
	p.init();
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_INIT);
	must(to_rtr(p.a.qp.get(), c, c.gid(), p.b.qp->qp_num, o, 77), "rtr");
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_RTR);
	must(to_rts(p.a.qp.get(), o, 88), "rts");
	ibv_qp_attr a{};
	ibv_qp_init_attr i{};
	must(ibv_query_qp(p.a.qp.get(), &a, (IBV_QP_DEST_QPN << 1) - 1, &i), "query");
	EXPECT_EQ(a.qp_state, IBV_QPS_RTS);
	EXPECT_EQ(a.dest_qp_num, p.b.qp->qp_num);
	EXPECT_EQ(a.path_mtu, o.mtu);
	EXPECT_EQ(a.rq_psn, 77u);
	EXPECT_EQ(a.sq_psn, 88u);
	EXPECT_EQ(a.min_rnr_timer, 12);
	EXPECT_EQ(a.timeout, 14);
	EXPECT_EQ(a.retry_cnt, 5);
	EXPECT_EQ(a.rnr_retry, 6);
	EXPECT_EQ(a.port_num, 1);
	EXPECT_EQ(a.qp_access_flags & o.access, o.access);
	EXPECT_EQ(a.max_dest_rd_atomic, 16);
	EXPECT_EQ(std::memcmp(&a.ah_attr.grh.dgid, c.gid().raw, 16), 0);
	EXPECT_GE(i.cap.max_send_wr, 64u);
	EXPECT_EQ(i.qp_type, IBV_QPT_RC);
}

KTEST(queues, "transitions that the specification does not have fail with EINVAL and change nothing")
{
	Context c;
	Pair p(c, {}, false);
	EXPECT_EQ(to_rts(p.a.qp.get()), EINVAL);
	EXPECT_EQ(to_rtr(p.a.qp.get(), c, c.gid(), 1), EINVAL);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_RESET);
	must(to_init(p.a.qp.get()), "init");
	EXPECT_EQ(to_rts(p.a.qp.get()), EINVAL);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_INIT);
}

KTEST(queues, "SQD drains, says so once, holds new requests back, and RTS goes on")
{
	Context c;
	Pair p(c);
	ibv_qp_attr a{};
	a.qp_state = IBV_QPS_SQD;
	a.en_sqd_async_notify = 1;
	must(ibv_modify_qp(p.a.qp.get(), &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "sqd");
	ASSERT_TRUE(readable(c.get()->async_fd, 20000));
	ibv_async_event e;
	must(ibv_get_async_event(c.get(), &e), "event");
	EXPECT_EQ(e.event_type, IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&e);
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_FALSE(poll(p.a.scq.get(), 50ms).has_value());
	a.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(p.a.qp.get(), &a, IBV_QP_STATE), "rts");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
}

KTEST(queues, "many QPs share the doorbell registers of one context and none loses a doorbell")
{
	Context c;
	std::vector<std::unique_ptr<Pair>> pairs;
	for (int i = 0; i < 64; i++)
		pairs.push_back(std::make_unique<Pair>(c, QpOptions{}, true, 8192));
	for (int round = 0; round < 20; round++) {
		for (auto &p : pairs) {
			ibv_sge sge = p->a.mem->sge(0, 8);
			Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, round)
			    .remote(p->b.mem->addr(), p->b.mem->rkey())
			    .post(p->a.qp.get());
		}
		for (auto &p : pairs)
			ASSERT_EQ(expect_wc(p->a.scq.get()).wr_id, static_cast<uint64_t>(round));
	}
}

} // namespace
