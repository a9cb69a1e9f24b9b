/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Completion counters for ib_core: what a provider implements and what it gets.
 *
 * A provider
 * - chains ib_comp_cntr_uapi_defs into its ib_device.driver_def (UAPI_DEF_CHAIN),
 * - calls ib_comp_cntr_register_ops() before ib_register_device() and ib_comp_cntr_unregister_ops() after
 *   ib_unregister_device(), for instance in ib_device_ops.dealloc_driver,
 * - has ib_device_ops.disassociate_ucontext, as every device that can go away under its users.
 *
 * Device removal needs no call of the provider's.  The uverbs core waits for running ioctls before it takes a
 * device away, thus a removal would wait for a thread blocked in TALLY_METHOD_COMP_CNTR_WAIT.  The extension is
 * an ib_client that is told of the removal ahead of uverbs: it marks the device's counters as gone
 * (ib_comp_cntr_gone()) and calls ops.wake, and ops.wait returns.
 */
#ifndef IB_COMP_CNTR_H
#define IB_COMP_CNTR_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/tally-abi.h>

#ifdef TALLY_HAVE_UVERBS_COMP_CNTR
#error "This kernel has completion counters of its own: ib_comp_cntr is neither needed nor possible here"
#endif

struct eventfd_ctx;
struct ib_comp_cntr;
struct ib_comp_cntr_dev;
struct ib_comp_cntr_memory;

/**
 * struct ib_comp_cntr_caps - what a device can count
 * @max_value: largest value of either count; the increment past it wraps through zero
 * @max_counters: how many counters may exist on the device at once
 * @qp_attach_ops: supported bits of enum ib_uverbs_qp_attach_comp_cntr_op and of enum
 *	tally_qp_attach_comp_cntr_op
 */
struct ib_comp_cntr_caps {
	u64 max_value;
	u32 max_counters;
	u32 qp_attach_ops;
};

/**
 * struct ib_comp_cntr - a counter as the extension sees it; the provider embeds it
 * @device: the device, valid as long as the counter
 * @uobject: its uverbs object
 * @type: what a success adds
 * @comp: kernel address of the completion count, 8-byte aligned.  Caller's pinned memory or the counter's own;
 *	user space may see and change it at any time, so read it once and trust nothing about it.
 * @err: same of the error count, another word than @comp
 * @attached: how many QPs hold the counter, see ib_comp_cntr_get() and ib_comp_cntr_put(); a counter with
 *	@attached > 0 is not destroyed (EBUSY)
 * @dev: the extension's record of the device
 * @memory: the extension's, what keeps @comp and @err in place
 *
 * Lifetime: from ops.create to the return of ops.destroy; @comp and @err stay valid until then.  The extension
 * writes both values to zero right after ops.create has succeeded, before anybody can name the counter.
 *
 * Locking: all but @attached is constant.  MODIFY, READ, attach, WAIT and NOTIFY hold the uobject for reading
 * and may run at the same time; destruction holds it for writing.  @attached is raised only inside ops.attach,
 * thus a counter seen unattached by destruction cannot become attached any more.
 */
struct ib_comp_cntr {
	struct ib_device *device;
	struct ib_uobject *uobject;
	enum tally_comp_cntr_type type;
	u64 *comp;
	u64 *err;
	atomic_t attached;
	struct ib_comp_cntr_dev *dev;
	struct ib_comp_cntr_memory *memory;
};

