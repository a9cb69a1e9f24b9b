// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "session.hpp"
#include "interrupt.hpp"

#include <fmt/format.h>
#include <utility>

namespace tally::cli {
namespace {

// For an answer that needs no work but setting up a few objects.
constexpr std::chrono::seconds soon{30};

template <typename Run> outcome telling_the_peer(control_channel &control, Run &&run)
{
	try {
		return run();
	} catch (const failure &why) {
		control.complain(why);
		throw;
	} catch (const std::exception &why) {
		control.complain(failure(exit_status::failed, why.what()));
		throw;
	}
}

void connect(data_path &path, control_channel &control, const wire::hello &peer)
{
	path.connect(peer);
	control.send(wire::ready{});
	control.receive<wire::ready>(soon);
}

void expect_role(const wire::hello &peer, wire::role role)
{
	if (peer.role != role)
		throw failure(exit_status::connection,
			      "both ends want to do the same: one listens, the other connects");
}

// What comes before the sender's hello may come from anyone.
wire::hello introduce(control_channel &control, const data_path &receiver)
{
	try {
		control.send(receiver.describe());
		const auto peer = control.receive<wire::hello>(soon);
		expect_role(peer, wire::role::sender);
		return peer;
	} catch (const failure &why) {
		if (interrupted())
			throw;
		throw no_sender(why.status(), why.what());
	}
}

} // namespace

outcome run_sender(control_channel &control, source &from, const copy_options &options, const path_maker &make_path)
{
	return telling_the_peer(control, [&] {
		const auto peer = control.receive<wire::hello>(soon);
		expect_role(peer, wire::role::receiver);

		const auto path = make_path(wire::role::sender, peer.ring);
		auto hello = path->describe();
		hello.size = from.size().value_or(wire::size_unknown);
		hello.mode = from.mode();
		hello.hashed = options.hashed;
		control.send(hello);
		connect(*path, control, peer);

		progress bar(from.size(), !options.quiet);
		return send_file(from, *path, control, peer.ring, options.hashed, bar);
	});
}

outcome run_receiver(control_channel &control, destination &to, const copy_options &options,
		     const path_maker &make_path, bool show_progress)
{
	return telling_the_peer(control, [&] {
		const auto path = make_path(wire::role::receiver, options.ring);
		const auto peer = introduce(control, *path);
		if (peer.ring != options.ring)
			throw failure(exit_status::connection, "the sender has misunderstood the ring");
		connect(*path, control, peer);

		progress bar(peer.size == wire::size_unknown ? std::nullopt : std::optional{peer.size},
			     show_progress && !options.quiet);
		return receive_file(to, *path, control, options.ring, peer, bar);
	});
}

outcome receive_from_anyone(const listener &listener, destination &to, const copy_options &options,
			    const path_maker &make_path)
{
	for (;;) {
		auto [connection, peer] = accept_from(listener);
		control_channel control(std::move(connection), fmt::format("the sender at {}", peer));
		try {
			return run_receiver(control, to, options, make_path, true);
		} catch (const no_sender &why) {
			fmt::print(stderr, "tally: {}: {}\n", peer, why.what());
		} catch (const failure &why) {
			if (why.status() != exit_status::connection || !to.start_over())
				throw;
			fmt::print(stderr, "tally: {}: {}\n", peer, why.what());
		}
	}
}

void print_outcome(const outcome &result)
{
	const auto &[sender, receiver, hashed, seconds] = result;
	fmt::print("copied {} bytes in {} chunks, {:.3f} s: {}/s\n", sender.bytes, sender.chunks, seconds,
		   human_bytes(seconds > 0 ? static_cast<double>(sender.bytes) / seconds : 0));
	for (const auto &[name, end] : {std::pair{"sender", &sender}, std::pair{"receiver", &receiver}})
		if (hashed)
			fmt::print("{:<8}  SHA-256 {}\n", name, to_hex(end->hash));
	for (const auto &[name, end] : {std::pair{"sender", &sender}, std::pair{"receiver", &receiver}})
		fmt::print("{:<8}  RDMA_WRITE {} done, {} failed; REMOTE_RDMA_WRITE {} done, {} failed\n", name,
			   end->written.done, end->written.failed, end->arrived.done, end->arrived.failed);
}

} // namespace tally::cli
