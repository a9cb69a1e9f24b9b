// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A hostile process, as a program in bytes.
#pragma once

#include <hca.hpp>
#include <span>

namespace world {

// Lives through the program: whatever bytes it holds, it says what user space writes into rings and doorbell
// records, which keys come and go, which states the QPs go through, when the device runs and for how long.
// Aborts if the device does what it must not: touches memory that no key allows, completes more than was
// posted, keeps a lock, goes on after the end.
void run_wqe_program(std::span<const u8> program);

} // namespace world
