/* SPDX-License-Identifier: GPL-2.0-only */
/* Looking up a key, checking an access and finding the memory of a direct key: what every message does. */
#ifndef HCA_MKEY_H
#define HCA_MKEY_H

#include "hca.h"

/* mkey.c: the memory of the null key: what it reads as, or where writes go; at most *@len bytes, which is set. */
u8 *hca_mkey_null_run(bool write, u32 *len);
/* mkey.c: whether that is where writes to the null key go. */
bool hca_mkey_is_sink(const u8 *at);

/* The key, whatever its variant and state, if it belongs to the domain; under RCU. */
static inline struct hca_mkey *hca_mkey_find(struct hca_dev *dev, u32 key, u32 pdn)
{
	struct hca_mkey *m = hca_table_lookup(&dev->mkeys, key >> 8);

	return likely(m && (m->pdn == pdn || m->null)) ? m : NULL;
}

static inline bool hca_mkey_in_bounds(const struct hca_mkey *m, u64 addr, u64 len)
{
	u64 off = addr - m->iova;

	return addr >= m->iova && off <= m->length && len <= m->length - off;
}

/*
 * Whether a key allows what is claimed of @len bytes at @addr.  Then @mkey is the key and @seq what sge.seq is; under
 * RCU.
 */
static inline bool hca_mkey_resolve(struct hca_claim *claim, u32 key, u64 addr, u64 len, struct hca_mkey **mkey,
				    u32 *seq)
{
	struct hca_mkey *m = hca_mkey_find(claim->dev, key, claim->pdn);

	if (unlikely(!m))
		return false;
	*mkey = m;
	if (unlikely(m->indirect))
		return hca_layout_resolve(claim, m, key, addr, len, seq);
	return m->key == key && !READ_ONCE(m->free) && (m->access & claim->access) == claim->access &&
	       hca_mkey_in_bounds(m, addr, len);
}

/* The same of a piece of a list, which is not inline data. */
static inline bool hca_sge_resolve(struct hca_claim *claim, struct hca_sge *sge)
{
	return hca_mkey_resolve(claim, sge->key, sge->addr, sge->len, &sge->mkey, &sge->seq);
}

/* mkey.c: the same, if the next block lies beside the first. */
u64 hca_mkey_beside_more(const struct hca_mkey *m, u64 i, u64 have, u64 len);

/* Of @len bytes of the key, the first @have of which fill block @i, how many lie side by side. */
static inline u64 hca_mkey_beside(const struct hca_mkey *m, u64 i, u64 have, u64 len)
{
	if (m->blocks[i + 1] != m->blocks[i] + (1ull << m->block_shift))
		return have;
	return hca_mkey_beside_more(m, i, have, len);
}

/* Where @pos bytes from the start of a direct key are, and how many of *@len lie side by side there. */
static inline u8 *hca_mkey_run(const struct hca_mkey *m, u64 pos, bool write, u32 *len)
{
	u64 size = 1ull << m->block_shift;
	u64 i, in;

	if (unlikely(m->null))
		return hca_mkey_null_run(write, len);
	pos += m->first_offset;
	i = pos >> m->block_shift;
	in = pos & (size - 1);
	if (unlikely(*len > size - in))
		*len = hca_mkey_beside(m, i, size - in, *len);
	return m->blocks[i] + in;
}

/*
 * Kernel address of @addr, if a direct key allows all of @access to @whole bytes from there and has the first @len of
 * them side by side; else NULL.
 */
static __always_inline u8 *hca_mkey_direct(struct hca_dev *dev, u32 pdn, u32 key, u64 addr, u32 len, u32 whole, u32 access)
{
	const struct hca_mkey *m = hca_table_lookup(&dev->mkeys, key >> 8);
	u64 pos, size, i, in;

	if (unlikely(!m || m->key != key || m->pdn != pdn || m->indirect || m->null || READ_ONCE(m->free) ||
		     (m->access & access) != access || !hca_mkey_in_bounds(m, addr, whole)))
		return NULL;
	pos = addr - m->iova + m->first_offset;
	size = 1ull << m->block_shift;
	i = pos >> m->block_shift;
	in = pos & (size - 1);
	if (unlikely(len > size - in && hca_mkey_beside(m, i, size - in, len) != len))
		return NULL;
	return m->blocks[i] + in;
}

#endif /* HCA_MKEY_H */
