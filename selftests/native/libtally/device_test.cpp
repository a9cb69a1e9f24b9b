// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the library finds out about a device.
#include "device_facts.hpp"
#include "fake_kernel.hpp"

#include <gtest/gtest.h>

namespace {

using tally::test::fake_kernel;

TEST(device, caps_are_those_of_the_kernel)
{
	fake_kernel kernel;
	kernel.max_counters = 12;
	kernel.ops = 0xf003f;
	ibv_comp_cntr_caps caps{};
	ASSERT_EQ(ibv_query_comp_cntr_caps(kernel.context(), &caps), 0);
	EXPECT_EQ(caps.max_counters, 12u);
	EXPECT_EQ(caps.max_value, UINT64_MAX);
	EXPECT_EQ(caps.supported_qp_attach_ops, 0xf003fu);
	EXPECT_EQ(kernel.cmd_fd, 1234);
}

TEST(device, a_kernel_without_counters_is_ENOTSUP_and_zeros)
{
	fake_kernel kernel;
	kernel.counters = false;
	ibv_comp_cntr_caps caps{1, 2, 3};
	EXPECT_EQ(ibv_query_comp_cntr_caps(kernel.context(), &caps), ENOTSUP);
	EXPECT_EQ(caps.max_value + caps.max_counters + caps.supported_qp_attach_ops, 0u);
}

class refusals : public testing::TestWithParam<int> {};

TEST_P(refusals, are_all_ENOTSUP)
{
	fake_kernel kernel;
	kernel.failures[{tally::test::device_object, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS}] = GetParam();
	ibv_comp_cntr_caps caps{};
	EXPECT_EQ(ibv_query_comp_cntr_caps(kernel.context(), &caps), ENOTSUP);

	ibv_comp_cntr_init_attr attr{};
	errno = 0;
	EXPECT_EQ(ibv_create_comp_cntr(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, ENOTSUP);
}

INSTANTIATE_TEST_SUITE_P(device, refusals, testing::Values(EPROTONOSUPPORT, EOPNOTSUPP, ENOTTY, EINVAL));

TEST(device, other_errors_are_told_as_they_are)
{
	fake_kernel kernel;
	kernel.failures[{tally::test::device_object, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS}] = EIO;
	ibv_comp_cntr_caps caps{};
	EXPECT_EQ(ibv_query_comp_cntr_caps(kernel.context(), &caps), EIO);
}

class drivers : public testing::TestWithParam<std::uint32_t> {};

TEST_P(drivers, are_found_by_trying)
{
	fake_kernel kernel;
	kernel.driver_id = GetParam();
	std::shared_ptr<const tally::device_facts> facts;
	ASSERT_EQ(tally::facts_of(kernel.context(), facts), 0);
	EXPECT_EQ(facts->endpoint.driver_id, GetParam());
	EXPECT_TRUE(facts->extensions);
}

INSTANTIATE_TEST_SUITE_P(device, drivers, testing::Values(0u, 1u, 2u, 14u, 17u, 19u, 63u));

TEST(device, facts_are_remembered_while_someone_holds_them)
{
	fake_kernel kernel;
	std::shared_ptr<const tally::device_facts> first, second;
	ASSERT_EQ(tally::facts_of(kernel.context(), first), 0);
	const auto asked = kernel.commands.size();
	ASSERT_EQ(tally::facts_of(kernel.context(), second), 0);
	EXPECT_EQ(kernel.commands.size(), asked);
	EXPECT_EQ(first, second);
}

TEST(device, facts_of_a_closed_context_do_not_stick_to_its_address)
{
	fake_kernel kernel;
	std::shared_ptr<const tally::device_facts> before, after;
	ASSERT_EQ(tally::facts_of(kernel.context(), before), 0);
	kernel.context()->cmd_fd = 99; // as if closed, and another one opened at the same place
	kernel.extensions = false;
	ASSERT_EQ(tally::facts_of(kernel.context(), after), 0);
	EXPECT_TRUE(before->extensions);
	EXPECT_FALSE(after->extensions);
	EXPECT_EQ(after->endpoint.cmd_fd, 99);
}

TEST(device, only_known_drivers_are_given_buffers)
{
	struct {
		std::uint32_t driver;
		bool extensions, buffers;
	} const cases[] = {{1, true, true}, {1, false, false}, {17 /* EFA */, false, true}, {12, false, false}};
	for (const auto &c : cases) {
		fake_kernel kernel;
		kernel.driver_id = c.driver;
		kernel.extensions = c.extensions;
		std::shared_ptr<const tally::device_facts> facts;
		ASSERT_EQ(tally::facts_of(kernel.context(), facts), 0);
		EXPECT_EQ(facts->buffers, c.buffers) << "driver " << c.driver;
		EXPECT_EQ(facts->extensions, c.extensions) << "driver " << c.driver;
	}
}

} // namespace
