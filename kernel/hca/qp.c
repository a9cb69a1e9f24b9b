// SPDX-License-Identifier: GPL-2.0-only
/* Queue pairs: birth, states, counters. */
#include "hca.h"

static u64 last_serial;

void hca_qp_init(struct hca_qp *qp, struct hca_dev *dev, const struct hca_qp_config *cfg)
{
	qp->dev = dev;
	qp->qpn = cfg->qpn;
	qp->pdn = cfg->pdn;
	qp->type = cfg->type;
	qp->state = HCA_QPS_RESET;
	qp->user_index = cfg->user_index;
	qp->all_signaled = cfg->all_signaled;
	qp->send_cq = cfg->send_cq;
	qp->recv_cq = cfg->recv_cq;
	qp->srq = cfg->srq;
	qp->mtu = 256;
	qp->key = cfg->key;
	qp->xrcdn = cfg->xrcdn;
	qp->serial = hca_fetch_add64(&last_serial, 1) + 1;
	spin_lock_init(&qp->route_lock);

	spin_lock_init(&qp->sq.lock);
	qp->sq.buf = cfg->sq_buf;
	qp->sq.mask = cfg->sq_slots ? cfg->sq_slots - 1 : 0;
	qp->sq.dbrec = cfg->dbrec;
	qp->sq.streams = cfg->streams;
	qp->sq.req.src_dev = dev;
	qp->sq.req.src_qpn = cfg->qpn;
	qp->sq.req.transport = cfg->type;
	qp->sq.req.recv = &qp->rq.recv;
	qp->sq.req.owed = &qp->sq.peer_owed;

	spin_lock_init(&qp->rq.lock);
	qp->rq.buf = cfg->rq_buf;
	qp->rq.mask = cfg->rq_entries ? cfg->rq_entries - 1 : 0;
	qp->rq.wqe_shift = cfg->rq_wqe_shift;
	qp->rq.dbrec = cfg->dbrec;
}

void hca_qp_publish(struct hca_qp *qp)
{
	hca_table_publish(&qp->dev->qps, qp->qpn, qp);
}

void hca_qp_unpublish(struct hca_qp *qp)
{
	hca_table_hide(&qp->dev->qps, qp->qpn);
}

void hca_qp_fail(struct hca_qp *qp, int event)
{
	u8 state = READ_ONCE(qp->state);

	if (state == HCA_QPS_ERR || state == HCA_QPS_RESET)
		return;
	WRITE_ONCE(qp->state, HCA_QPS_ERR);
	if (event >= 0)
		qp->dev->ops->qp_event(qp, event);
	/* The flush needs both queues' locks, in their order. */
	qp->dev->ops->kick(qp);
}

void hca_qp_fail_requester(struct hca_qp *qp)
{
	if (qp->type != HCA_QP_UC && qp->type != HCA_QP_UD) {
		hca_qp_fail(qp, -1);
		return;
	}
	/* It can still receive, unless it has failed as responder meanwhile. */
	spin_lock(&qp->rq.lock);
	if (qp->state == HCA_QPS_RTS || qp->state == HCA_QPS_SQD) {
		WRITE_ONCE(qp->state, HCA_QPS_SQE);
		qp->dev->ops->kick(qp);
	}
	spin_unlock(&qp->rq.lock);
}

static void forget_work(struct hca_qp *qp)
{
	struct hca_sq *sq = &qp->sq;
	struct hca_rq *rq = &qp->rq;

	sq->ci = 0;
	sq->pi = 0;
	sq->offset = 0;
	sq->active = false;
	sq->waiting = false;
	sq->num_failed = 0;
	sq->av_gen = 0;
	rq->ci = 0;
	rq->pi = 0;
	rq->offset = 0;
	rq->recv.active = false;
}

static void enter(struct hca_qp *qp, u8 state)
{
	switch (state) {
	case HCA_QPS_RESET:
		forget_work(qp);
		qp->mmo = false;
		break;
	case HCA_QPS_RTR:
		qp->rq.established = false;
		break;
	case HCA_QPS_SQD:
		qp->sq.drained = false;
		break;
	case HCA_QPS_ERR:
		qp->rq.polls = 0;
		break;
	}
	if (state != HCA_QPS_ERR)
		qp->rq.last_wqe_done = false;
	WRITE_ONCE(qp->state, state);
}

