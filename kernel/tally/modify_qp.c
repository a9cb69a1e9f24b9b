// SPDX-License-Identifier: GPL-2.0-only
/* Queue pairs: states and attributes. */
#include "tally.h"

static int check_values(const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_PORT && attr->port_num != 1)
		return -EINVAL;
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return -EINVAL;
	if (mask & IB_QP_PATH_MTU && (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return -EINVAL;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > TALLY_MAX_RD_ATOMIC)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > TALLY_MAX_RD_ATOMIC)
		return -EINVAL;
	if (mask & IB_QP_TIMEOUT && attr->timeout > 31)
		return -EINVAL;
	if (mask & IB_QP_RETRY_CNT && attr->retry_cnt > 7)
		return -EINVAL;
	if (mask & IB_QP_RNR_RETRY && attr->rnr_retry > 7)
		return -EINVAL;
	if (mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31)
		return -EINVAL;
	if (mask & IB_QP_DEST_QPN && attr->dest_qp_num > 0xffffff)
		return -EINVAL;
	return 0;
}

static int check_paths(const struct ib_qp_attr *attr, int mask)
{
	/* There is one port, so no other path to migrate to. */
	if (mask & IB_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if (mask & IB_QP_PATH_MIG_STATE && attr->path_mig_state != IB_MIG_MIGRATED)
		return -EOPNOTSUPP;
	if (mask & IB_QP_AV) {
		if (attr->ah_attr.type != RDMA_AH_ATTR_TYPE_ROCE ||
		    !(rdma_ah_get_ah_flags(&attr->ah_attr) & IB_AH_GRH))
			return -EINVAL;
	}
	return 0;
}

/* The transitions of DC, which ib_core does not know: from, to, what must be given and what may be. */
static const struct dc_transition {
	u8 type;
	u8 cur;
	u8 new;
	int required;
	int optional;
} dc_transitions[] = {
	{ HCA_QP_DCI, IB_QPS_RESET, IB_QPS_INIT, IB_QP_PKEY_INDEX | IB_QP_PORT, 0 },
	{ HCA_QP_DCI, IB_QPS_INIT, IB_QPS_INIT, 0, IB_QP_PKEY_INDEX | IB_QP_PORT },
	{ HCA_QP_DCI, IB_QPS_INIT, IB_QPS_RTR, IB_QP_PATH_MTU, IB_QP_PKEY_INDEX | IB_QP_AV },
	{ HCA_QP_DCI, IB_QPS_RTR, IB_QPS_RTS,
	  IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_SQ_PSN,
	  IB_QP_MIN_RNR_TIMER },
	{ HCA_QP_DCI, IB_QPS_RTS, IB_QPS_RTS, 0, IB_QP_MIN_RNR_TIMER },
	{ HCA_QP_DCT, IB_QPS_RESET, IB_QPS_INIT, IB_QP_ACCESS_FLAGS | IB_QP_PKEY_INDEX | IB_QP_PORT, 0 },
	{ HCA_QP_DCT, IB_QPS_INIT, IB_QPS_RTR, IB_QP_MIN_RNR_TIMER | IB_QP_AV | IB_QP_PATH_MTU, 0 },
};

static bool dc_modify_is_ok(u8 type, u8 cur, u8 new, int mask)
{
	u32 i;

	mask &= ~(IB_QP_STATE | IB_QP_CUR_STATE);
	/* A DCT has neither errors of its own nor a way back. */
	if (type == HCA_QP_DCI && (new == IB_QPS_RESET || (new == IB_QPS_ERR && cur != IB_QPS_RESET)))
		return !mask;
	for (i = 0; i < ARRAY_SIZE(dc_transitions); i++) {
		const struct dc_transition *t = &dc_transitions[i];

		if (t->type == type && t->cur == cur && t->new == new)
			return (mask & t->required) == t->required && !(mask & ~(t->required | t->optional));
	}
	return false;
}

/* One that a command has made has no type of the verbs'. */
static const u8 ib_types[HCA_QP_TYPES] = {
	[HCA_QP_RC]	 = IB_QPT_RC,
	[HCA_QP_UC]	 = IB_QPT_UC,
	[HCA_QP_UD]	 = IB_QPT_UD,
	[HCA_QP_XRC_INI] = IB_QPT_XRC_INI,
	[HCA_QP_XRC_TGT] = IB_QPT_XRC_TGT,
	[HCA_QP_DCI]	 = IB_QPT_DRIVER,
	[HCA_QP_DCT]	 = IB_QPT_DRIVER,
};

static int check_state(struct tally_qp *qp, enum ib_qp_state cur, const struct ib_qp_attr *attr, int mask,
		       enum ib_qp_state *new)
{
	bool ok;

	/* The caller's idea of the state; the queue may have failed meanwhile. */
	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != cur)
		return -EINVAL;
	*new = mask & IB_QP_STATE ? attr->qp_state : cur;
	if (ib_types[qp->hca.type] == IB_QPT_DRIVER)
		ok = dc_modify_is_ok(qp->hca.type, cur, *new, mask);
	else
		ok = ib_modify_qp_is_ok(cur, *new, ib_types[qp->hca.type], mask);
	return ok ? 0 : -EINVAL;
}

