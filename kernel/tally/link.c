// SPDX-License-Identifier: GPL-2.0-only
/* Devices come by "rdma link add ... type tally netdev ...", live with their netdev, and go with it. */
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <rdma/rdma_netlink.h>
#include "tally.h"

MODULE_ALIAS_RDMA_LINK("tally");

/*
 * Devices from newlink until no code of this module runs for them any more; their memory is there as long as they
 * are on the list.  registered_lock also covers tally_dev.ndev, and is taken inside rtnl.
 */
static LIST_HEAD(registered);
static DEFINE_MUTEX(registered_lock);

/* Where dead devices leave the list. */
static struct workqueue_struct *reaper;

/* The device of a netdev, referenced so that it stays registered; NULL if there is none. */
static struct tally_dev *get_by_netdev(const struct net_device *ndev)
{
	struct tally_dev *dev, *found = NULL;

	mutex_lock(&registered_lock);
	list_for_each_entry(dev, &registered, registered) {
		if (dev->ndev == ndev && ib_device_try_get(&dev->ib)) {
			found = dev;
			break;
		}
	}
	mutex_unlock(&registered_lock);
	return found;
}

static void set_port(struct tally_dev *dev, const struct net_device *ndev)
{
	bool up = netif_running(ndev) && netif_carrier_ok(ndev);
	struct ib_event event = {
		.device = &dev->ib,
		.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
		.element.port_num = 1,
	};

	if (tally_fabric_set_port(dev, up))
		ib_dispatch_event(&event);
}

static int netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(info);
	struct tally_dev *dev;

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEADDR:
	case NETDEV_CHANGEMTU:
	case NETDEV_UNREGISTER:
		break;
	default:
		return NOTIFY_DONE;
	}
	dev = get_by_netdev(ndev);
	if (!dev)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_UNREGISTER: /* also when it moves to another namespace */
		ib_unregister_device_queued(&dev->ib);
		break;
	case NETDEV_CHANGEADDR:
	case NETDEV_CHANGEMTU:
		tally_fabric_set_netdev(dev, ndev);
		break;
	default:
		set_port(dev, ndev);
		break;
	}
	ib_device_put(&dev->ib);
	return NOTIFY_OK;
}

static struct notifier_block netdev_notifier = {
	.notifier_call = netdev_event,
};

/* Runs when dealloc_driver has been called, and waits until that has returned. */
static void reap(struct work_struct *work)
{
	struct tally_dev *dev = container_of(work, struct tally_dev, reap);

	/* Does nothing but wait for whoever is unregistering. */
	ib_unregister_device(&dev->ib);
	mutex_lock(&registered_lock);
	list_del(&dev->registered);
	mutex_unlock(&registered_lock);
	put_device(&dev->ib.dev);
}

/**
 * tally_dealloc_driver - ib_device_ops.dealloc_driver
 * @ib: has no user left, or never had one
 */
void tally_dealloc_driver(struct ib_device *ib)
{
	struct tally_dev *dev = to_tdev(ib);

	tally_fabric_leave(dev);
	/* Peers that still have the device as the answer to an earlier question. */
	synchronize_rcu();
	tally_dev_free_parts(dev);

	mutex_lock(&registered_lock);
	dev->ndev = NULL;
	if (!list_empty(&dev->registered)) {
		get_device(&ib->dev);
		queue_work(reaper, &dev->reap);
	}
	mutex_unlock(&registered_lock);
}

/* One device per netdev: two would have the same addresses. */
static int list_device(struct tally_dev *dev)
{
	struct tally_dev *other;
	int ret = 0;

	mutex_lock(&registered_lock);
	list_for_each_entry(other, &registered, registered)
		if (other->ndev == dev->ndev)
			ret = -EEXIST;
	if (!ret)
		list_add_tail(&dev->registered, &registered);
	mutex_unlock(&registered_lock);
	return ret;
}

/*
 * Catches up with what happened to the netdev, which was in @net, while the device could not be found by the notifier.
 * One that has moved is registered again by now.
 */
static void catch_up(struct tally_dev *dev, struct net_device *ndev, const struct net *net)
{
	rtnl_lock();
	if (!ib_device_try_get(&dev->ib)) {
		rtnl_unlock();
		return;
	}
	tally_fabric_set_netdev(dev, ndev);
	set_port(dev, ndev);
	if (ndev->reg_state != NETREG_REGISTERED || dev_net(ndev) != net)
		ib_unregister_device_queued(&dev->ib);
	ib_device_put(&dev->ib);
	rtnl_unlock();
}

static int newlink(const char *name, struct net_device *ndev)
{
	const struct net *net = dev_net(ndev);
	struct tally_dev *dev;
	int ret;

	if (ndev->type != ARPHRD_ETHER || ndev->addr_len != ETH_ALEN)
		return -EINVAL;
	dev = tally_dev_alloc(ndev, name);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	INIT_WORK(&dev->reap, reap);
	ret = list_device(dev);
	if (ret)
		goto err;
	tally_fabric_join(dev);
	tally_fabric_set_port(dev, netif_running(ndev) && netif_carrier_ok(ndev));
	ret = ib_device_set_netdev(&dev->ib, ndev, 1);
	if (ret)
		goto err;
	/* For what comes after registration, when anybody may unregister it. */
	get_device(&dev->ib.dev);
	ret = ib_register_device(&dev->ib, name, NULL);
	if (ret) {
		put_device(&dev->ib.dev);
		goto err;
	}
	catch_up(dev, ndev, net);
	put_device(&dev->ib.dev);
	return 0;

err:
	ib_dealloc_device(&dev->ib);
	return ret;
}

static struct rdma_link_ops link_ops = {
	.type = "tally",
	.newlink = newlink,
};

/**
 * tally_link_init - let devices come
 *
 * Return: 0 or a negative errno.
 */
int tally_link_init(void)
{
	int ret;

	reaper = alloc_workqueue("tally_reaper", WQ_UNBOUND, 0);
	if (!reaper)
		return -ENOMEM;
	ret = register_netdevice_notifier(&netdev_notifier);
	if (ret) {
		destroy_workqueue(reaper);
		return ret;
	}
	rdma_link_register(&link_ops);
	return 0;
}

/* The first device on the list, with its memory held; NULL when there is none. */
static struct tally_dev *first_device(void)
{
	struct tally_dev *dev;

	mutex_lock(&registered_lock);
	dev = list_first_entry_or_null(&registered, struct tally_dev, registered);
	if (dev)
		get_device(&dev->ib.dev);
	mutex_unlock(&registered_lock);
	return dev;
}

/**
 * tally_link_exit - take all devices away, whoever uses them
 *
 * One by one: the driver id is not ours alone, and ib_unregister_driver() would take real cards away, too.
 */
void tally_link_exit(void)
{
	struct tally_dev *dev;

	rdma_link_unregister(&link_ops);
	while ((dev = first_device())) {
		ib_unregister_device(&dev->ib);
		put_device(&dev->ib.dev);
		flush_workqueue(reaper);
	}
	unregister_netdevice_notifier(&netdev_notifier);
	destroy_workqueue(reaper);
}
