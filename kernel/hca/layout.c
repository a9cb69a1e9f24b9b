// SPDX-License-Identifier: GPL-2.0-only
/*
 * Indirect keys: lists and patterns of pieces of other keys, which may be indirect themselves.
 *
 * A key's layout is read without a lock while a work request may put another one in its place.  Each step down the
 * tree reads what it needs, then looks whether the layout is still in force; if so, what was read is of one piece.
 * Nothing that is read before that look is used to touch memory.
 */
#include "mkey.h"

struct hca_layout *hca_layout_begin(struct hca_indirect *ind)
{
	const struct hca_layout *from = &ind->layouts[ind->seq & 1];
	struct hca_layout *to = &ind->layouts[~ind->seq & 1];

	/* The last change of @seq before what is written now; pairs with the barrier in in_force(). */
	smp_wmb();
	*to = *from;
	return to;
}

void hca_layout_publish(struct hca_indirect *ind)
{
	/* The layout before the number; pairs with the acquire in layout_of(). */
	smp_store_release(&ind->seq, ind->seq + 1);
}

static const struct hca_layout *layout_of(const struct hca_indirect *ind, u32 *seq)
{
	/* Pairs with the release in hca_layout_publish(). */
	*seq = smp_load_acquire(&ind->seq);
	return &ind->layouts[*seq & 1];
}

/* Whether all that was read of the layout since layout_of() was of one piece. */
static bool in_force(const struct hca_indirect *ind, u32 seq)
{
	/* Pairs with the barrier in hca_layout_begin(). */
	smp_rmb();
	return READ_ONCE(ind->seq) == seq;
}

/*
 * What one step down a tree finds.  Of a pattern that has one piece a round, @rounds like it follow @stride bytes from
 * one to the next, each of @len bytes.
 */
struct piece {
	u32 key;
	u64 addr;
	u64 left;
	u32 rounds;
	u32 stride;
	u32 len;
};

/* The last entry of @num, at least one, that begins at or before @pos. */
static u32 find_entry(const struct hca_entry *entries, u32 num, u64 pos, u32 *hint)
{
	u32 low = 0, high = num, i = *hint;

	/* Mostly the one of last time, or the next. */
	if (i < num && entries[i].start <= pos) {
		if (i + 1 == num || entries[i + 1].start > pos)
			return i;
		if (i + 2 == num || (i + 2 < num && entries[i + 2].start > pos)) {
			*hint = i + 1;
			return i + 1;
		}
		low = i;
	}
	while (high - low > 1) {
		u32 mid = low + (high - low) / 2;

		if (entries[mid].start <= pos)
			low = mid;
		else
			high = mid;
	}
	*hint = low;
	return low;
}

/* What the key has @pos bytes from its start; read while it may change. */
static bool find_piece(const struct hca_indirect *ind, const struct hca_layout *l, u64 pos, u32 *hint,
		       struct piece *p)
{
	u32 num = min(READ_ONCE(l->num), ind->max_entries);
	const struct hca_entry *entries = hca_layout_entries(ind, l), *e;
	u64 rounds_behind = 0, size = 0;
	u64 in;

	if (!num)
		return false;
	if (READ_ONCE(l->strided)) {
		size = READ_ONCE(l->round);
		if (!size)
			return false;
		rounds_behind = div64_u64(pos, size);
		if (rounds_behind >= READ_ONCE(l->rounds))
			return false;
		pos -= rounds_behind * size;
	}
	e = &entries[find_entry(entries, num, pos, hint)];
	in = pos - READ_ONCE(e->start);
	p->len = READ_ONCE(e->len);
	if (in >= p->len)
		return false;
	p->left = p->len - in;
	p->key = READ_ONCE(e->key);
	p->stride = READ_ONCE(e->stride);
	p->addr = READ_ONCE(e->addr) + rounds_behind * p->stride + in;
	p->rounds = size && num == 1 ? READ_ONCE(l->rounds) - 1 - rounds_behind : 0;
	return true;
}

