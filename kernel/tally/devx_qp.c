// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs by commands: RC, UC, UD, and initiators of DC.
 *
 * A command names all that the queue pair stands on by number, and keeps it: the domain, the CQs, the shared
 * receive queue, the memory, the doorbell page.  Transitions are the verbs' with other names for the attributes;
 * they work on the verbs' queue pairs, too.
 */
#include <linux/capability.h>
#include <linux/mlx5/qp.h>
#include <linux/slab.h>
#include <rdma/ib_mad.h>
#include "devx_qp.h"

/* qpc.rq_type */
enum { RQ_REGULAR, RQ_SHARED, RQ_ZERO_SIZE = 3 };

#define TS_FORMAT_REAL_TIME 2

/* ---- birth and death ---- */

/* Features that would change what the device does. */
static bool unsupported(const void *in, const void *qpc)
{
	return MLX5_GET(create_qp_in, in, op_mod) || MLX5_GET(create_qp_in, in, input_qpn) ||
	       MLX5_GET(create_qp_in, in, opt_param_mask) || MLX5_GET(tally_init2init_ext, in, qpc_ext) ||
	       MLX5_GET(qpc, qpc, wq_signature) || MLX5_GET(qpc, qpc, offload_type) ||
	       MLX5_GET(qpc, qpc, ulp_stateless_offload_mode) ||
	       MLX5_GET(qpc, qpc, rlky) || MLX5_GET(qpc, qpc, cd_master) || MLX5_GET(qpc, qpc, cd_slave_send) ||
	       MLX5_GET(qpc, qpc, cd_slave_receive) || MLX5_GET(qpc, qpc, ts_format) >= TS_FORMAT_REAL_TIME;
}

/* Returns whether commands can make one of this service type. */
static bool get_type(const void *qpc, struct hca_qp_config *cfg)
{
	switch (MLX5_GET(qpc, qpc, st)) {
	case MLX5_QP_ST_RC:
		cfg->type = HCA_QP_RC;
		return true;
	case MLX5_QP_ST_UC:
		cfg->type = HCA_QP_UC;
		return true;
	case MLX5_QP_ST_UD:
		cfg->type = HCA_QP_UD;
		return true;
	case MLX5_QP_ST_DCI:
		cfg->type = HCA_QP_DCI;
		return true;
	default:
		return false;
	}
}

/* What is said of receives is not looked at where there are none. */
static u32 receives_from(const void *qpc, const struct hca_qp_config *cfg)
{
	return cfg->type == HCA_QP_DCI ? RQ_ZERO_SIZE : MLX5_GET(qpc, qpc, rq_type);
}

static u8 check_streams(const void *qpc, struct hca_qp_config *cfg)
{
	u32 streams = MLX5_GET(qpc, qpc, log_num_dci_stream_channels);
	u32 errored = MLX5_GET(qpc, qpc, log_num_dci_errored_streams);

	if (!streams && !errored)
		return MLX5_CMD_STAT_OK;
	if (cfg->type != HCA_QP_DCI || streams > TALLY_LOG_STREAMS || errored > TALLY_LOG_STREAMS)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	cfg->streams = 1u << errored;
	return MLX5_CMD_STAT_OK;
}

/* Sizes; the addresses come with the memory. */
static u8 check_shape(const void *qpc, struct hca_qp_config *cfg)
{
	if (!MLX5_GET(qpc, qpc, no_sq))
		cfg->sq_slots = 1u << MLX5_GET(qpc, qpc, log_sq_size);
	switch (receives_from(qpc, cfg)) {
	case RQ_REGULAR:
		cfg->rq_entries = 1u << MLX5_GET(qpc, qpc, log_rq_size);
		cfg->rq_wqe_shift = TALLY_MIN_RQ_SHIFT + MLX5_GET(qpc, qpc, log_rq_stride);
		break;
	case RQ_SHARED:
	case RQ_ZERO_SIZE:
		break;
	default:
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	}
	if (cfg->sq_slots > TALLY_MAX_WQES || cfg->rq_entries > TALLY_MAX_WQES ||
	    cfg->rq_wqe_shift > TALLY_MAX_RQ_SHIFT)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	return check_streams(qpc, cfg);
}

