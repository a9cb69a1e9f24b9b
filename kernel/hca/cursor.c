// SPDX-License-Identifier: GPL-2.0-only
/* Walking gather and scatter lists, and moving bytes between them. */
#include "hca.h"

/* The longest piece of kernel memory at @off of @sge, not beyond its end. */
static u8 *run_at(const struct hca_sge *sge, u32 off, u32 *len)
{
	const struct hca_mkey *m = sge->mkey;
	u32 left = sge->len - off;
	u64 pos, in_block;

	if (sge->data) {
		*len = left;
		return (u8 *)sge->data + off;
	}
	pos = m->first_offset + (sge->addr - m->iova) + off;
	in_block = pos & ((1ull << m->block_shift) - 1);
	*len = min_t(u64, left, (1ull << m->block_shift) - in_block);
	return m->blocks[pos >> m->block_shift] + in_block;
}

static void advance(struct hca_cursor *c, u32 len)
{
	c->off += len;
	if (c->off == c->sge->len) {
		c->sge++;
		c->left--;
		c->off = 0;
	}
}

void hca_cursor_skip(struct hca_cursor *c, u64 len)
{
	while (len) {
		u32 n = min_t(u64, len, c->sge->len - c->off);

		advance(c, n);
		len -= n;
	}
}

/* Up to 8 bytes; an aligned word in one store. */
static void move_small(u8 *d, const u8 *s, u32 n)
{
	if (n == 8 && IS_ALIGNED((unsigned long)d | (unsigned long)s, 8))
		WRITE_ONCE(*(u64 *)d, READ_ONCE(*(u64 *)s));
	else if (n == 4 && IS_ALIGNED((unsigned long)d | (unsigned long)s, 4))
		WRITE_ONCE(*(u32 *)d, READ_ONCE(*(u32 *)s));
	else
		memmove(d, s, n);
}

static void move(struct hca_cursor *dst, struct hca_cursor *src, u32 len)
{
	while (len) {
		u32 dl, sl, n;
		u8 *d = run_at(dst->sge, dst->off, &dl);
		u8 *s = run_at(src->sge, src->off, &sl);

		n = min(len, min(dl, sl));
		if (n <= 8)
			move_small(d, s, n);
		else if (unlikely(d < s + n && s < d + n))
			memmove(d, s, n);
		else
			memcpy(d, s, n);
		advance(dst, n);
		advance(src, n);
		len -= n;
	}
}

void hca_copy(struct hca_cursor *dst, struct hca_cursor *src, u32 len)
{
	u32 tail;

	if (!len)
		return;
	tail = ((len - 1) & 7) + 1;
	if (len > tail) {
		move(dst, src, len - tail);
		/* Pairs with the acquire of whoever polls the last bytes of a buffer. */
		smp_wmb();
	}
	move(dst, src, tail);
}

u64 *hca_sge_word(const struct hca_sge *sge)
{
	u32 len;
	u8 *p = run_at(sge, 0, &len);

	return len >= 8 && IS_ALIGNED((unsigned long)p, 8) ? (u64 *)p : NULL;
}
