// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Indirect keys: lists and patterns that work requests register, in every operation, and what is refused.
#include "../../fuzz/key_program.hpp"
#include "pair.hpp"

#include <array>
#include <random>
#include <thread>

using namespace world;

namespace {

using SgeList = std::vector<Sge>;
using Blocks = std::vector<Block>;

constexpr u32 memory_size = 256 * 1024;

// Both sides have an indirect key: la over ma's keys, lb over mb's.
struct Layouts : Pair {
	IndirectKey &la, &lb;

	explicit Layouts(const PairOptions &o = {.memory = memory_size})
	    : Pair(o), la(w.add_indirect(da)), lb(w.add_indirect(db, {.invalidate_ok = true}))
	{
	}
	void registered(Qp &qp, Cq &cq, const Wqe &wqe)
	{
		qp.post(wqe);
		w.settle();
		Wc wc = one(cq);
		EXPECT_EQ(wc.opcode, HCA_CQE_REQ) << "syndrome " << int{wc.syndrome};
		EXPECT_EQ(wc.send_op, HCA_OPCODE_UMR);
	}
	void list_a(const SgeList &l, const UmrOptions &o = {}) { registered(a, ca, Wqe::umr_list(la.current_key(), l, o)); }
	void list_b(const SgeList &l, const UmrOptions &o = {}) { registered(b, cb, Wqe::umr_list(lb.current_key(), l, o)); }
	void pattern_a(u32 n, const Blocks &l) { registered(a, ca, Wqe::umr_pattern(la.current_key(), n, l)); }
	void pattern_b(u32 n, const Blocks &l) { registered(b, cb, Wqe::umr_pattern(lb.current_key(), n, l)); }
};

Bytes joined(Memory &m, Key &k, const SgeList &l)
{
	Bytes all;
	for (auto &s : l) {
		Bytes part = m.read(s.addr - k.addr(), s.len);
		all.insert(all.end(), part.begin(), part.end());
	}
	return all;
}

void expect_scattered(Memory &m, Key &k, const SgeList &l, std::span<const u8> data)
{
	for (auto &s : l) {
		u32 n = std::min<u32>(s.len, static_cast<u32>(data.size()));
		m.expect(s.addr - k.addr(), data.first(n));
		data = data.subspan(n);
	}
}

// Odd places and lengths, over pages' borders.
SgeList pieces(Key &k)
{
	return {k.sge(1, 13), k.sge(4090, 4111), k.sge(20000, 1), k.sge(30001, 8), k.sge(40000, 70000)};
}

u32 sum(const SgeList &l)
{
	u32 n = 0;
	for (auto &s : l)
		n += s.len;
	return n;
}

void expect_refused(Layouts &p, const Wqe &wqe, u8 syndrome)
{
	p.ca.poll_all();
	u16 index = p.a.post(wqe);
	p.w.settle();
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, syndrome, index);
	EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
}

} // namespace

TEST(Mkey, AListIsGatheredInOneWrite)
{
	Layouts p;
	auto l = pieces(p.ka);
	p.list_a(l);
	p.mb.expect(5, joined(p.ma, p.ka, l));
	p.post(Wqe::write(p.kb.addr(5), p.kb.key()).sge(p.la.sge(0, sum(l))));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Mkey, AListIsScatteredByAnIncomingWrite)
{
	Layouts p;
	auto l = pieces(p.kb);
	p.list_b(l);
	expect_scattered(p.mb, p.kb, l, p.ma.read(77, sum(l)));
	p.post(Wqe::write(0, p.lb.key()).sge(p.ka.sge(77, sum(l))));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Mkey, APatternIsAMatrixColumn)
{
	Layouts p;
	/* 128 rows of 1024 bytes; columns 100..163 of one matrix and 7 bytes of another, in turn */
	p.pattern_a(128, {{p.ka.addr(100), 64, 960, p.ka.key()}, {p.ka.addr(131072 + 9), 7, 505, p.ka.key()}});
	Bytes want;
	for (u32 row = 0; row < 128; row++) {
		for (u8 byte : p.ma.read(100 + row * 1024, 64))
			want.push_back(byte);
		for (u8 byte : p.ma.read(131072 + 9 + row * 512, 7))
			want.push_back(byte);
	}
	p.mb.expect(0, want);
	p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0, static_cast<u32>(want.size()))));
	EXPECT_TRUE(one(p.ca).ok());
	/* and from its middle on */
	p.mb.expect(20000, std::span(want).subspan(1000, 500));
	p.post(Wqe::write(p.kb.addr(20000), p.kb.key()).sge(p.la.sge(1000, 500)));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Mkey, EveryOperationTakesThemAtBothEnds)
{
	Layouts p;
	auto from = pieces(p.ka), to = pieces(p.kb);
	u32 n = sum(from);
	p.list_a(from);
	p.list_b(to);
	Bytes data = joined(p.ma, p.ka, from);

	expect_scattered(p.mb, p.kb, to, data);
	p.post(Wqe::write(0, p.lb.key()).sge(p.la.sge(0, n)));
	EXPECT_TRUE(one(p.ca).ok());

	p.b.post_recv(p.lb.sge(0, n));
	std::reverse(data.begin(), data.end());
	u32 at = 0;
	for (auto &s : from) {
		p.ma.write(s.addr - p.ka.addr(), std::span(data).subspan(at, s.len));
		at += s.len;
	}
	expect_scattered(p.mb, p.kb, to, data);
	p.post(Wqe::send().sge(p.la.sge(0, n)));
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_EQ(one(p.cb).byte_cnt, n);

	p.mb.write(to[4].addr - p.kb.addr(), pattern(500, 99));
	Bytes back = joined(p.mb, p.kb, to);
	expect_scattered(p.ma, p.ka, from, back);
	p.post(Wqe::read(0, p.lb.key()).sge(p.la.sge(0, n)));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Mkey, ReceivesOfASharedQueueTakeThem)
{
	Layouts p({.memory = memory_size, .srq = true});
	auto to = pieces(p.kb);
	p.list_b(to);
	p.srq->post(p.lb.sge(0, sum(to)));
	expect_scattered(p.mb, p.kb, to, p.ma.read(0, sum(to)));
	p.post(Wqe::send().sge(p.ka.sge(0, sum(to))));
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_TRUE(one(p.cb).ok());
}

