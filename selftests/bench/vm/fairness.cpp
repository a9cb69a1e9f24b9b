// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Small writes of this process, alone and while another process streams huge messages through the same device.
#include "bench.hpp"

#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench {

using namespace rdma;

namespace {

// Two messages are always under way; sleeps until one has ended, so that only the device is busy.
[[noreturn]] void stream(const std::string &device, size_t message, int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	Context c(device);
	const auto channel = own<Channel>(ibv_create_comp_channel(c.get()), "create_comp_channel");
	Queues q(c, 2, 4, 8, 2 * message, channel.get());

	q.connect();
	must(ibv_req_notify_cq(q.cq.get(), 0), "req_notify_cq");
	q.write(0, static_cast<uint32_t>(message));
	q.write(0, static_cast<uint32_t>(message));
	for (;;) {
		const unsigned n = q.take();
		for (unsigned i = 0; i < n; i++) {
			const int64_t now = Clock::now().time_since_epoch().count();
			if (write(ready, &now, sizeof(now)) != sizeof(now))
				_exit(0);
			q.write(0, static_cast<uint32_t>(message));
		}
		if (n)
			continue;
		ibv_cq *cq;
		void *context;
		must(ibv_get_cq_event(channel.get(), &cq, &context), "get_cq_event");
		ibv_ack_cq_events(cq, 1);
		must(ibv_req_notify_cq(cq, 0), "req_notify_cq");
	}
}

// When the stream's next message has ended.
Clock::time_point next_end(int fd)
{
	int64_t when = 0;
	if (read(fd, &when, sizeof(when)) != sizeof(when))
		fail("the stream has ended", EIO);
	return Clock::time_point(Clock::duration(when));
}

bool has_more(int fd)
{
	pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
	return ::poll(&p, 1, 0) == 1;
}

std::vector<double> latencies(Queues &q, double seconds)
{
	std::vector<double> us;
	const auto start = Clock::now();

	do {
		const auto begin = Clock::now();
		q.write(0, 8);
		q.drain();
		us.push_back(since(begin) * 1e6);
	} while (since(start) < seconds);
	return us;
}

void measure(Queues &q, double seconds, const std::string &suffix)
{
	say("rate" + suffix, write_rate(q, {0}, 64, seconds));
	const auto us = latencies(q, seconds);
	say("p50_us" + suffix, quantile(us, 0.5));
	say("p99_us" + suffix, quantile(us, 0.99));
	say("p999_us" + suffix, quantile(us, 0.999));
	say("max_us" + suffix, quantile(us, 1));
}

} // namespace

void fairness(Context &c, const std::string &device, double seconds, size_t message)
{
	Queues q(c, 2, 64, 65);

	q.connect();
	write_rate(q, {0}, 64, 0.2);
	measure(q, seconds, "_alone");

	int ends[2];
	if (pipe(ends))
		fail("pipe");
	const pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		close(ends[0]);
		try {
			stream(device, message, ends[1]);
		} catch (const std::exception &e) {
			fmt::print(stderr, "the stream: {}\n", e.what());
			_exit(1);
		}
	}
	close(ends[1]);
	const auto first = next_end(ends[0]);
	measure(q, seconds, "_beside");
	// At least one more message, to say how fast it goes.
	unsigned n = 0;
	Clock::time_point last;
	do {
		last = next_end(ends[0]);
		n++;
	} while (has_more(ends[0]));
	say("stream_mib_s",
	    n * static_cast<double>(message) / (1 << 20) / std::chrono::duration<double>(last - first).count());
	kill(child, SIGKILL);
	waitpid(child, nullptr, 0);
	close(ends[0]);
}

} // namespace bench
