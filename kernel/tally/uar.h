/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * UAR pages, as the three files see them that share the work: uar.c makes, maps and frees them, doorbell.c
 * answers faults on them, polled.c watches them.
 *
 * Locks, outermost first: mmap_lock (or the VMA's own lock), tally_uars.maps_lock, tally_uar.mode_lock (the engine
 * only tries to take that one), then as leaves tally_uars.lock, tally_poller.ask_lock.  i_mmap_rwsem and page table
 * locks come inside mode_lock.
 */
#ifndef TALLY_UAR_H
#define TALLY_UAR_H

#include <linux/cpumask.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include "doorbell.h"

struct tally_dev;
struct tally_engine;

/* Where in a UAR page the hardware's registers are. */
#define TALLY_UAR_CQ_ARM   0x20
#define TALLY_UAR_BFREG	   0x800
/*
 * The register has two halves, of the size of hardware's.  Who is told that there is no BlueFlame stores to the
 * first one only; who takes hardware's layout for granted alternates.
 */
#define TALLY_BFREG_HALVES 2
#define TALLY_BFREG_HALF   0x100

/*
 * How user space numbers registers: by fours in a page, though only the first TALLY_BFREGS_PER_UAR are used.
 */
#define TALLY_BFREG_STRIDE 4

/**
 * enum tally_uar_mode - what a store to the page does
 * @TALLY_UAR_TRAPPED: it faults
 * @TALLY_UAR_ASKED: the same; the engine has been asked to poll the page
 * @TALLY_UAR_OPEN: the engine polls the page; the next fault maps it
 * @TALLY_UAR_MAPPED: the engine polls the page, and it may be mapped
 * @TALLY_UAR_DEAD: it faults; the page will not be mapped any more
 *
 * TRAPPED -> ASKED by a fault, without a lock.  ASKED -> OPEN or TRAPPED, OPEN | MAPPED -> TRAPPED by the engine.
 * OPEN -> MAPPED by a fault; any but DEAD -> MAPPED by a fault that cannot be skipped.
 */
enum tally_uar_mode {
	TALLY_UAR_TRAPPED,
	TALLY_UAR_ASKED,
	TALLY_UAR_OPEN,
	TALLY_UAR_MAPPED,
	TALLY_UAR_DEAD,
};

/* More payload than this of a request, and the doorbell's fault is not what it costs. */
#define TALLY_STREAM_BYTES 4096

/**
 * struct tally_bfreg - a doorbell register
 * @uar: its page
 * @num_qps: QPs bound to it; under tally_uars.lock
 */
struct tally_bfreg {
	struct tally_uar *uar;
	u32 num_qps;
};

/**
 * struct tally_uar - a UAR page
 * @uars: all pages of the context
 * @index: which one
 * @taken: nobody else gets it; under tally_uars.lock
 * @known: user space may name it; likewise
 * @users: what is bound to it beside QPs; likewise
 * @scratch: what is mapped in polled mode; once there, it stays
 * @num_maps: mappings, those that are just being made included; under tally_uars.maps_lock
 * @pgoff: vm_pgoff of its mappings, like no other mapping's of any device, so that a zap hits only them
 * @mapping: address space of its mappings; set by the first one
 * @bfregs: its registers
 * @qps: struct tally_qp.bfreg_link of all QPs bound to it; changed under tally_uars.lock, read under RCU
 * @window: local_clock() since which @rings counts; both are hints and changed without a lock
 * @rings: trapped doorbells since then, or since a CQ was armed
 * @armed: one has been armed since the last doorbell; a hint, too
 * @trapped_wqes: and the work requests that they brought
 * @trapped_ns: how far apart those came; no more than twice as far as they did before, so that an interruption does not
 *	make much of a difference
 * @retry: when polling the page did not pay
 * @streak: trapped doorbells for small requests in a row that nobody waited for; a hint, changed without a lock
 * @mode: enum tally_uar_mode; changed under @mode_lock, but for TRAPPED -> ASKED (cmpxchg)
 * @mode_lock: a PTE is installed and all PTEs are zapped under it, so that a page is never mapped in another
 *	mode than TALLY_UAR_MAPPED
 * @hold_until: local_clock() until which the page stays mapped, whoever wants the CPU; written under @mode_lock
 * @ask_link: on tally_poller.asked, under ask_lock
 *
 * The following are the engine's own:
 *
 * @poll_link: on tally_poller.pages
 * @hot: struct tally_work.hot_link of QPs that rang lately; changed under tally_uars.lock, read by the engine
 *	only, under RCU
 * @cold: QP in @qps where the look at quiet QPs goes on; under tally_uars.lock, NULL: at the start
 * @since: local_clock() of the start of polling
 * @progress: local_clock() of the last doorbell seen, or of the last look at a page that streams
 * @look: when looking at it at intervals did not pay; @look.at is read without a lock
 * @passes: passes so far
 * @served: work requests executed in them
 * @moved: and payload
 * @seen: words of @scratch as last seen
 */
