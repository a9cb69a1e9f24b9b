// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The device goes away while user space has its pages mapped and stores to them.
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "../rdma/ktap.hpp"
#include "device.hpp"
#include "ringer.hpp"

using namespace rdma;

namespace {

std::atomic<bool> stop;

void ring_for_ever(Ringer &r)
{
	while (!stop)
		for (int i = 0; i < 100; i++)
			r.ring();
}

KTEST(removal, "stores go on, to nowhere, when the device has gone")
{
	for (int round = 0; round < 5; round++) {
		Link link;
		Context c(link.name);
		// Never destroyed: its objects are gone with the device.
		auto *r = new Ringer(c);
		std::thread thread;

		stop = false;
		thread = std::thread([r] { ring_for_ever(*r); });
		std::this_thread::sleep_for(std::chrono::milliseconds(20 * round));
		link.remove();
		for (int i = 0; i < 1000; i++)
			r->ring();
		(void)*reinterpret_cast<volatile std::uint64_t *>(r->reg());
		asm volatile("lock incq (%0)" ::"r"(r->reg()) : "memory");
		stop = true;
		thread.join();
	}
}

KTEST(removal, "processes that die while the device goes do not hold it up")
{
	for (int round = 0; round < 10; round++) {
		Link link;
		std::vector<pid_t> children;

		for (int i = 0; i < 4; i++) {
			pid_t child = fork();

			ASSERT_GE(child, 0);
			if (!child) {
				Context c(link.name);
				Ringer r(c);

				stop = false;
				std::thread other([&] { ring_for_ever(r); });
				ring_for_ever(r);
			}
			children.push_back(child);
		}
		std::this_thread::sleep_for(100ms);
		std::thread killer([&] {
			for (pid_t child : children)
				kill(child, SIGKILL);
		});
		link.remove();
		killer.join();
		for (pid_t child : children) {
			int status = 0;

			EXPECT_EQ(waitpid(child, &status, 0), child);
			EXPECT_TRUE(WIFSIGNALED(status));
		}
	}
}

} // namespace
