// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the library has found out about the device behind a context.
#pragma once

#include "comp_cntr_methods.hpp"

#include <memory>
#include <tally/verbs.h>

namespace tally {

struct device_facts {
	uverbs::endpoint endpoint{};
	uverbs::comp_cntr_caps caps;
	bool extensions = false; // the methods and attributes of tally-abi.h
	bool buffers = false;	 // counts in memory of the process

	int cmd_fd_seen = -1; // to tell this context from a later one at the same address
	const ibv_device *device_seen = nullptr;
};

// Asks the kernel, or remembers.  Facts are shared by the counters of a context and go with the last of them, as
// nobody tells the library when a context is closed.
//
// 0, or ENOTSUP: the kernel knows no completion counters for this device; or what else went wrong.
int facts_of(ibv_context *context, std::shared_ptr<const device_facts> &facts) noexcept;

} // namespace tally
