// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SIGINT and SIGTERM end a copy in good order: nothing half-made is left behind.
#pragma once

namespace tally::cli {

// From now on the two signals only leave a note.
void catch_interrupts() noexcept;

bool interrupted() noexcept;

// Throws failure(exit_status::interrupted) if one of them has come.
void throw_if_interrupted();

} // namespace tally::cli
