// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Numbers of bytes on the command line.
#include "copy/size.hpp"

#include <gtest/gtest.h>

namespace {

using tally::cli::parse_size;

TEST(size, is_a_number_of_bytes_or_of_a_power_of_1024)
{
	EXPECT_EQ(parse_size("0"), 0u);
	EXPECT_EQ(parse_size("65537"), 65537u);
	EXPECT_EQ(parse_size("010"), 10u);
	EXPECT_EQ(parse_size("10b"), 10u);
	for (const auto *text : {"64K", "64k", "64kb", "64KiB"})
		EXPECT_EQ(parse_size(text), 65536u) << text;
	EXPECT_EQ(parse_size("3M"), 3u << 20);
	EXPECT_EQ(parse_size("1G"), 1u << 30);
	EXPECT_EQ(parse_size("1T"), std::uint64_t{1} << 40);
	EXPECT_EQ(parse_size("1P"), std::uint64_t{1} << 50);
	EXPECT_EQ(parse_size("15E"), std::uint64_t{15} << 60);
	EXPECT_EQ(parse_size("18446744073709551615"), UINT64_MAX);
}

TEST(size, that_is_negative_or_does_not_fit_or_is_no_number_is_none)
{
	for (const auto *text : {"", "-1", "-0", "-1K", "+1", " 1", "1 ", "K", "B", "1KX", "1X", "0x10", "1.5G", "1 K",
				 "16E", "18446744073709551616", "18014398509481984K"})
		EXPECT_EQ(parse_size(text), std::nullopt) << text;
}

} // namespace
