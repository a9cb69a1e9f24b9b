// SPDX-License-Identifier: GPL-2.0-only
/* Walking gather and scatter lists, and moving bytes between them. */
#include "hca.h"

/* The longest piece of kernel memory where @c stands, at most to the end of its list's piece; NULL: none any more. */
static u8 *run_at(struct hca_cursor *c, bool write, u32 *len)
{
	const struct hca_sge *sge = c->sge;
	const struct hca_mkey *m = sge->mkey;

	*len = sge->len - c->off;
	if (sge->data)
		return (u8 *)sge->data + c->off;
	if (unlikely(m->indirect))
		return hca_layout_run(m, sge->seq, sge->addr + c->off, write, c->hint, len);
	return hca_mkey_run(m, sge->addr - m->iova + c->off, write, len);
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

static enum hca_copied move(struct hca_cursor *dst, struct hca_cursor *src, u32 len)
{
	while (len) {
		u32 dl, sl, n;
		u8 *d = run_at(dst, true, &dl);
		u8 *s = run_at(src, false, &sl);

		if (unlikely(!s))
			return HCA_COPY_NO_SRC;
		if (unlikely(!d))
			return HCA_COPY_NO_DST;
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
	return HCA_COPIED;
}

enum hca_copied hca_copy(struct hca_cursor *dst, struct hca_cursor *src, u32 len)
{
	enum hca_copied ret;
	u32 tail;

	if (!len)
		return HCA_COPIED;
	tail = ((len - 1) & 7) + 1;
	if (len > tail) {
		ret = move(dst, src, len - tail);
		if (unlikely(ret != HCA_COPIED))
			return ret;
		/* Pairs with the acquire of whoever polls the last bytes of a buffer. */
		smp_wmb();
	}
	return move(dst, src, tail);
}

u64 *hca_sge_word(const struct hca_sge *sge)
{
	struct hca_cursor c;
	u32 len;
	u8 *p;

	hca_cursor_init(&c, sge, 1);
	p = run_at(&c, true, &len);
	return p && len >= 8 && IS_ALIGNED((unsigned long)p, 8) ? (u64 *)p : NULL;
}