static void set_attrs(struct hca_qp *qp, const struct hca_qp_attr *attr)
{
	if (attr->mask & HCA_ATTR_ACCESS)
		qp->access = attr->access;
	if (attr->mask & HCA_ATTR_DEST_QPN)
		qp->dest_qpn = attr->dest_qpn;
	if (attr->mask & HCA_ATTR_MTU)
		qp->mtu = attr->mtu;
	if (attr->mask & HCA_ATTR_RNR_TIMER)
		qp->rnr_timer = attr->rnr_timer;
	if (attr->mask & HCA_ATTR_RNR_RETRY)
		qp->rnr_retry = attr->rnr_retry;
	if (attr->mask & HCA_ATTR_RETRY_CNT)
		qp->retry_cnt = attr->retry_cnt;
	if (attr->mask & HCA_ATTR_TIMEOUT)
		qp->timeout = attr->timeout;
	if (attr->mask & HCA_ATTR_MAX_DEST_RD_ATOMIC)
		qp->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (attr->mask & HCA_ATTR_QKEY)
		qp->key = attr->qkey;
	if (attr->mask & HCA_ATTR_SQ_PSN)
		qp->sq.psn = attr->sq_psn & 0xffffff;
	if (attr->mask & HCA_ATTR_RQ_PSN)
		qp->rq.psn = attr->rq_psn & 0xffffff;
}

static void forget_route(struct hca_qp *qp)
{
	spin_lock(&qp->route_lock);
	/* No generation: whoever comes next asks anew. */
	smp_store_release(&qp->peer_gen, 0);
	spin_unlock(&qp->route_lock);
}

/*
 * Flushes all that there can be of a queue of @entries; under sq.lock, which whoever waits for it gets in between.  False:
 * the doorbell record has moved meanwhile, and there is more.
 */
static bool flush_all(struct hca_qp *qp, u32 entries, bool (*some)(struct hca_qp *qp))
{
	u32 batches = entries / HCA_FLUSH_BATCH + 3;

	while (some(qp)) {
		if (!--batches)
			return false;
		spin_unlock(&qp->sq.lock);
		spin_lock(&qp->sq.lock);
	}
	return true;
}

int hca_qp_modify(struct hca_qp *qp, u8 cur, const struct hca_qp_attr *attr)
{
	bool to_state = attr->mask & HCA_ATTR_STATE;
	bool flush = to_state && attr->state == HCA_QPS_ERR;
	bool reset = to_state && attr->state == HCA_QPS_RESET;

	spin_lock(&qp->sq.lock);
	if (reset)
		hca_dci_abort(qp);
	/* What was posted before the error is not executed after it; peers need not wait for that. */
	if (to_state && READ_ONCE(qp->state) == HCA_QPS_SQE && cur == HCA_QPS_SQE && !flush && !reset)
		if (!flush_all(qp, qp->sq.mask, hca_sq_flush))
			qp->sq.ci = qp->sq.pi;
	spin_lock(&qp->rq.lock);
	/* Whoever fails the QP holds one of the locks. */
	if (qp->state != cur && !flush && !reset) {
		spin_unlock(&qp->rq.lock);
		spin_unlock(&qp->sq.lock);
		return -EINVAL;
	}
	set_attrs(qp, attr);
	if (attr->mask & HCA_ATTR_ROUTE)
		forget_route(qp);
	if (to_state)
		enter(qp, attr->state);
	spin_unlock(&qp->rq.lock);
	/* What goes on being posted is flushed as it comes. */
	if (flush && !flush_all(qp, qp->sq.mask + qp->rq.mask, hca_qp_flush))
		qp->dev->ops->kick(qp);
	spin_unlock(&qp->sq.lock);
	return 0;
}

int hca_qp_enable_mmo(struct hca_qp *qp)
{
	int ret = -EINVAL;

	spin_lock(&qp->sq.lock);
	spin_lock(&qp->rq.lock);
	if (qp->state == HCA_QPS_INIT) {
		qp->mmo = true;
		ret = 0;
	}
	spin_unlock(&qp->rq.lock);
	spin_unlock(&qp->sq.lock);
	return ret;
}

int hca_qp_reset_stream(struct hca_qp *qp, u16 stream)
{
	struct hca_sq *sq = &qp->sq;
	int ret = -EINVAL;
	u16 i;

	spin_lock(&sq->lock);
	for (i = 0; i < sq->num_failed; i++) {
		if (sq->failed[i] != stream || READ_ONCE(qp->state) != HCA_QPS_RTS)
			continue;
		sq->failed[i] = sq->failed[--sq->num_failed];
		ret = 0;
		break;
	}
	spin_unlock(&sq->lock);
	return ret;
}

int hca_qp_attach(struct hca_qp *qp, struct hca_counter *counter, u32 classes)
{
	int ret = 0;
	u32 i;

	spin_lock(&qp->sq.lock);
	spin_lock(&qp->rq.lock);
	if (qp->state != HCA_QPS_RESET && qp->state != HCA_QPS_INIT) {
		ret = -EINVAL;
		goto out;
	}
	for (i = 0; i < HCA_CLASS_COUNT; i++) {
		if (classes & 1u << i && qp->counters[i]) {
			ret = -EBUSY;
			goto out;
		}
	}
	for (i = 0; i < HCA_CLASS_COUNT; i++)
		if (classes & 1u << i)
			qp->counters[i] = counter;
out:
	spin_unlock(&qp->rq.lock);
	spin_unlock(&qp->sq.lock);
	return ret;
}
