// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What counting costs those who write: two pairs of queues, one with counters on both sides, by turns.
#include "bench.hpp"

#include <tally/comp_cntr.hpp>

namespace bench {

using namespace rdma;

void counters(Context &c, double seconds)
{
	constexpr double slice = 0.1;
	constexpr unsigned window = 64;
	auto done = tally::comp_cntr::create(*c.get()).value();
	auto arrived = tally::comp_cntr::create(*c.get()).value();
	Queues plain(c, 2, window, window + 1), counting(c, 2, window, window + 1);
	std::vector<double> without, with, ratio;

	done.attach(*counting.qps[0], tally::op::rdma_write).value();
	arrived.attach(*counting.qps[1], tally::op::remote_rdma_write).value();
	plain.connect();
	counting.connect();
	const auto start = Clock::now();
	do {
		// Who comes first changes each time.
		if (ratio.size() % 2)
			with.push_back(write_rate(counting, {0}, window, slice));
		without.push_back(write_rate(plain, {0}, window, slice));
		if (with.size() < without.size())
			with.push_back(write_rate(counting, {0}, window, slice));
		ratio.push_back(with.back() / without.back());
	} while (since(start) < seconds);
	if (done.read().value() != arrived.read().value() || !done.read().value())
		fail("the counters have not counted", EIO);
	say("rate_without", median(without));
	say("rate_with", median(with));
	say("ratio", median(ratio));
}

} // namespace bench
