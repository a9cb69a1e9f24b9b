// SPDX-License-Identifier: GPL-2.0-only
/*
 * The express way: plain requests of a connection, many under one look at the peer.
 *
 * A request goes this way if it is known to succeed before anybody can notice: a WRITE, READ or SEND of one piece of
 * memory at each end, which a direct key has side by side.  Anything else, and anything that is wrong, is left where
 * it is for the requester (requester.c), who reads the WQE for himself.
 */
#include "mkey.h"
#include "move.h"
#include "route.h"
#include "sq.h"

/* A plain request: where its WQE has the other end's address, what else is needed of it, and the memory at this end. */
struct plain {
	const struct hca_wqe_raddr *raddr;
	u8 op;
	u8 flags;
	u32 len;
	u8 *near;
};

/*
 * Reads the WQE at the queue's head; false: it is not plain, or longer than @room.  What is left in the ring, the
 * other end's address and inline data, is read by whom it is for; all once.
 */
static __always_inline bool parse(struct hca_qp *qp, u32 room, struct plain *p)
{
	const struct hca_wqe_ctrl *ctrl = (const void *)hca_sq_slot(&qp->sq, qp->sq.ci);
	const struct hca_wqe_data *data = (const void *)(ctrl + 1);
	u32 local = 0;

	p->raddr = (const void *)(ctrl + 1);
	p->op = be32_to_cpu(READ_ONCE(ctrl->opmod_idx_opcode));
	switch (p->op) {
	case HCA_OPCODE_RDMA_READ:
		local = HCA_ACCESS_LOCAL_WRITE;
		fallthrough;
	case HCA_OPCODE_RDMA_WRITE:
		data = (const void *)(p->raddr + 1);
		break;
	case HCA_OPCODE_SEND:
		break;
	default:
		return false;
	}
	if (be32_to_cpu(READ_ONCE(ctrl->qpn_ds)) != (qp->qpn << 8 | (data + 1 - (const struct hca_wqe_data *)ctrl)))
		return false;
	p->flags = READ_ONCE(ctrl->fm_ce_se);
	p->len = be32_to_cpu(READ_ONCE(data->byte_count));
	if (p->len & HCA_INLINE_SEG && !local) {
		p->len &= HCA_INLINE_LEN;
		p->near = (u8 *)data + sizeof(data->byte_count);
		room = min_t(u32, room, sizeof(*data) - sizeof(data->byte_count));
		return p->len - 1 < room;
	}
	if (unlikely(p->len - 1 >= room))
		return false;
	p->near = hca_mkey_direct(qp->dev, qp->pdn, be32_to_cpu(READ_ONCE(data->lkey)),
				  be64_to_cpu(READ_ONCE(data->addr)), p->len, p->len, local);
	return likely(p->near);
}

/* Whether a plain WQE is next.  The state each time: who fails the QP holds one of its locks, perhaps the other one. */
static __always_inline bool next(struct hca_qp *qp, u32 room, struct plain *p)
{
	return READ_ONCE(qp->state) == HCA_QPS_RTS && hca_sq_posted(&qp->sq) && parse(qp, room, p);
}

/* Whether the peer waits for a new message of the QP, and for no event that belongs to it; under its lock. */
static bool is_expected(struct hca_qp *qp, struct hca_qp *peer)
{
	struct hca_request *req = &qp->sq.req;

	req->first = true;
	req->psn = qp->sq.psn;
	return hca_expected(peer, req) && !peer->rq.offset && peer->rq.established;
}

/* Memory that the peer lets others read or write. */
static __always_inline u8 *far_end(struct hca_qp *peer, const struct plain *p, u8 access)
{
	if (unlikely(!(peer->access & access)))
		return NULL;
	return hca_mkey_direct(peer->dev, peer->pdn, be32_to_cpu(READ_ONCE(p->raddr->rkey)),
			       be64_to_cpu(READ_ONCE(p->raddr->raddr)), p->len, p->len, access);
}

static __always_inline bool write(struct hca_qp *peer, const struct plain *p, struct hca_owed *owed)
{
	u8 *far = far_end(peer, p, HCA_ACCESS_REMOTE_WRITE);

	if (unlikely(!far))
		return false;
	hca_move_message(far, p->near, p->len);
	hca_count_later(owed, peer, HCA_CLASS_REMOTE_WRITE, p->len);
	return true;
}

