// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The completion-counter verbs of libibverbs itself, where it is new enough to have them.
//
// A counter that libibverbs has created belongs to a provider, which hides its own structure behind it.  It is
// operated by these functions and never looked into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tally/verbs.h>

namespace tally {

struct native_verbs {
	int (*query_caps)(ibv_context *, ibv_comp_cntr_caps *, std::size_t) = nullptr;
	ibv_comp_cntr *(*create)(ibv_context *, ibv_comp_cntr_init_attr *) = nullptr;
	int (*destroy)(ibv_comp_cntr *) = nullptr;
	int (*set)(ibv_comp_cntr *, std::uint64_t) = nullptr;
	int (*set_err)(ibv_comp_cntr *, std::uint64_t) = nullptr;
	int (*inc)(ibv_comp_cntr *, std::uint64_t) = nullptr;
	int (*inc_err)(ibv_comp_cntr *, std::uint64_t) = nullptr;
	int (*read)(ibv_comp_cntr *, std::uint64_t *) = nullptr;
	int (*read_err)(ibv_comp_cntr *, std::uint64_t *) = nullptr;
	int (*attach)(ibv_qp *, ibv_comp_cntr *, ibv_qp_attach_comp_cntr_attr *) = nullptr;

	// All or nothing: half a set of functions is none.
	bool complete() const noexcept
	{
		return query_caps && create && destroy && set && set_err && inc && inc_err && read && read_err &&
		       attach;
	}
};

// Those of the libibverbs in this process; incomplete if it is older.
const native_verbs &native() noexcept;

// For tests: use these instead; nullptr goes back to the real ones.
void set_native_verbs(const native_verbs *verbs) noexcept;

} // namespace tally
