// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A file descriptor with an owner.
#pragma once

#include <unistd.h>
#include <utility>

namespace tally::cli {

class unique_fd {
    public:
	unique_fd() = default;
	explicit unique_fd(int fd) noexcept : fd_(fd) {}
	unique_fd(unique_fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

	unique_fd &operator=(unique_fd &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}

	~unique_fd() { reset(); }

	int get() const noexcept { return fd_; }
	explicit operator bool() const noexcept { return fd_ >= 0; }

	void reset() noexcept
	{
		if (fd_ >= 0)
			close(std::exchange(fd_, -1));
	}

	// Closes it and says whether that went well: a file system may report a failed write only now.
	int close_checked() noexcept { return close(std::exchange(fd_, -1)); }

    private:
	int fd_ = -1;
};

} // namespace tally::cli
