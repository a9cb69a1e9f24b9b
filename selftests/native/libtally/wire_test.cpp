// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages between the two ends of a copy, friendly and hostile.
#include "copy/wire.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace {

using namespace tally::cli;
using bytes = std::vector<std::byte>;

wire::hello some_hello()
{
	wire::hello m;
	m.role = wire::role::receiver;
	m.qp_number = 0xabcdef;
	m.packet_number = 0x123456;
	m.mtu = 3;
	m.lid = 7;
	m.gid[0] = std::byte{0xfe};
	m.gid[15] = std::byte{1};
	m.address = 0x7fff12345678;
	m.rkey = 0x99;
	m.ring = {.slots = 16, .chunk = 65536};
	m.size = 1 << 30;
	m.mode = 0750;
	m.hashed = false;
	return m;
}

wire::summary some_summary()
{
	wire::summary m{.bytes = 10, .chunks = 2, .hash = {}, .written = {2, 0}, .arrived = {2, 1}};
	m.hash[31] = std::byte{0x5a};
	return m;
}

const wire::message all_messages[] = {
	some_hello(), wire::ready{}, wire::done{some_summary()}, wire::report{some_summary()},
	wire::complaint{exit_status::disk_full, "cannot write x: No space left on device"}};

exit_status status_of(bytes arrived)
{
	try {
		(void)wire::decode(arrived);
	} catch (const failure &f) {
		return f.status();
	}
	return exit_status::ok;
}

TEST(wire, messages_arrive_as_they_were_sent)
{
	for (const auto &message : all_messages) {
		auto arrived = wire::encode(message);
		const auto decoded = wire::decode(arrived);
		ASSERT_TRUE(decoded);
		EXPECT_EQ(*decoded, message);
		EXPECT_TRUE(arrived.empty());
	}
}

TEST(wire, messages_arrive_in_pieces_and_in_bulk)
{
	bytes stream;
	for (const auto &message : all_messages) {
		const auto encoded = wire::encode(message);
		stream.insert(stream.end(), encoded.begin(), encoded.end());
	}
	bytes arrived;
	std::size_t got = 0;
	for (const auto byte : stream) {
		arrived.push_back(byte);
		if (auto message = wire::decode(arrived)) {
			EXPECT_EQ(*message, all_messages[got++]);
		}
	}
	EXPECT_EQ(got, std::size(all_messages));

	arrived = stream;
	for (const auto &message : all_messages)
		EXPECT_EQ(wire::decode(arrived), message);
	EXPECT_FALSE(wire::decode(arrived));
}

TEST(wire, a_stranger_is_recognized_by_his_first_bytes)
{
	const char request[] = "GET / HTTP/1.1\r\n\r\n";
	bytes arrived(sizeof(request));
	std::memcpy(arrived.data(), request, sizeof(request));
	EXPECT_EQ(status_of(arrived), exit_status::connection);
	arrived.resize(4);
	EXPECT_EQ(status_of(arrived), exit_status::connection);
	arrived.resize(3);
	EXPECT_EQ(status_of(arrived), exit_status::ok) << "not enough to tell";
}

TEST(wire, another_version_or_type_is_refused)
{
	auto arrived = wire::encode(wire::ready{});
	arrived[5] = std::byte{wire::version + 1};
	EXPECT_EQ(status_of(arrived), exit_status::connection);
	arrived = wire::encode(wire::ready{});
	arrived[7] = std::byte{5};
	EXPECT_EQ(status_of(arrived), exit_status::connection);
}

TEST(wire, an_overlong_message_is_refused_before_it_has_arrived)
{
	auto arrived = wire::encode(wire::ready{});
	arrived[8] = std::byte{0x7f};
	arrived.resize(wire::frame_header_bytes);
	EXPECT_EQ(status_of(arrived), exit_status::connection);
}

TEST(wire, a_message_of_a_wrong_length_is_refused)
{
	for (const auto &message : all_messages) {
		if (std::holds_alternative<wire::complaint>(message))
			continue; // its text may have any length
		for (const int change : {-1, 1}) {
			auto arrived = wire::encode(message);
			arrived[11] = static_cast<std::byte>(std::to_integer<int>(arrived[11]) + change);
			arrived.resize(arrived.size() + 8);
			EXPECT_EQ(status_of(arrived), exit_status::connection);
		}
	}
}

TEST(wire, an_impossible_hello_is_refused)
{
	const auto refused = [](auto &&spoil) {
		auto m = some_hello();
		spoil(m);
		return status_of(wire::encode(m)) == exit_status::connection;
	};
	EXPECT_FALSE(refused([](auto &) {}));
	EXPECT_TRUE(refused([](auto &m) { m.role = static_cast<wire::role>(3); }));
	EXPECT_TRUE(refused([](auto &m) { m.qp_number = 1 << 24; }));
	EXPECT_TRUE(refused([](auto &m) { m.packet_number = 1 << 24; }));
	EXPECT_TRUE(refused([](auto &m) { m.mtu = 0; }));
	EXPECT_TRUE(refused([](auto &m) { m.mtu = 6; }));
	EXPECT_TRUE(refused([](auto &m) { m.ring.slots = 0; }));
	EXPECT_TRUE(refused([](auto &m) { m.ring = {UINT32_MAX, UINT32_MAX}; }));
	EXPECT_TRUE(refused([](auto &m) { m.mode = 04755; }));
	auto unhashed = wire::encode(some_hello());
	unhashed.back() = std::byte{2};
	EXPECT_EQ(status_of(unhashed), exit_status::connection);
}

