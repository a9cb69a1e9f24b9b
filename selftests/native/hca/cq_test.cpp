// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queues: entries, ownership, overrun, events, resizing.
#include "pair.hpp"

using namespace world;

namespace {

size_t events_of(Pair &p, Cq &cq) { return p.w.count_events({Told::CqEvent, &cq}); }

void nops(Pair &p, int n)
{
	for (int i = 0; i < n; i++)
		p.a.stage(Wqe::nop());
	p.a.ring();
	p.w.settle();
}

} // namespace

TEST(Cq, EntriesAreOwnedRightThroughManyRoundsOfTheRing)
{
	for (u32 size : {64u, 128u}) {
		Pair p({.cq_entries = 4, .cqe_size = size});
		for (u16 i = 0; i < 1000; i++) {
			EXPECT_EQ(p.a.post(Wqe::nop()), i);
			p.w.settle();
			Wc wc = one(p.ca);
			ASSERT_EQ(wc.index, i);
			ASSERT_EQ(wc.opcode, HCA_CQE_REQ);
		}
	}
}

TEST(Cq, ACollapsedOneHasItsLastEntryInTheFirstPlaceAndTouchesNoOther)
{
	for (u32 size : {64u, 128u}) {
		Pair p({.cq_entries = 4, .cqe_size = size});
		hca_cq *hca = p.ca.hca();
		const auto *first = reinterpret_cast<const hca_cqe *>(hca->buf + size - HCA_CQE_SIZE);
		const std::vector<u8> rest(hca->buf + size, hca->buf + 4 * size);

		hca->collapsed = true;
		hca_cq_ignore_overrun(hca, true);
		for (u16 i = 0; i < 50; i++) {
			nops(p, 1);
			ASSERT_EQ(be16_to_cpu(first->wqe_counter), i);
			ASSERT_EQ(first->op_own, HCA_CQE_REQ << 4 | (i / 4 & 1));
		}
		EXPECT_EQ(std::memcmp(hca->buf + size, rest.data(), rest.size()), 0);
		EXPECT_EQ(p.a.state(), HCA_QPS_RTS);

		/* from here on nobody polls what is looked for */
		hca_cq_ignore_overrun(hca, false);
		nops(p, 1);
		EXPECT_EQ(p.w.count_events({Told::CqError, &p.ca}), 1u);
	}
}

TEST(Cq, TheConsumerIndexMayPass24Bits)
{
	Pair p({.cq_entries = 8});
	/* as if so many completions had come already */
	p.ca.start_at(0xfffffe);
	for (u16 i = 0; i < 40; i++) {
		nops(p, 1);
		ASSERT_EQ(one(p.ca).index, i);
	}
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	nops(p, 9);
	EXPECT_EQ(p.w.count_events({Told::CqError, &p.ca}), 1u);
}

TEST(Cq, TheProducerIndexMayPass32Bits)
{
	Pair p({.cq_entries = 8});
	p.ca.start_at(0xfffffffe);
	for (u16 i = 0; i < 40; i++) {
		p.ca.arm();
		nops(p, 1);
		p.ca.take_event();
		ASSERT_EQ(one(p.ca).index, i);
	}
	EXPECT_EQ(events_of(p, p.ca), 40u);
}

TEST(Cq, AFullRingTakesNoMoreAndFailsItsQps)
{
	Pair p({.cq_entries = 4});
	nops(p, 4);
	EXPECT_EQ(p.w.count_events({Told::CqError, &p.ca}), 0u);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	nops(p, 1);
	EXPECT_EQ(p.w.count_events({Told::CqError, &p.ca}), 1u);
	EXPECT_EQ(p.w.count_events({Told::QpEvent, &p.a, HCA_EVENT_QP_FATAL}), 1u);
	EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
	EXPECT_EQ(p.da.stat(HCA_STAT_ERR_CQ_OVERRUN), 1u);
	/* what is in the ring stays, and room comes too late */
	auto wcs = p.ca.poll_all();
	ASSERT_EQ(wcs.size(), 4u);
	for (u16 i = 0; i < 4; i++)
		EXPECT_EQ(wcs[i].index, i);
	p.a.post(Wqe::nop());
	expect_none(p.ca);
	EXPECT_EQ(p.w.count_events({Told::CqError, &p.ca}), 1u);
}

