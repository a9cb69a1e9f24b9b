// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters are raised a batch at a time; nobody may be able to tell by what else he sees.
#include "pair.hpp"

#include <atomic>
#include <functional>
#include <thread>

using namespace world;

namespace {

struct Counted : Pair {
	Counted(const PairOptions &o = {.connect = false})
	    : Pair(o), sent(w.add_counter(da)), arrived(w.add_counter(db))
	{
		EXPECT_EQ(a.attach(sent, 1u << HCA_CLASS_WRITE | 1u << HCA_CLASS_READ), 0);
		EXPECT_EQ(b.attach(arrived, 1u << HCA_CLASS_REMOTE_WRITE | 1u << HCA_CLASS_REMOTE_READ), 0);
		b.connect(a);
		a.connect(b);
		w.settle();
		mb.accept(0, mb.size());
	}
	Wqe write(bool signaled)
	{
		return Wqe::write(kb.addr(), kb.key()).sge(ka.sge(0, 8)).signaled(signaled);
	}
	~Counted() { mb.accept(0, 8); }
	Counter &sent, &arrived;
};

} // namespace

TEST(Batch, ManyRequestsOfADoorbellAreAllCounted)
{
	Counted p;
	for (int i = 0; i < 30; i++)
		p.a.stage(p.write(false));
	p.a.ring();
	p.w.settle();
	EXPECT_EQ(p.sent.comp(), 30u);
	EXPECT_EQ(p.arrived.comp(), 30u);
}

TEST(Batch, WhatIsDoneIsTakenOffTheBudgetHoweverItEnds)
{
	/* By an empty queue, by a peer without a receive, by the budget. */
	Pair p;
	p.b.post_recv(p.kb.sge(0, 8));
	for (int i = 0; i < 3; i++)
		p.a.stage(Wqe::write(p.kb.addr(8), p.kb.key()).sge(p.ka.sge(0, 100)));
	p.a.set_sq_record(p.a.producer_index());
	hca_budget budget{10, 1000};
	EXPECT_EQ(hca_qp_run(p.a.hca(), &budget), HCA_RUN_IDLE);
	EXPECT_EQ(budget.wqes, 7u);
	EXPECT_EQ(budget.bytes, 700u);

	for (int i = 0; i < 2; i++)
		p.a.stage(Wqe::send().sge(p.ka.sge(0, 8)));
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_EQ(hca_qp_run(p.a.hca(), &budget), HCA_RUN_WAIT);
	EXPECT_EQ(budget.wqes, 6u);
	EXPECT_EQ(budget.bytes, 692u);
	p.mb.accept(0, 128);
}

TEST(Batch, AnArmedCounterRaisesOneEventForItsRequests)
{
	Counted p;
	hca_counter_arm(p.arrived.hca(), true);
	for (int i = 0; i < 8; i++)
		p.a.stage(p.write(false));
	p.a.ring();
	EXPECT_EQ(p.w.count_events({Told::CounterEvent, &p.arrived}), 1u);
	EXPECT_EQ(p.arrived.comp(), 8u);
}

TEST(Batch, WhenTheEventComesTheCounterHasTheBatch)
{
	Counted p;
	u64 seen = 0;
	hca_counter_arm(p.sent.hca(), true);
	p.w.on_event = [&](const Event &e) {
		if (e.what == Told::CounterEvent && e.who == &p.sent) {
			seen = p.sent.comp();
			EXPECT_EQ(p.arrived.comp(), seen);
		}
	};
	for (int i = 0; i < 5; i++)
		p.a.stage(p.write(false));
	p.a.ring();
	EXPECT_EQ(seen, 5u);
	p.w.on_event = nullptr;
}

