// SPDX-License-Identifier: GPL-2.0-only
/*
 * QP 1: how the connection managers of two devices talk to each other.
 *
 * It belongs to the kernel (ib_core creates one on each device) and is none of the virtual HCA's: its queues are
 * kernel memory that no key leads to, no doorbell rings for it, and it is not in the table where requests of users
 * find their peers.  A message goes from one QP 1 to another, and nowhere else; so all that user space can reach
 * here is what ib_core lets it send.
 *
 * Posts only store, so they are good in any context.  A work item carries the messages over, in process context,
 * where the fabric's lock may be taken.
 */
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include "tally.h"

#define GSI_QPN		1
/* What ib_mad can be told to ask for. */
#define GSI_MAX_WR	8192
#define GSI_MAX_SGE	2
#define GSI_MAX_BYTES	IB_MGMT_MAD_SIZE

/* A Q_Key with this bit is not sent: the QP's own is. */
#define QKEY_OWN	BIT(31)

/* A message to be sent.  What the caller's memory held is here already. */
struct gsi_send {
	u64 wr_id;
	bool signaled;
	bool solicited;
	u32 qpn;
	u32 qkey;
	struct tally_address to;
	u32 bytes;
	u8 data[GSI_MAX_BYTES];
};

struct gsi_recv {
	u64 wr_id;
	u32 num_sge;
	struct ib_sge sges[GSI_MAX_SGE];
};

/**
 * struct tally_gsi - the queues of a QP 1
 * @qp: the QP.  Of its HCA part, which is no QP of the HCA, only the state and the Q_Key are used; they are written
 *	under its mutex and @lock.
 * @lock: everything below; inside the locks of posters, who may have disabled interrupts, and outside a CQ's
 * @sends: ring
 * @send_mask: entries - 1
 * @send_pi: next to be posted
 * @send_ci: next to be carried over.  Only @work moves it on, and reads that entry without the lock.
 * @recvs: ring
 * @recv_mask: entries - 1
 * @recv_pi: next to be posted
 * @recv_ci: next to be filled
 * @work: carries messages over, and completes what is flushed
 *
 * Peers find it under RCU by tally_dev.gsi.  Its owner takes it away from there, waits for a grace period and for
 * @work, then frees it.
 */
struct tally_gsi {
	struct tally_qp *qp;
	spinlock_t lock;
	struct gsi_send *sends;
	u32 send_mask;
	u32 send_pi;
	u32 send_ci;
	struct gsi_recv *recvs;
	u32 recv_mask;
	u32 recv_pi;
	u32 recv_ci;
	struct work_struct work;
};

static struct tally_dev *dev_of(const struct tally_gsi *gsi)
{
	return to_tdev(gsi->qp->ib.device);
}

static bool receives(const struct tally_gsi *gsi)
{
	return gsi->qp->hca.state == HCA_QPS_RTR || gsi->qp->hca.state == HCA_QPS_RTS;
}

/* Puts a message behind its network header into a receive.  False: it does not fit. */
static bool scatter(const struct gsi_recv *recv, const u8 *grh, const struct gsi_send *s)
{
	const u8 *from = grh;
	u32 left = HCA_GRH_BYTES, room = 0, i;

	for (i = 0; i < recv->num_sge; i++)
		room += recv->sges[i].length;
	if (room < HCA_GRH_BYTES + s->bytes)
		return false;
	for (i = 0; i < recv->num_sge; i++) {
		u8 *to = (u8 *)(uintptr_t)recv->sges[i].addr;
		u32 len = recv->sges[i].length, n;

		while (len) {
			if (!left && from == grh + HCA_GRH_BYTES) {
				from = s->data;
				left = s->bytes;
			}
			if (!left)
				return true;
			n = min(len, left);
			memcpy(to, from, n);
			to += n;
			len -= n;
			from += n;
			left -= n;
		}
	}
	return true;
}

