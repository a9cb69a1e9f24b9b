/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion counters: what goes beyond the upstream ABI, in the driver namespace of UVERBS_OBJECT_COMP_CNTR.
 *
 * New attributes and methods are appended; an existing number or layout never changes.  Whatever a caller does
 * not pass keeps its upstream meaning.
 */
#ifndef TALLY_ABI_H
#define TALLY_ABI_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_comp_cntr.h>

/* Further classes of work, in the mask of UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK. */
enum tally_qp_attach_comp_cntr_op {
	TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC	   = 1 << 16,
	TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC = 1 << 17,
	TALLY_QP_ATTACH_COMP_CNTR_OP_MEMCPY	   = 1 << 18,
	TALLY_QP_ATTACH_COMP_CNTR_OP_UMR	   = 1 << 19,
};

/* Driver attributes of UVERBS_METHOD_COMP_CNTR_CREATE, all optional. */
enum tally_create_comp_cntr_attrs {
	/* in, struct ib_uverbs_buffer_desc: where the completion count lives, 8 bytes, 8-byte aligned */
	TALLY_ATTR_CREATE_COMP_CNTR_COMP_BUFFER = (1U << UVERBS_ID_NS_SHIFT),
	/* in, struct ib_uverbs_buffer_desc: where the error count lives; both buffers or neither */
	TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER,
	/* const in: enum tally_comp_cntr_type, 0 without it */
	TALLY_ATTR_CREATE_COMP_CNTR_TYPE,
};

enum tally_comp_cntr_type {
	TALLY_COMP_CNTR_TYPE_WRS,   /* an operation adds 1 */
	TALLY_COMP_CNTR_TYPE_BYTES, /* a successful operation adds its payload's length */
};

/* Driver methods of UVERBS_OBJECT_COMP_CNTR. */
enum tally_methods_comp_cntr {
	TALLY_METHOD_COMP_CNTR_WAIT = (1U << UVERBS_ID_NS_SHIFT),
	TALLY_METHOD_COMP_CNTR_NOTIFY,
};

/**
 * struct tally_comp_cntr_target - what is waited for on one counter
 * @value: reached when (completion count - @value) modulo 2^64 is below 2^63
 * @err_seen: the error count the caller knows of; another one ends the wait with EIO
 */
struct tally_comp_cntr_target {
	__aligned_u64 value;
	__aligned_u64 err_seen;
};

#define TALLY_COMP_CNTR_WAIT_MAX 64 /* counters in one wait */

#define TALLY_COMP_CNTR_WAIT_FOREVER (~0ULL)

enum tally_comp_cntr_wait_flags {
	TALLY_COMP_CNTR_WAIT_ANY = 1 << 0, /* one target is enough; without it, all of them */
};

/*
 * WAIT blocks until the targets are reached (0), an error count moved (EIO), the time is over (ETIMEDOUT), a
 * signal came (EINTR) or the device is taken away (ENODEV).  A reached target wins over a moved error count.
 * Each handle may be there once (else EINVAL).  Once the device has gone every command ends with EIO; this one then
 * without RESP_INDEX.
 */
enum tally_wait_comp_cntr_attrs {
	TALLY_ATTR_WAIT_COMP_CNTR_HANDLES = (1U << UVERBS_ID_NS_SHIFT), /* array of idr, read, 1 to WAIT_MAX */
	TALLY_ATTR_WAIT_COMP_CNTR_TARGETS,    /* in, one struct tally_comp_cntr_target per handle */
	TALLY_ATTR_WAIT_COMP_CNTR_TIMEOUT_NS, /* in, u64, relative, CLOCK_MONOTONIC; 0 looks once */
	TALLY_ATTR_WAIT_COMP_CNTR_FLAGS,      /* in, u32, optional: tally_comp_cntr_wait_flags */
	TALLY_ATTR_WAIT_COMP_CNTR_RESP_INDEX, /* out, u32, optional: who ended it: reached (ANY) or failed (EIO) */
};

/*
 * NOTIFY adds 1 to an eventfd once, when the target is reached; at once if it is already.  With ERR_SEEN it
 * also fires when the error count is another one.  To arm the same once more changes nothing; what is armed otherwise
 * adds up, ENOSPC from a limit of the device's on.  When the device is taken away what is armed fires; a counter's
 * destruction by its owner drops it, silently.
 */
enum tally_notify_comp_cntr_attrs {
	TALLY_ATTR_NOTIFY_COMP_CNTR_HANDLE = (1U << UVERBS_ID_NS_SHIFT), /* idr, read */
	TALLY_ATTR_NOTIFY_COMP_CNTR_EVENTFD,  /* raw fd */
	TALLY_ATTR_NOTIFY_COMP_CNTR_TARGET,   /* in, u64 */
	TALLY_ATTR_NOTIFY_COMP_CNTR_ERR_SEEN, /* in, u64, optional */
};

#endif /* TALLY_ABI_H */
