// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "open_device.hpp"
#include "failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <tally/comp_cntr.h>
#include <unistd.h>
#include <vector>

namespace tally::cli {
namespace {

class device_list {
    public:
	device_list() : list_(ibv_get_device_list(&count_))
	{
		if (!list_ || !count_)
			throw failure(exit_status::no_device,
				      "there is no RDMA device (see tally-link(1) for how to add one)");
	}

	device_list(const device_list &) = delete;
	device_list &operator=(const device_list &) = delete;

	~device_list() { ibv_free_device_list(list_); }

	std::span<ibv_device *const> devices() const { return {list_, static_cast<std::size_t>(count_)}; }

    private:
	int count_ = 0;
	ibv_device **list_;
};

// libibverbs looks in several places, and what it says in the end is about the last of them.
bool may_open(ibv_device *device)
{
	const auto path = std::string("/dev/infiniband/") + device->dev_name;
	return !faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) || (errno != EACCES && errno != EPERM);
}

[[noreturn]] void throw_no_permission(ibv_device *device)
{
	throw failure(exit_status::no_permission, fmt::format("no permission to open {} (/dev/infiniband/{})",
							      ibv_get_device_name(device), device->dev_name));
}

bool can_count(ibv_context &context, std::uint32_t ops)
{
	ibv_comp_cntr_caps caps{};
	return !ibv_query_comp_cntr_caps(&context, &caps) && (caps.supported_qp_attach_ops & ops) == ops;
}

bool is_ipv4_mapped(const ibv_gid &gid)
{
	static constexpr std::array<std::uint8_t, 12> prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	return std::equal(prefix.begin(), prefix.end(), gid.raw);
}

bool is_link_local(const ibv_gid &gid)
{
	return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

bool is_zero(const ibv_gid &gid)
{
	return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t byte) { return byte == 0; });
}

// More is better; 0 is of no use.
int worth(const ibv_gid_entry &entry)
{
	if (is_zero(entry.gid))
		return 0;
	if (entry.gid_type != IBV_GID_TYPE_ROCE_V2)
		return 1;
	if (is_ipv4_mapped(entry.gid))
		return 4;
	return is_link_local(entry.gid) ? 2 : 3;
}

} // namespace

context_handle open_device(const std::string &name)
{
	const device_list list;
	for (auto *device : list.devices()) {
		if (name != ibv_get_device_name(device))
			continue;
		if (!may_open(device))
			throw_no_permission(device);
		errno = 0;
		context_handle context{ibv_open_device(device)};
		if (!context)
			throw failure(exit_status::no_device,
				      fmt::format("cannot open {}: {}", name,
						  errno ? errno_text(errno) : "no driver for it"));
		return context;
	}
	throw failure(exit_status::no_device, fmt::format("there is no RDMA device {}", name));
}

context_handle open_device_with_counters(const std::string &name, std::uint32_t ops)
{
	if (!name.empty()) {
		auto context = open_device(name);
		if (!can_count(*context, ops))
			throw failure(exit_status::no_counters,
				      fmt::format("{} has no completion counters for this", name));
		return context;
	}

	const device_list list;
	ibv_device *refused = nullptr;
	for (auto *device : list.devices()) {
		context_handle context{ibv_open_device(device)};
		if (context && can_count(*context, ops))
			return context;
		if (!context && !may_open(device))
			refused = device;
	}
	if (refused)
		throw_no_permission(refused);
	throw failure(exit_status::no_counters, "no RDMA device here has completion counters");
}

int best_gid(std::span<const ibv_gid_entry> table, std::uint32_t port)
{
	int best = -1;
	int most = 0;
	for (std::size_t i = 0; i < table.size(); ++i) {
		if (table[i].port_num != port || worth(table[i]) <= most)
			continue;
		most = worth(table[i]);
		best = static_cast<int>(i);
	}
	return best;
}

local_port active_port(ibv_context &context)
{
	const auto *name = ibv_get_device_name(context.device);
	ibv_device_attr device{};
	if (const int err = ibv_query_device(&context, &device))
		throw failure(exit_status::rdma, fmt::format("cannot query {}: {}", name, errno_text(err)));

	for (std::uint8_t number = 1; number <= device.phys_port_cnt; ++number) {
		ibv_port_attr attr{};
		if (ibv_query_port(&context, number, &attr) || attr.state != IBV_PORT_ACTIVE)
			continue;

		std::vector<ibv_gid_entry> table(static_cast<std::size_t>(std::max(attr.gid_tbl_len, 1)) *
						 device.phys_port_cnt);
		const auto filled = ibv_query_gid_table(&context, table.data(), table.size(), 0);
		if (filled < 0)
			throw failure(exit_status::rdma, fmt::format("cannot query the addresses of {}: {}", name,
								     errno_text(static_cast<int>(-filled))));
		const auto entries = std::span{table}.first(static_cast<std::size_t>(filled));
		const int best = best_gid(entries, number);

		local_port port{.number = number,
				.lid = attr.lid,
				.mtu = attr.active_mtu,
				.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET};
		if (best >= 0) {
			port.gid_index = entries[static_cast<std::size_t>(best)].gid_index;
			port.gid = entries[static_cast<std::size_t>(best)].gid;
		} else if (port.ethernet) {
			throw failure(exit_status::rdma,
				      fmt::format("{} has no address: give one to its network device", name));
		}
		return port;
	}
	throw failure(exit_status::no_device, fmt::format("no port of {} is active: is its network device up?", name));
}

} // namespace tally::cli
