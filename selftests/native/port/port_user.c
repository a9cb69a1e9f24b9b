// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Locks, RCU and memory of the user-space port, with their checks. */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>

#include "hca_port_user.h"

void hca_port_bug(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("hca: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

/* ---- locks ---- */

static void wait_a_little(u32 *spins)
{
	if (++*spins % 64 == 0)
		sched_yield();
}

static bool try_word(u32 *word)
{
	return !__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE);
}

static void lock_word(u32 *word)
{
	u32 spins = 0;

	while (!try_word(word))
		while (READ_ONCE(*word))
			wait_a_little(&spins);
}

static void unlock_word(u32 *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

#ifdef HCA_PORT_NO_CHECKS

void hca_port_lock_init(spinlock_t *lock, const char *name)
{
	(void)name;
	lock->taken = 0;
}

void hca_port_lock(spinlock_t *lock)
{
	lock_word(&lock->taken);
}

bool hca_port_trylock(spinlock_t *lock)
{
	return try_word(&lock->taken);
}

void hca_port_unlock(spinlock_t *lock)
{
	unlock_word(&lock->taken);
}

bool hca_port_lock_is_held(const spinlock_t *lock)
{
	return READ_ONCE(lock->taken);
}

int hca_port_locks_held(void)
{
	return 0;
}

u64 hca_port_locks_taken(const char *name)
{
	(void)name;
	return 0;
}

#else

/* The order that hca.h documents; the innermost ones exclude each other. */
static const struct hca_port_lock_class classes[] = {
	{ "&qp->sq.lock", 1 },
	{ "&qp->rq.lock", 2 },
	{ "&srq->lock", 3 },
	{ "&cq->lock", 4 },
	{ "&qp->route_lock", 4 },
	{ "&ind->lock", 4 },
	{ "&t->lock", 5 },
};

#define MAX_HELD 8

static __thread spinlock_t *held[MAX_HELD];
static __thread int num_held;
static __thread u64 taken_of[ARRAY_SIZE(classes)];
/* Its address tells the threads apart. */
static __thread char self;

void hca_port_lock_init(spinlock_t *lock, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(classes); i++) {
		if (!strcmp(classes[i].name, name)) {
			lock->taken = 0;
			lock->lock_class = &classes[i];
			lock->owner = NULL;
			return;
		}
	}
	hca_port_bug("lock %s has no place in the order of locks", name);
}

static void check_order(const spinlock_t *lock)
{
	int i;

	if (!lock->lock_class)
		hca_port_bug("lock %p was never initialized", (const void *)lock);
	if (READ_ONCE(lock->owner) == &self)
		hca_port_bug("lock %s is taken twice", lock->lock_class->name);
	for (i = 0; i < num_held; i++)
		if (held[i]->lock_class->rank >= lock->lock_class->rank)
			hca_port_bug("lock %s is taken inside %s", lock->lock_class->name,
				     held[i]->lock_class->name);
	if (num_held == MAX_HELD)
		hca_port_bug("too many locks are held");
}

static void got(spinlock_t *lock)
{
	WRITE_ONCE(lock->owner, &self);
	held[num_held++] = lock;
	taken_of[lock->lock_class - classes]++;
}

void hca_port_lock(spinlock_t *lock)
{
	check_order(lock);
	lock_word(&lock->taken);
	got(lock);
}

bool hca_port_trylock(spinlock_t *lock)
{
	check_order(lock);
	if (!try_word(&lock->taken))
		return false;
	got(lock);
	return true;
}

void hca_port_unlock(spinlock_t *lock)
{
	int i;

	if (!hca_port_lock_is_held(lock))
		hca_port_bug("lock %s is given up by who does not hold it",
			     lock->lock_class ? lock->lock_class->name : "?");
	for (i = num_held - 1; held[i] != lock; i--)
		;
	for (num_held--; i < num_held; i++)
		held[i] = held[i + 1];
	WRITE_ONCE(lock->owner, NULL);
	unlock_word(&lock->taken);
}

bool hca_port_lock_is_held(const spinlock_t *lock)
{
	return READ_ONCE(lock->owner) == &self;
}

int hca_port_locks_held(void)
{
	return num_held;
}

u64 hca_port_locks_taken(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(classes); i++)
		if (!strcmp(classes[i].name, name))
			return taken_of[i];
	hca_port_bug("no lock is called %s", name);
}

