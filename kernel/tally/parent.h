/* SPDX-License-Identifier: GPL-2.0-only */
/* The device's parent in sysfs, which says what it is. */
#ifndef TALLY_PARENT_H
#define TALLY_PARENT_H

struct ib_device;

/* The generic virtual function, since peers ask for part ids that they know. */
#define TALLY_PART_ID 0x101e

/**
 * tally_parent_add - make a device's parent
 * @ib: the device, not registered yet
 *
 * The name is the kernel's choice: the device's own is the user's, and may be taken.
 *
 * Return: 0 or a negative errno.
 */
int tally_parent_add(struct ib_device *ib);

/* Take it away, if there is one; the device is not registered any more, or never was. */
void tally_parent_del(struct ib_device *ib);

#endif /* TALLY_PARENT_H */
