// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Receive queues, own and shared: order, wrap, limits, links that lead nowhere.
#include "pair.hpp"

using namespace world;

namespace {

void send8(Pair &p, size_t from, size_t to)
{
	p.mb.expect(to, p.ma.read(from, 8));
	p.post(Wqe::send().sge(p.ka.sge(from, 8)).signaled(false));
}

} // namespace

TEST(ReceiveQueue, ReceivesAreUsedInOrderThroughManyRounds)
{
	for (u8 shift : {4, 6, 9}) {
		Pair p({.qp = {.rq_entries = 16, .rq_wqe_shift = shift}});
		for (u32 i = 0; i < 200; i++) {
			for (u32 n = 0; n < 1 + i % 16; n++)
				p.b.post_recv(p.kb.sge(n * 8, 8));
			for (u32 n = 0; n < 1 + i % 16; n++)
				send8(p, i + n, n * 8);
			auto wcs = p.cb.poll_all();
			ASSERT_EQ(wcs.size(), 1 + i % 16);
			for (size_t n = 1; n < wcs.size(); n++)
				ASSERT_EQ(wcs[n].index, static_cast<u16>(wcs[n - 1].index + 1));
			ASSERT_FALSE(p.w.damage());
		}
	}
}

TEST(ReceiveQueue, WhatIsLeftBehindTheEndOfAListIsNotUsed)
{
	for (bool shared : {false, true}) {
		Pair p({.srq = shared, .qp = {.rq_entries = 1}});
		Sge three[] = {p.kb.sge(0, 8), p.kb.sge(100, 8), p.kb.sge(200, 8)};
		auto post = [&](std::span<const Sge> list) {
			if (shared)
				p.srq->free_wqe(p.srq->post(list));
			else
				p.b.post_recv(list);
		};
		/* once around the ring with long lists, then a short one over it */
		for (u32 i = 0; i < (shared ? p.srq->entries() : 1); i++) {
			post(three);
			p.mb.expect(0, p.ma.read(0, 8));
			p.mb.expect(100, p.ma.read(8, 8));
			p.mb.expect(200, p.ma.read(16, 4));
			p.post(Wqe::send().sge(p.ka.sge(0, 20)).signaled(false));
			ASSERT_TRUE(one(p.cb).ok());
		}
		post(std::span(three).first(1));
		p.post(Wqe::send().sge(p.ka.sge(32, 20)));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_INVAL_REQ);
		EXPECT_EQ(one(p.cb).syndrome, HCA_SYND_LOCAL_LENGTH);
	}
}

TEST(ReceiveQueue, ItsIndicesWrapAt65536)
{
	Pair p({.qp = {.rq_entries = 4}});
	for (u32 i = 0; i < 70000; i++) {
		p.b.post_recv();
		p.a.post(Wqe::send().signaled(false));
		auto wc = p.cb.poll();
		ASSERT_TRUE(wc);
		ASSERT_EQ(wc->index, static_cast<u16>(i));
	}
}

TEST(SendQueue, ItsIndicesWrapAt65536)
{
	for (u32 slots : {1u, 16u, 1024u}) {
		Pair p({.qp = {.sq_slots = slots}});
		u16 at = 0;
		for (u32 i = 0; i < 70000; i++) {
			ASSERT_EQ(p.a.post(Wqe::nop()), at++);
			auto wc = p.ca.poll();
			ASSERT_TRUE(wc);
			ASSERT_EQ(wc->index, static_cast<u16>(i));
		}
	}
}

