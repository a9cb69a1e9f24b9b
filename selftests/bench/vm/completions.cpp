// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What it costs to learn that a batch of writes is done: a completion queue entry for each, or one counter for all.
#include "bench.hpp"

#include <optional>
#include <tally/comp_cntr.hpp>
#include <unistd.h>

namespace bench {

using namespace rdma;

namespace {

// Of one read; too short to be timed alone.
double read_ns(tally::comp_cntr &done, uint64_t target)
{
	constexpr unsigned reads = 10'000;
	const double start = cpu_ns();

	for (unsigned i = 0; i < reads; i++)
		if (!tally_comp_cntr_reached(done.read().value(), target))
			fail("the counter is not where it was", EIO);
	return (cpu_ns() - start) / reads;
}

} // namespace

void completions(Context &c, unsigned batch, bool counted, unsigned repeats)
{
	Queues q(c, 2, static_cast<int>(batch), static_cast<int>(batch + 1));
	std::optional<tally::comp_cntr> done;
	std::vector<double> cost;

	// Without counters there is only time to tell that all are done.
	if (auto made = tally::comp_cntr::create(*c.get())) {
		done = std::move(made.value());
		done->attach(*q.qps[0], tally::op::rdma_write).value();
	}
	q.connect();
	for (unsigned r = 1; r <= repeats; r++) {
		for (unsigned i = 0; i < batch; i++)
			q.write(0, 8, counted && i + 1 < batch ? 0 : IBV_SEND_SIGNALED);
		// All are done before the measurement begins.
		if (done) {
			done->wait(uint64_t{r} * batch).value();
		} else {
			usleep(20'000 + 150 * batch);
		}
		if (counted) {
			cost.push_back(read_ns(*done, uint64_t{r} * batch));
			q.drain();
			continue;
		}
		const double start = cpu_ns();
		for (unsigned left = batch; left;)
			left -= q.take();
		cost.push_back(cpu_ns() - start);
	}
	say("cpu_ns", median(cost));
}

} // namespace bench
