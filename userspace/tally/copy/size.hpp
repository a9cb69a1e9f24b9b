// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Numbers of bytes on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tally::cli {

// 65536, 64K, 64k, 64KB or 64KiB, and so with M, G, T, P and E.  Nothing: it is no such number, or too large a one.
std::optional<std::uint64_t> parse_size(std::string_view text) noexcept;

} // namespace tally::cli
