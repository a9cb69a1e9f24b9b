// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// libFuzzer on trees of memory keys; see key_program.hpp.
#include "key_program.hpp"

#include <cstddef>
#include <cstdint>

// Each input builds a world and tears it down: a long memory of freed blocks would only cost cache.
extern "C" const char *__asan_default_options() { return "quarantine_size_mb=4"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	world::run_key_program({data, size});
	return 0;
}
