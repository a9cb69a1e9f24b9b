/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion counters: the verbs.
 *
 * A completion counter is a pair of 64-bit values: how many operations finished well, and how many failed.  It
 * is attached to queue pairs, for the kinds of operations the program wants counted, and then "how many are
 * done" is one load instead of one CQE per operation.
 *
 * Names, types and values are those of libibverbs from rdma-core 64 on.  With an older libibverbs this header
 * declares them; with a newer one it leaves that to <infiniband/verbs.h>, and libtally hands every call on to
 * libibverbs where the device's own provider has counters.
 *
 * Unless said otherwise a function returns 0, or the errno value of what went wrong (it does not set errno).
 * All of them may be called from any thread; only the destruction of a counter must not race with its use.
 */
#ifndef TALLY_VERBS_H
#define TALLY_VERBS_H

#include <stdint.h>
#include <infiniband/verbs.h>
#include <tally/config.h>

#ifdef __cplusplus
extern "C" {
#endif

#if !TALLY_HAVE_IBV_COMP_CNTR

/** Kinds of operations a counter can count on a queue pair; a mask of them goes into the attachment. */
enum ibv_qp_attach_comp_cntr_op {
	/** SEND in all its forms (with immediate, with invalidate), posted on this queue pair. */
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
	/** Receives of this queue pair or taken from its shared receive queue. */
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
	/** RDMA READ posted on this queue pair. */
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
	/** RDMA READ of the peer, served by this queue pair. */
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
	/** RDMA WRITE (with or without immediate) posted on this queue pair. */
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
	/** RDMA WRITE (with or without immediate) of the peer into memory of this side. */
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
};

/** What a device can count. */
struct ibv_comp_cntr_caps {
	/** Largest value of either count; the increment that passes it goes through zero. */
	uint64_t max_value;
	/** Counters that can exist on the device at once. */
	uint32_t max_counters;
	/** Mask of enum ibv_qp_attach_comp_cntr_op (and enum tally_qp_attach_comp_cntr_op). */
	uint32_t supported_qp_attach_ops;
};

/** A completion counter. */
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

/** What a finished operation adds to the completion count.  The error count counts operations in both. */
enum ibv_comp_cntr_type {
	IBV_COMP_CNTR_TYPE_WRS,	  /* 1 */
	IBV_COMP_CNTR_TYPE_BYTES, /* the length of its payload */
};

struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask; /* must be 0 */
	enum ibv_comp_cntr_type type;
	uint32_t flags; /* must be 0 */
};

struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask; /* must be 0 */
	uint32_t op_mask;   /* enum ibv_qp_attach_comp_cntr_op, at least one */
};

/**
 * ibv_query_comp_cntr_caps - ask a device what it can count
 * @context: the device
 * @caps: filled in; all zero if the call fails
 *
 * ENOTSUP: the device, its driver or the kernel has no completion counters.
 */
int ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps);

/**
 * ibv_create_comp_cntr - create a completion counter
 * @context: the device
 * @attr: its type
 *
 * Both counts start at 0.  Nothing is counted until the counter is attached to a queue pair.
 *
 * Returns the counter, or NULL and sets errno.  EINVAL: comp_mask or flags is not 0.  ENOTSUP: the type is
 * unknown, or the device has no counters.  ENOMEM: the device has no more of them.
 */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr);

/**
 * ibv_destroy_comp_cntr - destroy a completion counter
 * @cntr: the counter
 *
 * EBUSY: a queue pair holds it, until that is destroyed, or a thread waits on it; it goes on counting.  EINVAL: it
 * belongs to a group, see tally_destroy_comp_cntr_group().
 */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr);

/**
 * ibv_set_comp_cntr - set the completion count
 * @cntr: the counter
 * @value: the new value
 *
 * Nothing may be counting meanwhile: an operation that finishes during the call can be lost.
 *
 * EINVAL: the value is beyond max_value (see ibv_query_comp_cntr_caps()).  EBUSY: on a kernel that has counters of
 * its own another call may be using this one; Tally's module lets them share it.
 */
int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);

/** ibv_set_err_comp_cntr - set the error count; otherwise like ibv_set_comp_cntr() */
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);

/**
 * ibv_inc_comp_cntr - add to the completion count
 * @cntr: the counter
 * @amount: what is added
 *
 * Atomic against the device and against other callers; wakes those who wait for the new value.  Errors as of
 * ibv_set_comp_cntr().
 */
int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);

/** ibv_inc_err_comp_cntr - add to the error count; otherwise like ibv_inc_comp_cntr() */
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);

/**
 * ibv_read_comp_cntr - read the completion count
 * @cntr: the counter
 * @value: gets the count
 *
 * A load with acquire ordering, no system call: when the count has reached n, the payload of those n operations
 * is visible to the caller, and for signaled ones so is the CQE.  (Only where the device cannot count in memory
 * of the process does it ask the kernel.)
 */
int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);

/** ibv_read_err_comp_cntr - read the error count; otherwise like ibv_read_comp_cntr() */
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);

/**
 * ibv_qp_attach_comp_cntr - let a counter count operations of a queue pair
 * @qp: the queue pair, in state RESET or INIT
 * @cntr: a counter of the same device context
 * @attr: the operations
 *
 * Signaled or not, each operation of these kinds that finishes from now on is counted, flushed ones as errors.
 * A counter may be attached to many queue pairs, and a queue pair may hold many counters, as long as each of its
 * kinds of operations has one at most.  The attachment lasts until the queue pair is destroyed.
 *
 * EINVAL: wrong state, comp_mask not 0, op_mask 0, a counter of another context.  ENOTSUP: an operation the device
 * cannot count, or a queue pair that processes share (XRC target, opened one).  EBUSY: one of the operations has a
 * counter on this queue pair already; nothing has changed.
 */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr, struct ibv_qp_attach_comp_cntr_attr *attr);

#endif /* !TALLY_HAVE_IBV_COMP_CNTR */

#ifdef __cplusplus
}
#endif

#endif /* TALLY_VERBS_H */