/* What the queue pair stands on. */
static u8 get_objects(struct tally_devx_qp *devx, const void *qpc, struct hca_qp_config *cfg)
{
	struct tally_ucontext *ctx = devx->qp.ctx;

	devx->pd = tally_pd_get(ctx, MLX5_GET(qpc, qpc, pd));
	devx->send_cq = tally_cq_get(ctx, MLX5_GET(qpc, qpc, cqn_snd));
	devx->recv_cq = tally_cq_get(ctx, cfg->type == HCA_QP_DCI ? MLX5_GET(qpc, qpc, cqn_snd) :
								     MLX5_GET(qpc, qpc, cqn_rcv));
	if (!devx->pd || !devx->send_cq || !devx->recv_cq)
		return MLX5_CMD_STAT_BAD_RES_ERR;
	cfg->pdn = devx->pd->res.number;
	cfg->send_cq = &devx->send_cq->hca;
	cfg->recv_cq = &devx->recv_cq->hca;
	if (receives_from(qpc, cfg) != RQ_SHARED)
		return MLX5_CMD_STAT_OK;

	devx->srq = tally_srq_get(ctx, MLX5_GET(qpc, qpc, srqn_rmpn_xrqn));
	/* One of XRC is for its own kind, as with the verb. */
	if (!devx->srq || devx->srq->hca.cq)
		return MLX5_CMD_STAT_BAD_RES_ERR;
	cfg->srq = &devx->srq->hca;
	return MLX5_CMD_STAT_OK;
}

/* Receives first, then the send queue, whose slots are aligned to their size. */
static int get_memory(struct tally_qp *qp, const void *in, const void *qpc, struct hca_qp_config *cfg)
{
	size_t rq_bytes = cfg->rq_entries ? (size_t)cfg->rq_entries << cfg->rq_wqe_shift : 0;
	size_t bytes = rq_bytes + ((size_t)cfg->sq_slots << HCA_WQE_BB_SHIFT);
	int ret;

	if (!bytes)
		return 0;
	ret = tally_ring_of_umem(&qp->ring, qp->ctx, MLX5_GET(tally_create_qp_umem, in, wq_umem_id),
				 MLX5_GET64(tally_create_qp_umem, in, wq_umem_offset), bytes, false);
	if (ret)
		return ret;
	if (!IS_ALIGNED((uintptr_t)qp->ring.addr, HCA_WQE_BB) || (cfg->sq_slots && !IS_ALIGNED(rq_bytes, HCA_WQE_BB)))
		return -EINVAL;
	ret = tally_dbrec_of_umem(&qp->dbrec, qp->ctx, MLX5_GET(tally_create_qp_umem, in, dbr_umem_id),
				  MLX5_GET64(qpc, qpc, dbr_addr), 2 * sizeof(__be32));
	if (ret)
		return ret;
	if (cfg->rq_entries)
		cfg->rq_buf = qp->ring.addr;
	if (cfg->sq_slots)
		cfg->sq_buf = qp->ring.addr + rq_bytes;
	cfg->dbrec = qp->dbrec.addr;
	return 0;
}

void tally_devx_qp_put(struct tally_devx_qp *devx)
{
	tally_srq_put(devx->srq);
	tally_cq_put(devx->recv_cq);
	tally_cq_put(devx->send_cq);
	tally_pd_put(devx->pd);
	kfree(devx);
}

