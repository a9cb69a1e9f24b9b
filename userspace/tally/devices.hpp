// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally devices
#pragma once

namespace tally::cli {

// Prints the machine's RDMA devices and what their counters can do.  Throws failure: no_device if there is none.
void print_devices();

} // namespace tally::cli
