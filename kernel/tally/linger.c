// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lingering: who arms a CQ whose events come soon stays awake for a while.
 *
 * Who arms is about to sleep.  To wake a thread up on a CPU that has halted may take many times as long as a message
 * does, in a virtual machine above all; and as long as it takes, the other side of a dialogue sleeps, too, and has to be
 * woken up in turn.  So if the CQ's last event came within linger_us of its arming, the next one is waited for that long
 * in the doorbell's fault, unless somebody else wants the CPU.  If it does come, the thread finds it without having
 * slept.  If it does not, that has cost no more than time of a CPU that nobody wanted, and it is not tried again for a
 * while: for longer and longer, as long as it does not pay.
 *
 * The event is the one that would have been raised anyway; nothing is lost or raised twice, whoever waits for it.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include "compat.h"
#include "tally.h"
#include "uar.h"

#define MAX_LINGER_US 1000u

static unsigned int linger_us = 200;
module_param(linger_us, uint, 0644);
MODULE_PARM_DESC(linger_us,
		 "microseconds that arming a CQ whose events come as soon waits for one if nobody else wants the CPU, 1000 at most; 0: never (200)");

static u64 linger_ns(void)
{
	return (u64)min(READ_ONCE(linger_us), MAX_LINGER_US) * NSEC_PER_USEC;
}

static bool is_armed(const struct tally_cq *cq)
{
	return READ_ONCE(cq->hca.armed) != HCA_CQ_UNARMED;
}

static bool others_want_the_cpu(void)
{
	return need_resched() || signal_pending(current) || !single_task_running();
}

void tally_linger_event(struct tally_cq *cq)
{
	/* Another CPU's clock may be behind. */
	s64 ns = local_clock() - READ_ONCE(cq->linger.since);

	WRITE_ONCE(cq->linger.soon, ns <= (s64)linger_ns());
}

vm_fault_t tally_linger(struct tally_cq *cq, struct vm_fault *vmf)
{
	struct tally_linger *l = &cq->linger;
	u64 now = local_clock(), ns = linger_ns();

	if (!is_armed(cq))
		return VM_FAULT_NOPAGE;
	WRITE_ONCE(l->since, now);
	if (!ns || !READ_ONCE(l->soon) || !tally_may_try(&l->retry, now) || others_want_the_cpu() ||
	    !(vmf->flags & FAULT_FLAG_ALLOW_RETRY) || vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return VM_FAULT_NOPAGE;

	tally_stat_inc(to_tdev(cq->ctx->ib.device), TALLY_STAT_LINGERED);
	release_fault_lock(vmf);
	/*
	 * In the caller's RCU read section, which keeps the queue: who destroys it asks for this CPU's quiescent state if
	 * he cannot wait, which others_want_the_cpu() sees.
	 */
	do
		cpu_relax();
	while (is_armed(cq) && !others_want_the_cpu() && local_clock() - now < ns);
	if (!is_armed(cq)) {
		tally_succeeded(&l->retry);
	} else {
		WRITE_ONCE(l->soon, false);
		tally_failed(&l->retry, local_clock());
	}
	return VM_FAULT_NOPAGE | VM_FAULT_COMPLETED;
}
