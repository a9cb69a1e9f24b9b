// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Bytes arrive: every operation, size, alignment, list and block size.
#include "pair.hpp"

#include <numeric>

using namespace world;

namespace {

enum class Op { Write, WriteImm, Read, Send, SendImm };
constexpr Op all_ops[] = {Op::Write, Op::WriteImm, Op::Read, Op::Send, Op::SendImm};

bool has_receive(Op op) { return op == Op::WriteImm || op == Op::Send || op == Op::SendImm; }

Wqe start(Op op, u64 raddr, u32 rkey)
{
	switch (op) {
	case Op::Write:
		return Wqe::write(raddr, rkey);
	case Op::WriteImm:
		return Wqe::write_imm(raddr, rkey, 0x11223344);
	case Op::Read:
		return Wqe::read(raddr, rkey);
	case Op::SendImm:
		return Wqe::send_imm(0x55667788);
	default:
		return Wqe::send();
	}
}

u8 receive_opcode(Op op)
{
	return op == Op::WriteImm ? HCA_CQE_RESP_WR_IMM
	       : op == Op::Send	  ? HCA_CQE_RESP_SEND
				  : HCA_CQE_RESP_SEND_IMM;
}

u8 wqe_opcode(Op op)
{
	constexpr u8 codes[] = {HCA_OPCODE_RDMA_WRITE, HCA_OPCODE_RDMA_WRITE_IMM, HCA_OPCODE_RDMA_READ,
				HCA_OPCODE_SEND, HCA_OPCODE_SEND_IMM};
	return codes[static_cast<int>(op)];
}

void expect_received(Pair &p, Op op, u16 index, u32 size)
{
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.opcode, receive_opcode(op));
	EXPECT_EQ(wc.index, index);
	EXPECT_EQ(wc.byte_cnt, size);
	EXPECT_EQ(wc.qpn, p.b.qpn());
	EXPECT_EQ(wc.src_qpn, p.a.qpn());
	EXPECT_EQ(wc.user_index, 0x00abcdefu);
	EXPECT_EQ(wc.imm, op == Op::WriteImm ? 0x11223344u : op == Op::SendImm ? 0x55667788u : 0u);
}

// One message of one piece at each end.
void transfer(Pair &p, Op op, u32 size, size_t near, size_t far)
{
	SCOPED_TRACE(testing::Message() << "op " << static_cast<int>(op) << " size " << size << " from "
					<< near << " to " << far);
	auto data = pattern(size, size + 31 * static_cast<u32>(near) + 7 * static_cast<u32>(far));
	bool read = op == Op::Read;
	u16 recv = 0;

	(read ? p.mb : p.ma).write(read ? far : near, data);
	(read ? p.ma : p.mb).expect(read ? near : far, data);
	if (has_receive(op)) {
		if (op == Op::WriteImm || !size)
			recv = p.b.post_recv();
		else
			recv = p.b.post_recv(p.kb.sge(far, size));
	}
	Wqe wqe = start(op, p.kb.addr(far), p.kb.key());
	if (size)
		wqe.sge(p.ka.sge(near, size));
	u16 index = p.a.post(wqe);
	p.w.settle();

	Wc wc = one(p.ca);
	EXPECT_EQ(wc.opcode, HCA_CQE_REQ) << "syndrome " << int{wc.syndrome};
	EXPECT_EQ(wc.index, index);
	EXPECT_EQ(wc.byte_cnt, size);
	EXPECT_EQ(wc.send_op, wqe_opcode(op));
	EXPECT_EQ(wc.qpn, p.a.qpn());
	EXPECT_EQ(wc.user_index, 0x00abcdefu);
	if (has_receive(op))
		expect_received(p, op, recv, size);
	else
		expect_none(p.cb);
}

constexpr u32 sizes[] = {0,    1,    7,	   8,	  9,	 63,	 64,	65,
			 4095, 4096, 4097, 65535, 65536, 65537, 131072, 200001};
constexpr size_t offsets[] = {0, 1, 4, 4091};

void every_size_and_alignment(Pair &p)
{
	for (Op op : all_ops) {
		for (u32 size : sizes) {
			for (size_t near : offsets)
				for (size_t far : offsets)
					transfer(p, op, size, near, far);
			auto bad = p.w.damage();
			ASSERT_FALSE(bad) << *bad << " after op " << static_cast<int>(op) << " size " << size;
		}
	}
}

} // namespace

