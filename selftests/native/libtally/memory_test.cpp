// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters in memory of the caller's choice.
#include "fake_kernel.hpp"

#include <cstring>
#include <gtest/gtest.h>

namespace {

using tally::test::fake_kernel;

tally_memory at(void *address)
{
	tally_memory memory{};
	memory.type = TALLY_MEMORY_VA;
	memory.fd = -1;
	memory.addr = address;
	return memory;
}

tally_memory in_dmabuf(int fd, std::uint64_t offset, void *mapped = nullptr)
{
	tally_memory memory{};
	memory.type = TALLY_MEMORY_DMABUF;
	memory.fd = fd;
	memory.offset = offset;
	memory.addr = mapped;
	return memory;
}

class external_memory : public testing::Test {
    protected:
	ibv_comp_cntr *create(const tally_memory &comp, const tally_memory &err)
	{
		tally_comp_cntr_init_attr attr{};
		attr.comp = comp;
		attr.err = err;
		errno = 0;
		return tally_create_comp_cntr(kernel.context(), &attr);
	}

	void refused(const tally_memory &comp, const tally_memory &err, int why)
	{
		EXPECT_EQ(create(comp, err), nullptr);
		EXPECT_EQ(errno, why);
		EXPECT_TRUE(kernel.alive.empty());
	}

	fake_kernel kernel;
	alignas(8) std::uint64_t words[4] = {9, 9, 9, 9};
};

TEST_F(external_memory, holds_the_counts)
{
	auto *cntr = create(at(&words[2]), at(&words[0]));
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(words[2], 0u);
	EXPECT_EQ(words[0], 0u);
	EXPECT_EQ(words[1], 9u);
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 7), 0);
	EXPECT_EQ(ibv_set_err_comp_cntr(cntr, 8), 0);
	EXPECT_EQ(words[2], 7u);
	EXPECT_EQ(words[0], 8u);

	tally_comp_cntr_words seen{};
	ASSERT_EQ(tally_get_comp_cntr_words(cntr, &seen), 0);
	EXPECT_EQ(seen.comp, &words[2]);
	EXPECT_EQ(seen.err, &words[0]);

	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	EXPECT_EQ(words[2], 7u) << "the last counts stay";
}

TEST_F(external_memory, is_described_to_the_kernel)
{
	auto *cntr = create(at(&words[0]), at(&words[1]));
	ASSERT_NE(cntr, nullptr);
	const auto buffers = kernel.alive.at(cntr->handle).buffers;
	ASSERT_TRUE(buffers);
	EXPECT_EQ((*buffers)[0].type, std::uint32_t{IB_UVERBS_BUFFER_TYPE_VA});
	EXPECT_EQ((*buffers)[0].addr, reinterpret_cast<std::uintptr_t>(&words[0]));
	EXPECT_EQ((*buffers)[0].length, 8u);
	EXPECT_EQ((*buffers)[0].flags, 0u);
	EXPECT_EQ((*buffers)[1].addr, reinterpret_cast<std::uintptr_t>(&words[1]));
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST_F(external_memory, may_be_a_dmabuf)
{
	auto *cntr = create(in_dmabuf(44, 128, &words[0]), in_dmabuf(44, 136, &words[1]));
	ASSERT_NE(cntr, nullptr);
	const auto buffers = kernel.alive.at(cntr->handle).buffers;
	ASSERT_TRUE(buffers);
	EXPECT_EQ((*buffers)[0].type, std::uint32_t{IB_UVERBS_BUFFER_TYPE_DMABUF});
	EXPECT_EQ((*buffers)[0].fd, 44);
	EXPECT_EQ((*buffers)[0].addr, 128u);
	EXPECT_EQ((*buffers)[1].addr, 136u);

	words[0] = 3;
	std::uint64_t value = 0;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
	EXPECT_EQ(value, 3u) << "read where it is mapped";
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST_F(external_memory, of_a_dmabuf_that_is_not_mapped_is_read_by_the_kernel)
{
	auto *cntr = create(in_dmabuf(44, 0), in_dmabuf(44, 8));
	ASSERT_NE(cntr, nullptr);
	EXPECT_EQ(ibv_inc_comp_cntr(cntr, 6), 0);
	std::uint64_t value = 0;
	EXPECT_EQ(ibv_read_comp_cntr(cntr, &value), 0);
	EXPECT_EQ(value, 6u);
	tally_comp_cntr_words seen{};
	EXPECT_EQ(tally_get_comp_cntr_words(cntr, &seen), ENOTSUP);
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST_F(external_memory, has_to_be_aligned)
{
	auto *odd = reinterpret_cast<std::byte *>(&words[0]) + 4;
	refused(at(odd), at(&words[2]), EINVAL);
	refused(at(&words[2]), at(odd), EINVAL);
	refused(in_dmabuf(3, 4), in_dmabuf(3, 8), EINVAL);
	refused(in_dmabuf(3, 0, odd), in_dmabuf(3, 8), EINVAL);
}

TEST_F(external_memory, is_given_for_both_counts_or_for_none)
{
	refused(at(&words[0]), {}, EINVAL);
	refused({}, at(&words[0]), EINVAL);
	auto *cntr = create({}, {});
	ASSERT_NE(cntr, nullptr);
	tally_comp_cntr_words seen{};
	EXPECT_EQ(tally_get_comp_cntr_words(cntr, &seen), 0) << "in the library's memory";
	EXPECT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

TEST_F(external_memory, of_an_unknown_kind_is_EINVAL)
{
	tally_memory strange{};
	const int unknown = 7;
	static_assert(sizeof(strange.type) == sizeof(unknown));
	std::memcpy(&strange.type, &unknown, sizeof(unknown));
	refused(strange, strange, EINVAL);
}

TEST_F(external_memory, comp_mask_and_flags_must_be_0)
{
	tally_comp_cntr_init_attr attr{};
	attr.comp_mask = 1;
	EXPECT_EQ(tally_create_comp_cntr(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	attr.comp_mask = 0;
	attr.flags = 1;
	errno = 0;
	EXPECT_EQ(tally_create_comp_cntr(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(external_memory, without_the_extensions_is_ENOTSUP)
{
	kernel.extensions = false;
	refused(at(&words[0]), at(&words[1]), ENOTSUP);
}

TEST_F(external_memory, the_kernels_refusal_is_told)
{
	for (const int why : {EFAULT, EBADF, ENOMEM, EINVAL}) {
		kernel.buffer_failure = why;
		refused(at(&words[0]), at(&words[1]), why);
	}
	kernel.buffer_failure = EOPNOTSUPP;
	refused(in_dmabuf(3, 0), in_dmabuf(3, 8), ENOTSUP);
}

} // namespace
