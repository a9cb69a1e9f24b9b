// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion counters: ib_comp_cntr's operations over the virtual HCA's counters.
 *
 * A counter is armed only while somebody waits for it; the HCA then reports each change, and whoever is due is
 * woken or signalled from there.
 */
#include <linux/eventfd.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "tally.h"

/* Eventfds that one counter may have armed at once. */
#define MAX_NOTIFIES 256
/* So many who wait are looked after by whoever changes the counter, who may be somebody else; more of them by a work. */
#define FEW 16

/**
 * struct cntr - a counter
 * @ib: what the extension knows of it
 * @hca: the counter itself
 * @lock: what follows, and who is due.  Taken under the HCA's locks, nothing but an eventfd's own is inside.
 * @waits: struct wait_entry; new ones at the end
 * @num_waits: how many
 * @notifies: struct notify, likewise
 * @num_notifies: how many
 * @many: looks who is due if there are more than a few; queued while the counter can change, done before it is gone
 */
struct cntr {
	struct ib_comp_cntr ib;
	struct hca_counter hca;
	spinlock_t lock;
	struct list_head waits;
	u32 num_waits;
	struct list_head notifies;
	u32 num_notifies;
	struct work_struct many;
};

/**
 * struct wait - a thread that waits for some counters; on its stack
 * @wq: the thread
 * @link: waits of the device, under its cntr_wait_lock
 */
struct wait {
	wait_queue_head_t wq;
	struct list_head link;
};

enum due { NOT_DUE, REACHED, FAILED };

/**
 * struct wait_entry - what a thread waits for on one counter
 * @link: in cntr.waits
 * @wait: the thread; alive as long as @link is on the list
 * @cntr: the counter
 * @target: see struct tally_comp_cntr_target
 * @due: enum due; once set it stays.  Written under cntr.lock, read by the thread.
 */
struct wait_entry {
	struct list_head link;
	struct wait *wait;
	struct cntr *cntr;
	const struct tally_comp_cntr_target *target;
	u8 due;
};

/**
 * struct notify - an armed eventfd
 * @link: in cntr.notifies
 * @target: completion count that fires it
 * @err_seen: error count that does not
 * @watch_err: another error count does
 * @ctx: the eventfd, referenced
 */
struct notify {
	struct list_head link;
	u64 target;
	u64 err_seen;
	bool watch_err;
	struct eventfd_ctx *ctx;
};

static struct cntr *to_cntr(struct ib_comp_cntr *ib)
{
	return container_of(ib, struct cntr, ib);
}

/* The values are anybody's memory: each is read once and only compared. */
static bool reached(const struct cntr *c, u64 target)
{
	return READ_ONCE(*c->hca.comp) - target < 1ull << 63;
}

static bool err_moved(const struct cntr *c, u64 seen)
{
	return READ_ONCE(*c->hca.err) != seen;
}

/* Under cntr.lock. */
static void arm(struct cntr *c)
{
	hca_counter_arm(&c->hca, !list_empty(&c->waits) || !list_empty(&c->notifies));
}

/* Under cntr.lock. */
static void look(struct wait_entry *e)
{
	enum due due = NOT_DUE;

	if (e->due != NOT_DUE)
		return;
	if (reached(e->cntr, e->target->value))
		due = REACHED;
	else if (err_moved(e->cntr, e->target->err_seen))
		due = FAILED;
	if (due == NOT_DUE)
		return;
	WRITE_ONCE(e->due, due);
	wake_up(&e->wait->wq);
}

static bool notify_due(const struct cntr *c, const struct notify *n)
{
	return reached(c, n->target) || (n->watch_err && err_moved(c, n->err_seen));
}

/* Under cntr.lock. */
static void drop(struct cntr *c, struct notify *n)
{
	list_del(&n->link);
	c->num_notifies--;
	eventfd_ctx_put(n->ctx);
	kfree(n);
}

/* Look at so many from the front, under cntr.lock; what is not due goes to the end. */
static void look_at(struct cntr *c, u32 waits, u32 notifies)
{
	struct wait_entry *e;
	struct notify *n;

	while (waits-- && (e = list_first_entry_or_null(&c->waits, struct wait_entry, link))) {
		list_move_tail(&e->link, &c->waits);
		look(e);
	}
	while (notifies-- && (n = list_first_entry_or_null(&c->notifies, struct notify, link))) {
		if (notify_due(c, n)) {
			tally_eventfd_signal(n->ctx);
			drop(c, n);
		} else {
			list_move_tail(&n->link, &c->notifies);
		}
	}
	if (list_empty(&c->waits) && list_empty(&c->notifies))
		arm(c);
}

