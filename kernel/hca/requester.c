// SPDX-License-Identifier: GPL-2.0-only
/* The requester: executes send queues. */
#include "counter.h"
#include "mkey.h"
#include "route.h"
#include "sq.h"

/* WQEs executed under one set of locks. */
#define BATCH 16u
/* A message is cut where an address is a multiple of so many bytes. */
#define SLICE_UNIT 64u

enum step {
	STEP_DONE,	/* a WQE has ended, look for the next */
	STEP_MORE,	/* a slice is done, the WQE goes on */
	STEP_EMPTY,
	STEP_WAIT,
};

/* IBA table 45, in units of 10 us. */
static const u32 rnr_delay[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static bool has_failed(const struct hca_sq *sq, u16 stream)
{
	u16 i;

	for (i = 0; i < sq->num_failed; i++)
		if (sq->failed[i] == stream)
			return true;
	return false;
}

void hca_dci_abort(struct hca_qp *qp)
{
	struct hca_completion c = {
		.opcode = HCA_CQE_RESP_ERR,
		.syndrome = HCA_SYND_REMOTE_ABORTED,
		.vendor_err = HCA_VENDOR_ABORTED,
	};
	struct hca_recv *recv = &qp->rq.recv;
	struct hca_qp *dct = NULL;

	if (likely(qp->type != HCA_QP_DCI || !recv->active))
		return;
	rcu_read_lock();
	/* Not by its address: that it cannot be reached any more may be the reason. */
	if (qp->dev->ops->is_there(recv->taker_dev))
		dct = hca_table_lookup(&recv->taker_dev->qps, qp->sq.wqe.av.qpn);
	if (dct) {
		spin_lock(&dct->rq.lock);
		/* Not of another one that has got its number. */
		if (dct->serial == recv->taker)
			hca_recv_complete(dct, NULL, recv, &c, 0);
		spin_unlock(&dct->rq.lock);
	}
	rcu_read_unlock();
	recv->active = false;
}

/* The WQE in progress has failed: then the QP has, or, while few of them have, its stream. */
static void fail(struct hca_qp *qp, enum hca_cqe_syndrome synd)
{
	struct hca_sq *sq = &qp->sq;

	hca_dci_abort(qp);
	if (!sq->streams) {
		hca_qp_fail_requester(qp);
		return;
	}
	if (synd == HCA_SYND_WR_FLUSH)
		return;
	if (sq->num_failed + 1 < sq->streams)
		sq->failed[sq->num_failed++] = sq->wqe.stream;
	else
		hca_qp_fail_requester(qp);
}

static void advance(struct hca_sq *sq)
{
	sq->active = false;
	sq->ci += sq->wqe.bbs;
}

static enum step finish(struct hca_qp *qp)
{
	const struct hca_wqe *wqe = &qp->sq.wqe;

	advance(&qp->sq);
	hca_sq_done(qp, wqe->op, wqe->class, wqe->index, wqe->length, wqe->signaled);
	hca_stats_add(qp->dev->stats, HCA_STAT_WQES, 1);
	return STEP_DONE;
}

static enum step finish_failed(struct hca_qp *qp, enum hca_cqe_syndrome synd, u8 vendor_err)
{
	struct hca_sq *sq = &qp->sq;

	advance(sq);
	hca_sq_settle(sq);
	hca_sq_cqe(qp, sq->wqe.op, sq->wqe.index, sq->wqe.length, synd, vendor_err);
	hca_count(qp, sq->wqe.class, synd, sq->wqe.length);
	hca_stats_add(qp->dev->stats, HCA_STAT_WQES, 1);
	fail(qp, synd);
	return STEP_DONE;
}

static enum step finish_local(struct hca_qp *qp, enum hca_cqe_syndrome synd)
{
	if (likely(synd == HCA_SYND_OK))
		return finish(qp);
	hca_stats_add(qp->dev->stats, HCA_STAT_ERR_LOCAL, 1);
	return finish_failed(qp, synd, HCA_VENDOR_LOCAL);
}

static enum step finish_remote(struct hca_qp *qp, enum hca_cqe_syndrome synd)
{
	hca_stats_add(qp->dev->stats, HCA_STAT_ERR_REMOTE, 1);
	return finish_failed(qp, synd, HCA_VENDOR_REMOTE);
}

static enum step wait_for(struct hca_qp *qp, u64 ns)
{
	qp->sq.waiting = true;
	qp->dev->ops->timer(qp, ns);
	return STEP_WAIT;
}

static enum step not_ready(struct hca_qp *qp, u8 timer)
{
	struct hca_sq *sq = &qp->sq;

	hca_stats_add(qp->dev->stats, HCA_STAT_RNR_NAK, 1);
	if (qp->rnr_retry != 7) {
		if (!sq->rnr_left) {
			hca_stats_add(qp->dev->stats, HCA_STAT_ERR_RNR, 1);
			return finish_failed(qp, HCA_SYND_RNR_RETRY_EXC, HCA_VENDOR_RETRY);
		}
		sq->rnr_left--;
	}
	return wait_for(qp, (u64)rnr_delay[timer & 31] * 10000);
}

static enum step no_response(struct hca_qp *qp)
{
	struct hca_sq *sq = &qp->sq;

	hca_stats_add(qp->dev->stats, HCA_STAT_NO_RESPONSE, 1);
	if (!qp->timeout) /* for ever: look again now and then */
		return wait_for(qp, HCA_NO_TIMEOUT_POLL_NS);
	if (sq->expired) {
		if (!sq->retry_left) {
			hca_stats_add(qp->dev->stats, HCA_STAT_ERR_RETRY, 1);
			return finish_failed(qp, HCA_SYND_TRANSPORT_RETRY_EXC, HCA_VENDOR_RETRY);
		}
		sq->retry_left--;
	}
	/* The time-out after the first transmission is no retry yet. */
	sq->expired = true;
	return wait_for(qp, 4096ull << qp->timeout);
}

/* Whether the responder answers. */
static bool is_reliable(const struct hca_qp *qp)
{
	return qp->type != HCA_QP_UC && qp->type != HCA_QP_UD;
}

/* What the WQE in progress wants of its own keys; they are looked at in full when it begins. */
static struct hca_claim local_claim(struct hca_qp *qp, u32 access)
{
	return (struct hca_claim){
		.dev = qp->dev,
		.pdn = qp->pdn,
		.qpn = qp->qpn,
		.access = access,
		.whole = !qp->sq.offset,
		.pinned = qp->sq.offset,
		.tree_left = HCA_KEY_TREE,
	};
}

/* Who serves the request.  NULL: nobody is there, or, as @refused says, a device that has no such DCT. */
static struct hca_qp *find_addressed(struct hca_qp *qp, bool *refused)
{
	const struct hca_av *av = &qp->sq.wqe.av;
	struct hca_dev *dev = hca_av_dev(qp, av);
	struct hca_qp *peer;

	if (!dev)
		return NULL;
	peer = hca_table_lookup(&dev->qps, av->qpn);
	/* A device knows its DCTs. */
	*refused = qp->type == HCA_QP_DCI && (!peer || peer->type != HCA_QP_DCT);
	return *refused ? NULL : peer;
}

static inline struct hca_qp *find_responder(struct hca_qp *qp, bool *refused)
{
	*refused = false;
	if (qp->type == HCA_QP_UD || qp->type == HCA_QP_DCI)
		return find_addressed(qp, refused);
	return hca_qp_peer(qp);
}

/* Ends a message that has gone its way, whoever has got it. */
static enum step finish_sent(struct hca_qp *qp, struct hca_request *req)
{
	qp->sq.psn = (qp->sq.psn + req->packets) & 0xffffff;
	return finish(qp);
}

/* A datagram on its way, and how many bytes have been offered to receivers. */
struct datagram {
	struct hca_request *req;
	const struct hca_wqe *wqe;
	u64 bytes;
};

static void deliver(struct hca_qp *to, void *arg)
{
	struct datagram *d = arg;
	struct hca_cursor payload __uninitialized;

	hca_cursor_init(&payload, d->wqe->sges, d->wqe->num_sge);
	d->req->payload = &payload;
	hca_respond(to, d->req);
	d->bytes += d->req->len + HCA_GRH_BYTES;
}

/* A datagram: whole, to one or to all of a group, and nobody says whether it has arrived. */
static enum step send_datagram(struct hca_qp *qp, struct hca_request *req, u32 *room, u64 *looks)
{
	struct hca_wqe *wqe = &qp->sq.wqe;
	struct datagram d = { .req = req, .wqe = wqe };
	u8 grh[HCA_GRH_BYTES] __aligned(8);
	struct hca_qp *peer;
	bool refused;

	if (wqe->length > qp->mtu)
		return finish_local(qp, HCA_SYND_LOCAL_LENGTH);
	if (!qp->dev->ops->fill_grh(qp, &wqe->av, wqe->length, grh))
		return finish_local(qp, HCA_SYND_LOCAL_QP_OP);
	req->grh = grh;
	req->key = wqe->av.key & HCA_QKEY_OWN ? qp->key : wqe->av.key;
	if (!qp->dev->ops->multicast(qp, &wqe->av, deliver, &d)) {
		peer = find_responder(qp, &refused);
		if (peer)
			deliver(peer, &d);
	}
	/* Each receiver of a group is work. */
	hca_sq_charge(&qp->sq, room, d.bytes);
	*looks += HCA_KEY_TREE - req->tree_left;
	hca_stats_add(qp->dev->stats, HCA_STAT_BYTES, req->len);
	return finish_sent(qp, req);
}

/* What a responder is to know of the WQE in progress, all its slices alike. */
static void address(struct hca_qp *qp)
{
	const struct hca_wqe *wqe = &qp->sq.wqe;
	struct hca_request *req = &qp->sq.req;

	req->key = wqe->av.key;
	req->srqn = wqe->srqn;
	req->op = wqe->op;
	req->solicited = wqe->solicited;
	req->imm = wqe->imm;
	req->raddr = wqe->raddr;
	req->rkey = wqe->rkey;
	req->length = wqe->length;
	req->packets = hca_packets(qp, wqe->length);
	req->swap_add = wqe->swap_add;
	req->compare = wqe->compare;
}

/*
 * How much of @left bytes goes in one slice, the first of them to address @to.  Words at aligned addresses are whole at
 * both sides of a cut; what is little is not cut.
 */
static u32 slice_of(u64 left, u32 room, u64 to)
{
	if (left <= max(room, HCA_MIN_SLICE))
		return left;
	return max(room & ~(SLICE_UNIT - 1), SLICE_UNIT) - (to & (SLICE_UNIT - 1));
}

/* The address that the message goes to, as far as the requester knows and the first piece goes. */
static u64 destination(const struct hca_wqe *wqe)
{
	switch (wqe->class) {
	case HCA_CLASS_WRITE:
		return wqe->raddr;
	case HCA_CLASS_READ:
		return wqe->sges[0].addr;
	default:
		return 0;
	}
}

static enum step send_slice(struct hca_qp *qp, u32 *room, u64 *looks)
{
	struct hca_sq *sq = &qp->sq;
	struct hca_wqe *wqe = &sq->wqe;
	bool atomic = wqe->class == HCA_CLASS_ATOMIC;
	/* These cannot be cut. */
	bool whole = atomic || qp->type == HCA_QP_UD;
	bool reply = atomic || wqe->class == HCA_CLASS_READ;
	u32 length = wqe->length;
	struct hca_request *req = &sq->req;
	struct hca_cursor local __uninitialized;
	enum hca_cqe_syndrome synd;
	struct hca_claim claim __uninitialized;
	struct hca_qp *peer;
	enum hca_ack ack;
	bool refused;

	claim = local_claim(qp, reply ? HCA_ACCESS_LOCAL_WRITE : 0);
	synd = hca_sges_resolve(&claim, wqe->sges, wqe->num_sge);
	*looks = HCA_KEY_TREE - claim.tree_left;
	if (unlikely(synd != HCA_SYND_OK))
		return finish_local(qp, synd);
	hca_cursor_init(&local, wqe->sges, wqe->num_sge);
	if (sq->offset)
		hca_cursor_skip(&local, sq->offset);
	req->first = !sq->offset;
	req->offset = sq->offset;
	req->len = whole ? length : slice_of(length - sq->offset, *room, destination(wqe) + sq->offset);
	req->last = req->offset + req->len == length;
	req->psn = sq->psn;
	req->payload = &local;
	req->tree_left = HCA_KEY_TREE;

	if (qp->type == HCA_QP_UD)
		return send_datagram(qp, req, room, looks);
	peer = find_responder(qp, &refused);
	if (unlikely(refused))
		return finish_remote(qp, HCA_SYND_REMOTE_INVAL_REQ);
	ack = likely(peer) ? hca_respond(peer, req) : HCA_NO_RESPONSE;
	*looks += HCA_KEY_TREE - req->tree_left;
	/* What gets no answer has been sent all the same; of a message that was dropped, nothing more is. */
	if (!is_reliable(qp) && ack != HCA_ACK && ack != HCA_PAYLOAD_LOST)
		return finish_sent(qp, req);
	switch (ack) {
	case HCA_ACK:
		break;
	case HCA_ACK_RNR:
		return not_ready(qp, req->rnr_timer);
	case HCA_NO_RESPONSE:
		return no_response(qp);
	case HCA_NAK_INVALID_REQUEST:
		return finish_remote(qp, HCA_SYND_REMOTE_INVAL_REQ);
	case HCA_NAK_REMOTE_ACCESS:
		return finish_remote(qp, HCA_SYND_REMOTE_ACCESS);
	case HCA_NAK_REMOTE_OP:
		return finish_remote(qp, HCA_SYND_REMOTE_OP);
	case HCA_PAYLOAD_LOST:
		return finish_local(qp, HCA_SYND_LOCAL_PROT);
	}

	*room -= min(req->len, *room);
	hca_stats_add(qp->dev->stats, HCA_STAT_BYTES, req->len);
	sq->expired = false;
	sq->retry_left = qp->retry_cnt;
	sq->rnr_left = qp->rnr_retry;
	if (!req->last) {
		sq->offset += req->len;
		return STEP_MORE;
	}
	if (atomic) {
		struct hca_sge value = { .data = (const u8 *)&req->orig, .len = sizeof(req->orig) };
		struct hca_cursor from __uninitialized;

		hca_cursor_init(&from, &value, 1);
		if (unlikely(hca_copy(&local, &from, sizeof(req->orig)) != HCA_COPIED))
			return finish_local(qp, HCA_SYND_LOCAL_PROT);
	}
	return finish_sent(qp, req);
}

/*
 * A copy within the host; no peer takes part.  Where source and destination overlap, the order of moves decides
 * which of the source's bytes the destination gets.
 */
static enum step copy_slice(struct hca_qp *qp, u32 *room, u64 *looks)
{
	struct hca_sq *sq = &qp->sq;
	struct hca_wqe *wqe = &sq->wqe;
	struct hca_sge *src = &wqe->sges[0], *dst = &wqe->sges[1];
	u32 len = slice_of(wqe->length - sq->offset, *room, dst->addr + sq->offset);
	struct hca_cursor from __uninitialized, to __uninitialized;
	struct hca_claim claim = local_claim(qp, 0);
	enum hca_cqe_syndrome synd;

	if (!qp->mmo)
		return finish_local(qp, HCA_SYND_LOCAL_QP_OP);
	synd = hca_sges_resolve(&claim, src, 1);
	claim.access = HCA_ACCESS_LOCAL_WRITE;
	if (synd == HCA_SYND_OK)
		synd = hca_sges_resolve(&claim, dst, 1);
	*looks = HCA_KEY_TREE - claim.tree_left;
	if (unlikely(synd != HCA_SYND_OK))
		return finish_local(qp, synd);

	hca_cursor_init(&from, src, 1);
	hca_cursor_init(&to, dst, 1);
	from.off = sq->offset;
	to.off = sq->offset;
	if (unlikely(hca_copy(&to, &from, len) != HCA_COPIED))
		return finish_local(qp, HCA_SYND_LOCAL_PROT);

	*room -= min(len, *room);
	hca_stats_add(qp->dev->stats, HCA_STAT_BYTES, len);
	sq->offset += len;
	return sq->offset == wqe->length ? finish_local(qp, HCA_SYND_OK) : STEP_MORE;
}

static enum step execute(struct hca_qp *qp, u32 *room)
{
	struct hca_wqe *wqe = &qp->sq.wqe;
	u64 looks = 0;
	enum step s;

	if (unlikely(wqe->status != HCA_SYND_OK))
		return finish_local(qp, wqe->status);
	if (unlikely(qp->sq.num_failed && has_failed(&qp->sq, wqe->stream))) {
		hca_stats_add(qp->dev->stats, HCA_STAT_ERR_FLUSH, 1);
		return finish_failed(qp, HCA_SYND_WR_FLUSH, 0);
	}
	switch (wqe->op) {
	case HCA_OPCODE_NOP:
		return finish_local(qp, HCA_SYND_OK);
	case HCA_OPCODE_LOCAL_INVAL:
		return finish_local(qp, hca_mkey_invalidate(qp, qp->pdn, be32_to_cpu(wqe->imm), false) ?
						HCA_SYND_OK : HCA_SYND_LOCAL_QP_OP);
	case HCA_OPCODE_UMR:
		return finish_local(qp, hca_umr(qp, wqe, room));
	case HCA_OPCODE_MMO:
		s = copy_slice(qp, room, &looks);
		break;
	case HCA_OPCODE_ATOMIC_CS:
	case HCA_OPCODE_ATOMIC_FA:
		if (wqe->length < sizeof(u64))
			return finish_local(qp, HCA_SYND_LOCAL_LENGTH);
		/* A larger buffer is not filled. */
		wqe->length = sizeof(u64);
		fallthrough;
	default:
		if (wqe->length > HCA_MAX_MSG)
			return finish_local(qp, HCA_SYND_LOCAL_LENGTH);
		if (!qp->sq.offset)
			address(qp);
		s = send_slice(qp, room, &looks);
	}
	hca_sq_charge(&qp->sq, room, looks * HCA_LOOK_BYTES);
	return s;
}

/* Flushing is work, too. */
static enum step flushed(struct hca_sq *sq, bool more, u32 *room)
{
	if (!more)
		return STEP_EMPTY;
	hca_sq_charge(sq, room, HCA_FLUSH_BATCH * HCA_LOOK_BYTES);
	return STEP_MORE;
}

/* Whether there is a WQE to execute; copies the next one out of the ring if there is none in progress. */
static bool load(struct hca_qp *qp)
{
	struct hca_sq *sq = &qp->sq;

	if (sq->active)
		return true;
	if (!hca_sq_posted(sq))
		return false;
	hca_wqe_fetch(qp, &sq->wqe);
	sq->active = true;
	sq->offset = 0;
	sq->expired = false;
	sq->retry_left = qp->retry_cnt;
	sq->rnr_left = qp->rnr_retry;
	return true;
}

static enum step step(struct hca_qp *qp, u32 *room)
{
	struct hca_sq *sq = &qp->sq;

	switch (READ_ONCE(qp->state)) {
	case HCA_QPS_RTS:
		break;
	case HCA_QPS_SQD:
		if (sq->active)
			break;
		if (!sq->drained) {
			hca_sq_settle(sq);
			sq->drained = true;
			qp->dev->ops->qp_event(qp, HCA_EVENT_SQ_DRAINED);
		}
		return STEP_EMPTY;
	case HCA_QPS_SQE:
		hca_sq_settle(sq);
		return flushed(sq, hca_sq_flush(qp), room);
	case HCA_QPS_ERR:
		hca_sq_settle(sq);
		return flushed(sq, hca_qp_flush(qp), room);
	default:
		return STEP_EMPTY;
	}
	if (sq->waiting)
		return STEP_WAIT;
	if (!load(qp))
		return STEP_EMPTY;
	return execute(qp, room);
}

enum hca_run hca_qp_run(struct hca_qp *qp, struct hca_budget *budget)
{
	enum step s;

	for (;;) {
		u32 most = clamp(budget->wqes, 1u, BATCH), done = 0;
		u32 slice = clamp(budget->bytes, HCA_MIN_SLICE, HCA_SLICE), room = slice;
		u64 used;
		bool plain = qp->type == HCA_QP_RC;

		spin_lock(&qp->sq.lock);
		rcu_read_lock();
		do {
			/* As long as some go that way. */
			if (plain) {
				u32 n = hca_express(qp, most - done, &room);

				done += n;
				plain = n;
				s = STEP_DONE;
				if (done == most || room < SLICE_UNIT)
					break;
			}
			s = step(qp, &room);
			if (s == STEP_DONE)
				done++;
			/* What is left behind a cut is not worth another slice. */
		} while ((s == STEP_DONE && done < most && room >= SLICE_UNIT) ||
			 (s == STEP_MORE && room >= SLICE_UNIT));
		hca_sq_settle(&qp->sq);
		used = room < SLICE_UNIT ? slice + qp->sq.overdrawn : slice - room;
		qp->sq.overdrawn = 0;
		rcu_read_unlock();
		spin_unlock(&qp->sq.lock);

		budget->wqes -= min(done, budget->wqes);
		budget->bytes -= min_t(u64, used, budget->bytes);
		if (s == STEP_EMPTY)
			return HCA_RUN_IDLE;
		if (s == STEP_WAIT)
			return HCA_RUN_WAIT;
		if (!budget->wqes || !budget->bytes)
			return HCA_RUN_MORE;
	}
}

bool hca_qp_pending(const struct hca_qp *qp)
{
	return qp->sq.buf && (u16)be32_to_cpu(READ_ONCE(qp->sq.dbrec[HCA_DBREC_SQ])) != READ_ONCE(qp->sq.ci);
}

void hca_qp_timer(struct hca_qp *qp)
{
	spin_lock(&qp->sq.lock);
	qp->sq.waiting = false;
	spin_unlock(&qp->sq.lock);
}
