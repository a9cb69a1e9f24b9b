// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A data path in the memory of one process: writes arrive at once, counters are integers.
#pragma once

#include "copy/data_path.hpp"
#include "failure.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace tally::test {

// What the two ends share.
struct memory_wire {
	explicit memory_wire(const cli::ring_geometry &r) : ring(r), memory(r.bytes()) {}

	struct end {
		std::uint64_t arrived = 0;
		std::uint64_t written = 0;
	};

	cli::ring_geometry ring;
	std::vector<std::byte> memory; // the receiver's ring
	std::mutex lock;
	std::condition_variable changed;
	end sender, receiver;

	// Faults.
	std::uint64_t spoil_chunk = UINT64_MAX;	   // a bit of its payload flips on the way
	std::uint64_t spoil_header = UINT64_MAX;   // of its header
	std::uint64_t break_at_chunk = UINT64_MAX; // this write fails
	std::uint64_t most_in_flight = 0;	   // what was seen
	bool broken = false;
};

class memory_path final : public cli::data_path {
    public:
	memory_path(memory_wire &wire, bool sender)
		: wire_(wire), mine_(sender ? wire.sender : wire.receiver),
		  other_(sender ? wire.receiver : wire.sender), staging_(sender ? wire.ring.bytes() : 0)
	{
	}

	cli::wire::hello describe() const override
	{
		cli::wire::hello hello;
		hello.role = staging_.empty() ? cli::wire::role::receiver : cli::wire::role::sender;
		hello.ring = wire_.ring;
		return hello;
	}

	void connect(const cli::wire::hello &) override {}

	std::span<std::byte> slot(std::uint64_t sequence) override
	{
		auto &memory = staging_.empty() ? wire_.memory : staging_;
		return std::span{memory}.subspan(wire_.ring.offset(sequence),
						 cli::ring_geometry::header_bytes + wire_.ring.chunk);
	}

	void push_chunk(std::uint64_t sequence, std::size_t bytes) override
	{
		const std::scoped_lock guard{wire_.lock};
		if (sequence == wire_.break_at_chunk)
			wire_.broken = true;
		auto to = std::span{wire_.memory}.subspan(wire_.ring.offset(sequence));
		std::ranges::copy(slot(sequence).first(bytes), to.begin());
		if (sequence == wire_.spoil_chunk)
			to[cli::ring_geometry::header_bytes] ^= std::byte{1};
		if (sequence == wire_.spoil_header)
			to[0] ^= std::byte{1};
		wire_.most_in_flight = std::max(wire_.most_in_flight, other_.arrived + 1 - mine_.arrived);
		finish();
	}

	void push_credit(std::uint64_t) override
	{
		const std::scoped_lock guard{wire_.lock};
		finish();
	}

	bool wait_arrived(std::uint64_t writes, std::chrono::nanoseconds timeout) override
	{
		return wait(mine_.arrived, writes, timeout);
	}

	bool wait_written(std::uint64_t writes, std::chrono::nanoseconds timeout) override
	{
		return wait(mine_.written, writes, timeout);
	}

	cli::wire::count arrived() override { return {.done = mine_.arrived, .failed = 0}; }
	cli::wire::count written() override { return {.done = mine_.written, .failed = 0}; }

    private:
	void finish()
	{
		++other_.arrived;
		++mine_.written;
		wire_.changed.notify_all();
	}

	bool wait(const std::uint64_t &count, std::uint64_t target, std::chrono::nanoseconds timeout)
	{
		std::unique_lock guard{wire_.lock};
		const bool reached =
			wire_.changed.wait_for(guard, timeout, [&] { return wire_.broken || count >= target; });
		if (wire_.broken)
			throw cli::failure(cli::exit_status::rdma,
					   "an RDMA WRITE failed: transport retry counter exceeded");
		return reached;
	}

	memory_wire &wire_;
	memory_wire::end &mine_;
	memory_wire::end &other_;
	std::vector<std::byte> staging_;
};

} // namespace tally::test
