// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the library exports; libtally.map lists the names.
#pragma once

#include <cstddef>
#include <tally/comp_cntr.h>

#define TALLY_API extern "C" __attribute__((visibility("default")))

#if !TALLY_HAVE_IBV_COMP_CNTR
// Declared by those headers of libibverbs that know counters.
extern "C" int _ibv_query_comp_cntr_caps(ibv_context *context, ibv_comp_cntr_caps *caps, std::size_t caps_size);
#endif
