// SPDX-License-Identifier: GPL-2.0-only
/*
 * Polled mode: pages that ring so often that an otherwise idle CPU had better watch their doorbell records.
 *
 * A page enters it in three steps.  A fault asks for it (ASKED).  The engine wakes up, sees that it is alone on
 * its CPU and starts to poll the page's queues (OPEN).  The next fault maps the scratch page (MAPPED), and
 * stores do not fault any more.  That last step is taken inside the fault handler, under mode_lock: a handler
 * that left the mapping to its caller could be overtaken by the zap, and the page would stay mapped with nobody
 * watching.
 *
 * Leaving is: mode TRAPPED, zap, both under mode_lock; then one more look at all doorbell records.  A store that
 * still went to the scratch page did so before the zap was over, its doorbell record was written before the
 * store, and so the look after the zap sees it (the zap's TLB flush orders the user's writes before the engine's
 * reads; pairs with the barrier between record and register in the poster).  Every later store faults.
 *
 * A store that faulted and cannot be skipped must run against the mapped page.  A zap that is too quick would
 * let it fault again, for ever; so such a page is held for a while even if others want the CPU.
 *
 * With no CPU to spare, a page stays mapped if it streams: many small requests, and the poster waits for none of them.
 * Then the engine sleeps, and takes the CPU from whoever has it, at intervals, to execute what has come together.  It
 * does so for as long as more requests come so than did with a fault for each.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/stat.h>
#include "tally.h"
#include "uar.h"

/* Payload of a page moved, and QPs run, in one pass. */
#define PASS_BYTES	(256 * 1024)
#define PASS_RUNS	32
/* QPs looked at in one pass, as long as none of them has anything to do. */
#define PASS_LOOKS	2048
/* The same of one QP. */
#define QP_WQES		64
#define QP_BYTES	HCA_SLICE
/* A QP that had nothing to do in so many passes is quiet. */
#define QUIET_PASSES	4096
/* Quiet QPs are looked at in passes without work, at the latest in each so manieth pass; so many at a time. */
#define COLD_PASSES	32
#define COLD_QPS	16
/* How many doorbells in a row must have come at the rate from which on a page is polled. */
#define RINGS		8
/*
 * Polling has paid if it executed so many work requests, and at the rate from which on pages are polled.  It does
 * not where the CPU that polls and the poster's do not really run at the same time: in a virtual machine whose
 * host is busy.
 */
#define WORTH_WQES	64
/* So many doorbells in a row that nobody waited for are a stream. */
#define STREAK		32
/* Passes over such a page in one look, at most; and how long looks at several pages may keep the CPU from others. */
#define LOOK_PASSES	6
#define LOOK_NS		NSEC_PER_MSEC
/* Between two looks. */
#define MIN_STREAM_US	10u
#define MAX_STREAM_US	1000u
/* The same of a page that is held and does not stream. */
#define HELD_NS		(200 * NSEC_PER_USEC)
/* How long the thread takes the CPU from others before it lets the scheduler look for another one. */
#define URGENT_NS	(100 * NSEC_PER_MSEC)
static unsigned int poll_rate = 20;
module_param(poll_rate, uint, 0644);
MODULE_PARM_DESC(poll_rate,
		 "doorbells per millisecond from which a page is polled if a CPU is idle, or streams if none is; 0: neither (20)");

static unsigned int poll_us = 1000;
module_param(poll_us, uint, 0644);
MODULE_PARM_DESC(poll_us, "microseconds without a doorbell after which a page is not polled any more (1000)");

static unsigned int stream_us = 100;
module_param(stream_us, uint, 0644);
MODULE_PARM_DESC(stream_us,
		 "microseconds between looks at a page that streams while no CPU is idle, 10 to 1000; 0: it is trapped (100)");

static u64 stream_ns(void)
{
	return (u64)clamp(READ_ONCE(stream_us), MIN_STREAM_US, MAX_STREAM_US) * NSEC_PER_USEC;
}