/* At all who are there now; who comes later looks for himself. */
static void look_at_many(struct work_struct *work)
{
	struct cntr *c = container_of(work, struct cntr, many);
	u32 waits, notifies, w, n;

	spin_lock(&c->lock);
	waits = c->num_waits;
	notifies = c->num_notifies;
	spin_unlock(&c->lock);
	while (waits || notifies) {
		w = min(waits, (u32)FEW);
		n = min(notifies, (u32)FEW);
		spin_lock(&c->lock);
		look_at(c, w, n);
		spin_unlock(&c->lock);
		waits -= w;
		notifies -= n;
		cond_resched();
	}
}

/**
 * tally_cntr_event - hca_ops.counter_event
 * @hca: an armed counter has changed
 */
void tally_cntr_event(struct hca_counter *hca)
{
	struct cntr *c = container_of(hca, struct cntr, hca);

	spin_lock(&c->lock);
	if (c->num_waits + c->num_notifies <= FEW)
		look_at(c, c->num_waits, c->num_notifies);
	else
		queue_work(system_unbound_wq, &c->many);
	spin_unlock(&c->lock);
}

static void cntr_caps(struct ib_device *device, struct ib_comp_cntr_caps *caps)
{
	caps->max_value = U64_MAX;
	caps->max_counters = TALLY_MAX_CNTR;
	caps->qp_attach_ops = IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND | IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV |
			      IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ |
			      IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ |
			      IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE |
			      IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE |
			      TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC | TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC |
			      TALLY_QP_ATTACH_COMP_CNTR_OP_MEMCPY | TALLY_QP_ATTACH_COMP_CNTR_OP_UMR;
}

static int cntr_create(struct ib_comp_cntr *ib)
{
	struct tally_dev *dev = to_tdev(ib->device);
	struct cntr *c = to_cntr(ib);

	if (atomic_inc_return(&dev->num_cntrs) > TALLY_MAX_CNTR) {
		atomic_dec(&dev->num_cntrs);
		return -ENOMEM;
	}
	c->hca.dev = &dev->hca;
	c->hca.comp = ib->comp;
	c->hca.err = ib->err;
	c->hca.bytes = ib->type == TALLY_COMP_CNTR_TYPE_BYTES;
	spin_lock_init(&c->lock);
	INIT_LIST_HEAD(&c->waits);
	INIT_LIST_HEAD(&c->notifies);
	INIT_WORK(&c->many, look_at_many);
	return 0;
}

static void cntr_destroy(struct ib_comp_cntr *ib)
{
	struct cntr *c = to_cntr(ib);
	bool gone = ib_comp_cntr_gone(ib);
	struct notify *n, *next;

	cancel_work_sync(&c->many);
	spin_lock(&c->lock);
	list_for_each_entry_safe(n, next, &c->notifies, link) {
		/* Not its owner has destroyed it: he is to look. */
		if (gone)
			tally_eventfd_signal(n->ctx);
		drop(c, n);
	}
	spin_unlock(&c->lock);
	atomic_dec(&to_tdev(ib->device)->num_cntrs);
}

static u64 *cntr_word(struct cntr *c, enum ib_uverbs_comp_cntr_entry entry)
{
	return entry == IB_UVERBS_COMP_CNTR_ENTRY_COMP ? c->hca.comp : c->hca.err;
}

static int cntr_modify(struct ib_comp_cntr *ib, enum ib_uverbs_comp_cntr_entry entry,
		       enum ib_uverbs_comp_cntr_modify_op op, u64 value)
{
	struct cntr *c = to_cntr(ib);
	u64 *word = cntr_word(c, entry);

	if (op == IB_UVERBS_COMP_CNTR_MODIFY_OP_SET) {
		WRITE_ONCE(*word, value);
		value = 0;
	}
	/* Adding nothing still looks who is due. */
	hca_counter_add(&c->hca, word, value);
	return 0;
}

static int cntr_read(struct ib_comp_cntr *ib, enum ib_uverbs_comp_cntr_entry entry, u64 *value)
{
	/* Acquire: what was counted is visible; pairs with the addition in hca_counter_add(). */
	*value = smp_load_acquire(cntr_word(to_cntr(ib), entry));
	return 0;
}

