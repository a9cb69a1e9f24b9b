// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lingering: who arms a CQ whose events come soon stays awake for a while.
 *
 * Who arms is about to sleep.  To wake a thread up on a CPU that has halted may take many times as long as a message
 * does, in a virtual machine above all; and as long as it takes, the other side of a dialogue sleeps, too, and has to be
 * woken up in turn.  So if the CQ's last event came within linger_us of its arming, the next one is waited for that long
 * in the doorbell's fault, unless somebody else wants this CPU.  If it does come, the thread finds it without having
 * slept.  If it does not, it is not tried again for a while: for longer and longer, as long as it does not pay.
 *
 * What it costs is time of a CPU on which nobody else would run just now.  It is the thread's own time, though, and
 * part of what a cgroup may limit; and neither another CPU's waiters nor a hypervisor see an idle CPU meanwhile.
 *
 * The event is the one that would have been raised anyway; nothing is lost or raised twice, whoever waits for it.
 *
 * A lingering thread holds no lock, not even the fault's, and is in no RCU read section: grace periods do not wait
 * for it. Who destroys the CQ waits until it has been left (@num).  It does not sleep either, so that
 * tally_uars_exit() waits for the instructions behind that.
 */
#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/wait_bit.h>
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
	struct tally_linger *l = &cq->linger;
	u64 since = READ_ONCE(l->since);

	WRITE_ONCE(l->events, l->events + 1);
	/* An event that the arm itself has raised says nothing of how soon they come. */
	if (!since)
		return;
	WRITE_ONCE(l->since, 0);
	/* Another CPU's clock may be behind. */
	WRITE_ONCE(l->soon, (s64)(local_clock() - since) <= (s64)linger_ns());
}

bool tally_linger_begin(struct tally_cq *cq, const struct vm_fault *vmf)
{
	struct tally_linger *l = &cq->linger;
	u64 now = local_clock();

	if (!is_armed(cq))
		return false;
	WRITE_ONCE(l->since, now);
	if (!is_armed(cq)) {
		/* It has come just now, and may not have seen that. */
		WRITE_ONCE(l->since, 0);
		WRITE_ONCE(l->soon, true);
		return false;
	}
	if (!linger_ns() || !READ_ONCE(l->soon) || !tally_may_try(&l->retry, now) || others_want_the_cpu() ||
	    !(vmf->flags & FAULT_FLAG_ALLOW_RETRY) || vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return false;
	tally_stat_inc(to_tdev(cq->ctx->ib.device), TALLY_STAT_LINGERED);
	atomic_inc(&l->num);
	return true;
}

/* Whether there is still something to wait for; another thread may have armed the CQ again since. */
static bool goes_on(const struct tally_cq *cq, u32 events)
{
	return READ_ONCE(cq->linger.events) == events && !READ_ONCE(cq->linger.over);
}

void tally_linger(struct tally_cq *cq, u32 events)
{
	struct tally_linger *l = &cq->linger;
	u64 start = local_clock(), ns = linger_ns();
	bool in_time;

	do {
		cpu_relax();
		in_time = local_clock() - start < ns;
	} while (in_time && goes_on(cq, events) && !others_want_the_cpu());
	if (READ_ONCE(l->events) != events) {
		tally_succeeded(&l->retry);
	} else if (!in_time) {
		WRITE_ONCE(l->soon, false);
		tally_failed(&l->retry, local_clock());
	}
	/* From here on the CQ may be gone; its own barriers pair with tally_linger_end(). */
	if (atomic_dec_and_test(&l->num))
		wake_up_var(&l->num);
}

void tally_linger_end(struct tally_cq *cq)
{
	WRITE_ONCE(cq->linger.over, true);
	wait_var_event(&cq->linger.num, !atomic_read_acquire(&cq->linger.num));
}
