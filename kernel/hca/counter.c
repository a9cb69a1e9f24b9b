// SPDX-License-Identifier: GPL-2.0-only
/* Completion counters. */
#include "hca.h"

void hca_counter_add(struct hca_counter *c, u64 *word, u64 n)
{
	/*
	 * A full barrier.  Release: whoever acquires the new count sees the payload and the CQE.  And the change
	 * comes before the look at @armed; pairs with hca_counter_arm().
	 */
	hca_fetch_add64(word, n);
	if (unlikely(READ_ONCE(c->armed)))
		c->dev->ops->counter_event(c);
}

void hca_counter_arm(struct hca_counter *c, bool armed)
{
	WRITE_ONCE(c->armed, armed);
	/* Pairs with the addition in hca_counter_add(). */
	smp_mb();
}

void hca_count(struct hca_qp *qp, enum hca_class class, enum hca_cqe_syndrome status, u64 bytes)
{
	struct hca_counter *c = qp->counters[class];

	if (!c)
		return;
	if (status != HCA_SYND_OK)
		hca_counter_add(c, c->err, 1);
	else
		hca_counter_add(c, c->comp, c->bytes ? bytes : 1);
}
