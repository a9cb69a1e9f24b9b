/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that the virtual HCA needs of the world.
 *
 * kernel/hca is compiled as it is into tally.ko and, against a small header of the same names, into user space
 * where tests, fuzzers and benchmarks drive it.  Nothing under kernel/hca includes anything else of the kernel.
 *
 * Used: fixed-width types, byte order, READ_ONCE()/WRITE_ONCE() and the smp_ barriers, spinlocks, RCU, 64-bit
 * atomic operations on shared memory, a clock, kvzalloc()/kvfree(), per-CPU statistics, string functions, and
 * __uninitialized where a local that the hot path fills in by itself would be zeroed first.
 */
#ifndef HCA_PORT_H
#define HCA_PORT_H

#ifdef __KERNEL__

#include <asm/barrier.h>
#include <asm/byteorder.h>
#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/container_of.h>
#include <linux/errno.h>
#include <linux/lockdep.h>
#include <linux/log2.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

/* Atomic read-modify-writes on memory that user space shares; all are full barriers. */
#define hca_fetch_add64(ptr, val)	((u64)atomic64_fetch_add((val), (atomic64_t *)(ptr)))
#define hca_cmpxchg64(ptr, old, new)	cmpxchg64((ptr), (old), (new))

/* Nanoseconds, never going back. */
#define hca_clock_ns()			ktime_get_ns()

/* A statistic is only ever added to; readers sum over the CPUs. */
#define hca_stats_add(stats, index, n)	this_cpu_add((stats)->v[(index)], (n))

#else

#include <hca_port_user.h>

#endif

#endif /* HCA_PORT_H */
