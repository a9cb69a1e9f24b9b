// SPDX-License-Identifier: GPL-2.0-only
/* Receive queues, own and shared: taking the next receive. */
#include "hca.h"

static u64 last_serial;

void hca_srq_init(struct hca_srq *srq, struct hca_dev *dev, u32 pdn, void *buf, u32 entries, u8 wqe_shift,
		  enum hca_srq_form form, __be32 *dbrec)
{
	spin_lock_init(&srq->lock);
	srq->dev = dev;
	srq->serial = hca_fetch_add64(&last_serial, 1) + 1;
	srq->pdn = pdn;
	srq->buf = buf;
	srq->mask = entries - 1;
	srq->wqe_shift = wqe_shift;
	srq->form = form;
	srq->dbrec = dbrec;
}

static u16 srq_posted(struct hca_srq *srq)
{
	return (u16)be32_to_cpu(READ_ONCE(*srq->dbrec)) - srq->taken;
}

static void check_limit(struct hca_srq *srq, u16 left)
{
	if (left < srq->limit) {
		srq->limit = 0;
		srq->dev->ops->srq_limit(srq);
	}
}

void hca_srq_set_limit(struct hca_srq *srq, u32 limit)
{
	spin_lock(&srq->lock);
	srq->limit = limit;
	check_limit(srq, srq_posted(srq));
	spin_unlock(&srq->lock);
}

u32 hca_srq_limit(struct hca_srq *srq)
{
	u32 limit;

	spin_lock(&srq->lock);
	limit = srq->limit;
	spin_unlock(&srq->lock);
	return limit;
}

/* The scatter list of a receive WQE, from shared memory: each entry is read once. */
static void read_scatter(struct hca_recv *recv, const u8 *wqe, const u8 *end)
{
	recv->num_sge = 0;
	recv->capacity = 0;
	for (; wqe + sizeof(struct hca_wqe_data) <= end; wqe += sizeof(struct hca_wqe_data)) {
		struct hca_sge *sge = &recv->sges[recv->num_sge];
		struct hca_wqe_data d;

		/* volatile words: what is decoded is what was read */
		d.byte_count = READ_ONCE(((const struct hca_wqe_data *)wqe)->byte_count);
		d.lkey = READ_ONCE(((const struct hca_wqe_data *)wqe)->lkey);
		d.addr = READ_ONCE(((const struct hca_wqe_data *)wqe)->addr);
		if (!d.byte_count) {
			if (d.lkey == cpu_to_be32(HCA_INVALID_LKEY))
				break;
			continue;
		}
		sge->addr = be64_to_cpu(d.addr);
		sge->len = be32_to_cpu(d.byte_count);
		sge->key = be32_to_cpu(d.lkey);
		sge->data = NULL;
		sge->mkey = NULL;
		recv->capacity += sge->len;
		recv->num_sge++;
	}
}

/* The index of the WQE behind this one. */
static u16 next_of(const struct hca_srq *srq, const u8 *wqe)
{
	if (srq->form != HCA_SRQ_LINKED)
		return srq->head + 1;
	return be16_to_cpu(READ_ONCE(((const struct hca_wqe_srq_next *)wqe)->next_wqe_index)) & srq->mask;
}

static bool srq_take(struct hca_srq *srq, struct hca_recv *recv)
{
	u8 *wqe;
	u16 posted;

	spin_lock(&srq->lock);
	posted = srq_posted(srq);
	if (!posted) {
		spin_unlock(&srq->lock);
		return false;
	}
	/* The count before the WQEs; pairs with the poster's barrier before he raises the doorbell record. */
	smp_rmb();
	recv->index = srq->head;
	wqe = srq->buf + ((size_t)(srq->head & srq->mask) << srq->wqe_shift);
	srq->head = next_of(srq, wqe);
	srq->taken++;
	read_scatter(recv, wqe + (srq->form == HCA_SRQ_BARE ? 0 : sizeof(struct hca_wqe_srq_next)),
		     wqe + (1u << srq->wqe_shift));
	check_limit(srq, posted - 1);
	spin_unlock(&srq->lock);
	return true;
}

/* Whether a receive is posted to the QP's own queue. */
static bool rq_posted(struct hca_rq *rq)
{
	if (!rq->buf)
		return false;
	if (rq->ci == rq->pi) {
		rq->pi = (u16)be32_to_cpu(READ_ONCE(rq->dbrec[HCA_DBREC_RQ]));
		/* The count before the WQEs; pairs with the poster's barrier before the doorbell record. */
		smp_rmb();
	}
	return rq->ci != rq->pi;
}

bool hca_recv_take(struct hca_qp *qp, struct hca_srq *srq, struct hca_recv *recv)
{
	struct hca_rq *rq = &qp->rq;
	const u8 *wqe;

	if (srq) {
		recv->active = srq_take(srq, recv);
		return recv->active;
	}
	if (!rq_posted(rq))
		return false;
	wqe = rq->buf + ((size_t)(rq->ci & rq->mask) << rq->wqe_shift);
	recv->index = rq->ci++;
	read_scatter(recv, wqe, wqe + (1u << rq->wqe_shift));
	recv->active = true;
	return true;
}

bool hca_recv_take_flushed(struct hca_qp *qp, u16 *index)
{
	struct hca_rq *rq = &qp->rq;

	if (!rq_posted(rq))
		return false;
	/* A doorbell record that claims more than the ring holds is believed for one ring's length. */
	if ((u16)(rq->pi - rq->ci) > rq->mask + 1)
		rq->ci = rq->pi - (rq->mask + 1);
	*index = rq->ci++;
	return true;
}

bool hca_recv_complete(struct hca_qp *qp, struct hca_srq *srq, struct hca_recv *recv, struct hca_completion *c,
		       u64 bytes)
{
	bool xrc = srq && srq->cq, ok;

	c->qpn = qp->qpn;
	c->user_index = xrc ? srq->user_index : qp->user_index;
	c->wqe_counter = recv->index;
	recv->active = false;
	ok = hca_cq_write(xrc ? srq->cq : qp->recv_cq, c);
	/* Without its CQE it has not succeeded: the QP fails. */
	hca_count(qp, HCA_CLASS_RECV, ok ? c->syndrome : HCA_SYND_LOCAL_QP_OP, bytes);
	return ok;
}
