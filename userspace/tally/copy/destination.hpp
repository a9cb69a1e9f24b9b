// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The copy.  A regular file appears under its name only when it is complete; until then it has no name at all where
// the file system can do that, else a hidden one that is removed when things go wrong.
#pragma once

#include "unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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

	void write(std::span<const std::byte> bytes);

	// Makes it the file of that name.  A new file gets these permissions, less the umask; one that is replaced had
	// its own, and keeps them.
	void keep(std::uint32_t mode);

	const std::string &path() const noexcept { return path_; }

    private:
	void create_unnamed();
	void create_hidden();
	[[noreturn]] void throw_unwritable(int err) const;

	std::string path_;
	std::string directory_;
	std::string hidden_; // its name for the time being; empty: it has none
	unique_fd file_;
	bool special_ = false; // a device or pipe, written to as it is
	bool replaces_ = false;
	std::uint32_t replaced_mode_ = 0;
};

} // namespace tally::cli
