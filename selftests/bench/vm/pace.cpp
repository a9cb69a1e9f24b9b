// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Latency of small writes that come at a given rate, with a CPU to spare and without: what the device's choice between
// trapped and polled doorbells is about.
#include "bench.hpp"

#include <thread>

namespace bench {

void pace(rdma::Context &c, const Pace &args)
{
	Queues q(c, 2, 4, 8);
	const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / args.rate));
	// As many as the machine has CPUs: with this thread, one more than those.
	std::vector<std::jthread> others;
	std::vector<double> us;

	q.connect();
	for (unsigned i = 0; args.busy && i < std::thread::hardware_concurrency(); i++)
		others.emplace_back([](const std::stop_token &stop) {
			while (!stop.stop_requested())
				asm volatile("pause");
		});
	const auto start = Clock::now();
	for (auto next = start; since(start) < args.seconds; next += interval) {
		while (Clock::now() < next)
			asm volatile("pause");
		const auto begin = Clock::now();
		q.write(0, 8);
		q.drain();
		// What came in the beginning is how the device finds out.
		if (since(start) > args.seconds / 4)
			us.push_back(since(begin) * 1e6);
		// Late, by a CPU that somebody else had: not made up for, the rate is one from here on.
		next = std::max(next, Clock::now() - interval);
	}
	say("p50_us", quantile(us, 0.5));
	say("p99_us", quantile(us, 0.99));
	say("rate", static_cast<double>(us.size()) / (args.seconds * 3 / 4));
}

} // namespace bench
