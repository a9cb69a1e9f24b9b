// SPDX-License-Identifier: GPL-2.0-only
/* The responder: serves what a peer's requester sends, slice by slice. */
#include "counter.h"
#include "mkey.h"
#include "route.h"

/*
 * Where a request is wrong, a connection ends.  A DCT goes on with others; on UC the request is dropped.  Who finds
 * that out finds what came before it counted.
 */
static enum hca_ack refuse(struct hca_qp *qp, const struct hca_request *req, enum hca_class class, enum hca_ack nak,
			   enum hca_event event)
{
	hca_settle(req->owed);
	hca_stats_add(qp->dev->stats, HCA_STAT_ERR_RESPONDER, 1);
	hca_count(qp, class, HCA_SYND_REMOTE_OP, 0);
	if (qp->type == HCA_QP_RC || qp->type == HCA_QP_XRC_TGT)
		hca_qp_fail(qp, event);
	return nak;
}

static enum hca_ack refuse_access(struct hca_qp *qp, const struct hca_request *req, enum hca_class class)
{
	return refuse(qp, req, class, HCA_NAK_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR);
}

static enum hca_ack refuse_request(struct hca_qp *qp, const struct hca_request *req, enum hca_class class)
{
	return refuse(qp, req, class, HCA_NAK_INVALID_REQUEST, HCA_EVENT_QP_REQ_ERR);
}

/* Where a message arrives: the receive, the SRQ that it is of or NULL, its protection domain. */
struct place {
	struct hca_recv *recv;
	struct hca_srq *srq;
	u32 pdn;
};

/* The message has used up a receive that cannot take it. */
static enum hca_ack refuse_into_receive(struct hca_qp *qp, const struct place *at, const struct hca_request *req,
					enum hca_cqe_syndrome synd, enum hca_ack nak, enum hca_event event)
{
	struct hca_completion c = { .opcode = HCA_CQE_RESP_ERR, .syndrome = synd };
	enum hca_ack ack;

	hca_recv_complete(qp, at->srq, at->recv, &c, 0);
	ack = refuse(qp, req, HCA_CLASS_NONE, nak, event);
	/* Its own queue is at fault. */
	if (qp->type == HCA_QP_UC || qp->type == HCA_QP_UD)
		hca_qp_fail(qp, event);
	return ack;
}

/* What a datagram's completion says of the header in front of it; an IPv4 header is at the GRH's end. */
static u32 header_flags(const u8 *grh)
{
	return HCA_CQE_GRH | HCA_CQE_UDP | (grh[0] >> 4 == 6 ? HCA_CQE_IPV6 : HCA_CQE_IPV4);
}

static enum hca_ack complete_receive(struct hca_qp *qp, const struct place *at, const struct hca_request *req,
				     u8 opcode)
{
	u32 front = qp->type == HCA_QP_UD ? HCA_GRH_BYTES : 0;
	struct hca_completion c = {
		.opcode = opcode,
		.solicited = req->solicited,
		.byte_cnt = req->length + front,
		.imm = req->imm,
		.src_qpn = req->src_qpn | (front ? header_flags(req->grh) : 0),
	};

	if (hca_recv_complete(qp, at->srq, at->recv, &c, req->length))
		return HCA_ACK;
	if (qp->type == HCA_QP_UC || qp->type == HCA_QP_UD)
		hca_qp_fail(qp, HCA_EVENT_QP_FATAL);
	return refuse(qp, req, HCA_CLASS_NONE, HCA_NAK_REMOTE_OP, HCA_EVENT_QP_FATAL);
}

static enum hca_ack no_receive(struct hca_qp *qp, struct hca_request *req)
{
	req->rnr_timer = qp->rnr_timer;
	return HCA_ACK_RNR;
}

/* The domain of the keys that a request names: of the SRQ on XRC, else of the QP, whatever SRQ it has. */
static u32 remote_pdn(const struct hca_qp *qp, const struct place *at)
{
	return qp->type == HCA_QP_XRC_TGT ? at->pdn : qp->pdn;
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
		.pinned = !req->first,
		.tree_left = req->tree_left,
	};
}

