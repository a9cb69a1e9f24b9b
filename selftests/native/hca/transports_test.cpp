// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Transports other than RC: unreliable connections, datagrams, XRC, dynamically connected.
#include "pair.hpp"

#include <functional>

using namespace world;

namespace {

PairOptions of_type(u8 type)
{
	PairOptions o;
	o.qp.type = type;
	return o;
}

// ---- datagrams ----

constexpr u32 qkey = 0x1ee;

struct Datagrams : Pair {
	Datagrams() : Pair(options())
	{
		a.start();
		b.start();
	}
	static PairOptions options()
	{
		PairOptions o = of_type(HCA_QP_UD);
		o.connect = false;
		return o;
	}
	Wqe send(u32 len, u32 key = qkey) { return to_b(Wqe::send(), key).sge(ka.sge(0, len)); }
	Wqe to_b(Wqe wqe, u32 key = qkey) { return wqe.to(db.number(), b.qpn(), u64{key} << 32); }
};

// ---- dynamically connected ----

constexpr u64 dc_key = 0x1122334455667788;

struct Dc : Pair {
	Srq &srq_b;
	Qp &dct;

	explicit Dc(u16 streams = 0)
	    : Pair(options(streams)), srq_b(w.add_srq(db)),
	      dct(w.add_qp(db, {.send_cq = &cb, .srq = &srq_b, .sq_slots = 0, .rq_entries = 0, .type = HCA_QP_DCT,
				.key = dc_key}))
	{
		a.start();
		dct.start();
		w.settle();
	}
	static PairOptions options(u16 streams)
	{
		PairOptions o = of_type(HCA_QP_DCI);
		o.connect = false;
		o.qp.rq_entries = 0;
		o.qp.streams = streams;
		return o;
	}
	Wqe to_dct(Wqe wqe, u64 key = dc_key) { return wqe.to(db.number(), dct.qpn(), key); }
	Wqe write(u32 at, u32 len)
	{
		return to_dct(Wqe(HCA_OPCODE_RDMA_WRITE)).remote(kb.addr(at), kb.key()).sge(ka.sge(at, len));
	}
};

// ---- XRC ----

struct Xrc : Pair {
	Cq &arrivals;
	Srq &first, &second;
	Qp &target;

	Xrc()
	    : Pair(options()), arrivals(w.add_cq(db)), first(w.add_srq(db)), second(w.add_srq(db, 64, 6, 7)),
	      target(w.add_qp(db, {.send_cq = &cb, .sq_slots = 0, .rq_entries = 0, .pdn = 0, .type = HCA_QP_XRC_TGT,
				   .xrcdn = 3}))
	{
		first.make_xrc(100, 3, arrivals, 0xf1);
		second.make_xrc(101, 3, arrivals, 0xf2);
		target.connect(a);
		a.connect(target);
		w.settle();
	}
	static PairOptions options()
	{
		PairOptions o = of_type(HCA_QP_XRC_INI);
		o.connect = false;
		o.qp.rq_entries = 0;
		return o;
	}
	// A message to the first SRQ, of which one slice is there.
	void begin_message()
	{
		first.post(kb.sge(0, 90000));
		a.stage(Wqe::send().to_srq(100).sge(ka.sge(0, 90000)));
		a.set_sq_record(a.producer_index());
		EXPECT_EQ(a.run(1, HCA_SLICE), HCA_RUN_MORE);
		mb.accept(0, 90000);
	}
};

} // namespace

TEST(Uc, SendsAndWritesArrive)
{
	Pair p(of_type(HCA_QP_UC));
	p.mb.expect(0, p.ma.read(10, 90000));
	p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.ka.sge(10, 90000)));
	expect_sent(p.ca, 0, 90000);

	p.b.post_recv(p.kb.sge(90001, 500));
	p.mb.expect(90001, p.ma.read(7, 500));
	p.post(Wqe::send_imm(0xabc).sge(p.ka.sge(7, 500)));
	EXPECT_TRUE(one(p.ca).ok());
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.opcode, HCA_CQE_RESP_SEND_IMM);
	EXPECT_EQ(wc.imm, 0xabcu);
}