TEST(Transfer, EveryOperationMovesEverySizeAtEveryAlignmentBetweenTwoDevices)
{
	Pair p({.memory = 208 * 1024});
	every_size_and_alignment(p);
	EXPECT_EQ(p.da.stat(HCA_STAT_WQES), std::size(all_ops) * std::size(sizes) * 16);
}

TEST(Transfer, EveryOperationMovesEverySizeAtEveryAlignmentWithinOneDevice)
{
	Pair p({.two_devices = false, .memory = 208 * 1024});
	every_size_and_alignment(p);
}

TEST(Transfer, EveryOperationCrossesTheBordersOfTinyBlocks)
{
	Pair p({.memory = 208 * 1024, .block_shift = 5});
	every_size_and_alignment(p);
}

TEST(Transfer, EveryOperationWorksWithLargeBlocksAndLargeCqes)
{
	Pair p({.memory = 208 * 1024, .block_shift = 16, .cqe_size = 128});
	every_size_and_alignment(p);
}

TEST(Transfer, AQpConnectedToItselfWorks)
{
	World w;
	Device &d = w.add_device();
	Memory &m = w.add_memory(256 * 1024);
	Key &k = w.add_key(d, m);
	Cq &cq = w.add_cq(d);
	Qp &q = w.add_qp(d, {.send_cq = &cq});

	q.connect(q);
	w.settle();
	auto data = pattern(100000, 5);
	m.write(1, data);
	m.expect(120001, data);
	u16 recv = q.post_recv(k.sge(120001, 100000));
	u16 sent = q.post(Wqe::send().sge(k.sge(1, 100000)));
	w.settle();
	auto wcs = cq.poll_all();
	ASSERT_EQ(wcs.size(), 2u);
	EXPECT_EQ(wcs[0].opcode, HCA_CQE_RESP_SEND);
	EXPECT_EQ(wcs[0].index, recv);
	EXPECT_EQ(wcs[1].opcode, HCA_CQE_REQ);
	EXPECT_EQ(wcs[1].index, sent);
	EXPECT_FALSE(w.damage());
}

TEST(Transfer, AWriteOverItsOwnSourceTouchesNothingBesideItsDestination)
{
	for (int distance : {-7, -1, 1, 5, 8, 100}) {
		Pair p({.two_devices = false});
		auto data = pattern(5001, 9);
		auto to = static_cast<size_t>(1000 + distance);
		p.ma.write(1000, data);
		p.post(Wqe::write(p.ka.addr(to), p.ka.key()).sge(p.ka.sge(1000, 5001)));
		expect_sent(p.ca, 0, 5001);
		p.ma.accept(to, 5001);
	}
}

namespace {

// Pieces of odd sizes that lie scattered, with gaps.
std::vector<Sge> scattered(Key &k, u32 n, u32 size, size_t from, std::vector<size_t> *where = nullptr)
{
	std::vector<Sge> list;
	size_t at = from;
	for (u32 i = 0; i < n; i++) {
		u32 len = i + 1 == n ? size - i * (size / n) : size / n;
		list.push_back(k.sge(at, len));
		if (where)
			where->push_back(at);
		at += len + 1 + i % 5;
	}
	return list;
}

// Gathers from scattered(), for the expectation.
void put_scattered(Memory &m, const std::vector<Sge> &list, const std::vector<size_t> &where, const Bytes &data,
		   bool device)
{
	size_t done = 0;
	for (size_t i = 0; i < list.size(); i++) {
		std::span piece(data.data() + done, list[i].len);
		if (device)
			m.expect(where[i], piece);
		else
			m.write(where[i], piece);
		done += list[i].len;
	}
}

} // namespace