void tally_poller_init(struct tally_poller *p)
{
	spin_lock_init(&p->ask_lock);
	INIT_LIST_HEAD(&p->asked);
	INIT_LIST_HEAD(&p->leaving);
	INIT_LIST_HEAD(&p->pages);
	tally_backoff_init(&p->retry);
}

bool tally_poller_asked(struct tally_poller *p)
{
	return !list_empty_careful(&p->asked) || !list_empty_careful(&p->leaving);
}

bool tally_poller_wanted(struct tally_poller *p)
{
	return !list_empty(&p->pages) || tally_poller_asked(p);
}

static struct tally_poller *poller_of(struct tally_uar *uar)
{
	return tally_engine_poller(uar->uars->engine);
}

/* ---- in fault handlers ---- */

void tally_uar_ask(struct tally_uar *uar)
{
	struct tally_poller *p = poller_of(uar);

	WRITE_ONCE(p->asker, raw_smp_processor_id());
	spin_lock(&p->ask_lock);
	if (list_empty(&uar->ask_link))
		list_add_tail(&uar->ask_link, &p->asked);
	uar->uars->asked = true;
	spin_unlock(&p->ask_lock);
	tally_engine_wake(uar->uars->engine);
}

/* Whether it may be looked at at intervals. */
static bool streams(const struct tally_uar *uar, u64 now)
{
	return READ_ONCE(uar->streak) >= STREAK && READ_ONCE(stream_us) && tally_may_try(&uar->look, now);
}

void tally_uar_rang(struct tally_uar *uar)
{
	u32 rate = READ_ONCE(poll_rate);
	u32 rings = READ_ONCE(uar->rings) + 1, wqes;
	u64 now, before, apart, known;

	if (READ_ONCE(uar->armed)) {
		WRITE_ONCE(uar->armed, false);
		rings = 1;
	}
	if (rings < RINGS) {
		WRITE_ONCE(uar->rings, rings);
		return;
	}
	now = local_clock();
	before = READ_ONCE(uar->window);
	WRITE_ONCE(uar->window, now);
	WRITE_ONCE(uar->rings, 0);
	wqes = max(READ_ONCE(uar->trapped_wqes), 1u);
	WRITE_ONCE(uar->trapped_wqes, 0);
	apart = div_u64(now - before, wqes);
	known = READ_ONCE(uar->trapped_ns);
	WRITE_ONCE(uar->trapped_ns, known ? min(apart, 2 * known) : apart);
	if (!rate || now - before > RINGS * NSEC_PER_MSEC / rate)
		return;
	if (!tally_may_try(&uar->retry, now) || (!tally_may_try(&poller_of(uar)->retry, now) && !streams(uar, now)))
		return;
	if (cmpxchg(&uar->mode, TALLY_UAR_TRAPPED, TALLY_UAR_ASKED) == TALLY_UAR_TRAPPED)
		tally_uar_ask(uar);
}

/* ---- hot and quiet QPs; the engine's thread ---- */

static void warm(struct tally_uar *uar, struct tally_qp *qp)
{
	spin_lock(&uar->uars->lock);
	if (qp->bfreg && !qp->work.hot) {
		qp->work.hot = true;
		qp->work.quiet = 0;
		list_add_tail_rcu(&qp->work.hot_link, &uar->hot);
	}
	spin_unlock(&uar->uars->lock);
}

static void cool(struct tally_uar *uar, struct tally_qp *qp)
{
	spin_lock(&uar->uars->lock);
	if (qp->work.hot) {
		qp->work.hot = false;
		list_del_rcu(&qp->work.hot_link);
	}
	spin_unlock(&uar->uars->lock);
}

void tally_uar_forget_qp(struct tally_uar *uar, struct tally_qp *qp)
{
	if (qp->work.hot) {
		qp->work.hot = false;
		list_del_rcu(&qp->work.hot_link);
	}
	if (uar->cold == qp)
		uar->cold = list_is_last(&qp->bfreg_link, &uar->qps) ? NULL : list_next_entry(qp, bfreg_link);
}

