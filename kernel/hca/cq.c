// SPDX-License-Identifier: GPL-2.0-only
/* Completion queues. */
#include "hca.h"

void hca_cq_init(struct hca_cq *cq, struct hca_dev *dev, void *buf, u32 entries, u32 cqe_size, __be32 *dbrec)
{
	spin_lock_init(&cq->lock);
	cq->dev = dev;
	cq->buf = buf;
	cq->mask = entries - 1;
	cq->cqe_size = cqe_size;
	cq->dbrec = dbrec;
	cq->fired_sn = HCA_CQ_NO_SN;
}

/* Completions that user space has not polled, as it says itself: 24 bits, or nonsense. */
static u32 outstanding(const struct hca_cq *cq)
{
	return (READ_ONCE(cq->pi) - be32_to_cpu(READ_ONCE(cq->dbrec[HCA_DBREC_CQ_CI]))) & 0xffffff;
}

bool hca_cq_is_empty(const struct hca_cq *cq)
{
	return !outstanding(cq);
}

/* Whether it is, going by a new look at the consumer index. */
static bool is_full_now(struct hca_cq *cq)
{
	u32 used;

	if (cq->ignore_overrun)
		return false;
	used = outstanding(cq);
	/* What is more than the ring holds is a lie; it reads as full. */
	if (used > cq->mask)
		return true;
	cq->ci = cq->pi - used;
	return false;
}

static inline bool is_full(struct hca_cq *cq)
{
	return unlikely(cq->pi - cq->ci > cq->mask) && is_full_now(cq);
}

static struct hca_cqe *entry(struct hca_cq *cq, u32 index)
{
	u32 place = cq->collapsed ? 0 : index & cq->mask;

	return (struct hca_cqe *)(cq->buf + (size_t)place * cq->cqe_size + (cq->cqe_size - HCA_CQE_SIZE));
}

static u8 owner(const struct hca_cq *cq)
{
	return !!(cq->pi & (cq->mask + 1));
}

/* Two fields side by side.  A CQE is written in whole words; put together in memory, they would have to wait for it. */
static __be64 word(u32 first, u32 second)
{
	return cpu_to_be64((u64)first << 32 | second);
}

/* What is at bytes 48 to 55: of a failed one the syndrome, else the time if the CQ wants it. */
static __be64 word_of_48(const struct hca_cq *cq, const struct hca_completion *c)
{
	if (unlikely(c->syndrome))
		return word(0, c->vendor_err << 8 | c->syndrome);
	return unlikely(cq->timestamps) ? cpu_to_be64(hca_clock_ns()) : 0;
}

/*
 * The word with the owner bit goes last; pairs with the consumer's read barrier after it has seen the bit.  Under the
 * lock, the clock included, so that the ring is in the order of time.
 */
static __always_inline void put(struct hca_cq *cq, const struct hca_completion *c)
{
	__be64 *to = (__be64 *)entry(cq, cq->pi);
	u8 op_own = c->opcode << 4 | owner(cq);

	BUILD_BUG_ON(offsetof(struct hca_cqe, flags_rqpn) != 3 * 8);
	BUILD_BUG_ON(offsetof(struct hca_cqe, srqn_uidx) != 4 * 8);
	BUILD_BUG_ON(offsetof(struct hca_cqe, byte_cnt) != 5 * 8 + 4);
	BUILD_BUG_ON(offsetof(struct hca_cqe, syndrome) != 6 * 8 + 7);
	BUILD_BUG_ON(offsetof(struct hca_cqe, sop_drop_qpn) != 7 * 8);
	if (unlikely(cq->pad) && cq->cqe_size > HCA_CQE_SIZE)
		memset((u8 *)to - HCA_CQE_SIZE, 0, HCA_CQE_SIZE);
	WRITE_ONCE(to[0], 0);
	WRITE_ONCE(to[1], 0);
	WRITE_ONCE(to[2], 0);
	WRITE_ONCE(to[3], word(c->src_qpn, 0));
	WRITE_ONCE(to[4], word(c->user_index, be32_to_cpu(c->imm)));
	WRITE_ONCE(to[5], word(0, c->byte_cnt));
	WRITE_ONCE(to[6], word_of_48(cq, c));
	smp_store_release(&to[7], word((u32)c->send_op << 24 | c->qpn, (u32)c->wqe_counter << 16 | op_own));
	cq->pi++;
}

