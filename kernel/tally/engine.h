/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine: a thread that runs queues nobody else runs (what exceeds a poster's budget, retries, flushes)
 * and that watches doorbell records of polled pages.  Idle, it sleeps without any timer.
 */
#ifndef TALLY_ENGINE_H
#define TALLY_ENGINE_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/types.h>

struct tally_qp;
struct tally_dev;
struct tally_engine;

/**
 * struct tally_work - a QP's place in the engine; member of struct tally_qp
 * @link: on the engine's run list, under its lock
 * @timer: asks for hca_qp_timer(); started and cancelled under the engine's lock
 * @timer_due: it has fired, hca_qp_timer() is to be called
 * @busy: the engine is running the QP now
 * @dead: takes no more work
 * @hot: the QP is among those that are polled at each pass; see uar.h
 * @hot_link: on tally_uar.hot then
 * @quiet: passes since it had something to do
 */
struct tally_work {
	struct list_head link;
	struct hrtimer timer;
	bool timer_due;
	bool busy;
	bool dead;
	bool hot;
	struct list_head hot_link;
	u32 quiet;
};

/* @name: what the device is going to be called. */
struct tally_engine *tally_engine_create(struct tally_dev *dev, const char *name);
/* No QP is left. */
void tally_engine_destroy(struct tally_engine *engine);

void tally_work_init(struct tally_qp *qp);

/* Run the QP soon.  Any context that may take a spinlock; never sleeps. */
void tally_engine_kick(struct tally_qp *qp);

/* Call hca_qp_timer() and run it after @ns; replaces an earlier timer.  Never sleeps. */
void tally_engine_timer(struct tally_qp *qp, u64 ns);

/* After the return the engine does not touch the QP any more and takes no new work for it.  May sleep. */
void tally_engine_forget(struct tally_qp *qp);

#endif /* TALLY_ENGINE_H */