TEST(Transfer, GatherListsOfEveryLengthWorkWhereverTheWqeWrapsInTheRing)
{
	Pair p;
	for (u32 n : {1u, 2u, 3u, 4u, 7u, 16u, 30u, 61u}) {
		for (u32 lead = 0; lead < 18; lead++) {
			SCOPED_TRACE(testing::Message() << n << " pieces, " << lead << " slots before");
			/* bring the WQE to each place around the ring's end */
			while (p.a.producer_index() % 64 != (64 - 17 + lead) % 64) {
				p.post(Wqe::nop().signaled(false));
			}
			auto data = pattern(5000 + n, n + lead);
			std::vector<size_t> where;
			auto list = scattered(p.ka, n, 5000 + n, 3, &where);
			put_scattered(p.ma, list, where, data, false);
			p.mb.expect(77, data);
			u16 index = p.a.post(Wqe::write(p.kb.addr(77), p.kb.key()).sges(list));
			expect_sent(p.ca, index, 5000 + n);
			ASSERT_FALSE(p.w.damage());
		}
	}
}

TEST(Transfer, ASendGathersFrom62Pieces)
{
	Pair p;
	auto data = pattern(10000, 1);
	std::vector<size_t> where;
	auto list = scattered(p.ka, 62, 10000, 1, &where);
	put_scattered(p.ma, list, where, data, false);
	p.mb.expect(5, data);
	u16 recv = p.b.post_recv(p.kb.sge(5, 10000));
	p.post(Wqe::send().sges(list));
	expect_sent(p.ca, 0, 10000);
	EXPECT_EQ(one(p.cb).index, recv);
}

TEST(Transfer, AReadScattersInto61Pieces)
{
	Pair p;
	auto data = pattern(70001, 1);
	std::vector<size_t> where;
	auto list = scattered(p.ka, 61, 70001, 1, &where);
	p.mb.write(5, data);
	put_scattered(p.ma, list, where, data, true);
	p.post(Wqe::read(p.kb.addr(5), p.kb.key()).sges(list));
	expect_sent(p.ca, 0, 70001);
}

TEST(Transfer, AReceiveScattersIntoUpTo32Pieces)
{
	for (u32 n : {1u, 2u, 5u, 31u, 32u}) {
		Pair p({.qp = {.rq_wqe_shift = 9}});
		auto data = pattern(70003, n);
		std::vector<size_t> where;
		auto list = scattered(p.kb, n, 70003, 9, &where);
		p.ma.write(0, data);
		put_scattered(p.mb, list, where, data, true);
		p.b.post_recv(list);
		p.post(Wqe::send().sge(p.ka.sge(0, 70003)));
		expect_sent(p.ca, 0, 70003);
		EXPECT_EQ(one(p.cb).byte_cnt, 70003u);
	}
}

TEST(Transfer, AShortMessageLeavesTheRestOfTheReceiveUntouched)
{
	Pair p;
	auto data = pattern(100, 1);
	p.ma.write(0, data);
	p.mb.expect(50, std::span(data).first(60));
	p.mb.expect(500, std::span(data).subspan(60));
	Sge list[] = {p.kb.sge(50, 60), p.kb.sge(500, 1000)};
	p.b.post_recv(list);
	p.post(Wqe::send().sge(p.ka.sge(0, 100)));
	EXPECT_EQ(one(p.cb).byte_cnt, 100u);
	expect_sent(p.ca, 0, 100);
}

TEST(Transfer, EmptyPiecesInListsAreSkipped)
{
	Pair p;
	auto data = pattern(64, 1);
	p.ma.write(0, data);
	p.mb.expect(0, data);
	/* an empty piece may even name a key that is not there */
	Sge from[] = {{0, 0, 0xdead00}, p.ka.sge(0, 32), p.ka.sge(99, 0), p.ka.sge(32, 32)};
	Sge to[] = {p.kb.sge(0, 10), p.kb.sge(7, 0), p.kb.sge(10, 54)};
	p.b.post_recv(to);
	p.post(Wqe::send().sges(from));
	expect_sent(p.ca, 0, 64);
	EXPECT_EQ(one(p.cb).byte_cnt, 64u);
}

