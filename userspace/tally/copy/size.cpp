// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "size.hpp"

#include <charconv>
#include <limits>
#include <string>

namespace tally::cli {

std::optional<std::uint64_t> parse_size(std::string_view text) noexcept
{
	constexpr auto most = std::numeric_limits<std::uint64_t>::max();
	std::uint64_t number = 0;
	const auto *end = text.data() + text.size();
	const auto [rest, err] = std::from_chars(text.data(), end, number); // of digits only: there is no sign
	if (err != std::errc{})
		return std::nullopt;

	std::string unit(rest, end);
	for (auto &c : unit)
		c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
	if (unit.empty() || unit == "B")
		return number;
	const auto power = std::string_view("KMGTPE").find(unit.front());
	unit.erase(0, 1);
	if (power == std::string_view::npos || !(unit.empty() || unit == "B" || unit == "IB"))
		return std::nullopt;
	const auto shift = 10 * (power + 1);
	if (number > most >> shift)
		return std::nullopt;
	return number << shift;
}

} // namespace tally::cli