TEST(wire, a_complaint_brings_no_control_characters_to_the_terminal)
{
	const auto shown = [](const std::string &text) {
		auto arrived = wire::encode(wire::complaint{exit_status::source, text});
		const auto message = wire::decode(arrived);
		return message ? std::get<wire::complaint>(*message).text : "nothing";
	};
	EXPECT_EQ(shown("a\x1b[2Jb\nc\x7f"), "a?[2Jb?c?");
	EXPECT_EQ(shown("\xc2\x9b""2J \xc2\x80\xc2\x9f"), "??2J ????") << "those of eight bits";
	EXPECT_EQ(shown("\x9b""2J \xff"), "?2J ?") << "and by themselves";
	EXPECT_EQ(shown("\xe0\x82\x9b \xf0\x80\x82\x9b \xc1\xbf"), "??? ???? ??") << "longer than they need to be";
	EXPECT_EQ(shown("\xed\xa0\x80 \xf4\x90\x80\x80 cut \xe2\x82"), "??? ???? cut ??");
	for (const auto *text : {"gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2\xa0"})
		EXPECT_EQ(shown(text), text);
}

TEST(wire, a_complaint_has_a_status_of_the_command_that_is_not_success)
{
	for (const auto status : {exit_status::failed, exit_status::rdma, exit_status::interrupted}) {
		auto arrived = wire::encode(wire::complaint{status, "x"});
		const auto message = wire::decode(arrived);
		ASSERT_TRUE(message);
		EXPECT_EQ(std::get<wire::complaint>(*message).status, status);
	}
	for (const int strange : {0, 13, 129, 131, -1}) {
		auto arrived = wire::encode(wire::complaint{static_cast<exit_status>(strange), "x"});
		const auto message = wire::decode(arrived);
		ASSERT_TRUE(message);
		EXPECT_EQ(std::get<wire::complaint>(*message).status, exit_status::failed);
	}
}

TEST(wire, a_long_complaint_is_cut_by_its_sender_and_refused_by_its_receiver)
{
	auto arrived = wire::encode(wire::complaint{exit_status::failed, std::string(5000, 'x')});
	const auto message = wire::decode(arrived);
	ASSERT_TRUE(message);
	EXPECT_EQ(std::get<wire::complaint>(*message).text.size(), 1000u);

	arrived = wire::encode(wire::complaint{exit_status::failed, std::string(1000, 'x')});
	arrived[10] = std::byte{0x08}; // a length of 2 KiB and some
	arrived.resize(4096);
	EXPECT_EQ(status_of(arrived), exit_status::connection);
}

// Whatever comes, it is a message, not one yet, or refused; and what is a message survives being sent again.
TEST(wire, garbage_is_harmless)
{
	std::mt19937 random(2024);
	int messages = 0, refused = 0;
	for (int round = 0; round < 200'000; ++round) {
		auto arrived = wire::encode(all_messages[random() % std::size(all_messages)]);
		for (auto changes = random() % 4; changes > 0; --changes)
			arrived[random() % arrived.size()] = static_cast<std::byte>(random());
		if (random() % 4 == 0)
			arrived.resize(random() % (arrived.size() + 1));
		try {
			if (const auto message = wire::decode(arrived)) {
				auto again = wire::encode(*message);
				EXPECT_EQ(wire::decode(again), message);
				++messages;
			}
		} catch (const failure &f) {
			EXPECT_EQ(f.status(), exit_status::connection);
			++refused;
		}
	}
	EXPECT_GT(messages, 1000);
	EXPECT_GT(refused, 1000);
}

TEST(wire, noise_is_harmless)
{
	std::mt19937 random(7);
	for (int round = 0; round < 20'000; ++round) {
		bytes arrived(random() % 200);
		for (auto &byte : arrived)
			byte = static_cast<std::byte>(random());
		if (round % 2 && arrived.size() >= wire::frame_header_bytes) { // get past the first checks
			const auto good = wire::encode(wire::ready{});
			std::copy_n(good.begin(), 7, arrived.begin());
			arrived[7] = static_cast<std::byte>(random() % 6);
			arrived[8] = arrived[9] = arrived[10] = std::byte{0};
		}
		try {
			(void)wire::decode(arrived);
		} catch (const failure &f) {
			EXPECT_EQ(f.status(), exit_status::connection);
		}
	}
}

} // namespace
