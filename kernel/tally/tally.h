/* SPDX-License-Identifier: GPL-2.0-only */
/* The driver's objects: verbs structures around the virtual HCA's. */
#ifndef TALLY_H
#define TALLY_H

#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/refcount.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include "../comp_cntr/ib_comp_cntr.h"
#include "../hca/hca.h"
#include "doorbell.h"
#include "engine.h"

/* Driver statistics, beside those of struct hca_stats. */
enum tally_stat {
	TALLY_STAT_DB_TRAPPED,	  /* doorbells that faulted */
	TALLY_STAT_DB_POLLED,	  /* doorbell record changes seen by polling */
	TALLY_STAT_MODE_SWITCHES, /* pages that went from trapped to polled or back */
	TALLY_STAT_DB_UNDECODED,  /* faulting stores that could not be skipped */
	TALLY_STAT_CQ_ARMS,
	TALLY_STAT_ENGINE_WAKEUPS,
	TALLY_STAT_ENGINE_RUNS,	  /* QPs run by the engine */
	TALLY_STAT_COUNT
};

struct tally_stats {
	u64 v[TALLY_STAT_COUNT];
};

#define tally_stat_inc(dev, index) this_cpu_inc((dev)->stats->v[(index)])

struct tally_dev {
	struct ib_device ib;
	struct hca_dev hca;
	struct tally_engine *engine;
	struct tally_stats __percpu *stats;
	struct net_device *ndev; /* not held; see link.c */
	/* cqs: struct tally_cq by number; srqs: struct tally_srq by number.  See struct hca_table. */
	struct hca_table cqs;
	struct hca_table srqs;
	struct list_head link; /* list of devices, see route.c */
	atomic_t num_cntrs;
};

struct tally_ucontext {
	struct ib_ucontext ib;
	struct tally_uars *uars; /* doorbell.h */
};

struct tally_cq {
	struct ib_cq ib;
	struct hca_cq hca;
	u32 cqn;
	struct tally_ucontext *ctx;
	struct list_head uar_link; /* CQs of a context, under the lock in struct tally_uars */
};

/*
 * @refs: one of the owner, one of each doorbell that is running the QP.  A QP found by number or on a list
 * under RCU or a lock is taken with refcount_inc_not_zero(); destroy drops the owner's and waits for @gone.
 */
struct tally_qp {
	struct ib_qp ib;
	struct hca_qp hca;
	struct tally_work work;
	struct tally_bfreg *bfreg;
	struct list_head bfreg_link; /* QPs of a doorbell register, see doorbell.c */
	refcount_t refs;
	struct completion gone;
	struct tally_ucontext *ctx;
};

static inline struct tally_dev *to_tdev(struct ib_device *ib)
{
	return container_of(ib, struct tally_dev, ib);
}

static inline struct tally_ucontext *to_tctx(struct ib_ucontext *ib)
{
	return container_of(ib, struct tally_ucontext, ib);
}

static inline struct tally_cq *to_tcq(struct ib_cq *ib)
{
	return container_of(ib, struct tally_cq, ib);
}

static inline struct tally_qp *to_tqp(struct ib_qp *ib)
{
	return container_of(ib, struct tally_qp, ib);
}

static inline struct tally_qp *hca_to_tqp(struct hca_qp *hca)
{
	return container_of(hca, struct tally_qp, hca);
}

static inline void tally_qp_put(struct tally_qp *qp)
{
	if (refcount_dec_and_test(&qp->refs))
		complete(&qp->gone);
}

#endif /* TALLY_H */
