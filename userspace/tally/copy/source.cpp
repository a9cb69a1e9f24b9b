// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "source.hpp"
#include "failure.hpp"
#include "interrupt.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

namespace tally::cli {
namespace {

[[noreturn]] void throw_unreadable(const std::string &path, int err)
{
	throw failure(exit_status::source, fmt::format("cannot read {}: {}", path, errno_text(err)));
}

} // namespace

source::source(const std::string &path, std::optional<std::uint64_t> limit)
	: path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), limit_(limit)
{
	struct stat st {};
	if (!file_ || fstat(file_.get(), &st)) {
		const int err = errno;
		throw_if_interrupted(); // to open a pipe takes until somebody writes to it
		throw_unreadable(path, err);
	}
	if (S_ISDIR(st.st_mode))
		throw_unreadable(path, EISDIR);

	regular_ = S_ISREG(st.st_mode);
	if (regular_) {
		mode_ = st.st_mode & 0777;
		size_ = static_cast<std::uint64_t>(st.st_size);
		posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
		// Files of /proc and the like have contents but no size.
		if (!st.st_size)
			size_.reset();
	}
	if (limit) {
		if (size_ && *size_ < *limit)
			throw failure(exit_status::source,
				      fmt::format("{} has only {} of the {} bytes asked for", path, *size_, *limit));
		size_ = limit;
	}
}

void source::wait_readable(const std::function<void()> &meanwhile)
{
	// Not for long: a signal that comes just before poll() is seen soon all the same.
	constexpr int slice_ms = 100;
	pollfd wanted{.fd = file_.get(), .events = POLLIN, .revents = 0};
	while (poll(&wanted, 1, slice_ms) <= 0) {
		throw_if_interrupted();
		if (meanwhile)
			meanwhile();
	}
}

std::size_t source::read(std::span<std::byte> to, const std::function<void()> &meanwhile)
{
	const auto most =
		limit_ ? static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), *limit_ - given_)) : to.size();
	std::size_t filled = 0;
	while (filled < most) {
		if (!regular_)
			wait_readable(meanwhile);
		const auto got = ::read(file_.get(), to.data() + filled, most - filled);
		if (got > 0) {
			filled += static_cast<std::size_t>(got);
		} else if (got == 0) {
			break;
		} else if (errno == EINTR) {
			throw_if_interrupted();
		} else {
			throw_unreadable(path_, errno);
		}
	}
	given_ += filled;
	if (limit_ && filled < most)
		throw failure(exit_status::source,
			      fmt::format("{} ended after {} of the {} bytes asked for", path_, given_, *limit_));
	return filled;
}

} // namespace tally::cli
