// SPDX-License-Identifier: GPL-2.0-only
/* Multicast groups: a datagram to one reaches every QP that has joined, of all devices of this kernel. */
#include <linux/jhash.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <rdma/ib_addr.h>
#include "tally.h"

#define GROUP_BITS 6

/**
 * struct member - a QP that has joined a group
 * @node: in groups[], changed under groups_lock, read under RCU
 * @rcu: frees it
 * @gid: the group
 * @qp: the QP; it leaves before it is destroyed
 * @joins: how often it has joined, under groups_lock.  ib_core tells memberships apart by a LID, too, which means nothing
 *	here, and each is a use of the QP until it has been detached with success.
 */
struct member {
	struct hlist_node node;
	struct rcu_head rcu;
	union ib_gid gid;
	struct tally_qp *qp;
	u32 joins;
};

static DEFINE_SPINLOCK(groups_lock);
static struct hlist_head groups[1 << GROUP_BITS];

static struct hlist_head *bucket(const union ib_gid *gid)
{
	return &groups[jhash(gid->raw, sizeof(gid->raw), 0) & ((1 << GROUP_BITS) - 1)];
}

static bool hears(const struct tally_qp *member, const struct hca_qp *sender)
{
	if (&member->hca == sender && member->no_loopback)
		return false;
	return READ_ONCE(to_tdev(member->ib.device)->port_up);
}

/**
 * tally_multicast - hca_ops.multicast
 * @hca: the QP that sends
 * @av: where to
 * @deliver: called for each member that can be reached
 * @arg: for it
 *
 * Return: whether the address is a group's.
 */
bool tally_multicast(struct hca_qp *hca, const struct hca_av *av, void (*deliver)(struct hca_qp *to, void *arg),
		     void *arg)
{
	struct tally_dev *self = hca_to_tdev(hca->dev);
	struct member *m;
	union ib_gid gid;

	memcpy(gid.raw, av->gid, sizeof(gid.raw));
	if (!rdma_is_multicast_addr((struct in6_addr *)gid.raw))
		return false;
	if (!READ_ONCE(self->port_up))
		return true;
	hlist_for_each_entry_rcu(m, bucket(&gid), node)
		if (!memcmp(&m->gid, &gid, sizeof(gid)) && hears(m->qp, hca))
			deliver(&m->qp->hca, arg);
	return true;
}

static struct member *find(struct tally_qp *qp, const union ib_gid *gid)
{
	struct member *m;

	hlist_for_each_entry(m, bucket(gid), node)
		if (m->qp == qp && !memcmp(&m->gid, gid, sizeof(*gid)))
			return m;
	return NULL;
}

/**
 * tally_attach_mcast - ib_device_ops.attach_mcast
 * @ib: the queue pair
 * @gid: the group
 * @lid: unused
 *
 * Return: 0, also when it has joined before: then it leaves when it has been detached as often; -ENOMEM.
 */
int tally_attach_mcast(struct ib_qp *ib, union ib_gid *gid, u16 lid)
{
	struct tally_dev *dev = to_tdev(ib->device);
	struct member *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), *m;
	int ret = 0;

	if (!new)
		return -ENOMEM;
	new->gid = *gid;
	new->qp = to_tqp(ib);
	new->joins = 1;
	spin_lock(&groups_lock);
	m = find(new->qp, gid);
	if (m) {
		m->joins++;
	} else if (dev->num_mcast < TALLY_MAX_MCAST_QP) {
		dev->num_mcast++;
		hlist_add_head_rcu(&new->node, bucket(gid));
		new = NULL;
	} else {
		ret = -ENOMEM;
	}
	spin_unlock(&groups_lock);
	kfree(new);
	return ret;
}

/**
 * tally_detach_mcast - ib_device_ops.detach_mcast
 * @ib: the queue pair
 * @gid: the group
 * @lid: unused
 *
 * Return: 0; -EINVAL if it has not joined.
 */
int tally_detach_mcast(struct ib_qp *ib, union ib_gid *gid, u16 lid)
{
	struct member *m, *last = NULL;

	spin_lock(&groups_lock);
	m = find(to_tqp(ib), gid);
	if (m && !--m->joins) {
		last = m;
		hlist_del_rcu(&m->node);
		to_tdev(ib->device)->num_mcast--;
	}
	spin_unlock(&groups_lock);
	if (!m)
		return -EINVAL;
	if (last)
		kfree_rcu(last, rcu);
	return 0;
}
