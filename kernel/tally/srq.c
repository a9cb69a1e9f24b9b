// SPDX-License-Identifier: GPL-2.0-only
/* Shared receive queues. */
#include "tally.h"

/* Entries and WQE size as the library computes them from the same attributes. */
static int ring_shape(const struct ib_srq_attr *attr, u32 *entries, u8 *shift)
{
	size_t wqe;

	if (!attr->max_wr || attr->max_wr >= TALLY_MAX_WQES || attr->max_sge > TALLY_MAX_SRQ_SGE)
		return -EINVAL;
	*entries = roundup_pow_of_two(attr->max_wr + 1);
	wqe = sizeof(struct hca_wqe_srq_next) + attr->max_sge * sizeof(struct hca_wqe_data);
	*shift = max_t(u32, order_base_2(wqe), TALLY_MIN_SRQ_SHIFT);
	return 0;
}

/**
 * tally_create_srq - ib_device_ops.create_srq
 * @ib: the queue
 * @init: how large
 * @udata: where the library has put it
 *
 * Return: 0 or a negative errno.
 */
int tally_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct tally_ucontext *ctx = rdma_udata_to_drv_context(udata, struct tally_ucontext, ib);
	struct tally_dev *dev = to_tdev(ib->device);
	struct tally_srq *srq = to_tsrq(ib);
	struct mlx5_ib_create_srq_resp resp = {};
	struct mlx5_ib_create_srq req;
	u32 entries;
	u8 shift;
	int ret;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	ret = tally_udata_get(&req, sizeof(req), offsetof(struct mlx5_ib_create_srq, uidx), udata);
	if (ret)
		return ret;
	if (req.flags)
		return -EOPNOTSUPP;
	if (req.reserved0 || req.reserved1)
		return -EINVAL;
	ret = ring_shape(&init->attr, &entries, &shift);
	if (ret)
		return ret;
	if (!IS_ALIGNED(req.buf_addr, 1u << TALLY_MIN_SRQ_SHIFT))
		return -EINVAL;

	srq->ctx = ctx;
	ret = tally_ring_map(&srq->ring, ib->device, req.buf_addr, (size_t)entries << shift, IB_ACCESS_LOCAL_WRITE);
	if (ret)
		return ret;
	ret = tally_dbrec_map(&srq->dbrec, ctx, req.db_addr, sizeof(__be32));
	if (ret)
		goto err_ring;
	ret = hca_table_reserve(&dev->srqs, &srq->srqn);
	if (ret)
		goto err_dbrec;
	hca_srq_init(&srq->hca, &dev->hca, to_tpd(ib->pd)->res.number, srq->ring.addr, entries, shift, srq->dbrec.addr);
	srq->max_sge = ((1u << shift) - sizeof(struct hca_wqe_srq_next)) / sizeof(struct hca_wqe_data);

	resp.srqn = srq->srqn;
	ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret)
		goto err_number;
	hca_table_publish(&dev->srqs, srq->srqn, srq);
	init->attr.max_wr = entries - 1;
	init->attr.max_sge = srq->max_sge;
	return 0;

err_number:
	hca_table_release(&dev->srqs, srq->srqn);
err_dbrec:
	tally_dbrec_unmap(&srq->dbrec, ctx);
err_ring:
	tally_ring_unmap(&srq->ring);
	return ret;
}

/**
 * tally_modify_srq - ib_device_ops.modify_srq
 * @ib: the queue
 * @attr: the limit
 * @mask: IB_SRQ_LIMIT; the size is fixed
 * @udata: unused
 *
 * Return: 0 or -EINVAL.
 */
int tally_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata)
{
	struct tally_srq *srq = to_tsrq(ib);

	if (mask & ~IB_SRQ_LIMIT)
		return -EINVAL;
	if (mask & IB_SRQ_LIMIT) {
		if (attr->srq_limit > srq->hca.mask)
			return -EINVAL;
		hca_srq_set_limit(&srq->hca, attr->srq_limit);
	}
	return 0;
}

/**
 * tally_query_srq - ib_device_ops.query_srq
 * @ib: the queue
 * @attr: filled in
 *
 * Return: 0.
 */
int tally_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr)
{
	struct tally_srq *srq = to_tsrq(ib);

	attr->max_wr = srq->hca.mask;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = hca_srq_limit(&srq->hca);
	return 0;
}

/**
 * tally_destroy_srq - ib_device_ops.destroy_srq
 * @ib: no QP uses it any more
 * @udata: unused
 *
 * Return: 0.
 */
int tally_destroy_srq(struct ib_srq *ib, struct ib_udata *udata)
{
	struct tally_srq *srq = to_tsrq(ib);
	struct tally_dev *dev = to_tdev(ib->device);

	hca_table_hide(&dev->srqs, srq->srqn);
	hca_table_release(&dev->srqs, srq->srqn);
	tally_dbrec_unmap(&srq->dbrec, srq->ctx);
	tally_ring_unmap(&srq->ring);
	return 0;
}
