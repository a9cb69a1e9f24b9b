// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The choice of an address out of a GID table.
#include "open_device.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <vector>

namespace {

using tally::cli::best_gid;

ibv_gid_entry entry(const char *address, std::uint32_t type, std::uint32_t port = 1)
{
	ibv_gid_entry e{};
	EXPECT_EQ(inet_pton(AF_INET6, address, e.gid.raw), 1);
	e.gid_type = type;
	e.port_num = port;
	return e;
}

constexpr auto v1 = IBV_GID_TYPE_ROCE_V1;
constexpr auto v2 = IBV_GID_TYPE_ROCE_V2;

TEST(gid, an_IPv4_address_of_RoCE_v2_is_best)
{
	const std::vector table{entry("fe80::1", v1),	  entry("fe80::1", v2),		entry("::ffff:10.0.0.1", v1),
				entry("2001:db8::1", v2), entry("::ffff:10.0.0.1", v2), entry("::ffff:10.0.0.2", v2)};
	EXPECT_EQ(best_gid(table, 1), 4);
}

TEST(gid, then_comes_a_global_address_then_a_link_local_one_then_any)
{
	std::vector table{entry("fe80::1", v1), entry("fe80::1", v2), entry("2001:db8::1", v2)};
	EXPECT_EQ(best_gid(table, 1), 2);
	table.pop_back();
	EXPECT_EQ(best_gid(table, 1), 1);
	table.pop_back();
	EXPECT_EQ(best_gid(table, 1), 0);
}

TEST(gid, other_ports_and_empty_entries_do_not_count)
{
	const std::vector table{entry("::ffff:10.0.0.1", v2, 2), entry("::", v2), entry("fe80::1", v2)};
	EXPECT_EQ(best_gid(table, 1), 2);
	EXPECT_EQ(best_gid(table, 2), 0);
	EXPECT_EQ(best_gid(table, 3), -1);
	EXPECT_EQ(best_gid({}, 1), -1);
}

} // namespace
