// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Cursors and copies by themselves, against a model that moves byte by byte.
#include "pair.hpp"

#include <atomic>
#include <random>
#include <thread>

using namespace world;

namespace {

struct List {
	std::vector<Sge> sges;
	std::vector<size_t> where; // of each byte, in the memory
};

// Some pieces, here and there, in one or both keys.
List random_list(std::mt19937 &rng, std::span<Key *const> keys, u32 total)
{
	List l;
	while (total) {
		Key &k = *keys[rng() % keys.size()];
		u32 len = std::min<u32>(total, 1 + rng() % (rng() % 4 ? 50 : 5000));
		u64 off = rng() % (k.length() - len);
		l.sges.push_back(k.sge(off, len));
		for (u32 i = 0; i < len; i++)
			l.where.push_back(k.offset() + off + i);
		total -= len;
	}
	return l;
}

std::vector<hca_sge> as_hca(const std::vector<Sge> &list)
{
	std::vector<hca_sge> out;
	for (auto &s : list)
		out.push_back({.addr = s.addr, .len = s.len, .key = s.key, .data = nullptr, .mkey = nullptr, .seq = 0});
	return out;
}

} // namespace

TEST(Copy, AgreesWithACopyByteByByteInSlicesOfAnySize)
{
	const std::pair<u8, u32> blocks[] = {{0, 1}, {0, 3}, {3, 1}, {3, 3}, {6, 1}, {6, 3}, {12, 1}, {12, 3}};
	for (auto [shift, beside] : blocks) {
		Pair p({.memory = 20000, .block_shift = shift, .beside = beside});
		std::mt19937 rng(shift + beside);
		Key *from_keys[] = {&p.ka, &p.w.add_key(p.da, p.ma, {.offset = 1001, .length = 9000, .iova = 77})};
		Key *to_keys[] = {&p.w.add_key(p.da, p.mb), &p.w.add_key(p.da, p.mb, {.offset = 13, .iova = 0})};
		for (int round = 0; round < 150; round++) {
			u32 total = 1 + rng() % 8000;
			List from = random_list(rng, from_keys, total), to = random_list(rng, to_keys, total);
			auto hfrom = as_hca(from.sges), hto = as_hca(to.sges);
			Bytes whole = p.ma.read(0, 20000);
			for (u32 i = 0; i < total; i++)
				p.mb.expect(to.where[i], std::span(&whole[from.where[i]], 1));

			rcu_read_lock();
			hca_claim claim = {.dev = p.da.hca(), .pdn = 1, .qpn = 0, .access = 0, .whole = true, .pinned = false, .tree_left = HCA_KEY_TREE};
			ASSERT_EQ(hca_sges_resolve(&claim, hfrom.data(), static_cast<u32>(hfrom.size())),
				  HCA_SYND_OK);
			claim.access = HCA_ACCESS_LOCAL_WRITE;
			ASSERT_EQ(hca_sges_resolve(&claim, hto.data(), static_cast<u32>(hto.size())), HCA_SYND_OK);
			hca_cursor f, t;
			hca_cursor_init(&f, hfrom.data(), static_cast<u32>(hfrom.size()));
			hca_cursor_init(&t, hto.data(), static_cast<u32>(hto.size()));
			for (u32 done = 0; done < total;) {
				u32 n = std::min<u32>(total - done, 1 + rng() % 3000);
				if (rng() % 4 == 0) {
					/* from the start again, by skipping */
					hca_cursor_init(&f, hfrom.data(), static_cast<u32>(hfrom.size()));
					hca_cursor_skip(&f, done);
					hca_cursor_init(&t, hto.data(), static_cast<u32>(hto.size()));
					hca_cursor_skip(&t, done);
				}
				ASSERT_EQ(hca_copy(&t, &f, n), HCA_COPIED);
				done += n;
			}
			rcu_read_unlock();
			auto bad = p.w.damage();
			ASSERT_FALSE(bad) << *bad << ", round " << round << ", shift " << int{shift};
		}
	}
}

