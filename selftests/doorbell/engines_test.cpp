// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device may have several threads that execute what posters do not.
#include <map>

#include "../rdma/ktap.hpp"
#include "device.hpp"
#include "ringer.hpp"

using namespace rdma;

namespace {

// How often each of a device's engines has gone to sleep, by its name.
std::map<std::string, long> sleeps(const std::string &device)
{
	std::map<std::string, long> found;

	for (auto &[name, pid] : engines_of(device)) {
		std::ifstream status("/proc/" + std::to_string(pid) + "/status");
		std::string line;
		while (std::getline(status, line))
			if (line.rfind("voluntary_ctxt_switches:", 0) == 0)
				found[name] = std::stol(line.substr(line.find(':') + 1));
	}
	return found;
}

// More at once than a doorbell's fault executes, so that an engine is needed.
void post_many(Ringer &r)
{
	for (int i = 0; i < 64; i++)
		r.post();
	r.ring();
	for (int i = 0; i < 64; i++)
		ASSERT_TRUE(r.completes());
}

KTEST(engines, "a device has as many as it is told, and they go with it")
{
	for (const char *count : {"1", "3"}) {
		Parameter engines("engines", count);
		Link link;
		auto running = engines_of(link.name);

		EXPECT_EQ(running.size(), std::stoul(count));
		EXPECT_EQ(running.count(link.name + "-engine"), 1u);
		link.remove();
		EXPECT_EQ(engines_of(link.name).size(), 0u);
	}
}

KTEST(engines, "without a word, there is one for each four CPUs")
{
	Parameter engines("engines", "0");
	Link link;
	EXPECT_EQ(engines_of(link.name).size(), std::max(sysconf(_SC_NPROCESSORS_ONLN) / 4, 1L));
}

KTEST(engines, "contexts take turns at them, and what one has posted is executed by its own")
{
	Parameter engines("engines", "2"), rate("poll_rate", "0");
	Link link;
	Context a(link.name), b(link.name);
	Ringer first(a), second(b);
	std::string engine_of[2];
	int n = 0;

	for (Ringer *r : {&first, &second, &first}) {
		std::string &mine = engine_of[n++ % 2];
		std::string woken;
		// What creation has left to do is done by now.
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
		auto before = sleeps(link.name);
		for (int i = 0; i < 20; i++)
			post_many(*r);
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
		for (auto &[name, count] : sleeps(link.name)) {
			if (count == before[name])
				continue;
			EXPECT_EQ(woken, "") << "and " << name;
			woken = name;
		}
		EXPECT_NE(woken, "");
		if (n < 3)
			mine = woken;
		else
			EXPECT_EQ(woken, mine);
	}
	EXPECT_NE(engine_of[0], engine_of[1]);
}

KTEST(engines, "several poll the pages of several contexts, lose nothing, and go with the device")
{
	Parameter engines("engines", "3"), rate("poll_rate", "1");
	for (int round = 0; round < 3; round++) {
		Link link;
		{
			std::vector<std::unique_ptr<Context>> contexts;
			std::vector<std::unique_ptr<Ringer>> ringers;
			std::vector<std::thread> threads;
			std::atomic<int> lost{0};
			for (int i = 0; i < 4; i++) {
				contexts.push_back(std::make_unique<Context>(link.name));
				ringers.push_back(std::make_unique<Ringer>(*contexts.back()));
			}
			for (auto &r : ringers)
				threads.emplace_back([&] {
					for (int i = 0; i < 500; i++) {
						r->post();
						r->ring();
						lost += !r->completes();
					}
				});
			for (auto &t : threads)
				t.join();
			EXPECT_EQ(lost, 0);
		}
		link.remove();
	}
}

} // namespace
