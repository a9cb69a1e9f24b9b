/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Engines: threads that run queues nobody else runs (what exceeds a poster's budget, retries, flushes) and that
 * watch doorbell records of polled pages.  Idle, they sleep without any timer.
 *
 * A device has one or several; all queues and pages of a context have the same.
 */
#ifndef TALLY_ENGINE_H
#define TALLY_ENGINE_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/types.h>

struct tally_qp;
struct tally_dev;
struct tally_engine;
struct tally_engines;

/**
 * struct tally_work - a QP's place in its engine; member of struct tally_qp
 * @engine: it; constant
 * @link: on the engine's run list, under its lock
 * @timer: asks for hca_qp_timer(); started and cancelled under the engine's lock
 * @timer_due: it has fired, hca_qp_timer() is to be called
 * @busy: the engine is running the QP now
 * @dead: takes no more work
 * @hot: the QP is among those that are polled at each pass; see uar.h
 * @hot_link: on tally_uar.hot then
 * @quiet: passes since it had something to do
 * @sent: completions of the send CQ, as of the last trapped doorbell; a hint, changed without a lock
 * @arrived: what changes when a message arrives, likewise
 */
struct tally_work {
	struct tally_engine *engine;
	struct list_head link;
	struct hrtimer timer;
	bool timer_due;
	bool busy;
	bool dead;
	bool hot;
	struct list_head hot_link;
	u32 quiet;
	u32 sent;
	u32 arrived;
};

/* @name: what the device is going to be called. */
struct tally_engines *tally_engines_create(struct tally_dev *dev, const char *name);
/* No QP is left. */
void tally_engines_destroy(struct tally_engines *engines);

/* The engine of the next context; they take turns. */
struct tally_engine *tally_engine_next(struct tally_dev *dev);

void tally_work_init(struct tally_qp *qp, struct tally_engine *engine);

/* Run the QP soon.  Any context that may take a spinlock; never sleeps. */
void tally_engine_kick(struct tally_qp *qp);

/* Call hca_qp_timer() and run it after @ns; replaces an earlier timer.  Never sleeps. */
void tally_engine_timer(struct tally_qp *qp, u64 ns);

/* After the return the engine does not touch the QP any more and takes no new work for it.  May sleep. */
void tally_engine_forget(struct tally_qp *qp);

#endif /* TALLY_ENGINE_H */
