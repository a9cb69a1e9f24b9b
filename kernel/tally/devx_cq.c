// SPDX-License-Identifier: GPL-2.0-only
/* Completion queues by commands: of a size, in memory and with a doorbell page that the caller has chosen. */
#include <linux/mlx5/cq.h>
#include <linux/slab.h>
#include "devx.h"
#include "tally.h"

enum { CQE_SZ_64, CQE_SZ_128 };

/* cqc.status and cqc.st */
enum { STATUS_OK = 0x0, STATUS_OVERFLOW = 0x9 };
enum { STATE_SOLICITED_ARMED = 0x6, STATE_ARMED = 0x9, STATE_FIRED = 0xa };

#define MODIFY_MODERATION (MLX5_CQ_MODIFY_PERIOD | MLX5_CQ_MODIFY_COUNT)
/* From which completion the period counts: always the first one that waits. */
#define MODIFY_IGNORED TALLY_CQ_MODIFY_PERIOD_MODE

/**
 * struct devx_cq - a queue that a command has made
 * @cq: the queue
 * @uar: the page whose doorbells arm it
 */
struct devx_cq {
	struct tally_cq cq;
	u32 uar;
};

/**
 * struct shape - what a command asks for
 * @entries: a power of two
 * @cqe_size: 64 or 128
 * @bytes: that are written to
 */
struct shape {
	u32 entries;
	u32 cqe_size;
	size_t bytes;
};

static u8 check(const struct tally_cq *cq, const void *cqc, struct shape *shape)
{
	u32 eqn = MLX5_GET(cqc, cqc, c_eqn_or_apu_element);

	if (MLX5_GET(cqc, cqc, apu_cq) || MLX5_GET(cqc, cqc, cqe_comp_en))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (MLX5_GET(cqc, cqc, cqe_sz) > CQE_SZ_128)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (MLX5_GET(cqc, cqc, log_cq_size) > ilog2(TALLY_MAX_CQE + 1))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (eqn < TALLY_FIRST_EQN || eqn - TALLY_FIRST_EQN >= cq->ctx->ib.device->num_comp_vectors)
		return MLX5_CMD_STAT_BAD_RES_ERR;

	shape->entries = 1u << MLX5_GET(cqc, cqc, log_cq_size);
	shape->cqe_size = HCA_CQE_SIZE << MLX5_GET(cqc, cqc, cqe_sz);
	shape->bytes = (size_t)shape->cqe_size * (MLX5_GET(cqc, cqc, cc) ? 1 : shape->entries);
	return MLX5_CMD_STAT_OK;
}

static int map_memory(struct tally_cq *cq, const void *in, const void *cqc, const struct shape *shape)
{
	int ret;

	ret = tally_ring_of_umem(&cq->ring, cq->ctx, MLX5_GET(tally_create_cq_umem, in, cq_umem_id),
				 MLX5_GET64(tally_create_cq_umem, in, cq_umem_offset), shape->bytes, true);
	if (ret)
		return ret;
	if (!IS_ALIGNED((uintptr_t)cq->ring.addr, HCA_CQE_SIZE)) {
		ret = -EINVAL;
		goto err;
	}
	ret = tally_dbrec_of_umem(&cq->dbrec, cq->ctx, MLX5_GET(tally_create_cq_umem, in, dbr_umem_id),
				  MLX5_GET64(cqc, cqc, dbr_addr), 2 * sizeof(__be32));
	if (ret)
		goto err;
	return 0;

err:
	tally_ring_unmap(&cq->ring);
	return ret;
}

/* What is not selected stays; whoever changes one of them meanwhile is as good as later. */
static void moderate(struct tally_cq *cq, const void *cqc, u32 select)
{
	struct hca_cq *hca = &cq->hca;
	u16 count = select & MLX5_CQ_MODIFY_COUNT ? MLX5_GET(cqc, cqc, cq_max_count) : READ_ONCE(hca->max_count);
	u64 ns = select & MLX5_CQ_MODIFY_PERIOD ? MLX5_GET(cqc, cqc, cq_period) * NSEC_PER_USEC :
						  READ_ONCE(hca->max_ns);

	hca_cq_moderate(hca, count, ns);
}

static u8 create(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	const void *cqc = MLX5_ADDR_OF(create_cq_in, cmd->in, cq_context);
	struct devx_cq *devx;
	struct tally_cq *cq;
	struct shape shape;
	u8 status;
	int ret;

	if (MLX5_GET(create_cq_in, cmd->in, op_mod))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	devx = kzalloc(sizeof(*devx), GFP_KERNEL_ACCOUNT);
	if (!devx)
		return MLX5_CMD_STAT_NO_RES_ERR;
	cq = &devx->cq;
	cq->ctx = cmd->ctx;
	status = check(cq, cqc, &shape);
	if (status != MLX5_CMD_STAT_OK)
		goto err_free;

	devx->uar = MLX5_GET(cqc, cqc, uar_page);
	if (tally_uar_hold(cmd->ctx, devx->uar)) {
		status = MLX5_CMD_STAT_BAD_RES_ERR;
		goto err_free;
	}
	ret = map_memory(cq, cmd->in, cqc, &shape);
	if (ret)
		goto err_uar;
	ret = tally_cq_make(cq, shape.entries, shape.cqe_size);
	if (ret)
		goto err_memory;
	cq->hca.collapsed = MLX5_GET(cqc, cqc, cc);
	cq->hca.ignore_overrun = MLX5_GET(cqc, cqc, oi);
	moderate(cq, cqc, MODIFY_MODERATION);

	MLX5_SET(create_cq_out, cmd->out, cqn, cq->res.number);
	obj->id = cq->res.number;
	obj->object = cq;
	cq->devx = obj;
	return MLX5_CMD_STAT_OK;

err_memory:
	tally_dbrec_unmap(&cq->dbrec, cq->ctx);
	tally_ring_unmap(&cq->ring);
err_uar:
	tally_uar_drop(cmd->ctx, devx->uar);
	status = tally_devx_status(ret);
err_free:
	kfree(devx);
	return status;
}