static u8 create(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	const void *qpc = MLX5_ADDR_OF(create_qp_in, cmd->in, qpc);
	struct hca_qp_config cfg = {};
	struct tally_devx_qp *devx;
	struct tally_qp *qp;
	u8 status;
	int ret;

	if (unsupported(cmd->in, qpc) || !get_type(qpc, &cfg))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	status = check_shape(qpc, &cfg);
	if (status != MLX5_CMD_STAT_OK)
		return status;
	devx = kzalloc(sizeof(*devx), GFP_KERNEL_ACCOUNT);
	if (!devx)
		return MLX5_CMD_STAT_NO_RES_ERR;
	qp = &devx->qp;
	qp->ctx = cmd->ctx;
	qp->ib.device = cmd->ctx->ib.device;
	qp->no_loopback = MLX5_GET(qpc, qpc, block_lb_mc);

	status = get_objects(devx, qpc, &cfg);
	if (status != MLX5_CMD_STAT_OK)
		goto err_objects;
	cfg.user_index = cmd->ctx->cqe_version ? MLX5_GET(qpc, qpc, user_index) :
			 devx->srq ? devx->srq->res.number : 0;
	ret = get_memory(qp, cmd->in, qpc, &cfg);
	if (!ret)
		ret = tally_qp_make(qp, &cfg);
	if (ret) {
		status = tally_devx_status(ret);
		goto err_memory;
	}
	if (tally_bfreg_bind_page(qp, MLX5_GET(qpc, qpc, uar_page))) {
		status = MLX5_CMD_STAT_BAD_RES_ERR;
		goto err_qp;
	}
	MLX5_SET(create_qp_out, cmd->out, qpn, qp->ib.qp_num);
	obj->id = qp->ib.qp_num;
	obj->object = qp;
	qp->devx = obj;
	return MLX5_CMD_STAT_OK;

err_qp:
	tally_qp_unmake(qp);
err_memory:
	tally_qp_unmap(qp);
err_objects:
	tally_devx_qp_put(devx);
	return status;
}

void tally_devx_qp_publish(struct tally_devx_obj *obj)
{
	struct tally_qp *qp = obj->object;

	hca_qp_publish(&qp->hca);
}

int tally_devx_qp_destroy(struct tally_devx_obj *obj)
{
	struct tally_devx_qp *devx = container_of(obj->object, struct tally_devx_qp, qp);

	tally_qp_unmake(&devx->qp);
	tally_devx_qp_put(devx);
	return 0;
}

/* ---- transitions ---- */

#define OPT_ACCESS (MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RWE | MLX5_QP_OPTPAR_RAE)
/* There is one port, one P_Key and no counter set but one. */
#define OPT_IGNORED (MLX5_QP_OPTPAR_LAG_TX_AFF | MLX5_QP_OPTPAR_COUNTER_SET_ID)

/**
 * struct transition - what a command changes
 * @opcode: the command
 * @from: state in which it is allowed, enum ib_qp_state
 * @to: state after it
 * @mask: attributes that it always sets, where the type of QP has them, enum ib_qp_attr_mask
 * @optional: those that it sets if opt_param_mask says so, enum mlx5_qp_optpar
 */
struct transition {
	u16 opcode;
	u8 from;
	u8 to;
	int mask;
	u32 optional;
};

static const struct transition transitions[] = {
	{ MLX5_CMD_OP_RST2INIT_QP, IB_QPS_RESET, IB_QPS_INIT,
	  IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS | IB_QP_QKEY,
	  OPT_ACCESS | MLX5_QP_OPTPAR_PKEY_INDEX | MLX5_QP_OPTPAR_PRI_PORT | MLX5_QP_OPTPAR_Q_KEY },
	{ MLX5_CMD_OP_INIT2INIT_QP, IB_QPS_INIT, IB_QPS_INIT, 0,
	  OPT_ACCESS | MLX5_QP_OPTPAR_PKEY_INDEX | MLX5_QP_OPTPAR_PRI_PORT | MLX5_QP_OPTPAR_Q_KEY },
	{ MLX5_CMD_OP_INIT2RTR_QP, IB_QPS_INIT, IB_QPS_RTR,
	  IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER,
	  OPT_ACCESS | MLX5_QP_OPTPAR_PKEY_INDEX | MLX5_QP_OPTPAR_Q_KEY },
	{ MLX5_CMD_OP_RTR2RTS_QP, IB_QPS_RTR, IB_QPS_RTS,
	  IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC,
	  OPT_ACCESS | MLX5_QP_OPTPAR_RNR_TIMEOUT | MLX5_QP_OPTPAR_PM_STATE | MLX5_QP_OPTPAR_Q_KEY },
	{ MLX5_CMD_OP_RTS2RTS_QP, IB_QPS_RTS, IB_QPS_RTS, 0,
	  OPT_ACCESS | MLX5_QP_OPTPAR_RNR_TIMEOUT | MLX5_QP_OPTPAR_PM_STATE | MLX5_QP_OPTPAR_Q_KEY },
	{ MLX5_CMD_OP_SQERR2RTS_QP, IB_QPS_SQE, IB_QPS_RTS, 0,
	  OPT_ACCESS | MLX5_QP_OPTPAR_RNR_TIMEOUT | MLX5_QP_OPTPAR_Q_KEY },
};

