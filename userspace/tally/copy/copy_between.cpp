// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally copy between two processes that were started by hand: one listens and receives, the other connects and sends.
#include "copy_command.hpp"
#include "interrupt.hpp"
#include "rdma_path.hpp"
#include "session.hpp"

#include <fmt/format.h>

namespace tally::cli {

void copy_listening(const std::string &address, const std::string &destination_path, const copy_options &options)
{
	catch_interrupts();
	// What this end lacks should show before anyone connects.
	const auto make_path = rdma_paths(options.device);
	destination to(destination_path, "");
	const auto socket = listen_at(parse_address(address));
	fmt::print(stderr, "listening at {}\n", socket.address); // quiet or not: with port 0 nobody else knows
	print_outcome(receive_from_anyone(socket, to, options, make_path));
}

void copy_connecting(const std::string &address, const std::string &source_path, const copy_options &options)
{
	catch_interrupts();
	const auto make_path = rdma_paths(options.device);
	source from(source_path, options.size);
	const auto where = parse_address(address);
	control_channel control(connect_to(where, std::chrono::seconds(10)),
				fmt::format("the receiver at {}:{}", where.host, where.port));
	print_outcome(run_sender(control, from, options, make_path));
}

} // namespace tally::cli
