// SPDX-License-Identifier: GPL-2.0-only
/*
 * Targets of DC by commands.
 *
 * One command makes a target that receives; the verbs do it in three steps.  Before it is destroyed, it may be
 * drained: then it takes no more requests, and does not begin to again.
 */
#include <linux/slab.h>
#include "devx_qp.h"

static u8 check(const struct tally_ucontext *ctx, const void *in, const void *dctc)
{
	union ib_gid gid;

	if (MLX5_GET(create_dct_in, in, op_mod) || MLX5_GET(dctc, dctc, rlky) ||
	    MLX5_GET(dctc, dctc, atomic_like_write_en))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (!tally_gid_at(to_tdev(ctx->ib.device), MLX5_GET(dctc, dctc, my_addr_index), &gid))
		return MLX5_CMD_STAT_BAD_RES_ERR;
	return MLX5_CMD_STAT_OK;
}

static u8 get_objects(struct tally_devx_qp *devx, const void *dctc, struct hca_qp_config *cfg)
{
	struct tally_ucontext *ctx = devx->qp.ctx;

	devx->pd = tally_pd_get(ctx, MLX5_GET(dctc, dctc, pd));
	devx->recv_cq = tally_cq_get(ctx, MLX5_GET(dctc, dctc, cqn));
	devx->srq = tally_srq_get(ctx, MLX5_GET(dctc, dctc, srqn_xrqn));
	if (!devx->pd || !devx->recv_cq || !devx->srq || devx->srq->hca.cq)
		return MLX5_CMD_STAT_BAD_RES_ERR;
	cfg->pdn = devx->pd->res.number;
	cfg->send_cq = &devx->recv_cq->hca;
	cfg->recv_cq = &devx->recv_cq->hca;
	cfg->srq = &devx->srq->hca;
	return MLX5_CMD_STAT_OK;
}

/* The verbs' two transitions. */
static int start(struct tally_qp *qp, const void *dctc)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = MLX5_GET(dctc, dctc, port),
		.pkey_index = MLX5_GET(dctc, dctc, pkey_index),
		.path_mtu = MLX5_GET(dctc, dctc, mtu),
		.min_rnr_timer = MLX5_GET(dctc, dctc, min_rnr_nak),
		.qp_access_flags = (MLX5_GET(dctc, dctc, rre) ? IB_ACCESS_REMOTE_READ : 0) |
				   (MLX5_GET(dctc, dctc, rwe) ? IB_ACCESS_REMOTE_WRITE : 0) |
				   (MLX5_GET(dctc, dctc, rae) ? IB_ACCESS_REMOTE_ATOMIC : 0),
		.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE,
	};
	int ret;

	rdma_ah_set_grh(&attr.ah_attr, NULL, MLX5_GET(dctc, dctc, flow_label), MLX5_GET(dctc, dctc, my_addr_index),
			MLX5_GET(dctc, dctc, hop_limit), MLX5_GET(dctc, dctc, tclass));
	ret = tally_qp_modify(qp, &attr, IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PKEY_INDEX | IB_QP_PORT, NULL);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTR;
	return tally_qp_modify(qp, &attr, IB_QP_STATE | IB_QP_MIN_RNR_TIMER | IB_QP_AV | IB_QP_PATH_MTU, NULL);
}

static u8 create(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	const void *dctc = MLX5_ADDR_OF(create_dct_in, cmd->in, dct_context_entry);
	struct hca_qp_config cfg = { .type = HCA_QP_DCT, .key = MLX5_GET64(dctc, dctc, dc_access_key) };
	struct tally_devx_qp *devx;
	struct tally_qp *qp;
	u8 status;
	int ret;

	status = check(cmd->ctx, cmd->in, dctc);
	if (status != MLX5_CMD_STAT_OK)
		return status;
	devx = kzalloc(sizeof(*devx), GFP_KERNEL_ACCOUNT);
	if (!devx)
		return MLX5_CMD_STAT_NO_RES_ERR;
	qp = &devx->qp;
	qp->ctx = cmd->ctx;
	qp->ib.device = cmd->ctx->ib.device;
	status = get_objects(devx, dctc, &cfg);
	if (status != MLX5_CMD_STAT_OK)
		goto err_objects;
	cfg.user_index = cmd->ctx->cqe_version ? MLX5_GET(dctc, dctc, user_index) : devx->srq->res.number;
	ret = tally_qp_make(qp, &cfg);
	if (ret) {
		status = tally_devx_status(ret);
		goto err_objects;
	}
	ret = start(qp, dctc);
	if (ret) {
		status = tally_devx_status(ret);
		goto err_qp;
	}
	MLX5_SET(create_dct_out, cmd->out, dctn, qp->ib.qp_num);
	obj->id = qp->ib.qp_num;
	obj->object = qp;
	qp->devx = obj;
	return MLX5_CMD_STAT_OK;

err_qp:
	tally_qp_unmake(qp);
err_objects:
	tally_devx_qp_put(devx);
	return status;
}

