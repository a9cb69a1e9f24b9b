// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a copy needs of RDMA: slots of a ring, writes to the other end, and two counters to wait on.
//
// The sender pushes chunks into the receiver's ring, the receiver pushes credits into a word of the sender.  Each
// side sees the other's writes only through its counter of arrived writes, and the end of its own only through its
// counter of finished writes.
#pragma once

#include "wire.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace tally::cli {

class data_path {
    public:
	virtual ~data_path() = default;

	// What the other end has to know of this one.
	virtual wire::hello describe() const = 0;

	// Connects to the end that has described itself so.
	virtual void connect(const wire::hello &peer) = 0;

	// Where chunk number n is put together (sender) or has arrived (receiver).
	virtual std::span<std::byte> slot(std::uint64_t sequence) = 0;

	// Writes the first bytes of that slot to the other end.
	virtual void push_chunk(std::uint64_t sequence, std::size_t bytes) = 0;

	// Gives the slot of that chunk back to the sender.
	virtual void push_credit(std::uint64_t sequence) = 0;

	// Waits until that many writes of the other end have arrived here, or that many of this end's have finished.
	// False: not yet, when the time is over or a signal came.  Throws failure when a write has failed.
	virtual bool wait_arrived(std::uint64_t writes, std::chrono::nanoseconds timeout) = 0;
	virtual bool wait_written(std::uint64_t writes, std::chrono::nanoseconds timeout) = 0;

	virtual wire::count arrived() = 0;
	virtual wire::count written() = 0;
};

// Makes an end of a path.
using path_maker = std::function<std::unique_ptr<data_path>(wire::role role, const ring_geometry &ring)>;

} // namespace tally::cli
