/* SPDX-License-Identifier: GPL-2.0-only */
/* Who is at the other end of a connection, as every message asks. */
#ifndef HCA_ROUTE_H
#define HCA_ROUTE_H

#include "hca.h"

/* route.c: asks the driver. */
struct hca_dev *hca_find_route(struct hca_qp *qp);

/* The device that has the QP's remote address, or NULL; under RCU. */
static inline struct hca_dev *hca_qp_peer_dev(struct hca_qp *qp)
{
	/*
	 * A device that goes away raises the generation and then waits for a grace period: in this RCU read
	 * section, what belongs to the current generation is alive.
	 */
	u32 gen = READ_ONCE(*qp->dev->fabric_gen);

	/* Pairs with the release in hca_find_route(). */
	if (likely(smp_load_acquire(&qp->peer_gen) == gen))
		return READ_ONCE(qp->peer_dev);
	return hca_find_route(qp);
}

/* Who is at the other end, or NULL; under RCU. */
static inline struct hca_qp *hca_qp_peer(struct hca_qp *qp)
{
	struct hca_dev *dev = hca_qp_peer_dev(qp);

	return likely(dev) ? hca_table_lookup(&dev->qps, qp->dest_qpn) : NULL;
}

#endif /* HCA_ROUTE_H */
