// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The copy.  A regular file appears under its name only when it is complete; until then it has no name at all where
// the file system can do that, else a hidden one that is removed when things go wrong.
#pragma once

#include "unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <sys/stat.h>

namespace tally::cli {

class destination {
    public:
	// Into that path, or into that directory under the given name.  Throws failure (exit_status::destination or
	// disk_full), as all of it does.
	destination(const std::string &path, const std::string &name_in_directory);

	destination(const destination &) = delete;
	destination &operator=(const destination &) = delete;

	// Whatever has not been kept is gone.
	~destination();

	// While a pipe or a terminal takes nothing, "meanwhile" is called again and again; it may throw.
	void write(std::span<const std::byte> bytes, const std::function<void()> &meanwhile = {});

	// Forgets what has been written.  False: that cannot be taken back any more.
	bool start_over();

	// Makes it the file of that name.  A new file gets these permissions, less the umask.  One that is replaced
	// hands on its own, without set-user-ID and its like, and owner and group as far as this user may.
	void keep(std::uint32_t mode);

	const std::string &path() const noexcept { return path_; }

    private:
	// Of the file that is replaced.
	struct identity {
		uid_t owner;
		gid_t group;
		std::uint32_t mode;
	};

	std::optional<struct stat> status(const std::string &path) const;
	void open_special(std::uint32_t mode);
	void create_unnamed();
	void create_hidden();
	std::uint32_t inherit();
	void wait_writable(const std::function<void()> &meanwhile);
	[[noreturn]] void throw_unwritable(int err) const;

	std::string path_;
	std::string directory_;
	std::string hidden_; // its name for the time being; empty: it has none
	unique_fd file_;       // none: it has been kept
	bool special_ = false; // a device or pipe, written to as it is
	bool begun_ = false;
	std::optional<identity> replaced_;
};

} // namespace tally::cli
