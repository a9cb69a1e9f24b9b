// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Groups of counters.
#include "fake_kernel.hpp"

#include <array>
#include <gtest/gtest.h>
#include <vector>

namespace {

using tally::test::counter_object;
using tally::test::fake_kernel;

tally_comp_cntr_group_attr of(std::uint32_t num, std::uint32_t stride = 0)
{
	tally_comp_cntr_group_attr attr{};
	attr.num = num;
	attr.stride = stride;
	return attr;
}

class groups : public testing::Test {
    protected:
	tally_comp_cntr_group *create(const tally_comp_cntr_group_attr &attr)
	{
		errno = 0;
		return tally_create_comp_cntr_group(kernel.context(), &attr);
	}

	void refused(const tally_comp_cntr_group_attr &attr, int why)
	{
		EXPECT_EQ(create(attr), nullptr);
		EXPECT_EQ(errno, why);
		EXPECT_TRUE(kernel.alive.empty());
	}

	fake_kernel kernel;
};

TEST_F(groups, lie_side_by_side)
{
	auto *group = create(of(5));
	ASSERT_NE(group, nullptr);
	EXPECT_EQ(tally_comp_cntr_group_size(group), 5u);
	std::uint32_t stride = 0;
	const auto *words = tally_comp_cntr_group_words(group, &stride);
	ASSERT_NE(words, nullptr);
	EXPECT_EQ(stride, 16u);
	for (std::uint32_t i = 0; i < 5; ++i) {
		auto *cntr = tally_comp_cntr_group_at(group, i);
		ASSERT_NE(cntr, nullptr);
		EXPECT_EQ(ibv_set_comp_cntr(cntr, 10 + i), 0);
		EXPECT_EQ(ibv_set_err_comp_cntr(cntr, 20 + i), 0);
		EXPECT_EQ(words[i].comp, 10 + i);
		EXPECT_EQ(words[i].err, 20 + i);
	}
	EXPECT_EQ(tally_comp_cntr_group_at(group, 5), nullptr);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
	EXPECT_TRUE(kernel.alive.empty());
}

TEST_F(groups, are_read_in_one_pass_without_the_kernel)
{
	auto *group = create(of(8, 64));
	ASSERT_NE(group, nullptr);
	for (std::uint32_t i = 0; i < 8; ++i)
		EXPECT_EQ(ibv_set_comp_cntr(tally_comp_cntr_group_at(group, i), i * i), 0);
	const auto asked = kernel.commands.size();
	std::array<tally_comp_cntr_value, 3> values{};
	EXPECT_EQ(tally_read_comp_cntr_group(group, 4, 3, values.data()), 0);
	EXPECT_EQ(values[0].comp, 16u);
	EXPECT_EQ(values[2].comp, 36u);
	EXPECT_EQ(values[2].err, 0u);
	EXPECT_EQ(kernel.commands.size(), asked);

	EXPECT_EQ(tally_read_comp_cntr_group(group, 6, 3, values.data()), EINVAL);
	EXPECT_EQ(tally_read_comp_cntr_group(group, 9, 0, values.data()), EINVAL);
	EXPECT_EQ(tally_read_comp_cntr_group(group, UINT32_MAX, 2, values.data()), EINVAL);
	EXPECT_EQ(tally_read_comp_cntr_group(group, 8, 0, values.data()), 0);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

TEST_F(groups, may_live_in_memory_of_the_caller)
{
	std::array<std::uint64_t, 12> memory;
	memory.fill(9);
	auto attr = of(3, 32);
	attr.memory.type = TALLY_MEMORY_VA;
	attr.memory.addr = memory.data();
	auto *group = create(attr);
	ASSERT_NE(group, nullptr);
	EXPECT_EQ(ibv_inc_comp_cntr(tally_comp_cntr_group_at(group, 2), 5), 0);
	EXPECT_EQ(ibv_inc_err_comp_cntr(tally_comp_cntr_group_at(group, 1), 6), 0);
	EXPECT_EQ(memory, (std::array<std::uint64_t, 12>{0, 0, 9, 9, 0, 6, 9, 9, 5, 0, 9, 9}));
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

TEST_F(groups, may_live_in_a_dmabuf_that_is_not_mapped)
{
	auto attr = of(2);
	attr.memory.type = TALLY_MEMORY_DMABUF;
	attr.memory.fd = 12;
	attr.memory.offset = 4096;
	auto *group = create(attr);
	ASSERT_NE(group, nullptr);
	EXPECT_EQ(tally_comp_cntr_group_words(group, nullptr), nullptr);
	const auto &second = kernel.alive.at(tally_comp_cntr_group_at(group, 1)->handle);
	ASSERT_TRUE(second.buffers);
	EXPECT_EQ((*second.buffers)[0].addr, 4112u);
	EXPECT_EQ((*second.buffers)[1].addr, 4120u);
	EXPECT_EQ((*second.buffers)[1].fd, 12);

	EXPECT_EQ(ibv_set_comp_cntr(tally_comp_cntr_group_at(group, 1), 4), 0);
	std::array<tally_comp_cntr_value, 2> values{};
	EXPECT_EQ(tally_read_comp_cntr_group(group, 0, 2, values.data()), 0);
	EXPECT_EQ(values[1].comp, 4u);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

TEST_F(groups, of_bytes_count_bytes)
{
	auto attr = of(2);
	attr.type = IBV_COMP_CNTR_TYPE_BYTES;
	auto *group = create(attr);
	ASSERT_NE(group, nullptr);
	for (const auto &[handle, cntr] : kernel.alive)
		EXPECT_EQ(cntr.type, TALLY_COMP_CNTR_TYPE_BYTES);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

TEST_F(groups, that_make_no_sense_are_EINVAL)
{
	refused(of(0), EINVAL);
	refused(of(2, 8), EINVAL);
	refused(of(2, 20), EINVAL);
	auto attr = of(2);
	attr.flags = 1;
	refused(attr, EINVAL);
	attr = of(2);
	attr.comp_mask = 1;
	refused(attr, EINVAL);
	attr = of(2);
	attr.memory.type = TALLY_MEMORY_VA;
	attr.memory.addr = reinterpret_cast<void *>(0x1004);
	refused(attr, EINVAL);
	attr = of(UINT32_MAX, UINT32_MAX / 8 * 8);
	attr.memory.type = TALLY_MEMORY_DMABUF;
	attr.memory.offset = UINT64_MAX / 8 * 8;
	refused(attr, EINVAL);
}

TEST_F(groups, that_are_too_large_leave_nothing_behind)
{
	kernel.max_counters = 3;
	refused(of(4), ENOMEM);
	auto *group = create(of(3));
	ASSERT_NE(group, nullptr);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

TEST_F(groups, without_the_extensions_are_ENOTSUP)
{
	kernel.extensions = false;
	refused(of(2), ENOTSUP);
}

TEST_F(groups, own_their_counters)
{
	auto *group = create(of(2));
	ASSERT_NE(group, nullptr);
	EXPECT_EQ(ibv_destroy_comp_cntr(tally_comp_cntr_group_at(group, 0)), EINVAL);
	EXPECT_EQ(kernel.alive.size(), 2u);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

TEST_F(groups, with_a_busy_counter_stay_until_it_is_free)
{
	auto *group = create(of(3));
	ASSERT_NE(group, nullptr);
	auto qp = kernel.make_qp(1);
	ibv_qp_attach_comp_cntr_attr attr{0, IBV_QP_ATTACH_COMP_CNTR_OP_RECV};
	ASSERT_EQ(ibv_qp_attach_comp_cntr(&qp, tally_comp_cntr_group_at(group, 1), &attr), 0);

	EXPECT_EQ(tally_destroy_comp_cntr_group(group), EBUSY);
	EXPECT_EQ(tally_comp_cntr_group_at(group, 0), nullptr);
	ASSERT_NE(tally_comp_cntr_group_at(group, 1), nullptr);
	EXPECT_EQ(ibv_inc_comp_cntr(tally_comp_cntr_group_at(group, 1), 1), 0);
	std::array<tally_comp_cntr_value, 1> value{};
	EXPECT_EQ(tally_read_comp_cntr_group(group, 1, 1, value.data()), 0);
	EXPECT_EQ(value[0].comp, 1u);

	kernel.destroy_qp(1);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
	EXPECT_TRUE(kernel.alive.empty());
}

TEST_F(groups, are_waited_for_in_ranges)
{
	auto *group = create(of(5));
	ASSERT_NE(group, nullptr);
	const std::array<tally_comp_cntr_target, 2> targets{{{3, 0}, {4, 1}}};
	std::uint32_t index = 9;
	EXPECT_EQ(tally_wait_comp_cntr_group(group, 2, 2, targets.data(), 0, 5, &index), ETIMEDOUT);
	EXPECT_EQ(kernel.waited_handles, (std::vector{tally_comp_cntr_group_at(group, 2)->handle,
						      tally_comp_cntr_group_at(group, 3)->handle}));
	EXPECT_EQ(kernel.waited_targets[1].err_seen, 1u);

	EXPECT_EQ(ibv_set_comp_cntr(tally_comp_cntr_group_at(group, 3), 4), 0);
	EXPECT_EQ(tally_wait_comp_cntr_group(group, 2, 2, targets.data(), TALLY_COMP_CNTR_WAIT_ANY, 5, &index), 0);
	EXPECT_EQ(index, 1u);
	EXPECT_EQ(kernel.calls(counter_object, TALLY_METHOD_COMP_CNTR_WAIT), 2u)
		<< "one was the look for the extensions";

	EXPECT_EQ(tally_wait_comp_cntr_group(group, 4, 2, targets.data(), 0, 5, &index), EINVAL);
	EXPECT_EQ(tally_wait_comp_cntr_group(group, 4, 0, targets.data(), 0, 5, &index), EINVAL);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

TEST_F(groups, may_be_larger_than_one_wait)
{
	auto *group = create(of(1000));
	ASSERT_NE(group, nullptr);
	const std::vector<tally_comp_cntr_target> targets(1000);
	EXPECT_EQ(tally_wait_comp_cntr_group(group, 900, TALLY_COMP_CNTR_WAIT_MAX, targets.data(), 0, 0, nullptr), 0);
	EXPECT_EQ(tally_wait_comp_cntr_group(group, 0, 1000, targets.data(), 0, 0, nullptr), EINVAL);
	EXPECT_EQ(tally_destroy_comp_cntr_group(group), 0);
}

} // namespace