/* As with any datagram, what cannot be received is lost, and nobody is told. */
static void deliver(struct tally_gsi *gsi, const struct gsi_send *s, const u8 *grh, u64 key)
{
	struct ib_wc wc = {
		.status = IB_WC_SUCCESS,
		.opcode = IB_WC_RECV,
		.byte_len = HCA_GRH_BYTES + s->bytes,
		.qp = &gsi->qp->ib,
		.src_qp = GSI_QPN,
		.wc_flags = IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE,
		.sl = s->to.sl,
		.port_num = 1,
		.network_hdr_type = s->to.ipv4 ? RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6,
	};
	const struct gsi_recv *recv;
	unsigned long flags;

	if (s->to.vlan < VLAN_N_VID) {
		wc.wc_flags |= IB_WC_WITH_VLAN;
		wc.vlan_id = s->to.vlan;
	}
	spin_lock_irqsave(&gsi->lock, flags);
	if (!receives(gsi) || gsi->qp->hca.key != key || gsi->recv_ci == gsi->recv_pi)
		goto out;
	recv = &gsi->recvs[gsi->recv_ci & gsi->recv_mask];
	if (!scatter(recv, grh, s))
		goto out;
	gsi->recv_ci++;
	wc.wr_id = recv->wr_id;
	tally_kernel_cq_add(gsi->qp->ib.recv_cq, &wc, s->solicited);
out:
	spin_unlock_irqrestore(&gsi->lock, flags);
}

/* Its own key, @own, is the one that no user's QP can send with. */
static void transmit(struct tally_gsi *gsi, const struct gsi_send *s, u64 own)
{
	u8 grh[HCA_GRH_BYTES] __aligned(8);
	struct tally_gsi *peer = NULL;
	struct tally_dev *dev;

	if (s->qpn != GSI_QPN)
		return;
	tally_write_grh(&s->to.av, &s->to.from, s->bytes, grh);
	rcu_read_lock();
	dev = tally_route_address(dev_of(gsi), &s->to.av);
	if (dev)
		peer = rcu_dereference(dev->gsi);
	if (peer)
		deliver(peer, s, grh, s->qkey & QKEY_OWN ? own : s->qkey);
	rcu_read_unlock();
}

static void sent(struct tally_gsi *gsi, const struct gsi_send *s, enum ib_wc_status status)
{
	struct ib_wc wc = {
		.wr_id = s->wr_id,
		.status = status,
		.opcode = IB_WC_SEND,
		.byte_len = s->bytes,
		.qp = &gsi->qp->ib,
		.port_num = 1,
	};

	if (s->signaled || status != IB_WC_SUCCESS)
		tally_kernel_cq_add(gsi->qp->ib.send_cq, &wc, false);
}

static void flush_receives(struct tally_gsi *gsi)
{
	struct ib_wc wc = {
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
		.qp = &gsi->qp->ib,
		.port_num = 1,
	};

	for (; gsi->recv_ci != gsi->recv_pi; gsi->recv_ci++) {
		wc.wr_id = gsi->recvs[gsi->recv_ci & gsi->recv_mask].wr_id;
		tally_kernel_cq_add(gsi->qp->ib.recv_cq, &wc, false);
	}
}

static void carry(struct work_struct *work)
{
	struct tally_gsi *gsi = container_of(work, struct tally_gsi, work);
	const struct gsi_send *s;
	u64 key;
	u8 state;

	spin_lock_irq(&gsi->lock);
	for (;;) {
		state = gsi->qp->hca.state;
		key = gsi->qp->hca.key;
		if (state == HCA_QPS_ERR)
			flush_receives(gsi);
		if (gsi->send_ci == gsi->send_pi || (state != HCA_QPS_RTS && state != HCA_QPS_ERR))
			break;
		s = &gsi->sends[gsi->send_ci & gsi->send_mask];
		if (state == HCA_QPS_RTS) {
			spin_unlock_irq(&gsi->lock);
			transmit(gsi, s, key);
			cond_resched();
			spin_lock_irq(&gsi->lock);
		}
		sent(gsi, s, state == HCA_QPS_RTS ? IB_WC_SUCCESS : IB_WC_WR_FLUSH_ERR);
		gsi->send_ci++;
	}
	spin_unlock_irq(&gsi->lock);
}

static int gather(struct gsi_send *s, const struct ib_send_wr *wr)
{
	int i;

	s->bytes = 0;
	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > GSI_MAX_BYTES - s->bytes)
			return -EINVAL;
		memcpy(s->data + s->bytes, (const void *)(uintptr_t)sge->addr, sge->length);
		s->bytes += sge->length;
	}
	return 0;
}

/* Under gsi->lock. */
static int post_one(struct tally_gsi *gsi, const struct ib_send_wr *wr)
{
	struct gsi_send *s = &gsi->sends[gsi->send_pi & gsi->send_mask];
	const struct ib_ud_wr *ud = ud_wr(wr);
	int ret;

	if (gsi->qp->hca.state != HCA_QPS_RTS && gsi->qp->hca.state != HCA_QPS_ERR)
		return -EINVAL;
	if (wr->opcode != IB_WR_SEND || wr->num_sge > GSI_MAX_SGE || !ud->ah || ud->pkey_index)
		return -EINVAL;
	if (gsi->send_pi - gsi->send_ci > gsi->send_mask)
		return -ENOMEM;
	ret = gather(s, wr);
	if (ret)
		return ret;
	s->wr_id = wr->wr_id;
	s->signaled = gsi->qp->sig_type == IB_SIGNAL_ALL_WR || wr->send_flags & IB_SEND_SIGNALED;
	s->solicited = wr->send_flags & IB_SEND_SOLICITED;
	s->qpn = ud->remote_qpn;
	s->qkey = ud->remote_qkey;
	s->to = to_tah(ud->ah)->address;
	gsi->send_pi++;
	return 0;
}

