// SPDX-License-Identifier: GPL-2.0-only
/* Engines: a device's threads. */
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include "compat.h"
#include "tally.h"
#include "uar.h"

/* QPs run before the engine looks at other things. */
#define TURNS 4
/* Each is a thread: a limit for numbers that are not meant. */
#define MAX_ENGINES 64
/* Of so many CPUs, one is an engine's: beside it, a poster, who he sends to, and one for the rest. */
#define CPUS_PER_ENGINE 4

/* Bytes of the one turn between two looks at polled pages: what their posters wait for. */
#define TURN_BYTES_POLLING (16u * 1024)

static unsigned int turn_wqes = 64;
module_param(turn_wqes, uint, 0644);
MODULE_PARM_DESC(turn_wqes, "work requests of a queue that the engine executes before it turns to the next (64)");

static unsigned int turn_bytes = 256 * 1024;
module_param(turn_bytes, uint, 0644);
MODULE_PARM_DESC(turn_bytes,
		 "bytes of a queue that the engine moves before it turns to the next, 16384 at most while it polls (262144)");

static unsigned int engines;
module_param(engines, uint, 0644);
MODULE_PARM_DESC(engines, "engine threads of a device that is added from here on, 0: one for each 4 CPUs, 64 at most (0)");

/**
 * struct tally_engine - one of a device's engines
 * @dev: the device
 * @task: its thread
 * @lock: @run, @asleep and the tally_work of every QP.  A leaf, taken in the timers' hard interrupts and under
 *	the locks of queues; interrupts are off.
 * @run: struct tally_work.link of QPs to run, first come first served
 * @asleep: the thread sleeps or is about to: who adds work wakes it
 * @poller: pages it polls
 *
 * Lives from before the device is registered until no QP is left.
 */
struct tally_engine {
	struct tally_dev *dev;
	struct task_struct *task;
	spinlock_t lock;
	struct list_head run;
	bool asleep;
	struct tally_poller poller;
};

/**
 * struct tally_engines - they
 * @next: counts contexts
 * @num: how many
 * @each: they; of one that could not be started, @task is NULL
 */
struct tally_engines {
	atomic_t next;
	u32 num;
	struct tally_engine each[] __counted_by(num);
};

/* Under the engine's lock.  Returns whether the thread must be woken. */
static bool queue(struct tally_engine *e, struct tally_work *w)
{
	if (w->dead || !list_empty(&w->link))
		return false;
	list_add_tail(&w->link, &e->run);
	return e->asleep;
}

void tally_engine_kick(struct tally_qp *qp)
{
	struct tally_engine *e = qp->work.engine;
	unsigned long flags;
	bool wake;

	spin_lock_irqsave(&e->lock, flags);
	wake = queue(e, &qp->work);
	spin_unlock_irqrestore(&e->lock, flags);
	if (wake)
		wake_up_process(e->task);
}

static enum hrtimer_restart timer_fired(struct hrtimer *timer)
{
	struct tally_qp *qp = container_of(timer, struct tally_qp, work.timer);
	struct tally_engine *e = qp->work.engine;
	unsigned long flags;
	bool wake = false;

	spin_lock_irqsave(&e->lock, flags);
	/* Started again while it was on its way here: then it is too early. */
	if (!hrtimer_is_queued(timer)) {
		qp->work.timer_due = true;
		wake = queue(e, &qp->work);
	}
	spin_unlock_irqrestore(&e->lock, flags);
	if (wake)
		wake_up_process(e->task);
	return HRTIMER_NORESTART;
}

void tally_engine_timer(struct tally_qp *qp, u64 ns)
{
	struct tally_engine *e = qp->work.engine;
	unsigned long flags;

	spin_lock_irqsave(&e->lock, flags);
	if (!qp->work.dead) {
		qp->work.timer_due = false;
		hrtimer_start(&qp->work.timer, ns_to_ktime(ns), HRTIMER_MODE_REL);
	}
	spin_unlock_irqrestore(&e->lock, flags);
}

