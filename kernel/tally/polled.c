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
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
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
/* The same of one QP. */
#define QP_WQES		64
#define QP_BYTES	HCA_SLICE
/* A QP that had nothing to do in so many passes is quiet. */
#define QUIET_PASSES	4096
/* Quiet QPs are looked at in passes without work, at the latest in each so manieth pass; so many at a time. */
#define COLD_PASSES	32
#define COLD_QPS	16
/* A stay of this length was worth it, whatever ended it. */
#define LONG_STAY_NS	(10 * NSEC_PER_MSEC)

static unsigned int poll_rate = 20;
module_param(poll_rate, uint, 0644);
MODULE_PARM_DESC(poll_rate, "doorbells per millisecond from which a page is polled if a CPU is idle, 0: never (20)");

static unsigned int poll_us = 100;
module_param(poll_us, uint, 0644);
MODULE_PARM_DESC(poll_us, "microseconds without a doorbell after which a page is not polled any more (100)");

void tally_poller_init(struct tally_poller *p)
{
	mutex_init(&p->lock);
	INIT_LIST_HEAD(&p->pages);
	spin_lock_init(&p->ask_lock);
	INIT_LIST_HEAD(&p->asked);
	p->retry_at = jiffies;
	p->backoff = 1;
}

bool tally_poller_wanted(struct tally_poller *p)
{
	return !list_empty(&p->pages) || !list_empty_careful(&p->asked);
}

static struct tally_poller *poller_of(struct tally_uar *uar)
{
	return tally_engine_poller(uar->uars->dev->engine);
}

/* ---- in fault handlers ---- */

void tally_uar_ask(struct tally_uar *uar)
{
	struct tally_poller *p = poller_of(uar);

	spin_lock(&p->ask_lock);
	if (list_empty(&uar->ask_link))
		list_add_tail(&uar->ask_link, &p->asked);
	spin_unlock(&p->ask_lock);
	tally_engine_wake(uar->uars->dev->engine);
}