static u32 classes_of(u32 op_mask)
{
	static const struct {
		u32 op;
		u8 class;
	} map[] = {
		{ IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND, HCA_CLASS_SEND },
		{ IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV, HCA_CLASS_RECV },
		{ IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ, HCA_CLASS_READ },
		{ IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, HCA_CLASS_REMOTE_READ },
		{ IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE, HCA_CLASS_WRITE },
		{ IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, HCA_CLASS_REMOTE_WRITE },
		{ TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC, HCA_CLASS_ATOMIC },
		{ TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC, HCA_CLASS_REMOTE_ATOMIC },
		{ TALLY_QP_ATTACH_COMP_CNTR_OP_MEMCPY, HCA_CLASS_MEMCPY },
		{ TALLY_QP_ATTACH_COMP_CNTR_OP_UMR, HCA_CLASS_UMR },
	};
	u32 i, classes = 0;

	for (i = 0; i < ARRAY_SIZE(map); i++)
		if (op_mask & map[i].op)
			classes |= 1u << map[i].class;
	return classes;
}

static bool qp_has(const struct tally_qp *qp, const struct hca_counter *counter, u32 below)
{
	u32 i;

	for (i = 0; i < below; i++)
		if (qp->hca.counters[i] == counter)
			return true;
	return false;
}

static int cntr_attach(struct ib_qp *ib_qp, struct ib_comp_cntr *ib, u32 op_mask)
{
	struct tally_qp *qp = to_tqp(ib_qp);
	struct cntr *c = to_cntr(ib);
	bool had;
	int ret;

	if (ib_qp->device != ib->device)
		return -EINVAL;
	mutex_lock(&qp->lock);
	had = qp_has(qp, &c->hca, HCA_CLASS_COUNT);
	ret = hca_qp_attach(&qp->hca, &c->hca, classes_of(op_mask));
	if (!ret && !had)
		ib_comp_cntr_get(ib);
	mutex_unlock(&qp->lock);
	return ret;
}

/**
 * tally_qp_put_cntrs - a QP lets go of its counters
 * @qp: nothing of it runs any more
 */
void tally_qp_put_cntrs(struct tally_qp *qp)
{
	struct hca_counter *counter;
	u32 i;

	/* From the end, so that each is put at the first class that has it, when nothing looks at it any more. */
	for (i = HCA_CLASS_COUNT; i--;) {
		counter = qp->hca.counters[i];
		if (counter && !qp_has(qp, counter, i))
			ib_comp_cntr_put(&container_of(counter, struct cntr, hca)->ib);
		qp->hca.counters[i] = NULL;
	}
}

static void wait_begin(struct wait *w, struct tally_dev *dev)
{
	init_waitqueue_head(&w->wq);
	spin_lock(&dev->cntr_wait_lock);
	list_add(&w->link, &dev->cntr_wait);
	spin_unlock(&dev->cntr_wait_lock);
}

static void wait_end(struct wait *w, struct tally_dev *dev)
{
	spin_lock(&dev->cntr_wait_lock);
	list_del(&w->link);
	spin_unlock(&dev->cntr_wait_lock);
}

static void entry_begin(struct wait_entry *e)
{
	spin_lock(&e->cntr->lock);
	list_add_tail(&e->link, &e->cntr->waits);
	e->cntr->num_waits++;
	arm(e->cntr);
	/* After the barrier of arming: a change that this look misses is reported. */
	look(e);
	spin_unlock(&e->cntr->lock);
}

static void entry_end(struct wait_entry *e)
{
	spin_lock(&e->cntr->lock);
	list_del(&e->link);
	e->cntr->num_waits--;
	arm(e->cntr);
	spin_unlock(&e->cntr->lock);
}

/* 1: over with success, a negative errno: over with failure, 0: not over. */
static int verdict(const struct wait_entry *entries, u32 num, bool any, u32 *index)
{
	u32 i, left = num, failed = num;

	for (i = 0; i < num; i++) {
		switch (READ_ONCE(entries[i].due)) {
		case REACHED:
			*index = i;
			left--;
			if (any)
				return 1;
			break;
		case FAILED:
			failed = min(failed, i);
			break;
		}
	}
	if (!left)
		return 1;
	if (failed < num) {
		*index = failed;
		return -EIO;
	}
	return 0;
}

static ktime_t timeout_of(u64 ns)
{
	return ns > KTIME_MAX ? KTIME_MAX : ns_to_ktime(ns);
}