TEST(Cq, AResponderThatCannotCompleteFailsBothSides)
{
	for (bool imm : {false, true}) {
		Pair p({.connect = false, .cq_entries = 4});
		Counter &c = p.w.add_counter(p.db);
		ASSERT_EQ(p.b.attach(c, 1u << HCA_CLASS_REMOTE_WRITE), 0);
		p.b.connect(p.a);
		p.a.connect(p.b);
		for (int i = 0; i < 4; i++)
			p.b.stage(Wqe::nop());
		p.b.ring();
		p.b.post_recv(p.kb.sge(0, 8));
		Wqe wqe = imm ? Wqe::write_imm(p.kb.addr(), p.kb.key(), 1) : Wqe::send();
		p.post(wqe.sge(p.ka.sge(0, 8)));
		expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_REMOTE_OP, 0);
		EXPECT_EQ(p.b.state(), HCA_QPS_ERR);
		EXPECT_EQ(p.w.count_events({Told::CqError, &p.cb}), 1u);
		EXPECT_EQ(p.cb.poll_all().size(), 4u);
		EXPECT_EQ(c.comp(), 0u);
		EXPECT_EQ(c.err(), imm ? 1u : 0u);
		p.mb.accept(0, 8);
	}
}

TEST(Cq, UnsignaledRequestsNeedNoRoom)
{
	Pair p({.cq_entries = 4});
	nops(p, 4);
	for (int i = 0; i < 20; i++)
		p.post(Wqe::nop().signaled(false));
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	EXPECT_EQ(p.ca.poll_all().size(), 4u);
}

TEST(Cq, IsEmptyOnceTheProcessSaysThatItHasPolledAll)
{
	Pair p({.cq_entries = 4});
	EXPECT_TRUE(hca_cq_is_empty(p.ca.hca()));
	nops(p, 2);
	EXPECT_FALSE(hca_cq_is_empty(p.ca.hca()));
	ASSERT_TRUE(p.ca.poll());
	EXPECT_FALSE(hca_cq_is_empty(p.ca.hca()));
	ASSERT_TRUE(p.ca.poll());
	EXPECT_TRUE(hca_cq_is_empty(p.ca.hca()));
	p.ca.set_consumer_index_record(0x7fffff);
	EXPECT_FALSE(hca_cq_is_empty(p.ca.hca()));
}

TEST(Cq, AConsumerIndexThatCannotBeReadsAsFull)
{
	for (u32 garbage : {1u, 100u, 0xfffffffbu, 0x00fffffbu, 0x7fffffu}) {
		Pair p({.cq_entries = 4});
		p.ca.set_consumer_index_record(garbage);
		nops(p, 4);
		EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
		p.ca.set_consumer_index_record(garbage);
		nops(p, 1);
		/* 1 is what it says: one was taken */
		EXPECT_EQ(p.a.state(), garbage == 1 ? HCA_QPS_RTS : HCA_QPS_ERR) << garbage;
	}
}

TEST(Cq, WithoutOverrunChecksTheRingIsWrittenRoundAndRound)
{
	Pair p({.cq_entries = 4});
	p.ca.hca()->ignore_overrun = true;
	for (int i = 0; i < 3; i++)
		nops(p, 3);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	EXPECT_EQ(p.ca.hca()->pi, 9u);
}

TEST(CqEvent, AnUnarmedCqRaisesNone)
{
	Pair p;
	nops(p, 3);
	EXPECT_EQ(events_of(p, p.ca), 0u);
}

TEST(CqEvent, AnArmedCqRaisesOneForTheNextCompletion)
{
	Pair p;
	p.ca.arm();
	EXPECT_EQ(events_of(p, p.ca), 0u);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	nops(p, 5);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	EXPECT_EQ(p.da.stat(HCA_STAT_EVENTS), 1u);
}

TEST(CqEvent, ArmingAfterTheCompletionIsThereFiresAtOnce)
{
	Pair p;
	nops(p, 1);
	p.ca.arm();
	EXPECT_EQ(events_of(p, p.ca), 1u);
}

TEST(CqEvent, CompletionsAlreadyTakenDoNotFire)
{
	Pair p;
	nops(p, 5);
	p.ca.poll_all();
	p.ca.arm();
	EXPECT_EQ(events_of(p, p.ca), 0u);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
}

TEST(CqEvent, ArmingTwiceBeforeTheEventIsTakenAsksForOne)
{
	Pair p;
	p.ca.arm();
	p.ca.arm();
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	p.ca.arm();
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	p.ca.take_event();
	p.ca.arm();
	EXPECT_EQ(events_of(p, p.ca), 2u);
}

