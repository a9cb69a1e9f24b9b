// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "control_channel.hpp"
#include "interrupt.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

namespace tally::cli {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

control_channel::control_channel(unique_fd socket, std::string peer)
	: socket_(std::move(socket)), peer_(std::move(peer))
{
}

void control_channel::throw_lost()
{
	const auto more = explain_loss_ ? explain_loss_() : std::string();
	throw failure(exit_status::peer_lost,
		      fmt::format("{} died or went away{}", peer_, more.empty() ? "" : fmt::format(" ({})", more)));
}

void control_channel::throw_unexpected()
{
	throw failure(exit_status::connection, fmt::format("{} sent an unexpected message", peer_));
}

void control_channel::send(const wire::message &message)
{
	const auto bytes = wire::encode(message);
	auto left = std::span<const std::byte>{bytes};
	while (!left.empty()) {
		const auto sent = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
		if (sent >= 0) {
			left = left.subspan(static_cast<std::size_t>(sent));
		} else if (errno == EINTR) {
			throw_if_interrupted();
		} else {
			// Before it went away it may have said why.
			check();
			throw_lost();
		}
	}
}

bool control_channel::fill(milliseconds patience)
{
	pollfd wanted{.fd = socket_.get(), .events = POLLIN, .revents = 0};
	const int ready = poll(&wanted, 1, static_cast<int>(patience.count()));
	throw_if_interrupted();
	if (ready <= 0)
		return false;

	std::array<std::byte, 4096> buffer;
	const auto got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
	if (got > 0) {
		arrived_.insert(arrived_.end(), buffer.begin(), buffer.begin() + got);
		take_apart();
		return true;
	}
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	closed_ = true;
	return true;
}

void control_channel::take_apart()
{
	while (auto message = wire::decode(arrived_)) {
		if (const auto *complaint = std::get_if<wire::complaint>(&*message)) {
			complaint_.emplace(complaint->status, complaint->text);
			return;
		}
		messages_.push_back(std::move(*message));
	}
}

wire::message control_channel::next(milliseconds patience)
{
	// Slices: a signal that comes just before poll() is seen soon all the same.
	constexpr milliseconds slice{100};
	const auto start = clock::now();
	while (messages_.empty()) {
		if (complaint_)
			throw failure(*complaint_);
		if (closed_)
			throw_lost();
		const auto waited = std::chrono::duration_cast<milliseconds>(clock::now() - start);
		if (waited >= patience)
			throw failure(exit_status::connection, fmt::format("{} does not answer", peer_));
		fill(std::min(slice, patience - waited));
	}
	auto message = std::move(messages_.front());
	messages_.pop_front();
	return message;
}

void control_channel::check(milliseconds patience)
{
	const auto start = clock::now();
	for (;;) {
		const auto waited = std::chrono::duration_cast<milliseconds>(clock::now() - start);
		const bool news = !closed_ && fill(std::max(milliseconds::zero(), patience - waited));
		if (complaint_)
			throw failure(*complaint_);
		// A message that is still to be taken is not spoiled by an end behind it.
		if (closed_ && messages_.empty())
			throw_lost();
		if (closed_ || (!news && clock::now() - start >= patience))
			return;
	}
}

void control_channel::complain(const failure &why) noexcept
try {
	if (!closed_ && socket_)
		send(wire::complaint{.status = why.status(), .text = why.what()});
} catch (...) {
	// It will notice the end of the connection.
}

} // namespace tally::cli
