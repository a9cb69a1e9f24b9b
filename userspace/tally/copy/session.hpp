// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One end of a copy from the first message to the last.
#pragma once

#include "copy_command.hpp"
#include "transfer.hpp"

namespace tally::cli {

// Both tell the other end if they fail, then throw the failure on.
outcome run_sender(control_channel &control, source &from, const copy_options &options);
outcome run_receiver(control_channel &control, destination &to, const copy_options &options, bool show_progress);

// What a copy came to, on standard output.
void print_outcome(const outcome &result);

} // namespace tally::cli