TEST(CqEvent, ManyRoundsOfArmTakePollLoseNothing)
{
	Pair p;
	for (u32 i = 1; i <= 50; i++) {
		p.ca.arm();
		nops(p, 1);
		ASSERT_EQ(events_of(p, p.ca), i);
		p.ca.take_event();
		one(p.ca);
	}
}

TEST(CqEvent, ASolicitedArmWaitsForASolicitedCompletion)
{
	Pair p;
	auto send = [&](bool solicited) {
		p.b.post_recv();
		Wqe w = Wqe::send();
		p.post(solicited ? w.solicited() : w);
	};
	p.cb.arm(true);
	send(false);
	EXPECT_EQ(events_of(p, p.cb), 0u);
	send(true);
	EXPECT_EQ(events_of(p, p.cb), 1u);
	/* at the sender it means nothing */
	p.ca.take_event();
	p.ca.arm(true);
	send(true);
	EXPECT_EQ(events_of(p, p.ca), 0u);
}

TEST(CqEvent, AWriteWithImmediateMayBeSolicitedToo)
{
	Pair p;
	p.b.post_recv();
	p.cb.arm(true);
	p.post(Wqe::write_imm(0, 0, 1).solicited());
	EXPECT_EQ(events_of(p, p.cb), 1u);
}

TEST(CqEvent, ASolicitedArmFiresForAnyError)
{
	Pair p;
	p.ca.arm(true);
	p.post(Wqe::nop().opcode(0x3f));
	EXPECT_EQ(events_of(p, p.ca), 1u);

	Pair q;
	q.b.post_recv();
	q.cb.arm(true);
	q.b.to(HCA_QPS_ERR);
	EXPECT_EQ(events_of(q, q.cb), 1u);
}

TEST(CqEvent, ASolicitedArmFiresAtOnceOnlyIfASolicitedCompletionWaits)
{
	for (bool solicited : {false, true}) {
		Pair p;
		p.b.post_recv();
		p.b.post_recv();
		Wqe w = Wqe::send();
		p.post(solicited ? w.solicited() : w);
		p.post(Wqe::send());
		p.cb.arm(true);
		EXPECT_EQ(events_of(p, p.cb), solicited ? 1u : 0u);
	}
	/* one that has been taken does not count */
	Pair p;
	p.b.post_recv();
	p.b.post_recv();
	p.post(Wqe::send().solicited());
	one(p.cb);
	p.post(Wqe::send());
	p.cb.arm(true);
	EXPECT_EQ(events_of(p, p.cb), 0u);
}

TEST(Cq, PaddedEntriesAreWrittenWhole)
{
	for (bool pad : {false, true}) {
		Pair p({.cqe_size = 128});
		auto *first = reinterpret_cast<u64 *>(p.ca.hca()->buf);

		p.ca.hca()->pad = pad;
		std::fill(first, first + 8, ~0ull);
		nops(p, 1);
		EXPECT_TRUE(one(p.ca).ok());
		EXPECT_EQ(std::count(first, first + 8, 0ull), pad ? 8 : 0);
		/* going on in a ring of small ones there is nothing to pad */
		ASSERT_EQ(p.ca.resize(64, 64), 0);
		nops(p, 10);
		EXPECT_EQ(p.ca.poll_all().size(), 10u);
	}
}

TEST(Cq, CompletionsSayWhenTheyHappenedIfAsked)
{
	Pair p;
	nops(p, 1);
	EXPECT_EQ(one(p.ca).timestamp, 0u);

	p.ca.hca()->timestamps = true;
	u64 last = hca_clock_ns();
	for (int i = 0; i < 20; i++) {
		nops(p, 1);
		u64 at = one(p.ca).timestamp;
		EXPECT_LE(last, at);
		last = at;
	}
	EXPECT_LE(last, hca_clock_ns());
	/* a failed one has its syndrome in the same place */
	p.post(Wqe::nop().opcode(0x3f));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_QP_OP, 21);
}

TEST(CqModeration, AnEventWaitsForItsNumberOfCompletions)
{
	Pair p;
	p.ca.moderate(3, 1000);
	p.ca.arm();
	nops(p, 2);
	EXPECT_EQ(events_of(p, p.ca), 0u);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	/* once armed again it counts anew, from where the consumer says it is */
	p.ca.take_event();
	p.ca.poll_all();
	p.ca.arm();
	nops(p, 2);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	nops(p, 5);
	EXPECT_EQ(events_of(p, p.ca), 2u);
}