/* Attributes that a type of QP does not have; what a context says of them is not looked at. */
#define RESPONDER (IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER)
#define REQUESTER (IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC)
#define PEER	  (IB_QP_AV | IB_QP_DEST_QPN | IB_QP_RQ_PSN)
static const int lacks[HCA_QP_TYPES] = {
	[HCA_QP_RC]	 = IB_QP_QKEY,
	[HCA_QP_UC]	 = IB_QP_QKEY | RESPONDER | REQUESTER,
	[HCA_QP_UD]	 = IB_QP_ACCESS_FLAGS | IB_QP_PATH_MTU | PEER | RESPONDER | REQUESTER,
	[HCA_QP_XRC_INI] = IB_QP_QKEY | RESPONDER,
	[HCA_QP_XRC_TGT] = IB_QP_QKEY | (REQUESTER & ~IB_QP_TIMEOUT),
	[HCA_QP_DCI]	 = IB_QP_QKEY | IB_QP_ACCESS_FLAGS | PEER | RESPONDER,
};

/* All commands that carry a context have it in the same place. */
static const void *qpc_of(const struct tally_devx_cmd *cmd)
{
	return MLX5_ADDR_OF(init2rtr_qp_in, cmd->in, qpc);
}

static const struct transition *find_transition(const struct tally_devx_cmd *cmd)
{
	u16 opcode = MLX5_GET(tally_obj_cmd, cmd->in, opcode);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(transitions); i++)
		if (transitions[i].opcode == opcode)
			return &transitions[i];
	return NULL;
}

/* Each of the three bits can be set alone; the others stay as they are. */
static int access_flags(struct tally_qp *qp, const void *qpc, u32 opt)
{
	static const struct {
		u32 opt;
		int ib;
	} bits[] = {
		{ MLX5_QP_OPTPAR_RRE, IB_ACCESS_REMOTE_READ },
		{ MLX5_QP_OPTPAR_RWE, IB_ACCESS_REMOTE_WRITE },
		{ MLX5_QP_OPTPAR_RAE, IB_ACCESS_REMOTE_ATOMIC },
	};
	const bool on[] = { MLX5_GET(qpc, qpc, rre), MLX5_GET(qpc, qpc, rwe), MLX5_GET(qpc, qpc, rae) };
	int access;
	u32 i;

	mutex_lock(&qp->lock);
	access = qp->attr.qp_access_flags;
	mutex_unlock(&qp->lock);
	for (i = 0; i < ARRAY_SIZE(bits); i++)
		if (opt & bits[i].opt)
			access = on[i] ? access | bits[i].ib : access & ~bits[i].ib;
	return access;
}

static void get_address(struct rdma_ah_attr *ah, const void *ads)
{
	ah->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(ah, 1);
	rdma_ah_set_sl(ah, MLX5_GET(ads, ads, sl));
	rdma_ah_set_grh(ah, NULL, MLX5_GET(ads, ads, flow_label), MLX5_GET(ads, ads, src_addr_index),
			MLX5_GET(ads, ads, hop_limit), MLX5_GET(ads, ads, tclass));
	rdma_ah_set_dgid_raw(ah, MLX5_ADDR_OF(ads, ads, rgid_rip));
	memcpy(ah->roce.dmac, MLX5_ADDR_OF(ads, ads, rmac_47_32), ETH_ALEN);
}

