// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally copy
#pragma once

#include "ring.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tally::cli {

struct copy_options {
	std::string device; // empty: the first that will do
	std::optional<std::uint64_t> size;
	ring_geometry ring{.slots = 16, .chunk = 256 << 10};
	bool quiet = false;
	bool hashed = true;
};

// From a file to a file, by two processes of this machine.  These throw failure.
void copy_here(const std::string &source, const std::string &destination, const copy_options &options);

// Waits at ADDRESS:PORT for a sender and takes in its file.
void copy_listening(const std::string &address, const std::string &destination, const copy_options &options);

// Sends a file to the receiver that waits at HOST:PORT.
void copy_connecting(const std::string &address, const std::string &source, const copy_options &options);

} // namespace tally::cli
