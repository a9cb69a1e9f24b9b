// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Both ends of a copy against each other, over a data path in memory.
#include "copy/session.hpp"
#include "copy/transfer.hpp"
#include "interrupt.hpp"
#include "memory_path.hpp"
#include "temporary_folder.hpp"

#include <csignal>
#include <deque>
#include <fcntl.h>
#include <future>
#include <gtest/gtest.h>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>

namespace {

using namespace std::chrono_literals;
using namespace tally::cli;
using tally::test::memory_path;
using tally::test::memory_wire;
using tally::test::read_file;
using tally::test::temporary_folder;
using tally::test::write_file;

struct ended {
	exit_status status = exit_status::ok;
	std::string text;
	outcome result;
};

template <typename Run> ended end_of(control_channel &control, Run &&run)
{
	try {
		return {exit_status::ok, "", run()};
	} catch (const failure &f) {
		control.complain(f);
		return {f.status(), f.what(), {}};
	}
}

std::string noise(std::size_t size)
{
	std::mt19937 random(static_cast<unsigned>(size));
	std::string text(size, '\0');
	for (auto &c : text)
		c = static_cast<char>(random());
	return text;
}

class copy : public testing::Test {
    protected:
	// Runs both ends, the receiver in a thread of its own.
	void run(const std::string &from, const std::string &to, std::optional<std::uint64_t> size = std::nullopt,
		 bool hashed = true)
	{
		int ends[2];
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		std::thread other([&, fd = ends[1]] {
			control_channel control(unique_fd(fd), "the sender");
			receiver = end_of(control, [&] {
				destination file(to, "name");
				memory_path path(wire, false);
				progress bar(std::nullopt, false);
				wire::hello peer;
				peer.hashed = hashed;
				return receive_file(file, path, control, this->wire.ring, peer, bar);
			});
		});
		{
			control_channel control(unique_fd(ends[0]), "the receiver");
			sender = end_of(control, [&] {
				source file(from, size);
				memory_path path(wire, true);
				progress bar(file.size(), false);
				return send_file(file, path, control, wire.ring, hashed, bar);
			});
		}
		other.join();
	}

	void expect_failure(exit_status sender_status, exit_status receiver_status)
	{
		EXPECT_EQ(sender.status, sender_status) << sender.text;
		EXPECT_EQ(receiver.status, receiver_status) << receiver.text;
	}

