// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The shared library as programs use it, together with a libibverbs that has counters itself.
#include <gtest/gtest.h>
#include <tally/comp_cntr.h>

extern "C" int native_calls;

namespace {

TEST(native_library, is_found_behind_libtally_and_used_for_its_devices)
{
	ibv_device device{};
	ibv_context context{};
	context.device = &device;
	context.cmd_fd = -1;

	ibv_comp_cntr_caps caps{};
	ASSERT_EQ(ibv_query_comp_cntr_caps(&context, &caps), 0);
	EXPECT_EQ(caps.max_counters, 4711u);

	ibv_comp_cntr_init_attr attr{};
	attr.type = IBV_COMP_CNTR_TYPE_BYTES;
	auto *cntr = ibv_create_comp_cntr(&context, &attr);
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(native_calls, 1);
	EXPECT_EQ(cntr->handle, 1u);
	std::uint64_t value = 0;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
	EXPECT_EQ(value, 7u);
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 1), 0);
	EXPECT_EQ(native_calls, 3);
	EXPECT_EQ(tally_wait_comp_cntr(cntr, 1, 0, 0), ENOTSUP);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	EXPECT_EQ(native_calls, 4);
}

TEST(native_library, is_not_in_the_way_of_what_it_cannot_do)
{
	ibv_device device{};
	ibv_context context{};
	context.device = &device;
	context.cmd_fd = -1;
	std::uint64_t words[2];
	const int before = native_calls;
	tally_comp_cntr_init_attr attr{};
	attr.comp.type = attr.err.type = TALLY_MEMORY_VA;
	attr.comp.addr = &words[0];
	attr.err.addr = &words[1];
	errno = 0;
	EXPECT_EQ(tally_create_comp_cntr(&context, &attr), nullptr);
	EXPECT_EQ(errno, EBADF) << "our own ioctl, on a descriptor that is none";
	EXPECT_EQ(native_calls, before);
}

} // namespace
