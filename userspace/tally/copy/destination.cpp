// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "destination.hpp"
#include "failure.hpp"
#include "interrupt.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <random>
#include <sys/stat.h>
#include <tuple>

namespace tally::cli {
namespace {

// Without the name that the file gets: with that, it might be longer than a name can be.
std::string hidden_name(const std::string &directory)
{
	std::random_device random;
	return std::filesystem::path(directory) / fmt::format(".tally-copy.{:08x}{:08x}", random(), random());
}

// Follows links to the name that they stand for, whether there is a file of that name or not.
std::string behind_links(const std::string &path)
{
	constexpr int most = 40; // as in the kernel
	std::filesystem::path end(path);
	std::error_code none;
	for (int i = 0; i < most; ++i) {
		const auto next = std::filesystem::read_symlink(end, none);
		if (none)
			break;
		end = end.parent_path() / next; // or only the latter, if it is absolute
	}
	return end;
}

} // namespace

void destination::throw_unwritable(int err) const
{
	const auto status = err == ENOSPC || err == EDQUOT ? exit_status::disk_full : exit_status::destination;
	throw failure(status, fmt::format("cannot write {}: {}", path_, errno_text(err)));
}

destination::destination(const std::string &path, const std::string &name_in_directory) : path_(path)
{
	auto st = status(path_);
	if (st && S_ISDIR(st->st_mode)) {
		if (name_in_directory.empty())
			throw_unwritable(EISDIR);
		path_ = std::filesystem::path(path_) / name_in_directory;
		st = status(path_);
		if (st && S_ISDIR(st->st_mode))
			throw_unwritable(EISDIR);
	}

	if (st && !S_ISREG(st->st_mode)) {
		open_special(st->st_mode);
		return;
	}
	if (st) {
		replaced_ = {.owner = st->st_uid, .group = st->st_gid, .mode = st->st_mode & 0777};
		if (access(path_.c_str(), W_OK))
			throw_unwritable(errno);
	}
	// A link stays one: what it points to is replaced, or created.
	path_ = behind_links(path_);

	const auto parent = std::filesystem::path(path_).parent_path();
	directory_ = parent.empty() ? std::string(1, '.') : parent.string();
	create_unnamed();
}

// Nothing: there is no such file, but there may be one.
std::optional<struct stat> destination::status(const std::string &path) const
{
	struct stat st {};
	if (!stat(path.c_str(), &st))
		return st;
	if (errno != ENOENT)
		throw_unwritable(errno);
	return std::nullopt;
}

void destination::open_special(std::uint32_t mode)
{
	special_ = true;
	file_ = unique_fd(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
	if (!file_) {
		const int err = errno;
		throw_if_interrupted();
		throw_unwritable(err);
	}
	// These may take nothing for as long as they like.
	if (S_ISFIFO(mode) || isatty(file_.get()))
		fcntl(file_.get(), F_SETFL, fcntl(file_.get(), F_GETFL) | O_NONBLOCK);
}

void destination::create_unnamed()
{
	file_ = unique_fd(open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
	if (file_)
		return;
	// Each of them is a way to say that the file system cannot do it.
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
		throw_unwritable(errno);
	create_hidden();
}

void destination::create_hidden()
{
	hidden_ = hidden_name(directory_);
	file_ = unique_fd(open(hidden_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
	if (!file_) {
		hidden_.clear();
		throw_unwritable(errno);
	}
}

destination::~destination()
{
	if (!hidden_.empty())
		unlink(hidden_.c_str());
}

void destination::write(std::span<const std::byte> bytes, const std::function<void()> &meanwhile)
{
	while (!bytes.empty()) {
		const auto written = ::write(file_.get(), bytes.data(), bytes.size());
		if (written >= 0) {
			bytes = bytes.subspan(static_cast<std::size_t>(written));
			begun_ = true;
		} else if (errno == EAGAIN) {
			wait_writable(meanwhile);
		} else if (errno == EINTR) {
			throw_if_interrupted();
		} else {
			throw_unwritable(errno);
		}
	}
}

void destination::wait_writable(const std::function<void()> &meanwhile)
{
	// Not for long: a signal that comes just before poll() is seen soon all the same.
	constexpr int slice_ms = 100;
	pollfd wanted{.fd = file_.get(), .events = POLLOUT, .revents = 0};
	poll(&wanted, 1, slice_ms);
	throw_if_interrupted();
	if (meanwhile)
		meanwhile();
}

bool destination::start_over()
{
	if (!file_ || (special_ && begun_))
		return false;
	if (!special_ && (ftruncate(file_.get(), 0) || lseek(file_.get(), 0, SEEK_SET)))
		throw_unwritable(errno);
	return true;
}

// Takes owner and group over from the file that is replaced.  The permissions that the new one gets: to members of a
// group that could not be taken over, its group's permissions do not pass.
std::uint32_t destination::inherit()
{
	struct stat own {};
	if (fstat(file_.get(), &own))
		throw_unwritable(errno);
	auto mode = replaced_->mode;
	if (own.st_gid != replaced_->group && fchown(file_.get(), static_cast<uid_t>(-1), replaced_->group))
		mode &= 0707 | (mode & 07) << 3;
	// Else it is this user's now, who was allowed to write to it.
	if (own.st_uid != replaced_->owner)
		std::ignore = fchown(file_.get(), replaced_->owner, static_cast<gid_t>(-1));
	return mode;
}

void destination::keep(std::uint32_t mode)
{
	if (!special_) {
		const auto mask = umask(0);
		umask(mask);
		if (fchmod(file_.get(), replaced_ ? inherit() : mode & 0777 & ~mask))
			throw_unwritable(errno);
		if (hidden_.empty()) {
			const auto name = hidden_name(directory_);
			const auto self = fmt::format("/proc/self/fd/{}", file_.get());
			if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW))
				throw_unwritable(errno);
			hidden_ = name;
		}
	}
	if (file_.close_checked())
		throw_unwritable(errno);
	if (!special_) {
		if (rename(hidden_.c_str(), path_.c_str()))
			throw_unwritable(errno);
		hidden_.clear();
	}
}

} // namespace tally::cli
