/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Completion counters for ib_core: what a provider implements and what it gets.
 *
 * A provider chains ib_comp_cntr_uapi_defs into its ib_device.driver_def (UAPI_DEF_CHAIN) and registers its ops
 * for the device before ib_register_device().
 */
#ifndef IB_COMP_CNTR_H
#define IB_COMP_CNTR_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/tally-abi.h>

struct ib_comp_cntr;
struct eventfd_ctx;

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
 * @comp: kernel address of the completion count, 8-byte aligned, zero at creation.  Caller's pinned memory or
 *	the counter's own; user space may see and change it at any time.
 * @err: same of the error count
 * @attached: how many QPs hold the counter.  The provider adds 1 when a QP gets its first bit of this counter,
 *	and drops it when that QP is destroyed; a counter with @attached > 0 is not destroyed (EBUSY).
 *
 * Lifetime: from ops.create to the return of ops.destroy.  @comp and @err stay valid until then.
 * @attached is raised only inside ops.attach, where the caller holds the uobject for reading, and destruction
 * holds it for writing: a counter seen unattached by destroy cannot become attached any more.
 */
struct ib_comp_cntr {
	struct ib_device *device;
	struct ib_uobject *uobject;
	enum tally_comp_cntr_type type;
	u64 *comp;
	u64 *err;
	atomic_t attached;
	/* the extension's own, see memory.c */
	struct ib_comp_cntr_memory *memory;
};

/**
 * struct ib_comp_cntr_ops - a provider's counters.  All are called in process context and may sleep.
 * @size: bytes of the provider's structure, with struct ib_comp_cntr as its first member
 * @caps: fill in what the device can do; constant for a device's life
 * @create: the structure is zeroed and everything in struct ib_comp_cntr is set; 0 or a negative errno
 *	(ENOMEM beyond max_counters)
 * @destroy: release what @create took; no waiter and no attached QP is left; cannot fail
 * @modify: set or increment one value; an increment is atomic against the device.  Fires waits and notifies.
 * @read: the value of one entry
 * @attach: QP in RESET or INIT (else EINVAL), no bit of @op_mask taken by another attachment of this QP (else
 *	EBUSY); all of the bits or none.  @op_mask is nonzero and within caps.
 * @wait: see TALLY_METHOD_COMP_CNTR_WAIT; @index gets the counter that ended the wait.  0, -EIO, -ETIMEDOUT,
 *	-EINTR.
 * @notify: arm one eventfd; the provider keeps a reference of its own until it has fired or the counter is
 *	destroyed.  @err_seen may be NULL.
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
	int (*notify)(struct ib_comp_cntr *cntr, u64 target, const u64 *err_seen, struct eventfd_ctx *ctx);
};

/* uverbs objects and methods, for UAPI_DEF_CHAIN() in the provider's driver_def. */
extern const struct uapi_definition ib_comp_cntr_uapi_defs[];

/**
 * ib_comp_cntr_register_ops - name a device's counter ops
 * @device: allocated, not yet registered
 * @ops: constant, lives as long as the device
 *
 * Return: 0, -ENOMEM, or -EEXIST if the device has ops already.
 */
int ib_comp_cntr_register_ops(struct ib_device *device, const struct ib_comp_cntr_ops *ops);

/**
 * ib_comp_cntr_unregister_ops - forget them
 * @device: after ib_unregister_device() (or when registration failed), before its memory is freed
 */
void ib_comp_cntr_unregister_ops(struct ib_device *device);

#endif /* IB_COMP_CNTR_H */