static u8 hca_access(int access)
{
	u8 flags = 0;

	if (access & IB_ACCESS_REMOTE_READ)
		flags |= HCA_ACCESS_REMOTE_READ;
	if (access & IB_ACCESS_REMOTE_WRITE)
		flags |= HCA_ACCESS_REMOTE_WRITE;
	if (access & IB_ACCESS_REMOTE_ATOMIC)
		flags |= HCA_ACCESS_REMOTE_ATOMIC;
	return flags;
}

static void to_hca_attr(struct hca_qp_attr *to, const struct ib_qp_attr *attr, int mask)
{
	static const struct {
		int ib;
		u32 hca;
	} bits[] = {
		{ IB_QP_STATE, HCA_ATTR_STATE },
		{ IB_QP_ACCESS_FLAGS, HCA_ATTR_ACCESS },
		{ IB_QP_DEST_QPN, HCA_ATTR_DEST_QPN },
		{ IB_QP_PATH_MTU, HCA_ATTR_MTU },
		{ IB_QP_MIN_RNR_TIMER, HCA_ATTR_RNR_TIMER },
		{ IB_QP_RNR_RETRY, HCA_ATTR_RNR_RETRY },
		{ IB_QP_RETRY_CNT, HCA_ATTR_RETRY_CNT },
		{ IB_QP_TIMEOUT, HCA_ATTR_TIMEOUT },
		{ IB_QP_MAX_DEST_RD_ATOMIC, HCA_ATTR_MAX_DEST_RD_ATOMIC },
		{ IB_QP_SQ_PSN, HCA_ATTR_SQ_PSN },
		{ IB_QP_RQ_PSN, HCA_ATTR_RQ_PSN },
		{ IB_QP_AV, HCA_ATTR_ROUTE },
		{ IB_QP_QKEY, HCA_ATTR_QKEY },
	};
	u32 i;

	*to = (struct hca_qp_attr){
		.state = attr->qp_state,
		.access = hca_access(attr->qp_access_flags),
		.dest_qpn = attr->dest_qp_num,
		.rnr_timer = attr->min_rnr_timer,
		.rnr_retry = attr->rnr_retry,
		.retry_cnt = attr->retry_cnt,
		.timeout = attr->timeout,
		.max_dest_rd_atomic = attr->max_dest_rd_atomic,
		.sq_psn = attr->sq_psn,
		.rq_psn = attr->rq_psn,
		.qkey = attr->qkey,
	};
	for (i = 0; i < ARRAY_SIZE(bits); i++)
		if (mask & bits[i].ib)
			to->mask |= bits[i].hca;
	if (mask & IB_QP_PATH_MTU)
		to->mtu = ib_mtu_enum_to_int(attr->path_mtu);
}

/* What other types of QPs are told, but not these. */
static void add_defaults(struct hca_qp_attr *to, const struct tally_qp *qp, int mask, enum ib_qp_state new)
{
	if (!(mask & IB_QP_STATE) || new != IB_QPS_RTR)
		return;
	if (qp->hca.type == HCA_QP_UD) {
		to->mask |= HCA_ATTR_MTU;
		to->mtu = ib_mtu_enum_to_int(READ_ONCE(to_tdev(qp->ib.device)->mtu));
	}
	if (qp->hca.type == HCA_QP_DCT) {
		to->mask |= HCA_ATTR_MAX_DEST_RD_ATOMIC;
		to->max_dest_rd_atomic = TALLY_MAX_RD_ATOMIC;
	}
}

/* The address, without the reference that ib_core holds for the call only. */
static void keep_address(struct rdma_ah_attr *to, const struct rdma_ah_attr *from)
{
	*to = *from;
	to->grh.sgid_attr = NULL;
}

static void keep(struct tally_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *kept = &qp->attr;

	if (mask & IB_QP_PORT)
		kept->port_num = attr->port_num;
	if (mask & IB_QP_ACCESS_FLAGS)
		kept->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_AV)
		keep_address(&kept->ah_attr, &attr->ah_attr);
	if (mask & IB_QP_PATH_MTU)
		kept->path_mtu = attr->path_mtu;
	if (mask & IB_QP_DEST_QPN)
		kept->dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		kept->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		kept->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		kept->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_TIMEOUT)
		kept->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		kept->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_QKEY)
		kept->qkey = attr->qkey;
	if (mask & IB_QP_RNR_RETRY)
		kept->rnr_retry = attr->rnr_retry;
}

/*
 * What the queues ask for comes first: the first message after the transition wants the address, and the drain
 * may be over before we are.  If the queue has failed meanwhile, it does no harm: nothing is sent, received or
 * drained before a reset.
 */
static int apply(struct tally_qp *qp, const struct ib_qp_attr *attr, int mask, enum ib_qp_state cur,
		 enum ib_qp_state new)
{
	bool reset = mask & IB_QP_STATE && new == IB_QPS_RESET;
	struct hca_qp_attr hca;
	int ret;

