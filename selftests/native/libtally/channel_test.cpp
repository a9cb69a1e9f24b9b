// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The socket beside a transfer.
#include "copy/control_channel.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>

namespace {

using namespace std::chrono_literals;
using namespace tally::cli;

class channel : public testing::Test {
    protected:
	channel()
	{
		int ends[2];
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		near.emplace(unique_fd(ends[0]), "the other end");
		raw = unique_fd(ends[1]);
	}

	void raw_send(const std::vector<std::byte> &bytes)
	{
		ASSERT_EQ(send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
			  static_cast<ssize_t>(bytes.size()));
	}

	template <typename Do> failure failure_of(Do &&run)
	{
		try {
			run();
		} catch (const failure &f) {
			return f;
		}
		ADD_FAILURE() << "no failure";
		return {exit_status::ok, ""};
	}

	std::optional<control_channel> near;
	unique_fd raw;
};

TEST_F(channel, carries_messages)
{
	control_channel far(std::move(raw), "this end");
	near->send(wire::ready{});
	near->send(wire::done{});
	far.receive<wire::ready>(1s);
	far.receive<wire::done>(1s);
	near->check();
	far.check();
}

TEST_F(channel, notices_a_peer_that_is_gone)
{
	near->check();
	raw.reset();
	const auto f = failure_of([&] { near->check(); });
	EXPECT_EQ(f.status(), exit_status::peer_lost);
	EXPECT_STREQ(f.what(), "the other end died or went away");
	EXPECT_TRUE(near->lost());
	EXPECT_EQ(failure_of([&] { near->receive<wire::ready>(1s); }).status(), exit_status::peer_lost);
	EXPECT_EQ(failure_of([&] { near->send(wire::ready{}); }).status(), exit_status::peer_lost);
}

TEST_F(channel, can_say_more_about_the_loss)
{
	near->explain_loss_with([] { return std::string("killed by signal 9"); });
	raw.reset();
	EXPECT_STREQ(failure_of([&] { near->check(); }).what(), "the other end died or went away (killed by signal 9)");
}

TEST_F(channel, a_complaint_is_the_failure_of_the_peer)
{
	raw_send(wire::encode(wire::complaint{exit_status::disk_full, "cannot write x"}));
	raw.reset();
	const auto f = failure_of([&] { near->check(); });
	EXPECT_EQ(f.status(), exit_status::disk_full);
	EXPECT_STREQ(f.what(), "cannot write x");
}

TEST_F(channel, a_complaint_is_found_even_when_sending_fails)
{
	raw_send(wire::encode(wire::complaint{exit_status::source, "gone"}));
	raw.reset();
	EXPECT_EQ(failure_of([&] { near->send(wire::ready{}); }).status(), exit_status::source);
}

TEST_F(channel, a_message_before_a_complaint_is_still_taken)
{
	auto both = wire::encode(wire::hello{.ring = {.slots = 2, .chunk = 1000}});
	const auto complaint = wire::encode(wire::complaint{exit_status::disk_full, "cannot write x"});
	both.insert(both.end(), complaint.begin(), complaint.end());
	raw_send(both);
	raw.reset();
	near->receive<wire::hello>(1s);
	EXPECT_EQ(failure_of([&] { near->receive<wire::ready>(1s); }).status(), exit_status::disk_full);
	EXPECT_EQ(failure_of([&] { near->check(); }).status(), exit_status::disk_full);
}

TEST_F(channel, a_last_message_before_the_end_is_not_lost)
{
	raw_send(wire::encode(wire::report{}));
	raw.reset();
	near->check(10ms);
	near->receive<wire::report>(1s);
	EXPECT_EQ(failure_of([&] { near->check(); }).status(), exit_status::peer_lost);
}

TEST_F(channel, another_message_than_expected_is_an_error)
{
	raw_send(wire::encode(wire::ready{}));
	EXPECT_EQ(failure_of([&] { near->receive<wire::hello>(1s); }).status(), exit_status::connection);
}

TEST_F(channel, garbage_is_an_error)
{
	raw_send(std::vector<std::byte>(100, std::byte{'x'}));
	EXPECT_EQ(failure_of([&] { near->receive<wire::hello>(1s); }).status(), exit_status::connection);
}

TEST_F(channel, a_silent_peer_is_not_waited_for_for_ever)
{
	const auto start = std::chrono::steady_clock::now();
	EXPECT_EQ(failure_of([&] { near->receive<wire::hello>(50ms); }).status(), exit_status::connection);
	EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
}

TEST_F(channel, a_check_gives_the_peer_the_time_it_is_told_to)
{
	std::thread later([this] {
		std::this_thread::sleep_for(50ms);
		raw.reset();
	});
	EXPECT_EQ(failure_of([&] { near->check(10s); }).status(), exit_status::peer_lost);
	later.join();
}

TEST_F(channel, a_quiet_peer_is_fine)
{
	near->check(20ms);
	EXPECT_FALSE(near->lost());
}

TEST_F(channel, complaining_to_a_peer_that_is_gone_is_harmless)
{
	raw.reset();
	near->complain(failure(exit_status::source, "x"));
	near->complain(failure(exit_status::source, "x"));
}

} // namespace