TEST(Mkey, AtomicsReachTheWordBehindThem)
{
	Layouts p;
	p.list_b({p.kb.sge(8, 3), p.kb.sge(64, 16)});
	p.list_a({p.ka.sge(4096, 8)});
	u64 before;
	std::memcpy(&before, p.mb.at(64), 8);
	u64 after = before + 5;
	p.mb.expect(64, std::span(reinterpret_cast<u8 *>(&after), 8));
	p.ma.expect(4096, std::span(reinterpret_cast<u8 *>(&before), 8));
	/* byte 3 of the list is the word's first: the address must be aligned, and so must be the word */
	p.list_b({p.kb.sge(8, 8), p.kb.sge(64, 16)});
	p.post(Wqe::fetch_add(8, p.lb.key(), 5).sge(p.la.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Mkey, AnAtomicOnAWordThatIsNotInOnePieceIsRefused)
{
	Layouts p;
	p.list_b({p.kb.sge(8, 4), p.kb.sge(64, 16)});
	expect_refused(p, Wqe::fetch_add(0, p.lb.key(), 5).sge(p.ka.sge(0, 8)), HCA_SYND_REMOTE_INVAL_REQ);
}

TEST(Mkey, CopiesWithinTheHostTakeThem)
{
	Layouts p({.connect = false, .memory = memory_size});
	Key &out = p.w.add_key(p.da, p.mb);
	p.a.to_init();
	ASSERT_EQ(hca_qp_enable_mmo(p.a.hca()), 0);
	p.a.to_rtr(p.b);
	p.a.to_rts();
	auto l = pieces(p.ka);
	p.list_a(l);
	p.mb.expect(100, joined(p.ma, p.ka, l));
	p.post(Wqe::memcpy(p.la.sge(0, sum(l)), out.sge(100, sum(l))));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Mkey, ItStartsAtZeroOrWhereItIsTold)
{
	Layouts p;
	UmrOptions o{.start = 0x1000};
	o.mask |= HCA_UMR_START_ADDR;
	p.list_a({p.ka.sge(50, 100)}, o);
	p.mb.expect(0, p.ma.read(60, 20));
	p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0x100a, 20)));
	EXPECT_TRUE(one(p.ca).ok());
	expect_refused(p, Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0xfff, 20)), HCA_SYND_LOCAL_PROT);
}

TEST(Mkey, EntriesMayStandInMemory)
{
	Layouts p;
	auto l = pieces(p.ka);
	std::vector<hca_klm> klms;
	for (auto &s : l)
		klms.push_back(Wqe::klm(s));
	klms.resize(8);
	Bytes raw(klms.size() * 16);
	std::memcpy(raw.data(), klms.data(), raw.size());
	p.ma.write(200001, raw);
	p.registered(p.a, p.ca,
		     Wqe::umr_by_pointer(p.la.key(), p.ka.sge(200001, static_cast<u32>(raw.size())), sum(l)));
	p.mb.expect(0, joined(p.ma, p.ka, l));
	p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0, sum(l))));
	EXPECT_TRUE(one(p.ca).ok());
	/* whose own key does not allow it, or is itself of several pieces */
	Layouts r;
	IndirectKey &of_entries = r.w.add_indirect(r.da);
	r.registered(r.a, r.ca, Wqe::umr_list(of_entries.key(), SgeList{r.ka.sge(0, 64)}));
	expect_refused(r, Wqe::umr_by_pointer(r.la.key(), of_entries.sge(0, 64), 64), HCA_SYND_LOCAL_PROT);
	Layouts q;
	expect_refused(q, Wqe::umr_by_pointer(q.la.key(), {q.ka.addr(0), 64, q.ka.key() ^ 1}, 64), HCA_SYND_LOCAL_PROT);
}