static void publish(struct tally_devx_obj *obj)
{
	tally_cq_publish(obj->object);
}

static int destroy(struct tally_devx_obj *obj)
{
	struct devx_cq *devx = container_of(obj->object, struct devx_cq, cq);
	int ret;

	ret = tally_cq_unmake(&devx->cq);
	if (ret)
		return ret;
	tally_uar_drop(devx->cq.ctx, devx->uar);
	kfree(devx);
	return 0;
}

static u8 modify(void *object, const struct tally_devx_cmd *cmd)
{
	const void *cqc = MLX5_ADDR_OF(modify_cq_in, cmd->in, cq_context);
	u32 select = MLX5_GET(modify_cq_in, cmd->in,
			      modify_field_select_resize_field_select.modify_field_select.modify_field_select);
	struct tally_cq *cq = object;

	/* A ring is exchanged by the verb only. */
	if (MLX5_GET(modify_cq_in, cmd->in, op_mod) ||
	    select & ~(MODIFY_MODERATION | MODIFY_IGNORED | MLX5_CQ_MODIFY_OVERRUN))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (select & MLX5_CQ_MODIFY_OVERRUN)
		hca_cq_ignore_overrun(&cq->hca, MLX5_GET(cqc, cqc, oi));
	if (select & MODIFY_MODERATION)
		moderate(cq, cqc, select);
	return MLX5_CMD_STAT_OK;
}

static u8 state_of(u8 armed)
{
	switch (armed) {
	case HCA_CQ_ARMED:
		return STATE_ARMED;
	case HCA_CQ_ARMED_SOLICITED:
		return STATE_SOLICITED_ARMED;
	default:
		return STATE_FIRED;
	}
}

/* A look at a queue in use: each number is right, together they may be of different moments. */
static u8 query(void *object, const struct tally_devx_cmd *cmd)
{
	void *cqc = MLX5_ADDR_OF(query_cq_out, cmd->out, cq_context);
	struct tally_cq *cq = object;
	struct hca_cq *hca = &cq->hca;

	mutex_lock(&cq->resize_lock);
	MLX5_SET(cqc, cqc, log_cq_size, ilog2(hca->mask + 1));
	MLX5_SET(cqc, cqc, cqe_sz, hca->cqe_size == HCA_CQE_SIZE ? CQE_SZ_64 : CQE_SZ_128);
	MLX5_SET(cqc, cqc, consumer_counter, be32_to_cpu(READ_ONCE(hca->dbrec[HCA_DBREC_CQ_CI])) & 0xffffff);
	mutex_unlock(&cq->resize_lock);
	MLX5_SET(cqc, cqc, cc, hca->collapsed);
	MLX5_SET(cqc, cqc, cq_max_count, READ_ONCE(hca->max_count));
	MLX5_SET(cqc, cqc, cq_period, (u32)READ_ONCE(hca->max_ns) / NSEC_PER_USEC);
	MLX5_SET(cqc, cqc, oi, READ_ONCE(hca->ignore_overrun));
	MLX5_SET(cqc, cqc, status, READ_ONCE(hca->error) ? STATUS_OVERFLOW : STATUS_OK);
	MLX5_SET(cqc, cqc, st, state_of(READ_ONCE(hca->armed)));
	MLX5_SET(cqc, cqc, producer_counter, READ_ONCE(hca->pi) & 0xffffff);
	return MLX5_CMD_STAT_OK;
}

static const struct tally_devx_method methods[] = {
	{ MLX5_CMD_OP_MODIFY_CQ, true, MLX5_ST_SZ_BYTES(modify_cq_in), MLX5_ST_SZ_BYTES(modify_cq_out), modify },
	{ MLX5_CMD_OP_QUERY_CQ, false, MLX5_ST_SZ_BYTES(query_cq_in), MLX5_ST_SZ_BYTES(query_cq_out), query },
};

const struct tally_devx_type tally_devx_cq = {
	.opcode = MLX5_CMD_OP_CREATE_CQ,
	.in_len = MLX5_ST_SZ_BYTES(create_cq_in),
	.out_len = MLX5_ST_SZ_BYTES(create_cq_out),
	.create = create,
	.publish = publish,
	.destroy = destroy,
	.methods = methods,
	.num_methods = ARRAY_SIZE(methods),
};
