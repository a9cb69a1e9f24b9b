// SPDX-License-Identifier: GPL-2.0-only
/* Completion queues of kernel users: work completions in kernel memory, with no CQE in between. */
#include "tally.h"

/**
 * struct tally_kernel_cq - a CQ that poll_cq reads
 * @lock: everything below; a leaf but for the completion handler, which only queues work.  Posters and pollers may
 *	have disabled interrupts.
 * @wcs: ring
 * @mask: entries - 1
 * @pi: next to be written
 * @ci: next to be polled
 * @armed: the handler is to be called at the next completion
 * @solicited: but only at one that is solicited or an error
 */
struct tally_kernel_cq {
	spinlock_t lock;
	struct ib_wc *wcs;
	u32 mask;
	u32 pi;
	u32 ci;
	bool armed;
	bool solicited;
};

/**
 * tally_kernel_cq_create - tally_create_cq() for a kernel user
 * @cq: zeroed but for what ib_core knows of it
 * @attr: how large
 *
 * Return: 0; -EINVAL for a size that the device does not have; -EOPNOTSUPP for flags; -ENOMEM.
 */
int tally_kernel_cq_create(struct tally_cq *cq, const struct ib_cq_init_attr *attr)
{
	struct tally_kernel_cq *k;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > TALLY_MAX_CQE)
		return -EINVAL;
	k = kzalloc(sizeof(*k), GFP_KERNEL);
	if (!k)
		return -ENOMEM;
	spin_lock_init(&k->lock);
	k->mask = roundup_pow_of_two(attr->cqe) - 1;
	k->wcs = kvcalloc(k->mask + 1, sizeof(*k->wcs), GFP_KERNEL);
	if (!k->wcs) {
		kfree(k);
		return -ENOMEM;
	}
	cq->kernel = k;
	cq->ib.cqe = k->mask + 1;
	return 0;
}

/**
 * tally_kernel_cq_destroy - tally_destroy_cq() of such a queue
 * @cq: no QP uses it any more
 */
void tally_kernel_cq_destroy(struct tally_cq *cq)
{
	kvfree(cq->kernel->wcs);
	kfree(cq->kernel);
	cq->kernel = NULL;
}

/**
 * tally_kernel_cq_add - something has completed
 * @ib: the queue; one that is full loses it
 * @wc: copied
 * @solicited: the sender wanted the receiver to be woken
 *
 * Any context.
 */
void tally_kernel_cq_add(struct ib_cq *ib, const struct ib_wc *wc, bool solicited)
{
	struct tally_kernel_cq *k = to_tcq(ib)->kernel;
	unsigned long flags;

	spin_lock_irqsave(&k->lock, flags);
	if (k->pi - k->ci <= k->mask)
		k->wcs[k->pi++ & k->mask] = *wc;
	if (k->armed && (!k->solicited || solicited || wc->status != IB_WC_SUCCESS)) {
		k->armed = false;
		ib->comp_handler(ib, ib->cq_context);
	}
	spin_unlock_irqrestore(&k->lock, flags);
}

/**
 * tally_kernel_cq_forget - drop what is there of a queue pair
 * @ib: the queue
 * @qp: the queue pair; nothing more of it completes
 */
void tally_kernel_cq_forget(struct ib_cq *ib, const struct ib_qp *qp)
{
	struct tally_kernel_cq *k = to_tcq(ib)->kernel;
	u32 from, to;

	spin_lock_irq(&k->lock);
	for (from = to = k->ci; from != k->pi; from++)
		if (k->wcs[from & k->mask].qp != qp)
			k->wcs[to++ & k->mask] = k->wcs[from & k->mask];
	k->pi = to;
	spin_unlock_irq(&k->lock);
}

/**
 * tally_poll_cq - ib_device_ops.poll_cq
 * @ib: a kernel user's queue
 * @num: how many to take at most
 * @wcs: where to
 *
 * Any context.  Return: how many.
 */
int tally_poll_cq(struct ib_cq *ib, int num, struct ib_wc *wcs)
{
	struct tally_kernel_cq *k = to_tcq(ib)->kernel;
	unsigned long flags;
	int n;

	spin_lock_irqsave(&k->lock, flags);
	for (n = 0; n < num && k->ci != k->pi; n++)
		wcs[n] = k->wcs[k->ci++ & k->mask];
	spin_unlock_irqrestore(&k->lock, flags);
	return n;
}

/**
 * tally_req_notify_cq - ib_device_ops.req_notify_cq
 * @ib: a kernel user's queue
 * @flags: when to call the handler
 *
 * Any context.  Return: 1 if asked whether there is something to be polled, and there is; else 0.
 */
int tally_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags)
{
	struct tally_kernel_cq *k = to_tcq(ib)->kernel;
	unsigned long irq;
	int ret;

	spin_lock_irqsave(&k->lock, irq);
	/* Who is armed for everything stays so. */
	if ((flags & IB_CQ_SOLICITED_MASK) == IB_CQ_NEXT_COMP)
		k->solicited = false;
	else if (!k->armed)
		k->solicited = true;
	k->armed = true;
	ret = flags & IB_CQ_REPORT_MISSED_EVENTS && k->ci != k->pi;
	spin_unlock_irqrestore(&k->lock, irq);
	return ret;
}
