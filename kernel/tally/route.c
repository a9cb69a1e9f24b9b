// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fabric: which device answers at an address.
 *
 * All devices of this kernel can reach each other, across network namespaces, too, as long as both ports are up.
 * A QP asks once and keeps the answer until the fabric's generation changes.
 */
#include <rdma/ib_addr.h>
#include "tally.h"

/* Protects the list and, in each device and QP, what their comments say.  Taken under the HCA's locks. */
static DEFINE_SPINLOCK(fabric_lock);
static LIST_HEAD(fabric);

/* Shared by all devices, see struct hca_dev; written under fabric_lock. */
u32 tally_fabric_gen = 1;

/*
 * Answers from before this call are asked for again.  The change precedes it in the same critical section, so
 * who sees the new number and then takes the lock sees the change.
 */
static void fabric_changed(void)
{
	u32 next = tally_fabric_gen + 1;

	WRITE_ONCE(tally_fabric_gen, next ? next : 1);
}

/**
 * tally_fabric_join - a device can be found from here on
 * @dev: complete
 */
void tally_fabric_join(struct tally_dev *dev)
{
	spin_lock(&fabric_lock);
	list_add_tail(&dev->link, &fabric);
	fabric_changed();
	spin_unlock(&fabric_lock);
}

/**
 * tally_fabric_leave - a device is not found any more
 * @dev: the device; after the next grace period nobody uses an earlier answer that was it
 */
void tally_fabric_leave(struct tally_dev *dev)
{
	spin_lock(&fabric_lock);
	list_del_init(&dev->link);
	fabric_changed();
	spin_unlock(&fabric_lock);
}

/**
 * tally_fabric_set_port - a port went up or down
 * @dev: the device
 * @up: which
 *
 * Return: whether that is news.
 */
bool tally_fabric_set_port(struct tally_dev *dev, bool up)
{
	bool news;

	spin_lock(&fabric_lock);
	news = dev->port_up != up;
	if (news) {
		WRITE_ONCE(dev->port_up, up);
		fabric_changed();
	}
	spin_unlock(&fabric_lock);
	return news;
}

/**
 * tally_fabric_set_netdev - the netdev's address or packet size may have changed
 * @dev: the device
 * @ndev: its netdev
 */
void tally_fabric_set_netdev(struct tally_dev *dev, const struct net_device *ndev)
{
	spin_lock(&fabric_lock);
	dev->net = dev_net(ndev);
	ether_addr_copy(dev->mac, ndev->dev_addr);
	WRITE_ONCE(dev->mtu, iboe_get_mtu(ndev->mtu) ?: IB_MTU_256);
	fabric_changed();
	spin_unlock(&fabric_lock);
}

/**
 * tally_qp_set_route - a QP has got a peer's address
 * @qp: the QP; its owner holds qp->lock and then has hca_qp_modify() forget the earlier answer
 * @dgid: GID, or NULL: none any more
 * @dmac: MAC
 */
void tally_qp_set_route(struct tally_qp *qp, const union ib_gid *dgid, const u8 *dmac)
{
	spin_lock(&fabric_lock);
	qp->routed = dgid;
	if (dgid) {
		qp->dgid = *dgid;
		ether_addr_copy(qp->dmac, dmac);
	}
	spin_unlock(&fabric_lock);
}

static bool has_gid(const struct tally_dev *dev, const union ib_gid *gid)
{
	u32 i;

	for_each_set_bit(i, dev->gid_used, TALLY_NUM_GIDS)
		if (!memcmp(&dev->gids[i], gid, sizeof(*gid)))
			return true;
	return false;
}

/*
 * An own address is the own device.  Among others that have the address (namespaces may use the same ones) the
 * MAC that the network found decides, then the namespace.
 */
static struct tally_dev *find_peer(struct tally_dev *self, const union ib_gid *gid, const u8 *mac)
{
	struct tally_dev *dev, *found = NULL;

	if (has_gid(self, gid))
		return self;
	list_for_each_entry(dev, &fabric, link) {
		if (dev == self || !has_gid(dev, gid))
			continue;
		if (ether_addr_equal(dev->mac, mac))
			return dev;
		if (!found || (found->net != self->net && dev->net == self->net))
			found = dev;
	}
	return found;
}