	if (reset)
		WRITE_ONCE(qp->sqd_notify, false);
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		WRITE_ONCE(qp->sqd_notify, attr->en_sqd_async_notify);
	if (reset)
		tally_qp_set_route(qp, NULL, NULL);
	else if (mask & IB_QP_AV)
		tally_qp_set_route(qp, &attr->ah_attr.grh.dgid, attr->ah_attr.roce.dmac);
	to_hca_attr(&hca, attr, mask);
	add_defaults(&hca, qp, mask, new);
	if (reset)
		hca.mask |= HCA_ATTR_ROUTE;
	ret = hca_qp_modify(&qp->hca, cur, &hca);
	if (ret)
		return ret;
	if (reset)
		memset(&qp->attr, 0, sizeof(qp->attr));
	keep(qp, attr, mask);
	return 0;
}

static int get_request(struct ib_udata *udata)
{
	struct mlx5_ib_modify_qp req;
	int ret;

	if (!udata || !udata->inlen)
		return 0;
	ret = tally_udata_get(&req, sizeof(req), offsetofend(struct mlx5_ib_modify_qp, comp_mask), udata);
	if (ret)
		return ret;
	/* ECE options are a wish; rates are for raw packets. */
	if (req.comp_mask || req.burst_info.max_burst_sz || req.burst_info.typical_pkt_sz || req.burst_info.reserved)
		return -EOPNOTSUPP;
	return 0;
}

static int put_response(const struct tally_qp *qp, struct ib_udata *udata)
{
	struct mlx5_ib_modify_qp_resp resp = {};

	/* The library learns a DCT's number last. */
	if (qp->hca.type == HCA_QP_DCT)
		resp.dctn = qp->ib.qp_num;

	if (!udata || !udata->outlen)
		return 0;
	resp.response_length = min(udata->outlen, sizeof(resp));
	return tally_udata_put(&resp, sizeof(resp), udata);
}

/**
 * tally_qp_modify - a transition, by a verb or by a command
 * @qp: the queue pair
 * @attr: new values; addresses have been resolved
 * @mask: which of them, IB_QP_ATTR_STANDARD_BITS
 * @udata: to be answered before anything is changed, or NULL
 *
 * Return: 0; -EINVAL for a transition or a value that is not allowed; -EOPNOTSUPP for what the device does not
 *	have; -EFAULT.
 */
int tally_qp_modify(struct tally_qp *qp, const struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	enum ib_qp_state cur, new;
	int ret;

	mutex_lock(&qp->lock);
	cur = READ_ONCE(qp->hca.state);
	ret = check_state(qp, cur, attr, mask, &new);
	if (!ret)
		ret = check_paths(attr, mask);
	if (!ret)
		ret = check_values(attr, mask);
	if (!ret)
		ret = put_response(qp, udata);
	if (!ret)
		ret = apply(qp, attr, mask, cur, new);
	mutex_unlock(&qp->lock);

	/* What was posted before, and a drain that has nothing to wait for. */
	if (!ret && mask & IB_QP_STATE && (new == IB_QPS_RTS || new == IB_QPS_SQD))
		tally_engine_kick(qp);
	return ret;
}

/**
 * tally_modify_qp - ib_device_ops.modify_qp
 * @ib: the queue pair
 * @attr: new values
 * @mask: which of them
 * @udata: the library's part, which asks for nothing here
 *
 * Return: as tally_qp_modify().
 */
int tally_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	int ret;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (to_tqp(ib)->gsi)
		return tally_gsi_modify(to_tqp(ib), attr, mask);
	ret = get_request(udata);
	return ret ? ret : tally_qp_modify(to_tqp(ib), attr, mask, udata);
}

static enum ib_qp_state current_state(struct tally_qp *qp, bool *draining)
{
	enum ib_qp_state state = READ_ONCE(qp->hca.state);

	*draining = state == IB_QPS_SQD && !READ_ONCE(qp->hca.sq.drained);
	return state;
}

/**
 * tally_query_qp - ib_device_ops.query_qp
 * @ib: the queue pair; may be half destroyed, when ib_core lists resources
 * @attr: filled in
 * @mask: all is filled in whatever it says
 * @init: filled in
 *
 * Return: 0.
 */
int tally_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	struct tally_qp *qp = to_tqp(ib);
	bool draining;

	memset(init, 0, sizeof(*init));
	mutex_lock(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = current_state(qp, &draining);
	attr->cap = qp->cap;
	init->cap = qp->cap;
	init->sq_sig_type = qp->sig_type;
	mutex_unlock(&qp->lock);

	attr->cur_qp_state = attr->qp_state;
	attr->sq_draining = draining;
	attr->sq_psn = READ_ONCE(qp->hca.sq.psn);
	attr->rq_psn = READ_ONCE(qp->hca.rq.psn);
	attr->path_mig_state = IB_MIG_MIGRATED;
	init->qp_context = ib->qp_context;
	init->send_cq = ib->send_cq;
	init->recv_cq = ib->recv_cq;
	init->srq = ib->srq;
	init->qp_type = ib->qp_type;
	return 0;
}
