// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The two halves of a copy once they are connected: file to ring, ring to file.
#pragma once

#include "control_channel.hpp"
#include "data_path.hpp"
#include "destination.hpp"
#include "progress.hpp"
#include "source.hpp"

namespace tally::cli {

// What both ends say of a finished copy.
struct outcome {
	wire::summary sender;
	wire::summary receiver;
	bool hashed = true;
	double seconds = 0;
};

// Sends the whole source and hears from the receiver that it has kept it.  Throws failure.
outcome send_file(source &from, data_path &path, control_channel &control, const ring_geometry &ring, bool hashed,
		  progress &bar);

// Takes in what the sender sends, and keeps it if both ends agree on it.  Throws failure.
outcome receive_file(destination &to, data_path &path, control_channel &control, const ring_geometry &ring,
		     const wire::hello &peer, progress &bar);

} // namespace tally::cli