/* Begin the next pass behind @qp. */
static void rotate_behind(struct tally_uar *uar, struct tally_qp *qp)
{
	spin_lock(&uar->uars->lock);
	/* Moves the head, not the entries; the engine is the list's only reader. */
	if (qp->work.hot)
		list_move(&uar->hot, &qp->work.hot_link);
	spin_unlock(&uar->uars->lock);
}

/* Whether the record has moved; not while the QP waits: what ends that (a timer, a kick) runs it. */
static bool has_work(const struct tally_qp *qp)
{
	return hca_qp_pending(&qp->hca) && !READ_ONCE(qp->hca.sq.waiting);
}

/* Executes what the QP has; returns whether anything was done: not in a state in which nothing is executed. */
static bool run_qp(struct tally_uar *uar, struct tally_qp *qp, u32 *bytes)
{
	struct hca_budget budget = { .wqes = QP_WQES, .bytes = QP_BYTES };
	u32 done, moved;

	/* What is left of a flush may be receives, which no look at the queue's record finds. */
	if (hca_qp_run(&qp->hca, &budget) == HCA_RUN_MORE && READ_ONCE(qp->hca.state) == HCA_QPS_ERR)
		tally_engine_kick(qp);
	done = QP_WQES - budget.wqes;
	moved = QP_BYTES - budget.bytes;
	if (!done && !moved)
		return false;
	tally_stat_inc(uar->uars->dev, TALLY_STAT_DB_POLLED);
	*bytes += moved;
	uar->served += done;
	uar->moved += moved;
	return true;
}

static bool poll_hot(struct tally_uar *uar)
{
	bool progress = false;
	struct tally_qp *qp;
	u32 bytes = 0, runs = 0, looks = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(qp, &uar->hot, work.hot_link) {
		if (has_work(qp) && run_qp(uar, qp, &bytes)) {
			qp->work.quiet = 0;
			progress = true;
			runs++;
		} else if (++qp->work.quiet > QUIET_PASSES) {
			cool(uar, qp);
		}
		if (bytes >= PASS_BYTES || runs >= PASS_RUNS || ++looks >= PASS_LOOKS || need_resched()) {
			rotate_behind(uar, qp);
			break;
		}
	}
	rcu_read_unlock();
	return progress;
}

/* What was stored to the scratch page names QPs. */
static bool poll_scratch(struct tally_uar *uar)
{
	u8 *page = page_address(uar->scratch);
	u64 *arm = (u64 *)(page + TALLY_UAR_CQ_ARM);
	bool progress = false;
	struct tally_qp *qp;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(uar->seen); i++) {
		u64 word = READ_ONCE(*(const u64 *)(page + TALLY_UAR_BFREG + i * TALLY_BFREG_HALF));

		if (word == uar->seen[i])
			continue;
		uar->seen[i] = word;
		rcu_read_lock();
		qp = tally_uar_hinted_qp(uar, word);
		if (qp)
			warm(uar, qp);
		rcu_read_unlock();
		progress = true;
	}
	/* No arm is lost, thus none is told by what was there before; a word that arms is never 0. */
	if (READ_ONCE(*arm)) {
		/* Orders the reads of the records behind; pairs with the barrier between record and register. */
		xchg(arm, 0);
		tally_uars_arm_all(uar->uars);
		progress = true;
	}
	return progress;
}

/*
 * Some of the page's QPs, whether or not they rang lately; all of them after enough passes.  Returns whether there is
 * one to run.
 */
static bool poll_cold(struct tally_uar *uar)
{
	bool found = false;
	struct tally_qp *qp;
	u32 n = COLD_QPS;

	spin_lock(&uar->uars->lock);
	qp = uar->cold;
	if (!qp)
		qp = list_first_entry_or_null(&uar->qps, struct tally_qp, bfreg_link);
	while (qp && n--) {
		if (!qp->work.hot && has_work(qp)) {
			qp->work.hot = true;
			qp->work.quiet = 0;
			list_add_tail_rcu(&qp->work.hot_link, &uar->hot);
			found = true;
		}
		qp = list_is_last(&qp->bfreg_link, &uar->qps) ? NULL : list_next_entry(qp, bfreg_link);
	}
	uar->cold = qp;
	spin_unlock(&uar->uars->lock);
	return found;
}

