// SPDX-License-Identifier: GPL-2.0-only
/* The responder: serves what a peer's requester sends, slice by slice. */
#include "hca.h"

static enum hca_ack refuse(struct hca_qp *qp, enum hca_class class, enum hca_ack nak, enum hca_event event)
{
	hca_stats_add(qp->dev->stats, HCA_STAT_ERR_RESPONDER, 1);
	hca_count(qp, class, HCA_SYND_REMOTE_OP, 0);
	hca_qp_fail(qp, event);
	return nak;
}

static enum hca_ack refuse_access(struct hca_qp *qp, enum hca_class class)
{
	return refuse(qp, class, HCA_NAK_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR);
}

static enum hca_ack refuse_request(struct hca_qp *qp, enum hca_class class)
{
	return refuse(qp, class, HCA_NAK_INVALID_REQUEST, HCA_EVENT_QP_REQ_ERR);
}

/* The message has used up a receive that cannot take it. */
static enum hca_ack refuse_into_receive(struct hca_qp *qp, enum hca_cqe_syndrome synd, enum hca_ack nak,
					enum hca_event event)
{
	struct hca_completion c = { .opcode = HCA_CQE_RESP_ERR, .syndrome = synd };

	hca_recv_complete(qp, &c, 0);
	return refuse(qp, HCA_CLASS_NONE, nak, event);
}

static enum hca_ack complete_receive(struct hca_qp *qp, const struct hca_request *req, u8 opcode)
{
	struct hca_completion c = {
		.opcode = opcode,
		.solicited = req->solicited,
		.imm = req->imm,
		.src_qpn = req->src_qpn,
	};

	if (!hca_recv_complete(qp, &c, req->length))
		return refuse(qp, HCA_CLASS_NONE, HCA_NAK_REMOTE_OP, HCA_EVENT_QP_FATAL);
	return HCA_ACK;
}

static enum hca_ack no_receive(struct hca_qp *qp, struct hca_request *req)
{
	req->rnr_timer = qp->rnr_timer;
	return HCA_ACK_RNR;
}

/* What a slice wants of the keys on this side; they are looked at in full when the message begins. */
static struct hca_claim claim_for(struct hca_qp *qp, const struct hca_request *req, u32 pdn, u32 access)
{
	return (struct hca_claim){
		.dev = qp->dev,
		.pdn = pdn,
		.qpn = qp->qpn,
		.access = access,
		.whole = req->first,
	};
}

static bool remote(struct hca_qp *qp, const struct hca_request *req, struct hca_sge *sge, u32 access)
{
	struct hca_claim claim = claim_for(qp, req, qp->pdn, access);

	return hca_sge_resolve_remote(&claim, sge, req->raddr, req->rkey, req->length);
}

static enum hca_ack respond_write(struct hca_qp *qp, struct hca_request *req)
{
	bool imm = req->op == HCA_OPCODE_RDMA_WRITE_IMM;
	enum hca_copied copied;
	struct hca_cursor to;
	struct hca_sge sge;

	if (!(qp->access & HCA_ACCESS_REMOTE_WRITE))
		return refuse_request(qp, HCA_CLASS_REMOTE_WRITE);
	/* No key is looked at for a message without payload (IBA C9-88). */
	if (req->length && !remote(qp, req, &sge, HCA_ACCESS_REMOTE_WRITE))
		return refuse_access(qp, HCA_CLASS_REMOTE_WRITE);
	if (imm && req->last && !qp->rq.recv.active && !hca_recv_take(qp))
		return no_receive(qp, req);
	if (req->len) {
		hca_cursor_init(&to, &sge, 1);
		to.off = req->offset;
		copied = hca_copy(&to, req->payload, req->len);
		if (unlikely(copied == HCA_COPY_NO_SRC))
			return HCA_PAYLOAD_LOST;
		if (unlikely(copied == HCA_COPY_NO_DST))
			return refuse_access(qp, HCA_CLASS_REMOTE_WRITE);
	}
	if (!req->last)
		return HCA_ACK;
	if (imm) {
		enum hca_ack ack = complete_receive(qp, req, HCA_CQE_RESP_WR_IMM);

		hca_count(qp, HCA_CLASS_REMOTE_WRITE, ack == HCA_ACK ? HCA_SYND_OK : HCA_SYND_REMOTE_OP,
			  req->length);
		return ack;
	}
	hca_count(qp, HCA_CLASS_REMOTE_WRITE, HCA_SYND_OK, req->length);
	return HCA_ACK;
}

static u8 receive_opcode(u8 op)
{
	switch (op) {
	case HCA_OPCODE_SEND_IMM:
		return HCA_CQE_RESP_SEND_IMM;
	case HCA_OPCODE_SEND_INVAL:
		return HCA_CQE_RESP_SEND_INV;
	default:
		return HCA_CQE_RESP_SEND;
	}
}

static enum hca_ack respond_send(struct hca_qp *qp, struct hca_request *req)
{
	struct hca_recv *recv = &qp->rq.recv;
	struct hca_claim claim = claim_for(qp, req, qp->srq ? qp->srq->pdn : qp->pdn, HCA_ACCESS_LOCAL_WRITE);
	enum hca_copied copied;
	struct hca_cursor to;