TEST(Uc, WhatCannotBeReceivedIsLostAndTheConnectionGoesOn)
{
	Pair p(of_type(HCA_QP_UC));
	p.post(Wqe::send().sge(p.ka.sge(0, 8))); /* no receive */
	EXPECT_TRUE(one(p.ca).ok());
	p.post(Wqe::write(p.kb.addr(0), p.kb.key() ^ 1).sge(p.ka.sge(0, 90000))); /* no such key */
	EXPECT_TRUE(one(p.ca).ok());
	p.db.set_up(false); /* nobody there */
	p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
	p.db.set_up(true);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
	expect_none(p.cb);

	p.b.post_recv(p.kb.sge(0, 8));
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::send().sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_TRUE(one(p.cb).ok());
}

TEST(Uc, AReceiveThatIsTooShortFailsAtTheReceiverOnly)
{
	Pair p(of_type(HCA_QP_UC));
	u16 index = p.b.post_recv(p.kb.sge(0, 8));
	p.post(Wqe::send().sge(p.ka.sge(0, 9)));
	EXPECT_TRUE(one(p.ca).ok());
	expect_failed(one(p.cb), HCA_CQE_RESP_ERR, HCA_SYND_LOCAL_LENGTH, index);
	EXPECT_EQ(p.b.state(), HCA_QPS_ERR);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
}

TEST(Uc, ALocalErrorStopsTheSendQueueUntilItIsStartedAgain)
{
	Pair p(of_type(HCA_QP_UC));
	p.a.stage(Wqe::write(p.kb.addr(0), p.kb.key()).sge({p.ka.addr(0), 8, p.ka.key() ^ 1}));
	p.a.stage(Wqe::nop());
	p.a.ring();
	p.w.settle();
	auto all = p.ca.poll_all();
	ASSERT_EQ(all.size(), 2u);
	expect_failed(all[0], HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_PROT, 0);
	expect_flushed(all[1], HCA_CQE_REQ_ERR, 1);
	EXPECT_EQ(p.a.state(), HCA_QPS_SQE);

	/* it receives all the time */
	p.a.post_recv(p.ka.sge(50, 8));
	p.ma.expect(50, p.mb.read(0, 8));
	p.b.post(Wqe::send().sge(p.kb.sge(0, 8)));
	p.w.settle();
	EXPECT_TRUE(one(p.cb).ok());
	EXPECT_TRUE(one(p.ca).ok());

	p.a.to(HCA_QPS_RTS);
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Uc, ReadsAtomicsAndInvalidationsAreNoneOfItsOperations)
{
	for (u8 op : {HCA_OPCODE_RDMA_READ, HCA_OPCODE_ATOMIC_FA, HCA_OPCODE_SEND_INVAL, HCA_OPCODE_MMO}) {
		Pair p(of_type(HCA_QP_UC));
		p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.ka.sge(0, 8)).opcode(op));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_LOCAL_QP_OP) << int{op};
	}
}

TEST(Ud, ADatagramArrivesBehindAGrh)
{
	Datagrams p;
	p.b.post_recv(p.kb.sge(0, 140));
	p.mb.expect(40, p.ma.read(0, 100));
	p.post(p.send(100));
	expect_sent(p.ca, 0, 100);
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.opcode, HCA_CQE_RESP_SEND);
	EXPECT_EQ(wc.byte_cnt, 140u);
	EXPECT_EQ(wc.src_qpn, p.a.qpn());
	EXPECT_EQ(wc.header, 0x19) << "a GRH, by UDP, of IPv6";
	Bytes grh = p.mb.read(0, 40);
	EXPECT_EQ(grh[0], 0x60);
	EXPECT_EQ(grh[5], 100);
	EXPECT_EQ(grh[23], p.da.number());
	EXPECT_EQ(grh[39], p.db.number());
	p.mb.accept(0, 40);
}

TEST(Ud, OfNoBytesOnlyTheGrhArrives)
{
	Datagrams p;
	p.b.post_recv(p.kb.sge(0, 40));
	p.post(p.to_b(Wqe::send_imm(5)));
	EXPECT_TRUE(one(p.ca).ok());
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.byte_cnt, 40u);
	EXPECT_EQ(wc.imm, 5u);
	p.mb.accept(0, 40);
}

TEST(Ud, WhatCannotBeDeliveredIsLost)
{
	Datagrams p;
	p.post(p.send(8)); /* no receive */
	EXPECT_TRUE(one(p.ca).ok());
	p.b.post_recv(p.kb.sge(0, 100));
	p.post(p.send(8, qkey + 1)); /* another Q_Key */
	EXPECT_TRUE(one(p.ca).ok());
	p.post(Wqe::send().to(p.db.number(), 0x123456, u64{qkey} << 32).sge(p.ka.sge(0, 8))); /* no such QP */
	EXPECT_TRUE(one(p.ca).ok());
	p.post(Wqe::send().to(77, p.b.qpn(), u64{qkey} << 32).sge(p.ka.sge(0, 8))); /* no such device */
	EXPECT_TRUE(one(p.ca).ok());
	expect_none(p.cb);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
}

