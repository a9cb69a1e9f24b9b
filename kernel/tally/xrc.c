// SPDX-License-Identifier: GPL-2.0-only
/* XRC: domains, and the shared receive queues that requests name by number. */
#include "tally.h"

/**
 * tally_alloc_xrcd - ib_device_ops.alloc_xrcd
 * @ib: the domain
 * @udata: unused
 *
 * Return: 0 or -ENOMEM.
 */
int tally_alloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata)
{
	int ret = ida_alloc_range(&to_tdev(ib->device)->xrcds, 1, TALLY_MAX_XRCD, GFP_KERNEL);

	if (ret < 0)
		return -ENOMEM;
	to_txrcd(ib)->xrcdn = ret;
	return 0;
}

/**
 * tally_dealloc_xrcd - ib_device_ops.dealloc_xrcd
 * @ib: no queue is of it any more
 * @udata: unused
 *
 * Return: 0.
 */
int tally_dealloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata)
{
	ida_free(&to_tdev(ib->device)->xrcds, to_txrcd(ib)->xrcdn);
	return 0;
}

/**
 * tally_xrc_srq - hca_ops.xrc_srq
 * @hca: the device
 * @srqn: any value
 * @xrcdn: domain that it must be of
 *
 * Return: the queue, in the caller's RCU read section, or NULL.
 */
struct hca_srq *tally_xrc_srq(struct hca_dev *hca, u32 srqn, u32 xrcdn)
{
	struct tally_res *res = hca_table_lookup(&hca_to_tdev(hca)->srqs, srqn);
	struct tally_srq *srq;

	if (!res)
		return NULL;
	srq = container_of(res, struct tally_srq, res);
	return srq->hca.cq && srq->hca.xrcdn == xrcdn ? &srq->hca : NULL;
}
