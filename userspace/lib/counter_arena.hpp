// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The counters of this library: their structures, and the memory their counts live in unless the caller has his own.
#pragma once

#include "device_facts.hpp"

#include <cstdint>
#include <tally/comp_cntr.h>

namespace tally {

inline constexpr std::size_t cache_line = 64;

// A counter.  The public part comes first, so that its address is the counter's.
struct counter {
	ibv_comp_cntr verbs{};
	const std::uint64_t *comp = nullptr; // where the counts can be read, or null: only the kernel can
	const std::uint64_t *err = nullptr;
	std::shared_ptr<const device_facts> facts;
	bool in_group = false; // owned by a group, which alone destroys it
};

// The device writes to the second line and readers spin on it; the first one is only read.
struct alignas(2 * cache_line) counter_slot {
	alignas(cache_line) counter control;
	alignas(cache_line) std::uint64_t comp = 0;
	std::uint64_t err = 0;
};
static_assert(sizeof(counter_slot) == 2 * cache_line);

// All slots of the process lie in one range of addresses, reserved at once and filled as needed.  So one comparison
// tells a counter of this library from one that a provider of libibverbs has created, without looking into it; and
// a page holds the counts of many counters.
//
// A null pointer: no memory, or no room in the range.
counter_slot *allocate_slot() noexcept;
void free_slot(counter_slot *slot) noexcept;

// The counter, if it is one of this library; else null.
counter *own(ibv_comp_cntr *cntr) noexcept;
const counter *own(const ibv_comp_cntr *cntr) noexcept;

inline counter_slot *slot_of(counter *cntr) noexcept
{
	return reinterpret_cast<counter_slot *>(cntr); // the counter is its first member
}

} // namespace tally