static void get_values(struct ib_qp_attr *attr, const void *qpc)
{
	const void *ads = MLX5_ADDR_OF(qpc, qpc, primary_address_path);

	attr->port_num = 1;
	attr->pkey_index = MLX5_GET(ads, ads, pkey_index);
	attr->path_mtu = MLX5_GET(qpc, qpc, mtu);
	attr->dest_qp_num = MLX5_GET(qpc, qpc, remote_qpn);
	attr->rq_psn = MLX5_GET(qpc, qpc, next_rcv_psn);
	attr->sq_psn = MLX5_GET(qpc, qpc, next_send_psn);
	attr->max_dest_rd_atomic = 1u << MLX5_GET(qpc, qpc, log_rra_max);
	attr->max_rd_atomic = 1u << MLX5_GET(qpc, qpc, log_sra_max);
	attr->min_rnr_timer = MLX5_GET(qpc, qpc, min_rnr_nak);
	attr->timeout = MLX5_GET(ads, ads, ack_timeout);
	attr->retry_cnt = MLX5_GET(qpc, qpc, retry_count);
	attr->rnr_retry = MLX5_GET(qpc, qpc, rnr_retry);
	attr->qkey = MLX5_GET(qpc, qpc, q_key);
	get_address(&attr->ah_attr, ads);
}

/* What the verbs have checked for them by ib_core. */
static u8 check_path(struct tally_qp *qp, const void *qpc, int mask, u32 opt)
{
	const void *ads = MLX5_ADDR_OF(qpc, qpc, primary_address_path);
	union ib_gid gid;

	if ((mask & IB_QP_PORT || opt & MLX5_QP_OPTPAR_PRI_PORT) && MLX5_GET(ads, ads, vhca_port_num) > 1)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (mask & IB_QP_AV && !tally_gid_at(to_tdev(qp->ib.device), MLX5_GET(ads, ads, src_addr_index), &gid))
		return MLX5_CMD_STAT_BAD_RES_ERR;
	if (opt & MLX5_QP_OPTPAR_PM_STATE && MLX5_GET(qpc, qpc, pm_state) != MLX5_QPC_PM_STATE_MIGRATED)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	return MLX5_CMD_STAT_OK;
}

/* Likewise: with a controlled Q_Key it would pass for a privileged sender. */
static u8 check_qkey(const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_QKEY && attr->qkey & IB_QP_SET_QKEY && !capable(CAP_NET_RAW))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	return MLX5_CMD_STAT_OK;
}

static u8 transit(void *object, const struct tally_devx_cmd *cmd)
{
	u32 opt = MLX5_GET(init2rtr_qp_in, cmd->in, opt_param_mask) & ~OPT_IGNORED;
	const struct transition *t = find_transition(cmd);
	const void *qpc = qpc_of(cmd);
	struct tally_qp *qp = object;
	struct ib_qp_attr attr = {};
	int lacking = lacks[qp->hca.type];
	int mask = (t->mask & ~lacking) | IB_QP_STATE;
	u8 status;

	if (MLX5_GET(init2rtr_qp_in, cmd->in, op_mod) || opt & ~t->optional)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (READ_ONCE(qp->hca.state) != t->from)
		return MLX5_CMD_STAT_BAD_QP_STATE_ERR;
	status = check_path(qp, qpc, mask, opt);
	if (status != MLX5_CMD_STAT_OK)
		return status;

	if (mask & IB_QP_ACCESS_FLAGS)
		opt |= OPT_ACCESS;
	if (opt & OPT_ACCESS)
		mask |= IB_QP_ACCESS_FLAGS & ~lacking;
	if (opt & MLX5_QP_OPTPAR_PKEY_INDEX)
		mask |= IB_QP_PKEY_INDEX;
	if (opt & MLX5_QP_OPTPAR_RNR_TIMEOUT)
		mask |= IB_QP_MIN_RNR_TIMER;
	if (opt & MLX5_QP_OPTPAR_Q_KEY)
		mask |= IB_QP_QKEY & ~lacking;
	get_values(&attr, qpc);
	status = check_qkey(&attr, mask);
	if (status != MLX5_CMD_STAT_OK)
		return status;
	attr.qp_state = t->to;
	attr.qp_access_flags = access_flags(qp, qpc, opt);
	return tally_devx_status(tally_qp_modify(qp, &attr, mask, NULL));
}