static void fire(struct hca_cq *cq)
{
	WRITE_ONCE(cq->armed, HCA_CQ_UNARMED);
	cq->waiting = 0;
	/* A record of zeroes may be one that nobody has written to yet: what it is used for first is not this arm. */
	if (!cq->arm_word && cq->fired_sn == HCA_CQ_NO_SN)
		cq->fired_zeroes = true;
	else
		cq->fired_sn = cq->arm_sn;
	hca_stats_add(cq->dev->stats, HCA_STAT_EVENTS, 1);
	cq->dev->ops->cq_event(cq);
}

/* What it is armed for has come, @count times by now: raise the event, or see to it that it is raised later. */
static void matched(struct hca_cq *cq, u32 count)
{
	bool first = !cq->waiting;

	cq->waiting = count;
	if (likely(!cq->max_ns) || (cq->max_count && count >= cq->max_count))
		fire(cq);
	else if (first)
		cq->dev->ops->cq_timer(cq, cq->max_ns);
}

bool hca_cq_write(struct hca_cq *cq, const struct hca_completion *c)
{
	bool urgent = c->solicited || c->syndrome;

	spin_lock(&cq->lock);
	if (unlikely(cq->error))
		goto refuse;
	if (unlikely(is_full(cq))) {
		cq->error = true;
		hca_stats_add(cq->dev->stats, HCA_STAT_ERR_CQ_OVERRUN, 1);
		cq->dev->ops->cq_error(cq);
		goto refuse;
	}
	put(cq, c);
	hca_stats_add(cq->dev->stats, HCA_STAT_CQES, 1);
	if (urgent)
		cq->solicited_pi = cq->pi;
	if (unlikely(cq->armed == HCA_CQ_ARMED || (cq->armed == HCA_CQ_ARMED_SOLICITED && urgent)))
		matched(cq, cq->waiting + 1);
	spin_unlock(&cq->lock);
	return true;

refuse:
	spin_unlock(&cq->lock);
	return false;
}

void hca_cq_ignore_overrun(struct hca_cq *cq, bool ignore)
{
	spin_lock(&cq->lock);
	cq->ignore_overrun = ignore;
	spin_unlock(&cq->lock);
}

void hca_cq_arm(struct hca_cq *cq)
{
	u32 word, behind;
	u8 sn;

	spin_lock(&cq->lock);
	word = be32_to_cpu(READ_ONCE(cq->dbrec[HCA_DBREC_CQ_ARM]));
	sn = word >> 28 & 3;
	if (sn == cq->fired_sn || (!word && cq->fired_zeroes))
		goto out;
	behind = (cq->pi - word) & HCA_CQ_ARM_CI_MASK;
	/* Who waits for any completion goes on to do so (IBA C11-31). */
	if (cq->armed != HCA_CQ_ARMED || sn != cq->arm_sn)
		WRITE_ONCE(cq->armed, word & HCA_CQ_ARM_SOLICITED ? HCA_CQ_ARMED_SOLICITED : HCA_CQ_ARMED);
	cq->arm_sn = sn;
	cq->arm_word = word;
	/* It is in use: from here on zeroes are an arm like any other, which comes again when the index wraps. */
	if (word)
		cq->fired_zeroes = false;
	/* What came after the armed index has been missed: that is the event. */
	if (cq->armed == HCA_CQ_ARMED ? behind != 0 : cq->pi - cq->solicited_pi < behind)
		matched(cq, max(cq->waiting, cq->armed == HCA_CQ_ARMED ? behind : 1));
out:
	spin_unlock(&cq->lock);
}

void hca_cq_moderate(struct hca_cq *cq, u16 count, u64 ns)
{
	spin_lock(&cq->lock);
	WRITE_ONCE(cq->max_count, count);
	WRITE_ONCE(cq->max_ns, ns);
	/* A timer that runs already goes on. */
	if (cq->waiting)
		matched(cq, cq->waiting);
	spin_unlock(&cq->lock);
}

void hca_cq_timer(struct hca_cq *cq)
{
	spin_lock(&cq->lock);
	if (cq->waiting)
		fire(cq);
	spin_unlock(&cq->lock);
}

int hca_cq_resize(struct hca_cq *cq, void *buf, u32 entries, u32 cqe_size)
{
	static const struct hca_completion resized = { .opcode = HCA_CQE_RESIZE };
	int ret = -EINVAL;

	spin_lock(&cq->lock);
	/* The resize CQE takes an index, too. */
	if (cq->error || is_full(cq) || outstanding(cq) + 1 > entries)
		goto out;
	put(cq, &resized);
	cq->buf = buf;
	cq->mask = entries - 1;
	cq->cqe_size = cqe_size;
	ret = 0;
out:
	spin_unlock(&cq->lock);
	return ret;
}