static bool poll_page(struct tally_uar *uar)
{
	bool progress = poll_hot(uar);

	/* What the poster writes at each doorbell is not read at each pass: that would cost him a cache miss. */
	if (!progress || uar->passes++ % COLD_PASSES == 0) {
		progress |= poll_scratch(uar);
		/* That the record has moved is no progress: only what is executed is. */
		if (poll_cold(uar) && !progress)
			progress = poll_hot(uar);
	}
	return progress;
}

/* ---- entering and leaving; the engine's thread ---- */

/* A context whose pages the engine is to forget; on the stack of who waits for @done. */
struct tally_leave {
	struct list_head link;
	struct tally_uars *uars;
	struct completion done;
};

static void take_leaving(struct tally_poller *p)
{
	struct tally_leave *leave;
	u32 i;

	spin_lock(&p->ask_lock);
	while ((leave = list_first_entry_or_null(&p->leaving, struct tally_leave, link))) {
		list_del(&leave->link);
		for (i = 0; i < leave->uars->num; i++) {
			list_del_init(&leave->uars->pages[i].ask_link);
			list_del_init(&leave->uars->pages[i].poll_link);
		}
		leave->uars->asked = false;
		/* From here on both may be gone. */
		complete(&leave->done);
	}
	spin_unlock(&p->ask_lock);
}

static void take_asked(struct tally_poller *p)
{
	struct tally_uar *uar;

	spin_lock(&p->ask_lock);
	while ((uar = list_first_entry_or_null(&p->asked, struct tally_uar, ask_link))) {
		list_del_init(&uar->ask_link);
		if (list_empty(&uar->poll_link)) {
			list_add_tail(&uar->poll_link, &p->pages);
			uar->since = 0;
		}
	}
	spin_unlock(&p->ask_lock);
}

/* False: not now, somebody has its lock. */
static bool start(struct tally_uar *uar, u64 now)
{
	if (!mutex_trylock(&uar->mode_lock))
		return false;
	if (uar->mode == TALLY_UAR_ASKED)
		WRITE_ONCE(uar->mode, TALLY_UAR_OPEN);
	mutex_unlock(&uar->mode_lock);
	uar->since = now;
	uar->progress = now;
	uar->passes = 0;
	uar->served = 0;
	uar->moved = 0;
	tally_stat_inc(uar->uars->dev, TALLY_STAT_MODE_SWITCHES);
	return true;
}

static bool was_worth(const struct tally_uar *uar, u64 now)
{
	u64 rate = READ_ONCE(poll_rate);

	return uar->served >= WORTH_WQES && uar->served >= div_u64((now - uar->since) * rate, NSEC_PER_MSEC);
}

/* False: not now, somebody has its lock; it stays what it is and goes on to be looked at. */
static bool stop(struct tally_uar *uar)
{
	bool mapped;

	if (!mutex_trylock(&uar->mode_lock))
		return false;
	mapped = uar->mode == TALLY_UAR_MAPPED;
	if (mapped && !tally_uar_try_zap(uar)) {
		mutex_unlock(&uar->mode_lock);
		return false;
	}
	if (uar->mode != TALLY_UAR_DEAD)
		WRITE_ONCE(uar->mode, TALLY_UAR_TRAPPED);
	mutex_unlock(&uar->mode_lock);
	list_del_init(&uar->poll_link);
	if (mapped) {
		/* The look after the zap; see above. */
		poll_scratch(uar);
		tally_uar_kick_pending(uar);
	}
	if (uar->since)
		tally_stat_inc(uar->uars->dev, TALLY_STAT_MODE_SWITCHES);
	return true;
}

/*
 * Whether the thread takes the CPU from others: for a moment each time, or it would be who keeps them from running.  Not
 * if an administrator has given it a policy; its niceness, which he may have changed, too, stays what it is meanwhile.
 */