TEST(Mkey, UntilItIsRegisteredAndAfterItIsFreedAccessesFail)
{
	{
		Layouts p;
		expect_refused(p, Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0, 8)), HCA_SYND_LOCAL_PROT);
	}
	{
		Layouts p;
		p.list_a({p.ka.sge(0, 64)});
		p.registered(p.a, p.ca, Wqe::umr_free(p.la.key()));
		expect_refused(p, Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0, 8)), HCA_SYND_LOCAL_PROT);
	}
	{
		Layouts p;
		p.list_b({p.kb.sge(0, 64)});
		p.registered(p.b, p.cb, Wqe::umr_free(p.lb.key()));
		expect_refused(p, Wqe::write(0, p.lb.key()).sge(p.ka.sge(0, 8)), HCA_SYND_REMOTE_ACCESS);
	}
	{
		Layouts p; /* the hardware's own opcode for it */
		p.list_a({p.ka.sge(0, 64)});
		p.post(Wqe::local_inval(p.la.key()));
		EXPECT_TRUE(one(p.ca).ok());
		EXPECT_TRUE(p.la.layout().free);
		expect_refused(p, Wqe::local_inval(p.la.key()), HCA_SYND_LOCAL_QP_OP);
	}
}

TEST(Mkey, ANewRegistrationTakesThePlaceOfTheOld)
{
	Layouts p;
	for (u32 round = 0; round < 5; round++) {
		SgeList l{p.ka.sge(round * 1000, 100 + round), p.ka.sge(90000 + round, 3)};
		p.list_a(l);
		p.mb.expect(round * 500, joined(p.ma, p.ka, l));
		p.post(Wqe::write(p.kb.addr(round * 500), p.kb.key()).sge(p.la.sge(0, sum(l))));
		EXPECT_TRUE(one(p.ca).ok());
		if (round % 2)
			p.registered(p.a, p.ca, Wqe::umr_free(p.la.current_key()));
	}
}

TEST(Mkey, TheLowerBitsOfTheKeyChangeWithTheRegistration)
{
	Layouts p;
	p.list_b({p.kb.sge(0, 64)}, {.variant = 0x42});
	EXPECT_EQ(p.lb.current_key(), p.lb.key() | 0x42);
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::write(0, p.lb.key() | 0x42).sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
	expect_refused(p, Wqe::write(0, p.lb.key()).sge(p.ka.sge(0, 8)), HCA_SYND_REMOTE_ACCESS);
	Layouts q;
	q.list_a({q.ka.sge(0, 64)}, {.variant = 7});
	/* a registration names the key as it is */
	expect_refused(q, Wqe::umr_list(q.la.key(), SgeList{q.ka.sge(0, 64)}), HCA_SYND_MW_BIND);
}

TEST(Mkey, ARemotePeerMayFreeIt)
{
	Layouts p;
	p.list_b({p.kb.sge(0, 64)});
	p.b.post_recv(p.kb.sge(1000, 8));
	p.mb.expect(1000, p.ma.read(0, 8));
	p.post(Wqe::send_inval(p.lb.key()).sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_EQ(one(p.cb).imm, p.lb.key());
	EXPECT_TRUE(p.lb.layout().free);

	Layouts q; /* unless it was made without */
	IndirectKey &own = q.w.add_indirect(q.db);
	q.registered(q.b, q.cb, Wqe::umr_list(own.key(), SgeList{q.kb.sge(0, 64)}));
	q.b.post_recv(q.kb.sge(1000, 8));
	q.mb.expect(1000, q.ma.read(0, 8));
	expect_refused(q, Wqe::send_inval(own.key()).sge(q.ka.sge(0, 8)), HCA_SYND_REMOTE_OP);
	EXPECT_FALSE(own.layout().free);
}

TEST(Mkey, AWindowOfOneQpIsForItAlone)
{
	UmrOptions window{.flags = HCA_UMR_INLINE | HCA_UMR_OFFSET | HCA_UMR_CHECK_FREE};
	window.mask |= HCA_UMR_QPN | HCA_UMR_START_ADDR;
	window.octowords = 0;
	{
		Layouts p;
		window.qpn = p.b.qpn();
		window.start = 0x5000;
		p.list_b({p.kb.sge(64, 64)}, window);
		p.mb.expect(64, p.ma.read(0, 8));
		p.post(Wqe::write(0x5000, p.lb.key()).sge(p.ka.sge(0, 8)));
		EXPECT_TRUE(one(p.ca).ok());
		/* bound, it is not free to be bound again */
		p.b.post(Wqe::umr_list(p.lb.key(), SgeList{p.kb.sge(0, 8)}, window));
		p.w.settle();
		EXPECT_EQ(one(p.cb).syndrome, HCA_SYND_MW_BIND);
	}
	{
		Layouts p; /* of another QP */
		window.qpn = p.b.qpn() + 1;
		p.list_b({p.kb.sge(64, 64)}, window);
		expect_refused(p, Wqe::write(0x5000, p.lb.key()).sge(p.ka.sge(0, 8)), HCA_SYND_REMOTE_ACCESS);
	}
	{
		Layouts p; /* nor may another QP free it */
		window.qpn = p.b.qpn() + 1;
		p.list_b({p.kb.sge(64, 64)}, window);
		p.b.post(Wqe::umr_free(p.lb.key()));
		p.w.settle();
		EXPECT_EQ(one(p.cb).syndrome, HCA_SYND_MW_BIND);
		EXPECT_FALSE(p.lb.layout().free);
	}
}

TEST(Mkey, AccessIsWhatWasRegisteredAndWhatTheMemoryAllows)
{
	{
		Layouts p; /* no remote write */
		p.list_b({p.kb.sge(0, 64)}, {.access = HCA_MKEY_LOCAL_WRITE | HCA_MKEY_REMOTE_READ});
		expect_refused(p, Wqe::write(0, p.lb.key()).sge(p.ka.sge(0, 8)), HCA_SYND_REMOTE_ACCESS);
	}
	{
		Layouts p; /* no local write */
		p.list_a({p.ka.sge(0, 64)}, {.access = HCA_MKEY_REMOTE_READ});
		expect_refused(p, Wqe::read(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0, 8)), HCA_SYND_LOCAL_PROT);
	}
	{
		Layouts p; /* the second piece's memory is read only: nothing is written, not even to the first */
		Key &ro = p.w.add_key(p.db, p.mb, {.access = HCA_ACCESS_LOCAL_READ | HCA_ACCESS_REMOTE_WRITE});
		p.list_b({p.kb.sge(0, 100000), ro.sge(100000, 64)});
		expect_refused(p, Wqe::write(0, p.lb.key()).sge(p.ka.sge(0, 100064)), HCA_SYND_REMOTE_ACCESS);
	}
	{
		Layouts p; /* memory of another protection domain */
		Key &other = p.w.add_key(p.db, p.mb, {.pdn = 2});
		p.list_b({p.kb.sge(0, 64), other.sge(100, 64)});
		expect_refused(p, Wqe::write(0, p.lb.key()).sge(p.ka.sge(0, 128)), HCA_SYND_REMOTE_ACCESS);
	}
	{
		Layouts p; /* a QP of another protection domain does not register it */
		IndirectKey &other = p.w.add_indirect(p.da, {.pdn = 2});
		expect_refused(p, Wqe::umr_list(other.key(), SgeList{p.ka.sge(0, 8)}), HCA_SYND_MW_BIND);
	}
	{
		Layouts p; /* a plain key is registered otherwise */
		expect_refused(p, Wqe::umr_list(p.ka.key(), SgeList{p.ka.sge(0, 8)}), HCA_SYND_MW_BIND);
	}
}

