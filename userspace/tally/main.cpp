// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The tally command.
#include "copy/copy_command.hpp"
#include "copy/size.hpp"
#include "devices.hpp"
#include "failure.hpp"
#include "nldev.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <tally/config.h>

namespace {

using tally::cli::exit_status;
using tally::cli::failure;

void add_devices(CLI::App &app)
{
	app.add_subcommand("devices", "List the RDMA devices and what their counters can do")->callback([] {
		tally::cli::print_devices();
	});
}

void add_link(CLI::App &app)
{
	auto *link = app.add_subcommand("link", "Add or delete a software RDMA device");
	link->require_subcommand(1);

	struct arguments {
		std::string name;
		std::vector<std::string> words;
	};
	auto args = std::make_shared<arguments>();

	auto *add = link->add_subcommand("add", "Add a device: tally link add NAME netdev NETDEV");
	add->add_option("NAME", args->name, "Name of the new device")->required();
	add->add_option("netdev", args->words, "netdev NETDEV: the network device it sits on")->required()->expected(2);
	add->callback([args] {
		if (args->words[0] != "netdev")
			throw failure(exit_status::usage, "usage: tally link add NAME netdev NETDEV");
		tally::cli::nldev().add_link(args->name, "tally", args->words[1]);
	});

	auto *del = link->add_subcommand("del", "Delete a device")->alias("delete");
	del->add_option("NAME", args->name, "The device")->required();
	del->callback([args] { tally::cli::nldev().delete_link(args->name); });
}

void takes_bytes(CLI::Option *option)
{
	option->type_name("BYTES")->transform([option](const std::string &text) {
		if (const auto bytes = tally::cli::parse_size(text))
			return std::to_string(*bytes);
		throw failure(exit_status::usage, fmt::format("{} {}: not a number of bytes, such as 65536, 64K or 1G",
							      option->get_name(), text));
	});
}

void add_copy(CLI::App &app)
{
	struct arguments {
		std::vector<std::string> paths;
		std::optional<std::string> listen, connect;
		tally::cli::copy_options options;
		std::uint64_t ring = 4 << 20;
	};
	auto args = std::make_shared<arguments>();

	auto *copy =
		app.add_subcommand("copy", "Copy a file by RDMA, with completion counters as the only flow control");
	copy->footer("tally copy SRC DST              both ends here\n"
		     "tally copy --listen DST         receive from another process\n"
		     "tally copy --connect HOST SRC   send to it");
	copy->add_option("PATH", args->paths, "SRC DST, or the one of them that is at this end")->expected(0, 2);
	auto *listen =
		copy->add_option("--listen", args->listen, "Receive: wait for a sender at [ADDR][:PORT] (default :7471)")
			->expected(0, 1)
			->type_name("[ADDR:PORT]");
	auto *connect = copy->add_option("--connect", args->connect, "Send to the receiver that listens at HOST:PORT")
				->type_name("HOST[:PORT]");
	listen->excludes(connect);
	auto *size = copy->add_option("--size", args->options.size,
				      "Copy only so many bytes, which have to be there (64M, 1G, ...)");
	takes_bytes(size);
	listen->excludes(size);
	copy->add_option("--device", args->options.device, "RDMA device to use (default: the first with counters)");
	takes_bytes(copy->add_option("--chunk", args->options.ring.chunk, "Most bytes of the file in one RDMA WRITE")
			    ->default_str("256K"));
	takes_bytes(copy->add_option("--ring", args->ring, "Bytes of the file that the receiver's ring holds")->default_str("4M"));
	auto *unhashed = copy->add_flag_callback(
		"--no-hash", [args] { args->options.hashed = false; },
		"Compare only the number of bytes at both ends, not SHA-256, which may take longer than the copy");
	listen->excludes(unhashed);
	copy->add_flag("-q,--quiet", args->options.quiet, "No progress bar");

	copy->callback([args] {
		auto &[paths, listen, connect, options, ring] = *args;
		// "--listen DST": the option's value is optional, and this one was not meant for it.
		if (listen && !listen->empty() && paths.empty())
			paths.push_back(std::exchange(*listen, ""));

		if (!options.ring.chunk)
			throw failure(exit_status::usage, "--chunk: at least 1 byte");
		options.ring.slots =
			static_cast<std::uint32_t>(std::min<std::uint64_t>(ring / options.ring.chunk, UINT32_MAX));
		if (!options.ring.valid())
			throw failure(exit_status::usage, fmt::format("--chunk, --ring: a ring has {} to {} chunks of "
								      "up to {} MiB, and with their headers "
								      "{} MiB at most",
								      tally::cli::ring_geometry::least_slots,
								      tally::cli::ring_geometry::most_slots,
								      tally::cli::ring_geometry::largest_chunk >> 20,
								      tally::cli::ring_geometry::most_bytes >> 20));

		const std::size_t wanted = listen || connect ? 1 : 2;
		if (paths.size() != wanted)
			throw failure(exit_status::usage, wanted == 2 ? "usage: tally copy SRC DST" :
							  listen      ? "usage: tally copy --listen[=ADDR:PORT] DST" :
									"usage: tally copy --connect HOST:PORT SRC");
		if (listen)
			tally::cli::copy_listening(*listen, paths[0], options);
		else if (connect)
			tally::cli::copy_connecting(*connect, paths[0], options);
		else
			tally::cli::copy_here(paths[0], paths[1], options);
	});
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app{"RDMA devices made of software, and completion counters", "tally"};
	app.set_version_flag("--version", fmt::format("tally {}.{}.{}", TALLY_VERSION_MAJOR, TALLY_VERSION_MINOR,
						      TALLY_VERSION_PATCH));
	app.require_subcommand(1);
	add_devices(app);
	add_link(app);
	add_copy(app);

	try {
		app.parse(argc, argv);
		return static_cast<int>(exit_status::ok);
	} catch (const CLI::ParseError &e) {
		return app.exit(e) ? static_cast<int>(exit_status::usage) : static_cast<int>(exit_status::ok);
	} catch (const failure &f) {
		fmt::print(stderr, "tally: {}\n", f.what());
		return static_cast<int>(f.status());
	} catch (const std::exception &e) {
		fmt::print(stderr, "tally: {}\n", e.what());
		return static_cast<int>(exit_status::failed);
	}
}
