// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The error state: everything queued completes with a flush error, in order, once.
#include "pair.hpp"

#include <atomic>
#include <thread>

using namespace world;

TEST(Flush, BothQueuesAreFlushedInOrder)
{
	Pair p({.connect = false, .qp = {.sq_slots = 64, .rq_entries = 64}});
	Cq &recv_cq = p.w.add_cq(p.da);
	Qp &q = p.w.add_qp(p.da, {.send_cq = &p.ca, .recv_cq = &recv_cq});
	q.connect(p.b);
	p.w.settle();
	std::vector<u16> sends, recvs;
	for (u32 i = 0; i < 20; i++) {
		/* of various sizes, unsignaled ones too */
		Wqe w = Wqe::write(p.kb.addr(), p.kb.key()).signaled(i % 3 == 0);
		for (u32 s = 0; s < i % 5; s++)
			w.sge(p.ka.sge(0, 8));
		sends.push_back(q.stage(w));
	}
	q.set_sq_record(q.producer_index());
	for (int i = 0; i < 64; i++)
		recvs.push_back(q.post_recv(p.ka.sge(0, 8)));
	q.to(HCA_QPS_ERR);

	/* before the call returns */
	auto s = p.ca.poll_all();
	ASSERT_EQ(s.size(), sends.size());
	for (size_t i = 0; i < s.size(); i++) {
		expect_flushed(s[i], HCA_CQE_REQ_ERR, sends[i]);
		EXPECT_EQ(s[i].send_op, HCA_OPCODE_RDMA_WRITE);
		EXPECT_EQ(s[i].qpn, q.qpn());
		EXPECT_EQ(s[i].user_index, 0x00abcdefu);
	}
	auto r = recv_cq.poll_all();
	ASSERT_EQ(r.size(), recvs.size());
	for (size_t i = 0; i < r.size(); i++) {
		expect_flushed(r[i], HCA_CQE_RESP_ERR, recvs[i]);
		EXPECT_EQ(r[i].qpn, q.qpn());
	}
	EXPECT_EQ(p.da.stat(HCA_STAT_ERR_FLUSH), sends.size() + recvs.size());

	/* and only once */
	p.w.advance(1ull << 35);
	expect_none(p.ca);
	expect_none(recv_cq);
}

TEST(Flush, TheRequestInProgressIsFlushedFirst)
{
	Pair p;
	u16 index = p.a.stage(Wqe::send().sge(p.ka.sge(0, 8)));
	u16 next = p.a.post(Wqe::nop());
	p.w.settle();
	ASSERT_TRUE(p.w.timer_of(p.a)); /* waits for a receive */
	p.a.to(HCA_QPS_ERR);
	auto wcs = p.ca.poll_all();
	ASSERT_EQ(wcs.size(), 2u);
	expect_flushed(wcs[0], HCA_CQE_REQ_ERR, index);
	expect_flushed(wcs[1], HCA_CQE_REQ_ERR, next);
	p.b.post_recv(p.kb.sge(0, 8));
	p.w.advance(1ull << 35);
	expect_none(p.ca);
	expect_none(p.cb);
}

TEST(Flush, ARequestInTheMiddleOfAMessageIsFlushedAndThePeersReceiveStays)
{
	Pair p({.memory = 320 * 1024});
	p.b.post_recv(p.kb.sge(0, 300000));
	u16 index = p.a.post(Wqe::send().sge(p.ka.sge(0, 300000)));
	p.a.to(HCA_QPS_ERR);
	p.w.settle();
	expect_flushed(one(p.ca), HCA_CQE_REQ_ERR, index);
	expect_none(p.cb);
	p.mb.expect(0, p.ma.read(0, HCA_SLICE));
	p.b.to(HCA_QPS_ERR);
	expect_flushed(one(p.cb), HCA_CQE_RESP_ERR, 0);
}

TEST(Flush, SendsPostedInTheErrorStateAreFlushedByTheirDoorbell)
{
	Pair p;
	p.a.to(HCA_QPS_ERR);
	for (int i = 0; i < 3; i++) {
		u16 index = p.a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
		expect_flushed(one(p.ca), HCA_CQE_REQ_ERR, index);
	}
}