TEST(Mkey, BehindItsEndThereIsNothing)
{
	for (bool pattern : {false, true}) {
		Layouts p;
		if (pattern)
			p.pattern_b(10, {{p.kb.addr(0), 10, 5, p.kb.key()}});
		else
			p.list_b({p.kb.sge(0, 60), p.kb.sge(1000, 40)});
		expect_refused(p, Wqe::write(1, p.lb.key()).sge(p.ka.sge(0, 100)), HCA_SYND_REMOTE_ACCESS);
	}
	/* whatever length the request claims, with the entries or later */
	for (bool pattern : {false, true}) {
		for (bool later : {false, true}) {
			Layouts p;
			const UmrOptions claimed{.length = 1 << 30};
			if (pattern)
				p.registered(p.b, p.cb, Wqe::umr_pattern(p.lb.current_key(), 6, Blocks{{p.kb.addr(0), 10, 6, p.kb.key()}},
									 later ? UmrOptions{} : claimed));
			else
				p.list_b({p.kb.sge(0, 60)}, later ? UmrOptions{} : claimed);
			if (later)
				p.registered(p.b, p.cb, Wqe::umr(p.lb.current_key(), {.mask = HCA_UMR_LEN}, 1 << 30, 0));
			expect_refused(p, Wqe::write(0, p.lb.key()).sge(p.ka.sge(0, 61)), HCA_SYND_REMOTE_ACCESS);
		}
	}
}

TEST(Mkey, EntriesInMemoryAreWorkForEachOfThem)
{
	Pair p({.memory = memory_size});
	IndirectKey &k = p.w.add_indirect(p.da, {.max_entries = 1024});
	for (u32 i = 0; i < 1024; i++) {
		const hca_klm klm = Wqe::klm(p.ka.sge(100000, 64));
		p.ma.write(i * sizeof(klm), std::span(reinterpret_cast<const u8 *>(&klm), sizeof(klm)));
	}
	for (int i = 0; i < 4; i++)
		p.a.stage(Wqe::umr_by_pointer(k.key(), p.ka.sge(0, 1024 * 16), 65536));
	p.a.set_sq_record(p.a.producer_index());
	for (u32 turn = 1; turn < 4; turn++) {
		/* however many slices the turn has */
		EXPECT_EQ(p.a.run(64, 8 * HCA_SLICE), HCA_RUN_MORE);
		EXPECT_EQ(p.ca.poll_all().size(), 1u);
	}
}

TEST(Mkey, ALengthThatIsSetBeforeTheEntriesIsNotForgotten)
{
	Layouts p;
	/* in force without an entry, so that there is nothing yet */
	p.registered(p.b, p.cb,
		     Wqe::umr(p.lb.current_key(), {.mask = HCA_UMR_FREE | HCA_UMR_LEN | HCA_UMR_LOCAL_WRITE | HCA_UMR_REMOTE_WRITE,
						   .length = 64}, 0, 0));
	p.list_b({p.kb.sge(0, 100)}, {.mask = HCA_UMR_START_ADDR});
	p.mb.expect(0, p.ma.read(0, 64));
	p.post(Wqe::write(0, p.lb.current_key()).sge(p.ka.sge(0, 64)));
	EXPECT_TRUE(one(p.ca).ok());
	expect_refused(p, Wqe::write(0, p.lb.current_key()).sge(p.ka.sge(0, 65)), HCA_SYND_REMOTE_ACCESS);
}

