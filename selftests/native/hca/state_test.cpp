// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// States of a QP: what runs in which, what is kept and what is forgotten.
#include "pair.hpp"

using namespace world;

TEST(State, ANewQpIsInResetAndRunsNothing)
{
	Pair p({.connect = false});
	EXPECT_EQ(p.a.state(), HCA_QPS_RESET);
	p.a.post(Wqe::nop());
	p.w.settle();
	expect_none(p.ca);
}

TEST(State, SendsPostedBeforeRtsRunWhenItIsReached)
{
	Pair p({.connect = false});
	p.b.connect(p.a);
	p.a.to_init();
	p.a.to_rtr(p.b);
	u16 index = p.a.post(Wqe::nop());
	p.w.settle();
	expect_none(p.ca);
	p.a.to_rts();
	p.w.settle();
	expect_sent(p.ca, index, 0);
}

TEST(State, ReceivesPostedInInitAreUsed)
{
	Pair p({.connect = false});
	p.b.to_init();
	u16 index = p.b.post_recv(p.kb.sge(0, 8));
	p.b.to_rtr(p.a);
	p.a.connect(p.b);
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::send().sge(p.ka.sge(0, 8)));
	EXPECT_EQ(one(p.cb).index, index);
}

TEST(State, TheFirstMessageInRtrSaysThatTheConnectionIsThere)
{
	Pair p({.connect = false});
	p.b.to_init();
	p.b.to_rtr(p.a);
	p.a.connect(p.b);
	p.w.settle();
	Event e{Told::QpEvent, &p.b, HCA_EVENT_COMM_EST};
	EXPECT_EQ(p.w.count_events(e), 0u);
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(p.w.count_events(e), 1u);
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(p.w.count_events(e), 1u);
	EXPECT_EQ(p.b.state(), HCA_QPS_RTR);
	EXPECT_EQ(p.ca.poll_all().size(), 2u);
}

TEST(State, InRtsTheFirstMessageSaysNothing)
{
	Pair p;
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(p.w.count_events({Told::QpEvent, &p.b, HCA_EVENT_COMM_EST}), 0u);
}

TEST(State, ResetForgetsAllWork)
{
	Pair p({.memory = 320 * 1024});
	p.b.post_recv(p.kb.sge(0, 300000));
	p.b.post_recv();
	p.a.stage(Wqe::send().sge(p.ka.sge(0, 300000)));
	p.a.stage(Wqe::nop());
	p.a.ring();
	p.mb.expect(0, p.ma.read(0, HCA_SLICE));
	p.a.to(HCA_QPS_RESET);
	p.b.to(HCA_QPS_RESET);
	p.w.settle();
	p.w.advance(1ull << 33);
	expect_none(p.ca);
	expect_none(p.cb);

	/* as new */
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.w.settle();
	u16 recv = p.b.post_recv(p.kb.sge(5, 8));
	p.mb.expect(5, p.ma.read(1, 8));
	u16 index = p.a.post(Wqe::send().sge(p.ka.sge(1, 8)));
	EXPECT_EQ(index, 0u);
	expect_sent(p.ca, index, 8);
	EXPECT_EQ(one(p.cb).index, recv);
}

TEST(State, AnErrorIsLeftThroughReset)
{
	Pair p;
	p.post(Wqe::write(0, 0).sge(p.ka.sge(0, 8)));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_ACCESS);
	for (Qp *q : {&p.a, &p.b})
		q->to(HCA_QPS_RESET);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.w.settle();
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	expect_sent(p.ca, 0, 8);
	/* timers of the old life do no harm */
	p.w.advance(1ull << 34);
	expect_none(p.ca);
	expect_none(p.cb);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
}

