// SPDX-License-Identifier: GPL-2.0-only
/* Walking gather and scatter lists, and moving bytes between them. */
#include "mkey.h"
#include "move.h"

/* What is moved word by word rather than by a call. */
#define SHORT_PIECE 256u

/* The longest span of at most @len bytes where @c stands, in its list's piece; false: there is none any more. */
static __always_inline bool span_at(struct hca_cursor *c, bool write, u32 len, struct hca_span *span)
{
	const struct hca_sge *sge = c->sge;
	const struct hca_mkey *m = sge->mkey;

	span->len = min_t(u64, len, sge->len - c->off);
	if (unlikely(!sge->data && m->indirect))
		return hca_layout_span(m, sge->seq, sge->addr + c->off, write, &c->path, span);
	span->more = 0;
	if (sge->data)
		span->at = (u8 *)sge->data + c->off;
	else
		span->at = hca_mkey_run(m, sge->addr - m->iova + c->off, write, &span->len);
	return true;
}

static void advance(struct hca_cursor *c, u32 len)
{
	c->off += len;
	if (c->off == c->sge->len) {
		c->sge++;
		c->left--;
		c->off = 0;
		/* What follows of a pattern follows in its key only. */
		c->path.rounds = 0;
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

/* Blocks of a pattern are small more often than not, and a call costs more than their bytes. */
static void move_piece(u8 *d, const u8 *s, u32 n)
{
	if (n > SHORT_PIECE || n % 8) {
		memcpy(d, s, n);
		return;
	}
	for (; n >= 32; n -= 32, d += 32, s += 32)
		memcpy(d, s, 32);
	for (; n; n -= 8, d += 8, s += 8)
		memcpy(d, s, 8);
}

/* How many pieces of @n bytes the span has after the first. */
static u32 more_of(const struct hca_span *span, u32 n)
{
	return span->len == n ? span->more : span->len / n - 1;
}

/*
 * Pieces of a pattern: as many as both sides have without a new look, at most @len bytes.  Moves and returns the bytes;
 * 0: there are not several, or the sides overlap.
 */
static u32 move_pieces(struct hca_cursor *dst, const struct hca_span *d, struct hca_cursor *src,
		       const struct hca_span *s, u32 n, u32 len)
{
	u32 d_step = d->len == n ? d->stride : n, s_step = s->len == n ? s->stride : n;
	u32 more = min3(more_of(d, n), more_of(s, n), len / n - 1), i;
	u8 *to = d->at;
	const u8 *from = s->at;

	if (!more || hca_overlap(to, (u64)more * d_step + n, from, (u64)more * s_step + n))
		return 0;
	for (i = 0; i <= more; i++, to += d_step, from += s_step)
		move_piece(to, from, n);
	if (d->len == n && d->more)
		hca_path_skip(&dst->path, more);
	if (s->len == n && s->more)
		hca_path_skip(&src->path, more);
	return (more + 1) * n;
}

/* The last word, @len bytes at @to from several pieces, of which the first is @s: put together, then stored whole. */
static enum hca_copied gather_word(struct hca_cursor *dst, u8 *to, struct hca_cursor *src, struct hca_span *s, u32 len)
{
	u8 word[sizeof(u64)] __aligned(8);
	u32 have = 0;

	for (;;) {
		memcpy(word + have, s->at, s->len);
		advance(src, s->len);
		have += s->len;
		if (have == len)
			break;
		if (!span_at(src, false, len - have, s))
			return HCA_COPY_NO_SRC;
	}
	hca_move_word(to, word, len);
	advance(dst, len);
	return HCA_COPIED;
}

static enum hca_copied move(struct hca_cursor *dst, struct hca_cursor *src, u32 len)
{
	while (len) {
		struct hca_span d __uninitialized, s __uninitialized;
		u32 n, pieces = 0;

		if (unlikely(!span_at(src, false, len, &s)))
			return HCA_COPY_NO_SRC;
		if (unlikely(!span_at(dst, true, len, &d)))
			return HCA_COPY_NO_DST;
		if (unlikely(s.len < len && len <= sizeof(u64) && d.len == len))
			return gather_word(dst, d.at, src, &s, len);
		n = min(d.len, s.len);
		if (unlikely(d.more | s.more))
			pieces = move_pieces(dst, &d, src, &s, n, len);
		if (pieces)
			n = pieces;
		else
			hca_move(d.at, s.at, n);
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
	tail = hca_tail(len);
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
	struct hca_cursor c __uninitialized;
	struct hca_span span __uninitialized;

	hca_cursor_init(&c, sge, 1);
	if (!span_at(&c, true, sizeof(u64), &span) || span.len < 8 || !IS_ALIGNED((unsigned long)span.at, 8))
		return NULL;
	/* What somebody's write has left there is nobody's to read. */
	if (hca_mkey_is_sink(span.at))
		return NULL;
	return (u64 *)span.at;
}
