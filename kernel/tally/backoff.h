/* SPDX-License-Identifier: GPL-2.0-only */
/* When to try again what did not pay. */
#ifndef TALLY_BACKOFF_H
#define TALLY_BACKOFF_H

#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

/*
 * How long it is not tried again after a failure: about what a change of a page's modes there and back costs, twice as
 * long after each further one, up to a limit.
 */
#define TALLY_MIN_BACKOFF_NS (50 * NSEC_PER_USEC)
#define TALLY_MAX_BACKOFF_NS (500 * NSEC_PER_MSEC)

/**
 * struct tally_backoff - when to try again what has failed
 * @at: local_clock() before which it is not tried; read without a lock
 * @step: nanoseconds that the next failure adds
 */
struct tally_backoff {
	u64 at;
	u64 step;
};

static inline void tally_backoff_init(struct tally_backoff *b)
{
	b->at = 0;
	b->step = TALLY_MIN_BACKOFF_NS;
}

static inline bool tally_may_try(const struct tally_backoff *b, u64 now)
{
	return now >= READ_ONCE(b->at);
}

static inline void tally_failed(struct tally_backoff *b, u64 now)
{
	u64 step = READ_ONCE(b->step);

	WRITE_ONCE(b->at, now + step);
	WRITE_ONCE(b->step, min_t(u64, 2 * step, TALLY_MAX_BACKOFF_NS));
}

static inline void tally_succeeded(struct tally_backoff *b)
{
	WRITE_ONCE(b->step, TALLY_MIN_BACKOFF_NS);
}

#endif /* TALLY_BACKOFF_H */
