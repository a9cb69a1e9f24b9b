// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the driver does with a doorbell, done by a signal handler: a store to a page that is not there is skipped.
#include <array>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

extern "C" {
#include "../../../kernel/tally/store.h"
}

#ifdef __x86_64__

namespace {

struct Trap {
	int count;
	std::uint64_t value;
	tally_store store;
};

Trap trap;
char *page;

// General registers as instructions number them.
constexpr int gregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
			   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

void on_fault(int, siginfo_t *info, void *context)
{
	auto *regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
	auto *addr = static_cast<char *>(info->si_addr);

	// Not the doorbell page, or not a store: die of the fault itself.
	if (addr < page || addr >= page + 4096 ||
	    !tally_decode_store(reinterpret_cast<const u8 *>(regs[REG_RIP]), TALLY_STORE_MAX_LEN, &trap.store)) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	trap.count++;
	if (trap.store.reg != TALLY_STORE_NO_REG)
		trap.value = std::uint64_t(regs[gregs[trap.store.reg]]);
	regs[REG_RIP] += trap.store.len;
}

class Trapped : public testing::Test {
protected:
	void SetUp() override
	{
		struct sigaction action = {};

		page = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(page, MAP_FAILED);
		action.sa_sigaction = on_fault;
		action.sa_flags = SA_SIGINFO;
		ASSERT_EQ(sigaction(SIGSEGV, &action, &old), 0);
		trap = {};
	}

	void TearDown() override
	{
		sigaction(SIGSEGV, &old, nullptr);
		munmap(page, 4096);
	}

	struct sigaction old;
};

TEST_F(Trapped, AnEightByteStoreIsSkippedAndItsValueIsSeen)
{
	for (std::uint64_t i = 1; i <= 1000; i++) {
		*reinterpret_cast<volatile std::uint64_t *>(page + 0x800) = i * 0x0123456789abcdef;
		ASSERT_EQ(trap.count, int(i));
		ASSERT_EQ(trap.store.width, 8);
		ASSERT_EQ(trap.value, i * 0x0123456789abcdef);
	}
}

TEST_F(Trapped, ExecutionGoesOnRightBehindStoresOfEveryForm)
{
	std::uint64_t before = 0, after = 0;

	asm volatile("mov %[p], %%r11\n\t"
		     "xor %%r10, %%r10\n\t"
		     "mov %%r10, 0x800(%%r11)\n\t" // 1
		     "inc %%r10\n\t"
		     "movnti %%r10, 0x20(%%r11)\n\t" // 2
		     "inc %%r10\n\t"
		     "movq $-1, 0x28(%%r11)\n\t" // 3
		     "inc %%r10\n\t"
		     "movb $7, %%fs:0x8(%%rax)\n\t" // an ordinary store: no trap
		     "movl $1, (%%r11,%%r10,8)\n\t" // 4
		     "inc %%r10\n\t"
		     "movups %%xmm0, 0x40(%%r11)\n\t" // 5
		     "inc %%r10\n\t"
		     "movntdq %%xmm1, 0x50(%%r11)\n\t" // 6
		     "inc %%r10\n\t"
		     "movlps %%xmm1, -0x1(%%r11,%%r10,4)\n\t" // 7
		     "inc %%r10\n\t"
		     "movw %%r10w, 0x800(%%r11)\n\t" // 8
		     "inc %%r10\n\t"
		     "mov %%r10, %[after]\n\t"
		     : [after] "=&r"(after)
		     : [p] "r"(page), "a"(reinterpret_cast<char *>(&before) - 8 -
					  [] {
						  std::uint64_t fs;
						  asm("mov %%fs:0, %0" : "=r"(fs));
						  return fs;
					  }())
		     : "r10", "r11", "memory");
	EXPECT_EQ(after, 8u);
	EXPECT_EQ(trap.count, 8);
	EXPECT_EQ(trap.store.width, 2);
	EXPECT_EQ(before, 7u);
}

TEST_F(Trapped, CopiesOfSixtyFourBytesAreSeveralStores)
{
	std::array<std::uint64_t, 8> wqe = {1, 2, 3, 4, 5, 6, 7, 8};
	auto *reg = reinterpret_cast<volatile std::uint64_t *>(page + 0x800);

	for (unsigned i = 0; i < wqe.size(); i++)
		reg[i] = wqe[i];
	EXPECT_EQ(trap.count, 8);
	EXPECT_EQ(trap.value, 8u);
}

TEST_F(Trapped, VectorStoresAreSkippedWhereTheProcessorHasThem)
{
	int expected = 0;

	if (__builtin_cpu_supports("avx")) {
		asm volatile("vmovups %%ymm0, (%0)\n\tvmovntdq %%ymm1, 0x20(%0)\n\tvzeroupper" ::"r"(page)
			     : "memory", "xmm0", "xmm1");
		expected += 2;
		EXPECT_EQ(trap.store.width, 32);
	}
	if (__builtin_cpu_supports("avx512f")) {
		asm volatile("vmovdqu64 %%zmm0, 0x800(%0)\n\tvmovntdq %%zmm1, 0x840(%0)\n\tvzeroupper" ::"r"(page)
			     : "memory", "xmm0", "xmm1");
		expected += 2;
		EXPECT_EQ(trap.store.width, 64);
	}
	asm volatile("movaps %%xmm0, 0x100(%0)" ::"r"(page) : "memory");
	EXPECT_EQ(trap.count, expected + 1);
}

using TrappedDeathTest = Trapped;

TEST_F(TrappedDeathTest, WhatIsNotAStoreIsNotSkipped)
{
	EXPECT_EXIT((void)*reinterpret_cast<volatile std::uint64_t *>(page), testing::KilledBySignal(SIGSEGV), "");
	EXPECT_EXIT(asm volatile("lock incq (%0)" ::"r"(page) : "memory"), testing::KilledBySignal(SIGSEGV), "");
	EXPECT_EXIT(asm volatile("xchg %%rax, (%0)" ::"r"(page) : "memory", "rax"), testing::KilledBySignal(SIGSEGV),
		    "");
}

} // namespace

#endif
