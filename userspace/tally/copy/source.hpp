// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The file that is copied.
#pragma once

#include "unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace tally::cli {

class source {
    public:
	// Opens it; with a limit only so many bytes of it are copied, and they have to be there.  Throws failure
	// (exit_status::source), as all of it does.
	source(const std::string &path, std::optional<std::uint64_t> limit);

	// How many bytes it will give, if that is known.
	std::optional<std::uint64_t> size() const noexcept { return size_; }

	std::uint32_t mode() const noexcept { return mode_; }

	// Fills the span; less than all of it is the end.  While a pipe or a terminal has nothing to give, @meanwhile is
	// called now and then, and may throw.
	std::size_t read(std::span<std::byte> to, const std::function<void()> &meanwhile = nullptr);

    private:
	void wait_readable(const std::function<void()> &meanwhile);

	std::string path_;
	unique_fd file_;
	std::optional<std::uint64_t> limit_;
	std::optional<std::uint64_t> size_;
	std::uint32_t mode_ = 0644;
	bool regular_ = false;
	std::uint64_t given_ = 0;
};

} // namespace tally::cli