TEST(Ud, TheOwnQkeyStandsInForOneWithTheHighestBit)
{
	Datagrams p;
	p.b.post_recv(p.kb.sge(0, 48));
	p.mb.expect(40, p.ma.read(0, 8));
	p.post(p.send(8, HCA_QKEY_OWN | 1));
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_TRUE(one(p.cb).ok());
	p.mb.accept(0, 40);
}

TEST(Ud, ADatagramIsNoLongerThanAPacket)
{
	Datagrams p;
	p.post(p.send(1025));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_LOCAL_LENGTH);
	EXPECT_EQ(p.a.state(), HCA_QPS_SQE);
}

TEST(Ud, AnAddressIsWhole)
{
	for (int how = 0; how < 3; how++) {
		Datagrams p;
		Wqe wqe = Wqe::send();
		if (how == 1)
			wqe.to(p.db.number(), p.b.qpn(), u64{qkey} << 32, false).sge(p.ka.sge(0, 8));
		else if (how == 2)
			wqe = p.send(8).claim_ds(3);
		p.post(wqe);
		EXPECT_EQ(p.ca.poll_all().at(0).syndrome, HCA_SYND_LOCAL_QP_OP) << how;
	}
}

TEST(Ud, AReceiveThatIsTooShortFailsAtTheReceiver)
{
	Datagrams p;
	u16 index = p.b.post_recv(p.kb.sge(0, 47));
	p.post(p.send(8));
	EXPECT_TRUE(one(p.ca).ok());
	expect_failed(one(p.cb), HCA_CQE_RESP_ERR, HCA_SYND_LOCAL_LENGTH, index);
}

TEST(Ud, AllOfAGroupGetADatagramTheSenderToo)
{
	Datagrams p;
	p.w.groups.emplace(9, &p.a);
	p.w.groups.emplace(9, &p.b);
	p.w.groups.emplace(8, &p.b);
	p.b.post_recv(p.kb.sge(0, 100));
	p.b.post_recv(p.kb.sge(1000, 100));
	p.a.post_recv(p.ka.sge(2000, 100));
	p.mb.expect(40, p.ma.read(0, 60));
	p.ma.expect(2040, p.ma.read(0, 60));
	p.post(Wqe::send().to_group(9, qkey).sge(p.ka.sge(0, 60)));
	EXPECT_EQ(p.ca.poll_all().size(), 2u);
	EXPECT_EQ(one(p.cb).byte_cnt, 100u);
	p.ma.accept(2000, 40);
	p.mb.accept(0, 40);
}

TEST(Ud, WhatAGroupTakesIsWorkForEachOfItsMembers)
{
	Datagrams p;
	for (u32 i = 0; i < 100; i++) {
		Qp &q = p.w.add_qp(p.db, {.send_cq = &p.cb, .rq_entries = 1, .type = HCA_QP_UD});
		q.start();
		p.w.groups.emplace(3, &q);
	}
	for (u32 i = 0; i < 4; i++)
		p.a.stage(Wqe::send().to_group(3, qkey).sge(p.ka.sge(0, 1000)));
	p.a.set_sq_record(p.a.producer_index());
	/* One datagram is more than is done under one set of locks. */
	EXPECT_EQ(p.a.run(64, 1), HCA_RUN_MORE);
	EXPECT_EQ(p.ca.poll_all().size(), 1u);
	p.a.run(64, 1 << 20);
	EXPECT_EQ(p.ca.poll_all().size(), 3u);
}