/* Beside the verbs' attributes it has one that they do not know: whether copies are allowed. */
static u8 init2init(void *object, const struct tally_devx_cmd *cmd)
{
	struct tally_qp *qp = object;

	if (!MLX5_GET(tally_init2init_ext, cmd->in, qpc_ext))
		return transit(object, cmd);
	if (cmd->in_len < MLX5_ST_SZ_BYTES(tally_init2init_ext))
		return MLX5_CMD_STAT_BAD_INP_LEN_ERR;
	if (MLX5_GET(tally_init2init_ext, cmd->in, opt_param_mask) ||
	    MLX5_GET64(tally_init2init_ext, cmd->in, opt_param_mask_95_32) != TALLY_QPC_OPT_MASK_MMO ||
	    !MLX5_GET(tally_init2init_ext, cmd->in, mmo))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (qp->hca.type != HCA_QP_RC && qp->hca.type != HCA_QP_DCI)
		return MLX5_CMD_STAT_BAD_RES_ERR;
	return hca_qp_enable_mmo(&qp->hca) ? MLX5_CMD_STAT_BAD_QP_STATE_ERR : MLX5_CMD_STAT_OK;
}

/* Lets a failed stream of a DCI go on, or chooses the source port of packets that there are none of. */
static u8 rts2rts(void *object, const struct tally_devx_cmd *cmd)
{
	struct tally_qp *qp = object;
	u64 mask;

	if (!MLX5_GET(tally_init2init_ext, cmd->in, qpc_ext))
		return transit(object, cmd);
	if (cmd->in_len < MLX5_ST_SZ_BYTES(tally_init2init_ext))
		return MLX5_CMD_STAT_BAD_INP_LEN_ERR;
	mask = MLX5_GET64(tally_init2init_ext, cmd->in, opt_param_mask_95_32);
	if (MLX5_GET(tally_init2init_ext, cmd->in, opt_param_mask))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (mask == TALLY_QPC_OPT_MASK_UDP_SPORT)
		return READ_ONCE(qp->hca.state) == HCA_QPS_RTS ? MLX5_CMD_STAT_OK : MLX5_CMD_STAT_BAD_QP_STATE_ERR;
	if (mask != TALLY_QPC_OPT_MASK_STREAM)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (qp->hca.type != HCA_QP_DCI)
		return MLX5_CMD_STAT_BAD_RES_ERR;
	return hca_qp_reset_stream(&qp->hca, MLX5_GET(tally_init2init_ext, cmd->in, dci_stream_channel_id)) ?
	       MLX5_CMD_STAT_BAD_QP_STATE_ERR : MLX5_CMD_STAT_OK;
}

static u8 to_error(void *object, const struct tally_devx_cmd *cmd)
{
	const struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return tally_devx_status(tally_qp_modify(object, &attr, IB_QP_STATE, NULL));
}

static u8 to_reset(void *object, const struct tally_devx_cmd *cmd)
{
	const struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	return tally_devx_status(tally_qp_modify(object, &attr, IB_QP_STATE, NULL));
}

/* ---- a look at it ---- */

static u8 state_of(const struct hca_qp *hca)
{
	static const u8 states[] = {
		[IB_QPS_RESET] = MLX5_QP_STATE_RST,
		[IB_QPS_INIT]  = MLX5_QP_STATE_INIT,
		[IB_QPS_RTR]   = MLX5_QP_STATE_RTR,
		[IB_QPS_RTS]   = MLX5_QP_STATE_RTS,
		[IB_QPS_SQD]   = MLX5_QP_STATE_SQD,
		[IB_QPS_SQE]   = MLX5_QP_STATE_SQER,
		[IB_QPS_ERR]   = MLX5_QP_STATE_ERR,
	};
	u8 state = READ_ONCE(hca->state);

	if (state == IB_QPS_SQD && !READ_ONCE(hca->sq.drained))
		return MLX5_QP_STATE_SQ_DRAINING;
	return states[state];
}

