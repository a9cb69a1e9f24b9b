// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How many small writes a second, depending on how many queues there are and how many of them are used; and how
// fast this machine copies memory without any device.
#include "bench.hpp"

#include <unistd.h>

namespace bench {

using namespace rdma;

double write_rate(Queues &q, const std::vector<unsigned> &active, unsigned window, double seconds, uint32_t len)
{
	uint64_t done = 0;
	const auto start = Clock::now();

	for (uint64_t n = 0;;) {
		for (unsigned i : active) {
			while (q.under_way[i] >= window)
				done += q.take();
			q.write(i, len);
			if (++n % 16 == 0)
				done += q.take();
		}
		if (since(start) >= seconds)
			break;
	}
	const double rate = static_cast<double>(done) / since(start);
	q.drain();
	return rate;
}

void rates(Context &c, const Rates &args)
{
	// So many under way in all cases, unless the caller wants otherwise.
	const unsigned window = args.window ? args.window : std::max(1024 / args.active, 1u);
	Queues q(c, args.qps + args.qps % 2, static_cast<int>(window), static_cast<int>(args.active * window + 1));
	std::vector<unsigned> active;

	q.connect();
	for (unsigned i = 0; i < args.active; i++)
		active.push_back(i * (args.qps / args.active));
	write_rate(q, active, window, args.seconds / 4);
	say("rate", write_rate(q, active, window, args.seconds));
}

void copy(size_t bytes, double seconds)
{
	std::vector<uint8_t> from(bytes, 1), to(bytes, 2);
	uint64_t copies = 0;
	const auto start = Clock::now();

	do {
		std::memcpy(to.data(), from.data(), bytes);
		asm volatile("" ::"r"(to.data()) : "memory");
		copies++;
	} while (since(start) < seconds);
	say("bandwidth", static_cast<double>(copies) * static_cast<double>(bytes) / since(start) / (1 << 20));
}

// Queues that were used and are not any more; the caller looks at what the device does meanwhile.
void idle(Context &c, double seconds)
{
	Queues q(c, 16, 64, 1024);
	std::vector<unsigned> all(16);

	for (unsigned i = 0; i < all.size(); i++)
		all[i] = i;
	q.connect();
	write_rate(q, all, 64, 0.5);
	usleep(1'000'000);
	fmt::print("idle\n");
	std::fflush(stdout);
	usleep(static_cast<useconds_t>(seconds * 1e6));
}

} // namespace bench
