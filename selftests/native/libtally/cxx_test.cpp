// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The C++ API.
#include "fake_kernel.hpp"

#include <gtest/gtest.h>
#include <tally/comp_cntr.hpp>
#include <type_traits>

namespace {

using namespace std::chrono_literals;
using tally::test::fake_kernel;

static_assert(!std::is_copy_constructible_v<tally::comp_cntr>);
static_assert(std::is_nothrow_move_constructible_v<tally::comp_cntr>);
static_assert(!std::is_copy_constructible_v<tally::comp_cntr_group>);
static_assert(std::is_nothrow_move_constructible_v<tally::comp_cntr_group>);

TEST(result, holds_a_value_or_an_error)
{
	const tally::result<int> good = 5;
	EXPECT_TRUE(good);
	EXPECT_EQ(*good, 5);
	EXPECT_EQ(good.value(), 5);
	EXPECT_EQ(good.value_or(6), 5);
	EXPECT_FALSE(good.error());

	const tally::result<int> bad = tally::error_of(EBUSY);
	EXPECT_FALSE(bad);
	EXPECT_EQ(bad.error(), std::errc::device_or_resource_busy);
	EXPECT_EQ(bad.value_or(6), 6);
	EXPECT_THROW((void)bad.value(), std::system_error);
}

TEST(result, of_void_is_success_or_an_error)
{
	const tally::result<void> good;
	EXPECT_TRUE(good);
	EXPECT_NO_THROW(good.value());
	const tally::result<void> bad = tally::error_of(ENOTSUP);
	EXPECT_FALSE(bad);
	EXPECT_EQ(bad.error(), std::errc::not_supported);
	EXPECT_THROW(bad.value(), std::system_error);
}

TEST(cxx_counter, lives_as_long_as_its_owner)
{
	fake_kernel kernel;
	{
		auto cntr = tally::comp_cntr::create(*kernel.context());
		ASSERT_TRUE(cntr);
		EXPECT_EQ(kernel.alive.size(), 1u);
		auto moved = std::move(*cntr);
		EXPECT_EQ(kernel.alive.size(), 1u);
		EXPECT_EQ(*moved.read(), 0u);
		auto other = tally::comp_cntr::create(*kernel.context()).value();
		EXPECT_EQ(kernel.alive.size(), 2u);
		moved = std::move(other);
		EXPECT_EQ(kernel.alive.size(), 1u);
	}
	EXPECT_TRUE(kernel.alive.empty());
}

TEST(cxx_counter, tells_why_there_is_none)
{
	fake_kernel kernel;
	kernel.counters = false;
	EXPECT_EQ(tally::comp_cntr::create(*kernel.context()).error(), std::errc::not_supported);
	EXPECT_EQ(tally::query_comp_cntr_caps(*kernel.context()).error(), std::errc::not_supported);
}

TEST(cxx_counter, tells_what_a_device_can_count)
{
	fake_kernel kernel;
	kernel.ops = std::uint32_t{IBV_QP_ATTACH_COMP_CNTR_OP_SEND} | TALLY_QP_ATTACH_COMP_CNTR_OP_UMR;
	const auto caps = tally::query_comp_cntr_caps(*kernel.context()).value();
	EXPECT_EQ(caps.ops, tally::op::send | tally::op::umr);
	EXPECT_EQ(caps.ops & tally::op::recv, tally::op::none);
	EXPECT_EQ(caps.max_counters, kernel.max_counters);
}

TEST(cxx_counter, counts_and_waits)
{
	fake_kernel kernel;
	auto cntr = tally::comp_cntr::create(*kernel.context(), tally::counts::bytes).value();
	EXPECT_EQ(kernel.alive.begin()->second.type, TALLY_COMP_CNTR_TYPE_BYTES);
	EXPECT_TRUE(cntr.set(5));
	EXPECT_TRUE(cntr.inc());
	EXPECT_TRUE(cntr.set_err(2));
	EXPECT_TRUE(cntr.inc_err(3));
	EXPECT_EQ(*cntr.read(), 6u);
	EXPECT_EQ(*cntr.read_err(), 5u);

	EXPECT_TRUE(cntr.wait(6));
	EXPECT_EQ(cntr.wait(7, {.timeout = 3us, .err_seen = 5}).error(), std::errc::timed_out);
	EXPECT_EQ(kernel.waited_timeout, 3000u);
	EXPECT_EQ(kernel.waited_targets[0].err_seen, 5u);
	EXPECT_EQ(cntr.wait(7).error(), std::errc::timed_out);
	EXPECT_EQ(kernel.waited_timeout, TALLY_COMP_CNTR_WAIT_FOREVER);
	EXPECT_EQ(cntr.wait(7, {.timeout = -1s}).error(), std::errc::timed_out);
	EXPECT_EQ(kernel.waited_timeout, 0u) << "a time that is over only looks";
	kernel.wait_answer = EIO;
	EXPECT_EQ(cntr.wait(7).error(), std::errc::io_error);

	EXPECT_TRUE(cntr.notify(4, 9));
	EXPECT_TRUE(cntr.notify(4, 9, 1));
	ASSERT_EQ(kernel.notifications.size(), 2u);
	EXPECT_FALSE(kernel.notifications[0].err_seen);
	EXPECT_EQ(kernel.notifications[1].err_seen, 1u);
}

TEST(cxx_counter, that_is_busy_stays_owned)
{
	fake_kernel kernel;
	auto qp = kernel.make_qp(8);
	auto cntr = tally::comp_cntr::create(*kernel.context()).value();
	ASSERT_TRUE(cntr.attach(qp, tally::op::send | tally::op::recv));
	EXPECT_EQ(cntr.attach(qp, tally::op::send).error(), std::errc::device_or_resource_busy);
	EXPECT_EQ(cntr.destroy().error(), std::errc::device_or_resource_busy);
	EXPECT_NE(cntr.get(), nullptr);
	kernel.destroy_qp(8);
	EXPECT_TRUE(cntr.destroy());
	EXPECT_EQ(cntr.get(), nullptr);
	EXPECT_TRUE(cntr.destroy()) << "once is enough";
}

TEST(cxx_counter, can_live_in_words_of_the_caller)
{
	fake_kernel kernel;
	std::uint64_t comp = 1, err = 1;
	auto cntr = tally::comp_cntr::create_at(*kernel.context(), comp, err).value();
	EXPECT_TRUE(cntr.inc(4));
	EXPECT_EQ(comp, 4u);
	EXPECT_EQ(err, 0u);
	EXPECT_EQ(cntr.words()->comp, &comp);

	const auto in_dmabuf =
		tally::comp_cntr::create_at(*kernel.context(), tally::dmabuf_memory{.fd = 3, .offset = 8},
					    tally::dmabuf_memory{.fd = 3, .offset = 16});
	ASSERT_TRUE(in_dmabuf);
	EXPECT_EQ(in_dmabuf->words().error(), std::errc::not_supported);
}

TEST(cxx_counter, several_are_waited_for_together)
{
	fake_kernel kernel;
	auto a = tally::comp_cntr::create(*kernel.context()).value();
	auto b = tally::comp_cntr::create(*kernel.context()).value();
	const std::array<tally::comp_cntr_ref, 2> both{a, b};
	const std::array<tally::wait_target, 2> targets{{{.value = 1}, {.value = 2}}};
	EXPECT_EQ(tally::wait_all(both, targets, 1ms).error(), std::errc::timed_out);
	EXPECT_TRUE(b.set(2));
	EXPECT_EQ(*tally::wait_any(both, targets, 1ms), 1u);
	EXPECT_EQ(tally::wait_all(both, targets, 1ms).error(), std::errc::timed_out);
	EXPECT_TRUE(a.set(1));
	EXPECT_TRUE(tally::wait_all(both, targets));
	EXPECT_EQ(tally::wait_all(both, std::span{targets}.first(1)).error(), std::errc::invalid_argument);
}

TEST(cxx_group, is_read_and_waited_for_as_one)
{
	fake_kernel kernel;
	{
		auto group = tally::comp_cntr_group::create(*kernel.context(), 4, {.stride = 64}).value();
		EXPECT_EQ(group.size(), 4u);
		EXPECT_TRUE(group[2].set(5));
		std::array<tally_comp_cntr_value, 2> values{};
		EXPECT_TRUE(group.read(values, 2));
		EXPECT_EQ(values[0].comp, 5u);
		EXPECT_EQ(group.read(values, 3).error(), std::errc::invalid_argument);

		const std::array<tally::wait_target, 2> targets{{{.value = 1}, {.value = 5}}};
		EXPECT_EQ(*group.wait_any(targets, 0ns, 1), 2u) << "a place in the group";
		EXPECT_EQ(group.wait_all(targets, 0ns, 1).error(), std::errc::timed_out);
		EXPECT_TRUE(group[1].inc());
		EXPECT_TRUE(group.wait_all(targets, 0ns, 1));
		const std::vector<tally::wait_target> many(TALLY_COMP_CNTR_WAIT_MAX + 1);
		EXPECT_EQ(group.wait_all(many).error(), std::errc::invalid_argument);
	}
	EXPECT_TRUE(kernel.alive.empty());
}

TEST(cxx_group, can_live_in_an_array_of_the_caller)
{
	fake_kernel kernel;
	std::array<tally_comp_cntr_value, 3> memory{};
	auto group = tally::comp_cntr_group::create(*kernel.context(), memory).value();
	EXPECT_EQ(group.size(), 3u);
	EXPECT_TRUE(group[1].inc(7));
	EXPECT_EQ(memory[1].comp, 7u);
	EXPECT_TRUE(group.destroy());
	EXPECT_TRUE(kernel.alive.empty());
}

TEST(cxx_group, tells_why_there_is_none)
{
	fake_kernel kernel;
	EXPECT_EQ(tally::comp_cntr_group::create(*kernel.context(), 0).error(), std::errc::invalid_argument);
}

} // namespace