TEST(CqModeration, AnEventComesAtTheLatestWhenItsTimeIsOver)
{
	for (u16 count : {0, 100}) {
		Pair p;
		p.ca.moderate(count, 1000);
		p.ca.arm();
		EXPECT_FALSE(p.w.timer_of(p.ca));
		nops(p, 1);
		ASSERT_EQ(p.w.timer_of(p.ca), 1000u);
		p.w.advance(600);
		/* the first one's time counts */
		nops(p, 1);
		p.w.advance(399);
		EXPECT_EQ(events_of(p, p.ca), 0u);
		p.w.advance(1);
		EXPECT_EQ(events_of(p, p.ca), 1u);
		/* no more without being armed */
		nops(p, 1);
		p.w.advance(10000);
		EXPECT_EQ(events_of(p, p.ca), 1u);
	}
}

TEST(CqModeration, WithoutATimeThereIsNone)
{
	Pair p;
	p.ca.moderate(100, 0);
	p.ca.arm();
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
}

TEST(CqModeration, CompletionsMissedBeforeArmingCount)
{
	Pair p;
	p.ca.moderate(3, 1000);
	nops(p, 2);
	p.ca.arm();
	EXPECT_EQ(events_of(p, p.ca), 0u);
	/* Another look at the same record changes nothing, least of all the time. */
	p.w.advance(600);
	p.ca.arm();
	EXPECT_EQ(p.w.timer_of(p.ca), 400u);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
}

TEST(CqModeration, ATimerThatComesLateRaisesNothing)
{
	Pair p;
	p.ca.moderate(1, 1000);
	p.ca.arm();
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	p.ca.timer();
	EXPECT_EQ(events_of(p, p.ca), 1u);
	p.ca.take_event();
	p.ca.poll_all();
	p.ca.arm();
	p.ca.timer();
	EXPECT_EQ(events_of(p, p.ca), 1u);
}

TEST(CqModeration, EndsAtOnceForAnEventThatWaits)
{
	for (bool by_count : {false, true}) {
		Pair p;
		p.ca.moderate(100, 1000);
		p.ca.arm();
		nops(p, 2);
		if (by_count)
			p.ca.moderate(2, 1000);
		else
			p.ca.moderate(100, 0);
		EXPECT_EQ(events_of(p, p.ca), 1u);
	}
}

TEST(CqModeration, OfASolicitedArmCountsSolicitedCompletionsOnly)
{
	Pair p;
	p.cb.moderate(2, 1000);
	p.cb.arm(true);
	for (int i = 0; i < 4; i++) {
		p.b.post_recv();
		Wqe w = Wqe::send();
		p.post(i % 2 ? w.solicited() : w);
		EXPECT_EQ(events_of(p, p.cb), i == 3 ? 1u : 0u);
	}
}

TEST(CqEvent, ASolicitedArmCanBeWidened)
{
	Pair p;
	p.ca.arm(true);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 0u);
	p.ca.arm(false);
	EXPECT_EQ(events_of(p, p.ca), 1u);
}

TEST(CqEvent, AnArmForAnyCompletionIsNotNarrowed)
{
	Pair p;
	p.ca.arm(false);
	p.ca.arm(true);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	/* the next one is as it says */
	p.ca.take_event();
	p.ca.poll_all();
	p.ca.arm(true);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
}

TEST(CqEvent, ARecordThatNobodyHasWrittenToDoesNotUseUpTheFirstArm)
{
	/* Whoever watches doorbells cannot tell whose CQ has been armed, and looks at all. */
	Pair p;
	nops(p, 1);
	for (int i = 0; i < 3; i++)
		hca_cq_arm(p.ca.hca());
	const size_t before = events_of(p, p.ca);
	EXPECT_LE(before, 1u);
	p.ca.poll_all();
	p.ca.arm();
	EXPECT_EQ(events_of(p, p.ca), before);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), before + 1);
}

TEST(CqEvent, ARecordThatIsZeroesAgainWhenTheIndexHasWrappedIsAnArm)
{
	Pair p({.connect = false});
	Cq &cq = p.w.add_cq(p.da);
	Qp &q = p.w.add_qp(p.da, {.send_cq = &cq});
	q.connect(p.b);
	/* zeroes that nobody has written */
	q.post(Wqe::nop());
	hca_cq_arm(cq.hca());
	/* sequence numbers 0 and 1 */
	for (int i = 0; i < 2; i++) {
		cq.poll_all();
		cq.arm();
		q.post(Wqe::nop());
		cq.take_event();
	}
	cq.poll_all();
	cq.start_at(1 << 24);
	/* and 0 once more, at index 0 */
	cq.take_event();
	cq.take_event();
	const size_t before = events_of(p, cq);
	cq.arm();
	q.post(Wqe::nop());
	EXPECT_EQ(events_of(p, cq), before + 1);
}