void tally_work_init(struct tally_qp *qp, struct tally_engine *engine)
{
	struct tally_work *w = &qp->work;

	w->engine = engine;
	INIT_LIST_HEAD(&w->link);
	hrtimer_setup(&w->timer, timer_fired, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

void tally_engine_forget(struct tally_qp *qp)
{
	struct tally_engine *e = qp->work.engine;
	struct tally_work *w = &qp->work;

	spin_lock_irq(&e->lock);
	w->dead = true;
	list_del_init(&w->link);
	spin_unlock_irq(&e->lock);
	/* Not under the lock, which the timer's function takes; it cannot be started any more. */
	hrtimer_cancel(&w->timer);
	/* Pairs with the release in end_turn(). */
	wait_var_event(&w->busy, !smp_load_acquire(&w->busy));
}

/* The next QP to run, busy from here on; its timer, if it is due, is the caller's. */
static struct tally_qp *begin_turn(struct tally_engine *e, bool *timer_due)
{
	struct tally_work *w;

	spin_lock_irq(&e->lock);
	w = list_first_entry_or_null(&e->run, struct tally_work, link);
	if (w) {
		list_del_init(&w->link);
		w->busy = true;
		*timer_due = w->timer_due;
		w->timer_due = false;
	}
	spin_unlock_irq(&e->lock);
	return w ? container_of(w, struct tally_qp, work) : NULL;
}

static void end_turn(struct tally_engine *e, struct tally_qp *qp, bool more)
{
	struct tally_work *w = &qp->work;
	bool dead;

	spin_lock_irq(&e->lock);
	dead = w->dead;
	if (more)
		queue(e, w);
	/* From here on the QP may be freed, if it is dead; pairs with tally_engine_forget(). */
	smp_store_release(&w->busy, false);
	spin_unlock_irq(&e->lock);
	if (dead) {
		/* The store before the look for waiters, as wake_up_var() asks for. */
		smp_mb();
		wake_up_var(&w->busy);
	}
}

/*
 * A bounded number of turns; returns whether there was one.  Posters of polled pages wait as long as this takes,
 * small requests behind huge ones of others: while there are such pages, it is a short one.
 */
static bool run_queued(struct tally_engine *e)
{
	bool polling = tally_poller_wanted(&e->poller);
	u32 turns, most = polling ? 1 : TURNS;

	for (turns = 0; turns < most; turns++) {
		struct hca_budget budget = {
			.wqes = READ_ONCE(turn_wqes),
			.bytes = polling ? min(READ_ONCE(turn_bytes), TURN_BYTES_POLLING) : READ_ONCE(turn_bytes),
		};
		bool timer_due = false;
		struct tally_qp *qp = begin_turn(e, &timer_due);

		if (!qp)
			break;
		if (timer_due)
			hca_qp_timer(&qp->hca);
		tally_stat_inc(e->dev, TALLY_STAT_ENGINE_RUNS);
		end_turn(e, qp, hca_qp_run(&qp->hca, &budget) == HCA_RUN_MORE);
		if (need_resched())
			return true;
	}
	return turns;
}

static void sleep_until_kicked(struct tally_engine *e, bool later)
{
	ktime_t timeout = ns_to_ktime(e->poller.later_ns);
	bool idle;

	spin_lock_irq(&e->lock);
	/* Before the looks that follow; who adds work does that first, and then wakes (wake_up_process()). */
	set_current_state(TASK_IDLE);
	idle = list_empty(&e->run);
	e->asleep = idle;
	spin_unlock_irq(&e->lock);

	idle &= later ? !tally_poller_asked(&e->poller) : !tally_poller_wanted(&e->poller);
	if (idle && !kthread_should_stop()) {
		if (later)
			schedule_hrtimeout_range(&timeout, e->poller.later_ns / 4, HRTIMER_MODE_REL);
		else
			schedule();
		tally_stat_inc(e->dev, TALLY_STAT_ENGINE_WAKEUPS);
	}
	__set_current_state(TASK_RUNNING);

	spin_lock_irq(&e->lock);
	e->asleep = false;
	spin_unlock_irq(&e->lock);
}

static int engine_main(void *arg)
{
	struct tally_engine *e = arg;

	while (!kthread_should_stop()) {
		bool ran = run_queued(e);
		enum tally_poll poll = tally_poller_pass(&e->poller, ran);

		if (ran || poll == TALLY_POLL_AGAIN)
			cond_resched_tasks_rcu_qs();
		else
			sleep_until_kicked(e, poll == TALLY_POLL_LATER);
	}
	return 0;
}

static int start(struct tally_engine *e, struct tally_dev *dev, const char *name, u32 index)
{
	struct task_struct *task;

	e->dev = dev;
	spin_lock_init(&e->lock);
	INIT_LIST_HEAD(&e->run);
	tally_poller_init(&e->poller);
	if (index)
		task = kthread_run(engine_main, e, "%s-engine/%u", name, index);
	else
		task = kthread_run(engine_main, e, "%s-engine", name);
	if (IS_ERR(task))
		return PTR_ERR(task);
	e->task = task;
	return 0;
}

struct tally_engines *tally_engines_create(struct tally_dev *dev, const char *name)
{
	u32 wanted = READ_ONCE(engines), num, i;
	struct tally_engines *all;
	int ret;

	num = clamp(wanted ?: num_online_cpus() / CPUS_PER_ENGINE, 1u, (u32)MAX_ENGINES);
	all = kvzalloc(struct_size(all, each, num), GFP_KERNEL);
	if (!all)
		return ERR_PTR(-ENOMEM);
	all->num = num;
	for (i = 0; i < num; i++) {
		ret = start(&all->each[i], dev, name, i);
		if (ret) {
			tally_engines_destroy(all);
			return ERR_PTR(ret);
		}
	}
	return all;
}

void tally_engines_destroy(struct tally_engines *all)
{
	u32 i;

	for (i = 0; i < all->num; i++)
		if (all->each[i].task)
			kthread_stop(all->each[i].task);
	kvfree(all);
}

struct tally_engine *tally_engine_next(struct tally_dev *dev)
{
	struct tally_engines *all = dev->engines;

	return &all->each[(u32)atomic_fetch_inc(&all->next) % all->num];
}

struct tally_poller *tally_engine_poller(struct tally_engine *engine)
{
	return &engine->poller;
}

void tally_engine_wake(struct tally_engine *engine)
{
	wake_up_process(engine->task);
}
