/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * User space's side of kernel/hca/port.h: the kernel's names, with checks the kernel has only in debug builds.
 *
 * Spinlocks are real locks; each knows its class by the expression it was initialized with, and taking one out
 * of the order that hca.h documents, twice, or giving up one that is not held ends the program.  RCU is real,
 * too: a dereference outside a read section ends the program, and synchronize_rcu() waits.  Allocations can be
 * made to fail.
 *
 * With HCA_PORT_NO_CHECKS (benchmarks) the locks are bare and the checks are gone.
 *
 * Usable from C and C++; C++ code includes hca.hpp, which removes the names that would hurt there.
 */
#ifndef HCA_PORT_USER_H
#define HCA_PORT_USER_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "little-endian machines only"
#endif

/* ---- types ---- */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64; /* as in the kernel on every architecture */
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef long long s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u64 __be64;
typedef u16 __le16;
typedef u32 __le32;
typedef u64 __le64;
typedef unsigned int gfp_t;

/* ---- annotations ---- */

#define __rcu
#define __percpu
#define __user
#define __force
#define __iomem
#define __aligned(n)	 __attribute__((aligned(n)))
#define __packed	 __attribute__((packed))
#define __must_check	 __attribute__((warn_unused_result))
#define __maybe_unused	 __attribute__((unused))
#define __always_unused	 __attribute__((unused))
#define __cold		 __attribute__((cold))
#if defined(__clang__) || __GNUC__ >= 12
#define __uninitialized	 __attribute__((uninitialized))
#else
#define __uninitialized
#endif
#define noinline	 __attribute__((noinline))
#define likely(x)	 __builtin_expect(!!(x), 1)
#define unlikely(x)	 __builtin_expect(!!(x), 0)
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef __cplusplus
#define fallthrough	 __attribute__((fallthrough))
#endif

/* ---- arithmetic ---- */

#define BIT(n)			(1ul << (n))
#define BIT_ULL(n)		(1ull << (n))
#define GENMASK(h, l)		((~0ul >> (8 * sizeof(long) - 1 - (h))) & (~0ul << (l)))
#define GENMASK_ULL(h, l)	((~0ull >> (63 - (h))) & (~0ull << (l)))
#define PAGE_SHIFT		12
#define PAGE_SIZE		(1ul << PAGE_SHIFT)
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define ALIGN(x, a)		(((x) + ((__typeof__(x))(a) - 1)) & ~((__typeof__(x))(a) - 1))
#define ALIGN_DOWN(x, a)	((x) & ~((__typeof__(x))(a) - 1))
#define IS_ALIGNED(x, a)	(((x) & ((__typeof__(x))(a) - 1)) == 0)
#define round_up(x, a)		ALIGN(x, a)
#define round_down(x, a)	ALIGN_DOWN(x, a)
#define div64_u64(n, d)		((u64)(n) / (u64)(d))
#define upper_32_bits(n)	((u32)((u64)(n) >> 32))
#define lower_32_bits(n)	((u32)(n))
#define U8_MAX			((u8)~0u)
#define U16_MAX			((u16)~0u)
#define U32_MAX			(~0u)
#define U64_MAX			(~0ull)

#ifndef __cplusplus
/* Comparing the addresses makes the compiler complain about different types, as the kernel's do. */
#define min(a, b)							\
	({								\
		__typeof__(a) min_a_ = (a);				\
		__typeof__(b) min_b_ = (b);				\
		(void)(&min_a_ == &min_b_);				\
		min_a_ < min_b_ ? min_a_ : min_b_;			\
	})
#define max(a, b)							\
	({								\
		__typeof__(a) max_a_ = (a);				\
		__typeof__(b) max_b_ = (b);				\
		(void)(&max_a_ == &max_b_);				\
		max_a_ > max_b_ ? max_a_ : max_b_;			\
	})
#define min_t(type, a, b)						\
	({								\
		type mint_a_ = (a);					\
		type mint_b_ = (b);					\
		mint_a_ < mint_b_ ? mint_a_ : mint_b_;			\
	})
