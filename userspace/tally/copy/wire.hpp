// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The messages that the two ends of a copy exchange beside the RDMA transfer, over a socket.
//
//	receiver                 sender
//	   hello  ------------------>      its ring and queue pair
//	          <------------------ hello   its credit word and queue pair
//	   ready  ------------------>      both queue pairs are connected
//	          <------------------ ready
//	            (the transfer)
//	          <------------------ done    what was sent
//	   report ------------------>      what arrived
//
// Either side may send a complaint instead and give up.  A message is a frame: magic, version, type, length of the
// body, and the body; all numbers big-endian.  What arrives here may come from anyone, so nothing in it is believed
// before it has been checked.
#pragma once

#include "digest.hpp"
#include "failure.hpp"
#include "ring.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tally::cli::wire {

inline constexpr std::uint32_t magic = 0x544c4350; // "TLCP"
inline constexpr std::uint16_t version = 2;
inline constexpr std::size_t frame_header_bytes = 12;
inline constexpr std::size_t longest_body = 4096;

inline constexpr std::uint64_t size_unknown = UINT64_MAX;

enum class role : std::uint8_t { sender = 1, receiver = 2 };

struct hello {
	wire::role role = role::sender;
	std::uint32_t qp_number = 0;
	std::uint32_t packet_number = 0;
	std::uint8_t mtu = 1; // enum ibv_mtu
	std::uint16_t lid = 0;
	std::array<std::byte, 16> gid{};
	std::uint64_t address = 0; // of the ring or of the credit word
	std::uint32_t rkey = 0;
	ring_geometry ring;		   // of the receiver; the sender repeats it
	std::uint64_t size = size_unknown; // of the file, from the sender
	std::uint32_t mode = 0644;	   // its permissions, from the sender
	bool hashed = true;		   // whether both ends hash it, from the sender

	friend bool operator==(const hello &, const hello &) = default;
};

struct ready {
	friend bool operator==(const ready &, const ready &) = default;
};

struct count {
	std::uint64_t done = 0;
	std::uint64_t failed = 0;

	friend bool operator==(const count &, const count &) = default;
};

// What one end has to say about the transfer.
struct summary {
	std::uint64_t bytes = 0;
	std::uint64_t chunks = 0;
	sha256 hash{};
	count written; // its counter for RDMA_WRITE
	count arrived; // its counter for REMOTE_RDMA_WRITE

	friend bool operator==(const summary &, const summary &) = default;
};

struct done {
	summary sender;

	friend bool operator==(const done &, const done &) = default;
};

struct report {
	summary receiver;

	friend bool operator==(const report &, const report &) = default;
};

struct complaint {
	exit_status status = exit_status::failed;
	std::string text;

	friend bool operator==(const complaint &, const complaint &) = default;
};

using message = std::variant<hello, ready, done, report, complaint>;

std::vector<std::byte> encode(const message &message);

// Takes the first message off the front of what has arrived.  Nothing: it is not complete yet.  Throws failure
// (exit_status::connection) if this can never become a message.
std::optional<message> decode(std::vector<std::byte> &arrived);

} // namespace tally::cli::wire
