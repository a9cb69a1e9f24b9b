// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Patterns of one block a round, which are followed from round to round without looking at the key again.
#include "pair.hpp"

#include <atomic>
#include <random>
#include <thread>

using namespace world;

namespace {

struct Patterns : Pair {
	Patterns(const PairOptions &o = {})
	    : Pair(o), near(w.add_indirect(da)), other(w.add_indirect(da)), far(w.add_indirect(db))
	{
	}
	void give(Qp &qp, Cq &cq, IndirectKey &key, u32 rounds, const Block &block)
	{
		qp.post(Wqe::umr_pattern(key.current_key(), rounds, std::span(&block, 1)));
		w.settle();
		EXPECT_TRUE(one(cq).ok());
	}
	IndirectKey &near, &other, &far;
};

Bytes strided(Memory &m, size_t at, u32 rounds, u32 bytes, u32 stride)
{
	Bytes all;
	for (u32 i = 0; i < rounds; i++) {
		Bytes part = m.read(at + size_t{i} * stride, bytes);
		all.insert(all.end(), part.begin(), part.end());
	}
	return all;
}

void expect_strided(Memory &m, size_t at, u32 bytes, u32 stride, const Bytes &data)
{
	for (size_t i = 0; i * bytes < data.size(); i++)
		m.expect(at + i * stride,
			 std::span(data).subspan(i * bytes, std::min<size_t>(bytes, data.size() - i * bytes)));
}

} // namespace

TEST(Pattern, EveryBlockSizeStrideAndStartGathersAndScattersTheRightBytes)
{
	std::mt19937 rng(7);
	for (u8 shift : {u8{8}, u8{10}, u8{12}, u8{20}}) {
		Patterns p({.memory = 64 * 1024, .block_shift = shift, .beside = shift == 10 ? 2u : 1u});
		for (int n = 0; n < 150; n++) {
			u32 bytes = n < 20 ? 8u << n % 8 : 1 + rng() % 700;
			u32 stride = bytes + (n % 5 ? rng() % 200 : 0), rounds = 1 + rng() % 40;
			u32 in = 1 + rng() % 700, out = in + rng() % 200;
			size_t from = rng() % 3000, to = rng() % 3000;
			u32 total = bytes * rounds, skip = rng() % total;
			u32 len = std::min(1 + static_cast<u32>(rng()) % (total - skip), 40u * in);
			auto block = [](Key &k, size_t at, u32 size, u32 step) {
				u16 gap = static_cast<u16>(step - size);
				return Block{k.addr(at), static_cast<u16>(size), gap, k.key()};
			};
			p.give(p.a, p.ca, p.near, rounds, block(p.ka, from, bytes, stride));
			p.give(p.b, p.cb, p.far, 40, block(p.kb, to, in, out));
			Bytes all = strided(p.ma, from, rounds, bytes, stride);
			Bytes data(all.begin() + skip, all.begin() + skip + len);
			p.post(Wqe::write(0, p.far.current_key()).sge(p.near.sge(skip, len)));
			EXPECT_TRUE(one(p.ca).ok());
			expect_strided(p.mb, to, in, out, data);
			ASSERT_FALSE(p.w.damage())
				<< "blocks of " << bytes << " every " << stride << " from " << skip << ", " << len
				<< " bytes to blocks of " << in << " every " << out;
		}
	}
}

TEST(Pattern, OneEndsWhereItsKeyEndsThoughTheNextGoesOnAtTheSameAddress)
{
	Patterns p;
	p.give(p.a, p.ca, p.near, 64, {p.ka.addr(0), 64, 64, p.ka.key()});
	p.give(p.a, p.ca, p.other, 64, {p.ka.addr(32768), 64, 64, p.ka.key()});
	/* Both pieces end with a round, and the second begins at the address where the first would go on. */
	Bytes first = strided(p.ma, 0, 4, 64, 128), second = strided(p.ma, 32768 + 4 * 128, 4, 64, 128);
	first.insert(first.end(), second.begin(), second.end());
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.near.sge(0, 256)).sge(p.other.sge(256, 256)));
	EXPECT_TRUE(one(p.ca).ok());
	p.mb.expect(0, first);
}

TEST(Pattern, AMessageOfManySlicesIsGatheredWhole)
{
	Patterns p({.memory = 512 * 1024});
	p.give(p.a, p.ca, p.near, 2000, {p.ka.addr(8), 104, 48, p.ka.key()});
	Bytes data = strided(p.ma, 8, 2000, 104, 152);
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.near.sge(0, 208000)));
	EXPECT_TRUE(one(p.ca).ok());
	p.mb.expect(0, data);
}

TEST(Pattern, WhereItLiesOverItsDestinationBlocksMoveOneByOneInOrder)
{
	Patterns p({.two_devices = false});
	p.give(p.a, p.ca, p.near, 32, {p.ka.addr(0), 64, 64, p.ka.key()});
	Bytes before = p.ma.read(0, 8192);
	for (u32 i = 0; i < 32; i++)
		std::copy_n(before.begin() + i * 128, 64, before.begin() + 64 + i * 64);
	Key &same = p.w.add_key(p.da, p.ma);
	p.post(Wqe::write(same.addr(64), same.key()).sge(p.near.sge(0, 2048)));
	EXPECT_TRUE(one(p.ca).ok());
	p.ma.expect(64, std::span(before).subspan(64, 2048));
}

TEST(Pattern, MemoryThatIsFreedBetweenTwoSlicesEndsTheMessage)
{
	Patterns p({.memory = 512 * 1024});
	Key &base = p.w.add_key(p.da, p.ma, {.invalidate_ok = true});
	p.give(p.a, p.ca, p.near, 2000, {base.addr(0), 104, 24, base.key()});
	u16 index = p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.near.sge(0, 208000)));
	p.a.set_sq_record(p.a.producer_index());
	EXPECT_EQ(p.a.run(1, 1), HCA_RUN_MORE);
	base.kill();
	while (p.a.run(1, 1) == HCA_RUN_MORE)
		;
	p.w.settle();
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_PROT, index);
	p.mb.accept(0, 208000);
}

TEST(Pattern, WhileItIsRegisteredAnewAMessageSeesOneLayoutOrFails)
{
	Patterns p({.memory = 128 * 1024});
	Cq &cq2 = p.w.add_cq(p.da);
	Qp &registrar = p.w.add_qp(p.da, {.send_cq = &cq2});
	registrar.connect(registrar);
	for (size_t i = 0; i < 32; i++) {
		bool high = i >= 16;
		std::memset(p.ma.at(i * 4096), high ? 2 : 1, 4096);
	}
	p.ma.accept(0, p.ma.size());
	const Block low{p.ka.addr(0), 64, 64, p.ka.key()}, high{p.ka.addr(65536), 64, 40, p.ka.key()};
	registrar.post(Wqe::umr_pattern(p.near.key(), 64, std::span(&low, 1)).signaled(false));
	std::atomic<bool> stop{false};
	std::thread writer([&] {
		for (u32 i = 0; !stop; i++) {
			const Block &next = i & 1 ? low : high;
			registrar.post(Wqe::umr_pattern(p.near.key(), 64, std::span(&next, 1)).signaled(false));
		}
	});
	const Copies copies = copy_while_it_changes(p.da, p.near.key(), 4096, 20000);
	stop = true;
	writer.join();
	EXPECT_EQ(copies.mixed, 0u);
	EXPECT_GT(copies.whole, 0u);
}