static bool remote(struct hca_qp *qp, const struct place *at, struct hca_request *req, struct hca_sge *sge,
		   u32 access)
{
	struct hca_claim claim = claim_for(qp, req, remote_pdn(qp, at), access);
	bool ok;

	sge->addr = req->raddr;
	sge->len = req->length;
	sge->key = req->rkey;
	sge->data = NULL;
	sge->seq = req->rkey_seq;
	ok = hca_sge_resolve(&claim, sge);
	req->rkey_seq = sge->seq;
	req->tree_left = claim.tree_left;
	return ok;
}

/* Whether there is a receive for the message. */
static bool has_receive(struct hca_qp *qp, const struct place *at)
{
	if (at->recv->active)
		return true;
	if (!hca_recv_take(qp, at->srq, at->recv))
		return false;
	at->recv->taker = qp->serial;
	at->recv->taker_dev = qp->dev;
	return true;
}

static enum hca_ack respond_write(struct hca_qp *qp, const struct place *at, struct hca_request *req)
{
	bool imm = req->op == HCA_OPCODE_RDMA_WRITE_IMM;
	enum hca_copied copied;
	struct hca_cursor to __uninitialized;
	struct hca_sge sge __uninitialized;

	if (!(qp->access & HCA_ACCESS_REMOTE_WRITE))
		return refuse_request(qp, req, HCA_CLASS_REMOTE_WRITE);
	/* No key is looked at for a message without payload (IBA C9-88). */
	if (req->length && !remote(qp, at, req, &sge, HCA_ACCESS_REMOTE_WRITE))
		return refuse_access(qp, req, HCA_CLASS_REMOTE_WRITE);
	if (imm && req->last && !has_receive(qp, at))
		return no_receive(qp, req);
	if (req->len) {
		hca_cursor_init(&to, &sge, 1);
		to.off = req->offset;
		copied = hca_copy(&to, req->payload, req->len);
		if (unlikely(copied == HCA_COPY_NO_SRC))
			return HCA_PAYLOAD_LOST;
		if (unlikely(copied == HCA_COPY_NO_DST))
			return refuse_access(qp, req, HCA_CLASS_REMOTE_WRITE);
	}
	if (!req->last)
		return HCA_ACK;
	if (imm) {
		enum hca_ack ack;

		/* Who sees it finds the writes before it counted. */
		hca_settle(req->owed);
		ack = complete_receive(qp, at, req, HCA_CQE_RESP_WR_IMM);
		hca_count(qp, HCA_CLASS_REMOTE_WRITE, ack == HCA_ACK ? HCA_SYND_OK : HCA_SYND_REMOTE_OP,
			  req->length);
		return ack;
	}
	hca_count_later(req->owed, qp, HCA_CLASS_REMOTE_WRITE, req->length);
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

/* A datagram's receive begins with a GRH. */
static enum hca_copied put_grh(struct hca_cursor *to, const u8 *grh)
{
	struct hca_sge sge = { .data = grh, .len = HCA_GRH_BYTES };
	struct hca_cursor from __uninitialized;

	hca_cursor_init(&from, &sge, 1);
	return hca_copy(to, &from, HCA_GRH_BYTES);
}

static enum hca_ack respond_send(struct hca_qp *qp, const struct place *at, struct hca_request *req)
{
	u32 front = qp->type == HCA_QP_UD ? HCA_GRH_BYTES : 0;
	struct hca_recv *recv = at->recv;
	struct hca_claim claim = claim_for(qp, req, at->pdn, HCA_ACCESS_LOCAL_WRITE);
	enum hca_copied copied = HCA_COPIED;
	struct hca_cursor to __uninitialized;
	u32 looks = req->tree_left;
	enum hca_cqe_syndrome synd;

