/* SPDX-License-Identifier: GPL-2.0-only */
/* The ends of a send queue's work, whichever way it goes: what is posted, and what happens when it is done. */
#ifndef HCA_SQ_H
#define HCA_SQ_H

#include "counter.h"

/* Whether there is a WQE at @sq->ci; under sq.lock. */
static inline bool hca_sq_posted(struct hca_sq *sq)
{
	if (likely(sq->ci != sq->pi))
		return true;
	if (unlikely(!sq->buf))
		return false;
	sq->pi = (u16)be32_to_cpu(READ_ONCE(sq->dbrec[HCA_DBREC_SQ]));
	/* The count before the WQEs; pairs with the poster's barrier before the doorbell record. */
	smp_rmb();
	return sq->ci != sq->pi;
}

/* The ring's slot of a free-running index. */
static inline const u8 *hca_sq_slot(const struct hca_sq *sq, u16 index)
{
	return sq->buf + ((size_t)(index & sq->mask) << HCA_WQE_BB_SHIFT);
}

/* Packets of a message: at least one. */
static inline u32 hca_packets(const struct hca_qp *qp, u64 length)
{
	return length <= qp->mtu ? 1 : DIV_ROUND_UP((u32)length, qp->mtu);
}

/* To look at an entry of a key, or to write a CQE, costs about what moving so many bytes does. */
#define HCA_LOOK_BYTES 256u

/* Takes @bytes off @room, or off what the next slices have. */
static inline void hca_sq_charge(struct hca_sq *sq, u32 *room, u64 bytes)
{
	u32 now = min_t(u64, bytes, *room);

	*room -= now;
	sq->overdrawn += bytes - now;
}

/* Whoever finds the own counter raised finds the responder's raised, too. */
static inline void hca_sq_settle(struct hca_sq *sq)
{
	hca_settle(&sq->peer_owed);
	hca_settle(&sq->owed);
}

static inline bool hca_sq_cqe(struct hca_qp *qp, u8 op, u16 index, u64 length, enum hca_cqe_syndrome synd,
			      u8 vendor_err)
{
	const struct hca_completion c = {
		.opcode = synd ? HCA_CQE_REQ_ERR : HCA_CQE_REQ,
		.send_op = op,
		.syndrome = synd,
		.vendor_err = vendor_err,
		.qpn = qp->qpn,
		.user_index = qp->user_index,
		.byte_cnt = length,
		.wqe_counter = index,
	};

	/* The same for whoever finds the CQE. */
	hca_settle(&qp->sq.peer_owed);
	return hca_cq_write(qp->send_cq, &c);
}

/*
 * A request has succeeded, and @sq->ci is behind it: CQE if it wants one, then counter.  Without a CQE that it wants it
 * has not.
 */
static inline void hca_sq_done(struct hca_qp *qp, u8 op, enum hca_class class, u16 index, u64 length, bool signaled)
{
	struct hca_counter *counter = qp->counters[class];
	struct hca_sq *sq = &qp->sq;

	if ((signaled || qp->all_signaled) && unlikely(!hca_sq_cqe(qp, op, index, length, HCA_SYND_OK, 0))) {
		hca_sq_settle(sq);
		hca_count(qp, class, HCA_SYND_LOCAL_QP_OP, length);
		hca_qp_fail(qp, HCA_EVENT_QP_FATAL);
		return;
	}
	if (!counter)
		return;
	/* What another counter is owed it gets now, after the responder's. */
	if (unlikely(sq->owed.counter != counter)) {
		if (sq->owed.n)
			hca_sq_settle(sq);
		sq->owed.counter = counter;
	}
	sq->owed.n += counter->bytes ? length : 1;
}

#endif /* HCA_SQ_H */
