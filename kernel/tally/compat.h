/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the kernels this builds for differ. */
#ifndef TALLY_COMPAT_H
#define TALLY_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>
#include <rdma/uverbs_ioctl.h>

#ifndef CONFIG_64BIT
#error "Memory is reached through the kernel's linear mapping, which only 64-bit kernels have of all of it"
#endif

/* What tally_uars_exit() relies on; without preemption, synchronize_rcu_tasks() is synchronize_rcu(), and suffices. */
#if defined(CONFIG_PREEMPTION) && !defined(CONFIG_TASKS_RCU)
#error "A preemptible kernel needs CONFIG_TASKS_RCU"
#endif

/* ib_device_ops.create_cq: all attributes since 6.11, before that the driver's own. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define TALLY_CREATE_CQ_ATTRS	  struct uverbs_attr_bundle
#define tally_create_cq_udata(attrs) ((attrs) ? &(attrs)->driver_udata : NULL)
#else
#define TALLY_CREATE_CQ_ATTRS	  struct ib_udata
#define tally_create_cq_udata(attrs) (attrs)
#endif

/* ib_device_ops.reg_user_mr_dmabuf: likewise, since 6.12. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#define TALLY_DMABUF_ATTRS struct uverbs_attr_bundle
#else
#define TALLY_DMABUF_ATTRS struct ib_udata
#endif

/* ib_device_ops.fill_res_srq_entry is there since 6.7. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#define TALLY_FILL_RES_SRQ(fn) .fill_res_srq_entry = (fn),
#else
#define TALLY_FILL_RES_SRQ(fn)
#endif

/* Signals once; the count went away in 6.8. */
static inline void tally_eventfd_signal(struct eventfd_ctx *ctx)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	eventfd_signal(ctx);
#else
	eventfd_signal(ctx, 1);
#endif
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* Until 6.4 there were no locks on single VMAs: mmap_lock alone keeps faults out. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
static inline void vma_start_write(struct vm_area_struct *vma)
{
}
#endif

/* Since 6.6 a fault may be handled under the lock of its VMA. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
static inline void release_fault_lock(struct vm_fault *vmf)
{
	mmap_read_unlock(vmf->vma->vm_mm);
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif /* TALLY_COMPAT_H */
