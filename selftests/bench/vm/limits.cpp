// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the machine allows, whatever a device does: each is a part of something that is measured with one.
#include "bench.hpp"

#include <csignal>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace bench {

using namespace rdma;

namespace {

// Gives back each byte that comes.
[[noreturn]] void echo(int in, int out)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	char c;

	while (read(in, &c, 1) == 1)
		if (write(out, &c, 1) != 1)
			break;
	_exit(0);
}

// Runs @what on a thread for each CPU until the returned threads go.
template <class What> std::vector<std::jthread> on_each_cpu(What what)
{
	std::vector<std::jthread> threads;

	for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++)
		threads.emplace_back(what);
	return threads;
}

void take_cpu(unsigned cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

// So many times that are long are noted.
constexpr size_t max_gaps = 1 << 20;

// Notes how long it is since @before, if that is long; returns the time by now.
Clock::time_point note_gap(std::vector<double> &us, Clock::time_point before)
{
	const auto now = Clock::now();
	const double gap = std::chrono::duration<double>(now - before).count() * 1e6;

	if (gap > 5 && us.size() < us.capacity())
		us.push_back(gap);
	return now;
}

// Of times found in so many seconds: the longest that comes each @every seconds.
double longest_each(std::vector<double> &us, double seconds, double every)
{
	std::sort(us.begin(), us.end(), std::greater<>());
	const auto place = static_cast<size_t>(seconds / every);
	return place < us.size() ? us[place] : 0;
}

void become_urgent()
{
	const sched_param urgent{.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO, &urgent))
		fail("sched_setscheduler");
}

} // namespace

// Two processes that wake each other and do nothing else, as those of a ping-pong do that sleeps for completions.
void handoff(double seconds)
{
	int there[2], back[2];
	if (pipe(there) || pipe(back))
		fail("pipe");
	const pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (!child)
		echo(there[0], back[1]);

	uint64_t n = 0;
	char c = 0;
	const auto start = Clock::now();
	do {
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			fail("the other process has gone", EPIPE);
		n++;
	} while (since(start) < seconds);
	say("usec", since(start) * 1e6 / static_cast<double>(n));
	kill(child, SIGKILL);
	waitpid(child, nullptr, 0);
	for (int fd : {there[0], there[1], back[0], back[1]})
		close(fd);
}

// A load from each of @n pages in turn: beyond what the CPU, or its emulator, remembers of them.  No other process gets
// the CPU: an emulator that forgets all translations with each change of processes also adapts its room for them then.
void pages(size_t n, double seconds)
{
	become_urgent();
	constexpr size_t page = 4096, line = 64;
	auto *memory = static_cast<uint8_t *>(
		mmap(nullptr, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	if (memory == MAP_FAILED)
		fail("mmap");

	uint64_t rounds = 0;
	const auto start = Clock::now();
	do {
		for (size_t i = 0; i < n; i++) {
			// Not always the same place in a page, which would be the same set of a cache.
			const volatile uint8_t *p = memory + i * page + i % (page / line) * line;
			(void)*p;
		}
		rounds++;
	} while (since(start) < seconds);
	say("ns", since(start) * 1e9 / static_cast<double>(rounds * n));
	munmap(memory, n * page);
}

// How long threads that only look at the clock, one for each CPU, do not run: the longest time that comes each @every
// seconds on one of them.
void pauses(double seconds, double every)
{
	std::vector<std::vector<double>> found(std::thread::hardware_concurrency());
	{
		std::atomic<unsigned> next = 0;
		const auto threads = on_each_cpu([&] {
			auto &us = found[next++];
			const auto start = Clock::now();

			us.reserve(max_gaps);
			for (auto before = start; since(start) < seconds;)
				before = note_gap(us, before);
		});
	}
	std::vector<double> all;
	for (const auto &us : found)
		all.insert(all.end(), us.begin(), us.end());
	say("usec", longest_each(all, seconds, every));
}

// Two threads, on a CPU each, that pass a word to and fro and do nothing else, as those of a ping-pong that spins: half of
// the longest round that comes each @every seconds, as half of a round is what such programs call the latency.
void exchange(double seconds, double every)
{
	std::atomic<uint32_t> word = 0;
	std::vector<double> us;
	{
		const std::jthread other([&](const std::stop_token &stop) {
			take_cpu(1);
			while (!stop.stop_requested())
				if (word % 2)
					word++;
		});
		take_cpu(0);
		us.reserve(max_gaps);
		const auto start = Clock::now();
		for (auto before = start; since(start) < seconds; before = note_gap(us, before)) {
			word++;
			while (word % 2 && since(start) < seconds)
				;
		}
	}
	say("usec", longest_each(us, seconds, every) / 2);
}

// How much longer than it asked for a thread sleeps that takes the CPU from others, which keep all CPUs busy.
void oversleep(double seconds, double ask_us)
{
	std::vector<double> us;
	const auto others = on_each_cpu([](const std::stop_token &stop) {
		while (!stop.stop_requested())
			;
	});

	become_urgent();
	const auto start = Clock::now();
	do {
		const auto begin = Clock::now();
		usleep(static_cast<useconds_t>(ask_us));
		us.push_back(since(begin) * 1e6 - ask_us);
	} while (since(start) < seconds);
	say("p50_us", quantile(us, 0.5));
	say("p99_us", quantile(us, 0.99));
}

} // namespace bench
