// SPDX-License-Identifier: GPL-2.0-only
/* The error state: what is queued completes with a flush error, in order. */
#include "hca.h"

#define FLUSH_POLL_NS	    1000000ull	/* first look for receives posted after the error */
#define FLUSH_POLL_DOUBLINGS 10u	/* then half as often each time, down to about once a second */

bool hca_sq_flush(struct hca_qp *qp)
{
	struct hca_sq *sq = &qp->sq;
	struct hca_completion c = {
		.opcode = HCA_CQE_REQ_ERR,
		.syndrome = HCA_SYND_WR_FLUSH,
		.qpn = qp->qpn,
		.user_index = qp->user_index,
	};
	u32 ring = sq->mask + 1, left = HCA_FLUSH_BATCH;

	if (!sq->buf)
		return false;
	sq->active = false;
	sq->waiting = false;
	sq->pi = (u16)be32_to_cpu(READ_ONCE(sq->dbrec[HCA_DBREC_SQ]));
	/* The count before the WQEs; pairs with the poster's barrier before the doorbell record. */
	smp_rmb();
	/* A doorbell record that claims more than the ring holds is believed for one ring's length. */
	if ((u16)(sq->pi - sq->ci) > ring)
		sq->ci = sq->pi - ring;
	while (sq->ci != sq->pi) {
		enum hca_class class;
		u8 op, bbs = hca_wqe_peek(sq, &op, &class);

		if (!left--)
			return true;
		c.send_op = op;
		c.wqe_counter = sq->ci;
		sq->ci += bbs;
		hca_cq_write(qp->send_cq, &c);
		hca_count(qp, class, HCA_SYND_WR_FLUSH, 0);
		hca_stats_add(qp->dev->stats, HCA_STAT_ERR_FLUSH, 1);
	}
	sq->ci = sq->pi;
	return false;
}

bool hca_recv_abandon(struct hca_qp *qp)
{
	struct hca_completion c = { .opcode = HCA_CQE_RESP_ERR, .syndrome = HCA_SYND_WR_FLUSH };
	struct hca_recv *recv = &qp->rq.recv;
	struct hca_srq *srq = NULL;

	if (qp->type == HCA_QP_XRC_TGT) {
		srq = qp->dev->ops->xrc_srq(qp->dev, recv->srqn, qp->xrcdn);
		/* With its SRQ the receive has gone, even if there is another one with the number. */
		if (!srq || srq->serial != recv->srq_serial) {
			recv->active = false;
			return false;
		}
	}
	hca_recv_complete(qp, srq, recv, &c, 0);
	return true;
}

/* Returns how many receives were flushed. */
static u32 flush_rq(struct hca_qp *qp)
{
	struct hca_rq *rq = &qp->rq;
	struct hca_completion c = { .opcode = HCA_CQE_RESP_ERR, .syndrome = HCA_SYND_WR_FLUSH };
	u32 flushed;

	rq->offset = 0;
	rcu_read_lock();
	flushed = rq->recv.active && hca_recv_abandon(qp);
	rcu_read_unlock();
	while (flushed < HCA_FLUSH_BATCH && hca_recv_take_flushed(qp, &rq->recv.index)) {
		hca_recv_complete(qp, NULL, &rq->recv, &c, 0);
		flushed++;
	}
	hca_stats_add(qp->dev->stats, HCA_STAT_ERR_FLUSH, flushed);
	return flushed;
}

bool hca_qp_flush(struct hca_qp *qp)
{
	struct hca_rq *rq = &qp->rq;
	u32 flushed;

	hca_dci_abort(qp);
	if (hca_sq_flush(qp))
		return true;
	spin_lock(&rq->lock);
	flushed = flush_rq(qp);
	if (flushed)
		rq->polls = 0;
	if (flushed >= HCA_FLUSH_BATCH) {
		spin_unlock(&rq->lock);
		return true;
	}
	if (qp->srq && !rq->last_wqe_done) {
		rq->last_wqe_done = true;
		qp->dev->ops->qp_event(qp, HCA_EVENT_QP_LAST_WQE);
	}
	/* Receives ring no doorbell: the ones posted from now on are looked for. */
	if (rq->buf) {
		qp->dev->ops->timer(qp, FLUSH_POLL_NS << rq->polls);
		if (rq->polls < FLUSH_POLL_DOUBLINGS)
			rq->polls++;
	}
	spin_unlock(&rq->lock);
	return false;
}