TEST(Copy, OfNothingTouchesNothing)
{
	hca_cursor none{};
	EXPECT_EQ(hca_copy(&none, &none, 0), HCA_COPIED);
	hca_cursor_skip(&none, 0);
	EXPECT_EQ(none.off, 0u);
}

TEST(Copy, WhoeverSeesTheLastWordFindsTheRest)
{
	/* As programs do that poll on the end of a buffer. */
	for (u32 size : {16u, 64u, 256u, 4096u}) {
		Pair p({.memory = 8192});
		constexpr u64 rounds = 3000;
		std::atomic<u64> taken{0};
		bool torn = false;
		auto word = [&](size_t off) { return reinterpret_cast<u64 *>(p.mb.at(off)); };
		std::memset(p.mb.at(0), 0, 4096);
		std::thread reader([&] {
			for (u64 n = 1; n <= rounds; n++) {
				while (__atomic_load_n(word(size - 8), __ATOMIC_ACQUIRE) != n)
					std::this_thread::yield();
				for (u32 off = 0; off < size; off += 8)
					torn |= __atomic_load_n(word(off), __ATOMIC_RELAXED) != n;
				taken = n;
			}
		});
		for (u64 n = 1; n <= rounds; n++) {
			std::vector<u64> data(size / 8, n);
			p.ma.write(0, std::span(reinterpret_cast<u8 *>(data.data()), size));
			p.a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, size)).signaled(false));
			while (taken != n)
				std::this_thread::yield();
		}
		reader.join();
		EXPECT_FALSE(torn);
		p.mb.accept(0, 4096);
	}
}

TEST(Copy, AWordIsWholeAtBothSidesOfACutWhereverItsMessageBegins)
{
	for (u32 begin : {0u, 4u, 8u, 60u}) {
		for (bool read : {false, true}) {
			Pair p({.memory = 256 * 1024});
			const u32 length = 200000;
			Memory &to = read ? p.ma : p.mb, &from = read ? p.mb : p.ma;
			p.a.stage(read ? Wqe::read(p.kb.addr(0), p.kb.key()).sge(p.ka.sge(begin, length)) :
					 Wqe::write(p.kb.addr(begin), p.kb.key()).sge(p.ka.sge(0, length)));
			p.a.set_sq_record(p.a.producer_index());
			from.write(0, Bytes(length, 0x5a));
			to.write(0, Bytes(length + 64, 0));
			u32 there = 0;
			while (p.a.run(1, HCA_SLICE) == HCA_RUN_MORE) {
				u32 end = begin;
				while (*to.at(end))
					end++;
				EXPECT_GT(end, there);
				EXPECT_TRUE(end % 64 == 0 || end == begin + length) << end;
				there = end;
			}
			EXPECT_GT(there, HCA_SLICE / 2);
			to.accept(0, length + 64);
		}
	}
}

TEST(Copy, AnAlignedWordIsWrittenWhole)
{
	Pair p({.memory = 4096});
	std::atomic<bool> stop{false};
	bool torn = false;
	auto *word = reinterpret_cast<u64 *>(p.mb.at(8));
	*word = 0;
	std::thread reader([&] {
		while (!stop) {
			u64 v = __atomic_load_n(word, __ATOMIC_RELAXED);
			torn |= v != (v & 0xff) * 0x0101010101010101ull;
		}
	});
	for (u32 n = 0; n < 20000; n++) {
		Bytes data(8, static_cast<u8>(n));
		p.a.post(Wqe::write(p.kb.addr(8), p.kb.key()).inline_data(data).signaled(false));
		p.ma.write(0, data);
		p.a.post(Wqe::write(p.kb.addr(8), p.kb.key()).sge(p.ka.sge(0, 8)).signaled(false));
		/* out of several pieces, too */
		p.a.post(Wqe::write(p.kb.addr(8), p.kb.key()).sge(p.ka.sge(0, 4)).sge(p.ka.sge(1, 3)).sge(p.ka.sge(5, 1)).signaled(false));
	}
	stop = true;
	reader.join();
	EXPECT_FALSE(torn);
	p.mb.accept(8, 8);
}