TEST(State, DrainingFinishesTheRequestInProgressAndSaysSoOnce)
{
	Pair p({.memory = 320 * 1024});
	u16 index = p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 300000)));
	u16 next = p.a.post(Wqe::nop());
	Event e{Told::QpEvent, &p.a, HCA_EVENT_SQ_DRAINED};
	p.a.to(HCA_QPS_SQD);
	EXPECT_EQ(p.w.count_events(e), 0u);
	p.w.settle();
	p.mb.expect(0, p.ma.read(0, 300000));
	expect_sent(p.ca, index, 300000);
	EXPECT_EQ(p.w.count_events(e), 1u);
	u16 later = p.a.post(Wqe::nop());
	p.w.settle();
	expect_none(p.ca);
	EXPECT_EQ(p.w.count_events(e), 1u);

	p.a.to(HCA_QPS_RTS);
	p.w.settle();
	auto wcs = p.ca.poll_all();
	ASSERT_EQ(wcs.size(), 2u);
	EXPECT_EQ(wcs[0].index, next);
	EXPECT_EQ(wcs[1].index, later);

	p.a.to(HCA_QPS_SQD);
	p.w.settle();
	EXPECT_EQ(p.w.count_events(e), 2u);
}

TEST(State, ADrainedQpStillAnswers)
{
	Pair p;
	p.b.to(HCA_QPS_SQD);
	p.w.settle();
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	expect_sent(p.ca, 0, 8);
}

TEST(State, DrainingWaitsForAReceiverThatIsNotReady)
{
	Pair p;
	p.post(Wqe::send());
	p.a.to(HCA_QPS_SQD);
	p.w.settle();
	Event e{Told::QpEvent, &p.a, HCA_EVENT_SQ_DRAINED};
	EXPECT_EQ(p.w.count_events(e), 0u);
	p.b.post_recv();
	p.w.advance(*p.w.timer_of(p.a));
	expect_sent(p.ca, 0, 0);
	EXPECT_EQ(p.w.count_events(e), 1u);
}

TEST(State, AttributesMayChangeWithoutTheState)
{
	Pair p;
	hca_qp_attr a{};
	a.mask = HCA_ATTR_ACCESS;
	a.access = HCA_ACCESS_REMOTE_READ;
	p.b.modify(a);
	EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_INVAL_REQ);
}

TEST(State, ATransitionThatWasAllowedBeforeTheQpFailedIsRefused)
{
	Pair p({.connect = false});
	p.a.to_init();
	p.a.to_rtr(p.b);
	hca_qp_attr rts{};
	rts.mask = HCA_ATTR_STATE | HCA_ATTR_SQ_PSN;
	rts.state = HCA_QPS_RTS;
	rts.sq_psn = 77;
	u32 psn = p.a.hca()->sq.psn;
	p.a.to(HCA_QPS_ERR);
	EXPECT_EQ(hca_qp_modify(p.a.hca(), HCA_QPS_RTR, &rts), -EINVAL);
	EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
	EXPECT_EQ(p.a.hca()->sq.psn, psn);
}

TEST(State, AFailedQpGoesToErrorAndToResetWhateverItWasThoughtToBe)
{
	for (u8 state : {HCA_QPS_ERR, HCA_QPS_RESET}) {
		Pair p;
		hca_qp_attr to{};
		to.mask = HCA_ATTR_STATE;
		to.state = state;
		p.a.to(HCA_QPS_ERR);
		EXPECT_EQ(hca_qp_modify(p.a.hca(), HCA_QPS_RTS, &to), 0);
		EXPECT_EQ(p.a.state(), state);
	}
}

TEST(State, AQpWithoutASendQueueIgnoresItsDoorbellRecord)
{
	Pair p({.connect = false, .qp = {.sq_slots = 0}});
	p.a.connect(p.b);
	p.a.set_sq_record(7);
	EXPECT_EQ(p.a.run(10, 1000), HCA_RUN_IDLE);
	p.a.to(HCA_QPS_ERR);
	p.w.settle();
	EXPECT_EQ(p.a.run(10, 1000), HCA_RUN_IDLE);
	expect_none(p.ca);
	EXPECT_FALSE(hca_qp_pending(p.a.hca()));
}

