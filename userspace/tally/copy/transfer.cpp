// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "transfer.hpp"
#include "digest.hpp"
#include "interrupt.hpp"

#include <fmt/format.h>

namespace tally::cli {
namespace {

using clock = std::chrono::steady_clock;

// How long a wait for a counter goes on before the control channel is looked at.
constexpr std::chrono::milliseconds patience{50};

// How long to wait for the other end's own words when RDMA has failed.
constexpr std::chrono::milliseconds grace{1000};

double seconds_since(clock::time_point start)
{
	return std::chrono::duration<double>(clock::now() - start).count();
}

// Repeats a wait until it is over, and looks between whether the other end is still there.
template <typename Wait> void await(control_channel &control, Wait &&wait)
{
	try {
		while (!wait(patience)) {
			throw_if_interrupted();
			control.check();
		}
	} catch (const failure &f) {
		// A broken transfer is mostly the consequence of something that the other end can tell better.
		if (f.status() == exit_status::rdma)
			control.check(grace);
		throw;
	}
}

void await_arrived(control_channel &control, data_path &path, std::uint64_t writes)
{
	await(control, [&](auto timeout) { return path.wait_arrived(writes, timeout); });
}

void await_written(control_channel &control, data_path &path, std::uint64_t writes)
{
	await(control, [&](auto timeout) { return path.wait_written(writes, timeout); });
}

wire::summary summary_of(data_path &path, std::uint64_t bytes, std::uint64_t chunks, const sha256 &hash)
{
	return {.bytes = bytes, .chunks = chunks, .hash = hash, .written = path.written(), .arrived = path.arrived()};
}

void compare(const wire::summary &sender, const wire::summary &receiver)
{
	if (sender.bytes != receiver.bytes || sender.hash != receiver.hash)
		throw failure(exit_status::mismatch,
			      fmt::format("what arrived is not what was sent: {} bytes, SHA-256 {} were sent, {} "
					  "bytes, {} arrived",
					  sender.bytes, to_hex(sender.hash), receiver.bytes, to_hex(receiver.hash)));
}

} // namespace

outcome send_file(source &from, data_path &path, control_channel &control, const ring_geometry &ring, bool hashed,
		  progress &bar)
{
	const auto start = clock::now();
	digest hash(hashed);
	std::uint64_t bytes = 0;
	std::uint64_t chunks = 0;

	for (bool last = false; !last; ++chunks) {
		throw_if_interrupted(); // where both ends keep up, nobody waits
		// The slot is free at the other end, and this end's copy of it has been sent.
		await_arrived(control, path, ring.credits_needed(chunks));
		await_written(control, path, ring.credits_needed(chunks));

		const auto slot = path.slot(chunks);
		const auto payload = slot.subspan(ring_geometry::header_bytes, ring.chunk);
		const auto length = from.read(payload, [&] { control.check(); });
		last = length < payload.size();
		hash.update(payload.first(length));
		chunk_header{.sequence = chunks, .length = static_cast<std::uint32_t>(length), .last = last}.write(
			slot.first<chunk_header::bytes>());

		path.push_chunk(chunks, ring_geometry::header_bytes + length);
		bytes += length;
		bar.update(bytes);
	}
	await_arrived(control, path, chunks);
	await_written(control, path, chunks);

	const auto sender = summary_of(path, bytes, chunks, hash.finish());
	control.send(wire::done{.sender = sender});
	const auto receiver = control.receive<wire::report>().receiver;
	compare(sender, receiver);
	return {.sender = sender, .receiver = receiver, .hashed = hashed, .seconds = seconds_since(start)};
}

outcome receive_file(destination &to, data_path &path, control_channel &control, const ring_geometry &ring,
		     const wire::hello &peer, progress &bar)
{
	const auto start = clock::now();
	digest hash(peer.hashed);
	std::uint64_t bytes = 0;
	std::uint64_t chunks = 0;

	for (bool last = false; !last; ++chunks) {
		throw_if_interrupted();
		await_arrived(control, path, chunks + 1);

		const auto slot = path.slot(chunks);
		const auto header = chunk_header::read(slot.first<chunk_header::bytes>(), chunks, ring);
		if (!header)
			throw failure(exit_status::connection,
				      fmt::format("chunk {} of {} is damaged", chunks, control.peer()));
		const auto payload = slot.subspan(ring_geometry::header_bytes, header->length);
		hash.update(payload);
		to.write(payload, [&] { control.check(); });
		last = header->last;

		await_written(control, path, ring.credits_needed(chunks));
		path.push_credit(chunks);
		bytes += header->length;
		bar.update(bytes);
	}
	await_written(control, path, chunks);

	const auto sender = control.receive<wire::done>().sender;
	const auto receiver = summary_of(path, bytes, chunks, hash.finish());
	compare(sender, receiver);
	to.keep(peer.mode);
	control.send(wire::report{.receiver = receiver});
	return {.sender = sender, .receiver = receiver, .hashed = peer.hashed, .seconds = seconds_since(start)};
}

} // namespace tally::cli