/**
 * tally_post_send - ib_device_ops.post_send
 * @ib: QP 1, for there is no other one of the kernel's
 * @wr: messages, each behind the other
 * @bad: set to the first one that has not been posted
 *
 * Any context.  Return: 0; -EINVAL for what QP 1 does not send or in a state where it does not; -ENOMEM if the queue
 * is full.
 */
int tally_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct tally_gsi *gsi = to_tqp(ib)->gsi;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&gsi->lock, flags);
	for (; wr; wr = wr->next) {
		ret = post_one(gsi, wr);
		if (ret)
			break;
	}
	spin_unlock_irqrestore(&gsi->lock, flags);
	if (ret)
		*bad = wr;
	queue_work(system_unbound_wq, &gsi->work);
	return ret;
}

/* Under gsi->lock. */
static int post_one_recv(struct tally_gsi *gsi, const struct ib_recv_wr *wr)
{
	struct gsi_recv *recv = &gsi->recvs[gsi->recv_pi & gsi->recv_mask];

	if (gsi->qp->hca.state == HCA_QPS_RESET || wr->num_sge > GSI_MAX_SGE)
		return -EINVAL;
	if (gsi->recv_pi - gsi->recv_ci > gsi->recv_mask)
		return -ENOMEM;
	recv->wr_id = wr->wr_id;
	recv->num_sge = wr->num_sge;
	memcpy(recv->sges, wr->sg_list, wr->num_sge * sizeof(recv->sges[0]));
	gsi->recv_pi++;
	return 0;
}

/**
 * tally_post_recv - ib_device_ops.post_recv
 * @ib: QP 1
 * @wr: receives, each behind the other
 * @bad: set to the first one that has not been posted
 *
 * Any context.  Return: 0; -EINVAL in RESET or for too many pieces; -ENOMEM if the queue is full.
 */
int tally_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct tally_gsi *gsi = to_tqp(ib)->gsi;
	unsigned long flags;
	bool flush;
	int ret = 0;

	spin_lock_irqsave(&gsi->lock, flags);
	for (; wr; wr = wr->next) {
		ret = post_one_recv(gsi, wr);
		if (ret)
			break;
	}
	flush = gsi->qp->hca.state == HCA_QPS_ERR;
	spin_unlock_irqrestore(&gsi->lock, flags);
	if (ret)
		*bad = wr;
	if (flush)
		queue_work(system_unbound_wq, &gsi->work);
	return ret;
}

/* With the QP's mutex held. */
static void set_state(struct tally_gsi *gsi, const struct ib_qp_attr *attr, int mask)
{
	bool reset = mask & IB_QP_STATE && attr->qp_state == IB_QPS_RESET;

	spin_lock_irq(&gsi->lock);
	if (mask & IB_QP_STATE)
		WRITE_ONCE(gsi->qp->hca.state, attr->qp_state);
	if (mask & IB_QP_QKEY)
		gsi->qp->hca.key = attr->qkey;
	spin_unlock_irq(&gsi->lock);
	if (!reset) {
		queue_work(system_unbound_wq, &gsi->work);
		return;
	}
	cancel_work_sync(&gsi->work);
	spin_lock_irq(&gsi->lock);
	gsi->send_ci = gsi->send_pi;
	gsi->recv_ci = gsi->recv_pi;
	spin_unlock_irq(&gsi->lock);
	tally_kernel_cq_forget(gsi->qp->ib.send_cq, &gsi->qp->ib);
	tally_kernel_cq_forget(gsi->qp->ib.recv_cq, &gsi->qp->ib);
}

static int check_modify(const struct tally_gsi *gsi, const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state cur = READ_ONCE(gsi->qp->hca.state);
	enum ib_qp_state new = mask & IB_QP_STATE ? attr->qp_state : cur;

	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != cur)
		return -EINVAL;
	if (!ib_modify_qp_is_ok(cur, new, IB_QPT_GSI, mask))
		return -EINVAL;
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return -EINVAL;
	return new == IB_QPS_SQD ? -EOPNOTSUPP : 0;
}

