// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// HOST:PORT, and sockets for it.
#pragma once

#include "unique_fd.hpp"

#include <chrono>
#include <string>

namespace tally::cli {

inline constexpr const char *default_port = "7471";

struct host_port {
	std::string host; // empty: any, of IPv4 and IPv6
	std::string port;

	friend bool operator==(const host_port &, const host_port &) = default;
};

// HOST:PORT, HOST, :PORT or [IPv6]:PORT.  Throws failure (exit_status::usage).
host_port parse_address(const std::string &text);

// A listening socket; what it is bound to, as text.  Throws failure (exit_status::connection), as all of it does.
struct listener {
	unique_fd socket;
	std::string address;
};
listener listen_at(const host_port &address);

// The next one who connects.
struct accepted {
	unique_fd socket;
	std::string peer;
};
accepted accept_from(const listener &listener);

unique_fd connect_to(const host_port &address, std::chrono::milliseconds patience);

} // namespace tally::cli