TEST(Flush, ReceivesPostedInTheErrorStateAreFlushedSoon)
{
	Pair p;
	p.b.to(HCA_QPS_ERR);
	for (int i = 0; i < 5; i++) {
		u16 first = p.b.post_recv(p.kb.sge(0, 8));
		u16 second = p.b.post_recv();
		p.w.advance(1100ull * 1000 * 1000); /* about a second at the latest */
		auto wcs = p.cb.poll_all();
		ASSERT_EQ(wcs.size(), 2u);
		expect_flushed(wcs[0], HCA_CQE_RESP_ERR, first);
		expect_flushed(wcs[1], HCA_CQE_RESP_ERR, second);
	}
	/* one that is posted right after another is found at once */
	p.b.post_recv();
	while (!p.cb.poll())
		p.w.advance(1000 * 1000);
	u16 index = p.b.post_recv();
	p.w.advance(2 * 1000 * 1000);
	expect_flushed(one(p.cb), HCA_CQE_RESP_ERR, index);
}

TEST(Flush, AnIdleQpInTheErrorStateLooksForReceivesOnceASecondAtMost)
{
	Pair p;
	p.b.to(HCA_QPS_ERR);
	p.w.advance(10ull * 1000 * 1000 * 1000);
	int looks = 0;
	u64 until = p.w.now() + 10ull * 1000 * 1000 * 1000;
	while (p.w.now() < until) {
		auto wait = p.w.timer_of(p.b);
		ASSERT_TRUE(wait);
		p.w.advance(*wait);
		looks++;
	}
	EXPECT_LE(looks, 11);
}

TEST(Flush, ADoorbellRecordThatClaimsMoreThanTheRingHoldsIsBelievedForOneRing)
{
	Pair p({.qp = {.sq_slots = 16, .rq_entries = 16}});
	p.a.set_sq_record(60000);
	p.a.set_rq_record(60000);
	p.a.to(HCA_QPS_ERR);
	p.w.settle();
	size_t sends = 0, recvs = 0;
	for (auto &wc : p.ca.poll_all())
		wc.is_send() ? sends++ : recvs++;
	EXPECT_EQ(sends, 16u);
	EXPECT_EQ(recvs, 16u);
}

TEST(Flush, ItIsWorkLikeAnyOtherAndOthersMayGoInBetween)
{
	Pair p({.cq_entries = 8192, .qp = {.sq_slots = 1024, .rq_entries = 1024}});
	auto post = [&] {
		for (int i = 0; i < 1000; i++) {
			p.a.stage(Wqe::nop());
			p.a.post_recv();
		}
		p.a.set_sq_record(p.a.producer_index());
	};
	post();
	u64 locks = hca_port_locks_taken("&qp->sq.lock");
	p.a.to(HCA_QPS_ERR);
	EXPECT_GE(hca_port_locks_taken("&qp->sq.lock") - locks, 2000u / 64);
	EXPECT_EQ(p.ca.poll_all().size(), 2000u) << "all are flushed when the call returns";
	/* and in turns of the queue what is posted later */
	post();
	size_t flushed = 0;
	u32 turns = 0;
	while (p.a.run(64, HCA_SLICE) == HCA_RUN_MORE) {
		const size_t now = p.ca.poll_all().size();
		EXPECT_LE(now, 5 * 64u);
		flushed += now;
		turns++;
	}
	flushed += p.ca.poll_all().size();
	EXPECT_EQ(flushed, 2000u);
	EXPECT_GE(turns, 5u);
}

TEST(Flush, ADoorbellRecordThatNeverStandsStillDoesNotKeepTheCallFromReturning)
{
	/* Several times: whoever moves it may be kept from running for as long as a flush takes. */
	for (u32 i = 0; i < 20; i++) {
		const u8 type = i % 2 ? HCA_QP_UC : HCA_QP_RC;
		Pair p({.qp = {.sq_slots = 32768, .rq_entries = 32768, .type = type}});
		if (type == HCA_QP_UC) {
			p.a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge({p.ka.addr(), 8, 0x77}));
			ASSERT_EQ(p.a.state(), HCA_QPS_SQE);
		}
		std::atomic<bool> stop{false}, moving{false};
		std::thread poster([&] {
			/* by as much as the ring holds, there and back */
			for (u32 at = 0; !stop; at ^= 32768) {
				p.a.set_sq_record(at);
				p.a.set_rq_record(at);
				moving = true;
			}
		});
		while (!moving)
			std::this_thread::yield();
		p.a.to(type == HCA_QP_UC ? HCA_QPS_RTS : HCA_QPS_ERR);
		stop = true;
		poster.join();
		EXPECT_EQ(p.a.state(), type == HCA_QP_UC ? HCA_QPS_RTS : HCA_QPS_ERR);
		p.w.settle();
	}
}

