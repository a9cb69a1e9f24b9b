// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally copy between two processes that were started by hand: one listens and receives, the other connects and sends.
#include "address.hpp"
#include "copy_command.hpp"
#include "interrupt.hpp"
#include "session.hpp"

#include <fmt/format.h>

namespace tally::cli {

void copy_listening(const std::string &address, const std::string &destination_path, const copy_options &options)
{
	catch_interrupts();
	destination to(destination_path, "");
	const auto socket = listen_at(parse_address(address));
	if (!options.quiet)
		fmt::print(stderr, "listening at {}\n", socket.address);

	for (;;) {
		auto [connection, peer] = accept_from(socket);
		control_channel control(std::move(connection), fmt::format("the sender at {}", peer));
		try {
			print_outcome(run_receiver(control, to, options, true));
			return;
		} catch (const failure &why) {
			// A stranger who found the port does not keep the sender out.
			if (why.status() != exit_status::connection)
				throw;
			fmt::print(stderr, "tally: {}: {}\n", peer, why.what());
		}
	}
}

void copy_connecting(const std::string &address, const std::string &source_path, const copy_options &options)
{
	catch_interrupts();
	source from(source_path, options.size);
	const auto where = parse_address(address);
	control_channel control(connect_to(where, std::chrono::seconds(10)),
				fmt::format("the receiver at {}:{}", where.host, where.port));
	print_outcome(run_sender(control, from, options));
}

} // namespace tally::cli