static int sleep_until_due(struct wait *w, struct wait_entry *entries, u32 num, u64 timeout_ns, bool any,
			   u32 *index)
{
	struct ib_comp_cntr *first = &entries[0].cntr->ib;
	int ret, over = verdict(entries, num, any, index);

	if (!over && timeout_ns) {
		ret = wait_event_interruptible_hrtimeout(w->wq,
							 (over = verdict(entries, num, any, index)) ||
							 ib_comp_cntr_gone(first), timeout_of(timeout_ns));
		if (!over && ret == -ERESTARTSYS)
			return ret;
	}
	if (over)
		return over < 0 ? over : 0;
	return ib_comp_cntr_gone(first) ? -ENODEV : -ETIMEDOUT;
}

static int cntr_wait(struct ib_comp_cntr **cntrs, const struct tally_comp_cntr_target *targets, u32 num,
		     u64 timeout_ns, u32 flags, u32 *index)
{
	struct tally_dev *dev = to_tdev(cntrs[0]->device);
	struct wait_entry *entries, few[4];
	struct wait w;
	int ret;
	u32 i;

	entries = num <= ARRAY_SIZE(few) ? few : kmalloc_array(num, sizeof(*entries), GFP_KERNEL_ACCOUNT);
	if (!entries)
		return -ENOMEM;
	wait_begin(&w, dev);
	for (i = 0; i < num; i++) {
		entries[i] = (struct wait_entry){
			.wait = &w,
			.cntr = to_cntr(cntrs[i]),
			.target = &targets[i],
		};
		entry_begin(&entries[i]);
	}
	ret = sleep_until_due(&w, entries, num, timeout_ns, flags & TALLY_COMP_CNTR_WAIT_ANY, index);
	for (i = 0; i < num; i++)
		entry_end(&entries[i]);
	wait_end(&w, dev);
	if (entries != few)
		kfree(entries);
	return ret;
}

static void cntr_wake(struct ib_device *device)
{
	struct tally_dev *dev = to_tdev(device);
	struct wait *w;

	spin_lock(&dev->cntr_wait_lock);
	list_for_each_entry(w, &dev->cntr_wait, link)
		wake_up(&w->wq);
	spin_unlock(&dev->cntr_wait_lock);
}

/* Under cntr.lock. */
static bool is_armed(const struct cntr *c, const struct notify *like)
{
	const struct notify *n;

	list_for_each_entry(n, &c->notifies, link)
		if (n->ctx == like->ctx && n->target == like->target && n->err_seen == like->err_seen &&
		    n->watch_err == like->watch_err)
			return true;
	return false;
}

static int cntr_notify(struct ib_comp_cntr *ib, u64 target, const u64 *err_seen, struct eventfd_ctx *ctx)
{
	struct cntr *c = to_cntr(ib);
	struct notify *n;
	int ret = 0;

	n = kmalloc(sizeof(*n), GFP_KERNEL_ACCOUNT);
	if (!n)
		return -ENOMEM;
	*n = (struct notify){
		.target = target,
		.err_seen = err_seen ? *err_seen : 0,
		.watch_err = err_seen,
		.ctx = ctx,
	};
	spin_lock(&c->lock);
	/* Who waits in vain for a while and then arms it once more has armed it once. */
	if (is_armed(c, n)) {
		eventfd_ctx_put(ctx);
		goto err_free;
	}
	ret = -ENOSPC;
	if (c->num_notifies == MAX_NOTIFIES)
		goto err_free;
	list_add_tail(&n->link, &c->notifies);
	c->num_notifies++;
	arm(c);
	/* After the barrier of arming: a change that this look misses is reported. */
	if (notify_due(c, n)) {
		tally_eventfd_signal(ctx);
		drop(c, n);
		arm(c);
	}
	spin_unlock(&c->lock);
	return 0;

err_free:
	spin_unlock(&c->lock);
	kfree(n);
	return ret;
}

const struct ib_comp_cntr_ops tally_cntr_ops = {
	.size = sizeof(struct cntr),
	.caps = cntr_caps,
	.create = cntr_create,
	.destroy = cntr_destroy,
	.modify = cntr_modify,
	.read = cntr_read,
	.attach = cntr_attach,
	.wait = cntr_wait,
	.wake = cntr_wake,
	.notify = cntr_notify,
};

static_assert(offsetof(struct cntr, ib) == 0);
