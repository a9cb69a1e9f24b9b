// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// libFuzzer on what a hostile process can do to the device; see wqe_program.hpp.
#include "wqe_program.hpp"

#include <cstddef>
#include <cstdint>

// Each input builds a world and tears it down: a long memory of freed blocks would only cost cache.
extern "C" const char *__asan_default_options() { return "quarantine_size_mb=4"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	world::run_wqe_program({data, size});
	return 0;
}