#define max_t(type, a, b)						\
	({								\
		type maxt_a_ = (a);					\
		type maxt_b_ = (b);					\
		maxt_a_ > maxt_b_ ? maxt_a_ : maxt_b_;			\
	})
#define min3(a, b, c)		min(min(a, b), c)
#define max3(a, b, c)		max(max(a, b), c)
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(type, v, lo, hi) min_t(type, max_t(type, v, lo), hi)
#define swap(a, b)							\
	do {								\
		__typeof__(a) swap_t_ = (a);				\
		(a) = (b);						\
		(b) = swap_t_;						\
	} while (0)
#define BUILD_BUG_ON(cond)	_Static_assert(!(cond), "BUILD_BUG_ON: " #cond)
#endif

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

static inline int ilog2(u64 n)
{
	return 63 - __builtin_clzll(n);
}

static inline unsigned long roundup_pow_of_two(unsigned long n)
{
	return n <= 1 ? 1 : 1ul << (64 - __builtin_clzl(n - 1));
}

static inline unsigned long rounddown_pow_of_two(unsigned long n)
{
	return 1ul << ilog2(n);
}

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define sizeof_field(type, member)	sizeof(((type *)0)->member)

/* ---- byte order ---- */

#define cpu_to_be16(x)	((__be16)__builtin_bswap16((u16)(x)))
#define cpu_to_be32(x)	((__be32)__builtin_bswap32((u32)(x)))
#define cpu_to_be64(x)	((__be64)__builtin_bswap64((u64)(x)))
#define be16_to_cpu(x)	((u16)__builtin_bswap16((__be16)(x)))
#define be32_to_cpu(x)	((u32)__builtin_bswap32((__be32)(x)))
#define be64_to_cpu(x)	((u64)__builtin_bswap64((__be64)(x)))

/* ---- shared memory ---- */

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define smp_load_acquire(p)	__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define smp_mb()		__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb()		__atomic_thread_fence(__ATOMIC_RELEASE)
#ifndef __cplusplus
#define barrier()		__asm__ __volatile__("" ::: "memory")
#endif

static inline u64 hca_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

