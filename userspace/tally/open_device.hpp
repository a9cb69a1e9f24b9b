// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Finding a device to work with.
#pragma once

#include "verbs_handles.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace tally::cli {

// Opens the device of that name.  Throws failure: no_device, no_permission.
context_handle open_device(const std::string &name);

// Opens the device of that name, or with an empty name the first one that can count these operations (enum
// ibv_qp_attach_comp_cntr_op).  Throws failure: also no_counters.
context_handle open_device_with_counters(const std::string &name, std::uint32_t ops);

// A port with the address that queue pairs use.
struct local_port {
	std::uint8_t number = 0;
	std::uint16_t lid = 0;
	ibv_mtu mtu = IBV_MTU_1024;
	bool ethernet = true;
	std::uint32_t gid_index = 0;
	ibv_gid gid{};
};

// The first active port.  On Ethernet its address is of RoCE v2, and if possible an IPv4 one, as that is what both
// ends most likely have.  Throws failure.
local_port active_port(ibv_context &context);

// The entry of a GID table that active_port() takes; -1: none will do.
int best_gid(std::span<const ibv_gid_entry> table, std::uint32_t port);

} // namespace tally::cli
