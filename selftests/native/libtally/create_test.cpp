// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Life and death of counters.
#include "fake_kernel.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace {

using tally::test::counter_object;
using tally::test::fake_kernel;

ibv_comp_cntr *create(fake_kernel &kernel, ibv_comp_cntr_type type = IBV_COMP_CNTR_TYPE_WRS)
{
	ibv_comp_cntr_init_attr attr{};
	attr.type = type;
	return ibv_create_comp_cntr(kernel.context(), &attr);
}

TEST(create, a_counter_knows_its_context_and_handle)
{
	fake_kernel kernel;
	auto *cntr = create(kernel);
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(cntr->context, kernel.context());
	EXPECT_TRUE(kernel.alive.contains(cntr->handle));
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	EXPECT_TRUE(kernel.alive.empty());
}

TEST(create, comp_mask_and_flags_must_be_0)
{
	fake_kernel kernel;
	for (const auto &attr : {ibv_comp_cntr_init_attr{1, IBV_COMP_CNTR_TYPE_WRS, 0},
				 ibv_comp_cntr_init_attr{0, IBV_COMP_CNTR_TYPE_WRS, 1}}) {
		auto copy = attr;
		errno = 0;
		EXPECT_EQ(ibv_create_comp_cntr(kernel.context(), &copy), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_TRUE(kernel.alive.empty());
}

TEST(create, an_unknown_type_is_ENOTSUP)
{
	fake_kernel kernel;
	ibv_comp_cntr_init_attr attr{};
	const int unknown = 2;
	static_assert(sizeof(attr.type) == sizeof(unknown));
	std::memcpy(&attr.type, &unknown, sizeof(unknown));
	errno = 0;
	EXPECT_EQ(ibv_create_comp_cntr(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, ENOTSUP);
}

TEST(create, types_reach_the_kernel)
{
	fake_kernel kernel;
	auto *wrs = create(kernel);
	auto *bytes = create(kernel, IBV_COMP_CNTR_TYPE_BYTES);
	ASSERT_TRUE(wrs && bytes);
	EXPECT_EQ(kernel.alive.at(wrs->handle).type, TALLY_COMP_CNTR_TYPE_WRS);
	EXPECT_EQ(kernel.alive.at(bytes->handle).type, TALLY_COMP_CNTR_TYPE_BYTES);
	EXPECT_EQ(ibv_destroy_comp_cntr(wrs), 0);
	EXPECT_EQ(ibv_destroy_comp_cntr(bytes), 0);
}

TEST(create, bytes_without_the_extensions_is_ENOTSUP)
{
	fake_kernel kernel;
	kernel.extensions = false;
	errno = 0;
	EXPECT_EQ(create(kernel, IBV_COMP_CNTR_TYPE_BYTES), nullptr);
	EXPECT_EQ(errno, ENOTSUP);
	EXPECT_TRUE(kernel.alive.empty());
}

TEST(create, one_more_than_the_device_has_is_ENOMEM)
{
	fake_kernel kernel;
	kernel.max_counters = 3;
	std::vector<ibv_comp_cntr *> all;
	for (int i = 0; i < 3; ++i)
		all.push_back(create(kernel));
	errno = 0;
	EXPECT_EQ(create(kernel), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	for (auto *cntr : all)
		EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST(create, counts_of_different_counters_do_not_share_a_cache_line)
{
	fake_kernel kernel;
	std::set<std::uintptr_t> lines;
	std::vector<ibv_comp_cntr *> all;
	for (int i = 0; i < 1000; ++i) {
		all.push_back(create(kernel));
		tally_comp_cntr_words words{};
		ASSERT_EQ(tally_get_comp_cntr_words(all.back(), &words), 0);
		const auto line = reinterpret_cast<std::uintptr_t>(words.comp) / 64;
		EXPECT_EQ(reinterpret_cast<std::uintptr_t>(words.err) / 64, line);
		EXPECT_NE(reinterpret_cast<std::uintptr_t>(all.back()) / 64, line);
		EXPECT_TRUE(lines.insert(line).second);
	}
	for (auto *cntr : all)
		EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST(create, memory_of_the_dead_is_used_again)
{
	fake_kernel kernel;
	auto *first = create(kernel);
	ASSERT_EQ(ibv_destroy_comp_cntr(first), 0);
	auto *second = create(kernel);
	EXPECT_EQ(first, second);
	EXPECT_EQ(ibv_destroy_comp_cntr(second), 0);
}

TEST(create, when_no_page_can_be_pinned_the_kernel_keeps_the_counts)
{
	for (const int refusal : {ENOMEM, EPERM}) {
		fake_kernel kernel;
		kernel.buffer_failure = refusal;
		auto *cntr = create(kernel);
		ASSERT_NE(cntr, nullptr);
		EXPECT_FALSE(kernel.alive.at(cntr->handle).buffers);
		EXPECT_EQ(ibv_inc_comp_cntr(cntr, 5), 0);
		std::uint64_t value = 0;
		EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
		EXPECT_EQ(value, 5u);
		EXPECT_EQ(kernel.calls(counter_object, UVERBS_METHOD_COMP_CNTR_READ), 1u);
		tally_comp_cntr_words words{};
		EXPECT_EQ(tally_get_comp_cntr_words(cntr, &words), ENOTSUP);
		EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	}
}

TEST(create, a_refused_counter_leaves_nothing_behind)
{
	fake_kernel kernel;
	kernel.buffer_failure = EFAULT;
	auto *probe = [&] {
		kernel.buffer_failure = 0;
		auto *cntr = create(kernel);
		EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
		return cntr;
	}();
	kernel.buffer_failure = EFAULT;
	errno = 0;
	EXPECT_EQ(create(kernel), nullptr);
	EXPECT_EQ(errno, EFAULT);
	kernel.buffer_failure = 0;
	auto *again = create(kernel);
	EXPECT_EQ(again, probe) << "its place is free again";
	EXPECT_EQ(ibv_destroy_comp_cntr(again), 0);
}

TEST(destroy, a_busy_counter_goes_on_working)
{
	fake_kernel kernel;
	auto *cntr = create(kernel);
	auto qp = kernel.make_qp(3);
	ibv_qp_attach_comp_cntr_attr attr{0, IBV_QP_ATTACH_COMP_CNTR_OP_SEND};
	ASSERT_EQ(ibv_qp_attach_comp_cntr(&qp, cntr, &attr), 0);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), EBUSY);

	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 2), 0);
	std::uint64_t value = 0;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
	EXPECT_EQ(value, 2u);

	kernel.destroy_qp(3);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST(destroy, succeeds_when_the_device_is_gone)
{
	fake_kernel kernel;
	auto *cntr = create(kernel);
	kernel.failures[{counter_object, UVERBS_METHOD_COMP_CNTR_DESTROY}] = EIO;
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST(create, threads_do_not_get_in_each_others_way)
{
	fake_kernel kernel;
	std::mutex kernel_lock; // the fake kernel is a single thread's
	static std::mutex *lock;
	static tally::uverbs::transport inner;
	lock = &kernel_lock;
	inner = tally::uverbs::set_transport([](int fd, ib_uverbs_ioctl_hdr *command) {
		const std::scoped_lock guard{*lock};
		return inner(fd, command);
	});

	std::vector<std::thread> threads;
	for (int t = 0; t < 4; ++t)
		threads.emplace_back([&] {
			for (int i = 0; i < 500; ++i) {
				auto *cntr = create(kernel);
				ASSERT_NE(cntr, nullptr);
				EXPECT_EQ(ibv_inc_comp_cntr(cntr, 1), 0);
				std::uint64_t value = 0;
				EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
				EXPECT_EQ(value, 1u);
				EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
			}
		});
	for (auto &thread : threads)
		thread.join();
	tally::uverbs::set_transport(inner);
	EXPECT_TRUE(kernel.alive.empty());
}

} // namespace
