// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "destination.hpp"
#include "failure.hpp"
#include "interrupt.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <sys/stat.h>

namespace tally::cli {
namespace {

std::string hidden_name(const std::string &path)
{
	const std::filesystem::path whole(path);
	std::random_device random;
	return whole.parent_path() / fmt::format(".{}.{:08x}{:08x}", whole.filename().string(), random(), random());
}

} // namespace

void destination::throw_unwritable(int err) const
{
	const auto status = err == ENOSPC || err == EDQUOT ? exit_status::disk_full : exit_status::destination;
	throw failure(status, fmt::format("cannot write {}: {}", path_, errno_text(err)));
}

destination::destination(const std::string &path, const std::string &name_in_directory) : path_(path)
{
	struct stat st {};
	bool exists = !stat(path_.c_str(), &st);
	if (exists && S_ISDIR(st.st_mode)) {
		if (name_in_directory.empty())
			throw_unwritable(EISDIR);
		path_ = std::filesystem::path(path_) / name_in_directory;
		exists = !stat(path_.c_str(), &st);
		if (exists && S_ISDIR(st.st_mode))
			throw_unwritable(EISDIR);
	}

	if (exists && !S_ISREG(st.st_mode)) {
		special_ = true;
		file_ = unique_fd(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
		if (!file_)
			throw_unwritable(errno);
		return;
	}
	if (exists) {
		replaces_ = true;
		replaced_mode_ = st.st_mode & 07777;
		if (access(path_.c_str(), W_OK))
			throw_unwritable(errno);
		// A link stays one: what it points to is replaced.
		std::error_code ignored;
		if (const auto real = std::filesystem::canonical(path_, ignored); !ignored)
			path_ = real;
	}

	const auto parent = std::filesystem::path(path_).parent_path();
	directory_ = parent.empty() ? std::string(1, '.') : parent.string();
	create_unnamed();
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
	hidden_ = hidden_name(path_);
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

void destination::write(std::span<const std::byte> bytes)
{
	while (!bytes.empty()) {
		const auto written = ::write(file_.get(), bytes.data(), bytes.size());
		if (written >= 0)
			bytes = bytes.subspan(static_cast<std::size_t>(written));
		else if (errno == EINTR)
			throw_if_interrupted();
		else
			throw_unwritable(errno);
	}
}

void destination::keep(std::uint32_t mode)
{
	if (!special_) {
		const auto mask = umask(0);
		umask(mask);
		if (fchmod(file_.get(), replaces_ ? replaced_mode_ : mode & 0777 & ~mask))
			throw_unwritable(errno);
		if (hidden_.empty()) {
			const auto name = hidden_name(path_);
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
