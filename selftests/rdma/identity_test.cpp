// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Who the device says it is: of a family that libraries know, and honestly made of software.
#include "ktap.hpp"
#include "verbs.hpp"

#include <infiniband/mlx5dv.h>
#include <tally/config.h>

using namespace rdma;

namespace {

std::string version()
{
	return std::to_string(TALLY_VERSION_MAJOR) + "." + std::to_string(TALLY_VERSION_MINOR) + "." +
	       std::to_string(TALLY_VERSION_PATCH);
}

ibv_device_attr query(const Context &c)
{
	ibv_device_attr a{};
	must(ibv_query_device(c.get(), &a), "query_device");
	return a;
}

KTEST(identity, "vendor and part are those of the generic virtual function of the ConnectX family")
{
	Context c;
	const ibv_device_attr a = query(c);
	EXPECT_EQ(a.vendor_id, 0x02c9u);
	EXPECT_EQ(a.vendor_part_id, 0x101eu);
}

KTEST(identity, "the node description says that it is RDMA in software, and of which version")
{
	Context c;
	EXPECT_EQ(c.attribute("node_desc"), "tally " + version() + ", RDMA in software");
	EXPECT_TRUE(c.is_tally());
}

KTEST(identity, "the firmware is this project's version, to those who ask the kernel and to those who ask libmlx5")
{
	Context c;
	char number[32];
	std::snprintf(number, sizeof(number), "%d.%d.%04d", TALLY_VERSION_MAJOR, TALLY_VERSION_MINOR, TALLY_VERSION_PATCH);
	EXPECT_EQ(c.attribute("fw_ver"), "tally " + version());
	EXPECT_STREQ(query(c).fw_ver, number);
}

KTEST(identity, "libmlx5 drives it, as a channel adapter with one Ethernet port")
{
	Context c;
	mlx5dv_context dv{};
	const ibv_device_attr a = query(c);
	EXPECT_TRUE(mlx5dv_is_supported(c.get()->device));
	EXPECT_EQ(mlx5dv_query_device(c.get(), &dv), 0);
	EXPECT_EQ(c.get()->device->node_type, IBV_NODE_CA);
	EXPECT_EQ(c.get()->device->transport_type, IBV_TRANSPORT_IB);
	EXPECT_EQ(a.phys_port_cnt, 1);
	EXPECT_EQ(c.port().link_layer, IBV_LINK_LAYER_ETHERNET);
	EXPECT_NE(a.node_guid, 0u);
	EXPECT_EQ(a.node_guid, a.sys_image_guid);
	EXPECT_EQ(a.node_guid, ibv_get_device_guid(c.get()->device));
}

} // namespace