void tally_uar_rang(struct tally_uar *uar)
{
	u32 rate = READ_ONCE(poll_rate);
	unsigned long now = jiffies;
	struct tally_poller *p;
	u32 rings;

	if (READ_ONCE(uar->window) != now) {
		WRITE_ONCE(uar->window, now);
		WRITE_ONCE(uar->rings, 1);
		return;
	}
	rings = READ_ONCE(uar->rings) + 1;
	WRITE_ONCE(uar->rings, rings);
	if (!rate || rings < rate * (MSEC_PER_SEC / HZ))
		return;
	WRITE_ONCE(uar->rings, 0);
	p = poller_of(uar);
	if (time_before(now, READ_ONCE(p->retry_at)))
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

/* Executes what the QP has; returns whether anything was done. */
static bool run_qp(struct tally_uar *uar, struct tally_qp *qp, u32 *bytes)
{
	struct hca_budget budget = { .wqes = QP_WQES, .bytes = QP_BYTES };
	u16 before = READ_ONCE(qp->hca.sq.ci);
	enum hca_run r;

	tally_stat_inc(uar->uars->dev, TALLY_STAT_DB_POLLED);
	r = hca_qp_run(&qp->hca, &budget);
	*bytes += QP_BYTES - budget.bytes;
	return r == HCA_RUN_MORE || READ_ONCE(qp->hca.sq.ci) != before;
}

static bool poll_hot(struct tally_uar *uar)
{
	bool progress = false;
	struct tally_qp *qp;
	u32 bytes = 0, runs = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(qp, &uar->hot, work.hot_link) {
		if (hca_qp_pending(&qp->hca) && run_qp(uar, qp, &bytes)) {
			qp->work.quiet = 0;
			progress = true;
			runs++;
		} else if (++qp->work.quiet > QUIET_PASSES) {
			cool(uar, qp);
		}
		if (bytes >= PASS_BYTES || runs >= PASS_RUNS || need_resched()) {
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
	const u8 *page = page_address(uar->scratch);
	const u64 *words = (const u64 *)(page + TALLY_UAR_BFREG);
	u64 arm = READ_ONCE(*(const u64 *)(page + TALLY_UAR_CQ_ARM));
	bool progress = false;
	struct tally_qp *qp;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(uar->seen); i++) {
		u64 word = READ_ONCE(words[i]);

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
	if (arm != uar->seen_arm) {
		uar->seen_arm = arm;
		tally_uars_arm_all(uar->uars);
		progress = true;
	}
	return progress;
}

/* Some of the page's QPs, whether or not they rang lately; all of them after enough passes. */
static bool poll_cold(struct tally_uar *uar)
{
	bool progress = false;
	struct tally_qp *qp;
	u32 n = COLD_QPS;

	spin_lock(&uar->uars->lock);
	qp = uar->cold;
	if (!qp)
		qp = list_first_entry_or_null(&uar->qps, struct tally_qp, bfreg_link);
	while (qp && n--) {
		if (!qp->work.hot && hca_qp_pending(&qp->hca)) {
			qp->work.hot = true;
			qp->work.quiet = 0;
			list_add_tail_rcu(&qp->work.hot_link, &uar->hot);
			progress = true;
		}
		qp = list_is_last(&qp->bfreg_link, &uar->qps) ? NULL : list_next_entry(qp, bfreg_link);
	}
	uar->cold = qp;
	spin_unlock(&uar->uars->lock);
	return progress;
}

static bool poll_page(struct tally_uar *uar)
{
	bool progress = poll_hot(uar);

	/* What the poster writes at each doorbell is not read at each pass: that would cost him a cache miss. */
	if (!progress || uar->passes++ % COLD_PASSES == 0) {
		progress |= poll_scratch(uar);
		progress |= poll_cold(uar);
	}
	return progress;
}

/* ---- entering and leaving; the engine's thread, under poller.lock ---- */

/* Others want the CPU: nobody asks for a while. */
static void back_off(struct tally_poller *p)
{
	WRITE_ONCE(p->retry_at, jiffies + p->backoff);
	p->backoff = min_t(unsigned long, 2 * p->backoff, HZ / 2);
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

static void start(struct tally_uar *uar, u64 now)
{
	mutex_lock(&uar->mode_lock);
	if (uar->mode == TALLY_UAR_ASKED)
		WRITE_ONCE(uar->mode, TALLY_UAR_OPEN);
	mutex_unlock(&uar->mode_lock);
	uar->since = now;
	uar->progress = now;
	uar->passes = 0;
	tally_stat_inc(uar->uars->dev, TALLY_STAT_MODE_SWITCHES);
}

static void stop(struct tally_uar *uar)
{
	bool mapped;

	mutex_lock(&uar->mode_lock);
	mapped = uar->mode == TALLY_UAR_MAPPED;
	if (mapped)
		tally_uar_zap(uar);
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
}

/*
 * Give up every page that need not be held.  Until its page is zapped, a poster waits in vain; so this must not
 * wait for the CPU behind the one who wants it, which any of the locks and schedule points within could mean.
 */
static void stop_all(struct tally_poller *p, u64 now)
{
	struct tally_uar *uar, *tmp;
	bool long_stay = false, polling = false;

	list_for_each_entry(uar, &p->pages, poll_link)
		polling |= !!uar->since;
	if (polling)
		sched_set_fifo_low(current);
	list_for_each_entry_safe(uar, tmp, &p->pages, poll_link) {
		if (now < READ_ONCE(uar->hold_until))
			continue;
		long_stay |= uar->since && now - uar->since > LONG_STAY_NS;
		stop(uar);
	}
	if (polling)
		sched_set_normal(current, 0);
	if (long_stay)
		p->backoff = 1;
	back_off(p);
}

/* One look at every page. */
static void poll_all(struct tally_poller *p, u64 now)
{
	u64 idle_ns = (u64)READ_ONCE(poll_us) * NSEC_PER_USEC;
	struct tally_uar *uar, *tmp;
	bool progress = false;

	list_for_each_entry_safe(uar, tmp, &p->pages, poll_link) {
		if (!uar->since)
			start(uar, now);
		if (poll_page(uar)) {
			uar->progress = now;
			progress = true;
		} else if (now - uar->progress > idle_ns && now >= READ_ONCE(uar->hold_until)) {
			stop(uar);
		}
	}
	if (!progress)
		cpu_relax();
}

enum tally_poll tally_poller_pass(struct tally_poller *p)
{
	enum tally_poll ret = TALLY_POLL_AGAIN;
	u64 now;

	if (!tally_poller_wanted(p))
		return TALLY_POLL_NONE;
	mutex_lock(&p->lock);
	take_asked(p);
	now = local_clock();
	if (need_resched() || !single_task_running()) {
		stop_all(p, now);
		/* What must be held although there is no CPU to spare is looked at now and then. */
		poll_all(p, now);
		ret = TALLY_POLL_LATER;
	} else {
		poll_all(p, now);
	}
	if (list_empty(&p->pages))
		ret = TALLY_POLL_NONE;
	mutex_unlock(&p->lock);
	return ret;
}

void tally_uar_forget(struct tally_uar *uar)
{
	struct tally_poller *p = poller_of(uar);

	mutex_lock(&p->lock);
	spin_lock(&p->ask_lock);
	list_del_init(&uar->ask_link);
	spin_unlock(&p->ask_lock);
	list_del_init(&uar->poll_link);
	mutex_unlock(&p->lock);
}