TEST(Ud, AGroupWhoseKeysAreDearToLookAtLosesItsDatagramForSomeAndFailsNobody)
{
	/* Thirty rounds of a thousand pieces at each member; all members together have what one message has. */
	Datagrams p;
	constexpr u32 pieces = 1000;
	IndirectKey &below = p.w.add_indirect(p.db, {.max_entries = pieces}), &k = p.w.add_indirect(p.db);
	Cq &cq = p.w.add_cq(p.db, 1024), &registered = p.w.add_cq(p.db);
	Qp &registrar = p.w.add_qp(p.db, {.send_cq = &registered});
	registrar.connect(registrar);
	for (u32 i = 0; i < pieces; i++) {
		const hca_klm klm = Wqe::klm(p.kb.sge(50000, 1));
		p.mb.write(i * sizeof(klm), std::span(reinterpret_cast<const u8 *>(&klm), sizeof(klm)));
	}
	registrar.post(Wqe::umr_by_pointer(below.key(), p.kb.sge(0, pieces * 16), pieces));
	const Block block{below.sge(0, 0).addr, pieces, 0, below.key()};
	registrar.post(Wqe::umr_pattern(k.key(), 1, std::vector<Block>(30, block)));
	p.w.settle();
	for (auto &wc : registered.poll_all())
		ASSERT_TRUE(wc.ok());
	std::vector<Qp *> members;
	for (u32 i = 0; i < 21; i++) {
		Qp &m = p.w.add_qp(p.db, {.send_cq = &cq, .type = HCA_QP_UD});
		m.start();
		m.post_recv(i < 20 ? k.sge(0, 30 * pieces) : p.kb.sge(60000, 1040));
		p.w.groups.emplace(3, &m);
		members.push_back(&m);
	}
	p.post(Wqe::send().to_group(3, qkey).sge(p.ka.sge(0, 1000)));
	EXPECT_TRUE(one(p.ca).ok());
	const auto got = cq.poll_all();
	for (auto &wc : got)
		EXPECT_TRUE(wc.ok()) << "a member is not to blame for what the others cost";
	EXPECT_EQ(got.size(), HCA_KEY_TREE / 30030 + 1) << "some by their keys, and the one whose key is plain";
	EXPECT_EQ(got.back().qpn, members.back()->qpn());
	p.mb.accept(50000, 1);
	p.mb.accept(60000, 1040);
	for (Qp *m : members)
		EXPECT_EQ(m->state(), HCA_QPS_RTS);
}

TEST(Xrc, AMessageArrivesInTheSrqThatItNames)
{
	Xrc p;
	for (auto [srq, pdn] : {std::pair{&p.first, 1u}, {&p.second, 7u}}) {
		Key &k = p.w.add_key(p.db, p.mb, {.pdn = pdn});
		u16 index = srq->post(k.sge(pdn * 1000, 200));
		p.mb.expect(pdn * 1000, p.ma.read(0, 200));
		p.post(Wqe::send().to_srq(srq->number()).sge(p.ka.sge(0, 200)));
		EXPECT_TRUE(one(p.ca).ok());
		Wc wc = one(p.arrivals);
		EXPECT_EQ(wc.index, index);
		EXPECT_EQ(wc.qpn, p.target.qpn());
		EXPECT_EQ(wc.user_index, pdn == 1 ? 0xf1u : 0xf2u);
	}
	expect_none(p.cb);
}

TEST(Xrc, MemoryIsInTheDomainOfTheSrq)
{
	Xrc p;
	Key &k = p.w.add_key(p.db, p.mb, {.pdn = 7});
	p.mb.expect(0, p.ma.read(0, 100));
	p.post(Wqe(HCA_OPCODE_RDMA_WRITE).to_srq(101).remote(k.addr(0), k.key()).sge(p.ka.sge(0, 100)));
	EXPECT_TRUE(one(p.ca).ok());
	p.post(Wqe(HCA_OPCODE_RDMA_WRITE).to_srq(100).remote(k.addr(0), k.key()).sge(p.ka.sge(0, 100)));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_ACCESS);
}

TEST(Xrc, ASendMayInvalidateAKeyOfTheDomainOfTheSrqAndNoOther)
{
	for (auto [srqn, works] : {std::pair{101u, true}, {100u, false}}) {
		Xrc p;
		Key &k = p.w.add_key(p.db, p.mb, {.pdn = 7, .invalidate_ok = true});
		(works ? p.second : p.first).post(std::span<const Sge>{});
		p.post(Wqe::send_inval(k.key()).to_srq(srqn));
		EXPECT_EQ(one(p.ca).ok(), works);
		EXPECT_EQ(one(p.arrivals).syndrome, works ? HCA_SYND_OK : HCA_SYND_LOCAL_QP_OP);
		EXPECT_EQ(k.is_free(), works);
	}
}

