/* SPDX-License-Identifier: GPL-2.0-only */
/* The processor's part of skipping a store that faulted. */
#ifndef TALLY_TRAP_H
#define TALLY_TRAP_H

#include <linux/ptrace.h>
#include <linux/types.h>

#if defined(CONFIG_X86_64)

/*
 * Whether an instruction may be skipped: ordinary 64-bit user code.  A single-stepping debugger expects to see
 * every instruction, so his store is let run.
 */
static inline bool tally_trap_usable(const struct pt_regs *regs)
{
	return regs->cs == __USER_CS && !(regs->flags & X86_EFLAGS_TF);
}

/* A general register by the number that instructions give it. */
static inline u64 tally_trap_reg(const struct pt_regs *regs, u8 reg)
{
	switch (reg) {
	case 0:
		return regs->ax;
	case 1:
		return regs->cx;
	case 2:
		return regs->dx;
	case 3:
		return regs->bx;
	case 4:
		return regs->sp;
	case 5:
		return regs->bp;
	case 6:
		return regs->si;
	case 7:
		return regs->di;
	case 8:
		return regs->r8;
	case 9:
		return regs->r9;
	case 10:
		return regs->r10;
	case 11:
		return regs->r11;
	case 12:
		return regs->r12;
	case 13:
		return regs->r13;
	case 14:
		return regs->r14;
	default:
		return regs->r15;
	}
}

static inline void tally_trap_skip(struct pt_regs *regs, u8 len)
{
	regs->ip += len;
	/* Set by the fault, so that the same instruction can run again; the next one's breakpoints count. */
	regs->flags &= ~X86_EFLAGS_RF;
}

#elif defined(CONFIG_ARM64)

#include <linux/thread_info.h>

static inline bool tally_trap_usable(const struct pt_regs *regs)
{
	return user_mode(regs) && !compat_user_mode(regs) && !test_thread_flag(TIF_SINGLESTEP);
}

static inline u64 tally_trap_reg(const struct pt_regs *regs, u8 reg)
{
	return regs->regs[reg];
}

static inline void tally_trap_skip(struct pt_regs *regs, u8 len)
{
	regs->pc += len;
	regs->pstate &= ~PSR_BTYPE_MASK;
}

#else

static inline bool tally_trap_usable(const struct pt_regs *regs)
{
	return false;
}

static inline u64 tally_trap_reg(const struct pt_regs *regs, u8 reg)
{
	return 0;
}

static inline void tally_trap_skip(struct pt_regs *regs, u8 len)
{
}

#endif

#endif /* TALLY_TRAP_H */
