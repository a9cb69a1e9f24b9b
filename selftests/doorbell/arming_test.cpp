// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Arming a CQ through the doorbell page.
#include "../rdma/ktap.hpp"
#include "armed.hpp"

using namespace rdma;

namespace {

struct How {
	const char *name;
	void (*store)(char *uar, std::uint64_t word);
};

const How hows[] = {
	{"by one store", Armed::store},
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
		Armed::store(a.uar(), word);
		ASSERT_TRUE(a.event(5000)) << i;
	}
}

} // namespace
