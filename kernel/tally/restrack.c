// SPDX-License-Identifier: GPL-2.0-only
/*
 * rdma resource show -d: what the driver adds.
 *
 * ib_core keeps the object's memory while it asks, but the object may be half made or half destroyed: only words
 * of the structure itself are read, nothing that it points to.
 */
#include <rdma/restrack.h>
#include "tally.h"

static int put(struct sk_buff *msg, const char *name, u32 value)
{
	return rdma_nl_put_driver_u32(msg, name, value);
}

/* Driver attributes come in a nest that is there only if it has something in it. */
static struct nlattr *begin(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

static int end(struct sk_buff *msg, struct nlattr *nest, int failed)
{
	if (failed) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

/**
 * tally_fill_res_mr - ib_device_ops.fill_res_mr_entry
 * @msg: the answer
 * @ib: the region
 *
 * Return: 0 or -EMSGSIZE.
 */
int tally_fill_res_mr(struct sk_buff *msg, struct ib_mr *ib)
{
	struct tally_mr *mr = to_tmr(ib);
	struct nlattr *nest = begin(msg);

	if (!nest)
		return -EMSGSIZE;
	return end(msg, nest, put(msg, "blocks", READ_ONCE(mr->blocks.num)) ||
			      put(msg, "block_shift", READ_ONCE(mr->blocks.shift)) ||
			      put(msg, "invalidated", READ_ONCE(mr->hca.free)));
}

/**
 * tally_fill_res_cq - ib_device_ops.fill_res_cq_entry
 * @msg: the answer
 * @ib: the queue
 *
 * Return: 0 or -EMSGSIZE.
 */
int tally_fill_res_cq(struct sk_buff *msg, struct ib_cq *ib)
{
	struct tally_cq *cq = to_tcq(ib);
	struct nlattr *nest = begin(msg);

	if (!nest)
		return -EMSGSIZE;
	return end(msg, nest, put(msg, "cqn", cq->res.number) || put(msg, "cqe_size", READ_ONCE(cq->hca.cqe_size)) ||
			      put(msg, "pi", READ_ONCE(cq->hca.pi)) || put(msg, "armed", READ_ONCE(cq->hca.armed)) ||
			      put(msg, "error", READ_ONCE(cq->hca.error)));
}

/**
 * tally_fill_res_qp - ib_device_ops.fill_res_qp_entry
 * @msg: the answer
 * @ib: the queue pair
 *
 * Return: 0 or -EMSGSIZE.
 */
int tally_fill_res_qp(struct sk_buff *msg, struct ib_qp *ib)
{
	struct tally_qp *qp = to_tqp(ib);
	struct nlattr *nest = begin(msg);

	if (!nest)
		return -EMSGSIZE;
	return end(msg, nest, put(msg, "sq_slots", qp->hca.sq.buf ? qp->hca.sq.mask + 1 : 0) ||
			      put(msg, "sq_ci", READ_ONCE(qp->hca.sq.ci)) ||
			      put(msg, "sq_waiting", READ_ONCE(qp->hca.sq.waiting)) ||
			      put(msg, "rq_entries", qp->hca.rq.buf ? qp->hca.rq.mask + 1 : 0) ||
			      put(msg, "rq_ci", READ_ONCE(qp->hca.rq.ci)));
}

/**
 * tally_fill_res_srq - ib_device_ops.fill_res_srq_entry
 * @msg: the answer
 * @ib: the queue
 *
 * Return: 0 or -EMSGSIZE.
 */
int tally_fill_res_srq(struct sk_buff *msg, struct ib_srq *ib)
{
	struct tally_srq *srq = to_tsrq(ib);
	struct nlattr *nest = begin(msg);

	if (!nest)
		return -EMSGSIZE;
	return end(msg, nest, put(msg, "entries", srq->hca.mask + 1) ||
			      put(msg, "taken", READ_ONCE(srq->hca.taken)) ||
			      put(msg, "limit", READ_ONCE(srq->hca.limit)));
}
