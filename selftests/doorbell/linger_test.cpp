// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Who arms a CQ whose events come soon waits for the next one in the doorbell, and nobody notices otherwise.
#include <csignal>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../rdma/ktap.hpp"
#include "armed.hpp"
#include "device.hpp"

using namespace rdma;

namespace {

std::uint64_t lingered(const std::string &device = device_name()) { return hw_counter("cq_arms_lingered", device); }

// Arms, and has the event and the completion for it.
void round(Answered &a)
{
	a.arm();
	ASSERT_TRUE(a.event(5000));
	ASSERT_TRUE(a.r.completes());
}

// Rounds until @n arms have waited for their event, if that happens within the time.
bool lingers(Answered &a, std::uint64_t n, std::chrono::milliseconds limit)
{
	const std::uint64_t before = lingered();

	for (auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
		for (int i = 0; i < 100 && !testing::Test::HasFatalFailure(); i++)
			round(a);
		if (testing::Test::HasFatalFailure())
			return false;
		if (lingered() - before >= n)
			return true;
	}
	return false;
}

bool has_two_cpus() { return sysconf(_SC_NPROCESSORS_ONLN) >= 2; }

KTEST(linger, "an event that comes soon is waited for in the doorbell, and raised once")
{
	if (!has_two_cpus())
		GTEST_SKIP() << "needs two CPUs";
	Parameter us("linger_us", "1000");
	Answered a;

	EXPECT_TRUE(lingers(a, 100, 90s));
	EXPECT_FALSE(a.event(20));
}

KTEST(linger, "it is not if the driver is told so")
{
	Parameter us("linger_us", "0");
	Answered a;

	EXPECT_FALSE(lingers(a, 1, 1s));
}

// Where the calling thread runs, and what it starts; as before afterwards.
class Affinity {
      public:
	Affinity() { must(sched_getaffinity(0, sizeof(before_), &before_), "sched_getaffinity"); }
	~Affinity() { sched_setaffinity(0, sizeof(before_), &before_); }
	void set(int cpu)
	{
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		must(sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
	}

      private:
	cpu_set_t before_;
};

KTEST(linger, "it is not while others want the CPU")
{
	if (!has_two_cpus())
		GTEST_SKIP() << "needs two CPUs";
	Parameter us("linger_us", "1000");
	// Who answers has the other CPU; what is started from here on is where he who arms is.
	Affinity affinity;
	affinity.set(1);
	Answered a;
	affinity.set(0);
	ASSERT_TRUE(lingers(a, 20, 90s));
	const std::jthread other([](const std::stop_token &stop) {
		while (!stop.stop_requested())
			;
	});
	std::this_thread::sleep_for(100ms);
	const std::uint64_t before = lingered();

	for (int i = 0; i < 200 && !testing::Test::HasFatalFailure(); i++)
		round(a);
	EXPECT_LT(lingered() - before, 20u);
}

KTEST(linger, "what is in vain again and again is tried less and less")
{
	Parameter us("linger_us", "1000");
	Armed a;
	const std::uint64_t before = lingered();
	constexpr int rounds = 2000;

	// The event comes at once whenever nobody waits for it: he who waits is who posts.
	for (int i = 0; i < rounds; i++) {
		Armed::store(a.uar(), a.record());
		a.complete_one();
		ASSERT_TRUE(a.event(5000)) << i;
	}
	EXPECT_GT(lingered() - before, 0u);
	EXPECT_LT(lingered() - before, std::uint64_t(rounds / 10));
}

KTEST(linger, "a CQ whose events come late is not waited for")
{
	Armed a;
	const std::uint64_t before = lingered();

	for (int i = 0; i < 50; i++) {
		Armed::store(a.uar(), a.record());
		std::this_thread::sleep_for(5ms);
		a.complete_one();
		ASSERT_TRUE(a.event(5000)) << i;
	}
	EXPECT_EQ(lingered(), before);
}

KTEST(linger, "who waits for an event after each doorbell is not polled, however fast they come")
{
	Parameter rate("poll_rate", "1");
	Answered a;
	// It may still be on its way because of what has been destroyed before.
	std::this_thread::sleep_for(100ms);
	const std::uint64_t wakeups = hw_counter("engine_wakeups");

	for (int i = 0; i < 2000 && !testing::Test::HasFatalFailure(); i++)
		round(a);
	EXPECT_EQ(hw_counter("engine_wakeups"), wakeups);
}

void leave_well(int) { _exit(0); }

// Arms at a mapping of the test's own, which goes away meanwhile: the next store finds it gone.  In a process of its own,
// which nothing leads out of.
[[noreturn]] void arm_until_it_goes() noexcept
{
	Answered a;
	void *page = mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, a.c.get()->cmd_fd, a.r.page_offset());

	if (page == MAP_FAILED)
		_exit(1);
	signal(SIGSEGV, leave_well);
	std::thread other([&] {
		std::this_thread::sleep_for(std::chrono::microseconds(50000 + getpid() % 1000));
		munmap(page, 4096);
	});
	for (auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
		a.arm(static_cast<char *>(page));
		if (!a.event(5000) || !a.r.completes())
			_exit(2);
	}
	_exit(3);
}

KTEST(linger, "a mapping can be taken away while a thread waits in a store to it")
{
	if (!has_two_cpus())
		GTEST_SKIP() << "needs two CPUs";
	Parameter us("linger_us", "1000");
	const std::uint64_t before = lingered();

	for (int i = 0; i < 20; i++) {
		const pid_t child = fork();
		int status = 0;

		ASSERT_GE(child, 0);
		if (!child)
			arm_until_it_goes();
		EXPECT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
	}
	EXPECT_GT(lingered() - before, 20u);
}

// Arms for so long and goes on while the device is removed; how many arms had waited by then.
std::uint64_t arm_until_the_device_goes(std::chrono::milliseconds time)
{
	Link link;
	// Never destroyed: its objects are gone with the device.
	auto *a = new Answered(link.name);
	std::atomic<bool> gone = false;
	std::uint64_t had = 0;
	std::thread other([&] {
		std::this_thread::sleep_for(time);
		had = lingered(link.name);
		link.remove();
		gone = true;
	});

	while (!gone) {
		a->arm();
		a->r.take();
	}
	other.join();
	a->hang_up();
	return had;
}

KTEST(linger, "so can the device")
{
	if (!has_two_cpus())
		GTEST_SKIP() << "needs two CPUs";
	Parameter us("linger_us", "1000");
	std::uint64_t had = 0;

	for (int i = 0; i < 5; i++)
		had += arm_until_the_device_goes(std::chrono::milliseconds(20 * i));
	EXPECT_GT(had, 0u);
}

} // namespace