TEST(CqEvent, AnyArmRecordIsHarmless)
{
	Pair p;
	for (u32 i = 0; i < 5000; i++) {
		p.ca.set_arm_record(i * 2654435761u);
		hca_cq_arm(p.ca.hca());
		if (i % 7 == 0) {
			nops(p, 1);
			ASSERT_TRUE(one(p.ca).ok());
		}
	}
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
}

TEST(CqResize, CompletionsGoOnInTheNewRing)
{
	for (auto [from, to] : {std::pair{8u, 32u}, {32u, 8u}, {8u, 8u}, {16u, 64u}, {256u, 4u}}) {
		for (u32 before : {0u, 1u, 3u, 13u, 100u}) {
			for (u32 waiting : {0u, 1u, 3u}) {
				for (auto [s1, s2] : {std::pair{64u, 64u}, {64u, 128u}, {128u, 64u}}) {
					SCOPED_TRACE(testing::Message() << from << " to " << to << " after " << before
									<< " with " << waiting);
					Pair p({.cq_entries = from, .cqe_size = s1});
					u16 expect = 0;
					for (u32 i = 0; i < before; i++) {
						nops(p, 1);
						ASSERT_EQ(one(p.ca).index, expect++);
					}
					nops(p, static_cast<int>(waiting));
					ASSERT_EQ(p.ca.resize(to, s2), 0);
					for (u32 i = 0; i < waiting; i++) {
						auto wc = p.ca.poll();
						ASSERT_TRUE(wc);
						ASSERT_EQ(wc->index, expect++);
					}
					expect_none(p.ca);
					for (int i = 0; i < 100; i++) {
						nops(p, 2);
						auto wcs = p.ca.poll_all();
						ASSERT_EQ(wcs.size(), 2u);
						ASSERT_EQ(wcs[0].index, expect++);
						ASSERT_EQ(wcs[1].index, expect++);
					}
				}
			}
		}
	}
}

TEST(CqResize, TheNewRingIsAsLargeAsItSaysAndNoLarger)
{
	Pair p({.cq_entries = 64});
	nops(p, 3);
	ASSERT_EQ(p.ca.resize(4), 0);
	nops(p, 1);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	EXPECT_EQ(p.w.count_events({Told::CqError, &p.ca}), 0u);
	nops(p, 1);
	EXPECT_EQ(p.w.count_events({Told::CqError, &p.ca}), 1u);
	EXPECT_EQ(p.ca.poll_all().size(), 4u);
}

TEST(CqResize, IsRefusedWhenWhatWaitsDoesNotFit)
{
	Pair p({.cq_entries = 64});
	nops(p, 9);
	EXPECT_EQ(p.ca.resize(8), -EINVAL);
	auto wcs = p.ca.poll_all();
	EXPECT_EQ(wcs.size(), 9u);
	EXPECT_EQ(p.ca.resize(8), 0);
	nops(p, 8);
	EXPECT_EQ(p.ca.poll_all().size(), 8u);
}

TEST(CqResize, IsRefusedWhenTheOldRingHasNoRoomForTheLastEntry)
{
	Pair p({.cq_entries = 4});
	nops(p, 4);
	EXPECT_EQ(p.ca.resize(64), -EINVAL);
	EXPECT_TRUE(p.ca.poll());
	EXPECT_EQ(p.ca.resize(64), 0);
	EXPECT_EQ(p.ca.poll_all().size(), 3u);
}

TEST(CqResize, IsRefusedAfterAnOverrun)
{
	Pair p({.cq_entries = 4});
	nops(p, 5);
	p.ca.poll_all();
	EXPECT_EQ(p.ca.resize(64), -EINVAL);
}

TEST(CqResize, AnArmedCqStaysArmed)
{
	Pair p;
	p.ca.arm();
	ASSERT_EQ(p.ca.resize(16), 0);
	EXPECT_EQ(events_of(p, p.ca), 0u);
	nops(p, 1);
	EXPECT_EQ(events_of(p, p.ca), 1u);
	p.ca.poll_all();
	p.ca.take_event();
	p.ca.arm();
	EXPECT_EQ(events_of(p, p.ca), 1u);
}