TEST(Flush, WhoSendsToAQueueThatStartsAgainNeedNotWaitForItsFlush)
{
	Pair p({.cq_entries = 2048, .qp = {.sq_slots = 1024, .type = HCA_QP_UC}});
	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge({p.ka.addr(), 8, 0x77}));
	for (int i = 0; i < 1000; i++)
		p.a.stage(Wqe::nop());
	p.a.set_sq_record(p.a.producer_index());
	p.a.run(1, HCA_SLICE);
	ASSERT_EQ(p.a.state(), HCA_QPS_SQE);
	const u64 locks = hca_port_locks_taken("&qp->sq.lock");
	p.a.to(HCA_QPS_RTS);
	EXPECT_GE(hca_port_locks_taken("&qp->sq.lock") - locks, 1000u / 64);
	EXPECT_EQ(p.ca.poll_all().size(), 1001u);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
}

TEST(Flush, ASharedReceiveQueueKeepsItsReceivesAndTheQpSaysThatItTookItsLast)
{
	Pair p({.srq = true});
	for (int i = 0; i < 5; i++)
		p.srq->post(p.kb.sge(0, 8));
	p.b.to(HCA_QPS_ERR);
	p.w.settle();
	expect_none(p.cb);
	EXPECT_EQ(p.w.count_events({Told::QpEvent, &p.b, HCA_EVENT_QP_LAST_WQE}), 1u);
	/* once per error state */
	p.b.post(Wqe::nop());
	p.w.advance(1ull << 33);
	EXPECT_EQ(p.w.count_events({Told::QpEvent, &p.b, HCA_EVENT_QP_LAST_WQE}), 1u);

	p.b.to(HCA_QPS_RESET);
	p.b.to(HCA_QPS_ERR);
	EXPECT_EQ(p.w.count_events({Told::QpEvent, &p.b, HCA_EVENT_QP_LAST_WQE}), 2u);
}

TEST(Flush, AReceiveTakenFromASharedQueueForAMessageInProgressIsFlushed)
{
	Pair p({.memory = 320 * 1024, .srq = true});
	u16 index = p.srq->post(p.kb.sge(0, 300000));
	p.a.post(Wqe::send().sge(p.ka.sge(0, 300000)));
	p.mb.expect(0, p.ma.read(0, HCA_SLICE));
	p.b.to(HCA_QPS_ERR);
	expect_flushed(one(p.cb), HCA_CQE_RESP_ERR, index);
	auto events = p.w.take_events();
	ASSERT_FALSE(events.empty());
	EXPECT_EQ(events.back(), (Event{Told::QpEvent, &p.b, HCA_EVENT_QP_LAST_WQE}));
}

TEST(Flush, AReceiveOfAMessageInProgressIsFlushedBeforeTheOnesBehindIt)
{
	Pair p({.memory = 320 * 1024});
	p.b.post_recv(p.kb.sge(0, 300000));
	p.b.post_recv(p.kb.sge(0, 8));
	p.a.post(Wqe::send().sge(p.ka.sge(0, 300000)));
	p.mb.expect(0, p.ma.read(0, HCA_SLICE));
	p.b.to(HCA_QPS_ERR);
	auto wcs = p.cb.poll_all();
	ASSERT_EQ(wcs.size(), 2u);
	expect_flushed(wcs[0], HCA_CQE_RESP_ERR, 0);
	expect_flushed(wcs[1], HCA_CQE_RESP_ERR, 1);
}

TEST(Flush, NothingIsFlushedIntoTheRingOfACqThatOverran)
{
	Pair p({.cq_entries = 4});
	for (int i = 0; i < 10; i++)
		p.a.stage(Wqe::nop());
	p.a.ring();
	p.w.settle();
	EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
	EXPECT_EQ(p.ca.poll_all().size(), 4u);
	p.a.post(Wqe::nop());
	expect_none(p.ca);
}
