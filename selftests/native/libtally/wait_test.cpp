// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Waits and notifications.
#include "fake_kernel.hpp"

#include <array>
#include <gtest/gtest.h>
#include <vector>

namespace {

using tally::test::counter_object;
using tally::test::fake_kernel;

class waits : public testing::Test {
    protected:
	waits()
	{
		for (auto &cntr : cntrs) {
			ibv_comp_cntr_init_attr attr{};
			cntr = ibv_create_comp_cntr(kernel.context(), &attr);
		}
		kernel.commands.clear();
	}
	~waits() override
	{
		for (auto *cntr : cntrs)
			EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	}

	std::size_t slept() const { return kernel.calls(counter_object, TALLY_METHOD_COMP_CNTR_WAIT); }
	void count(std::size_t i, std::uint64_t value) { *kernel.alive.at(cntrs[i]->handle).comp = value; }

	fake_kernel kernel;
	std::array<ibv_comp_cntr *, 3> cntrs;
	std::uint32_t index = 77;
};

TEST_F(waits, a_reached_target_needs_no_kernel)
{
	count(0, 5);
	EXPECT_EQ(tally_wait_comp_cntr(cntrs[0], 5, 0, TALLY_COMP_CNTR_WAIT_FOREVER), 0);
	EXPECT_EQ(tally_wait_comp_cntr(cntrs[0], 3, 0, 0), 0);
	EXPECT_EQ(slept(), 0u);
}

TEST_F(waits, targets_wrap)
{
	count(0, 2);
	EXPECT_EQ(tally_wait_comp_cntr(cntrs[0], UINT64_MAX - 5, 0, 0), 0) << "behind, across the wrap";
	count(0, UINT64_MAX);
	EXPECT_EQ(tally_wait_comp_cntr(cntrs[0], 1, 0, 0), ETIMEDOUT) << "ahead, across the wrap";
	EXPECT_TRUE(tally_comp_cntr_reached(0, 0));
	EXPECT_TRUE(tally_comp_cntr_reached((UINT64_C(1) << 63) - 1, 0));
	EXPECT_FALSE(tally_comp_cntr_reached(UINT64_C(1) << 63, 0));
	EXPECT_FALSE(tally_comp_cntr_reached(UINT64_MAX, 0));
}

TEST_F(waits, the_kernel_is_told_everything)
{
	count(1, 1);
	EXPECT_EQ(tally_wait_comp_cntr(cntrs[1], 4, 9, 1'000'000), ETIMEDOUT);
	EXPECT_EQ(kernel.waited_handles, std::vector{cntrs[1]->handle});
	ASSERT_EQ(kernel.waited_targets.size(), 1u);
	EXPECT_EQ(kernel.waited_targets[0].value, 4u);
	EXPECT_EQ(kernel.waited_targets[0].err_seen, 9u);
	EXPECT_EQ(kernel.waited_timeout, 1'000'000u);
	EXPECT_EQ(kernel.waited_flags, 0u);
}

TEST_F(waits, what_ended_a_sleep_is_told)
{
	for (const int err : {0, EIO, ETIMEDOUT, EINTR, ENODEV}) {
		kernel.wait_answer = err;
		EXPECT_EQ(tally_wait_comp_cntr(cntrs[0], 1, 0, 5), err);
	}
}

TEST_F(waits, all_targets_have_to_be_reached)
{
	const std::array<tally_comp_cntr_target, 3> targets{{{1, 0}, {2, 0}, {3, 0}}};
	count(0, 1);
	count(1, 2);
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 3, 0, 7, &index), ETIMEDOUT);
	EXPECT_EQ(slept(), 1u);
	EXPECT_EQ(kernel.waited_handles, (std::vector{cntrs[0]->handle, cntrs[1]->handle, cntrs[2]->handle}));
	EXPECT_EQ(index, 77u) << "nothing ended the wait";
	count(2, 3);
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 3, 0, 7, &index), 0);
	EXPECT_EQ(slept(), 1u);
}

TEST_F(waits, any_target_may_be_reached)
{
	const std::array<tally_comp_cntr_target, 3> targets{{{1, 0}, {2, 0}, {3, 0}}};
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 3, TALLY_COMP_CNTR_WAIT_ANY, 7, &index),
		  ETIMEDOUT);
	EXPECT_EQ(kernel.waited_flags, std::uint32_t{TALLY_COMP_CNTR_WAIT_ANY});
	count(1, 2);
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 3, TALLY_COMP_CNTR_WAIT_ANY, 7, &index), 0);
	EXPECT_EQ(index, 1u);
	EXPECT_EQ(slept(), 1u);
}

