// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory pools of receives (RMP) by commands: what the verbs call a shared receive queue, in memory that the caller
 * has chosen, and with WQEs that need not be linked.
 */
#include <linux/slab.h>
#include "devx.h"
#include "tally.h"

/**
 * struct devx_rmp - a pool that a command has made
 * @srq: the queue
 * @pd: its domain
 */
struct devx_rmp {
	struct tally_srq srq;
	struct tally_pd *pd;
};

static const void *wq_of(const struct tally_devx_cmd *cmd)
{
	return MLX5_ADDR_OF(create_rmp_in, cmd->in, ctx.wq);
}

/* Features that would change what the device does. */
static bool unsupported(const void *in, const void *wq)
{
	return MLX5_GET(create_rmp_in, in, op_mod) || MLX5_GET(create_rmp_in, in, ctx.state) != MLX5_RMPC_STATE_RDY ||
	       MLX5_GET(wq, wq, wq_signature) || MLX5_GET(wq, wq, page_offset);
}

/* How WQEs follow each other, or -1.  Receives that take several messages are not there. */
static int form_of(const void *in, const void *wq)
{
	bool bare = MLX5_GET(create_rmp_in, in, ctx.basic_cyclic_rcv_wqe);

	switch (MLX5_GET(wq, wq, wq_type)) {
	case MLX5_WQ_TYPE_LINKED_LIST:
		return bare ? -1 : HCA_SRQ_LINKED;
	case MLX5_WQ_TYPE_CYCLIC:
		return bare ? HCA_SRQ_BARE : HCA_SRQ_CYCLIC;
	default:
		return -1;
	}
}

static int map_memory(struct tally_srq *srq, const void *in, const void *wq, size_t bytes)
{
	int ret;

	ret = tally_ring_of_umem(&srq->ring, srq->ctx, MLX5_GET(tally_create_rmp_umem, in, wq_umem_id),
				 MLX5_GET64(tally_create_rmp_umem, in, wq_umem_offset), bytes, false);
	if (ret)
		return ret;
	if (!IS_ALIGNED((uintptr_t)srq->ring.addr, sizeof(struct hca_wqe_data))) {
		ret = -EINVAL;
		goto err;
	}
	ret = tally_dbrec_of_umem(&srq->dbrec, srq->ctx, MLX5_GET(tally_create_rmp_umem, in, dbr_umem_id),
				  MLX5_GET64(wq, wq, dbr_addr), sizeof(__be32));
	if (ret)
		goto err;
	return 0;

err:
	tally_ring_unmap(&srq->ring);
	return ret;
}

static u8 create(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	const void *wq = wq_of(cmd);
	u32 entries = 1u << MLX5_GET(wq, wq, log_wq_sz);
	u32 shift = MLX5_GET(wq, wq, log_wq_stride);
	int form = form_of(cmd->in, wq), ret;
	struct devx_rmp *devx;
	struct tally_srq *srq;
	u8 status;

	if (unsupported(cmd->in, wq) || form < 0 || entries > TALLY_MAX_WQES || shift > TALLY_MAX_RQ_SHIFT ||
	    shift < (form == HCA_SRQ_BARE ? TALLY_MIN_RQ_SHIFT : TALLY_MIN_SRQ_SHIFT) ||
	    MLX5_GET(wq, wq, lwm) > entries)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	devx = kzalloc(sizeof(*devx), GFP_KERNEL_ACCOUNT);
	if (!devx)
		return MLX5_CMD_STAT_NO_RES_ERR;
	srq = &devx->srq;
	srq->ctx = cmd->ctx;
	srq->ib.device = cmd->ctx->ib.device;
	devx->pd = tally_pd_get(cmd->ctx, MLX5_GET(wq, wq, pd));
	if (!devx->pd) {
		status = MLX5_CMD_STAT_BAD_RES_ERR;
		goto err_free;
	}
	ret = map_memory(srq, cmd->in, wq, (size_t)entries << shift);
	if (ret)
		goto err_pd;
	ret = tally_srq_make(srq, devx->pd->res.number, entries, shift, form);
	if (ret)
		goto err_memory;
	/* Not armed by hca_srq_set_limit(): nothing is posted yet, and nobody is told. */
	srq->hca.limit = MLX5_GET(wq, wq, lwm);

	MLX5_SET(create_rmp_out, cmd->out, rmpn, srq->res.number);
	obj->id = srq->res.number;
	obj->object = srq;
	srq->devx = obj;
	return MLX5_CMD_STAT_OK;

err_memory:
	tally_dbrec_unmap(&srq->dbrec, srq->ctx);
	tally_ring_unmap(&srq->ring);
err_pd:
	tally_pd_put(devx->pd);
	status = tally_devx_status(ret);
err_free:
	kfree(devx);
	return status;
}