TEST(Mkey, WhatAMessageHasToLookAtIsWork)
{
	/* One byte of a pattern of many pieces, at either end: the time goes into looking at them. */
	for (bool local : {true, false}) {
		Layouts p({.memory = memory_size});
		Device &d = local ? p.da : p.db;
		Key &data = local ? p.ka : p.kb;
		IndirectKey &below = p.w.add_indirect(d, {.max_entries = 1024});
		Memory &m = local ? p.ma : p.mb;
		for (u32 i = 0; i < 1024; i++) {
			const hca_klm klm = Wqe::klm(data.sge(100000, 1));
			m.write(i * sizeof(klm), std::span(reinterpret_cast<const u8 *>(&klm), sizeof(klm)));
		}
		(local ? p.a : p.b).post(Wqe::umr_by_pointer(below.key(), data.sge(0, 1024 * 16), 1024).signaled(false));
		const Blocks blocks{{below.sge(0, 0).addr, 1024, 0, below.key()}};
		local ? p.pattern_a(1, blocks) : p.pattern_b(1, blocks);
		for (int i = 0; i < 4; i++)
			p.a.stage(local ? Wqe::write(p.kb.addr(200000), p.kb.key()).sge(p.la.sge(0, 1)) :
					  Wqe::write(0, p.lb.current_key()).sge(p.ka.sge(0, 1)));
		p.a.set_sq_record(p.a.producer_index());
		for (u32 turn = 1; turn < 4; turn++) {
			/* however many slices the turn has */
			EXPECT_EQ(p.a.run(64, 4 * HCA_SLICE), HCA_RUN_MORE);
			EXPECT_EQ(p.ca.poll_all().size(), 1u);
		}
		p.mb.accept(local ? 200000 : 100000, 1);
	}
}

TEST(Mkey, AMessageDoesNotGoOnWithAnotherLayout)
{
	/* Registered anew when half of a message is there: where it comes from, where it goes to, where it is received. */
	enum { from, to, received };
	for (int which : {from, to, received}) {
		Layouts p;
		IndirectKey &k = which == from ? p.la : p.lb;
		Key &data = which == from ? p.ka : p.kb;
		Qp &other = p.w.add_qp(which == from ? p.da : p.db, {.send_cq = which == from ? &p.w.add_cq(p.da) : &p.w.add_cq(p.db)});
		other.connect(other);
		other.post(Wqe::umr_list(k.current_key(), SgeList{data.sge(0, 120000)}).signaled(false));
		if (which == received)
			p.b.post_recv(k.sge(0, 120000));
		const u16 index = p.a.stage(which == from ? Wqe::write(p.kb.addr(0), p.kb.key()).sge(k.sge(0, 120000)) :
					    which == to	  ? Wqe::write(0, k.current_key()).sge(p.ka.sge(0, 120000)) :
							    Wqe::send().sge(p.ka.sge(0, 120000)));
		p.a.set_sq_record(p.a.producer_index());
		EXPECT_EQ(p.a.run(1, HCA_SLICE), HCA_RUN_MORE);
		other.post(Wqe::umr_list(k.current_key(), SgeList{data.sge(130000, 120000)}).signaled(false));
		p.mb.accept(0, HCA_SLICE);
		p.a.run(16, 1 << 20);
		p.w.settle();
		expect_failed(one(p.ca), HCA_CQE_REQ_ERR,
			      which == from ? HCA_SYND_LOCAL_PROT : which == to ? HCA_SYND_REMOTE_ACCESS : HCA_SYND_REMOTE_OP, index);
		if (which == received) {
			EXPECT_EQ(p.cb.poll()->syndrome, HCA_SYND_LOCAL_PROT);
		}
	}
}

TEST(Mkey, EntriesStayWhenSomethingElseChanges)
{
	/* Entries in either half of the key's room, and changes of what is not an entry, by turns. */
	Layouts p;
	for (u32 i = 0; i < 5; i++) {
		const SgeList l{p.kb.sge(i * 1000, 50), p.kb.sge(i * 2000 + 500, 30)};
		p.list_b(l);
		for (u32 changes = 0; changes < 3; changes++) {
			p.registered(p.b, p.cb,
				     Wqe::umr(p.lb.current_key(), {.mask = HCA_UMR_START_ADDR, .start = changes * 4096}, 0, 0));
			expect_scattered(p.mb, p.kb, l, p.ma.read(changes, 80));
			p.post(Wqe::write(changes * 4096, p.lb.current_key()).sge(p.ka.sge(changes, 80)));
			EXPECT_TRUE(one(p.ca).ok());
		}
	}
}