TEST(Transfer, InlineDataOfEveryLengthArrivesWhereverTheWqeWraps)
{
	Pair p;
	constexpr u32 room = HCA_WQE_MAX_DS * 16 - sizeof(hca_wqe_ctrl) - sizeof(hca_wqe_raddr) - 4;
	for (u32 len = 1; len <= room; len += len < 80 ? 1 : 37) {
		for (u32 lead : {0u, 15u, 31u, 47u, 49u, 63u}) {
			while (p.a.producer_index() % 64 != lead)
				p.post(Wqe::nop().signaled(false));
			auto data = pattern(len, len + lead);
			p.mb.expect(11, data);
			u16 index = p.a.post(Wqe::write(p.kb.addr(11), p.kb.key()).inline_data(data));
			expect_sent(p.ca, index, len);
		}
		auto bad = p.w.damage();
		ASSERT_FALSE(bad) << *bad << ", " << len << " bytes";
	}
	/* the longest of all */
	auto data = pattern(room, 1);
	p.mb.expect(11, data);
	p.post(Wqe::write(p.kb.addr(11), p.kb.key()).inline_data(data));
	EXPECT_EQ(one(p.ca).byte_cnt, room);
}

TEST(Transfer, InlineDataMixesWithPointersAndArrivesInASend)
{
	Pair p;
	auto data = pattern(300, 1);
	std::span all(data);
	p.ma.write(9, all.subspan(100, 50));
	p.mb.expect(0, data);
	p.b.post_recv(p.kb.sge(0, 4096));
	p.post(Wqe::send().inline_data(all.first(100)).sge(p.ka.sge(9, 50)).inline_data(all.subspan(150)));
	expect_sent(p.ca, 0, 300);
	EXPECT_EQ(one(p.cb).byte_cnt, 300u);
}

TEST(Transfer, AMessageOfTheLargestSizeArrivesAndOneByteMoreIsRefused)
{
	/* Keys of more than a GiB whose blocks are one and the same memory. */
	Pair p({.memory = 1 << 20, .block_shift = 20});
	Key &ka = p.w.add_key(p.da, p.ma, {.iova = 0, .repeat = 1025});
	Key &kb = p.w.add_key(p.db, p.mb, {.iova = 0, .repeat = 1025});
	Counter &sent = p.w.add_counter(p.da, true);
	p.a.to(HCA_QPS_RESET);
	ASSERT_EQ(p.a.attach(sent, 1u << HCA_CLASS_WRITE), 0);
	p.a.connect(p.b);

	p.mb.expect(0, p.ma.read(0, 1 << 20));
	p.post(Wqe::write(0, kb.key()).sge(ka.sge(0, HCA_MAX_MSG)));
	expect_sent(p.ca, 0, HCA_MAX_MSG);
	EXPECT_EQ(sent.comp(), u64{HCA_MAX_MSG});

	p.post(Wqe::write(0, kb.key()).sge(ka.sge(0, HCA_MAX_MSG - 1)).sge(ka.sge(0, 2)));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_LENGTH, 1);
	EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
}

TEST(Transfer, ManyRequestsOfOneDoorbellCompleteInOrder)
{
	Pair p({.qp = {.sq_slots = 256}});
	std::vector<u16> indices;
	for (u32 i = 0; i < 100; i++) {
		auto data = pattern(17, i);
		p.ma.write(i * 40, data);
		p.mb.expect(i * 50, data);
		indices.push_back(p.a.stage(Wqe::write(p.kb.addr(i * 50), p.kb.key()).sge(p.ka.sge(i * 40, 17))));
	}
	expect_none(p.ca);
	p.a.ring();
	p.w.settle();
	auto wcs = p.ca.poll_all();
	ASSERT_EQ(wcs.size(), 100u);
	for (size_t i = 0; i < wcs.size(); i++)
		EXPECT_EQ(wcs[i].index, indices[i]);
}

TEST(Transfer, UnsignaledRequestsLeaveNoCompletionUnlessTheQpSignalsAll)
{
	for (bool all : {false, true}) {
		Pair p({.qp = {.all_signaled = all}});
		auto data = pattern(8, 3);
		p.mb.expect(0, data);
		p.post(Wqe::write(p.kb.addr(), p.kb.key()).inline_data(data).signaled(false));
		EXPECT_EQ(p.ca.poll_all().size(), all ? 1u : 0u);
	}
}

