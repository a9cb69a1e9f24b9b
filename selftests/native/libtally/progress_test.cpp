// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is shown of a running copy.
#include "copy/progress.hpp"

#include <gtest/gtest.h>

namespace {

using namespace tally::cli;

TEST(progress, bytes_are_told_in_fitting_units)
{
	EXPECT_EQ(human_bytes(0), "0 B");
	EXPECT_EQ(human_bytes(1023), "1023 B");
	EXPECT_EQ(human_bytes(1024), "1.0 KiB");
	EXPECT_EQ(human_bytes(1536.0 * 1024), "1.5 MiB");
	EXPECT_EQ(human_bytes(500.0 * 1024 * 1024), "500 MiB");
	EXPECT_EQ(human_bytes(3.0 * (1ull << 50) * 1024), "3072 PiB");
}

TEST(progress, the_bar_grows_with_what_is_through)
{
	EXPECT_EQ(progress_line(0, 100, 1), "[" + std::string(40, '.') + "]   0 %  0 B/s");
	EXPECT_EQ(progress_line(50, 100, 1), "[" + std::string(20, '#') + std::string(20, '.') + "]  50 %  50 B/s");
	EXPECT_EQ(progress_line(100, 100, 2), "[" + std::string(40, '#') + "] 100 %  50 B/s");
}

TEST(progress, more_than_all_and_nothing_at_all_are_all)
{
	EXPECT_NE(progress_line(200, 100, 1).find("100 %"), std::string::npos);
	EXPECT_NE(progress_line(0, 0, 0).find("100 %"), std::string::npos);
}

TEST(progress, without_a_size_only_bytes_are_shown)
{
	EXPECT_EQ(progress_line(2048, std::nullopt, 2), "2.0 KiB  1.0 KiB/s");
}

} // namespace