struct tally_uar {
	struct tally_uars *uars;
	u32 index;
	bool taken;
	bool known;
	u32 users;
	struct page *scratch;
	u32 num_maps;
	unsigned long pgoff;
	struct address_space *mapping;
	struct tally_bfreg bfregs[TALLY_BFREGS_PER_UAR];
	struct list_head qps;

	u64 window;
	u32 rings;
	bool armed;
	u32 trapped_wqes;
	u64 trapped_ns;
	struct tally_backoff retry;
	u32 streak;

	u8 mode;
	struct mutex mode_lock;
	u64 hold_until;
	struct list_head ask_link;

	struct list_head poll_link;
	struct list_head hot;
	struct tally_qp *cold;
	u64 since;
	u64 progress;
	struct tally_backoff look;
	u32 passes;
	u64 served;
	u64 moved;
	u64 seen[TALLY_BFREG_HALVES];
};

/**
 * struct tally_uars - a context's UAR pages
 * @refs: one of the context, one of each mapping
 * @rcu: frees it
 * @dev: the device
 * @ctx: the context
 * @engine: what polls its pages and runs its QPs
 * @lock: @cqs, and the QP lists and counts of all pages
 * @cqs: struct tally_cq.uar_link of the context's CQs; changed under @lock, read under RCU
 * @maps_lock: @maps and the pages' num_maps
 * @maps: struct tally_uar_map.link
 * @no_maps: woken when @maps becomes empty
 * @asked: one of the pages has asked to be polled, so that the engine may have it on its list; under ask_lock
 * @num: pages
 * @pages: they
 */
struct tally_uars {
	struct kref refs;
	struct rcu_head rcu;
	struct tally_dev *dev;
	struct tally_ucontext *ctx;
	struct tally_engine *engine;
	spinlock_t lock;
	struct list_head cqs;
	struct mutex maps_lock;
	struct list_head maps;
	wait_queue_head_t no_maps;
	bool asked;
	u32 num;
	struct tally_uar pages[] __counted_by(num);
};

/**
 * struct tally_uar_map - a mapping of a page; vm_private_data of its VMA
 * @link: on tally_uars.maps
 * @uar: the page
 * @vma: the mapping
 * @core_ops: the vm_ops that ib_core tracks its mappings with
 * @core_private: and its vm_private_data
 *
 * Lives until the VMA is closed or given back to ib_core, both under mmap_lock (or by the last user of the mm).
 */
struct tally_uar_map {
	struct list_head link;
	struct tally_uar *uar;
	struct vm_area_struct *vma;
	const struct vm_operations_struct *core_ops;
	void *core_private;
};

/* uar.c */

/**
 * tally_uar_insert - map the page where a fault happened, if the mode still is one in which it may be
 * @uar: the page
 * @vmf: the fault
 * @hold_ns: nonzero: in any mode, and keep it mapped for at least so long
 *
 * Return: VM_FAULT_NOPAGE, or an error.
 */
vm_fault_t tally_uar_insert(struct tally_uar *uar, struct vm_fault *vmf, u64 hold_ns);

/*
 * Zap all mappings of a page; under mode_lock.  After the return of true every store faults; false: nothing has been done,
 * somebody makes or ends a mapping of the same file.
 */
bool tally_uar_try_zap(struct tally_uar *uar);

