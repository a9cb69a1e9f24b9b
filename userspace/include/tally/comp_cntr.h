/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion counters: what goes beyond the verbs.
 *
 * Counters in memory of the caller's choice, waits without spinning, notification through an eventfd, and groups
 * of counters that lie side by side.  They work on counters of ibv_create_comp_cntr() as well, but need a
 * device whose driver has these extensions; on any other they fail with ENOTSUP.
 *
 * Unless said otherwise a function returns 0, or the errno value of what went wrong (it does not set errno).
 */
#ifndef TALLY_COMP_CNTR_H
#define TALLY_COMP_CNTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tally/verbs.h>
#include <rdma/tally-abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where the two counts of a counter live. */
enum tally_memory_type {
	TALLY_MEMORY_LIBRARY, /* the library finds a place */
	TALLY_MEMORY_VA,      /* memory of this process */
	TALLY_MEMORY_DMABUF,  /* a dma-buf, which another process or a GPU may watch */
};

/**
 * struct tally_memory - memory for counts
 * @type: what it is; TALLY_MEMORY_LIBRARY needs nothing else
 * @fd: TALLY_MEMORY_DMABUF: the dma-buf; may be closed once the counter exists
 * @addr: TALLY_MEMORY_VA: the address.  TALLY_MEMORY_DMABUF: where this process has mapped that very place, or
 *	NULL if it has not; then reading asks the kernel.
 * @offset: TALLY_MEMORY_DMABUF: bytes from its start
 *
 * Address and offset are multiples of 8 (else EINVAL).  The memory must stay mapped and in place until the counter
 * is destroyed, and nobody but the device may write to it: use ibv_set_comp_cntr() and its like.
 */
struct tally_memory {
	enum tally_memory_type type;
	int fd;
	void *addr;
	uint64_t offset;
};

/**
 * struct tally_comp_cntr_init_attr - a counter with memory of the caller's choice
 * @comp_mask: must be 0
 * @type: what a success adds
 * @flags: must be 0
 * @comp: where the completion count lives, 8 bytes
 * @err: where the error count lives, 8 bytes; both in the caller's memory, or both in the library's
 */
struct tally_comp_cntr_init_attr {
	uint32_t comp_mask;
	enum ibv_comp_cntr_type type;
	uint32_t flags;
	struct tally_memory comp;
	struct tally_memory err;
};

/**
 * tally_create_comp_cntr - create a counter whose counts live in memory of the caller's choice
 * @context: the device
 * @attr: type and memory
 *
 * The creation sets both counts to 0.  All functions on counters work on it; ibv_destroy_comp_cntr() ends it and
 * leaves the memory to the caller, with the last counts in it.
 *
 * Returns the counter, or NULL and sets errno: the values of ibv_create_comp_cntr(), and EINVAL: the memory is
 * not aligned, the two counts overlap, only one is given, or @fd is no dma-buf or too short.  EFAULT: it is not there
 * or cannot be written to.  EBADF: @fd is no open file.  EACCES: it is a dma-buf that is not open for writing.
 * ENOTSUP: the device cannot count there (a dma-buf that the CPU cannot reach).  ENOMEM: it cannot be pinned (see
 * RLIMIT_MEMLOCK); EPERM if that limit is 0.
 */
struct ibv_comp_cntr *tally_create_comp_cntr(struct ibv_context *context, const struct tally_comp_cntr_init_attr *attr);

/**
 * struct tally_comp_cntr_words - the two counts in memory
 * @comp: the completion count
 * @err: the error count
 *
 * For those who watch by themselves, an accelerator above all.  Load each with acquire ordering
 * (__atomic_load_n(p, __ATOMIC_ACQUIRE)) and the payload of what was counted is visible.  Never write.
 */
struct tally_comp_cntr_words {
	const uint64_t *comp;
	const uint64_t *err;
};

/**
 * tally_get_comp_cntr_words - where the counts of a counter are
 * @cntr: the counter
 * @words: gets the addresses, valid until the counter is destroyed
 *
 * ENOTSUP: they are not in memory of this process.
 */
int tally_get_comp_cntr_words(const struct ibv_comp_cntr *cntr, struct tally_comp_cntr_words *words);

/**
 * tally_comp_cntr_reached - has a count reached a target?
 * @count: the completion count
 * @target: what is waited for
 *
 * Counts wrap, so "reached" means at most 2^63 - 1 ahead of the target.
 */
static inline bool tally_comp_cntr_reached(uint64_t count, uint64_t target)
{
	return count - target < UINT64_C(1) << 63;
}

/**
 * tally_wait_comp_cntr - sleep until a counter has reached a target
 * @cntr: the counter
 * @target: the completion count that is waited for, see tally_comp_cntr_reached()
 * @err_seen: the error count the caller knows of; another value ends the wait
 * @timeout_ns: how long at most, in nanoseconds; 0 only looks, TALLY_COMP_CNTR_WAIT_FOREVER does not end
 *
 * A target that is reached already costs no system call, where the counts are in memory of this process.  A reached
 * target wins over a moved error count.  When it returns 0, what was counted is visible as after ibv_read_comp_cntr().
 *
 * EIO: the error count is not @err_seen.  ETIMEDOUT: the time is over.  EINTR: a signal came.  ENODEV: the device
 * is going away or has gone.
 */
int tally_wait_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t target, uint64_t err_seen, uint64_t timeout_ns);

