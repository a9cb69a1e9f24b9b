// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reading and changing counts.
#include "fake_kernel.hpp"

#include <gtest/gtest.h>

namespace {

using tally::test::counter_object;
using tally::test::fake_kernel;

class values : public testing::Test {
    protected:
	values()
	{
		ibv_comp_cntr_init_attr attr{};
		cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	}
	~values() override { EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0); }

	std::uint64_t comp()
	{
		std::uint64_t value = 0;
		EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
		return value;
	}
	std::uint64_t err()
	{
		std::uint64_t value = 0;
		EXPECT_EQ(ibv_read_err_comp_cntr(cntr, &value), 0);
		return value;
	}

	fake_kernel kernel;
	ibv_comp_cntr *cntr;
};

TEST_F(values, start_at_0)
{
	EXPECT_EQ(comp(), 0u);
	EXPECT_EQ(err(), 0u);
}

TEST_F(values, are_set_each_for_itself)
{
	EXPECT_EQ(ibv_set_comp_cntr(cntr, 10), 0);
	EXPECT_EQ(ibv_set_err_comp_cntr(cntr, 20), 0);
	EXPECT_EQ(comp(), 10u);
	EXPECT_EQ(err(), 20u);
}

TEST_F(values, are_incremented_each_for_itself)
{
	EXPECT_EQ(ibv_set_comp_cntr(cntr, UINT64_MAX), 0);
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 3), 0);
	EXPECT_EQ(ibv_inc_err_comp_cntr(cntr, 4), 0);
	EXPECT_EQ(ibv_inc_err_comp_cntr(cntr, 1), 0);
	EXPECT_EQ(comp(), 2u);
	EXPECT_EQ(err(), 5u);
}

TEST_F(values, are_read_without_the_kernel)
{
	*kernel.alive.at(cntr->handle).comp = 42;
	const auto asked = kernel.commands.size();
	for (int i = 0; i < 100; ++i)
		EXPECT_EQ(comp(), 42u);
	EXPECT_EQ(err(), 0u);
	EXPECT_EQ(kernel.commands.size(), asked);
}

TEST_F(values, errors_of_the_kernel_are_told)
{
	kernel.failures[{counter_object, UVERBS_METHOD_COMP_CNTR_MODIFY}] = EIO;
	EXPECT_EQ(ibv_set_comp_cntr(cntr, 1), EIO);
	EXPECT_EQ(ibv_set_err_comp_cntr(cntr, 1), EIO);
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 1), EIO);
	EXPECT_EQ(ibv_inc_err_comp_cntr(cntr, 1), EIO);
}

TEST(values_in_the_kernel, are_read_by_the_kernel)
{
	fake_kernel kernel;
	kernel.extensions = false;
	ibv_comp_cntr_init_attr attr{};
	auto *cntr = ibv_create_comp_cntr(kernel.context(), &attr);
	ASSERT_NE(cntr, nullptr);
	EXPECT_FALSE(kernel.alive.at(cntr->handle).buffers);
	*kernel.alive.at(cntr->handle).comp = 6;
	*kernel.alive.at(cntr->handle).err = 7;
	std::uint64_t comp = 0, err = 0;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &comp), 0);
	EXPECT_EQ(ibv_read_err_comp_cntr(cntr, &err), 0);
	EXPECT_EQ(comp, 6u);
	EXPECT_EQ(err, 7u);
	kernel.failures[{counter_object, UVERBS_METHOD_COMP_CNTR_READ}] = EPROTONOSUPPORT;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &comp), ENOTSUP);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

} // namespace