TEST(Xrc, NoSuchSrqIsARemoteError)
{
	for (u32 srqn : {99u, 0u}) {
		Xrc p;
		p.post(Wqe::send().to_srq(srqn).sge(p.ka.sge(0, 8)));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_INVAL_REQ);
	}
	Xrc p; /* or one of another domain */
	p.first.make_xrc(100, 4, p.arrivals, 0);
	p.post(Wqe::send().to_srq(100).sge(p.ka.sge(0, 8)));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_INVAL_REQ);
}

TEST(Xrc, AReceiveUnderWayIsFlushedWithItsTarget)
{
	Xrc p;
	p.begin_message();
	p.target.to(HCA_QPS_ERR);
	p.w.settle();
	expect_flushed(one(p.arrivals), HCA_CQE_RESP_ERR, 0);
}

TEST(Xrc, AnotherSrqOfTheSameNumberDoesNotGoOnWithAMessage)
{
	for (bool error : {false, true}) {
		Xrc p;
		p.begin_message();
		p.second.make_xrc(100, 3, p.arrivals, 0xf2);
		p.second.post(p.kb.sge(0, 90000));
		if (error) {
			p.target.to(HCA_QPS_ERR);
		} else {
			p.a.run(1, HCA_SLICE);
			expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_REMOTE_INVAL_REQ, 0);
			EXPECT_EQ(p.target.state(), HCA_QPS_ERR);
		}
		p.w.settle();
		expect_none(p.arrivals);
		/* Its receive is there for the next one. */
		EXPECT_EQ(p.second.hca()->taken, 0u);
	}
}

TEST(Xrc, TheReceiveOfAMessageThatNeverEndsIsFlushed)
{
	for (u32 next : {101u, 99u}) {
		Xrc p;
		p.second.post(p.w.add_key(p.db, p.mb, {.pdn = 7}).sge(100, 8));
		p.begin_message();
		/* The requester starts over, with another SRQ or with none. */
		p.a.to(HCA_QPS_RESET);
		p.a.connect(p.target);
		p.post(Wqe::send().to_srq(next).sge(p.ka.sge(0, 8)));
		EXPECT_EQ(one(p.ca).ok(), next == 101);
		const auto wcs = p.arrivals.poll_all();
		ASSERT_EQ(wcs.size(), next == 101 ? 2u : 1u);
		expect_flushed(wcs[0], HCA_CQE_RESP_ERR, 0);
		EXPECT_EQ(wcs[0].user_index, 0xf1u);
		p.mb.accept(100, 8);
	}
}