#endif

/* ---- RCU: a reader per thread, on a list that only grows; the entry of a thread that ended is used again ---- */

struct reader {
	struct reader *next;
	u64 section; /* odd inside a read section */
	bool in_use;
};

static struct reader *readers;
static pthread_mutex_t readers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t readers_once = PTHREAD_ONCE_INIT;
static pthread_key_t readers_key;
static __thread struct reader *me;
static __thread u32 depth;
static __thread u64 sections;

static void reader_done(void *arg)
{
	struct reader *r = arg;

	__atomic_store_n(&r->in_use, false, __ATOMIC_RELEASE);
}

static void readers_init(void)
{
	if (pthread_key_create(&readers_key, reader_done))
		abort();
}

static struct reader *register_reader(void)
{
	struct reader *r;

	pthread_once(&readers_once, readers_init);
	pthread_mutex_lock(&readers_lock);
	for (r = readers; r; r = r->next)
		if (!__atomic_load_n(&r->in_use, __ATOMIC_ACQUIRE))
			break;
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			abort();
		r->next = readers;
		__atomic_store_n(&readers, r, __ATOMIC_RELEASE);
	}
	r->in_use = true;
	pthread_mutex_unlock(&readers_lock);
	pthread_setspecific(readers_key, r);
	return r;
}

void rcu_read_lock(void)
{
	if (depth++)
		return;
	if (unlikely(!me))
		me = register_reader();
	sections++;
	/* Full barrier: what is read in the section is read after others can see that it began. */
	__atomic_store_n(&me->section, me->section + 1, __ATOMIC_RELAXED);
	smp_mb();
}

void rcu_read_unlock(void)
{
	BUG_ON(!depth);
	if (!--depth)
		__atomic_store_n(&me->section, me->section + 1, __ATOMIC_RELEASE);
}

bool rcu_read_lock_held(void)
{
	return depth;
}

u64 hca_port_rcu_sections(void)
{
	return sections;
}

void synchronize_rcu(void)
{
	struct reader *r;

	BUG_ON(depth || hca_port_locks_held());
	/* Pairs with the barrier in rcu_read_lock(). */
	smp_mb();
	for (r = __atomic_load_n(&readers, __ATOMIC_ACQUIRE); r; r = r->next) {
		u64 then = __atomic_load_n(&r->section, __ATOMIC_ACQUIRE);
		u32 spins = 0;

		while (then & 1 && __atomic_load_n(&r->section, __ATOMIC_ACQUIRE) == then)
			wait_a_little(&spins);
	}
	smp_mb();
}

/* ---- memory ---- */

static long live;
static long until_failure = -1;

void *hca_port_alloc(size_t n, size_t size, gfp_t gfp)
{
	void *p;

	if (gfp == GFP_KERNEL)
		BUG_ON(depth || hca_port_locks_held());
	if (__atomic_load_n(&until_failure, __ATOMIC_RELAXED) >= 0 &&
	    __atomic_fetch_sub(&until_failure, 1, __ATOMIC_RELAXED) == 0)
		return NULL;
	p = calloc(n, size);
	if (p)
		__atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
	return p;
}

void hca_port_free(const void *p)
{
	if (p)
		__atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
	free((void *)p);
}

long hca_port_live_allocations(void)
{
	return __atomic_load_n(&live, __ATOMIC_RELAXED);
}

void hca_port_fail_allocation(long successes)
{
	__atomic_store_n(&until_failure, successes, __ATOMIC_RELAXED);
}