TEST(State, WhatWasPostedBeforeAnErrorIsNotExecutedAfterIt)
{
	/* Of a queue that is not connected reliably, put back to work before its rest has been flushed. */
	for (u8 type : {HCA_QP_UC, HCA_QP_UD}) {
		Pair p({.connect = false, .qp = {.type = type}});
		if (type == HCA_QP_UC) {
			p.b.connect(p.a);
			p.a.connect(p.b);
		} else {
			p.a.start();
			p.b.start();
		}
		auto request = [&](u32 key) {
			return type == HCA_QP_UC ?
				       Wqe::write(p.kb.addr(), p.kb.key()).sge({p.ka.addr(), 8, key}) :
				       Wqe::send().to(p.db.number(), p.b.qpn(), u64{ConnectOptions{}.qkey} << 32)
					       .sge({p.ka.addr(), 8, key});
		};
		p.b.post_recv(p.kb.sge(0, 100));
		p.a.stage(request(0x77));
		p.a.stage(request(p.ka.key()));
		p.a.set_sq_record(p.a.producer_index());
		p.a.run(1, HCA_SLICE);
		ASSERT_EQ(p.a.state(), HCA_QPS_SQE);
		p.a.to(HCA_QPS_RTS);
		p.w.settle();
		auto wcs = p.ca.poll_all();
		ASSERT_EQ(wcs.size(), 2u);
		EXPECT_EQ(wcs[0].syndrome, HCA_SYND_LOCAL_PROT);
		EXPECT_EQ(wcs[1].syndrome, HCA_SYND_WR_FLUSH);
		/* and what is posted now, is */
		p.a.post(request(p.ka.key()));
		p.w.settle();
		EXPECT_TRUE(one(p.ca).ok());
		p.mb.accept(0, 100);
	}
}

TEST(State, PendingSaysWhetherTheDoorbellRecordMoved)
{
	Pair p;
	EXPECT_FALSE(hca_qp_pending(p.a.hca()));
	p.a.stage(Wqe::nop());
	EXPECT_FALSE(hca_qp_pending(p.a.hca()));
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_TRUE(hca_qp_pending(p.a.hca()));
	p.a.run(1, 1);
	EXPECT_FALSE(hca_qp_pending(p.a.hca()));
	one(p.ca);
}

TEST(Budget, IsKeptAndSaysWhetherMoreIsToDo)
{
	Pair p({.memory = 640 * 1024, .qp = {.sq_slots = 256}});
	for (int i = 0; i < 100; i++)
		p.a.stage(Wqe::nop());
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_EQ(p.a.run(1, 1 << 20), HCA_RUN_MORE);
	EXPECT_EQ(p.ca.poll_all().size(), 1u);
	EXPECT_EQ(p.a.run(40, 1 << 20), HCA_RUN_MORE);
	EXPECT_EQ(p.ca.poll_all().size(), 40u);
	EXPECT_EQ(p.a.run(1000, 1 << 20), HCA_RUN_IDLE);
	EXPECT_EQ(p.ca.poll_all().size(), 59u);

	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 600000)));
	p.a.set_sq_record(p.a.producer_index());
	u32 turns = 0;
	while (p.a.run(1000, HCA_SLICE) == HCA_RUN_MORE)
		turns++;
	EXPECT_EQ(turns, 9u); /* of 64 KiB, and the tenth finds the end */
	EXPECT_EQ(one(p.ca).byte_cnt, 600000u);
	p.mb.expect(0, p.ma.read(0, 600000));
}

TEST(Budget, LessThanASliceIsNotExceeded)
{
	Pair p;
	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 50000)));
	p.a.set_sq_record(p.a.producer_index());
	p.mb.accept(0, 50000);
	for (u64 turns = 1; turns <= 3; turns++) {
		EXPECT_EQ(p.a.run(1000, 16384), HCA_RUN_MORE);
		EXPECT_EQ(p.da.stat(HCA_STAT_BYTES), turns * 16384);
	}
	EXPECT_EQ(p.a.run(1000, 16384), HCA_RUN_IDLE);
	EXPECT_EQ(one(p.ca).byte_cnt, 50000u);
	EXPECT_EQ(p.mb.read(0, 50000), p.ma.read(0, 50000));
	/* However small it is, there is progress. */
	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 50000)));
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_EQ(p.a.run(1000, 1), HCA_RUN_MORE);
	EXPECT_EQ(p.da.stat(HCA_STAT_BYTES), 50000u + HCA_MIN_SLICE);
	while (p.a.run(1000, 1) == HCA_RUN_MORE)
		continue;
	EXPECT_TRUE(one(p.ca).ok());
	p.mb.accept(0, 50000);
}