TEST_F(waits, the_kernel_says_which_counter_ended_the_wait)
{
	const std::array<tally_comp_cntr_target, 3> targets{{{1, 0}, {2, 0}, {3, 0}}};
	for (const int answer : {0, EIO}) {
		kernel.wait_answer = answer;
		kernel.wait_index = answer ? 2 : 1;
		EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 3, TALLY_COMP_CNTR_WAIT_ANY, 7, &index),
			  answer);
		EXPECT_EQ(index, kernel.wait_index);
	}
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 3, TALLY_COMP_CNTR_WAIT_ANY, 7, nullptr), EIO);
}

// The commands of a device that was there and is not end with EIO before anybody looks at the counters.
TEST_F(waits, a_device_that_has_gone_is_ENODEV_and_no_moved_error_count)
{
	const std::array<tally_comp_cntr_target, 2> targets{{{1, 0}, {2, 0}}};
	kernel.failures[{UVERBS_OBJECT_COMP_CNTR, TALLY_METHOD_COMP_CNTR_WAIT}] = EIO;
	kernel.failures[{UVERBS_OBJECT_COMP_CNTR, TALLY_METHOD_COMP_CNTR_NOTIFY}] = EIO;
	EXPECT_EQ(tally_wait_comp_cntr(cntrs[0], 1, 0, 5), ENODEV);
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 2, TALLY_COMP_CNTR_WAIT_ANY, 7, &index), ENODEV);
	EXPECT_EQ(index, 77u) << "no counter ended the wait";
	EXPECT_EQ(tally_notify_comp_cntr(cntrs[0], 1, nullptr, 0), ENODEV);
	count(0, 1);
	EXPECT_EQ(tally_wait_comp_cntr(cntrs[0], 1, 0, 5), 0) << "what was counted can be seen";
}

TEST_F(waits, what_makes_no_sense_is_EINVAL)
{
	const std::vector<tally_comp_cntr_target> targets(TALLY_COMP_CNTR_WAIT_MAX + 1);
	const std::vector<ibv_comp_cntr *> many(TALLY_COMP_CNTR_WAIT_MAX + 1, cntrs[0]);
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 0, 0, 0, nullptr), EINVAL);
	EXPECT_EQ(tally_wait_comp_cntrs(many.data(), targets.data(), TALLY_COMP_CNTR_WAIT_MAX + 1, 0, 0, nullptr),
		  EINVAL);
	EXPECT_EQ(tally_wait_comp_cntrs(many.data(), targets.data(), 2, 0, 0, nullptr), EINVAL) << "the same one twice";
	EXPECT_EQ(tally_wait_comp_cntrs(cntrs.data(), targets.data(), 1, 2, 0, nullptr), EINVAL) << "unknown flag";
	EXPECT_EQ(slept(), 0u);
}

TEST_F(waits, counters_of_two_contexts_are_EINVAL)
{
	auto second = *kernel.context();
	ibv_comp_cntr_init_attr attr{};
	auto *other = ibv_create_comp_cntr(&second, &attr);
	ASSERT_NE(other, nullptr);
	const std::array<ibv_comp_cntr *, 2> mixed{cntrs[0], other};
	const std::array<tally_comp_cntr_target, 2> targets{};
	EXPECT_EQ(tally_wait_comp_cntrs(mixed.data(), targets.data(), 2, 0, 0, nullptr), EINVAL);
	EXPECT_EQ(ibv_destroy_comp_cntr(other), 0);
}

TEST_F(waits, notifications_reach_the_kernel)
{
	const std::uint64_t seen = 3;
	EXPECT_EQ(tally_notify_comp_cntr(cntrs[2], 10, nullptr, 55), 0);
	EXPECT_EQ(tally_notify_comp_cntr(cntrs[2], 11, &seen, 56), 0);
	ASSERT_EQ(kernel.notifications.size(), 2u);
	EXPECT_EQ(kernel.notifications[0].handle, cntrs[2]->handle);
	EXPECT_EQ(kernel.notifications[0].target, 10u);
	EXPECT_EQ(kernel.notifications[0].fd, 55);
	EXPECT_FALSE(kernel.notifications[0].err_seen);
	EXPECT_EQ(kernel.notifications[1].err_seen, seen);
	EXPECT_EQ(tally_notify_comp_cntr(cntrs[2], 10, nullptr, -1), EBADF);
}

TEST(waits_without_extensions, are_ENOTSUP)
{
	fake_kernel kernel;
	kernel.extensions = false;
	ibv_comp_cntr_init_attr attr{};
	auto *cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(tally_wait_comp_cntr(cntr, 0, 0, 0), ENOTSUP);
	EXPECT_EQ(tally_notify_comp_cntr(cntr, 0, nullptr, 1), ENOTSUP);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

} // namespace
