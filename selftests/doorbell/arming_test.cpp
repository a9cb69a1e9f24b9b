// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Arming a CQ through the doorbell page.
#include <poll.h>

#include "../rdma/ktap.hpp"
#include "ringer.hpp"

using namespace rdma;

namespace {

struct Armed {
	Context c;
	Channel channel = own<Channel>(ibv_create_comp_channel(c.get()), "comp_channel");
	Ringer r{c, channel.get()};
	std::uint32_t sn = 0;

	// The arm record, and the word for the register.
	std::uint64_t record()
	{
		std::uint32_t high = htobe32((sn++ & 3) << 28 | (r.taken() & 0xffffff)), low = htobe32(r.dv_cq().cqn);

		reinterpret_cast<volatile std::uint32_t *>(r.dv_cq().dbrec)[1] = high;
		_mm_sfence();
		return std::uint64_t(low) << 32 | high;
	}
	char *uar() { return static_cast<char *>(r.dv_cq().cq_uar); }
	bool event(int ms)
	{
		pollfd p = {channel->fd, POLLIN, 0};

		if (::poll(&p, 1, ms) != 1)
			return false;
		ibv_cq *cq;
		void *context;
		must(ibv_get_cq_event(channel.get(), &cq, &context), "get_cq_event");
		ibv_ack_cq_events(cq, 1);
		return cq == r.cq();
	}
	void complete_one()
	{
		r.post();
		r.ring();
		if (!r.completes())
			fail("no completion", ETIMEDOUT);
	}
};

struct How {
	const char *name;
	void (*store)(char *uar, std::uint64_t word);
};

const How hows[] = {
	{"by one store",
	 [](char *uar, std::uint64_t word) { *reinterpret_cast<volatile std::uint64_t *>(uar + 0x20) = word; }},
	{"by two halves",
	 [](char *uar, std::uint64_t word) {
		 reinterpret_cast<volatile std::uint32_t *>(uar + 0x20)[0] = std::uint32_t(word);
		 reinterpret_cast<volatile std::uint32_t *>(uar + 0x20)[1] = std::uint32_t(word >> 32);
	 }},
	{"by a vector",
	 [](char *uar, std::uint64_t word) {
		 asm volatile("movq %1, %%xmm0\n\tmovups %%xmm0, 0x20(%0)" ::"r"(uar), "r"(word) : "memory", "xmm0");
	 }},
	{"by an exchange",
	 [](char *uar, std::uint64_t word) { asm volatile("xchg %1, 0x20(%0)" : "+r"(uar), "+r"(word)::"memory"); }},
	{"with another CQ's number",
	 [](char *uar, std::uint64_t) { *reinterpret_cast<volatile std::uint64_t *>(uar + 0x20) = ~0ull; }},
};

void arms(const How &how)
{
	Armed a;

	for (int i = 0; i < 50; i++) {
		std::uint64_t word = a.record();
		how.store(a.uar(), word);
		// Armed for what comes: nothing is there yet.
		ASSERT_FALSE(a.event(i < 3 ? 20 : 0)) << i;
		a.complete_one();
		ASSERT_TRUE(a.event(5000)) << i;
		a.complete_one();
		ASSERT_FALSE(a.event(0)) << "not armed " << i;
	}
}

KTESTS
{
	for (const How &h : hows)
		ktap::add("arming", std::string("a CQ is armed ") + h.name, [&h] { arms(h); }, __FILE__, __LINE__);
}

KTEST(arming, "what came before the arm was rung is an event at once")
{
	Armed a;

	for (int i = 0; i < 50; i++) {
		std::uint64_t word = a.record();
		a.r.post();
		a.r.ring();
		ASSERT_TRUE(eventually([&] { return a.r.take(); }));
		hows[0].store(a.uar(), word);
		ASSERT_TRUE(a.event(5000)) << i;
	}
}

} // namespace
