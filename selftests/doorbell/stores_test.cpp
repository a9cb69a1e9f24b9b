// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Doorbells by every kind of instruction.
#include <csignal>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../rdma/ktap.hpp"
#include "ringer.hpp"

using namespace rdma;

namespace {

struct Store {
	const char *name;
	bool (*usable)();
	void (*ring)(char *reg, std::uint64_t word);
};

bool always()
{
	return true;
}

const Store skipped[] = {
	{"an 8-byte store", always,
	 [](char *reg, std::uint64_t word) { *reinterpret_cast<volatile std::uint64_t *>(reg) = word; }},
	{"two 4-byte stores", always,
	 [](char *reg, std::uint64_t word) {
		 reinterpret_cast<volatile std::uint32_t *>(reg)[0] = std::uint32_t(word);
		 reinterpret_cast<volatile std::uint32_t *>(reg)[1] = std::uint32_t(word >> 32);
	 }},
	{"a store to the register's other half", always,
	 [](char *reg, std::uint64_t word) { *reinterpret_cast<volatile std::uint64_t *>(reg + 8) = word; }},
	{"a store of another word", always,
	 [](char *reg, std::uint64_t) { *reinterpret_cast<volatile std::uint64_t *>(reg) = 0x1122334455667788; }},
	{"a store of an immediate", always,
	 [](char *reg, std::uint64_t) { asm volatile("movq $0, (%0)" ::"r"(reg) : "memory"); }},
	{"a store of a byte", always, [](char *reg, std::uint64_t) { asm volatile("movb $1, (%0)" ::"r"(reg) : "memory"); }},
	{"movnti", always,
	 [](char *reg, std::uint64_t word) { asm volatile("movnti %1, (%0)" ::"r"(reg), "r"(word) : "memory"); }},
	{"movups", always,
	 [](char *reg, std::uint64_t word) {
		 asm volatile("movq %1, %%xmm0\n\tmovups %%xmm0, (%0)" ::"r"(reg), "r"(word) : "memory", "xmm0");
	 }},
	{"movntdq", always,
	 [](char *reg, std::uint64_t word) {
		 asm volatile("movq %1, %%xmm0\n\tmovntdq %%xmm0, (%0)" ::"r"(reg), "r"(word) : "memory", "xmm0");
	 }},
	{"64 bytes by eight stores", always,
	 [](char *reg, std::uint64_t word) {
		 for (int i = 0; i < 8; i++)
			 reinterpret_cast<volatile std::uint64_t *>(reg)[i] = i ? 0 : word;
	 }},
	{"64 bytes by four vectors", always,
	 [](char *reg, std::uint64_t word) {
		 asm volatile("movq %1, %%xmm0\n\tmovntdq %%xmm0, (%0)\n\tmovntdq %%xmm0, 16(%0)\n\t"
			      "movntdq %%xmm0, 32(%0)\n\tmovntdq %%xmm0, 48(%0)" ::"r"(reg),
			      "r"(word)
			      : "memory", "xmm0");
	 }},
	{"a 32-byte vector", [] { return bool(__builtin_cpu_supports("avx")); },
	 [](char *reg, std::uint64_t word) {
		 asm volatile("vmovq %1, %%xmm0\n\tvmovdqu %%ymm0, (%0)\n\tvzeroupper" ::"r"(reg), "r"(word)
			      : "memory", "xmm0");
	 }},
	{"a 64-byte vector", [] { return bool(__builtin_cpu_supports("avx512f")); },
	 [](char *reg, std::uint64_t word) {
		 asm volatile("vmovq %1, %%xmm0\n\tvmovdqu64 %%zmm0, (%0)\n\tvzeroupper" ::"r"(reg), "r"(word)
			      : "memory", "xmm0");
	 }},
};

const Store run_for_real[] = {
	{"xchg", always,
	 [](char *reg, std::uint64_t word) { asm volatile("xchg %1, (%0)" : "+r"(reg), "+r"(word)::"memory"); }},
	{"a locked addition", always,
	 [](char *reg, std::uint64_t word) { asm volatile("lock addq %1, (%0)" ::"r"(reg), "r"(word) : "memory"); }},
	{"rep movsb", always,
	 [](char *reg, std::uint64_t word) {
		 const void *from = &word;
		 std::size_t n = sizeof(word);
		 asm volatile("rep movsb" : "+D"(reg), "+S"(from), "+c"(n)::"memory");
	 }},
	{"rep stosq over 64 bytes", always,
	 [](char *reg, std::uint64_t word) {
		 std::size_t n = 8;
		 asm volatile("rep stosq" : "+D"(reg), "+c"(n) : "a"(word) : "memory");
	 }},
	{"an x87 store", always,
	 [](char *reg, std::uint64_t) { asm volatile("fldz\n\tfistpq (%0)" ::"r"(reg) : "memory"); }},
};

// Rings by the store, many times, while the page is in whatever mode it is.
void rings(const Store &store, bool decoded)
{
	Context c;
	Ringer r(c);
	std::uint64_t before = hw_counter("doorbell_undecoded_stores");

	for (int i = 0; i < 20; i++) {
		r.post();
		store.ring(r.reg(), r.word());
		ASSERT_TRUE(r.completes()) << "doorbell " << i;
		std::this_thread::sleep_for(std::chrono::milliseconds(i % 3 * 8));
	}
	if (decoded)
		EXPECT_EQ(hw_counter("doorbell_undecoded_stores"), before);
	else
		EXPECT_GT(hw_counter("doorbell_undecoded_stores"), before);
}

KTESTS
{
	for (const Store &s : skipped)
		if (s.usable())
			ktap::add("doorbell", std::string(s.name) + " rings and is skipped", [&s] { rings(s, true); },
				  __FILE__, __LINE__);
	for (const Store &s : run_for_real)
		if (s.usable())
			ktap::add("doorbell", std::string(s.name) + " rings though it cannot be skipped",
				  [&s] { rings(s, false); }, __FILE__, __LINE__);
}

KTEST(doorbell, "a page that an odd store has mapped is trapped again soon")
{
	Context c;
	Ringer r(c);

	r.post();
	run_for_real[0].ring(r.reg(), r.word());
	ASSERT_TRUE(r.completes());
	EXPECT_TRUE(eventually([&] {
		std::uint64_t before = hw_counter("doorbells_trapped");
		r.post();
		r.ring();
		if (!r.completes())
			fail("lost doorbell", ETIMEDOUT);
		return hw_counter("doorbells_trapped") > before;
	}));
}

KTEST(doorbell, "a store is not skipped on behalf of an instruction at the end of a page without a successor")
{
	Context c;
	Ringer r(c);
	auto *code = static_cast<std::uint8_t *>(
		mmap(nullptr, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	ASSERT_NE(code, MAP_FAILED);
	ASSERT_EQ(munmap(code + 4096, 4096), 0);
	// mov [rdi], rsi; ret
	const std::uint8_t insns[] = {0x48, 0x89, 0x37, 0xc3};
	std::memcpy(code + 4096 - sizeof(insns), insns, sizeof(insns));
	auto *f = reinterpret_cast<void (*)(char *, std::uint64_t)>(code + 4096 - sizeof(insns));
	std::uint64_t before = hw_counter("doorbell_undecoded_stores");

	for (int i = 0; i < 10; i++) {
		r.post();
		f(r.reg(), r.word());
		EXPECT_TRUE(r.completes());
	}
	EXPECT_EQ(hw_counter("doorbell_undecoded_stores"), before);
	munmap(code, 4096);
}

KTEST(doorbell, "a load from the page returns something")
{
	Context c;
	Ringer r(c);

	for (int i = 0; i < 10; i++) {
		(void)*reinterpret_cast<volatile std::uint64_t *>(r.reg());
		(void)*reinterpret_cast<volatile std::uint64_t *>(r.page());
		r.post();
		r.ring();
		EXPECT_TRUE(r.completes());
	}
}

KTEST(doorbell, "the kernel does not write to the page for the user")
{
	Context c;
	Ringer r(c);
	int zero = open("/dev/zero", O_RDONLY);

	ASSERT_GE(zero, 0);
	EXPECT_EQ(read(zero, r.page() + 8, 8), -1);
	EXPECT_EQ(errno, EFAULT);
	close(zero);
	r.post();
	r.ring();
	EXPECT_TRUE(r.completes());
}

KTEST(doorbell, "a store that begins before the page reaches both pages")
{
	Context c;
	Ringer r(c);
	// The page once more, behind ordinary memory.
	auto *area = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	ASSERT_NE(area, MAP_FAILED);
	ASSERT_EQ(mmap(area + 4096, 4096, PROT_WRITE, MAP_SHARED | MAP_FIXED, c.get()->cmd_fd, r.page_offset()),
		  area + 4096);
	area[4095] = 0;
	r.post();
	*reinterpret_cast<volatile std::uint64_t *>(area + 4092) = ~0ull;
	EXPECT_EQ(area[4095], char(0xff));
	r.ring();
	EXPECT_TRUE(r.completes());
	munmap(area, 8192);
}

KTEST(doorbell, "a debugger steps over a doorbell as over any store")
{
	pid_t child = fork();

	ASSERT_GE(child, 0);
	if (!child) {
		Context c;
		Ringer r(c);

		if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))
			_exit(2);
		r.post();
		raise(SIGSTOP);
		asm volatile("nop\n\tmov %1, (%0)\n\tnop\n\tint3" ::"r"(r.reg()), "r"(r.word()) : "memory");
		_exit(r.completes() ? 0 : 3);
	}
	int status = 0, steps = 0;

	ASSERT_EQ(waitpid(child, &status, 0), child);
	// From the stop to the breakpoint, instruction by instruction.
	for (; WIFSTOPPED(status) && steps < 100000; steps++) {
		user_regs_struct regs;
		ASSERT_EQ(ptrace(PTRACE_GETREGS, child, nullptr, &regs), 0);
		long code = ptrace(PTRACE_PEEKTEXT, child, regs.rip, nullptr);
		if ((code & 0xff) == 0xcc)
			break;
		ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, 0), 0);
		ASSERT_EQ(waitpid(child, &status, 0), child);
	}
	EXPECT_LT(steps, 100000);
	user_regs_struct regs;
	ASSERT_EQ(ptrace(PTRACE_GETREGS, child, nullptr, &regs), 0);
	regs.rip++;
	ASSERT_EQ(ptrace(PTRACE_SETREGS, child, nullptr, &regs), 0);
	ASSERT_EQ(ptrace(PTRACE_CONT, child, nullptr, 0), 0);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

} // namespace