static void put_address(void *ads, const struct ib_qp_attr *attr)
{
	const struct ib_global_route *grh = &attr->ah_attr.grh;

	MLX5_SET(ads, ads, pkey_index, attr->pkey_index);
	MLX5_SET(ads, ads, ack_timeout, attr->timeout);
	MLX5_SET(ads, ads, vhca_port_num, attr->port_num);
	MLX5_SET(ads, ads, sl, attr->ah_attr.sl);
	MLX5_SET(ads, ads, src_addr_index, grh->sgid_index);
	MLX5_SET(ads, ads, hop_limit, grh->hop_limit);
	MLX5_SET(ads, ads, tclass, grh->traffic_class);
	MLX5_SET(ads, ads, flow_label, grh->flow_label);
	memcpy(MLX5_ADDR_OF(ads, ads, rgid_rip), grh->dgid.raw, sizeof(grh->dgid));
	memcpy(MLX5_ADDR_OF(ads, ads, rmac_47_32), attr->ah_attr.roce.dmac, ETH_ALEN);
}

static u8 log_of(u8 reads)
{
	return reads ? ilog2(reads) : 0;
}

static const u8 service_types[HCA_QP_TYPES] = {
	[HCA_QP_RC]	 = MLX5_QP_ST_RC,
	[HCA_QP_UC]	 = MLX5_QP_ST_UC,
	[HCA_QP_UD]	 = MLX5_QP_ST_UD,
	[HCA_QP_XRC_INI] = MLX5_QP_ST_XRC,
	[HCA_QP_XRC_TGT] = MLX5_QP_ST_XRC,
	[HCA_QP_DCI]	 = MLX5_QP_ST_DCI,
};

static u8 query(void *object, const struct tally_devx_cmd *cmd)
{
	void *qpc = MLX5_ADDR_OF(query_qp_out, cmd->out, qpc);
	struct tally_qp *qp = object;
	const struct hca_qp *hca = &qp->hca;
	const struct ib_qp_attr *attr = &qp->attr;

	MLX5_SET(qpc, qpc, st, service_types[hca->type]);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QPC_PM_STATE_MIGRATED);
	MLX5_SET(qpc, qpc, state, state_of(hca));
	MLX5_SET(qpc, qpc, pd, hca->pdn);
	MLX5_SET(qpc, qpc, user_index, hca->user_index);
	if (hca->send_cq)
		MLX5_SET(qpc, qpc, cqn_snd, hca_to_tcq(hca->send_cq)->res.number);
	if (hca->recv_cq)
		MLX5_SET(qpc, qpc, cqn_rcv, hca_to_tcq(hca->recv_cq)->res.number);
	MLX5_SET(qpc, qpc, no_sq, !hca->sq.buf);
	MLX5_SET(qpc, qpc, log_sq_size, ilog2(hca->sq.mask + 1));
	MLX5_SET(qpc, qpc, rq_type, hca->srq ? RQ_SHARED : hca->rq.buf ? RQ_REGULAR : RQ_ZERO_SIZE);
	if (hca->srq)
		MLX5_SET(qpc, qpc, srqn_rmpn_xrqn, hca_to_tsrq(hca->srq)->res.number);
	if (hca->rq.buf) {
		MLX5_SET(qpc, qpc, log_rq_size, ilog2(hca->rq.mask + 1));
		MLX5_SET(qpc, qpc, log_rq_stride, hca->rq.wqe_shift - TALLY_MIN_RQ_SHIFT);
	}
	MLX5_SET(qpc, qpc, next_send_psn, READ_ONCE(hca->sq.psn));
	MLX5_SET(qpc, qpc, next_rcv_psn, READ_ONCE(hca->rq.psn));
	MLX5_SET(qpc, qpc, hw_sq_wqebb_counter, READ_ONCE(hca->sq.ci));
	MLX5_SET(qpc, qpc, sw_sq_wqebb_counter, READ_ONCE(hca->sq.pi));
	MLX5_SET(qpc, qpc, hw_rq_counter, READ_ONCE(hca->rq.ci));
	MLX5_SET(qpc, qpc, sw_rq_counter, READ_ONCE(hca->rq.pi));

	mutex_lock(&qp->lock);
	MLX5_SET(qpc, qpc, mtu, attr->path_mtu);
	MLX5_SET(qpc, qpc, remote_qpn, attr->dest_qp_num);
	MLX5_SET(qpc, qpc, retry_count, attr->retry_cnt);
	MLX5_SET(qpc, qpc, rnr_retry, attr->rnr_retry);
	MLX5_SET(qpc, qpc, min_rnr_nak, attr->min_rnr_timer);
	MLX5_SET(qpc, qpc, q_key, attr->qkey);
	MLX5_SET(qpc, qpc, log_sra_max, log_of(attr->max_rd_atomic));
	MLX5_SET(qpc, qpc, log_rra_max, log_of(attr->max_dest_rd_atomic));
	MLX5_SET(qpc, qpc, rre, !!(attr->qp_access_flags & IB_ACCESS_REMOTE_READ));
	MLX5_SET(qpc, qpc, rwe, !!(attr->qp_access_flags & IB_ACCESS_REMOTE_WRITE));
	MLX5_SET(qpc, qpc, rae, !!(attr->qp_access_flags & IB_ACCESS_REMOTE_ATOMIC));
	put_address(MLX5_ADDR_OF(qpc, qpc, primary_address_path), attr);
	mutex_unlock(&qp->lock);
	return MLX5_CMD_STAT_OK;
}

