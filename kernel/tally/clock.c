// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's clock: the kernel's monotonic clock in nanoseconds, from which completions get their timestamps,
 * and a page that says how to make wall-clock time of them.
 *
 * The two clocks run equally fast, so the page changes only when somebody has set the wall clock.  That is looked
 * for when a program opens the device.
 *
 * There is no page to read the clock itself from (ibv_query_rt_values_ex()): such a page is a register, which
 * memory cannot be.
 */
#include <linux/mm.h>
#include <linux/timekeeping.h>
#include "tally.h"

/* Of the raw format; half of the range is in the past. */
#define CLOCK_MASK TALLY_TIMESTAMP_MASK

/* What is to be added to the monotonic clock, in the arithmetic of 64 bits. */
static u64 offset_of(const struct mlx5_ib_clock_info *info)
{
	return info->nsec - info->cycles;
}

/**
 * tally_clock_update - look whether the wall clock has been set
 * @dev: the device
 */
void tally_clock_update(struct tally_dev *dev)
{
	struct mlx5_ib_clock_info *info = page_address(dev->clock);
	u64 cycles, nsec;
	u32 sign;

	mutex_lock(&dev->clock_lock);
	cycles = ktime_get_ns();
	nsec = ktime_to_ns(ktime_mono_to_real(ns_to_ktime(cycles)));
	if (info->mask && offset_of(info) == nsec - cycles)
		goto out;

	sign = info->sign;
	WRITE_ONCE(info->sign, sign | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
	/* Pairs with the library's second look at @sign, after its copy. */
	smp_wmb();
	WRITE_ONCE(info->nsec, nsec);
	WRITE_ONCE(info->cycles, cycles);
	WRITE_ONCE(info->mult, 1);
	WRITE_ONCE(info->mask, CLOCK_MASK);
	/* Nanoseconds for which the conversion is good. */
	WRITE_ONCE(info->overflow_period, CLOCK_MASK / 2);
	/* Pairs with the library's first look. */
	smp_store_release(&info->sign, sign + 2 * MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
out:
	mutex_unlock(&dev->clock_lock);
}

/**
 * tally_clock_init - make the page
 * @dev: the device
 *
 * Return: 0 or -ENOMEM.
 */
int tally_clock_init(struct tally_dev *dev)
{
	dev->clock = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!dev->clock)
		return -ENOMEM;
	mutex_init(&dev->clock_lock);
	tally_clock_update(dev);
	return 0;
}

/**
 * tally_clock_free - forget the page; mappings keep it
 * @dev: the device, perhaps half made
 */
void tally_clock_free(struct tally_dev *dev)
{
	if (dev->clock)
		__free_page(dev->clock);
}

/**
 * tally_clock_mmap - map the page
 * @ctx: whose mapping it is
 * @vma: the mapping
 * @index: version of the page's layout
 *
 * Return: 0 or a negative errno.
 */
int tally_clock_mmap(struct tally_ucontext *ctx, struct vm_area_struct *vma, u32 index)
{
	if (vma->vm_end - vma->vm_start != PAGE_SIZE || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (index != MLX5_IB_CLOCK_INFO_V1)
		return -EOPNOTSUPP;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE);
	return vm_insert_page(vma, vma->vm_start, to_tdev(ctx->ib.device)->clock);
}