TEST(Xrc, TheReceiveOfAMessageThatNeverEndsIsNotAnotherSrqsOfTheSameNumber)
{
	Xrc p;
	p.begin_message();
	/* The requester starts over. */
	p.a.to(HCA_QPS_RESET);
	p.a.connect(p.target);
	p.second.make_xrc(100, 3, p.arrivals, 0xf2);
	p.second.post(p.w.add_key(p.db, p.mb, {.pdn = 7}).sge(100, 8));
	p.mb.expect(100, p.ma.read(0, 8));
	p.post(Wqe::send().to_srq(100).sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_TRUE(one(p.arrivals).ok());
	EXPECT_EQ(p.second.hca()->taken, 1u);
}

TEST(Dc, WritesSendsReadsAndAtomicsReachADct)
{
	Dc p;
	p.mb.expect(0, p.ma.read(0, 90000));
	p.post(p.write(0, 90000));
	expect_sent(p.ca, 0, 90000);

	p.srq_b.post(p.kb.sge(100, 70000));
	p.mb.expect(100, p.ma.read(5, 70000));
	p.post(p.to_dct(Wqe::send_imm(9)).sge(p.ka.sge(5, 70000)));
	EXPECT_TRUE(one(p.ca).ok());
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.qpn, p.dct.qpn());
	EXPECT_EQ(wc.byte_cnt, 70000u);
	EXPECT_EQ(wc.imm, 9u);

	p.mb.write(0, pattern(300, 4));
	p.ma.expect(1000, p.mb.read(0, 300));
	p.post(p.to_dct(Wqe(HCA_OPCODE_RDMA_READ)).remote(p.kb.addr(0), p.kb.key()).sge(p.ka.sge(1000, 300)));
	EXPECT_TRUE(one(p.ca).ok());

	u64 before;
	std::memcpy(&before, p.mb.at(0), 8);
	u64 after = before + 3;
	p.ma.expect(0, std::span(reinterpret_cast<u8 *>(&before), 8));
	p.mb.expect(0, std::span(reinterpret_cast<u8 *>(&after), 8));
	p.post(p.to_dct(Wqe(HCA_OPCODE_ATOMIC_FA)).remote(p.kb.addr(0), p.kb.key()).atomic(3, 0).sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Dc, EachRequestGoesToTheTargetThatItNames)
{
	Dc p;
	Device &third = p.w.add_device();
	Memory &m = p.w.add_memory(4096);
	Key &k = p.w.add_key(third, m);
	Cq &cq = p.w.add_cq(third);
	Srq &srq = p.w.add_srq(third);
	Qp &other = p.w.add_qp(third, {.send_cq = &cq, .srq = &srq, .sq_slots = 0, .rq_entries = 0,
				       .type = HCA_QP_DCT, .key = dc_key + 1});
	other.start();
	for (u32 i = 0; i < 4; i++) {
		srq.post(k.sge(8 * i, 8));
		p.srq_b.post(p.kb.sge(8 * i, 8));
	}
	auto to_other = [&](u32 at) {
		return Wqe::send().to(third.number(), other.qpn(), dc_key + 1).sge(p.ka.sge(at, 8));
	};
	auto to_first = [&](u32 at) { return p.to_dct(Wqe::send()).sge(p.ka.sge(at, 8)); };
	/* In one batch, by turns; and so again after the routes were lost. */
	for (u32 round = 0; round < 2; round++) {
		u32 at = 16 * round;
		p.mb.expect(at, p.ma.read(at, 16));
		m.expect(at, p.ma.read(100 + at, 16));
		for (u32 i = 0; i < 2; i++) {
			p.a.stage(to_first(at + 8 * i));
			p.a.stage(to_other(100 + at + 8 * i));
		}
		p.a.ring();
		p.w.settle();
		EXPECT_EQ(p.ca.poll_all().size(), 4u);
		EXPECT_EQ(p.cb.poll_all().size(), 2u);
		EXPECT_EQ(cq.poll_all().size(), 2u);
		p.w.fabric_changed();
	}
	/* The key of one is not the other's. */
	p.post(Wqe::send().to(third.number(), other.qpn(), dc_key).sge(p.ka.sge(0, 8)));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_ACCESS);
}

TEST(Dc, MessagesOfSeveralInitiatorsDoNotMix)
{
	Dc p;
	Qp &other = p.w.add_qp(p.da, {.send_cq = &p.ca, .rq_entries = 0, .type = HCA_QP_DCI});
	other.start();
	p.srq_b.post(p.kb.sge(0, 90000));
	Memory &m = p.w.add_memory(90000);
	Key &k = p.w.add_key(p.db, m);
	p.srq_b.post(k.sge(0, 80000));
	p.mb.expect(0, p.ma.read(0, 90000));
	m.expect(0, p.ma.read(3, 80000));
	p.a.stage(p.to_dct(Wqe::send()).sge(p.ka.sge(0, 90000)));
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_EQ(p.a.run(1, HCA_SLICE), HCA_RUN_MORE);
	other.post(p.to_dct(Wqe::send()).sge(p.ka.sge(3, 80000)));
	p.w.settle();
	EXPECT_EQ(one(p.cb).byte_cnt, 80000u);
	p.a.run(1, HCA_SLICE);
	EXPECT_EQ(one(p.cb).byte_cnt, 90000u);
	EXPECT_EQ(p.ca.poll_all().size(), 2u);
}

/* Two receives, and the beginning of a message in the first. */
static Qp &begin_message(Dc &p, Key &payload)
{
	Qp &dci = p.w.add_qp(p.da, {.send_cq = &p.ca, .rq_entries = 0, .type = HCA_QP_DCI});
	dci.start();
	p.srq_b.post(p.kb.sge(0, 90000));
	p.srq_b.post(p.kb.sge(0, 90000));
	dci.stage(p.to_dct(Wqe::send()).sge(payload.sge(0, 90000)));
	dci.set_sq_record(dci.producer_index());
	EXPECT_EQ(dci.run(1, HCA_SLICE), HCA_RUN_MORE);
	p.mb.accept(0, 90000);
	return dci;
}