/**
 * struct ib_comp_cntr_ops - a provider's counters
 * @size: bytes of the provider's structure, with struct ib_comp_cntr as its first member
 * @caps: fill in what the device can do; constant for a device's life
 * @create: the structure is zeroed and everything in struct ib_comp_cntr is set, the two values apart: they
 *	belong to the caller until @create has succeeded.  0 or a negative errno (ENOMEM beyond max_counters).
 * @destroy: release what @create took and drop what @notify armed, with a signal if ib_comp_cntr_gone(); no waiter
 *	and no attached QP is left; cannot fail
 * @modify: set or increment one value; an increment is atomic against the device and against other callers.
 *	@value is within caps.max_value.  Fires waits and notifies.
 * @read: the value of one entry
 * @attach: QP in RESET or INIT (else EINVAL), no bit of @op_mask taken by another attachment of this QP (else
 *	EBUSY); all of the bits or none.  @op_mask is nonzero and within caps.  @qp is nobody's shared handle
 *	(qp->real_qp == qp), and no other verb of this process runs on it.
 * @wait: block until the targets are reached, see TALLY_METHOD_COMP_CNTR_WAIT.  @cntrs are all of one device
 *	and each another one; 1 to TALLY_COMP_CNTR_WAIT_MAX of them.  @timeout_ns is relative, 0 looks once,
 *	TALLY_COMP_CNTR_WAIT_FOREVER sleeps without end.  @flags has known bits only.  Sleeps interruptibly.
 *	Returns 0 or -EIO with @index set, -ETIMEDOUT, -EINTR (or -ERESTARTSYS, which becomes -EINTR), and
 *	-ENODEV as soon as ib_comp_cntr_gone() is true.
 * @wake: make every @wait of the device look at ib_comp_cntr_gone() again; the mark is set before the call, a
 *	full barrier between them.  A provider whose @wait is a wait_event on one wait queue of the device, with
 *	ib_comp_cntr_gone() in its condition, needs one wake_up_all() here.  Any number of times.
 * @notify: arm one eventfd, or signal it at once if @target is reached already.  @err_seen may be NULL.  With
 *	success the reference on @ctx becomes the provider's (eventfd_ctx_put() after it has fired or in
 *	@destroy), with an error it stays the caller's.  The same target, error count and eventfd once more change
 *	nothing.  User space may arm without end: bound what one counter holds (ENOSPC) and charge it
 *	(GFP_KERNEL_ACCOUNT).
 *
 * All are required, called in process context, and may sleep.
 */
struct ib_comp_cntr_ops {
	size_t size;
	void (*caps)(struct ib_device *device, struct ib_comp_cntr_caps *caps);
	int (*create)(struct ib_comp_cntr *cntr);
	void (*destroy)(struct ib_comp_cntr *cntr);
	int (*modify)(struct ib_comp_cntr *cntr, enum ib_uverbs_comp_cntr_entry entry,
		      enum ib_uverbs_comp_cntr_modify_op op, u64 value);
	int (*read)(struct ib_comp_cntr *cntr, enum ib_uverbs_comp_cntr_entry entry, u64 *value);
	int (*attach)(struct ib_qp *qp, struct ib_comp_cntr *cntr, u32 op_mask);
	int (*wait)(struct ib_comp_cntr **cntrs, const struct tally_comp_cntr_target *targets, u32 num,
		    u64 timeout_ns, u32 flags, u32 *index);
	void (*wake)(struct ib_device *device);
	int (*notify)(struct ib_comp_cntr *cntr, u64 target, const u64 *err_seen, struct eventfd_ctx *ctx);
};

/* uverbs objects and methods, for UAPI_DEF_CHAIN() in the provider's driver_def. */
extern const struct uapi_definition ib_comp_cntr_uapi_defs[];

/**
 * ib_comp_cntr_get - a QP starts to hold a counter
 * @cntr: the counter
 *
 * Only from ops.attach, once for each (QP, counter) pair, at its first bit.
 */
static inline void ib_comp_cntr_get(struct ib_comp_cntr *cntr)
{
	atomic_inc(&cntr->attached);
}

/**
 * ib_comp_cntr_put - the QP is gone
 * @cntr: the counter; may be freed as soon as this is called
 *
 * From the provider's destroy_qp, when nothing of the QP touches the counter or its two values any more.  A
 * destroy_qp that fails must not have called it.
 */
static inline void ib_comp_cntr_put(struct ib_comp_cntr *cntr)
{
	/* Release: all that the QP did to the counter is over; pairs with the acquire in comp_cntr_free(). */
	atomic_dec_return_release(&cntr->attached);
}

/**
 * ib_comp_cntr_register_ops - name a device's counter ops
 * @device: allocated, not yet registered
 * @ops: constant, lives as long as the device
 *
 * Return: 0, -ENOMEM, -EINVAL for incomplete ops, or -EEXIST if the device has ops already.
 */
int ib_comp_cntr_register_ops(struct ib_device *device, const struct ib_comp_cntr_ops *ops);

/**
 * ib_comp_cntr_unregister_ops - forget them
 * @device: after ib_unregister_device() (or when registration failed), before its memory is freed
 *
 * A device without ops is fine.
 */
void ib_comp_cntr_unregister_ops(struct ib_device *device);

/**
 * ib_comp_cntr_gone - is the device being removed?
 * @cntr: one of its counters
 *
 * For the condition of ops.wait.  Once true, it stays true for as long as the counter lives, unless the counter was
 * made while the device arrived in another network namespace.
 *
 * Return: whether a wait has to end.
 */
bool ib_comp_cntr_gone(const struct ib_comp_cntr *cntr);

#endif /* IB_COMP_CNTR_H */
