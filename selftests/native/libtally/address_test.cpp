// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Addresses of the command line, and sockets on them.
#include "copy/address.hpp"
#include "failure.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using namespace tally::cli;

TEST(address, has_a_host_a_port_or_both)
{
	EXPECT_EQ(parse_address(""), (host_port{"", default_port}));
	EXPECT_EQ(parse_address("host"), (host_port{"host", default_port}));
	EXPECT_EQ(parse_address("host:12"), (host_port{"host", "12"}));
	EXPECT_EQ(parse_address(":12"), (host_port{"", "12"}));
	EXPECT_EQ(parse_address("10.0.0.1:12"), (host_port{"10.0.0.1", "12"}));
	EXPECT_EQ(parse_address("::1"), (host_port{"::1", default_port}));
	EXPECT_EQ(parse_address("[::1]"), (host_port{"::1", default_port}));
	EXPECT_EQ(parse_address("[::1]:12"), (host_port{"::1", "12"}));
}

TEST(address, that_makes_no_sense_is_a_usage_error)
{
	for (const auto *text : {"host:", "[::1", "[::1]x", "[::1]:"}) {
		try {
			(void)parse_address(text);
			ADD_FAILURE() << text;
		} catch (const failure &f) {
			EXPECT_EQ(f.status(), exit_status::usage) << text;
		}
	}
}

TEST(address, a_listener_on_port_0_tells_where_it_is)
{
	const auto listener = listen_at(parse_address("127.0.0.1:0"));
	EXPECT_TRUE(listener.address.starts_with("127.0.0.1:"));
	EXPECT_FALSE(listener.address.ends_with(":0"));

	const auto near = connect_to(parse_address(listener.address), std::chrono::seconds(5));
	const auto far = accept_from(listener);
	EXPECT_TRUE(far.peer.starts_with("127.0.0.1:"));
	ASSERT_EQ(write(near.get(), "x", 1), 1);
	char byte = 0;
	EXPECT_EQ(read(far.socket.get(), &byte, 1), 1);
	EXPECT_EQ(byte, 'x');
}

TEST(address, a_listener_without_an_address_is_reached_at_all_of_them)
{
	const auto listener = listen_at(parse_address(":0"));
	const auto port = listener.address.substr(listener.address.rfind(':'));
	const auto near = connect_to(parse_address("127.0.0.1" + port), std::chrono::seconds(5));
	EXPECT_TRUE(accept_from(listener).peer.starts_with("127.0.0.1:"));
	if (!listener.address.starts_with("[::]:")) {
		EXPECT_TRUE(listener.address.starts_with("0.0.0.0:")) << listener.address;
		GTEST_SKIP() << "no IPv6 here";
	}
	const auto six = connect_to(parse_address("[::1]" + port), std::chrono::seconds(5));
	EXPECT_TRUE(accept_from(listener).peer.starts_with("[::1]:"));
}

TEST(address, where_nobody_listens_is_a_connection_error)
{
	std::string where;
	{
		where = listen_at(parse_address("127.0.0.1:0")).address;
	}
	try {
		(void)connect_to(parse_address(where), std::chrono::seconds(5));
		ADD_FAILURE();
	} catch (const failure &f) {
		EXPECT_EQ(f.status(), exit_status::connection);
		EXPECT_NE(std::string(f.what()).find("refused"), std::string::npos);
	}
}

TEST(address, a_port_that_is_taken_is_a_connection_error)
{
	const auto listener = listen_at(parse_address("127.0.0.1:0"));
	try {
		(void)listen_at(parse_address(listener.address));
		ADD_FAILURE();
	} catch (const failure &f) {
		EXPECT_EQ(f.status(), exit_status::connection);
	}
}

} // namespace