namespace {

/* A key without memory, in no protection domain of those in use. */
struct NullKey {
	explicit NullKey(Device &d) : dev(d)
	{
		u32 index;
		EXPECT_EQ(hca_table_reserve(&dev.hca()->mkeys, &index), 0);
		hca.key = index << 8 | 7;
		hca.pdn = 0xabc;
		hca.null = true;
		hca.access = HCA_ACCESS_LOCAL_READ | HCA_ACCESS_LOCAL_WRITE;
		hca.length = ~0ull;
		hca_mkey_publish(dev.hca(), &hca);
	}
	~NullKey()
	{
		hca_mkey_unpublish(dev.hca(), &hca);
		synchronize_rcu();
		hca_table_release(&dev.hca()->mkeys, hca.key >> 8);
	}
	Sge sge(u64 addr, u32 len) const { return {addr, len, hca.key}; }

	Device &dev;
	hca_mkey hca{};
};

} // namespace

TEST(Transfer, ANullKeyTakesWhatIsWrittenAndGivesZeroes)
{
	Pair p;
	NullKey na(p.da), nb(p.db);
	auto data = pattern(4000, 2);

	/* zeroes, of any address and length, between bytes of memory */
	for (u32 len : {1u, 4u, 8u, 9u, 3000u}) {
		p.ma.write(1, data);
		std::vector<u8> expected(data.begin(), data.begin() + 100);
		expected.resize(100 + len);
		expected.insert(expected.end(), data.begin() + 100, data.begin() + 200);
		p.mb.write(0, pattern(8192, 9));
		p.post(Wqe::write(p.kb.addr(8), p.kb.key())
			   .sge(p.ka.sge(1, 100))
			   .sge(na.sge(0xffffffffffff0000, len))
			   .sge(p.ka.sge(101, 100)));
		EXPECT_TRUE(one(p.ca).ok());
		EXPECT_TRUE(std::equal(expected.begin(), expected.end(), p.mb.read(8, expected.size()).begin()));
		p.mb.accept(0, 8192);

		/* and what arrives goes by */
		Sge list[] = {p.kb.sge(8, 100), nb.sge(3, len), p.kb.sge(108, 100)};
		p.b.post_recv(list);
		auto sent = pattern(200 + len, 5);
		p.ma.write(1, sent);
		p.post(Wqe::send().sge(p.ka.sge(1, 200 + len)));
		EXPECT_TRUE(one(p.ca).ok());
		EXPECT_EQ(one(p.cb).byte_cnt, 200 + len);
		std::vector<u8> kept(sent.begin(), sent.begin() + 100);
		kept.insert(kept.end(), sent.end() - 100, sent.end());
		EXPECT_TRUE(std::equal(kept.begin(), kept.end(), p.mb.read(8, 200).begin()));
		p.mb.accept(0, 8192);
	}
	/* an atomic does not read what somebody's write has left there */
	{
		Pair q;
		NullKey nq(q.db);
		q.b.post_recv(nq.sge(0, 8));
		q.post(Wqe::send().sge(q.ka.sge(0, 8)));
		EXPECT_TRUE(one(q.ca).ok());
		IndirectKey &list = q.w.add_indirect(q.db);
		q.cb.poll_all();
		q.b.post(Wqe::umr_list(list.key(), std::vector{nq.sge(0, 4096)}));
		q.w.settle();
		EXPECT_TRUE(one(q.cb).ok());
		q.post(Wqe::fetch_add(0, list.current_key(), 0).sge(q.ka.sge(0, 8)));
		EXPECT_EQ(one(q.ca).syndrome, HCA_SYND_REMOTE_INVAL_REQ);
	}
	/* a read into it, and what it is not for; the five writes took two slots each */
	p.post(Wqe::read(p.kb.addr(), p.kb.key()).sge(na.sge(0, 5000)));
	EXPECT_TRUE(one(p.ca).ok());
	p.post(Wqe::write(0, nb.hca.key).sge(p.ka.sge(0, 8)));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_REMOTE_ACCESS, 16);
}