TEST(SendQueue, ALongWqeMayLieAcrossIndex65536)
{
	Pair p({.qp = {.sq_slots = 64}});
	for (u32 at = 0; at < 65531; at++)
		p.a.post(Wqe::nop().signaled(false));
	auto data = pattern(900, 3);
	p.mb.expect(1, data);
	ASSERT_EQ(p.a.post(Wqe::write(p.kb.addr(1), p.kb.key()).inline_data(data)), 65531u);
	expect_sent(p.ca, 65531, 900);
	ASSERT_LT(p.a.post(Wqe::nop()), 65531u);
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Srq, ReceivesAreUsedInTheOrderOfTheirLinks)
{
	Pair p({.srq = true});
	/* completed out of order, as when several QPs share the queue */
	std::vector<u16> posted;
	for (u32 n = 0; n < 8; n++)
		posted.push_back(p.srq->post(p.kb.sge(n * 8, 8)));
	for (u32 n = 0; n < 8; n++)
		send8(p, n, n * 8);
	auto wcs = p.cb.poll_all();
	ASSERT_EQ(wcs.size(), 8u);
	for (size_t n = 0; n < 8; n++)
		EXPECT_EQ(wcs[n].index, posted[n]);
	for (u32 n : {5u, 2u, 7u, 0u, 1u, 3u, 6u, 4u})
		p.srq->free_wqe(posted[n]);
	/* go on until the freed ones come up */
	for (u32 round = 0; round < 40; round++) {
		std::vector<u16> again;
		for (u32 n = 0; n < 20; n++)
			again.push_back(p.srq->post(p.kb.sge(n * 8, 8)));
		for (u32 n = 0; n < 20; n++)
			send8(p, n + round, n * 8);
		wcs = p.cb.poll_all();
		ASSERT_EQ(wcs.size(), 20u);
		for (size_t n = 0; n < 20; n++)
			ASSERT_EQ(wcs[n].index, again[n]);
		for (u32 n = 0; n < 20; n++)
			p.srq->free_wqe(again[(n * 7 + round) % 20]);
		ASSERT_FALSE(p.w.damage());
	}
}

TEST(Srq, ItsCountWrapsAt65536)
{
	Pair p({.srq = true});
	for (u32 i = 0; i < 70000; i++) {
		u16 index = p.srq->post(std::span<const Sge>{});
		p.a.post(Wqe::send().signaled(false));
		auto wc = p.cb.poll();
		ASSERT_TRUE(wc);
		ASSERT_EQ(wc->index, index);
		p.srq->free_wqe(index);
	}
}

TEST(Srq, SeveralQpsShareIt)
{
	Pair p({.srq = true});
	QpOptions o;
	o.send_cq = &p.cb;
	o.srq = p.srq;
	o.user_index = 0x77;
	Qp &b2 = p.w.add_qp(p.db, o);
	Qp &a2 = p.w.add_qp(p.da, {.send_cq = &p.ca});
	b2.connect(a2);
	a2.connect(b2);
	p.w.settle();
	for (u32 n = 0; n < 10; n++)
		p.srq->post(p.kb.sge(n * 8, 8));
	for (u32 n = 0; n < 10; n++) {
		p.mb.expect(n * 8, p.ma.read(n, 8));
		(n % 2 ? a2 : p.a).post(Wqe::send().sge(p.ka.sge(n, 8)));
	}
	auto wcs = p.cb.poll_all();
	ASSERT_EQ(wcs.size(), 10u);
	for (u32 n = 0; n < 10; n++) {
		EXPECT_EQ(wcs[n].index, n);
		EXPECT_EQ(wcs[n].qpn, (n % 2 ? b2 : p.b).qpn());
		EXPECT_EQ(wcs[n].user_index, n % 2 ? 0x77u : 0x00abcdefu);
	}
}

TEST(Srq, AnEmptyOneMakesTheSenderWait)
{
	Pair p({.srq = true});
	p.post(Wqe::send());
	EXPECT_TRUE(p.w.timer_of(p.a));
	p.srq->post(std::span<const Sge>{});
	p.w.advance(*p.w.timer_of(p.a));
	expect_sent(p.ca, 0, 0);
	one(p.cb);
}

namespace {

// The receiver is in domain 1, its receives are in domain 9.
struct SrqOfAnotherDomain : Pair {
	Srq &shared;
	Qp &receiver;

	SrqOfAnotherDomain()
	    : Pair({.connect = false}), shared(w.add_srq(db, 16, 6, 9)),
	      receiver(w.add_qp(db, {.send_cq = &cb, .srq = &shared}))
	{
		receiver.connect(a);
		a.connect(receiver);
	}
};

} // namespace

