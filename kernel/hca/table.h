/* SPDX-License-Identifier: GPL-2.0-only */
/* Numbered objects of one kind (QPs, CQs, SRQs, keys): lock-free lookup, next-fit allocation. */
#ifndef HCA_TABLE_H
#define HCA_TABLE_H

#include "port.h"

#define HCA_TABLE_LEAF_SHIFT	9
#define HCA_TABLE_LEAF		(1u << HCA_TABLE_LEAF_SHIFT)
#define HCA_TABLE_LEAVES	(1u << (24 - HCA_TABLE_LEAF_SHIFT))

struct hca_table_leaf {
	u32 used;
	void __rcu *slot[HCA_TABLE_LEAF];
};

/**
 * struct hca_table - objects by number
 * @lock: serializes changes; lookups take none
 * @first: smallest number given out
 * @limit: how many objects may exist
 * @count: how many do
 * @num_leaves: how many there is room for
 * @next: where the search for a free number starts, so that a number is not used again at once
 * @leaves: allocated when first needed, freed with the table
 *
 * A slot is read under RCU.  Who removes an object waits for a grace period before he frees it.
 */
struct hca_table {
	spinlock_t lock;
	u32 first;
	u32 limit;
	u32 count;
	u32 next;
	u32 num_leaves;
	struct hca_table_leaf __rcu **leaves;
};

/**
 * hca_table_init - make an empty table
 * @t: the table
 * @first: smallest number it gives out
 * @limit: how many objects may exist at once; numbers stay below a power of two at least twice as large
 *
 * May sleep.  Return: 0 or -ENOMEM.
 */
int hca_table_init(struct hca_table *t, u32 first, u32 limit);

/**
 * hca_table_destroy - free a table that is empty and that nobody looks at any more
 * @t: the table; all zeros, or one whose making has failed, will do
 */
void hca_table_destroy(struct hca_table *t);

/**
 * hca_table_reserve - take a free number; lookups do not find anything there yet
 * @t: the table
 * @index: the number
 *
 * May sleep.  Return: 0, or -ENOMEM when the limit is reached or memory is short.
 */
int hca_table_reserve(struct hca_table *t, u32 *index);

/**
 * hca_table_publish - let lookups find an object
 * @t: the table
 * @index: from hca_table_reserve()
 * @obj: complete before the call (release; pairs with the dependency in hca_table_lookup())
 */
void hca_table_publish(struct hca_table *t, u32 index, void *obj);

/**
 * hca_table_hide - lookups that start from here on find nothing; the number stays taken
 * @t: the table
 * @index: the number
 */
void hca_table_hide(struct hca_table *t, u32 index);

/**
 * hca_table_release - give a number back
 * @t: the table
 * @index: from hca_table_reserve(), hidden or never published
 */
void hca_table_release(struct hca_table *t, u32 index);

/**
 * hca_table_lookup - find an object
 * @t: the table
 * @index: any value
 *
 * The caller is in an RCU read section, as long as it uses the object.  Return: the object or NULL.
 */
static inline void *hca_table_lookup(const struct hca_table *t, u32 index)
{
	const struct hca_table_leaf *leaf;

	if (unlikely((index >> HCA_TABLE_LEAF_SHIFT) >= t->num_leaves))
		return NULL;
	leaf = rcu_dereference(t->leaves[index >> HCA_TABLE_LEAF_SHIFT]);
	if (unlikely(!leaf))
		return NULL;
	return rcu_dereference(leaf->slot[index & (HCA_TABLE_LEAF - 1)]);
}

#endif /* HCA_TABLE_H */