static void set_urgent(struct tally_poller *p, bool urgent)
{
	if (p->urgent == urgent || (urgent && current->policy != SCHED_NORMAL))
		return;
	p->urgent = urgent;
	if (urgent)
		sched_set_fifo_low(current);
	else
		sched_set_normal(current, task_nice(current));
}

/* Others have waited for long enough, for a pass that began @then. */
static void bound_urgency(struct tally_poller *p, u64 then)
{
	if (p->urgent && (s64)(local_clock() - then) > LOOK_NS)
		set_urgent(p, false);
}

static bool must_keep(const struct tally_uar *uar, u64 now)
{
	return now < READ_ONCE(uar->hold_until) || streams(uar, now);
}

/*
 * Give up every page that need not be held and does not stream.  Until its page is zapped, a poster waits in vain; so
 * this must not wait for the CPU behind the one who wants it, which any of the locks and schedule points within could
 * mean; unless there are so many that he would wait for too long.
 */
static void stop_all(struct tally_poller *p, u64 now)
{
	bool worth = false, polling = false, stopped = false, urgent = p->urgent;
	struct tally_uar *uar, *tmp;

	list_for_each_entry(uar, &p->pages, poll_link)
		polling |= uar->since && !must_keep(uar, now);
	if (polling)
		set_urgent(p, true);
	list_for_each_entry_safe(uar, tmp, &p->pages, poll_link) {
		if (must_keep(uar, now))
			continue;
		if (stop(uar)) {
			worth |= uar->since && was_worth(uar, now);
			stopped = true;
		}
		bound_urgency(p, now);
	}
	set_urgent(p, urgent && p->urgent);
	if (worth)
		tally_succeeded(&p->retry);
	if (stopped)
		tally_failed(&p->retry, now);
}

/* To another CPU, on which this thread may run.  Whoever changes its affinity in this very moment, does so in vain. */
static void move_to(struct tally_poller *p, unsigned int cpu)
{
	cpumask_copy(&p->allowed, current->cpus_ptr);
	/* If that CPU goes away meanwhile, the first call fails, and we stay. */
	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	set_cpus_allowed_ptr(current, &p->allowed);
}

/*
 * Away from the CPU of the poster who asked, to the next one on which this thread may run.  The scheduler wakes
 * the thread up where it last ran if it does not see an idle CPU, and it stops looking when those that share a
 * cache are busy on average: two posters on four CPUs may be enough.
 */
static void leave_poster(struct tally_poller *p)
{
	unsigned int here = raw_smp_processor_id(), next;

	if (here != READ_ONCE(p->asker))
		return;
	cpumask_and(&p->allowed, current->cpus_ptr, cpu_online_mask);
	next = cpumask_next(here, &p->allowed);
	if (next >= nr_cpu_ids)
		next = cpumask_first(&p->allowed);
	if (next < nr_cpu_ids && next != here)
		move_to(p, next);
}

/* Whether small requests have come at least as fast in this time as they did when their doorbells were trapped. */
static bool is_worth_a_look(const struct tally_uar *uar, u64 served, u64 moved, s64 ns)
{
	return moved <= served * TALLY_STREAM_BYTES && (s64)(served * READ_ONCE(uar->trapped_ns)) >= ns;
}

/*
 * One look at a page that streams.  False, and the page is given up, if that is not worth the while any more: nobody
 * posts, or he waits, which is not how he began, or what he posts is large now.
 */
static bool look(struct tally_uar *uar, u64 now)
{
	u64 served = uar->served, moved = uar->moved;
	/* Another CPU's clock may be behind. */
	s64 ns = now - uar->progress;
	bool first = !uar->since;
	u32 n = 0;

	if (first && !start(uar, now))
		return true;
	if (!first && ns < (s64)stream_ns() / 2)
		return true;
	while (poll_page(uar) && ++n < LOOK_PASSES && (s64)(local_clock() - now) < LOOK_NS)
		;
	uar->progress = local_clock();
	if (first)
		return true;
	if (is_worth_a_look(uar, uar->served - served, uar->moved - moved, ns)) {
		tally_succeeded(&uar->look);
		return true;
	}
	WRITE_ONCE(uar->streak, 0);
	tally_failed(&uar->look, now);
	if (now >= READ_ONCE(uar->hold_until))
		stop(uar);
	return false;
}