static __always_inline bool read(struct hca_qp *peer, const struct plain *p, struct hca_owed *owed)
{
	u8 *far = far_end(peer, p, HCA_ACCESS_REMOTE_READ);

	if (unlikely(!far || !peer->max_dest_rd_atomic))
		return false;
	hca_move_message(p->near, far, p->len);
	hca_count_later(owed, peer, HCA_CLASS_REMOTE_READ, p->len);
	return true;
}

/* A receive that is taken and not used remains the next one; so does one whose CQE does not get into the CQ. */
static __always_inline bool send(struct hca_qp *peer, const struct plain *p, struct hca_owed *owed, u32 src_qpn)
{
	struct hca_recv *recv = &peer->rq.recv;
	const struct hca_sge *sge = &recv->sges[0];
	struct hca_srq *srq = peer->srq;
	u8 *far;

	if (unlikely(!recv->active && !hca_recv_take(peer, srq, recv)))
		return false;
	if (unlikely(recv->num_sge != 1 || p->len > sge->len))
		return false;
	far = hca_mkey_direct(peer->dev, srq ? srq->pdn : peer->pdn, sge->key, sge->addr, p->len, sge->len,
			      HCA_ACCESS_LOCAL_WRITE);
	if (unlikely(!far))
		return false;
	hca_move_message(far, p->near, p->len);
	/* Who sees the completion finds what came before it counted. */
	hca_settle(owed);
	if (unlikely(!hca_cq_write(peer->recv_cq, &(struct hca_completion){
			.opcode = HCA_CQE_RESP_SEND,
			.solicited = p->flags & HCA_WQE_SOLICITED,
			.qpn = peer->qpn,
			.user_index = peer->user_index,
			.byte_cnt = p->len,
			.src_qpn = src_qpn,
			.wqe_counter = recv->index,
		})))
		return false;
	recv->active = false;
	hca_count(peer, HCA_CLASS_RECV, HCA_SYND_OK, p->len);
	return true;
}

/* False: nobody has noticed anything, the requester is to do it. */
static __always_inline bool execute(struct hca_qp *qp, struct hca_qp *peer, const struct plain *p)
{
	struct hca_sq *sq = &qp->sq;
	enum hca_class class;
	bool ok;

	switch (p->op) {
	case HCA_OPCODE_RDMA_WRITE:
		ok = write(peer, p, &sq->peer_owed);
		class = HCA_CLASS_WRITE;
		break;
	case HCA_OPCODE_RDMA_READ:
		ok = read(peer, p, &sq->peer_owed);
		class = HCA_CLASS_READ;
		break;
	default:
		ok = send(peer, p, &sq->peer_owed, qp->qpn);
		class = HCA_CLASS_SEND;
		break;
	}
	if (unlikely(!ok))
		return false;
	sq->psn = (sq->psn + hca_packets(qp, p->len)) & 0xffffff;
	peer->rq.psn = sq->psn;
	hca_sq_done(qp, p->op, class, sq->ci++, p->len, p->flags & HCA_WQE_CQ_UPDATE);
	return true;
}

u32 hca_express(struct hca_qp *qp, u32 most, u32 *room)
{
	struct plain p __uninitialized;
	struct hca_sq *sq = &qp->sq;
	u32 bytes = 0, done = 0;
	struct hca_qp *peer;
	bool more;

	if (sq->active || sq->waiting || !next(qp, *room, &p))
		return 0;
	peer = hca_qp_peer(qp);
	if (unlikely(!peer))
		return 0;
	spin_lock(&peer->rq.lock);
	more = is_expected(qp, peer);
	while (likely(more) && execute(qp, peer, &p)) {
		bytes += p.len;
		done++;
		more = done < most && next(qp, *room - bytes, &p);
	}
	spin_unlock(&peer->rq.lock);
	*room -= bytes;
	hca_stats_add(qp->dev->stats, HCA_STAT_WQES, done);
	hca_stats_add(qp->dev->stats, HCA_STAT_BYTES, bytes);
	return done;
}