	if (!recv->active && !hca_recv_take(qp))
		return no_receive(qp, req);
	if (req->length > recv->capacity)
		return refuse_into_receive(qp, HCA_SYND_LOCAL_LENGTH, HCA_NAK_INVALID_REQUEST,
					   HCA_EVENT_QP_REQ_ERR);
	if (hca_sges_resolve(&claim, recv->sges, recv->num_sge))
		return refuse_into_receive(qp, HCA_SYND_LOCAL_PROT, HCA_NAK_REMOTE_OP, HCA_EVENT_QP_FATAL);
	if (req->len) {
		hca_cursor_init(&to, recv->sges, recv->num_sge);
		hca_cursor_skip(&to, req->offset);
		copied = hca_copy(&to, req->payload, req->len);
		if (unlikely(copied == HCA_COPY_NO_SRC))
			return HCA_PAYLOAD_LOST;
		if (unlikely(copied == HCA_COPY_NO_DST))
			return refuse_into_receive(qp, HCA_SYND_LOCAL_PROT, HCA_NAK_REMOTE_OP,
						   HCA_EVENT_QP_FATAL);
	}
	if (!req->last)
		return HCA_ACK;
	if (req->op == HCA_OPCODE_SEND_INVAL && !hca_mkey_invalidate(qp, be32_to_cpu(req->imm), true))
		return refuse_into_receive(qp, HCA_SYND_LOCAL_QP_OP, HCA_NAK_REMOTE_OP, HCA_EVENT_QP_FATAL);
	return complete_receive(qp, req, receive_opcode(req->op));
}

static enum hca_ack respond_read(struct hca_qp *qp, struct hca_request *req)
{
	enum hca_copied copied;
	struct hca_cursor from;
	struct hca_sge sge;

	if (!(qp->access & HCA_ACCESS_REMOTE_READ) || !qp->max_dest_rd_atomic)
		return refuse_request(qp, HCA_CLASS_REMOTE_READ);
	if (req->length && !remote(qp, req, &sge, HCA_ACCESS_REMOTE_READ))
		return refuse_access(qp, HCA_CLASS_REMOTE_READ);
	if (req->len) {
		hca_cursor_init(&from, &sge, 1);
		from.off = req->offset;
		copied = hca_copy(req->payload, &from, req->len);
		if (unlikely(copied == HCA_COPY_NO_DST))
			return HCA_PAYLOAD_LOST;
		if (unlikely(copied == HCA_COPY_NO_SRC))
			return refuse_access(qp, HCA_CLASS_REMOTE_READ);
	}
	if (req->last)
		hca_count(qp, HCA_CLASS_REMOTE_READ, HCA_SYND_OK, req->length);
	return HCA_ACK;
}

static enum hca_ack respond_atomic(struct hca_qp *qp, struct hca_request *req)
{
	struct hca_sge sge;
	u64 *word;

	if (!(qp->access & HCA_ACCESS_REMOTE_ATOMIC) || !qp->max_dest_rd_atomic || req->raddr & 7)
		return refuse_request(qp, HCA_CLASS_REMOTE_ATOMIC);
	if (!remote(qp, req, &sge, HCA_ACCESS_REMOTE_ATOMIC))
		return refuse_access(qp, HCA_CLASS_REMOTE_ATOMIC);
	word = hca_sge_word(&sge);
	if (!word)
		return refuse_request(qp, HCA_CLASS_REMOTE_ATOMIC);
	if (req->op == HCA_OPCODE_ATOMIC_CS)
		req->orig = hca_cmpxchg64(word, req->compare, req->swap_add);
	else
		req->orig = hca_fetch_add64(word, req->swap_add);
	hca_count(qp, HCA_CLASS_REMOTE_ATOMIC, HCA_SYND_OK, sizeof(*word));
	return HCA_ACK;
}

static bool can_receive(u8 state)
{
	return state == HCA_QPS_RTR || state == HCA_QPS_RTS || state == HCA_QPS_SQD || state == HCA_QPS_SQE;
}

/* Whether the slice is what this connection waits for; anything else is dropped, as on a wire. */
static bool expected(struct hca_qp *qp, const struct hca_request *req)
{
	struct hca_rq *rq = &qp->rq;

	if (!can_receive(READ_ONCE(qp->state)) || qp->type != HCA_QP_RC)
		return false;
	if (qp->dest_qpn != req->src_qpn || hca_qp_peer_dev(qp) != req->src_dev)
		return false;
	if (req->psn != rq->psn)
		return false;
	/* A requester that starts over has been reset; the rest of its last message never comes. */
	return req->first || req->offset == rq->offset;
}

enum hca_ack hca_respond(struct hca_qp *qp, struct hca_request *req)
{
	struct hca_rq *rq = &qp->rq;
	enum hca_ack ack;

	spin_lock(&rq->lock);
	if (unlikely(!expected(qp, req))) {
		spin_unlock(&rq->lock);
		return HCA_NO_RESPONSE;
	}
	if (unlikely(!rq->established)) {
		rq->established = true;
		if (READ_ONCE(qp->state) == HCA_QPS_RTR)
			qp->dev->ops->qp_event(qp, HCA_EVENT_COMM_EST);
	}
	switch (req->op) {
	case HCA_OPCODE_RDMA_WRITE:
	case HCA_OPCODE_RDMA_WRITE_IMM:
		ack = respond_write(qp, req);
		break;
	case HCA_OPCODE_RDMA_READ:
		ack = respond_read(qp, req);
		break;
	case HCA_OPCODE_ATOMIC_CS:
	case HCA_OPCODE_ATOMIC_FA:
		ack = respond_atomic(qp, req);
		break;
	default:
		ack = respond_send(qp, req);
		break;
	}
	if (likely(ack == HCA_ACK)) {
		if (req->last) {
			rq->psn = (rq->psn + req->packets) & 0xffffff;
			rq->offset = 0;
		} else {
			rq->offset = req->offset + req->len;
		}
	}
	spin_unlock(&rq->lock);
	return ack;
}