TEST(Mkey, WhatIsWrongWithARegistrationLeavesTheKeyAsItWas)
{
	struct Case {
		const char *what;
		std::function<Wqe(Layouts &)> wqe;
		u8 syndrome = HCA_SYND_MW_BIND;
	};
	const Case cases[] = {
		{"more entries than the key has room for",
		 [](Layouts &p) {
			 IndirectKey &small = p.w.add_indirect(p.da, {.max_entries = 4});
			 return Wqe::umr_list(small.key(), SgeList(5, p.ka.sge(0, 8)));
		 }},
		{"a pattern's header takes one of them",
		 [](Layouts &p) {
			 IndirectKey &small = p.w.add_indirect(p.da, {.max_entries = 4});
			 return Wqe::umr_pattern(small.key(), 2, Blocks(4, {p.ka.addr(0), 8, 8, p.ka.key()}));
		 }},
		{"a piece of no bytes",
		 [](Layouts &p) { return Wqe::umr_list(p.la.key(), SgeList{p.ka.sge(0, 8), p.ka.sge(9, 0)}); }},
		{"a gap in the list",
		 [](Layouts &p) { return Wqe::umr_list(p.la.key(), SgeList{p.ka.sge(0, 8), {}, p.ka.sge(9, 1)}); }},
		{"a block of no bytes",
		 [](Layouts &p) { return Wqe::umr_pattern(p.la.key(), 2, Blocks{{p.ka.addr(0), 0, 8, p.ka.key()}}); }},
		{"no blocks", [](Layouts &p) { return Wqe::umr_pattern(p.la.key(), 2, Blocks{}); }},
		{"no rounds",
		 [](Layouts &p) { return Wqe::umr_pattern(p.la.key(), 0, Blocks{{p.ka.addr(0), 4, 8, p.ka.key()}}); }},
		{"rounds beyond the last address",
		 [](Layouts &p) {
			 return Wqe::umr_pattern(p.la.key(), 0xffffffff, Blocks{{~0ull - 100000, 8, 8, p.ka.key()}});
		 }},
		{"a piece of more than 2 GiB",
		 [](Layouts &p) { return Wqe::umr_list(p.la.key(), SgeList{{0, 0x80000001, p.ka.key()}}); }},
		{"a mask nobody knows",
		 [](Layouts &p) {
			 return Wqe::umr_list(p.la.key(), SgeList{p.ka.sge(0, 8)}, {.mask = HCA_UMR_LEN | 1ull << 40});
		 },
		 HCA_SYND_LOCAL_QP_OP},
		{"entries beyond the WQE",
		 [](Layouts &p) { return Wqe::umr_list(p.la.key(), SgeList{p.ka.sge(0, 8)}, {.octowords = 8}); },
		 HCA_SYND_LOCAL_QP_OP},
		{"no key at all", [](Layouts &p) { return Wqe::umr_list(0xabcde00, SgeList{p.ka.sge(0, 8)}); }},
	};
	for (auto &c : cases) {
		SCOPED_TRACE(c.what);
		Layouts p;
		p.list_a({p.ka.sge(10, 20)});
		u32 seq = p.la.layout().num;
		expect_refused(p, c.wqe(p), c.syndrome);
		EXPECT_EQ(p.la.layout().num, seq);
		EXPECT_EQ(p.la.layout().length, 20u);
		EXPECT_FALSE(p.la.layout().free);
	}
}

TEST(Mkey, KeysOfKeysWorkToADepthAndNoDeeper)
{
	for (u32 depth = 1; depth <= HCA_KEY_DEPTH + 1; depth++) {
		Layouts p;
		SgeList below{p.ka.sge(3, 50), p.ka.sge(1003, 50)};
		Bytes want = joined(p.ma, p.ka, below);
		IndirectKey *top = nullptr;
		for (u32 i = 0; i < depth; i++) {
			top = &p.w.add_indirect(p.da);
			p.registered(p.a, p.ca, Wqe::umr_list(top->key(), below));
			/* the halves change places on each level */
			below = {top->sge(50, 50), top->sge(0, 50)};
			if (i)
				std::rotate(want.begin(), want.begin() + 50, want.end());
		}
		Wqe wqe = Wqe::write(p.kb.addr(0), p.kb.key()).sge(top->sge(0, 100));
		if (depth <= HCA_KEY_DEPTH) {
			p.mb.expect(0, want);
			p.post(wqe);
			EXPECT_TRUE(one(p.ca).ok()) << depth;
		} else {
			expect_refused(p, wqe, HCA_SYND_LOCAL_PROT);
		}
	}
}

TEST(Mkey, AKeyThatLeadsToItselfLeadsNowhere)
{
	Layouts p;
	p.list_a({p.la.sge(0, 64)});
	expect_refused(p, Wqe::write(p.kb.addr(0), p.kb.key()).sge(p.la.sge(0, 64)), HCA_SYND_LOCAL_PROT);
	Layouts q;
	IndirectKey &other = q.w.add_indirect(q.da);
	q.list_a({q.ka.sge(0, 8), other.sge(0, 64)});
	q.registered(q.a, q.ca, Wqe::umr_list(other.key(), SgeList{q.la.sge(0, 72)}));
	expect_refused(q, Wqe::write(q.kb.addr(0), q.kb.key()).sge(q.la.sge(0, 64)), HCA_SYND_LOCAL_PROT);
}

TEST(Mkey, ATreeTooLargeToLookAtIsRefused)
{
	/* 50 entries of 50 entries of 50 entries of 50: 6 million pieces */
	Layouts p({.memory = memory_size, .cq_entries = 64});
	SgeList below(50, p.ka.sge(0, 1));
	IndirectKey *top = nullptr;
	u32 length = 50;
	for (u32 i = 0; i < 4; i++) {
		top = &p.w.add_indirect(p.da);
		p.registered(p.a, p.ca, Wqe::umr_list(top->key(), below));
		below = SgeList(50, top->sge(0, length));
		length *= 50;
	}
	expect_refused(p, Wqe::write(p.kb.addr(0), p.kb.key()).sge(top->sge(0, 200000)), HCA_SYND_LOCAL_PROT);
}