/* A request that is being served holds the lock that this waits for: then it is drained. */
static u8 drain(void *object, const struct tally_devx_cmd *cmd)
{
	const struct hca_qp_attr error = { .mask = HCA_ATTR_STATE, .state = HCA_QPS_ERR };
	struct tally_qp *qp = object;
	u8 status = MLX5_CMD_STAT_OK;

	if (MLX5_GET(drain_dct_in, cmd->in, op_mod))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	mutex_lock(&qp->lock);
	/* One of the verbs' that has not come so far. */
	if (READ_ONCE(qp->hca.state) != HCA_QPS_RTR)
		status = MLX5_CMD_STAT_BAD_RES_STATE_ERR;
	else
		hca_qp_modify(&qp->hca, HCA_QPS_RTR, &error);
	mutex_unlock(&qp->lock);
	if (status == MLX5_CMD_STAT_OK && qp->devx)
		tally_devx_event(qp->devx, MLX5_EVENT_TYPE_DCT_DRAINED);
	return status;
}

static u8 query(void *object, const struct tally_devx_cmd *cmd)
{
	void *dctc = MLX5_ADDR_OF(query_dct_out, cmd->out, dct_context_entry);
	struct tally_qp *qp = object;
	const struct hca_qp *hca = &qp->hca;
	const struct ib_qp_attr *attr = &qp->attr;
	const struct ib_global_route *grh = &attr->ah_attr.grh;

	MLX5_SET(dctc, dctc, state,
		 READ_ONCE(hca->state) == HCA_QPS_ERR ? MLX5_DCTC_STATE_DRAINED : MLX5_DCTC_STATE_ACTIVE);
	MLX5_SET(dctc, dctc, user_index, hca->user_index);
	MLX5_SET(dctc, dctc, cqn, hca_to_tcq(hca->recv_cq)->res.number);
	MLX5_SET(dctc, dctc, srqn_xrqn, hca_to_tsrq(hca->srq)->res.number);
	MLX5_SET(dctc, dctc, pd, hca->pdn);
	MLX5_SET64(dctc, dctc, dc_access_key, hca->key);
	mutex_lock(&qp->lock);
	MLX5_SET(dctc, dctc, rre, !!(attr->qp_access_flags & IB_ACCESS_REMOTE_READ));
	MLX5_SET(dctc, dctc, rwe, !!(attr->qp_access_flags & IB_ACCESS_REMOTE_WRITE));
	MLX5_SET(dctc, dctc, rae, !!(attr->qp_access_flags & IB_ACCESS_REMOTE_ATOMIC));
	MLX5_SET(dctc, dctc, min_rnr_nak, attr->min_rnr_timer);
	MLX5_SET(dctc, dctc, mtu, attr->path_mtu);
	MLX5_SET(dctc, dctc, port, attr->port_num);
	MLX5_SET(dctc, dctc, pkey_index, attr->pkey_index);
	MLX5_SET(dctc, dctc, my_addr_index, grh->sgid_index);
	MLX5_SET(dctc, dctc, hop_limit, grh->hop_limit);
	MLX5_SET(dctc, dctc, tclass, grh->traffic_class);
	MLX5_SET(dctc, dctc, flow_label, grh->flow_label);
	mutex_unlock(&qp->lock);
	return MLX5_CMD_STAT_OK;
}

static const struct tally_devx_method methods[] = {
	{ MLX5_CMD_OP_DRAIN_DCT, true, MLX5_ST_SZ_BYTES(drain_dct_in), MLX5_ST_SZ_BYTES(drain_dct_out), drain },
	{ MLX5_CMD_OP_QUERY_DCT, false, MLX5_ST_SZ_BYTES(query_dct_in),
	  MLX5_BYTE_OFF(query_dct_out, dct_context_entry) + MLX5_ST_SZ_BYTES(dctc), query },
};

const struct tally_devx_type tally_devx_dct = {
	.opcode = MLX5_CMD_OP_CREATE_DCT,
	/* What may follow the context, page lists and extensions, is not looked at. */
	.in_len = MLX5_BYTE_OFF(create_dct_in, dct_context_entry) + MLX5_ST_SZ_BYTES(dctc),
	.out_len = MLX5_ST_SZ_BYTES(create_dct_out),
	.create = create,
	.publish = tally_devx_qp_publish,
	.destroy = tally_devx_qp_destroy,
	.methods = methods,
	.num_methods = ARRAY_SIZE(methods),
};
