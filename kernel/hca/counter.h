/* SPDX-License-Identifier: GPL-2.0-only */
/* Counting successes a batch at a time. */
#ifndef HCA_COUNTER_H
#define HCA_COUNTER_H

#include "hca.h"

/* The counter gets what it is owed; under the lock that @owed is under. */
static inline void hca_settle(struct hca_owed *owed)
{
	if (!owed->n)
		return;
	hca_counter_add(owed->counter, owed->counter->comp, owed->n);
	owed->n = 0;
}

/* An operation of @class has succeeded, which its counter need not know at once. */
static inline void hca_count_later(struct hca_owed *owed, struct hca_qp *qp, enum hca_class class, u64 bytes)
{
	struct hca_counter *c = qp->counters[class];

	if (!c)
		return;
	if (unlikely(owed->counter != c)) {
		hca_settle(owed);
		owed->counter = c;
	}
	owed->n += c->bytes ? bytes : 1;
}

#endif /* HCA_COUNTER_H */