/* doorbell.c */

vm_fault_t tally_uar_fault(struct vm_fault *vmf);

/* Look at the arm record of each of the context's CQs. */
void tally_uars_arm_all(struct tally_uars *uars);

/* The QP bound to @uar that a stored doorbell names, or NULL; under RCU. */
struct tally_qp *tally_uar_hinted_qp(struct tally_uar *uar, u64 word);

/* Have the engine run each QP of the page whose doorbell record has moved. */
void tally_uar_kick_pending(struct tally_uar *uar);

/* linger.c */

/**
 * tally_linger_begin - a CQ has just been armed in a fault: whether its event is worth waiting for
 * @cq: the queue; under RCU
 * @vmf: the fault
 *
 * Return: true, then it stays there until tally_linger() is over.
 */
bool tally_linger_begin(struct tally_cq *cq, const struct vm_fault *vmf);

/**
 * tally_linger - wait for the event of a CQ for a while, with no lock held
 * @cq: the queue, after tally_linger_begin(); may be gone afterwards
 * @events: tally_linger.events before it was armed
 */
void tally_linger(struct tally_cq *cq, u32 events);

/* polled.c */

/**
 * struct tally_poller - the pages that an engine polls
 * @ask_lock: @asked, @leaving
 * @asked: struct tally_uar.ask_link of pages that ask to be polled
 * @leaving: struct tally_leave.link of contexts whose pages the engine is to forget
 * @retry: when others wanted the CPU; written by the engine
 * @asker: CPU where a page was last asked for; a hint
 * @allowed: scratch space of the engine's thread
 *
 * The following are the engine's own.  It does not wait for who might wait for a CPU: what it shares with user
 * space's threads are spin locks, and others that it only tries, but for i_mmap_rwsem, which it may just miss (see
 * tally_uar_try_zap()).
 *
 * @pages: struct tally_uar.poll_link of what is polled
 * @later_ns: what TALLY_POLL_LATER means
 * @urgent: its thread takes the CPU from others
 * @wakes_urgent: it was to be woken so when it slept last
 * @wakes_urgent_since: local_clock() of when that began
 */
struct tally_poller {
	spinlock_t ask_lock;
	struct list_head asked;
	struct list_head leaving;
	struct tally_backoff retry;
	unsigned int asker;
	struct cpumask allowed;
	struct list_head pages;
	u64 later_ns;
	bool urgent;
	bool wakes_urgent;
	u64 wakes_urgent_since;
};

/**
 * enum tally_poll - what the poller wants of its engine
 * @TALLY_POLL_NONE: there is no page to poll
 * @TALLY_POLL_AGAIN: come back at once
 * @TALLY_POLL_LATER: come back after tally_poller.later_ns, others want the CPU
 */
enum tally_poll {
	TALLY_POLL_NONE,
	TALLY_POLL_AGAIN,
	TALLY_POLL_LATER,
};

void tally_poller_init(struct tally_poller *p);

/* Whether a pass has something to do. */
bool tally_poller_wanted(struct tally_poller *p);

/* Whether a page waits to be polled, or a context to be forgotten. */
bool tally_poller_asked(struct tally_poller *p);

/* One look at everything that is polled; by the engine's thread, which is @busy with queues, too, or not. */
enum tally_poll tally_poller_pass(struct tally_poller *p, bool busy);

/* A page has trapped a doorbell: perhaps it rings so often that it should be polled. */
void tally_uar_rang(struct tally_uar *uar);

/* Put a page that has just been mapped on the list of those to poll. */
void tally_uar_ask(struct tally_uar *uar);

/* Polling of the context's pages has ended for good; they are TALLY_UAR_DEAD, and no fault that looks at them is under way. */
void tally_uars_forget(struct tally_uars *uars);

/* A QP leaves the page; under tally_uars.lock. */
void tally_uar_forget_qp(struct tally_uar *uar, struct tally_qp *qp);

/* engine.c */

struct tally_poller *tally_engine_poller(struct tally_engine *engine);

/* Have the engine look at its work. */
void tally_engine_wake(struct tally_engine *engine);

#endif /* TALLY_UAR_H */