TEST(Batch, SuccessesAreCountedBeforeTheErrorThatEndsThem)
{
	Counted p;
	u64 before = ~0ull;
	p.w.on_event = [&](const Event &e) {
		if (e.what == Told::CounterEvent && p.sent.err() == 1 && before == ~0ull)
			before = p.sent.comp();
	};
	hca_counter_arm(p.sent.hca(), true);
	for (int i = 0; i < 5; i++)
		p.a.stage(p.write(false));
	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge({1, 8, 0x77}));
	p.a.ring();
	p.w.settle();
	EXPECT_EQ(before, 5u);
	EXPECT_EQ(p.sent.comp(), 5u);
	EXPECT_EQ(p.arrived.comp(), 5u);
	p.w.on_event = nullptr;
}

TEST(Batch, TheResponderTooCountsSuccessesBeforeTheErrorThatEndsThem)
{
	/* A key that is none, an operation that is not allowed, a receive that is too small. */
	const std::function<Wqe(Pair &)> bad[] = {
		[](Pair &p) { return Wqe::write(p.kb.addr(), p.kb.key() ^ 1).sge(p.ka.sge(0, 8)); },
		[](Pair &p) { return Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(0, 8)); },
		[](Pair &p) { return Wqe::send().sge(p.ka.sge(0, 8)); },
	};
	for (const auto &request : bad) {
		Counted p;
		p.b.modify([] {
			hca_qp_attr a{};
			a.mask = HCA_ATTR_ACCESS;
			a.access = HCA_ACCESS_REMOTE_WRITE;
			return a;
		}());
		p.b.post_recv(p.kb.sge(64, 4));
		bool first = true;
		hca_counter_arm(p.arrived.hca(), true);
		p.w.on_event = [&](const Event &e) {
			/* Whether by the counter or by the QP's event. */
			if (e.who != &p.arrived && e.who != &p.b)
				return;
			if (first) {
				EXPECT_EQ(p.arrived.comp(), 5u);
				EXPECT_EQ(p.arrived.err(), 0u);
			}
			first = false;
		};
		for (int i = 0; i < 5; i++)
			p.a.stage(p.write(false));
		p.a.stage(request(p));
		p.a.ring();
		p.w.settle();
		EXPECT_FALSE(first);
		EXPECT_EQ(p.b.state(), HCA_QPS_ERR);
		p.w.on_event = nullptr;
	}
}

TEST(Batch, WhoFindsOneOfTheSendersCountersRaisedFindsTheReceiversRaised)
{
	Pair p({.connect = false});
	Counter &writes = p.w.add_counter(p.da), &reads = p.w.add_counter(p.da), &arrived = p.w.add_counter(p.db);
	ASSERT_EQ(p.a.attach(writes, 1u << HCA_CLASS_WRITE), 0);
	ASSERT_EQ(p.a.attach(reads, 1u << HCA_CLASS_READ), 0);
	ASSERT_EQ(p.b.attach(arrived, 1u << HCA_CLASS_REMOTE_WRITE | 1u << HCA_CLASS_REMOTE_READ), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.w.settle();
	hca_counter_arm(writes.hca(), true);
	hca_counter_arm(reads.hca(), true);
	p.w.on_event = [&](const Event &e) {
		if (e.what == Told::CounterEvent) {
			EXPECT_GE(arrived.comp(), writes.comp() + reads.comp());
		}
	};
	for (int i = 0; i < 8; i++) {
		p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)).signaled(false));
		p.a.stage(Wqe::read(p.kb.addr(), p.kb.key()).sge(p.ka.sge(64, 8)).signaled(false));
	}
	p.a.ring();
	p.w.settle();
	p.w.on_event = nullptr;
	EXPECT_EQ(arrived.comp(), 16u);
	p.ma.accept(64, 8);
	p.mb.accept(0, 8);
}