TEST(Mkey, TheKeysOfOneMessageAreOneTree)
{
	/* Each piece alone is small enough to look at; thirty of them are not. */
	Layouts p({.memory = memory_size, .cq_entries = 64});
	SgeList below(50, p.ka.sge(0, 1));
	IndirectKey *top = nullptr;
	u32 length = 50;
	for (u32 i = 0; i < 3; i++) {
		top = &p.w.add_indirect(p.da);
		p.registered(p.a, p.ca, Wqe::umr_list(top->key(), below));
		below = SgeList(i == 1 ? 20 : 50, top->sge(0, length));
		length *= i == 1 ? 20 : 50;
	}
	/* 20 of 50 of 50: 51,020 entries */
	u8 one_byte = p.ma.read(0, 1)[0];
	p.mb.expect(0, Bytes(50000, one_byte));
	p.post(Wqe::write(p.kb.addr(0), p.kb.key()).sge(top->sge(0, 50000)));
	EXPECT_TRUE(one(p.ca).ok());
	Wqe wqe = Wqe::write(p.kb.addr(0), p.kb.key());
	for (u32 i = 0; i < 3; i++)
		wqe.sge(top->sge(0, 50000));
	expect_refused(p, wqe, HCA_SYND_LOCAL_PROT);
}

TEST(Mkey, WhenMemoryGoesAwayUnderAMessageItEndsInAnError)
{
	for (bool local : {true, false}) {
		Layouts p;
		Key &gone = local ? p.w.add_key(p.da, p.ma) : p.w.add_key(p.db, p.mb);
		Memory &m = p.mb;
		if (local)
			p.list_a({gone.sge(0, 200000)});
		else
			p.list_b({gone.sge(0, 200000)});
		Sge from = local ? p.la.sge(0, 200000) : p.ka.sge(0, 200000);
		p.a.stage(local ? Wqe::write(p.kb.addr(0), p.kb.key()).sge(from) : Wqe::write(0, p.lb.key()).sge(from));
		p.a.set_sq_record(p.a.producer_index());
		EXPECT_EQ(p.a.run(1, HCA_SLICE), HCA_RUN_MORE);
		m.accept(0, HCA_SLICE);
		gone.kill();
		p.a.run(16, 1 << 20);
		p.w.settle();
		EXPECT_EQ(one(p.ca).syndrome, local ? HCA_SYND_LOCAL_PROT : HCA_SYND_REMOTE_ACCESS);
	}
}

