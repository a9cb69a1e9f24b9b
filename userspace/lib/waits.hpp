// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sleeping on counters, below the public functions.
#pragma once

#include <cstdint>
#include <span>
#include <tally/comp_cntr.h>

namespace tally {

// See tally_wait_comp_cntrs().
int wait(std::span<ibv_comp_cntr *const> cntrs, std::span<const tally_comp_cntr_target> targets, std::uint32_t flags,
	 std::uint64_t timeout_ns, std::uint32_t *index) noexcept;

} // namespace tally
