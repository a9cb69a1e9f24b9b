// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tally_bench: measurements for which there is no stock program.  Prints lines of a name and a number.
#include "bench.hpp"

#include <CLI/CLI.hpp>

namespace {

int run(int argc, char **argv)
{
	CLI::App app("Measures an RDMA device from one process.");
	std::string device = rdma::device_name();
	double seconds = 1;
	app.add_option("-d,--device", device, "The device ($TALLY_DEVICE, tally0)");
	app.add_option("-t,--seconds", seconds, "How long each measurement lasts");
	app.require_subcommand(1);
	app.fallthrough();
	auto context = [&] { return rdma::Context(device); };

	bench::Rates rate_args;
	auto *rate = app.add_subcommand("rate", "8-byte writes per second on many queue pairs");
	rate->add_option("--qps", rate_args.qps, "Queue pairs, connected with each other");
	rate->add_option("--active", rate_args.active, "How many of them post");
	rate->add_option("--window", rate_args.window, "Requests under way on each (1024 by all)");
	rate->callback([&] {
		auto c = context();
		rate_args.seconds = seconds;
		bench::rates(c, rate_args);
	});

	bench::Pace pace_args;
	auto *pace = app.add_subcommand("pace", "Latency of 8-byte writes that come at a given rate");
	pace->add_option("--rate", pace_args.rate, "Writes per second")->check(CLI::PositiveNumber);
	pace->add_flag("--busy", pace_args.busy, "While other threads keep all CPUs busy");
	pace->callback([&] {
		auto c = context();
		pace_args.seconds = seconds;
		bench::pace(c, pace_args);
	});

	size_t size = 1 << 20;
	auto *copy = app.add_subcommand("memcpy", "Bandwidth of memcpy(), in MiB/s");
	copy->add_option("--size", size, "Bytes of a copy");
	copy->callback([&] { bench::copy(size, seconds); });

	size_t message = 1 << 30;
	auto *fairness = app.add_subcommand("fairness", "8-byte writes alone, and beside a stream of huge messages");
	fairness->add_option("--message", message, "Bytes of a message of the stream");
	fairness->callback([&] {
		auto c = context();
		bench::fairness(c, device, seconds, message);
	});

	unsigned batch = 4096, repeats = 20;
	bool counted = false;
	auto *completions = app.add_subcommand("completions", "CPU time to learn that a batch of writes is done");
	completions->add_option("--batch", batch, "Writes");
	completions->add_option("--repeats", repeats, "Batches");
	completions->add_flag("--counted", counted, "By one counter, not by a completion for each");
	completions->callback([&] {
		auto c = context();
		bench::completions(c, batch, counted, repeats);
	});

	auto *counters = app.add_subcommand("counters", "8-byte writes with and without counters on both sides");
	counters->callback([&] {
		auto c = context();
		bench::counters(c, seconds);
	});

	unsigned doorbells = 100;
	auto *builders = app.add_subcommand("builders", "Posts work requests in several ways, for callgrind to count");
	builders->add_option("--doorbells", doorbells, "How often each");
	builders->callback([&] {
		auto c = context();
		bench::builders(c, doorbells);
	});

	auto *idle = app.add_subcommand("idle", "Uses 16 queue pairs, says \"idle\" and leaves them alone");
	idle->callback([&] {
		auto c = context();
		bench::idle(c, seconds);
	});

	auto *handoff = app.add_subcommand("handoff", "No device: two processes wake each other, time of a round");
	handoff->callback([&] { bench::handoff(seconds); });

	size_t pages = 64;
	auto *touch = app.add_subcommand("pages", "No device: time of a load from each of many pages in turn");
	touch->add_option("-n,--number", pages, "Pages")->check(CLI::PositiveNumber);
	touch->callback([&] { bench::pages(pages, seconds); });

	double every_ms = 20;
	auto *pauses = app.add_subcommand("pauses", "No device: how long a thread that spins does not run");
	pauses->add_option("--every", every_ms, "The longest pause that comes so often, in milliseconds")
		->check(CLI::PositiveNumber);
	pauses->callback([&] { bench::pauses(seconds, every_ms / 1e3); });

	auto *exchange = app.add_subcommand("exchange", "No device: half of a round between two threads that spin");
	exchange->add_option("--every", every_ms, "The longest round that comes so often, in milliseconds")
		->check(CLI::PositiveNumber);
	exchange->callback([&] { bench::exchange(seconds, every_ms / 1e3); });

	double ask_us = 100;
	auto *oversleep = app.add_subcommand("oversleep", "No device: how late a thread of real-time priority wakes up");
	oversleep->add_option("--ask", ask_us, "How long it wants to sleep, in microseconds");
	oversleep->callback([&] { bench::oversleep(seconds, ask_us); });

	CLI11_PARSE(app, argc, argv);
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	try {
		return run(argc, argv);
	} catch (const std::exception &e) {
		fmt::print(stderr, "tally_bench: {}\n", e.what());
		return 1;
	}
}