TEST(Transfer, WhereABudgetEndsNoWordIsTorn)
{
	/* What the first request leaves of a slice: a few bytes for the next one, or a part of its last word. */
	for (bool copy : {false, true}) {
		for (u32 first : {HCA_SLICE - 13, HCA_SLICE - 8, HCA_SLICE - 3, HCA_SLICE - 1}) {
			for (u32 second : {1u, 4u, 8u, 16u, 4096u, 65536u, 65539u, 65541u}) {
				Pair p({.two_devices = false, .connect = false, .memory = 2 * 65536 + 128});
				p.b.connect(p.a);
				p.a.to_init();
				ASSERT_EQ(hca_qp_enable_mmo(p.a.hca()), 0);
				p.a.to_rtr(p.b);
				p.a.to_rts();
				p.w.settle();
				p.ma.write(0, std::vector<u8>(p.ma.size(), 0));
				p.mb.write(0, std::vector<u8>(p.mb.size(), 0xff));
				auto request = [&](u32 at, u32 len) {
					return copy ? Wqe::memcpy(p.ka.sge(at, len), p.kb.sge(at, len)) :
						      Wqe::write(p.kb.addr(at), p.kb.key()).sge(p.ka.sge(at, len));
				};
				p.a.stage(request(0, first));
				p.a.stage(request(65536, second));
				p.a.set_sq_record(p.a.producer_index());
				u32 turns = 0;
				bool more = true;
				while (more && turns++ < 10) {
					more = p.a.run(16, HCA_SLICE) == HCA_RUN_MORE;
					const u32 last = second % 8 ?: 8, at = 65536 + second - last;
					const u8 begin = p.mb.read(65536, 1)[0];
					const auto word = p.mb.read(65536, 8), end = p.mb.read(at, last);
					if (second >= 8) {
						EXPECT_EQ(word, std::vector<u8>(8, begin)) << first << " " << second;
					}
					EXPECT_EQ(end, std::vector<u8>(last, end[0])) << first << " " << second;
				}
				EXPECT_EQ(p.ca.poll_all().size(), 2u);
				p.ma.accept(0, p.ma.size());
				p.mb.accept(0, p.mb.size());
				EXPECT_EQ(p.mb.read(65536, second), std::vector<u8>(second, 0));
			}
		}
	}
}

TEST(Transfer, OnlyThePiecesOfAReceiveThatTheMessageNeedsAreLookedAt)
{
	for (bool indirect : {false, true}) {
		Pair p;
		IndirectKey &list = p.w.add_indirect(p.db);
		p.b.post(Wqe::umr_list(list.key(), std::vector{p.kb.sge(0, 100)}));
		p.w.settle();
		one(p.cb);
		const Sge good = indirect ? list.sge(0, 64) : p.kb.sge(0, 64), dead = {0, 64, 0x77};
		/* all of it in the first piece; none of it anywhere; more than there is memory, but not for this one */
		for (u32 len : {8u, 64u, 0u}) {
			p.b.post_recv(std::vector{len ? good : dead, dead});
			p.mb.expect(0, p.ma.read(0, len));
			p.post(Wqe::send().sge(p.ka.sge(0, len)));
			EXPECT_TRUE(one(p.ca).ok());
			EXPECT_EQ(one(p.cb).byte_cnt, len);
		}
		p.b.post_recv(std::vector{Sge{good.addr, 1u << 20, good.key}});
		p.mb.expect(0, p.ma.read(5, 70));
		p.post(Wqe::send().sge(p.ka.sge(5, 70)));
		EXPECT_TRUE(one(p.ca).ok());
		EXPECT_TRUE(one(p.cb).ok());
		/* One byte more than the first has wants the second. */
		p.b.post_recv(std::vector{good, dead});
		p.post(Wqe::send().sge(p.ka.sge(0, 65)));
		EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_OP);
		EXPECT_EQ(one(p.cb).syndrome, HCA_SYND_LOCAL_PROT);
	}
}

TEST(Transfer, TheBytesOfOneMessageMayComeFromSeveralKeys)
{
	Pair p;
	Memory &other = p.w.add_memory(8192, 7);
	Key &k2 = p.w.add_key(p.da, other, {.offset = 5, .length = 3000});
	auto data = pattern(4000, 2);
	other.write(5 + 100, std::span(data).first(2000));
	p.ma.write(1, std::span(data).subspan(2000));
	p.mb.expect(3, data);
	p.post(Wqe::write(p.kb.addr(3), p.kb.key()).sge(k2.sge(100, 2000)).sge(p.ka.sge(1, 2000)));
	expect_sent(p.ca, 0, 4000);
}