/**
 * tally_wait_comp_cntrs - sleep until some or all of several counters have reached their targets
 * @cntrs: 1 to TALLY_COMP_CNTR_WAIT_MAX different counters of one device context
 * @targets: a target and the known error count for each
 * @num: how many
 * @flags: TALLY_COMP_CNTR_WAIT_ANY: one reached target is enough; 0: all of them
 * @timeout_ns: as in tally_wait_comp_cntr()
 * @index: gets the place of the counter that ended the wait: of one that reached its target
 *	(TALLY_COMP_CNTR_WAIT_ANY, 0 returned), or whose error count moved (EIO returned).  May be NULL.
 *
 * Errors as of tally_wait_comp_cntr(); EINVAL: @num, @flags, counters of different contexts, or the same one twice.
 */
int tally_wait_comp_cntrs(struct ibv_comp_cntr *const *cntrs, const struct tally_comp_cntr_target *targets,
			  uint32_t num, uint32_t flags, uint64_t timeout_ns, uint32_t *index);

/**
 * tally_notify_comp_cntr - write 1 to an eventfd, once, when a counter has reached a target
 * @cntr: the counter
 * @target: the completion count that is waited for
 * @err_seen: if not NULL, an error count other than this one fires as well
 * @eventfd: of eventfd(2); may be closed or shared with others, as the kernel keeps its own hold of it
 *
 * So a counter takes part in poll, epoll and io_uring.  One that is reached already fires at once.  Several may be
 * armed on one counter; to arm the same once more changes nothing, and nothing disarms.  The counter's destruction drops
 * them silently; when the device is taken away they fire.
 *
 * EBADF, EINVAL: @eventfd is none.  ENODEV: the device is going away or has gone.  ENOSPC: the counter has as many armed
 * as the device allows (tally: 256).  ENOMEM, ENOTSUP.
 */
int tally_notify_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t target, const uint64_t *err_seen, int eventfd);

/* Groups */

/** The two counts of one counter, and how a group lays them out in memory. */
struct tally_comp_cntr_value {
	uint64_t comp;
	uint64_t err;
};

struct tally_comp_cntr_group;

/**
 * struct tally_comp_cntr_group_attr - counters side by side
 * @comp_mask: must be 0
 * @type: of all of them
 * @flags: must be 0
 * @num: how many, at least 1
 * @stride: bytes from one struct tally_comp_cntr_value to the next, a multiple of 8, at least 16; 0 means 16.  64
 *	or more keeps counters that different CPUs write from slowing each other down.
 * @memory: @num times @stride bytes
 */
struct tally_comp_cntr_group_attr {
	uint32_t comp_mask;
	enum ibv_comp_cntr_type type;
	uint32_t flags;
	uint32_t num;
	uint32_t stride;
	struct tally_memory memory;
};

/**
 * tally_create_comp_cntr_group - create counters whose counts lie in one piece of memory
 * @context: the device
 * @attr: how many, and where
 *
 * Returns the group, or NULL and sets errno as tally_create_comp_cntr() does; then nothing is left behind.  EINVAL:
 * @num is 0, @stride not what it must be, or together more than memory can be.
 */
struct tally_comp_cntr_group *tally_create_comp_cntr_group(struct ibv_context *context,
							   const struct tally_comp_cntr_group_attr *attr);

/**
 * tally_destroy_comp_cntr_group - destroy a group and its counters
 * @group: the group
 *
 * EBUSY: queue pairs hold some of the counters.  Those go on counting, and the call may be repeated when the queue
 * pairs are gone; the others are destroyed (their place in the group gives NULL).
 */
int tally_destroy_comp_cntr_group(struct tally_comp_cntr_group *group);

/** tally_comp_cntr_group_size - how many counters a group has */
uint32_t tally_comp_cntr_group_size(const struct tally_comp_cntr_group *group);

/**
 * tally_comp_cntr_group_at - one counter of a group
 * @group: the group
 * @index: its place
 *
 * Everything works on it but ibv_destroy_comp_cntr(): it belongs to the group.  NULL: no such place.
 */
struct ibv_comp_cntr *tally_comp_cntr_group_at(const struct tally_comp_cntr_group *group, uint32_t index);

/**
 * tally_comp_cntr_group_words - the memory of a group, for those who watch by themselves
 * @group: the group
 * @stride: gets the distance in bytes from one counter to the next; may be NULL
 *
 * See struct tally_comp_cntr_words.  NULL: it is not in memory of this process.
 */
const struct tally_comp_cntr_value *tally_comp_cntr_group_words(const struct tally_comp_cntr_group *group,
								uint32_t *stride);

/**
 * tally_read_comp_cntr_group - read counters of a group in one pass
 * @group: the group
 * @first: the first one
 * @num: how many
 * @values: gets @num pairs of counts
 *
 * Acquire loads as in ibv_read_comp_cntr(); it is no snapshot, each value is read for itself.  EINVAL: the range is
 * not within the group.
 */
int tally_read_comp_cntr_group(const struct tally_comp_cntr_group *group, uint32_t first, uint32_t num,
			       struct tally_comp_cntr_value *values);

/**
 * tally_wait_comp_cntr_group - tally_wait_comp_cntrs() on neighbours of a group
 * @group: the group
 * @first: the first counter
 * @num: 1 to TALLY_COMP_CNTR_WAIT_MAX of them, with one target each
 * @targets: as there
 * @flags: as there
 * @timeout_ns: as there
 * @index: as there, counted from @first
 */
int tally_wait_comp_cntr_group(const struct tally_comp_cntr_group *group, uint32_t first, uint32_t num,
			       const struct tally_comp_cntr_target *targets, uint32_t flags, uint64_t timeout_ns,
			       uint32_t *index);

#ifdef __cplusplus
}
#endif

#endif /* TALLY_COMP_CNTR_H */
