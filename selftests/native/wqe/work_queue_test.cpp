// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A send queue in plain memory.
#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <tally/work_queue.hpp>
#include <vector>

using namespace tally;

namespace {

struct queue_in_memory {
	static constexpr std::uint32_t count = 8;

	alignas(64) std::array<std::uint8_t, count * 64> blocks{};
	std::array<wqe::be32, 2> records{};
	std::uint64_t doorbell = 0;
	work_queue wq;

	explicit queue_in_memory(std::uint32_t start = 0) : records{0, start}, wq(memory()) { blocks.fill(0xa5); }

	send_queue_memory memory()
	{
		return {.blocks = blocks.data(),
			.count = count,
			.qpn = 0x123456,
			.record = &records[1],
			.doorbell = &doorbell};
	}
	std::uint32_t record() const { return records[1].host(); }
	std::uint8_t flags_of(std::uint16_t index) const
	{
		return static_cast<std::uint8_t>(wq.ctrl_of(index)->signature_stream_fm_ce_se.host());
	}
};

constexpr wqe::data piece{1, 2, 3};
constexpr std::array<wqe::data, 4> four{{piece, piece, piece, piece}};
constexpr wqe::pieces four_pieces{four.data(), 4};

TEST(work_queue, nothing_is_told_before_the_doorbell_rings_and_then_once_for_all)
{
	queue_in_memory q;

	for (std::uint16_t i = 0; i < 3; i++)
		EXPECT_EQ(q.wq.post(wqe::send{piece}).index, i);
	EXPECT_EQ(q.record(), 0u);
	EXPECT_EQ(q.doorbell, 0u);
	q.wq.ring();
	EXPECT_EQ(q.record(), 3u);
	std::uint64_t last;
	std::memcpy(&last, q.wq.ctrl_of(2), sizeof(last));
	EXPECT_EQ(q.doorbell, last);
	EXPECT_EQ(be64toh(last), std::uint64_t{2 << 8 | MLX5_OPCODE_SEND} << 32 | 0x12345602);
}

TEST(work_queue, the_doorbell_stays_silent_without_news)
{
	queue_in_memory q;

	q.wq.ring();
	EXPECT_EQ(q.doorbell, 0u);
	ASSERT_TRUE(q.wq.post(wqe::nop{}));
	q.wq.ring();
	q.doorbell = 0;
	q.wq.ring();
	EXPECT_EQ(q.doorbell, 0u);
}

TEST(work_queue, it_is_full_when_no_block_is_free_and_goes_on_when_one_is_completed)
{
	queue_in_memory q;

	for (std::uint32_t i = 0; i < q.count; i++) {
		EXPECT_EQ(q.wq.room(), q.count - i);
		ASSERT_TRUE(q.wq.post(wqe::send{piece}));
	}
	const auto before = q.blocks;
	EXPECT_EQ(q.wq.post(wqe::send{piece}).what, posted::full);
	EXPECT_EQ(q.blocks, before);
	q.wq.ring();
	EXPECT_TRUE(q.wq.completed(2));
	EXPECT_EQ(q.wq.room(), 3u);
	EXPECT_EQ(q.wq.post(wqe::send{piece}).index, 8);
	EXPECT_EQ(q.wq.ctrl_of(8), q.wq.ctrl_of(0));
}

TEST(work_queue, a_wqe_of_several_blocks_needs_room_for_all_of_them_and_frees_all_of_them)
{
	queue_in_memory q;

	ASSERT_TRUE(q.wq.post(wqe::register_list(1, 0, four_pieces))); // 3 blocks
	ASSERT_TRUE(q.wq.post(wqe::register_list(1, 0, four_pieces)));
	EXPECT_EQ(q.wq.room(), 2u);
	EXPECT_EQ(q.wq.post(wqe::register_list(1, 0, four_pieces)).what, posted::full);
	q.wq.ring();
	EXPECT_EQ(q.record(), 6u);
	EXPECT_TRUE(q.wq.completed(0));
	EXPECT_EQ(q.wq.room(), 5u);
	// From block 6 through the ring's end to its beginning.
	EXPECT_EQ(q.wq.post(wqe::register_list(1, 0, four_pieces)).index, 6);
	EXPECT_EQ(q.blocks[0] | q.blocks[1] | q.blocks[2], 0); // its third block begins with a byte count
	EXPECT_EQ(q.blocks[3], 2);
	q.wq.ring();
	EXPECT_EQ(q.record(), 9u);
}

TEST(work_queue, a_completion_of_something_else_is_none)
{
	queue_in_memory q;

	EXPECT_FALSE(q.wq.completed(0));
	ASSERT_TRUE(q.wq.post(wqe::nop{}));
	EXPECT_FALSE(q.wq.completed(0)); // the device does not know of it
	q.wq.ring();
	EXPECT_FALSE(q.wq.completed(1));
	EXPECT_TRUE(q.wq.completed(0));
	EXPECT_FALSE(q.wq.completed(0));
	EXPECT_EQ(q.wq.room(), q.count);
}

TEST(work_queue, indices_go_on_through_the_end_of_sixteen_bits)
{
	queue_in_memory q(0xfffd);

	for (int i = 0; i < 30; i++) {
		const auto p = q.wq.post(wqe::send{piece});
		ASSERT_TRUE(p);
		EXPECT_EQ(p.index, static_cast<std::uint16_t>(0xfffd + i));
		q.wq.ring();
		EXPECT_EQ(q.record(), (0xfffdu + i + 1) & 0xffff);
		ASSERT_TRUE(q.wq.completed(p.index));
		EXPECT_EQ(q.wq.room(), q.count);
	}
}

TEST(work_queue, the_full_ring_is_full_after_any_number_of_requests)
{
	queue_in_memory q;

	for (std::uint32_t total = 0; total < 70000; total += q.count) {
		for (std::uint32_t i = 0; i < q.count; i++)
			ASSERT_TRUE(q.wq.post(wqe::nop{}));
		ASSERT_EQ(q.wq.post(wqe::nop{}).what, posted::full);
		q.wq.ring();
		ASSERT_TRUE(q.wq.completed(static_cast<std::uint16_t>(total + q.count - 1)));
	}
}

TEST(work_queue, what_cannot_be_said_is_refused_and_leaves_no_trace)
{
	queue_in_memory q;
	const auto before = q.blocks;
	const std::vector<wqe::data> many(62, piece);

	EXPECT_EQ(q.wq.post(wqe::copy({1, 2}, {3, 4}, 0, {5, 6})).what, posted::refused);
	// Longer than the whole ring, at 32 + 1 units.
	EXPECT_EQ(q.wq.post(wqe::send{wqe::pieces{many.data(), 32}}).what, posted::refused);
	const wqe::ctrl_seg empty{};
	EXPECT_EQ(q.wq.post_raw(&empty).what, posted::refused);
	EXPECT_EQ(q.blocks, before);
	EXPECT_EQ(q.wq.room(), q.count);
	EXPECT_EQ(q.wq.post(wqe::nop{}).index, 0);
}

TEST(work_queue, the_request_behind_an_umr_waits_for_it)
{
	queue_in_memory q;

	const auto umr = q.wq.post(wqe::register_list(1, 0, four_pieces), wqe::signaled);
	const auto behind = q.wq.post(wqe::send{piece});
	const auto later = q.wq.post(wqe::send{piece});
	EXPECT_EQ(q.flags_of(umr.index), wqe::signaled);
	EXPECT_EQ(q.flags_of(behind.index), wqe::small_fence);
	EXPECT_EQ(q.flags_of(later.index), 0);
	const auto inval = q.wq.post(wqe::local_inval{1});
	EXPECT_EQ(q.flags_of(inval.index), 0);
	q.wq.ring(); // it outlives the doorbell
	q.wq.all_completed();
	EXPECT_EQ(q.flags_of(q.wq.post(wqe::send{piece}, wqe::solicited).index), wqe::small_fence | wqe::solicited);
}

TEST(work_queue, the_strong_fence_replaces_the_small_one)
{
	queue_in_memory q;

	ASSERT_TRUE(q.wq.post(wqe::local_inval{1}));
	EXPECT_EQ(q.flags_of(q.wq.post(wqe::send{piece}, wqe::strong_fence).index), wqe::strong_fence);
	EXPECT_EQ(q.flags_of(q.wq.post(wqe::send{piece}).index), 0);
}

TEST(work_queue, what_is_dropped_was_never_there)
{
	queue_in_memory q;

	ASSERT_TRUE(q.wq.post(wqe::send{piece}));
	q.wq.ring();
	ASSERT_TRUE(q.wq.post(wqe::local_inval{1}));
	q.wq.drop();
	const auto p = q.wq.post(wqe::send{piece});
	EXPECT_EQ(p.index, 1);
	EXPECT_EQ(q.flags_of(p.index), 0);
	EXPECT_EQ(q.wq.room(), q.count - 2);
}

TEST(work_queue, a_raw_wqe_gets_the_index_of_its_slot_and_no_fence)
{
	queue_in_memory q;
	std::array<wqe::ctrl_seg, 6> raw{};

	raw[0].opmod_index_opcode = 0x01ffff2f;
	raw[0].qpn_units = 0x12345606;
	raw[5].imm = 77;
	ASSERT_TRUE(q.wq.post(wqe::local_inval{1}));
	const auto p = q.wq.post_raw(raw.data());
	ASSERT_TRUE(p);
	EXPECT_EQ(q.wq.ctrl_of(p.index)->opmod_index_opcode.host(), 0x0100022fu);
	EXPECT_EQ(q.flags_of(p.index), 0);
	EXPECT_EQ(q.wq.room(), q.count - 4);
	EXPECT_EQ(q.wq.ctrl_of(3)[1].imm.host(), 77u);
	raw[0].qpn_units = 0x1234563f;
	EXPECT_EQ(q.wq.post_raw(raw.data()).what, posted::refused); // 16 blocks
	raw[0].qpn_units = 0x12345614;
	EXPECT_EQ(q.wq.post_raw(raw.data()).what, posted::full); // 5 blocks
}

TEST(work_queue, behind_a_raw_wqe_a_request_has_the_fence_that_the_raw_one_had_not)
{
	queue_in_memory q;
	std::array<wqe::ctrl_seg, 1> raw{};
	const auto after_raw = [&](wqe::opcode op, std::uint32_t flags) {
		raw[0].opmod_index_opcode = op;
		raw[0].qpn_units = 0x12345601;
		raw[0].signature_stream_fm_ce_se = flags;
		EXPECT_TRUE(q.wq.post_raw(raw.data()));
		const auto behind = q.wq.post(wqe::nop{});
		EXPECT_TRUE(behind);
		q.wq.ring();
		q.wq.all_completed();
		return q.flags_of(behind.index);
	};

	EXPECT_EQ(after_raw(wqe::op_nop, 0), 0);
	EXPECT_EQ(after_raw(wqe::op_umr, 0), wqe::small_fence);
	for (std::uint32_t fence : {0u, std::uint32_t{wqe::small_fence}, std::uint32_t{wqe::strong_fence}}) {
		ASSERT_TRUE(q.wq.post(wqe::local_inval{1}));
		EXPECT_EQ(after_raw(wqe::op_nop, fence | wqe::signaled), fence ? 0 : wqe::small_fence) << fence;
	}
}

TEST(work_queue, it_begins_anew_with_its_doorbell_record)
{
	queue_in_memory q;

	ASSERT_TRUE(q.wq.post(wqe::local_inval{1}));
	q.wq.ring();
	q.records[1] = 0; // what a transition to RESET does
	q.wq.restart();
	const auto p = q.wq.post(wqe::send{piece});
	EXPECT_EQ(p.index, 0);
	EXPECT_EQ(q.flags_of(0), 0);
	EXPECT_EQ(q.wq.room(), q.count - 1);
}

} // namespace