#define hca_fetch_add64(ptr, val) ((u64)__atomic_fetch_add((u64 *)(ptr), (u64)(val), __ATOMIC_SEQ_CST))
#define hca_cmpxchg64(ptr, expected, desired)						\
	({										\
		u64 cmpxchg_e_ = (expected);						\
		__atomic_compare_exchange_n((u64 *)(ptr), &cmpxchg_e_, (u64)(desired),	\
					    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	\
		cmpxchg_e_;								\
	})

#ifdef HCA_PORT_NO_CHECKS
#define hca_stats_add(stats, index, n)	((void)((stats)->v[(index)] += (n)))
#else
/* There is one set of statistics for all threads. */
#define hca_stats_add(stats, index, n)	((void)__atomic_fetch_add(&(stats)->v[(index)], (n), __ATOMIC_RELAXED))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bugs ---- */

/* Prints the message and aborts. */
__attribute__((noreturn, format(printf, 1, 2))) void hca_port_bug(const char *format, ...);

#define BUG_ON(cond)							\
	do {								\
		if (__builtin_expect(!!(cond), 0))			\
			hca_port_bug("BUG_ON(%s) at %s:%d", #cond, __FILE__, __LINE__); \
	} while (0)
#define WARN_ON(cond)		({ BUG_ON(cond); false; })
#define WARN_ON_ONCE(cond)	WARN_ON(cond)

/* ---- locks ---- */

/**
 * struct hca_port_lock_class - a class of locks
 * @name: the expression given to spin_lock_init()
 * @rank: locks are taken in rising order, and one of a rank at a time
 */
struct hca_port_lock_class {
	const char *name;
	int rank;
};

typedef struct hca_port_spinlock {
	u32 taken;
#ifndef HCA_PORT_NO_CHECKS
	const struct hca_port_lock_class *lock_class;
	const void *owner;
#endif
} spinlock_t;

void hca_port_lock_init(spinlock_t *lock, const char *name);
void hca_port_lock(spinlock_t *lock);
bool hca_port_trylock(spinlock_t *lock);
void hca_port_unlock(spinlock_t *lock);
/* Whether this thread holds it. */
bool hca_port_lock_is_held(const spinlock_t *lock);
/* How many locks this thread holds. */
int hca_port_locks_held(void);
/* How many locks of the class this thread has ever taken. */
u64 hca_port_locks_taken(const char *name);

#define spin_lock_init(lock)	hca_port_lock_init((lock), #lock)
#define spin_lock(lock)		hca_port_lock(lock)
#define spin_trylock(lock)	hca_port_trylock(lock)
#define spin_unlock(lock)	hca_port_unlock(lock)
#define spin_is_locked(lock)	(READ_ONCE((lock)->taken) != 0)
#ifdef HCA_PORT_NO_CHECKS
#define lockdep_is_held(lock)	true
#define lockdep_assert_held(lock) ((void)(lock))
#else
#define lockdep_is_held(lock)	hca_port_lock_is_held(lock)
#define lockdep_assert_held(lock) BUG_ON(!hca_port_lock_is_held(lock))
#endif

/* ---- RCU ---- */

void rcu_read_lock(void);
void rcu_read_unlock(void);
bool rcu_read_lock_held(void);
/* Waits for every read section that has begun.  Not with a lock held, not inside a read section. */
void synchronize_rcu(void);
/* How many outermost read sections this thread has ever entered. */
u64 hca_port_rcu_sections(void);

#ifdef HCA_PORT_NO_CHECKS
#define hca_port_rcu_assert(cond) ((void)0)
#else
#define hca_port_rcu_assert(cond) BUG_ON(!(cond))
#endif
#define rcu_dereference(p)							\
	({									\
		hca_port_rcu_assert(rcu_read_lock_held());			\
		__atomic_load_n(&(p), __ATOMIC_ACQUIRE);			\
	})
#define rcu_dereference_check(p, cond)						\
	({									\
		hca_port_rcu_assert(rcu_read_lock_held() || (cond));		\
		__atomic_load_n(&(p), __ATOMIC_ACQUIRE);			\
	})
#define rcu_dereference_protected(p, cond)					\
	({									\
		hca_port_rcu_assert(cond);					\
		__atomic_load_n(&(p), __ATOMIC_RELAXED);			\
	})
#define rcu_access_pointer(p)		READ_ONCE(p)
#define rcu_assign_pointer(p, v)	__atomic_store_n(&(p), (v), __ATOMIC_RELEASE)
#define RCU_INIT_POINTER(p, v)		WRITE_ONCE(p, v)

/* ---- memory ---- */

#define GFP_KERNEL	1u
#define GFP_ATOMIC	2u

/* Zeroed; NULL when made to fail.  With GFP_KERNEL not under a lock and not inside a read section. */
void *hca_port_alloc(size_t n, size_t size, gfp_t gfp);
void hca_port_free(const void *p);
/* Allocations not yet freed. */
long hca_port_live_allocations(void);
/* Let @successes allocations succeed and then one fail; negative: none fails.  For the whole process. */
void hca_port_fail_allocation(long successes);

#define kzalloc(size, gfp)		hca_port_alloc(1, (size), (gfp))
#define kmalloc(size, gfp)		hca_port_alloc(1, (size), (gfp))
#define kcalloc(n, size, gfp)		hca_port_alloc((n), (size), (gfp))
#define kvzalloc(size, gfp)		hca_port_alloc(1, (size), (gfp))
#define kvmalloc(size, gfp)		hca_port_alloc(1, (size), (gfp))
#define kvcalloc(n, size, gfp)		hca_port_alloc((n), (size), (gfp))
#define kvmalloc_array(n, size, gfp)	hca_port_alloc((n), (size), (gfp))
#define kfree(p)			hca_port_free(p)
#define kvfree(p)			hca_port_free(p)

#ifdef __cplusplus
}
#endif

#endif /* HCA_PORT_USER_H */
