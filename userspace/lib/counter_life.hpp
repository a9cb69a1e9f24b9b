// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Creation and destruction of this library's counters, below the public functions.
#pragma once

#include "counter_arena.hpp"

#include <cstring>
#include <type_traits>

namespace tally {

// The number in an enum that a program in C has filled in, which may be none of the enum's own.
template <typename Enum> std::underlying_type_t<Enum> number_in(const Enum &value) noexcept
{
	std::underlying_type_t<Enum> number;
	std::memcpy(&number, &value, sizeof(number));
	return number;
}

using type_number = std::underlying_type_t<ibv_comp_cntr_type>;

// Counts in the library's own memory, or by the kernel if that cannot be.  0 or an errno value.
int create_counter(ibv_context *context, type_number type, counter *&created) noexcept;

// Counts in memory of the caller.
int create_counter(ibv_context *context, type_number type, const tally_memory &comp, const tally_memory &err,
		   counter *&created) noexcept;

// EBUSY: attached, and it lives on.
int destroy_counter(counter *cntr) noexcept;

// One count by a load, or by the kernel where there is no memory to look at.
int read_counter(const counter &cntr, ib_uverbs_comp_cntr_entry entry, std::uint64_t &value) noexcept;

// Acquire: pairs with the release of the device, so that what was counted is visible.
inline std::uint64_t load(const std::uint64_t *count) noexcept
{
	return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

} // namespace tally
