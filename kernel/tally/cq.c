// SPDX-License-Identifier: GPL-2.0-only
/* Completion queues. */
#include "tally.h"

/* One entry more than asked for: the verbs count what fits besides the one in use. */
static int ring_entries(int cqe, u32 *entries)
{
	if (cqe < 1 || cqe > TALLY_MAX_CQE)
		return -EINVAL;
	*entries = roundup_pow_of_two((u32)cqe + 1);
	return 0;
}

static bool valid_cqe_size(u32 size)
{
	return size == 64 || size == 128;
}

static int check_request(const struct ib_cq_init_attr *attr, const struct mlx5_ib_create_cq *req)
{
	if (attr->flags & ~(IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN | IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION))
		return -EOPNOTSUPP;
	if (req->cqe_comp_en)
		return -EOPNOTSUPP;
	if (req->flags & ~(MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX | MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) ||
	    req->reserved0 || req->reserved1)
		return -EINVAL;
	if (!valid_cqe_size(req->cqe_size) || !IS_ALIGNED(req->buf_addr, HCA_CQE_SIZE))
		return -EINVAL;
	if (req->flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD && req->cqe_size != 128)
		return -EOPNOTSUPP;
	return 0;
}

static void timer_work(struct work_struct *work)
{
	hca_cq_timer(&container_of(work, struct tally_cq, timer_work)->hca);
}

/* In the hard interrupt, where the queue's lock must not be taken. */
static enum hrtimer_restart timer_fired(struct hrtimer *timer)
{
	queue_work(system_highpri_wq, &container_of(timer, struct tally_cq, timer)->timer_work);
	return HRTIMER_NORESTART;
}

/**
 * tally_cq_make - start a queue that nobody finds yet
 * @cq: zeroed but for its context and its memory, which is mapped
 * @entries: power of two
 * @cqe_size: 64 or 128
 *
 * Return: 0, then tally_cq_unmake() undoes it and unmaps the memory; or -ENOMEM, then the memory is the caller's.
 */
int tally_cq_make(struct tally_cq *cq, u32 entries, u32 cqe_size)
{
	struct tally_dev *dev = to_tdev(cq->ctx->ib.device);
	int ret;

	mutex_init(&cq->resize_lock);
	INIT_LIST_HEAD(&cq->uar_link);
	hrtimer_setup(&cq->timer, timer_fired, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	INIT_WORK(&cq->timer_work, timer_work);
	tally_backoff_init(&cq->linger.retry);
	ret = tally_res_init(&cq->res, &dev->cqs, cq->ctx);
	if (ret)
		return ret;
	hca_cq_init(&cq->hca, &dev->hca, cq->ring.addr, entries, cqe_size, cq->dbrec.addr);
	return 0;
}

/**
 * tally_cq_publish - commands and doorbells find the queue from here on
 * @cq: made
 */
void tally_cq_publish(struct tally_cq *cq)
{
	tally_res_publish(&cq->res);
	tally_uar_add_cq(cq->ctx, cq);
}

/**
 * tally_cq_unmake - end of a queue
 * @cq: made, published or not; no QP of the verbs' uses it any more
 *
 * Return: 0, or -EBUSY while a QP made by a command uses it.
 */
int tally_cq_unmake(struct tally_cq *cq)
{
	int ret;

	ret = tally_res_hide(&cq->res);
	if (ret)
		return ret;
	/* Then no doorbell that found it by number is arming it any more. */
	if (!list_empty(&cq->uar_link))
		tally_uar_del_cq(cq);
	tally_linger_end(cq);
	/* Nor does anything start the timer. */
	hrtimer_cancel(&cq->timer);
	cancel_work_sync(&cq->timer_work);
	tally_res_release(&cq->res);
	tally_dbrec_unmap(&cq->dbrec, cq->ctx);
	tally_ring_unmap(&cq->ring);
	return 0;
}

/**
 * tally_cq_get - a queue by its number, to make something that completes there
 * @ctx: whose it must be
 * @cqn: any value
 *
 * Return: the queue, for tally_cq_put(), or NULL.
 */
struct tally_cq *tally_cq_get(struct tally_ucontext *ctx, u32 cqn)
{
	struct tally_res *res = tally_res_get(&to_tdev(ctx->ib.device)->cqs, ctx, cqn);

	return res ? container_of(res, struct tally_cq, res) : NULL;
}

/**
 * tally_cq_put - undo tally_cq_get()
 * @cq: the queue, or NULL
 */
void tally_cq_put(struct tally_cq *cq)
{
	if (cq)
		tally_res_put(&cq->res);
}

static int map_memory(struct tally_cq *cq, const struct mlx5_ib_create_cq *req, u32 entries)
{
	int ret;

	ret = tally_ring_map(&cq->ring, cq->ib.device, req->buf_addr, (size_t)entries * req->cqe_size,
			     IB_ACCESS_LOCAL_WRITE);
	if (ret)
		return ret;
	ret = tally_dbrec_map(&cq->dbrec, cq->ctx, req->db_addr, 2 * sizeof(__be32));
	if (ret)
		tally_ring_unmap(&cq->ring);
	return ret;
}

/**
 * tally_create_cq - ib_device_ops.create_cq
 * @ib: the queue
 * @attr: how large
 * @attrs: where the library has put it; NULL for a kernel user
 *
 * Return: 0 or a negative errno.
 */
int tally_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, TALLY_CREATE_CQ_ATTRS *attrs)
{
	struct ib_udata *udata = tally_create_cq_udata(attrs);
	struct tally_cq *cq = to_tcq(ib);
	struct mlx5_ib_create_cq_resp resp = {};
	struct mlx5_ib_create_cq req;
	u32 entries;
	int ret;

	if (!udata)
		return tally_kernel_cq_create(cq, attr);
	ret = tally_udata_get(&req, sizeof(req), offsetof(struct mlx5_ib_create_cq, cqe_comp_en), udata);
	if (ret)
		return ret;
	ret = check_request(attr, &req);
	if (ret)
		return ret;
	ret = ring_entries(attr->cqe, &entries);
	if (ret)
		return ret;

	cq->ctx = rdma_udata_to_drv_context(udata, struct tally_ucontext, ib);
	ret = map_memory(cq, &req, entries);
	if (ret)
		return ret;
	ret = tally_cq_make(cq, entries, req.cqe_size);
	if (ret) {
		tally_dbrec_unmap(&cq->dbrec, cq->ctx);
		tally_ring_unmap(&cq->ring);
		return ret;
	}
	tally_res_of_verb(&cq->res, ib->uobject);
	cq->hca.ignore_overrun = attr->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
	cq->hca.pad = req.flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD;
	cq->hca.timestamps = attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	ib->cqe = entries - 1;

	resp.cqn = cq->res.number;
	ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret)
		tally_cq_unmake(cq);
	else
		tally_cq_publish(cq);
	return ret;
}

