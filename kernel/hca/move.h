/* SPDX-License-Identifier: GPL-2.0-only */
/* Moving bytes between two pieces of kernel memory. */
#ifndef HCA_MOVE_H
#define HCA_MOVE_H

#include "port.h"

/* Whether two pieces of memory have bytes in common. */
static inline bool hca_overlap(const u8 *a, u64 a_len, const u8 *b, u64 b_len)
{
	return a < b + b_len && b < a + a_len;
}

/* Up to 8 bytes; a word that is aligned where it goes, in one store (and in one load if it is where it comes from). */
static inline void hca_move_word(u8 *d, const u8 *s, u32 n)
{
	if (likely(n == 8 && IS_ALIGNED((unsigned long)d, 8))) {
		u64 word;

		if (likely(IS_ALIGNED((unsigned long)s, 8)))
			word = READ_ONCE(*(u64 *)s);
		else
			memcpy(&word, s, 8);
		WRITE_ONCE(*(u64 *)d, word);
	} else if (n == 4 && IS_ALIGNED((unsigned long)d, 4)) {
		u32 word;

		if (likely(IS_ALIGNED((unsigned long)s, 4)))
			word = READ_ONCE(*(u32 *)s);
		else
			memcpy(&word, s, 4);
		WRITE_ONCE(*(u32 *)d, word);
	} else {
		memmove(d, s, n);
	}
}

/* Any number. */
static inline void hca_move(u8 *d, const u8 *s, u32 n)
{
	if (n <= 8)
		hca_move_word(d, s, n);
	else if (unlikely(hca_overlap(d, n, s, n)))
		memmove(d, s, n);
	else
		memcpy(d, s, n);
}

/* How many bytes of a message of @len become visible after all others: what is left of it by words of 8, or one. */
static inline u32 hca_tail(u32 len)
{
	return ((len - 1) & 7) + 1;
}

/* A whole message of at least one byte. */
static inline void hca_move_message(u8 *d, const u8 *s, u32 len)
{
	u32 tail = hca_tail(len);

	if (len > tail) {
		hca_move(d, s, len - tail);
		/* Pairs with the acquire of whoever polls the last bytes of a buffer. */
		smp_wmb();
	}
	hca_move_word(d + len - tail, s + len - tail, tail);
}

#endif /* HCA_MOVE_H */