/*
 * Remembers what follows of the pattern, if it may all be touched like the piece itself: the base is looked at once for
 * all rounds of a slice, as it is for a piece of the same length.  A key that goes away waits for a grace period.
 */
static void follow(struct hca_claim *claim, const struct piece *p, const struct hca_mkey *base, u64 addr,
		   struct hca_path *path)
{
	u64 behind = p->left + p->stride - p->len;
	struct hca_mkey *again;
	u32 seq;

	if (p->stride < p->len ||
	    !hca_mkey_resolve(claim, p->key, p->addr, p->left + (u64)p->rounds * p->stride, &again, &seq) ||
	    again != base)
		return;
	path->rounds = p->rounds;
	path->len = p->len;
	path->stride = p->stride;
	path->next = addr + p->left;
	path->base = base;
	path->pos = p->addr + behind - base->iova;
}

void hca_path_skip(struct hca_path *path, u32 pieces)
{
	path->rounds -= pieces;
	path->next += (u64)pieces * path->len;
	path->pos += (u64)pieces * path->stride;
}

/* The next round's piece, and how many more are in the same block and no more than @span->len bytes. */
static void next_round(struct hca_path *path, bool write, struct hca_span *span)
{
	const struct hca_mkey *base = path->base;
	u64 block = 1ull << base->block_shift;
	u64 begin = (base->first_offset + path->pos) & (block - 1);
	u32 most = span->len;

	span->len = min(most, path->len);
	span->at = hca_mkey_run(base, path->pos, write, &span->len);
	span->stride = path->stride;
	span->more = 0;
	if (likely(span->len == path->len && begin + span->len <= block) && !base->null)
		span->more = min3((u32)min_t(u64, block - begin - span->len, U32_MAX) / span->stride,
				  most / span->len - 1, path->rounds - 1);
	hca_path_skip(path, 1);
}

bool hca_layout_span(const struct hca_mkey *m, u32 seq, u64 addr, bool write, struct hca_path *path,
		     struct hca_span *span)
{
	const struct hca_mkey *top = m;
	struct hca_claim claim __uninitialized;
	u64 begin = addr;
	u32 depth;

	/* Still in force, and not freed; a change from here on is as good as one in the middle of a piece. */
	if (path->rounds && addr == path->next && READ_ONCE(m->indirect->seq) == seq &&
	    !READ_ONCE(path->base->free)) {
		next_round(path, write, span);
		return true;
	}
	path->rounds = 0;
	span->more = 0;
	claim = (struct hca_claim){
		.dev = m->dev,
		.pdn = m->pdn,
		.qpn = HCA_ANY_QPN,
		.access = write ? HCA_ACCESS_LOCAL_WRITE : 0,
	};
	for (depth = 0; depth < HCA_KEY_DEPTH; depth++) {
		const struct hca_indirect *ind = m->indirect;
		const struct hca_layout *l = &ind->layouts[seq & 1];
		struct hca_mkey *base;
		struct piece p __uninitialized;
		bool found;

		found = find_piece(ind, l, addr - READ_ONCE(l->iova), &path->hint[depth], &p);
		if (unlikely(!in_force(ind, seq) || !found))
			return false;
		span->len = min_t(u64, span->len, p.left);
		if (unlikely(!hca_mkey_resolve(&claim, p.key, p.addr, span->len, &base, &seq)))
			return false;
		if (!base->indirect) {
			span->at = hca_mkey_run(base, p.addr - base->iova, write, &span->len);
			if (m == top && p.rounds)
				follow(&claim, &p, base, begin, path);
			return true;
		}
		m = base;
		addr = p.addr;
	}
	return false;
}

