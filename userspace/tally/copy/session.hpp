// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One end of a copy from the first message to the last.
#pragma once

#include "address.hpp"
#include "copy_command.hpp"
#include "transfer.hpp"

namespace tally::cli {

// What run_receiver() throws as long as the other end has not introduced itself as a sender.
class no_sender : public failure {
	using failure::failure;
};

// Both tell the other end if they fail, then throw the failure on.
outcome run_sender(control_channel &control, source &from, const copy_options &options, const path_maker &make_path);
outcome run_receiver(control_channel &control, destination &to, const copy_options &options,
		     const path_maker &make_path, bool show_progress);

// Runs a receiver for one after the other who connects, until one of them has sent a file.  Whoever is no sender, or
// does not keep to the protocol, does not keep the others out; but where something of a file has been written and
// cannot be taken back, that file was the last one.
outcome receive_from_anyone(const listener &listener, destination &to, const copy_options &options,
			    const path_maker &make_path);

// What a copy came to, on standard output.
void print_outcome(const outcome &result);

} // namespace tally::cli
