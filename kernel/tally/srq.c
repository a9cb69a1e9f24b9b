// SPDX-License-Identifier: GPL-2.0-only
/* Shared receive queues. */
#include "tally.h"

/* Entries and WQE size as the library computes them from the same attributes. */
static int ring_shape(const struct ib_srq_attr *attr, u32 *entries, u8 *shift)
{
	size_t wqe;

	if (attr->max_wr >= TALLY_MAX_WQES || attr->max_sge > TALLY_MAX_SRQ_SGE)
		return -EINVAL;
	*entries = roundup_pow_of_two(attr->max_wr + 1);
	wqe = sizeof(struct hca_wqe_srq_next) + attr->max_sge * sizeof(struct hca_wqe_data);
	*shift = max_t(u32, order_base_2(wqe), TALLY_MIN_SRQ_SHIFT);
	return 0;
}

/**
 * tally_srq_make - start a queue that nobody finds yet
 * @srq: zeroed but for its context and its memory, which is mapped
 * @pdn: protection domain of its buffers
 * @entries: power of two
 * @shift: log2 of a WQE's size
 * @form: how WQEs follow each other
 *
 * Return: 0, then tally_srq_unmake() undoes it and unmaps the memory; or -ENOMEM, then the memory is the caller's.
 */
int tally_srq_make(struct tally_srq *srq, u32 pdn, u32 entries, u8 shift, enum hca_srq_form form)
{
	struct tally_dev *dev = to_tdev(srq->ctx->ib.device);
	int ret;

	ret = tally_res_init(&srq->res, &dev->srqs, srq->ctx);
	if (ret)
		return ret;
	hca_srq_init(&srq->hca, &dev->hca, pdn, srq->ring.addr, entries, shift, form, srq->dbrec.addr);
	srq->max_sge = ((1u << shift) - sizeof(struct hca_wqe_srq_next)) / sizeof(struct hca_wqe_data);
	return 0;
}

/**
 * tally_srq_unmake - end of a queue
 * @srq: made, published or not; no QP of the verbs' uses it any more
 *
 * Return: 0, or -EBUSY while a QP made by a command uses it.
 */
int tally_srq_unmake(struct tally_srq *srq)
{
	int ret;

	ret = tally_res_hide(&srq->res);
	if (ret)
		return ret;
	/* Requests look at any that has the number they name, see xrc.c. */
	synchronize_rcu_expedited();
	tally_res_release(&srq->res);
	tally_dbrec_unmap(&srq->dbrec, srq->ctx);
	tally_ring_unmap(&srq->ring);
	return 0;
}

/**
 * tally_srq_get - a queue by its number, to make something that receives from it
 * @ctx: whose it must be
 * @srqn: any value
 *
 * Return: the queue, for tally_srq_put(), or NULL.
 */
struct tally_srq *tally_srq_get(struct tally_ucontext *ctx, u32 srqn)
{
	struct tally_res *res = tally_res_get(&to_tdev(ctx->ib.device)->srqs, ctx, srqn);

	return res ? container_of(res, struct tally_srq, res) : NULL;
}

/**
 * tally_srq_put - undo tally_srq_get()
 * @srq: the queue, or NULL
 */
void tally_srq_put(struct tally_srq *srq)
{
	if (srq)
		tally_res_put(&srq->res);
}

static int map_memory(struct tally_srq *srq, const struct mlx5_ib_create_srq *req, size_t size)
{
	int ret;

	ret = tally_ring_map(&srq->ring, srq->ib.device, req->buf_addr, size, IB_ACCESS_LOCAL_WRITE);
	if (ret)
		return ret;
	ret = tally_dbrec_map(&srq->dbrec, srq->ctx, req->db_addr, sizeof(__be32));
	if (ret)
		tally_ring_unmap(&srq->ring);
	return ret;
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
	struct tally_srq *srq = to_tsrq(ib);
	struct mlx5_ib_create_srq_resp resp = {};
	struct mlx5_ib_create_srq req;
	u32 entries;
	u8 shift;
	int ret;

	if (init->srq_type != IB_SRQT_BASIC && init->srq_type != IB_SRQT_XRC)
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

	srq->ctx = rdma_udata_to_drv_context(udata, struct tally_ucontext, ib);
	ret = map_memory(srq, &req, (size_t)entries << shift);
	if (ret)
		return ret;
	ret = tally_srq_make(srq, to_tpd(ib->pd)->res.number, entries, shift, HCA_SRQ_LINKED);
	if (ret) {
		tally_dbrec_unmap(&srq->dbrec, srq->ctx);
		tally_ring_unmap(&srq->ring);
		return ret;
	}

	tally_res_of_verb(&srq->res, ib->uobject);
	if (init->srq_type == IB_SRQT_XRC) {
		srq->hca.cq = &to_tcq(init->ext.cq)->hca;
		srq->hca.xrcdn = to_txrcd(init->ext.xrc.xrcd)->xrcdn;
		srq->hca.user_index = srq->ctx->cqe_version ? req.uidx & 0xffffff : srq->res.number;
	}

	resp.srqn = srq->res.number;
	ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret) {
		tally_srq_unmake(srq);
		return ret;
	}
	tally_res_publish(&srq->res);
	init->attr.max_wr = entries - 1;
	init->attr.max_sge = srq->max_sge;
	return 0;
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
 * @ib: the queue
 * @udata: unused
 *
 * Return: as tally_srq_unmake().
 */
int tally_destroy_srq(struct ib_srq *ib, struct ib_udata *udata)
{
	return tally_srq_unmake(to_tsrq(ib));
}