TEST(Srq, ReceivesUseItsOwnProtectionDomain)
{
	SrqOfAnotherDomain p;
	Key &k9 = p.w.add_key(p.db, p.mb, {.pdn = 9});
	p.shared.post(k9.sge(0, 8));
	p.shared.post(p.kb.sge(0, 8)); /* the QP's domain, not the queue's */
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::send().sge(p.ka.sge(0, 8)));
	expect_sent(p.ca, 0, 8);
	EXPECT_TRUE(one(p.cb).ok());
	p.post(Wqe::send().sge(p.ka.sge(0, 8)));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_OP);
	EXPECT_EQ(one(p.cb).syndrome, HCA_SYND_LOCAL_PROT);
}

TEST(Srq, ASendInvalidatesAKeyOfTheQpsDomainAndNotOfTheQueues)
{
	for (u32 pdn : {1u, 9u}) {
		SrqOfAnotherDomain p;
		Key &k = p.w.add_key(p.db, p.mb, {.pdn = pdn, .invalidate_ok = true});
		p.shared.post(std::span<const Sge>{});
		p.post(Wqe::send_inval(k.key()));
		EXPECT_EQ(one(p.ca).ok(), pdn == 1);
		EXPECT_EQ(one(p.cb).syndrome, pdn == 1 ? HCA_SYND_OK : HCA_SYND_LOCAL_QP_OP);
		EXPECT_EQ(k.is_free(), pdn == 1);
	}
}

TEST(Srq, ALongScatterListLosesOneUnitToTheLink)
{
	Pair p({.connect = false});
	Srq &srq = p.w.add_srq(p.db, 16, 9);
	QpOptions o;
	o.send_cq = &p.cb;
	o.srq = &srq;
	Qp &b = p.w.add_qp(p.db, o);
	b.connect(p.a);
	p.a.connect(b);
	std::vector<Sge> list;
	for (u32 n = 0; n < 31; n++)
		list.push_back(p.kb.sge(n * 10, 3));
	srq.post(list);
	for (u32 n = 0; n < 31; n++)
		p.mb.expect(n * 10, p.ma.read(n * 3, 3));
	p.post(Wqe::send().sge(p.ka.sge(0, 93)));
	expect_sent(p.ca, 0, 93);
	EXPECT_EQ(one(p.cb).byte_cnt, 93u);
}

TEST(SrqLimit, FiresOnceWhenFewerAreLeftThanTheLimit)
{
	Pair p({.srq = true});
	for (int i = 0; i < 6; i++)
		p.srq->post(std::span<const Sge>{});
	hca_srq_set_limit(p.srq->hca(), 4);
	EXPECT_EQ(hca_srq_limit(p.srq->hca()), 4u);
	Event e{Told::SrqLimit, p.srq};
	p.post(Wqe::send());
	p.post(Wqe::send());
	EXPECT_EQ(p.w.count_events(e), 0u); /* four are left */
	p.post(Wqe::send());
	EXPECT_EQ(p.w.count_events(e), 1u);
	EXPECT_EQ(hca_srq_limit(p.srq->hca()), 0u);
	p.post(Wqe::send());
	EXPECT_EQ(p.w.count_events(e), 1u);
}

TEST(SrqLimit, FiresAtOnceWhenTooFewArePostedAlready)
{
	Pair p({.srq = true});
	p.srq->post(std::span<const Sge>{});
	hca_srq_set_limit(p.srq->hca(), 2);
	EXPECT_EQ(p.w.count_events({Told::SrqLimit, p.srq}), 1u);
	EXPECT_EQ(hca_srq_limit(p.srq->hca()), 0u);
}

TEST(SrqLimit, ZeroDisarms)
{
	Pair p({.srq = true});
	for (int i = 0; i < 3; i++)
		p.srq->post(std::span<const Sge>{});
	hca_srq_set_limit(p.srq->hca(), 3);
	hca_srq_set_limit(p.srq->hca(), 0);
	p.post(Wqe::send());
	EXPECT_EQ(p.w.count_events({Told::SrqLimit, p.srq}), 0u);
}

