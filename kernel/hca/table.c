// SPDX-License-Identifier: GPL-2.0-only
/* Numbered objects: two levels, the second allocated on demand. */
#include "table.h"

/* Stands in a slot that is reserved and not published, for the allocator's eyes only: lookups see NULL. */
struct hca_table_bits {
	unsigned long map[HCA_TABLE_LEAF / (8 * sizeof(unsigned long))];
};

struct hca_table_full_leaf {
	struct hca_table_leaf leaf;
	struct hca_table_bits taken;
};

static struct hca_table_bits *taken_of(struct hca_table_leaf *leaf)
{
	return &container_of(leaf, struct hca_table_full_leaf, leaf)->taken;
}

static bool is_taken(struct hca_table_bits *b, u32 i)
{
	return b->map[i / (8 * sizeof(unsigned long))] >> (i % (8 * sizeof(unsigned long))) & 1;
}

static void flip(struct hca_table_bits *b, u32 i)
{
	b->map[i / (8 * sizeof(unsigned long))] ^= 1ul << (i % (8 * sizeof(unsigned long)));
}

static struct hca_table_leaf *leaf_locked(struct hca_table *t, u32 l)
{
	return rcu_dereference_protected(t->leaves[l], lockdep_is_held(&t->lock));
}

int hca_table_init(struct hca_table *t, u32 first, u32 limit)
{
	u32 numbers = roundup_pow_of_two(max_t(u32, limit + first, HCA_TABLE_LEAF)) * 2;

	if (numbers >> HCA_TABLE_LEAF_SHIFT > HCA_TABLE_LEAVES)
		numbers = HCA_TABLE_LEAVES << HCA_TABLE_LEAF_SHIFT;
	spin_lock_init(&t->lock);
	t->first = first;
	t->limit = limit;
	t->count = 0;
	t->next = first;
	t->num_leaves = 0;
	t->leaves = kvcalloc(numbers >> HCA_TABLE_LEAF_SHIFT, sizeof(*t->leaves), GFP_KERNEL);
	if (!t->leaves)
		return -ENOMEM;
	t->num_leaves = numbers >> HCA_TABLE_LEAF_SHIFT;
	return 0;
}

void hca_table_destroy(struct hca_table *t)
{
	u32 l;

	for (l = 0; l < t->num_leaves; l++) {
		struct hca_table_leaf *leaf = rcu_dereference_protected(t->leaves[l], true);

		if (leaf)
			kvfree(container_of(leaf, struct hca_table_full_leaf, leaf));
	}
	kvfree(t->leaves);
	t->leaves = NULL;
	t->num_leaves = 0;
}

/* Takes the first free number at or after *from in one leaf; under the lock. */
static bool take_in_leaf(struct hca_table_leaf *leaf, u32 from, u32 *slot)
{
	struct hca_table_bits *taken = taken_of(leaf);
	u32 i;

	if (leaf->used == HCA_TABLE_LEAF)
		return false;
	for (i = from; i < HCA_TABLE_LEAF; i++) {
		if (is_taken(taken, i))
			continue;
		flip(taken, i);
		leaf->used++;
		*slot = i;
		return true;
	}
	return false;
}

int hca_table_reserve(struct hca_table *t, u32 *index)
{
	struct hca_table_full_leaf *fresh = NULL;
	u32 numbers = t->num_leaves << HCA_TABLE_LEAF_SHIFT;
	int ret = -ENOMEM;
	u32 at, left, slot;

again:
	spin_lock(&t->lock);
	if (t->count == t->limit)
		goto out;
	at = t->next;
	/* one leaf more than there are: the first is entered in its middle */
	for (left = t->num_leaves + 1; left; left--) {
		u32 l = at >> HCA_TABLE_LEAF_SHIFT;
		struct hca_table_leaf *leaf = leaf_locked(t, l);

		if (!leaf) {
			if (!fresh) {
				spin_unlock(&t->lock);
				fresh = kvzalloc(sizeof(*fresh), GFP_KERNEL);
				if (!fresh)
					return -ENOMEM;
				goto again;
			}
			leaf = &fresh->leaf;
			rcu_assign_pointer(t->leaves[l], leaf);
			fresh = NULL;
		}
		if (take_in_leaf(leaf, at & (HCA_TABLE_LEAF - 1), &slot)) {
			*index = (l << HCA_TABLE_LEAF_SHIFT) + slot;
			t->next = *index + 1 < numbers ? *index + 1 : t->first;
			t->count++;
			ret = 0;
			break;
		}
		at = (l + 1) << HCA_TABLE_LEAF_SHIFT;
		if (at >= numbers)
			at = t->first;
	}
out:
	spin_unlock(&t->lock);
	kvfree(fresh);
	return ret;
}

void hca_table_publish(struct hca_table *t, u32 index, void *obj)
{
	spin_lock(&t->lock);
	rcu_assign_pointer(leaf_locked(t, index >> HCA_TABLE_LEAF_SHIFT)->slot[index & (HCA_TABLE_LEAF - 1)],
			   obj);
	spin_unlock(&t->lock);
}

void hca_table_hide(struct hca_table *t, u32 index)
{
	hca_table_publish(t, index, NULL);
}

void hca_table_release(struct hca_table *t, u32 index)
{
	struct hca_table_leaf *leaf;

	spin_lock(&t->lock);
	leaf = leaf_locked(t, index >> HCA_TABLE_LEAF_SHIFT);
	RCU_INIT_POINTER(leaf->slot[index & (HCA_TABLE_LEAF - 1)], NULL);
	flip(taken_of(leaf), index & (HCA_TABLE_LEAF - 1));
	leaf->used--;
	t->count--;
	spin_unlock(&t->lock);
}