/**
 * tally_gsi_modify - tally_modify_qp() of QP 1
 * @qp: the queue pair
 * @attr: new values
 * @mask: which of them
 *
 * Return: 0; -EINVAL for a transition or a value that is not allowed; -EOPNOTSUPP for a drain.
 */
int tally_gsi_modify(struct tally_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	int ret;

	mutex_lock(&qp->lock);
	ret = check_modify(qp->gsi, attr, mask);
	if (!ret) {
		if (mask & IB_QP_QKEY)
			qp->attr.qkey = attr->qkey;
		qp->attr.port_num = 1;
		set_state(qp->gsi, attr, mask);
	}
	mutex_unlock(&qp->lock);
	return ret;
}

static void free_gsi(struct tally_gsi *gsi)
{
	kvfree(gsi->sends);
	kvfree(gsi->recvs);
	kfree(gsi);
}

static struct tally_gsi *alloc_gsi(struct tally_qp *qp, const struct ib_qp_cap *cap)
{
	u32 sends = roundup_pow_of_two(max(cap->max_send_wr, 1u));
	u32 recvs = roundup_pow_of_two(max(cap->max_recv_wr, 1u));
	struct tally_gsi *gsi;

	gsi = kzalloc(sizeof(*gsi), GFP_KERNEL);
	if (!gsi)
		return NULL;
	gsi->qp = qp;
	spin_lock_init(&gsi->lock);
	INIT_WORK(&gsi->work, carry);
	gsi->send_mask = sends - 1;
	gsi->recv_mask = recvs - 1;
	gsi->sends = kvcalloc(sends, sizeof(*gsi->sends), GFP_KERNEL);
	gsi->recvs = kvcalloc(recvs, sizeof(*gsi->recvs), GFP_KERNEL);
	if (!gsi->sends || !gsi->recvs) {
		free_gsi(gsi);
		return NULL;
	}
	return gsi;
}

/* There is one per port. */
static int publish(struct tally_gsi *gsi)
{
	struct tally_dev *dev = dev_of(gsi);
	int ret = 0;

	spin_lock(&dev->res_lock);
	if (rcu_access_pointer(dev->gsi))
		ret = -EBUSY;
	else
		rcu_assign_pointer(dev->gsi, gsi);
	spin_unlock(&dev->res_lock);
	return ret;
}

/**
 * tally_gsi_create - tally_create_qp() for a kernel user
 * @qp: zeroed but for what ib_core knows of it
 * @init: what kind and how large
 *
 * Return: 0; -EOPNOTSUPP for all but QP 1; -EINVAL for numbers it does not have; -EBUSY if there is one; -ENOMEM.
 */
int tally_gsi_create(struct tally_qp *qp, struct ib_qp_init_attr *init)
{
	struct ib_qp_cap *cap = &init->cap;
	struct tally_gsi *gsi;
	int ret;

	if (init->qp_type != IB_QPT_GSI || init->create_flags || init->srq)
		return -EOPNOTSUPP;
	if (init->port_num != 1 || !init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (cap->max_send_wr > GSI_MAX_WR || cap->max_recv_wr > GSI_MAX_WR || cap->max_send_sge > GSI_MAX_SGE ||
	    cap->max_recv_sge > GSI_MAX_SGE || cap->max_inline_data)
		return -EINVAL;
	gsi = alloc_gsi(qp, cap);
	if (!gsi)
		return -ENOMEM;
	mutex_init(&qp->lock);
	qp->cap = *cap;
	qp->sig_type = init->sq_sig_type;
	qp->ib.qp_num = GSI_QPN;
	ret = publish(gsi);
	if (ret)
		free_gsi(gsi);
	else
		qp->gsi = gsi;
	return ret;
}

/**
 * tally_gsi_destroy - tally_destroy_qp() of QP 1
 * @qp: in any state; its CQs are still there
 */
void tally_gsi_destroy(struct tally_qp *qp)
{
	const struct ib_qp_attr reset = { .qp_state = IB_QPS_RESET };
	struct tally_gsi *gsi = qp->gsi;

	spin_lock(&dev_of(gsi)->res_lock);
	rcu_assign_pointer(dev_of(gsi)->gsi, NULL);
	spin_unlock(&dev_of(gsi)->res_lock);
	/* Peers that have found it. */
	synchronize_rcu();
	mutex_lock(&qp->lock);
	set_state(gsi, &reset, IB_QP_STATE);
	mutex_unlock(&qp->lock);
	qp->gsi = NULL;
	free_gsi(gsi);
}
