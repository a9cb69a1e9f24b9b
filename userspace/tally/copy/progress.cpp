// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "progress.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

namespace tally::cli {

std::string human_bytes(double bytes)
{
	static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	std::size_t unit = 0;
	for (; bytes >= 1024 && unit + 1 < units.size(); ++unit)
		bytes /= 1024;
	return fmt::format("{:.{}f} {}", bytes, unit && bytes < 100 ? 1 : 0, units[unit]);
}

std::string progress_line(std::uint64_t bytes, std::optional<std::uint64_t> size, double seconds)
{
	constexpr std::size_t width = 40;
	const auto rate = human_bytes(seconds > 0 ? static_cast<double>(bytes) / seconds : 0);
	if (!size)
		return fmt::format("{}  {}/s", human_bytes(static_cast<double>(bytes)), rate);

	const double part = *size ? std::min(1.0, static_cast<double>(bytes) / static_cast<double>(*size)) : 1.0;
	const auto filled = static_cast<std::size_t>(part * width);
	return fmt::format("[{}{}] {:3.0f} %  {}/s", std::string(filled, '#'), std::string(width - filled, '.'),
			   part * 100, rate);
}

progress::progress(std::optional<std::uint64_t> size, bool wanted)
	: size_(size), drawing_(wanted && isatty(STDERR_FILENO))
{
}

progress::~progress()
{
	if (width_) {
		fmt::print(stderr, "\r{}\r", std::string(width_, ' '));
		std::fflush(stderr);
	}
}

void progress::update(std::uint64_t bytes)
{
	if (!drawing_)
		return;
	const auto now = clock::now();
	if (now - drawn_ < std::chrono::milliseconds(100))
		return;
	drawn_ = now;

	const auto line = progress_line(bytes, size_, std::chrono::duration<double>(now - start_).count());
	const auto covered = width_ > line.size() ? width_ - line.size() : 0;
	fmt::print(stderr, "\r{}{}", line, std::string(covered, ' '));
	std::fflush(stderr);
	width_ = std::max(width_, line.size());
}

} // namespace tally::cli