#define TRANSITION(opcode) \
	{ MLX5_CMD_OP_##opcode, true, MLX5_ST_SZ_BYTES(init2rtr_qp_in), MLX5_ST_SZ_BYTES(init2rtr_qp_out), transit }

static const struct tally_devx_method methods[] = {
	TRANSITION(RST2INIT_QP),
	TRANSITION(INIT2RTR_QP),
	TRANSITION(RTR2RTS_QP),
	{ MLX5_CMD_OP_RTS2RTS_QP, true, MLX5_ST_SZ_BYTES(rts2rts_qp_in), MLX5_ST_SZ_BYTES(rts2rts_qp_out), rts2rts },
	TRANSITION(SQERR2RTS_QP),
	{ MLX5_CMD_OP_INIT2INIT_QP, true, MLX5_ST_SZ_BYTES(init2init_qp_in), MLX5_ST_SZ_BYTES(init2init_qp_out),
	  init2init },
	{ MLX5_CMD_OP_2ERR_QP, true, MLX5_ST_SZ_BYTES(qp_2err_in), MLX5_ST_SZ_BYTES(qp_2err_out), to_error },
	{ MLX5_CMD_OP_2RST_QP, true, MLX5_ST_SZ_BYTES(qp_2rst_in), MLX5_ST_SZ_BYTES(qp_2rst_out), to_reset },
	/* What may follow the context, page lists and extensions, is not answered. */
	{ MLX5_CMD_OP_QUERY_QP, false, MLX5_ST_SZ_BYTES(query_qp_in),
	  MLX5_BYTE_OFF(query_qp_out, qpc) + MLX5_ST_SZ_BYTES(qpc), query },
};

const struct tally_devx_type tally_devx_qp = {
	.opcode = MLX5_CMD_OP_CREATE_QP,
	.in_len = MLX5_ST_SZ_BYTES(create_qp_in),
	.out_len = MLX5_ST_SZ_BYTES(create_qp_out),
	.create = create,
	.publish = tally_devx_qp_publish,
	.destroy = tally_devx_qp_destroy,
	.methods = methods,
	.num_methods = ARRAY_SIZE(methods),
};
