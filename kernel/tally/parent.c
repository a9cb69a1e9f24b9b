// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a device hangs from in sysfs.
 *
 * Programs tell adapters apart by the PCI ids in their parent's folder, /sys/class/infiniband/NAME/device.  There is
 * no PCI function here; the parent is a platform device that says which one its child behaves like.
 */
#include <linux/pci_ids.h>
#include <linux/platform_device.h>
#include <linux/sysfs.h>
#include <rdma/ib_verbs.h>
#include "parent.h"

static ssize_t vendor_show(struct device *parent, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%04x\n", PCI_VENDOR_ID_MELLANOX);
}
static DEVICE_ATTR_RO(vendor);

static ssize_t device_show(struct device *parent, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%04x\n", TALLY_PART_ID);
}
static DEVICE_ATTR_RO(device);

static struct attribute *parent_attrs[] = {
	&dev_attr_vendor.attr,
	&dev_attr_device.attr,
	NULL,
};
ATTRIBUTE_GROUPS(parent);

int tally_parent_add(struct ib_device *ib)
{
	struct platform_device *pdev;
	int ret;

	pdev = platform_device_alloc("tally", PLATFORM_DEVID_AUTO);
	if (!pdev)
		return -ENOMEM;
	pdev->dev.groups = parent_groups;
	ret = platform_device_add(pdev);
	if (ret) {
		platform_device_put(pdev);
		return ret;
	}
	ib->dev.parent = &pdev->dev;
	return 0;
}

void tally_parent_del(struct ib_device *ib)
{
	struct device *parent = ib->dev.parent;

	if (!parent)
		return;
	ib->dev.parent = NULL;
	platform_device_unregister(to_platform_device(parent));
}