/* The access itself, not what the key leads to. */
static bool allows(const struct hca_claim *claim, const struct hca_layout *l, u32 key, u64 addr, u64 len)
{
	u32 qpn = READ_ONCE(l->qpn);
	u64 iova = READ_ONCE(l->iova);
	/* Behind the last entry there is nothing, however long the key is said to be. */
	u64 length = min(READ_ONCE(l->length), READ_ONCE(l->total));
	u64 off = addr - iova;

	if (READ_ONCE(l->free) || READ_ONCE(l->variant) != (key & 0xff))
		return false;
	if (qpn != HCA_ANY_QPN && qpn != claim->qpn)
		return false;
	if ((READ_ONCE(l->access) & claim->access) != claim->access)
		return false;
	return addr >= iova && off <= length && len <= length - off;
}

/* Of an entry, all that @len bytes at @pos of the key can want: of a pattern the whole piece, of every round. */
static bool extent(const struct hca_layout *l, const struct hca_entry *e, bool strided, u64 pos, u64 len, struct piece *p)
{
	u64 start = READ_ONCE(e->start), size = READ_ONCE(e->len), skip = 0;

	p->key = READ_ONCE(e->key);
	p->addr = READ_ONCE(e->addr);
	if (strided) {
		p->left = size + (u64)(READ_ONCE(l->rounds) - 1) * READ_ONCE(e->stride);
		return true;
	}
	if (start >= pos + len)
		return false;
	if (start < pos)
		skip = pos - start;
	if (skip >= size)
		return false;
	p->addr += skip;
	p->left = min(size - skip, pos + len - max(start, pos));
	return true;
}

static bool check_tree(struct hca_claim *claim, const struct hca_mkey *m, u32 seq, u64 pos, u64 len, u32 depth)
{
	const struct hca_indirect *ind = m->indirect;
	const struct hca_layout *l = &ind->layouts[seq & 1];
	const struct hca_entry *entries = hca_layout_entries(ind, l);
	u32 num = min(READ_ONCE(l->num), ind->max_entries);
	bool strided = READ_ONCE(l->strided);
	u32 hint = 0, i;

	if (!depth || !num)
		return false;
	for (i = strided ? 0 : find_entry(entries, num, pos, &hint); i < num; i++) {
		struct hca_mkey *base;
		struct piece p __uninitialized;
		u32 base_seq;
		bool wanted;

		if (!claim->tree_left)
			return false;
		claim->tree_left--;
		wanted = extent(l, &entries[i], strided, pos, len, &p);
		if (!in_force(ind, seq))
			return false;
		if (!wanted)
			break;
		if (!hca_mkey_resolve(claim, p.key, p.addr, p.left, &base, &base_seq))
			return false;
		if (base->indirect &&
		    !check_tree(claim, base, base_seq, p.addr - READ_ONCE(base->indirect->layouts[base_seq & 1].iova),
				p.left, depth - 1))
			return false;
	}
	return true;
}

bool hca_layout_resolve(struct hca_claim *claim, const struct hca_mkey *m, u32 key, u64 addr, u64 len, u32 *seq)
{
	const struct hca_layout *l;
	struct hca_claim below;
	u32 began_with = *seq;
	u64 pos;
	bool ok;

	l = layout_of(m->indirect, seq);
	/* A message that has begun with one layout does not go on with another. */
	if (unlikely(claim->pinned && *seq != began_with))
		return false;
	ok = allows(claim, l, key, addr, len);
	pos = addr - READ_ONCE(l->iova);
	if (!in_force(m->indirect, *seq) || !ok)
		return false;
	if (!claim->whole || !len)
		return true;
	below = (struct hca_claim){
		.dev = claim->dev,
		.pdn = claim->pdn,
		.qpn = HCA_ANY_QPN,
		.access = claim->access & (HCA_ACCESS_LOCAL_WRITE | HCA_ACCESS_REMOTE_WRITE | HCA_ACCESS_REMOTE_ATOMIC) ?
			  HCA_ACCESS_LOCAL_WRITE : 0,
		.tree_left = claim->tree_left,
	};
	ok = check_tree(&below, m, *seq, pos, len, HCA_KEY_DEPTH);
	claim->tree_left = below.tree_left;
	return ok;
}