TEST(SrqHostile, LinksOutOfRangeStayWithinTheRing)
{
	for (u16 bad : {64, 65, 1000, 0x8000, 0xffff}) {
		Pair p({.srq = true});
		for (u16 i = 0; i < p.srq->entries(); i++)
			p.srq->set_next(i, bad);
		p.srq->set_posted_record(200);
		for (int i = 0; i < 100; i++)
			p.post(Wqe::send().signaled(false));
		for (auto &wc : p.cb.poll_all())
			EXPECT_LT(wc.index, p.srq->entries());
	}
}

TEST(SrqHostile, LinksInACircleEndWithTheCount)
{
	Pair p({.srq = true});
	p.srq->set_next(0, 1);
	p.srq->set_next(1, 0);
	p.srq->set_posted_record(10);
	for (int i = 0; i < 10; i++)
		p.post(Wqe::send().signaled(false));
	EXPECT_EQ(p.cb.poll_all().size(), 10u);
	p.post(Wqe::send().signaled(false));
	EXPECT_TRUE(p.w.timer_of(p.a));
	expect_none(p.cb);
}

TEST(SrqHostile, ACountThatGoesBackwardsIsARoundForward)
{
	Pair p({.srq = true});
	p.srq->post(std::span<const Sge>{});
	p.post(Wqe::send().signaled(false));
	p.srq->set_posted_record(0);
	for (int i = 0; i < 100; i++)
		p.post(Wqe::send().signaled(false));
	for (auto &wc : p.cb.poll_all())
		EXPECT_LT(wc.index, p.srq->entries());
	EXPECT_FALSE(p.w.damage());
}

namespace {

// The responder of a pair receives from a queue of this kind.
struct Shared : Pair {
	Srq &queue;
	Qp &c;

	Shared(u32 entries, u8 shift, hca_srq_form form)
	    : Pair({.connect = false}), queue(w.add_srq(db, entries, shift, 1, form)), c(add())
	{
		c.connect(a);
		a.connect(c);
		w.settle();
	}

private:
	Qp &add()
	{
		QpOptions o;
		o.send_cq = &cb;
		o.srq = &queue;
		return w.add_qp(db, o);
	}
};

} // namespace

TEST(Srq, OneWithoutLinksIsUsedFromPlaceToPlaceThroughManyRounds)
{
	for (hca_srq_form form : {HCA_SRQ_CYCLIC, HCA_SRQ_BARE}) {
		for (u8 shift : {5, 6, 9}) {
			Shared p(8, shift, form);
			u16 index = 0;
			/* more than the 65,536 that the record can count */
			for (u32 i = 0; i < 66000; i += 8) {
				for (u32 n = 0; n < 8; n++)
					ASSERT_EQ(p.queue.post(p.kb.sge(n * 8, 8)), static_cast<u16>(i + n));
				for (u32 n = 0; n < 8; n++)
					send8(p, i % 64 + n, n * 8);
				auto wcs = p.cb.poll_all();
				ASSERT_EQ(wcs.size(), 8u);
				for (auto &wc : wcs)
					ASSERT_EQ(wc.index, index++);
				ASSERT_FALSE(p.w.damage());
			}
		}
	}
}

TEST(Srq, ABareReceiveHasRoomForOneMorePiece)
{
	Shared p(8, 6, HCA_SRQ_BARE);
	Sge four[] = {p.kb.sge(0, 8), p.kb.sge(100, 8), p.kb.sge(200, 8), p.kb.sge(300, 8)};
	p.queue.post(four);
	for (u32 n = 0; n < 4; n++)
		p.mb.expect(n * 100, p.ma.read(n * 8, 8));
	p.post(Wqe::send().sge(p.ka.sge(0, 32)));
	expect_sent(p.ca, 0, 32);
	EXPECT_EQ(one(p.cb).byte_cnt, 32u);
}