	temporary_folder folder;
	memory_wire wire{ring_geometry{.slots = 4, .chunk = 1000}};
	ended sender, receiver;
};

class copy_sizes : public copy, public testing::WithParamInterface<std::size_t> {};

TEST_P(copy_sizes, arrive_whole)
{
	const auto contents = noise(GetParam());
	write_file(folder / "a", contents);
	run(folder / "a", folder / "b");
	expect_failure(exit_status::ok, exit_status::ok);
	EXPECT_EQ(read_file(folder / "b"), contents);

	const auto chunks = GetParam() / 1000 + 1;
	EXPECT_EQ(sender.result.sender.bytes, GetParam());
	EXPECT_EQ(sender.result.sender.chunks, chunks);
	EXPECT_EQ(sender.result.sender.written, (wire::count{chunks, 0}));
	EXPECT_EQ(sender.result.sender.arrived, (wire::count{chunks, 0})) << "a credit for each";
	EXPECT_EQ(sender.result.receiver, receiver.result.receiver);
	EXPECT_EQ(receiver.result.sender, sender.result.sender);
	EXPECT_EQ(receiver.result.receiver.written, (wire::count{chunks, 0}));
	EXPECT_LE(wire.most_in_flight, wire.ring.slots);
}

INSTANTIATE_TEST_SUITE_P(of, copy_sizes, testing::Values(0, 1, 7, 999, 1000, 1001, 3999, 4000, 4001, 123'457));

TEST_F(copy, of_a_part_is_that_part)
{
	const auto contents = noise(5000);
	write_file(folder / "a", contents);
	run(folder / "a", folder / "b", 2000);
	expect_failure(exit_status::ok, exit_status::ok);
	EXPECT_EQ(read_file(folder / "b"), contents.substr(0, 2000));
}

TEST_F(copy, without_a_hash_is_compared_by_its_size)
{
	const auto contents = noise(5000);
	write_file(folder / "a", contents);
	run(folder / "a", folder / "b", std::nullopt, false);
	expect_failure(exit_status::ok, exit_status::ok);
	EXPECT_EQ(read_file(folder / "b"), contents);
	EXPECT_FALSE(sender.result.hashed || receiver.result.hashed);
	EXPECT_EQ(sender.result.sender.hash, sha256{});
}

TEST_F(copy, of_something_without_a_size_ends_with_it)
{
	run("/proc/self/status", folder / "b");
	expect_failure(exit_status::ok, exit_status::ok);
	EXPECT_NE(read_file(folder / "b").find("Name:"), std::string::npos);
}

TEST_F(copy, that_is_damaged_on_the_way_is_not_kept)
{
	write_file(folder / "a", noise(10'000));
	wire.spoil_chunk = 5;
	run(folder / "a", folder / "b");
	expect_failure(exit_status::mismatch, exit_status::mismatch);
	EXPECT_NE(sender.text.find("SHA-256"), std::string::npos);
	EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(copy, with_a_damaged_header_is_not_kept)
{
	write_file(folder / "a", noise(10'000));
	wire.spoil_header = 7;
	run(folder / "a", folder / "b");
	expect_failure(exit_status::connection, exit_status::connection);
	EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(copy, to_a_full_disk_ends_both)
{
	write_file(folder / "a", noise(100'000));
	run(folder / "a", "/dev/full");
	expect_failure(exit_status::disk_full, exit_status::disk_full);
	EXPECT_EQ(sender.text, receiver.text) << "the sender's user learns the same";
}

TEST_F(copy, to_where_nothing_can_be_ends_both)
{
	write_file(folder / "a", noise(100'000));
	run(folder / "a", folder / "missing/b");
	expect_failure(exit_status::destination, exit_status::destination);
}

TEST_F(copy, from_what_cannot_be_read_ends_both)
{
	run("/proc/self/mem", folder / "b");
	expect_failure(exit_status::source, exit_status::source);
	EXPECT_EQ(folder.entries(), 0u);
}

TEST_F(copy, whose_transfer_breaks_ends_both_and_leaves_nothing)
{
	write_file(folder / "a", noise(100'000));
	wire.break_at_chunk = 6;
	run(folder / "a", folder / "b");
	EXPECT_NE(sender.status, exit_status::ok);
	EXPECT_NE(receiver.status, exit_status::ok);
	EXPECT_EQ(folder.entries(), 1u);
}

// One end alone, the other is silent or gone.
class half_a_copy : public testing::Test {
    protected:
	half_a_copy()
	{
		int ends[2];
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		near = unique_fd(ends[0]);
		far = unique_fd(ends[1]);
	}

	temporary_folder folder;
	memory_wire wire{ring_geometry{.slots = 4, .chunk = 1000}};
	unique_fd near, far;
};

TEST_F(half_a_copy, a_sender_whose_receiver_dies_ends_soon)
{
	write_file(folder / "a", noise(100'000));
	std::thread death([&] {
		std::this_thread::sleep_for(100ms);
		far.reset();
	});
	const auto start = std::chrono::steady_clock::now();
	control_channel control(std::move(near), "the receiver");
	const auto sender = end_of(control, [&] {
		source file(folder / "a", std::nullopt);
		memory_path path(wire, true);
		progress bar(file.size(), false);
		return send_file(file, path, control, wire.ring, true, bar);
	});
	death.join();
	EXPECT_EQ(sender.status, exit_status::peer_lost);
	EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
	EXPECT_EQ(wire.receiver.arrived, wire.ring.slots) << "it waited for credits";
}

TEST_F(half_a_copy, a_receiver_whose_sender_dies_ends_soon_and_leaves_nothing)
{
	std::thread death([&] {
		std::this_thread::sleep_for(100ms);
		far.reset();
	});
	control_channel control(std::move(near), "the sender");
	const auto receiver = end_of(control, [&] {
		destination file(folder / "b", "");
		memory_path path(wire, false);
		progress bar(std::nullopt, false);
		return receive_file(file, path, control, this->wire.ring, wire::hello{}, bar);
	});
	death.join();
	EXPECT_EQ(receiver.status, exit_status::peer_lost);
	EXPECT_EQ(folder.entries(), 0u);
}

TEST_F(half_a_copy, a_broken_transfer_is_explained_by_the_peers_death)
{
	write_file(folder / "a", noise(100'000));
	wire.broken = true;
	far.reset();
	control_channel control(std::move(near), "the receiver");
	const auto sender = end_of(control, [&] {
		source file(folder / "a", std::nullopt);
		memory_path path(wire, true);
		progress bar(file.size(), false);
		return send_file(file, path, control, wire.ring, true, bar);
	});
	EXPECT_EQ(sender.status, exit_status::peer_lost);
}

// The other end is always ready, for as long as this one goes on; at one chunk comes a signal.
class endless_path final : public data_path {
    public:
	static constexpr ring_geometry ring{.slots = 4, .chunk = 1000};
	std::uint64_t signal_at = 10;

	wire::hello describe() const override { return {}; }
	void connect(const wire::hello &) override {}

	std::span<std::byte> slot(std::uint64_t sequence) override
	{
		chunk_header{.sequence = sequence, .length = ring.chunk, .last = false}.write(
			std::span{memory_}.first<chunk_header::bytes>());
		return memory_;
	}

	void push_chunk(std::uint64_t sequence, std::size_t) override { push_credit(sequence); }

	void push_credit(std::uint64_t sequence) override
	{
		pushed = sequence;
		if (sequence == signal_at)
			raise(SIGTERM);
		if (sequence > signal_at + 100)
			throw failure(exit_status::failed, "the signal was not noticed");
	}

	bool wait_arrived(std::uint64_t, std::chrono::nanoseconds) override { return true; }
	bool wait_written(std::uint64_t, std::chrono::nanoseconds) override { return true; }
	wire::count arrived() override { return {}; }
	wire::count written() override { return {}; }

	std::uint64_t pushed = 0;

    private:
	std::vector<std::byte> memory_ = std::vector<std::byte>(ring_geometry::header_bytes + ring.chunk);
};

// That a signal came stays known to the process, so these end one each.
class an_interrupt : public half_a_copy {
    protected:
	template <typename Run> void expect_end_of(Run &&run)
	{
		EXPECT_EXIT(
			{
				catch_interrupts();
				endless_path path;
				control_channel control(std::move(near), "the other end");
				const auto end = end_of(control, [&] { return run(path, control); });
				std::fputs(end.text.c_str(), stderr);
				std::_Exit(end.status == exit_status::interrupted && path.pushed == path.signal_at ? 0 : 1);
			},
			testing::ExitedWithCode(0), "interrupted");
	}
};

TEST_F(an_interrupt, ends_a_sender_that_never_has_to_wait)
{
	expect_end_of([](auto &path, auto &control) {
		source file("/dev/zero", std::uint64_t{1} << 40);
		progress bar(file.size(), false);
		return send_file(file, path, control, endless_path::ring, true, bar);
	});
}

TEST_F(an_interrupt, ends_a_receiver_that_never_has_to_wait)
{
	expect_end_of([&](auto &path, auto &control) {
		destination file(folder / "b", "");
		progress bar(std::nullopt, false);
		return receive_file(file, path, control, endless_path::ring, wire::hello{}, bar);
	});
	EXPECT_EQ(folder.entries(), 0u);
}

// A listener at a real socket, and those who connect to it.
class listening : public testing::Test {
    protected:
	listening()
	{
		options.ring = {.slots = 4, .chunk = 1000};
		options.quiet = true;
	}

	~listening() override
	{
		if (other.joinable())
			other.join();
	}

	void listen(const std::string &to)
	{
		other = std::thread([this, to] {
			try {
				destination file(to, "");
				receiver.result = receive_from_anyone(listener, file, options, receiving);
			} catch (const failure &f) {
				receiver.status = f.status();
				receiver.text = f.what();
			}
		});
	}

	control_channel connection()
	{
		return {connect_to(parse_address(listener.address), 5s), "the receiver"};
	}

	// Sends that file; a chunk's header is damaged on the way if one is named.
	ended send(const std::string &from, std::uint64_t spoil_header = UINT64_MAX)
	{
		ended sender;
		auto control = connection();
		try {
			source file(from, std::nullopt);
			sender.result = run_sender(control, file, options, [&](wire::role, const ring_geometry &) {
				wires.back().spoil_header = spoil_header;
				return std::make_unique<memory_path>(wires.back(), true);
			});
		} catch (const failure &f) {
			sender.status = f.status();
			sender.text = f.what();
		}
		return sender;
	}

	temporary_folder folder;
	copy_options options;
	tally::cli::listener listener = listen_at(parse_address("127.0.0.1:0"));
	std::deque<memory_wire> wires; // one for each who has connected
	path_maker receiving = [this](wire::role, const ring_geometry &ring) {
		return std::make_unique<memory_path>(wires.emplace_back(ring), false);
	};
	ended receiver;
	std::thread other;
};

TEST_F(listening, starts_anew_with_the_next_sender_when_one_has_failed_in_the_middle)
{
	const auto contents = noise(5'500);
	write_file(folder / "broken", noise(20'000));
	write_file(folder / "a", contents);
	listen(folder / "b");
	EXPECT_EQ(send(folder / "broken", 7).status, exit_status::connection);
	EXPECT_EQ(send(folder / "broken", 0).status, exit_status::connection);
	const auto sender = send(folder / "a");
	other.join();
	EXPECT_EQ(sender.status, exit_status::ok) << sender.text;
	EXPECT_EQ(receiver.status, exit_status::ok) << receiver.text;
	EXPECT_EQ(receiver.result.receiver.bytes, contents.size());
	EXPECT_EQ(read_file(folder / "b"), contents);
	EXPECT_EQ(folder.entries(), 3u);
}

TEST_F(listening, ends_when_a_sender_has_failed_and_a_pipe_has_got_some_of_its_file)
{
	write_file(folder / "broken", noise(20'000));
	ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
	listen(folder / "pipe");
	const auto got = std::async(std::launch::async, [&] { return read_file(folder / "pipe"); });
	EXPECT_EQ(send(folder / "broken", 7).status, exit_status::connection);
	other.join();
	EXPECT_EQ(receiver.status, exit_status::connection);
}

TEST_F(listening, goes_on_when_a_sender_has_failed_before_a_pipe_has_got_anything)
{
	const auto contents = noise(5'500);
	write_file(folder / "a", contents);
	ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
	listen(folder / "pipe");
	auto got = std::async(std::launch::async, [&] { return read_file(folder / "pipe"); });
	EXPECT_EQ(send(folder / "a", 0).status, exit_status::connection);
	EXPECT_EQ(send(folder / "a").status, exit_status::ok);
	other.join();
	EXPECT_EQ(receiver.status, exit_status::ok) << receiver.text;
	EXPECT_EQ(got.get(), contents);
}

TEST_F(listening, does_not_end_with_those_who_never_say_that_they_send)
{
	const auto contents = noise(5'500);
	write_file(folder / "a", contents);
	listen(folder / "b");
	(void)connection(); // only a look whether the port is open
	for (const auto status : {exit_status::failed, exit_status::disk_full, exit_status::interrupted})
		connection().send(wire::complaint{.status = status, .text = "a stranger"});
	connection().send(wire::ready{});
	connection().send(wire::hello{.role = wire::role::receiver, .ring = options.ring});
	const auto sender = send(folder / "a");
	other.join();
	EXPECT_EQ(sender.status, exit_status::ok) << sender.text;
	EXPECT_EQ(receiver.status, exit_status::ok) << receiver.text;
	EXPECT_EQ(read_file(folder / "b"), contents);
}

TEST_F(listening, ends_with_a_sender_that_has_begun_and_gives_up)
{
	listen(folder / "b");
	auto sender = connection();
	auto hello = sender.receive<wire::hello>(5s);
	hello.role = wire::role::sender;
	sender.send(hello);
	sender.send(wire::complaint{.status = exit_status::source, .text = "cannot read x"});
	other.join();
	EXPECT_EQ(receiver.status, exit_status::source);
	EXPECT_EQ(receiver.text, "cannot read x");
	EXPECT_EQ(folder.entries(), 0u);
}

TEST_F(listening, ends_when_this_end_cannot_do_its_part)
{
	receiving = [](wire::role, const ring_geometry &) -> std::unique_ptr<data_path> {
		throw failure(exit_status::rdma, "cannot pin memory");
	};
	listen(folder / "b");
	auto sender = connection();
	other.join();
	EXPECT_EQ(receiver.status, exit_status::rdma);
	EXPECT_EQ(folder.entries(), 0u);
}

// A pipe that nobody reads from does not keep a receiver from seeing what happens.
TEST_F(half_a_copy, into_a_full_pipe_ends_with_its_sender)
{
	ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
	const unique_fd reader(open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
	std::thread death([&] {
		std::this_thread::sleep_for(200ms);
		far.reset();
	});
	control_channel control(std::move(near), "the sender");
	endless_path path;
	path.signal_at = UINT64_MAX - 1'000;
	const auto receiver = end_of(control, [&] {
		destination file(folder / "pipe", "");
		progress bar(std::nullopt, false);
		return receive_file(file, path, control, endless_path::ring, wire::hello{}, bar);
	});
	death.join();
	EXPECT_EQ(receiver.status, exit_status::peer_lost);
}

TEST_F(an_interrupt, ends_a_receiver_whose_pipe_is_full)
{
	ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
	const unique_fd reader(open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
	EXPECT_EXIT(
		{
			catch_interrupts();
			endless_path path;
			path.signal_at = UINT64_MAX - 1'000;
			control_channel control(std::move(near), "the other end");
			const auto main = pthread_self();
			std::thread signal([main] {
				std::this_thread::sleep_for(200ms);
				pthread_kill(main, SIGTERM);
			});
			const auto end = end_of(control, [&] {
				destination file(folder / "pipe", "");
				progress bar(std::nullopt, false);
				return receive_file(file, path, control, endless_path::ring, wire::hello{}, bar);
			});
			std::fputs(end.text.c_str(), stderr);
			std::_Exit(end.status == exit_status::interrupted ? 0 : 1);
		},
		testing::ExitedWithCode(0), "interrupted");
}

} // namespace
