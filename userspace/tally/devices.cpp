// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "devices.hpp"
#include "failure.hpp"
#include "nldev.hpp"
#include "open_device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <tally/comp_cntr.h>
#include <utility>

namespace tally::cli {
namespace {

struct op_name {
	std::uint32_t op;
	const char *name;
};

constexpr std::array op_names{
	op_name{IBV_QP_ATTACH_COMP_CNTR_OP_SEND, "SEND"},
	op_name{IBV_QP_ATTACH_COMP_CNTR_OP_RECV, "RECV"},
	op_name{IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ, "RDMA_READ"},
	op_name{IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, "REMOTE_RDMA_READ"},
	op_name{IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE, "RDMA_WRITE"},
	op_name{IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, "REMOTE_RDMA_WRITE"},
	op_name{TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC, "ATOMIC"},
	op_name{TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
	op_name{TALLY_QP_ATTACH_COMP_CNTR_OP_MEMCPY, "MEMCPY"},
	op_name{TALLY_QP_ATTACH_COMP_CNTR_OP_UMR, "UMR"},
};

std::string names_of(std::uint32_t ops)
{
	std::string text;
	for (const auto &[op, name] : op_names) {
		if (ops & op)
			text += fmt::format(" {}", name);
		ops &= ~op;
	}
	if (ops)
		text += fmt::format(" {:#x}", ops);
	return text.empty() ? " none" : text;
}

std::string value_name(std::uint64_t largest)
{
	return std::has_single_bit(largest + 1) ? fmt::format("2^{} - 1", std::countr_zero(largest + 1)) :
	       largest == UINT64_MAX		? "2^64 - 1" :
						  fmt::format("{}", largest);
}

// Ours answers to the user interface of mlx5, and is known by its firmware's name.
std::string driver_of(const rdma_device &device)
{
	if (device.driver.empty())
		return "without user interface";
	return device.firmware.starts_with("tally ") ? fmt::format("tally ({} user interface)", device.driver) :
						       device.driver;
}

void print_counters(const std::string &name)
{
	try {
		const auto context = open_device(name);
		ibv_comp_cntr_caps caps{};
		const int err = ibv_query_comp_cntr_caps(context.get(), &caps);
		if (err == ENOTSUP)
			fmt::print("  counters  none\n");
		else if (err)
			fmt::print("  counters  cannot be queried: {}\n", errno_text(err));
		else
			fmt::print("  counters  {}, each up to {}\n  counts   {}\n", caps.max_counters,
				   value_name(caps.max_value), names_of(caps.supported_qp_attach_ops));
	} catch (const failure &f) {
		fmt::print("  counters  unknown: {}\n", f.what());
	}
}

} // namespace

void print_devices()
{
	const auto devices = nldev().devices();
	if (devices.empty())
		throw failure(exit_status::no_device, "there is no RDMA device");

	for (const auto &device : devices) {
		fmt::print("{}\n", device.name);
		for (const auto &port : device.ports)
			fmt::print("  port {}    {}, netdev {}\n", port.index, port.state,
				   port.netdev.empty() ? "none" : port.netdev);
		fmt::print("  driver    {}\n", driver_of(device));
		if (!device.firmware.empty())
			fmt::print("  firmware  {}\n", device.firmware);
		print_counters(device.name);
	}
}

} // namespace tally::cli
