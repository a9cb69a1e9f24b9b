// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The socket beside the RDMA transfer: messages, and the news that the other end is gone.
#pragma once

#include "unique_fd.hpp"
#include "wire.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace tally::cli {

class control_channel {
    public:
	// A connected stream socket, and how messages to the user call the other end.
	control_channel(unique_fd socket, std::string peer);

	void send(const wire::message &message);

	// The next message, which has to be of this kind.  Throws failure: a complaint of the other end with its own
	// status; peer_lost: it is gone; connection: it sends something else, or nothing in time.
	template <typename Message>
	Message receive(std::chrono::milliseconds patience = std::chrono::milliseconds::max())
	{
		auto message = next(patience);
		auto *wanted = std::get_if<Message>(&message);
		if (!wanted)
			throw_unexpected();
		return std::move(*wanted);
	}

	// Throws as receive() does if the other end complains or is gone; waits for that no longer than told.
	void check(std::chrono::milliseconds patience = std::chrono::milliseconds::zero());

	// Tells the other end why this one gives up, if it can still be told.
	void complain(const failure &why) noexcept;

	// Says more about a peer that is gone, such as the signal that killed it.
	void explain_loss_with(std::function<std::string()> explain) { explain_loss_ = std::move(explain); }

	// Whether the other end is gone, as far as is known.
	bool lost() const noexcept { return closed_; }

	const std::string &peer() const noexcept { return peer_; }

    private:
	wire::message next(std::chrono::milliseconds patience);
	// Takes in what has arrived; false: nothing came in time.
	bool fill(std::chrono::milliseconds patience);
	void take_apart();
	[[noreturn]] void throw_lost();
	[[noreturn]] void throw_unexpected();

	unique_fd socket_;
	std::string peer_;
	std::function<std::string()> explain_loss_;
	std::vector<std::byte> arrived_;
	std::deque<wire::message> messages_;
	std::optional<failure> complaint_; // behind those messages
	bool closed_ = false;
};

} // namespace tally::cli
