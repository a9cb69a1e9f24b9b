// SPDX-License-Identifier: GPL-2.0-only
/* Who is at the other end of a connection. */
#include "route.h"

struct hca_dev *hca_find_route(struct hca_qp *qp)
{
	struct hca_dev *dev;
	u32 gen;

	spin_lock(&qp->route_lock);
	gen = READ_ONCE(*qp->dev->fabric_gen);
	dev = qp->dev->ops->route(qp);
	WRITE_ONCE(qp->peer_dev, dev);
	/* Pairs with the acquire in hca_qp_peer_dev(): a generation never goes with an older device. */
	smp_store_release(&qp->peer_gen, gen);
	spin_unlock(&qp->route_lock);
	return dev;
}

struct hca_dev *hca_av_dev(struct hca_qp *qp, const struct hca_av *av)
{
	struct hca_sq *sq = &qp->sq;
	/* Before the question, as in find_route(); and what belongs to the current one is alive, as above. */
	u32 gen = READ_ONCE(*qp->dev->fabric_gen);

	if (likely(sq->av_gen == gen && !memcmp(sq->av_gid, av->gid, sizeof(av->gid)) &&
		   !memcmp(sq->av_mac, av->mac, sizeof(av->mac))))
		return sq->av_dev;
	sq->av_dev = qp->dev->ops->route_av(qp, av);
	sq->av_gen = gen;
	memcpy(sq->av_gid, av->gid, sizeof(av->gid));
	memcpy(sq->av_mac, av->mac, sizeof(av->mac));
	return sq->av_dev;
}