/**
 * tally_route - hca_ops.route
 * @hca: the QP
 *
 * Return: the device that answers at the QP's remote address, or NULL.
 */
struct hca_dev *tally_route(struct hca_qp *hca)
{
	struct tally_qp *qp = hca_to_tqp(hca);
	struct tally_dev *self = hca_to_tdev(hca->dev);
	struct tally_dev *peer = NULL;

	spin_lock(&fabric_lock);
	if (qp->routed && self->port_up)
		peer = find_peer(self, &qp->dgid, qp->dmac);
	if (peer && !peer->port_up)
		peer = NULL;
	spin_unlock(&fabric_lock);
	return peer ? &peer->hca : NULL;
}

/**
 * tally_route_address - who answers at an address
 * @self: the device that asks
 * @av: the address
 *
 * Process context, under RCU.  Return: the device, or NULL.
 */
struct tally_dev *tally_route_address(struct tally_dev *self, const struct hca_av *av)
{
	struct tally_dev *peer = NULL;
	union ib_gid gid;

	memcpy(gid.raw, av->gid, sizeof(gid.raw));
	spin_lock(&fabric_lock);
	if (self->port_up)
		peer = find_peer(self, &gid, av->mac);
	if (peer && !peer->port_up)
		peer = NULL;
	spin_unlock(&fabric_lock);
	return peer;
}

/**
 * tally_route_av - hca_ops.route_av
 * @hca: the QP that sends there
 * @av: the address
 *
 * Return: the device that answers there, or NULL.
 */
struct hca_dev *tally_route_av(struct hca_qp *hca, const struct hca_av *av)
{
	struct tally_dev *peer = tally_route_address(hca_to_tdev(hca->dev), av);

	return peer ? &peer->hca : NULL;
}

/**
 * tally_is_there - hca_ops.is_there
 * @hca: a device, or what was one
 *
 * Return: whether it has joined the fabric and not left it; then it lives as long as the caller's RCU read section.
 */
bool tally_is_there(const struct hca_dev *hca)
{
	const struct tally_dev *dev;
	bool found = false;

	spin_lock(&fabric_lock);
	list_for_each_entry(dev, &fabric, link)
		found |= &dev->hca == hca;
	spin_unlock(&fabric_lock);
	return found;
}

/**
 * tally_gid_at - an own address
 * @dev: the device
 * @index: any value
 * @gid: set
 *
 * Return: whether there is one.
 */
bool tally_gid_at(struct tally_dev *dev, u32 index, union ib_gid *gid)
{
	bool valid;

	if (index >= TALLY_NUM_GIDS)
		return false;
	spin_lock(&fabric_lock);
	valid = test_bit(index, dev->gid_used);
	*gid = dev->gids[index];
	spin_unlock(&fabric_lock);
	return valid;
}

/**
 * tally_add_gid - ib_device_ops.add_gid
 * @attr: the entry
 * @context: unused
 *
 * Return: 0 or -EINVAL.
 */
int tally_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct tally_dev *dev = to_tdev(attr->device);

	if (attr->index >= TALLY_NUM_GIDS)
		return -EINVAL;
	spin_lock(&fabric_lock);
	dev->gids[attr->index] = attr->gid;
	__set_bit(attr->index, dev->gid_used);
	fabric_changed();
	spin_unlock(&fabric_lock);
	return 0;
}

/**
 * tally_del_gid - ib_device_ops.del_gid
 * @attr: the entry
 * @context: unused
 *
 * Return: 0 or -EINVAL.
 */
int tally_del_gid(const struct ib_gid_attr *attr, void **context)
{
	struct tally_dev *dev = to_tdev(attr->device);

	if (attr->index >= TALLY_NUM_GIDS)
		return -EINVAL;
	spin_lock(&fabric_lock);
	__clear_bit(attr->index, dev->gid_used);
	fabric_changed();
	spin_unlock(&fabric_lock);
	return 0;
}
