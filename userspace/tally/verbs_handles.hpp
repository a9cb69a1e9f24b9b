// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Objects of libibverbs with an owner.
#pragma once

#include <infiniband/verbs.h>
#include <memory>

namespace tally::cli {

template <auto Function> struct ends_with {
	template <typename T> void operator()(T *object) const noexcept { Function(object); }
};

using context_handle = std::unique_ptr<ibv_context, ends_with<ibv_close_device>>;
using pd_handle = std::unique_ptr<ibv_pd, ends_with<ibv_dealloc_pd>>;
using cq_handle = std::unique_ptr<ibv_cq, ends_with<ibv_destroy_cq>>;
using mr_handle = std::unique_ptr<ibv_mr, ends_with<ibv_dereg_mr>>;
using qp_handle = std::unique_ptr<ibv_qp, ends_with<ibv_destroy_qp>>;

} // namespace tally::cli
