// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How the command fails: one exception, which carries the exit status and what to tell the user.
#pragma once

#include <stdexcept>
#include <string>
#include <system_error>

namespace tally::cli {

// Documented in tally(1); the numbers do not change.
enum class exit_status : int {
	ok = 0,
	failed = 1, // none of the below
	usage = 2,
	no_device = 3,
	no_permission = 4,
	no_counters = 5,
	source = 6,	 // cannot be read
	destination = 7, // cannot be written
	disk_full = 8,
	peer_lost = 9,	   // the other process died or went away
	mismatch = 10,	   // the hashes of both ends differ
	connection = 11,   // no connection, or the other end does not speak our protocol
	rdma = 12,	   // a verb or a transfer failed
	interrupted = 130, // SIGINT or SIGTERM
};

class failure : public std::runtime_error {
    public:
	failure(exit_status status, const std::string &text) : std::runtime_error(text), status_(status) {}

	exit_status status() const noexcept { return status_; }

    private:
	exit_status status_;
};

// "No space left on device" and its like.
inline std::string errno_text(int err)
{
	return std::system_category().message(err);
}

} // namespace tally::cli
