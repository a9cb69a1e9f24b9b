// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Trees of memory keys, as a program in bytes.
#pragma once

#include <hca.hpp>
#include <span>

namespace world {

// Registers lists and patterns of keys, of memory and of one another, again and again, good ones and bad ones, and
// writes through them.  A model follows each byte by itself and says what each request must come to: which bytes
// move where, or which error it ends in and that nothing has moved.  Aborts where the device does anything else.
void run_key_program(std::span<const u8> program);

} // namespace world