static void publish(struct tally_devx_obj *obj)
{
	struct tally_srq *srq = obj->object;

	tally_res_publish(&srq->res);
}

static int destroy(struct tally_devx_obj *obj)
{
	struct devx_rmp *devx = container_of(obj->object, struct devx_rmp, srq);
	int ret;

	ret = tally_srq_unmake(&devx->srq);
	if (ret)
		return ret;
	tally_pd_put(devx->pd);
	kfree(devx);
	return 0;
}

/* The limit is all that can be changed. */
static u8 modify(void *object, const struct tally_devx_cmd *cmd)
{
	u32 lwm = MLX5_GET(modify_rmp_in, cmd->in, ctx.wq.lwm);
	struct tally_srq *srq = object;

	if (MLX5_GET(modify_rmp_in, cmd->in, op_mod) ||
	    MLX5_GET(modify_rmp_in, cmd->in, rmp_state) != MLX5_RMPC_STATE_RDY ||
	    MLX5_GET(modify_rmp_in, cmd->in, ctx.state) != MLX5_RMPC_STATE_RDY || lwm > srq->hca.mask + 1)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (MLX5_GET(modify_rmp_in, cmd->in, bitmask.lwm))
		hca_srq_set_limit(&srq->hca, lwm);
	return MLX5_CMD_STAT_OK;
}

static u8 query(void *object, const struct tally_devx_cmd *cmd)
{
	void *rmpc = MLX5_ADDR_OF(query_rmp_out, cmd->out, rmp_context);
	void *wq = MLX5_ADDR_OF(rmpc, rmpc, wq);
	struct tally_srq *srq = object;
	struct hca_srq *hca = &srq->hca;

	MLX5_SET(rmpc, rmpc, state, MLX5_RMPC_STATE_RDY);
	MLX5_SET(rmpc, rmpc, basic_cyclic_rcv_wqe, hca->form == HCA_SRQ_BARE);
	MLX5_SET(wq, wq, wq_type, hca->form == HCA_SRQ_LINKED ? MLX5_WQ_TYPE_LINKED_LIST : MLX5_WQ_TYPE_CYCLIC);
	MLX5_SET(wq, wq, pd, hca->pdn);
	MLX5_SET(wq, wq, log_wq_stride, hca->wqe_shift);
	MLX5_SET(wq, wq, log_wq_sz, ilog2(hca->mask + 1));
	MLX5_SET(wq, wq, lwm, hca_srq_limit(hca));
	MLX5_SET(wq, wq, hw_counter, READ_ONCE(hca->taken));
	MLX5_SET(wq, wq, sw_counter, be32_to_cpu(READ_ONCE(*hca->dbrec)) & 0xffff);
	return MLX5_CMD_STAT_OK;
}

static const struct tally_devx_method methods[] = {
	{ MLX5_CMD_OP_MODIFY_RMP, true, MLX5_ST_SZ_BYTES(modify_rmp_in), MLX5_ST_SZ_BYTES(modify_rmp_out), modify },
	{ MLX5_CMD_OP_QUERY_RMP, false, MLX5_ST_SZ_BYTES(query_rmp_in), MLX5_ST_SZ_BYTES(query_rmp_out), query },
};

const struct tally_devx_type tally_devx_rmp = {
	.opcode = MLX5_CMD_OP_CREATE_RMP,
	.in_len = MLX5_ST_SZ_BYTES(create_rmp_in),
	.out_len = MLX5_ST_SZ_BYTES(create_rmp_out),
	.create = create,
	.publish = publish,
	.destroy = destroy,
	.methods = methods,
	.num_methods = ARRAY_SIZE(methods),
};
