// SPDX-License-Identifier: GPL-2.0-only
/* Which device has counters, who implements them, and is it about to go away. */
#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include "core.h"

/* Readers use RCU, writers hold registry_lock. */
static DEFINE_HASHTABLE(registry, 6);
static DEFINE_MUTEX(registry_lock);

/**
 * comp_cntr_find_dev - look a device up
 * @device: a device in use, so its record cannot go away before the caller is done with it
 *
 * Return: the record, or NULL for a device without counters.
 */
struct ib_comp_cntr_dev *comp_cntr_find_dev(struct ib_device *device)
{
	struct ib_comp_cntr_dev *dev;

	rcu_read_lock();
	hash_for_each_possible_rcu(registry, dev, node, (unsigned long)device) {
		if (dev->device == device) {
			rcu_read_unlock();
			return dev;
		}
	}
	rcu_read_unlock();
	return NULL;
}

int ib_comp_cntr_register_ops(struct ib_device *device, const struct ib_comp_cntr_ops *ops)
{
	struct ib_comp_cntr_dev *dev;

	if (WARN_ON(ops->size < sizeof(struct ib_comp_cntr) || !ops->caps || !ops->create || !ops->destroy ||
		    !ops->modify || !ops->read || !ops->attach || !ops->wait || !ops->wake || !ops->notify))
		return -EINVAL;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	dev->device = device;
	dev->ops = ops;

	mutex_lock(&registry_lock);
	if (comp_cntr_find_dev(device)) {
		mutex_unlock(&registry_lock);
		kfree(dev);
		return -EEXIST;
	}
	hash_add_rcu(registry, &dev->node, (unsigned long)device);
	mutex_unlock(&registry_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(ib_comp_cntr_register_ops);

void ib_comp_cntr_unregister_ops(struct ib_device *device)
{
	struct ib_comp_cntr_dev *dev;

	mutex_lock(&registry_lock);
	dev = comp_cntr_find_dev(device);
	if (dev)
		hash_del_rcu(&dev->node);
	mutex_unlock(&registry_lock);
	if (!dev)
		return;

	/* The device has no user left, so none of its counters may have been left either. */
	WARN_ON(atomic_read(&dev->num));
	kfree_rcu(dev, rcu);
}
EXPORT_SYMBOL_GPL(ib_comp_cntr_unregister_ops);

bool ib_comp_cntr_gone(const struct ib_comp_cntr *cntr)
{
	return READ_ONCE(cntr->dev->gone);
}
EXPORT_SYMBOL_GPL(ib_comp_cntr_gone);

static struct ib_client comp_cntr_client;

/* A device has come, or is back from a move to another network namespace. */
static int comp_cntr_add_device(struct ib_device *device)
{
	struct ib_comp_cntr_dev *dev = comp_cntr_find_dev(device);

	if (!dev)
		return -EOPNOTSUPP;
	WRITE_ONCE(dev->gone, false);
	ib_set_client_data(device, &comp_cntr_client, dev);
	return 0;
}

/*
 * The device is about to leave its clients.  They are told in the reverse order of their registration, and
 * ib_uverbs, which this module links against, has registered first: its turn, where it waits for the ioctls
 * that run, comes after this one.
 */
static void comp_cntr_remove_device(struct ib_device *device, void *client_data)
{
	struct ib_comp_cntr_dev *dev = client_data;

	WRITE_ONCE(dev->gone, true);
	/* A waiter that has missed the mark is on its queue by now, and wake finds it there. */
	smp_mb();
	dev->ops->wake(device);
}

static struct ib_client comp_cntr_client = {
	.name = "comp_cntr",
	.no_kverbs_req = true,
	.add = comp_cntr_add_device,
	.remove = comp_cntr_remove_device,
};

/**
 * comp_cntr_ops_init - start to hear of devices
 *
 * Return: 0 or a negative errno.
 */
int comp_cntr_ops_init(void)
{
	return ib_register_client(&comp_cntr_client);
}

/**
 * comp_cntr_ops_exit - stop it
 *
 * No provider is left: each links against this module.
 */
void comp_cntr_ops_exit(void)
{
	ib_unregister_client(&comp_cntr_client);
	WARN_ON(!hash_empty(registry));
}