	if (!has_receive(qp, at))
		return no_receive(qp, req);
	if ((u64)req->length + front > recv->capacity)
		return refuse_into_receive(qp, at, req, HCA_SYND_LOCAL_LENGTH, HCA_NAK_INVALID_REQUEST,
					   HCA_EVENT_QP_REQ_ERR);
	synd = hca_sges_resolve_some(&claim, recv->sges, (u64)req->length + front);
	req->tree_left = claim.tree_left;
	/* A datagram to many, whose other receivers have used up the looks that it has: it is lost on the way to this one. */
	if (unlikely(synd && !claim.tree_left && looks != HCA_KEY_TREE))
		return HCA_NO_RESPONSE;
	if (synd)
		return refuse_into_receive(qp, at, req, HCA_SYND_LOCAL_PROT, HCA_NAK_REMOTE_OP, HCA_EVENT_QP_FATAL);
	if (req->len || front) {
		hca_cursor_init(&to, recv->sges, recv->num_sge);
		hca_cursor_skip(&to, req->offset);
		if (front)
			copied = put_grh(&to, req->grh);
		if (copied == HCA_COPIED)
			copied = hca_copy(&to, req->payload, req->len);
		if (unlikely(copied == HCA_COPY_NO_SRC))
			return HCA_PAYLOAD_LOST;
		if (unlikely(copied == HCA_COPY_NO_DST))
			return refuse_into_receive(qp, at, req, HCA_SYND_LOCAL_PROT, HCA_NAK_REMOTE_OP,
						   HCA_EVENT_QP_FATAL);
	}
	if (!req->last)
		return HCA_ACK;
	if (req->op == HCA_OPCODE_SEND_INVAL && !hca_mkey_invalidate(qp, remote_pdn(qp, at), be32_to_cpu(req->imm), true))
		return refuse_into_receive(qp, at, req, HCA_SYND_LOCAL_QP_OP, HCA_NAK_REMOTE_OP, HCA_EVENT_QP_FATAL);
	return complete_receive(qp, at, req, receive_opcode(req->op));
}

static enum hca_ack respond_read(struct hca_qp *qp, const struct place *at, struct hca_request *req)
{
	enum hca_copied copied;
	struct hca_cursor from __uninitialized;
	struct hca_sge sge __uninitialized;

	if (!(qp->access & HCA_ACCESS_REMOTE_READ) || !qp->max_dest_rd_atomic)
		return refuse_request(qp, req, HCA_CLASS_REMOTE_READ);
	if (req->length && !remote(qp, at, req, &sge, HCA_ACCESS_REMOTE_READ))
		return refuse_access(qp, req, HCA_CLASS_REMOTE_READ);
	if (req->len) {
		hca_cursor_init(&from, &sge, 1);
		from.off = req->offset;
		copied = hca_copy(req->payload, &from, req->len);
		if (unlikely(copied == HCA_COPY_NO_DST))
			return HCA_PAYLOAD_LOST;
		if (unlikely(copied == HCA_COPY_NO_SRC))
			return refuse_access(qp, req, HCA_CLASS_REMOTE_READ);
	}
	if (req->last)
		hca_count_later(req->owed, qp, HCA_CLASS_REMOTE_READ, req->length);
	return HCA_ACK;
}

static enum hca_ack respond_atomic(struct hca_qp *qp, const struct place *at, struct hca_request *req)
{
	struct hca_sge sge __uninitialized;
	u64 *word;