TEST(Dc, AMessageThatIsGivenUpInItsMiddleCompletesItsReceiveWithAnError)
{
	const std::function<void(Dc &, Qp &, Key &)> ways[] = {
		[](Dc &, Qp &dci, Key &) { dci.to(HCA_QPS_ERR); },
		[](Dc &, Qp &dci, Key &) { dci.to(HCA_QPS_RESET); },
		[](Dc &, Qp &dci, Key &) { dci.destroy(); },
		[](Dc &, Qp &dci, Key &payload) {
			payload.kill();
			dci.run(1, HCA_SLICE);
		},
		[](Dc &p, Qp &dci, Key &) {
			/* The target's device cannot be reached for longer than the retries last. */
			p.db.set_up(false);
			dci.run(1, HCA_SLICE);
			p.w.advance(10'000'000'000);
			EXPECT_EQ(dci.state(), HCA_QPS_ERR);
			p.db.set_up(true);
		},
	};
	for (const auto &give_up : ways) {
		Dc p;
		Memory &m = p.w.add_memory(90000);
		Key &payload = p.w.add_key(p.da, m);
		give_up(p, begin_message(p, payload), payload);
		p.w.settle();
		Wc wc = one(p.cb);
		expect_failed(wc, HCA_CQE_RESP_ERR, HCA_SYND_REMOTE_ABORTED, 0);
		EXPECT_EQ(wc.vendor_err, HCA_VENDOR_ABORTED);
		EXPECT_EQ(wc.qpn, p.dct.qpn());
		p.ca.poll_all();

		/* The target goes on, with its next receive. */
		p.mb.expect(0, p.ma.read(0, 80000));
		p.post(p.to_dct(Wqe::send()).sge(p.ka.sge(0, 80000)));
		EXPECT_TRUE(one(p.ca).ok());
		wc = one(p.cb);
		EXPECT_TRUE(wc.ok());
		EXPECT_EQ(wc.index, 1u);
	}
}

TEST(Dc, WithoutItsTargetTheReceiveOfAMessageIsNobodys)
{
	Dc p;
	Qp &dci = begin_message(p, p.ka);
	p.dct.destroy();
	dci.to(HCA_QPS_ERR);
	p.w.settle();
	expect_flushed(one(p.ca), HCA_CQE_REQ_ERR, 0);
	expect_none(p.cb);
}

TEST(Dc, AnotherTargetOfTheSameNumberDoesNotGoOnWithAMessage)
{
	for (bool error : {false, true}) {
		Dc p;
		Qp &dci = begin_message(p, p.ka);
		const u32 number = p.dct.qpn();
		p.dct.destroy();
		p.db.hca()->qps.next = number;
		Srq &srq = p.w.add_srq(p.db);
		Qp &other = p.w.add_qp(p.db, {.send_cq = &p.cb, .srq = &srq, .sq_slots = 0, .rq_entries = 0,
					      .type = HCA_QP_DCT, .key = dc_key});
		ASSERT_EQ(other.qpn(), number);
		other.start();
		srq.post(p.kb.sge(0, 90000));
		if (error)
			dci.to(HCA_QPS_ERR);
		else
			dci.run(1, HCA_SLICE);
		p.w.settle();
		expect_failed(one(p.ca), HCA_CQE_REQ_ERR, error ? HCA_SYND_WR_FLUSH : HCA_SYND_REMOTE_INVAL_REQ, 0);
		expect_none(p.cb);
		/* Its own receive is there for the next one. */
		p.mb.expect(0, p.ma.read(0, 8));
		p.post(p.to_dct(Wqe::send()).sge(p.ka.sge(0, 8)));
		EXPECT_TRUE(one(p.ca).ok());
		EXPECT_EQ(one(p.cb).index, 0u);
	}
}

TEST(Dc, AWrongKeyOrNumberIsARemoteErrorAndTheTargetGoesOn)
{
	{
		Dc p;
		p.post(p.to_dct(Wqe(HCA_OPCODE_RDMA_WRITE), dc_key + 1).remote(p.kb.addr(0), p.kb.key()).sge(p.ka.sge(0, 8)));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_ACCESS);
		EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
		EXPECT_EQ(p.dct.state(), HCA_QPS_RTR);
	}
	{
		Dc p; /* a number that is no DCT's */
		p.post(Wqe(HCA_OPCODE_RDMA_WRITE)
			       .to(p.db.number(), p.b.qpn(), dc_key)
			       .remote(p.kb.addr(0), p.kb.key())
			       .sge(p.ka.sge(0, 8)));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_INVAL_REQ);
	}
	{
		Dc p; /* another initiator is served after one was refused */
		p.post(p.to_dct(Wqe(HCA_OPCODE_RDMA_WRITE)).remote(p.kb.addr(0), p.kb.key() ^ 1).sge(p.ka.sge(0, 8)));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_ACCESS);
		Qp &other = p.w.add_qp(p.da, {.send_cq = &p.ca, .rq_entries = 0, .type = HCA_QP_DCI});
		other.start();
		p.mb.expect(0, p.ma.read(0, 8));
		other.post(p.write(0, 8));
		EXPECT_TRUE(one(p.ca).ok());
	}
}