TEST(Budget, NoneAtAllStillDoesASlice)
{
	Pair p;
	p.a.stage(Wqe::nop());
	p.a.stage(Wqe::nop());
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_EQ(p.a.run(0, 0), HCA_RUN_MORE);
	EXPECT_EQ(p.ca.poll_all().size(), 1u);
}

TEST(Budget, LocksAndReadSectionAreGivenUpAfterEachSliceAndEachBatch)
{
	Pair p({.memory = 640 * 1024, .qp = {.sq_slots = 1024}});
	auto turns = [&] {
		u64 locks = hca_port_locks_taken("&qp->sq.lock"), sections = hca_port_rcu_sections();
		EXPECT_EQ(p.a.run(1u << 30, 1u << 30), HCA_RUN_IDLE);
		locks = hca_port_locks_taken("&qp->sq.lock") - locks;
		EXPECT_EQ(hca_port_rcu_sections() - sections, locks);
		return locks;
	};
	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 600000)));
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_GE(turns(), 10u);
	p.mb.expect(0, p.ma.read(0, 600000));
	for (int i = 0; i < 1000; i++)
		p.a.stage(Wqe::nop().signaled(false));
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_GE(turns(), 1000u / 64);
}

TEST(Budget, ASmallMessageOvertakesALargeOneOfAnotherQp)
{
	Pair p({.memory = 640 * 1024});
	Qp &a2 = p.w.add_qp(p.da, {.send_cq = &p.ca}), &b2 = p.w.add_qp(p.db, {.send_cq = &p.cb});
	b2.connect(a2);
	a2.connect(b2);
	p.w.settle();
	p.a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 600000)));
	a2.stage(Wqe::write(p.kb.addr(610000), p.kb.key()).sge(p.ka.sge(0, 8)));
	a2.set_sq_record(a2.producer_index());
	p.w.kicked(a2);
	/* one turn each */
	ASSERT_TRUE(p.w.run_one());
	ASSERT_TRUE(p.w.run_one());
	EXPECT_EQ(one(p.ca).qpn, a2.qpn());
	p.w.settle();
	EXPECT_EQ(one(p.ca).qpn, p.a.qpn());
	p.mb.expect(0, p.ma.read(0, 600000));
	p.mb.expect(610000, p.ma.read(0, 8));
}

TEST(Route, IsAskedForOnceUntilTheFabricChanges)
{
	Pair p;
	p.post(Wqe::write(0, 0));
	u64 asked = hca_port_locks_taken("&qp->route_lock");
	for (int i = 0; i < 50; i++)
		p.post(Wqe::write(0, 0));
	EXPECT_EQ(hca_port_locks_taken("&qp->route_lock"), asked);
	p.w.fabric_changed();
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(hca_port_locks_taken("&qp->route_lock"), asked + 2); /* both ends */
	EXPECT_EQ(p.ca.poll_all().size(), 52u);
}

TEST(Route, AnAddressThatMovesIsFollowed)
{
	Pair p;
	Device &third = p.w.add_device();
	Cq &cq = p.w.add_cq(third);
	Key &k = p.w.add_key(third, p.mb);
	Qp &c = p.w.add_qp(third, {.send_cq = &cq});
	ASSERT_EQ(c.qpn(), p.b.qpn());
	c.connect(p.a);
	p.a.remote = &third;
	p.w.fabric_changed();
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::write(k.addr(), k.key()).sge(p.ka.sge(0, 8)));
	expect_sent(p.ca, 0, 8);
	EXPECT_EQ(p.b.hca()->rq.psn, 0x100u);
}