	if (!(qp->access & HCA_ACCESS_REMOTE_ATOMIC) || !qp->max_dest_rd_atomic || req->raddr & 7)
		return refuse_request(qp, req, HCA_CLASS_REMOTE_ATOMIC);
	if (!remote(qp, at, req, &sge, HCA_ACCESS_REMOTE_ATOMIC))
		return refuse_access(qp, req, HCA_CLASS_REMOTE_ATOMIC);
	word = hca_sge_word(&sge);
	if (!word)
		return refuse_request(qp, req, HCA_CLASS_REMOTE_ATOMIC);
	if (req->op == HCA_OPCODE_ATOMIC_CS)
		req->orig = hca_cmpxchg64(word, req->compare, req->swap_add);
	else
		req->orig = hca_fetch_add64(word, req->swap_add);
	hca_count_later(req->owed, qp, HCA_CLASS_REMOTE_ATOMIC, sizeof(*word));
	return HCA_ACK;
}

static bool can_receive(u8 state)
{
	return 1u << state & (1u << HCA_QPS_RTR | 1u << HCA_QPS_RTS | 1u << HCA_QPS_SQD | 1u << HCA_QPS_SQE);
}

/* Whom a requester of each type talks to. */
static const u8 responder_of[HCA_QP_TYPES] = {
	[HCA_QP_RC]	 = HCA_QP_RC,
	[HCA_QP_UC]	 = HCA_QP_UC,
	[HCA_QP_UD]	 = HCA_QP_UD,
	[HCA_QP_XRC_INI] = HCA_QP_XRC_TGT,
	[HCA_QP_DCI]	 = HCA_QP_DCT,
	/* These send nothing; nobody is an initiator's responder. */
	[HCA_QP_XRC_TGT] = HCA_QP_XRC_INI,
	[HCA_QP_DCT]	 = HCA_QP_DCI,
};

/* Anything else is dropped, as on a wire. */
bool hca_expected(struct hca_qp *qp, const struct hca_request *req)
{
	struct hca_rq *rq = &qp->rq;

	if (!can_receive(READ_ONCE(qp->state)) || qp->type != responder_of[req->transport])
		return false;
	if (qp->type == HCA_QP_DCT)
		return true;
	if (qp->type == HCA_QP_UD)
		return req->key == qp->key;
	if (qp->dest_qpn != req->src_qpn || hca_qp_peer_dev(qp) != req->src_dev)
		return false;
	if (req->psn != rq->psn && qp->type != HCA_QP_UC)
		return false;
	/* A requester that starts over has been reset; the rest of its last message never comes. */
	return req->first || req->offset == rq->offset;
}

/* Of an XRC target: the SRQ that the message names; false: it is not there, or not there any more. */
static bool find_srq(struct hca_qp *qp, const struct hca_request *req, struct place *at)
{
	struct hca_recv *recv = at->recv;

	at->srq = qp->dev->ops->xrc_srq(qp->dev, req->srqn, qp->xrcdn);
	if (at->srq && recv->srq_serial == at->srq->serial)
		return true;
	/* The rest of a message to another one never comes; the receive that it has taken is that one's. */
	if (recv->active) {
		hca_settle(req->owed);
		if (hca_recv_abandon(qp))
			hca_stats_add(qp->dev->stats, HCA_STAT_ERR_FLUSH, 1);
	}
	if (!at->srq || !req->first)
		return false;
	recv->srqn = req->srqn;
	recv->srq_serial = at->srq->serial;
	return true;
}

/* Finds out where the message arrives; false: nowhere. */
static bool find_place(struct hca_qp *qp, const struct hca_request *req, struct place *at)
{
	at->recv = &qp->rq.recv;
	at->srq = qp->srq;
	if (qp->type == HCA_QP_DCT) {
		at->recv = req->recv;
		/* The message began at another one that had the number. */
		if (at->recv->active && at->recv->taker != qp->serial)
			return false;
	}
	if (qp->type == HCA_QP_XRC_TGT && !find_srq(qp, req, at))
		return false;
	at->pdn = at->srq ? at->srq->pdn : qp->pdn;
	return true;
}

static enum hca_ack respond(struct hca_qp *qp, struct hca_request *req)
{
	struct place at __uninitialized;

	if (qp->type == HCA_QP_DCT && req->key != qp->key)
		return refuse_access(qp, req, HCA_CLASS_NONE);
	if (unlikely(!find_place(qp, req, &at)))
		return refuse_request(qp, req, HCA_CLASS_NONE);
	switch (req->op) {
	case HCA_OPCODE_RDMA_WRITE:
	case HCA_OPCODE_RDMA_WRITE_IMM:
		return respond_write(qp, &at, req);
	case HCA_OPCODE_RDMA_READ:
		return respond_read(qp, &at, req);
	case HCA_OPCODE_ATOMIC_CS:
	case HCA_OPCODE_ATOMIC_FA:
		return respond_atomic(qp, &at, req);
	default:
		/* Who sees the completion finds what came before it counted. */
		hca_settle(req->owed);
		return respond_send(qp, &at, req);
	}
}

enum hca_ack hca_respond(struct hca_qp *qp, struct hca_request *req)
{
	struct hca_rq *rq = &qp->rq;
	enum hca_ack ack;

	spin_lock(&rq->lock);
	if (unlikely(!hca_expected(qp, req))) {
		spin_unlock(&rq->lock);
		return HCA_NO_RESPONSE;
	}
	if (unlikely(!rq->established)) {
		rq->established = true;
		if (READ_ONCE(qp->state) == HCA_QPS_RTR && (qp->type == HCA_QP_RC || qp->type == HCA_QP_UC))
			qp->dev->ops->qp_event(qp, HCA_EVENT_COMM_EST);
	}
	ack = respond(qp, req);
	if (likely(ack == HCA_ACK)) {
		if (req->last) {
			rq->psn = (req->psn + req->packets) & 0xffffff;
			rq->offset = 0;
		} else {
			rq->offset = req->offset + req->len;
		}
	} else if (qp->type == HCA_QP_UC) {
		/* What follows of the message is not expected any more. */
		rq->offset = 0;
	}
	spin_unlock(&rq->lock);
	return ack;
}