/**
 * tally_modify_cq - ib_device_ops.modify_cq
 * @ib: the queue
 * @count: completions that an event waits for, see hca_cq_moderate()
 * @usecs: how long it waits for them
 *
 * Return: 0 or -EINVAL; -EOPNOTSUPP for a kernel user.
 */
int tally_modify_cq(struct ib_cq *ib, u16 count, u16 usecs)
{
	if (to_tcq(ib)->kernel)
		return -EOPNOTSUPP;
	if (usecs > TALLY_MAX_CQ_USECS)
		return -EINVAL;
	hca_cq_moderate(&to_tcq(ib)->hca, count, (u64)usecs * NSEC_PER_USEC);
	return 0;
}

/**
 * tally_resize_cq - ib_device_ops.resize_cq
 * @ib: the queue
 * @entries: new size
 * @udata: where the library has put the new ring
 *
 * Return: 0; -EINVAL if what is in it does not fit; another negative errno.
 */
int tally_resize_cq(struct ib_cq *ib, int entries, struct ib_udata *udata)
{
	struct tally_cq *cq = to_tcq(ib);
	struct mlx5_ib_resize_cq req;
	struct tally_ring ring = {};
	u32 num;
	int ret;

	ret = tally_udata_get(&req, sizeof(req), sizeof(req), udata);
	if (ret)
		return ret;
	if (req.reserved0 || req.reserved1 || !valid_cqe_size(req.cqe_size) ||
	    !IS_ALIGNED(req.buf_addr, HCA_CQE_SIZE))
		return -EINVAL;
	ret = ring_entries(entries, &num);
	if (ret)
		return ret;

	mutex_lock(&cq->resize_lock);
	if (num == ib->cqe + 1)
		goto out;
	ret = tally_ring_map(&ring, ib->device, req.buf_addr, (size_t)num * req.cqe_size,
			     IB_ACCESS_LOCAL_WRITE);
	if (ret)
		goto out;
	ret = hca_cq_resize(&cq->hca, ring.addr, num, req.cqe_size);
	if (!ret) {
		/* Nothing is written to the old ring any more. */
		swap(cq->ring, ring);
		ib->cqe = num - 1;
	}
	tally_ring_unmap(&ring);
out:
	mutex_unlock(&cq->resize_lock);
	return ret;
}

/**
 * tally_destroy_cq - ib_device_ops.destroy_cq
 * @ib: the queue
 * @udata: unused
 *
 * Return: as tally_cq_unmake().
 */
int tally_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct tally_cq *cq = to_tcq(ib);

	if (!cq->kernel)
		return tally_cq_unmake(cq);
	tally_kernel_cq_destroy(cq);
	return 0;
}
