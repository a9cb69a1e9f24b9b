// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Ring arithmetic and chunk headers.
#include "copy/ring.hpp"

#include <array>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace {

using namespace tally::cli;

TEST(ring, slots_do_not_overlap_and_fill_it)
{
	for (const auto &ring :
	     {ring_geometry{2, 1}, ring_geometry{3, 63}, ring_geometry{16, 65536}, ring_geometry{7, 100}}) {
		std::uint64_t end = 0;
		for (std::uint64_t n = 0; n < ring.slots; ++n) {
			EXPECT_GE(ring.offset(n), end);
			EXPECT_EQ(ring.offset(n) % 64, 0u);
			end = ring.offset(n) + ring_geometry::header_bytes + ring.chunk;
		}
		EXPECT_LE(end, ring.bytes());
	}
}

TEST(ring, a_chunk_comes_back_to_its_slot_after_a_round)
{
	constexpr ring_geometry ring{5, 1000};
	for (std::uint64_t n = 0; n < 50; ++n) {
		EXPECT_EQ(ring.offset(n), ring.offset(n + 5));
		EXPECT_NE(ring.offset(n), ring.offset(n + 1));
	}
	constexpr std::uint64_t late = UINT64_MAX / 5 * 5; // very long transfers
	EXPECT_EQ(ring.offset(late), 0u);
}

TEST(ring, the_first_round_needs_no_credit_and_then_each_chunk_one_more)
{
	constexpr ring_geometry ring{4, 10};
	EXPECT_EQ(ring.credits_needed(0), 0u);
	EXPECT_EQ(ring.credits_needed(3), 0u);
	EXPECT_EQ(ring.credits_needed(4), 1u);
	EXPECT_EQ(ring.credits_needed(5), 2u);
	EXPECT_EQ(ring.credits_needed(1'000'000), 999'997u);
}

// Sender and receiver take any turns that the credits allow: no chunk is ever written over one that is still needed.
TEST(ring, credits_keep_the_sender_from_overwriting)
{
	constexpr ring_geometry ring{3, 8};
	std::mt19937 random(1);
	std::uint64_t sent = 0, received = 0;
	std::set<std::uint64_t> full; // offsets
	for (int turn = 0; turn < 10'000; ++turn) {
		const bool may_send = received >= ring.credits_needed(sent);
		if (may_send && (random() % 2 || sent == received)) {
			EXPECT_TRUE(full.insert(ring.offset(sent)).second) << "chunk " << sent;
			++sent;
		} else if (received < sent) {
			EXPECT_EQ(full.erase(ring.offset(received)), 1u);
			++received;
		}
		EXPECT_LE(sent - received, ring.slots);
	}
	EXPECT_GT(sent, 3000u);
}

TEST(ring, impossible_ones_are_told_apart)
{
	EXPECT_TRUE((ring_geometry{2, 1}).valid());
	EXPECT_TRUE((ring_geometry{4096, 1000}).valid());
	EXPECT_FALSE((ring_geometry{1, 1}).valid());
	EXPECT_FALSE((ring_geometry{4097, 1}).valid());
	EXPECT_FALSE((ring_geometry{2, 0}).valid());
	EXPECT_FALSE((ring_geometry{2, (64u << 20) + 1}).valid());
	EXPECT_FALSE((ring_geometry{4096, 64u << 20}).valid()) << "too much in all";
	EXPECT_FALSE((ring_geometry{UINT32_MAX, UINT32_MAX}).valid());
	EXPECT_FALSE((ring_geometry{}).valid());
}

using header_bytes = std::array<std::byte, chunk_header::bytes>;

TEST(chunk_headers, arrive_as_they_were_written)
{
	constexpr ring_geometry ring{4, 1000};
	for (const auto &header :
	     {chunk_header{0, 0, true}, chunk_header{5, 1000, false}, chunk_header{UINT64_MAX, 1, true}}) {
		header_bytes bytes;
		header.write(bytes);
		const auto read = chunk_header::read(bytes, header.sequence, ring);
		ASSERT_TRUE(read);
		EXPECT_EQ(read->sequence, header.sequence);
		EXPECT_EQ(read->length, header.length);
		EXPECT_EQ(read->last, header.last);
	}
}

TEST(chunk_headers, are_big_endian)
{
	header_bytes bytes;
	chunk_header{0x0102030405060708, 0x0a0b0c0d, true}.write(bytes);
	constexpr std::array<unsigned char, 16> expected{1, 2, 3, 4, 5, 6, 7, 8, 0xa, 0xb, 0xc, 0xd, 0, 0, 0, 1};
	for (std::size_t i = 0; i < bytes.size(); ++i)
		EXPECT_EQ(std::to_integer<unsigned char>(bytes[i]), expected[i]);
}

TEST(chunk_headers, of_another_chunk_or_too_long_or_with_unknown_flags_are_refused)
{
	constexpr ring_geometry ring{4, 1000};
	header_bytes bytes;
	chunk_header{7, 1000, false}.write(bytes);
	EXPECT_TRUE(chunk_header::read(bytes, 7, ring));
	EXPECT_FALSE(chunk_header::read(bytes, 3, ring));
	bytes[15] = std::byte{2};
	EXPECT_FALSE(chunk_header::read(bytes, 7, ring));
	chunk_header{7, 1001, false}.write(bytes);
	EXPECT_FALSE(chunk_header::read(bytes, 7, ring));
}

} // namespace
