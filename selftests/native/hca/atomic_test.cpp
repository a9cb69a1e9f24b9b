// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomic operations: one read-modify-write each, the old value back to the requester.
#include "pair.hpp"

using namespace world;

namespace {

void put(Memory &m, size_t off, u64 v)
{
	m.write(off, std::span(reinterpret_cast<const u8 *>(&v), 8));
}

void expect_word(Memory &m, size_t off, u64 v)
{
	m.expect(off, std::span(reinterpret_cast<const u8 *>(&v), 8));
}

} // namespace

TEST(Atomic, FetchAndAddAddsAndReturnsTheOldValue)
{
	Pair p;
	put(p.mb, 64, 0xfffffffffffffff0ull);
	expect_word(p.mb, 64, 0x10);
	expect_word(p.ma, 3, 0xfffffffffffffff0ull);
	p.post(Wqe::fetch_add(p.kb.addr(64), p.kb.key(), 0x20).sge(p.ka.sge(3, 8)));
	Wc wc = one(p.ca);
	EXPECT_EQ(wc.opcode, HCA_CQE_REQ);
	EXPECT_EQ(wc.send_op, HCA_OPCODE_ATOMIC_FA);
	EXPECT_EQ(wc.byte_cnt, 8u);
}

TEST(Atomic, CompareAndSwapSwapsOnlyWhenEqualAndReturnsTheOldValue)
{
	Pair p;
	put(p.mb, 8, 5);
	expect_word(p.ma, 0, 5);
	p.post(Wqe::compare_swap(p.kb.addr(8), p.kb.key(), 4, 77).sge(p.ka.sge(0, 8)));
	expect_sent(p.ca, 0, 8);
	EXPECT_FALSE(p.w.damage());

	expect_word(p.mb, 8, 77);
	p.post(Wqe::compare_swap(p.kb.addr(8), p.kb.key(), 5, 77).sge(p.ka.sge(0, 8)));
	EXPECT_TRUE(one(p.ca).ok());
}

TEST(Atomic, TheOldValueMayBeScattered)
{
	Pair p;
	put(p.mb, 0, 0x0807060504030201ull);
	expect_word(p.mb, 0, 0x0807060504030202ull);
	u8 first[] = {1, 2, 3}, second[] = {4, 5, 6, 7, 8};
	p.ma.expect(10, first);
	p.ma.expect(21, second);
	p.post(Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(10, 3)).sge(p.ka.sge(21, 5)));
	expect_sent(p.ca, 0, 8);
}

TEST(Atomic, ALargerBufferGetsEightBytes)
{
	Pair p;
	Counter &bytes = p.w.add_counter(p.da, true);
	p.a.to(HCA_QPS_RESET);
	ASSERT_EQ(p.a.attach(bytes, 1u << HCA_CLASS_ATOMIC), 0);
	p.a.connect(p.b);
	put(p.mb, 0, 1);
	expect_word(p.mb, 0, 3);
	expect_word(p.ma, 100, 1);
	p.post(Wqe::fetch_add(p.kb.addr(), p.kb.key(), 2).sge(p.ka.sge(100, 32)));
	expect_sent(p.ca, 0, 8);
	EXPECT_EQ(bytes.comp(), 8u);
}

TEST(Atomic, ABufferOfFewerThanEightBytesIsALocalLengthError)
{
	Pair p;
	p.post(Wqe::fetch_add(p.kb.addr(), p.kb.key(), 2).sge(p.ka.sge(0, 7)));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_LENGTH, 0);
	EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
}

TEST(Atomic, AnAtomicAtTheEndOfASliceHappensOnce)
{
	/* A message before it leaves from 1 to 9 bytes of the slice. */
	for (u32 left = 0; left < 10; left++) {
		SCOPED_TRACE(left);
		Pair p({.memory = 128 * 1024});
		put(p.mb, 0, 1000);
		expect_word(p.mb, 0, 1001);
		expect_word(p.ma, 0, 1000);
		p.mb.expect(64, p.ma.read(64, HCA_SLICE - left));
		p.a.stage(Wqe::write(p.kb.addr(64), p.kb.key())
			      .sge(p.ka.sge(64, HCA_SLICE - left))
			      .signaled(false));
		u16 index = p.a.post(Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(0, 8)));
		p.w.settle();
		expect_sent(p.ca, index, 8);
	}
}

TEST(Atomic, TwoThousandInARowAddUp)
{
	Pair p;
	put(p.mb, 8, 0);
	for (u64 i = 0; i < 2000; i++) {
		expect_word(p.ma, 0, i);
		p.post(Wqe::fetch_add(p.kb.addr(8), p.kb.key(), 1).sge(p.ka.sge(0, 8)).signaled(false));
		ASSERT_EQ(p.ma.read(0, 8), (Bytes{static_cast<u8>(i), static_cast<u8>(i >> 8), 0, 0, 0, 0, 0, 0}));
	}
	expect_word(p.mb, 8, 2000);
}

TEST(Atomic, AMisalignedAddressIsRefusedByTheResponder)
{
	for (u64 off : {1, 2, 4, 7}) {
		Pair p;
		p.post(Wqe::fetch_add(p.kb.addr(off), p.kb.key(), 1).sge(p.ka.sge(0, 8)));
		expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_REMOTE_INVAL_REQ, 0);
		EXPECT_EQ(p.b.state(), HCA_QPS_ERR);
	}
}

TEST(Atomic, AMisalignedAddressOfMemoryThatIsAlignedIsRefused)
{
	Pair p;
	Key &odd = p.w.add_key(p.db, p.mb, {.offset = 0, .iova = 0x1004});
	p.post(Wqe::fetch_add(odd.addr(8), odd.key(), 1).sge(p.ka.sge(0, 8)));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_REMOTE_INVAL_REQ, 0);
}

TEST(Atomic, AnAlignedAddressOfMemoryThatIsNotAlignedIsRefused)
{
	Pair p;
	Key &odd = p.w.add_key(p.db, p.mb, {.offset = 12, .iova = 0x1000});
	p.post(Wqe::fetch_add(odd.addr(0), odd.key(), 1).sge(p.ka.sge(0, 8)));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_REMOTE_INVAL_REQ, 0);
}