TEST(Mkey, CountersTellRegistrationsFromReleases)
{
	Pair p({.connect = false, .memory = 8192});
	IndirectKey &k = p.w.add_indirect(p.da);
	Counter &c = p.w.add_counter(p.da);
	ASSERT_EQ(p.a.attach(c, 1u << HCA_CLASS_UMR), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.post(Wqe::umr_list(k.key(), SgeList{p.ka.sge(0, 8)}).signaled(false));
	EXPECT_EQ(c.comp(), 1u);
	p.post(Wqe::umr_free(k.key()).signaled(false));
	EXPECT_EQ(c.comp(), 1u);
	p.post(Wqe::umr_list(k.key(), SgeList{p.ka.sge(0, 0)}));
	EXPECT_EQ(c.comp(), 1u);
	EXPECT_EQ(c.err(), 1u);
	/* flushed: each as what it would have been */
	p.a.post(Wqe::umr_list(k.key(), SgeList{p.ka.sge(0, 8)}));
	p.a.post(Wqe::umr_free(k.key()));
	p.w.settle();
	EXPECT_EQ(c.err(), 2u);
}

TEST(Mkey, ARegistrationHasNoBytesToCount)
{
	Pair p({.connect = false, .memory = 8192});
	IndirectKey &k = p.w.add_indirect(p.da);
	Counter &c = p.w.add_counter(p.da, true);
	ASSERT_EQ(p.a.attach(c, 1u << HCA_CLASS_UMR), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.post(Wqe::umr_list(k.key(), SgeList{p.ka.sge(0, 8)}));
	EXPECT_TRUE(one(p.ca).ok());
	EXPECT_EQ(c.comp(), 0u);
	EXPECT_EQ(c.err(), 0u);
}

TEST(Mkey, WhileItIsRegisteredAnewAMessageSeesOneLayoutOrFails)
{
	/* Two layouts over different halves; whoever reads must never get a byte of the one after one of the other. */
	Pair p({.memory = 65536});
	IndirectKey &k = p.w.add_indirect(p.da);
	Cq &cq2 = p.w.add_cq(p.da);
	Qp &registrar = p.w.add_qp(p.da, {.send_cq = &cq2});
	registrar.connect(registrar);
	std::memset(p.ma.at(0), 1, 4096);
	std::memset(p.ma.at(32768), 2, 4096);
	p.ma.accept(0, 65536);
	SgeList low, high;
	for (u32 i = 0; i < 16; i++) {
		low.push_back(p.ka.sge(i * 200, 64));
		high.push_back(p.ka.sge(32768 + i * 200, 64));
	}
	registrar.post(Wqe::umr_list(k.key(), low).signaled(false));
	std::atomic<bool> stop{false};
	std::thread writer([&] {
		for (u32 i = 0; !stop; i++)
			registrar.post(Wqe::umr_list(k.key(), i & 1 ? low : high).signaled(false));
	});
	const Copies copies = copy_while_it_changes(p.da, k.key(), 1024, 20000);
	stop = true;
	writer.join();
	EXPECT_EQ(copies.mixed, 0u);
	EXPECT_GT(copies.whole, 0u);
}

// Random trees against a model that follows each byte by itself.
namespace {

struct Model {
	struct Node {
		IndirectKey *key;
		std::vector<size_t> bytes; // where each byte of the key is, in the memory
	};

	Pair &p;
	Memory &m;
	Key &base;
	std::mt19937 &rng;
	std::vector<Node> level;

	u32 random(u32 n) { return rng() % n; }

	// A place of @len bytes in memory or in a key of the level below.
	Sge place(const std::vector<Node> &below, u32 len, std::vector<size_t> &bytes)
	{
		const Node *n = below.empty() || random(3) == 0 ? nullptr : &below[random(static_cast<u32>(below.size()))];
		if (n && n->bytes.size() >= len) {
			u32 at = random(static_cast<u32>(n->bytes.size() - len) + 1);
			bytes.insert(bytes.end(), n->bytes.begin() + at, n->bytes.begin() + at + len);
			return n->key->sge(at, len);
		}
		u32 at = random(static_cast<u32>(base.length() - len) + 1);
		for (u32 i = 0; i < len; i++)
			bytes.push_back(at + i);
		return base.sge(at, len);
	}

	Wqe list(Node &n, const std::vector<Node> &below)
	{
		SgeList l;
		for (u32 i = 1 + random(8); i; i--)
			l.push_back(place(below, 1 + random(random(4) ? 40 : 3000), n.bytes));
		return Wqe::umr_list(n.key->key(), l);
	}

	Wqe repeat(Node &n, const std::vector<Node> &below)
	{
		u32 rounds = 1 + random(20);
		Blocks l;
		std::vector<std::vector<size_t>> spans;
		std::vector<Block> blocks;
		for (u32 i = 1 + random(4); i; i--) {
			u16 bytes = static_cast<u16>(1 + random(60)), skip = static_cast<u16>(random(50));
			std::vector<size_t> span;
			Sge s = place(below, (rounds - 1) * (bytes + skip) + bytes, span);
			blocks.push_back({s.addr, bytes, skip, s.key});
			spans.push_back(span);
		}
		for (u32 r = 0; r < rounds; r++)
			for (size_t i = 0; i < blocks.size(); i++)
				for (u32 b = 0; b < blocks[i].bytes; b++)
					n.bytes.push_back(spans[i][r * (blocks[i].bytes + blocks[i].skip) + b]);
		return Wqe::umr_pattern(n.key->key(), rounds, blocks);
	}

	// The top level of a tree.
	std::vector<Node> grow(Device &d, Qp &qp, Cq &cq)
	{
		std::vector<Node> below;
		for (u32 depth = 1 + random(HCA_KEY_DEPTH); depth; depth--) {
			std::vector<Node> here;
			for (u32 i = 1 + random(3); i; i--) {
				Node n{&p.w.add_indirect(d), {}};
				Wqe wqe = random(2) ? list(n, below) : repeat(n, below);
				qp.post(wqe);
				p.w.settle();
				EXPECT_TRUE(one(cq).ok());
				here.push_back(n);
			}
			below = here;
		}
		return below;
	}
};

} // namespace

TEST(Mkey, RandomTreesAgreeWithAModelThatFollowsEachByte)
{
	for (u32 seed = 1; seed <= 60; seed++) {
		std::mt19937 rng(seed);
		u8 shift = static_cast<u8>(rng() % 13);
		Pair p({.memory = 60000, .block_shift = shift, .beside = 1 + seed % 3, .cq_entries = 64});
		Model from{p, p.ma, p.ka, rng, {}}, to{p, p.mb, p.kb, rng, {}};
		auto gather = from.grow(p.da, p.a, p.ca), scatter = to.grow(p.db, p.b, p.cb);
		for (u32 round = 0; round < 8; round++) {
			auto &g = gather[rng() % gather.size()], &s = scatter[rng() % scatter.size()];
			u32 len = static_cast<u32>(1 + rng() % std::min(g.bytes.size(), s.bytes.size()));
			u64 at = rng() % (g.bytes.size() - len + 1), into = rng() % (s.bytes.size() - len + 1);
			Bytes source = p.ma.read(0, 60000), target = p.mb.read(0, 60000);
			/* Where a byte is named twice, the later move decides; the last 8 bytes move last anyway. */
			for (u32 i = 0; i < len; i++)
				target[s.bytes[into + i]] = source[g.bytes[at + i]];
			p.mb.expect(0, target);
			p.post(Wqe::write(into, s.key->key()).sge(g.key->sge(at, len)));
			ASSERT_TRUE(one(p.ca).ok()) << "seed " << seed;
			auto bad = p.w.damage();
			ASSERT_FALSE(bad) << *bad << ", seed " << seed << ", round " << round;
		}
	}
}

TEST(Mkey, RandomRegistrationsAndWritesComeToWhatAModelSays)
{
	std::mt19937 rng(7);
	for (int round = 0; round < 300; round++) {
		Bytes program(400);
		for (u8 &byte : program)
			byte = static_cast<u8>(rng());
		run_key_program(program);
	}
}