TEST(Dc, WithoutAReceiveItIsRetried)
{
	Dc p;
	p.a.post(p.to_dct(Wqe::send()).sge(p.ka.sge(0, 8)));
	expect_none(p.ca);
	p.srq_b.post(p.kb.sge(0, 8));
	p.mb.expect(0, p.ma.read(0, 8));
	p.w.advance(10'000'000);
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_TRUE(one(p.cb).ok());
}

TEST(Dc, AnErrorEndsOneStreamUntilItIsReset)
{
	Dc p(4);
	auto bad = [&](u16 stream) {
		return p.to_dct(Wqe(HCA_OPCODE_RDMA_WRITE)).remote(p.kb.addr(0), p.kb.key()).sge({0, 8, 1}).stream(stream);
	};
	p.post(bad(5));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_LOCAL_PROT);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	p.post(p.write(0, 8).stream(5));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_WR_FLUSH);
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(p.write(0, 8).stream(6));
	EXPECT_TRUE(one(p.ca).ok());

	EXPECT_EQ(hca_qp_reset_stream(p.a.hca(), 6), -EINVAL);
	EXPECT_EQ(hca_qp_reset_stream(p.a.hca(), 5), 0);
	EXPECT_EQ(hca_qp_reset_stream(p.a.hca(), 5), -EINVAL);
	p.mb.expect(100, p.ma.read(100, 8));
	p.post(p.write(100, 8).stream(5));
	EXPECT_TRUE(one(p.ca).ok());

	/* as many as were asked for, and the QP fails */
	for (u16 s : {1, 2, 3}) {
		p.post(bad(s));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_LOCAL_PROT);
		EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
	}
	p.post(bad(4));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_LOCAL_PROT);
	EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
	p.a.to(HCA_QPS_RESET);
	p.a.start();
	p.mb.expect(200, p.ma.read(200, 8));
	p.post(p.write(200, 8).stream(1));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Dc, ARequestThatNamesNoStreamIsOnStreamZero)
{
	Dc p(4);
	p.post(p.to_dct(Wqe(HCA_OPCODE_RDMA_WRITE)).remote(p.kb.addr(0), p.kb.key()).sge({0, 8, 1}));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_LOCAL_PROT);
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(p.write(0, 8).stream(1));
	EXPECT_TRUE(one(p.ca).ok());
	for (const Wqe &again : {p.write(100, 8), p.write(100, 8).stream(0)}) {
		p.post(again);
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_WR_FLUSH);
	}
	EXPECT_EQ(hca_qp_reset_stream(p.a.hca(), 0), 0);
	p.mb.expect(100, p.ma.read(100, 8));
	p.post(p.write(100, 8));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Dc, CopiesWithinTheHostNeedNoTarget)
{
	Pair p(Dc::options(0));
	Memory &m = p.w.add_memory(4096);
	Key &to = p.w.add_key(p.da, m);
	p.a.to_init();
	ASSERT_EQ(hca_qp_enable_mmo(p.a.hca()), 0);
	p.a.to(HCA_QPS_RTR);
	p.a.to_rts();
	m.expect(0, p.ma.read(0, 100));
	p.post(Wqe::memcpy(p.ka.sge(0, 100), to.sge(0, 100)));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Transports, MessagesGoOnlyToTheirOwnKind)
{
	/* Two QPs that name each other, one RC and one UC. */
	Pair p({.connect = false});
	Qp &uc = p.w.add_qp(p.db, {.send_cq = &p.cb, .type = HCA_QP_UC});
	uc.connect(p.a);
	p.a.connect(uc, {.retry_cnt = 0, .timeout = 1});
	uc.post_recv(p.kb.sge(0, 8));
	p.a.post(Wqe::send().sge(p.ka.sge(0, 8)));
	p.w.advance(1'000'000'000);
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_TRANSPORT_RETRY_EXC);
	uc.post(Wqe::write(p.ka.addr(0), p.ka.key()).sge(p.kb.sge(0, 8)));
	EXPECT_TRUE(one(p.cb).ok());
}
