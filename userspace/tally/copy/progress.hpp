// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The bar that grows while a copy runs, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tally::cli {

class progress {
    public:
	// Draws on standard error if that is a terminal and drawing is wanted.
	progress(std::optional<std::uint64_t> size, bool wanted);
	progress(const progress &) = delete;
	progress &operator=(const progress &) = delete;

	// Wipes the line.
	~progress();

	// So many bytes are through; draws now and then.
	void update(std::uint64_t bytes);

    private:
	using clock = std::chrono::steady_clock;

	std::optional<std::uint64_t> size_;
	bool drawing_;
	clock::time_point start_ = clock::now();
	clock::time_point drawn_{};
	std::size_t width_ = 0;
};

// 1.5 GiB
std::string human_bytes(double bytes);

// The line of the bar, without control characters.
std::string progress_line(std::uint64_t bytes, std::optional<std::uint64_t> size, double seconds);

} // namespace tally::cli