/* One look at every page; returns whether one streams while others want the CPU. */
static bool poll_all(struct tally_poller *p, bool crowded, u64 now)
{
	u64 idle_ns = (u64)READ_ONCE(poll_us) * NSEC_PER_USEC;
	bool progress = false, streaming = false;
	struct tally_uar *uar, *tmp;

	list_for_each_entry_safe(uar, tmp, &p->pages, poll_link) {
		if (crowded && streams(uar, now)) {
			streaming |= look(uar, now);
			bound_urgency(p, now);
			continue;
		}
		if (!uar->since) {
			/* It does not stream any more since stop_all() has looked. */
			if (crowded && now >= READ_ONCE(uar->hold_until)) {
				stop(uar);
				continue;
			}
			if (!start(uar, now))
				continue;
		}
		if (poll_page(uar)) {
			/* Not @now: this took its time, in which the poster may have waited for room. */
			uar->progress = local_clock();
			progress = true;
		} else if (now > uar->progress + idle_ns && now >= READ_ONCE(uar->hold_until)) {
			if (was_worth(uar, uar->progress))
				tally_succeeded(&uar->retry);
			else
				tally_failed(&uar->retry, now);
			stop(uar);
		}
		bound_urgency(p, now);
	}
	if (!progress && !crowded)
		cpu_relax();
	return streaming;
}

/*
 * How the thread sleeps until it looks again, with others on its CPU.  As long as it has worked at least, so that they
 * have half of it.  For streams it is urgent, but not where it has other work that is not bounded by the looks.  Now
 * and then it is woken as anybody is, for only then the scheduler looks whether there is an idle CPU by now.
 */
static void come_back(struct tally_poller *p, bool streaming, bool busy, u64 now)
{
	u64 end = local_clock();

	p->later_ns = HELD_NS;
	if (streaming)
		p->later_ns = clamp(end > now ? end - now : 0, stream_ns(), (u64)2 * LOOK_NS);
	if (!p->wakes_urgent)
		p->wakes_urgent_since = end;
	p->wakes_urgent = streaming && !busy && end - p->wakes_urgent_since < URGENT_NS;
	set_urgent(p, p->wakes_urgent);
}

static void be_like_others(struct tally_poller *p)
{
	p->wakes_urgent = false;
	set_urgent(p, false);
}

enum tally_poll tally_poller_pass(struct tally_poller *p, bool busy)
{
	enum tally_poll ret = TALLY_POLL_AGAIN;
	bool crowded, streaming;
	u64 now;

	if (!tally_poller_wanted(p)) {
		be_like_others(p);
		return TALLY_POLL_NONE;
	}
	take_leaving(p);
	take_asked(p);
	now = local_clock();
	crowded = need_resched() || !single_task_running();
	if (crowded)
		stop_all(p, now);
	else
		be_like_others(p);
	/* What must be held although there is no CPU to spare, and what streams, is looked at now and then. */
	streaming = poll_all(p, crowded, now);
	if (crowded) {
		come_back(p, streaming, busy, now);
		ret = TALLY_POLL_LATER;
	}
	if (list_empty(&p->pages))
		ret = TALLY_POLL_NONE;
	if (crowded)
		leave_poster(p);
	return ret;
}

void tally_uars_forget(struct tally_uars *uars)
{
	struct tally_poller *p = tally_engine_poller(uars->engine);
	struct tally_leave leave = { .uars = uars };

	init_completion(&leave.done);
	spin_lock(&p->ask_lock);
	if (!uars->asked) {
		spin_unlock(&p->ask_lock);
		return;
	}
	list_add_tail(&leave.link, &p->leaving);
	spin_unlock(&p->ask_lock);
	tally_engine_wake(uars->engine);
	wait_for_completion(&leave.done);
}