TEST(Batch, WithoutItsCompletionAnOperationHasNotSucceeded)
{
	/* The CQ of one end is full: of the sender's, of the receiver's. */
	for (bool receiver : {false, true}) {
		for (bool imm : {false, true}) {
			Pair p({.connect = false});
			Cq &full = p.w.add_cq(receiver ? p.db : p.da, 1);
			Qp &a = receiver ? p.a : p.w.add_qp(p.da, {.send_cq = &full});
			Qp &b = receiver ? p.w.add_qp(p.db, {.send_cq = &full}) : p.b;
			Counter &sent = p.w.add_counter(p.da), &arrived = p.w.add_counter(p.db);
			ASSERT_EQ(a.attach(sent, 1u << HCA_CLASS_SEND | 1u << HCA_CLASS_WRITE), 0);
			ASSERT_EQ(b.attach(arrived, 1u << HCA_CLASS_RECV), 0);
			b.connect(a);
			a.connect(b);
			p.w.settle();
			for (int i = 0; i < 2; i++) {
				b.post_recv(p.kb.sge(0, 8));
				a.post(imm ? Wqe::write_imm(0, 0, 1) : Wqe::send().sge(p.ka.sge(0, 8)));
				p.w.settle();
			}
			p.mb.accept(0, 8);
			EXPECT_EQ(sent.comp(), 1u);
			EXPECT_EQ(sent.err(), 1u);
			EXPECT_EQ(arrived.comp(), receiver ? 1u : 2u);
			EXPECT_EQ(arrived.err(), receiver ? 1u : 0u);
		}
	}
}

TEST(Batch, WhoReceivesAMessageFindsTheWritesBeforeItCounted)
{
	for (bool imm : {false, true}) {
		for (u32 len : {0, 8}) {
			Counted p;
			u64 seen = 0;
			p.w.on_event = [&](const Event &e) {
				if (e.what == Told::CqEvent && e.who == &p.cb)
					seen = p.arrived.comp();
			};
			p.b.post_recv(p.kb.sge(64, 8));
			p.cb.arm();
			for (int i = 0; i < 5; i++)
				p.a.stage(p.write(false));
			if (imm)
				p.a.stage(Wqe::write_imm(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(0, len)).signaled(false));
			else
				p.a.stage(Wqe::send().sge(p.ka.sge(0, len)).signaled(false));
			p.a.ring();
			EXPECT_EQ(seen, 5u);
			p.mb.accept(64, 8);
			p.w.on_event = nullptr;
		}
	}
}

TEST(Batch, RequestsOfTwoCountersInTurnReachBoth)
{
	Pair p({.connect = false});
	Counter &writes = p.w.add_counter(p.da), &reads = p.w.add_counter(p.da, true);
	ASSERT_EQ(p.a.attach(writes, 1u << HCA_CLASS_WRITE), 0);
	ASSERT_EQ(p.a.attach(reads, 1u << HCA_CLASS_READ), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.w.settle();
	for (int i = 0; i < 10; i++) {
		p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)).signaled(false));
		p.a.stage(Wqe::read(p.kb.addr(), p.kb.key()).sge(p.ka.sge(64, 16)).signaled(false));
	}
	p.a.ring();
	p.w.settle();
	EXPECT_EQ(writes.comp(), 10u);
	EXPECT_EQ(reads.comp(), 160u);
	p.ma.accept(64, 16);
	p.mb.accept(0, 8);
}

TEST(Batch, WhoSeesACompletionFindsThePeersCounterRaised)
{
	Counted p({.connect = false, .cq_entries = 4096});
	constexpr u32 rounds = 400, batch = 16;
	std::atomic<u32> completed{0};
	u64 bad = 0;
	/* Every second request says that it is done. */
	std::thread reader([&] {
		while (completed < rounds * batch / 2) {
			if (!p.ca.poll()) {
				std::this_thread::yield();
				continue;
			}
			completed++;
			bad += p.arrived.comp() < completed * 2;
		}
	});
	for (u32 i = 0; i < rounds; i++) {
		for (u32 n = 0; n < batch; n++)
			p.a.stage(p.write(n & 1));
		p.a.ring();
		while (p.w.run_one())
			;
	}
	reader.join();
	EXPECT_EQ(bad, 0u);
	EXPECT_EQ(p.sent.comp(), rounds * batch);
}
