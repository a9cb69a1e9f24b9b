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
static u32 outstanding(struct hca_cq *cq)
{
	return (cq->pi - be32_to_cpu(READ_ONCE(cq->dbrec[HCA_DBREC_CQ_CI]))) & 0xffffff;
}

static bool is_full(struct hca_cq *cq)
{
	u32 used;

	if (cq->ignore_overrun || cq->pi - cq->ci <= cq->mask)
		return false;
	used = outstanding(cq);
	/* What is more than the ring holds is a lie; it reads as full. */
	if (used > cq->mask)
		return true;
	cq->ci = cq->pi - used;
	return false;
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

/* The word with the owner bit goes last; pairs with the consumer's read barrier after it has seen the bit. */
static void put(struct hca_cq *cq, const struct hca_cqe *e)
{
	u64 *to = (u64 *)entry(cq, cq->pi);
	const u64 *from = (const u64 *)e;
	u32 i;

	if (unlikely(cq->pad) && cq->cqe_size > HCA_CQE_SIZE)
		memset((u8 *)to - HCA_CQE_SIZE, 0, HCA_CQE_SIZE);
	for (i = 0; i < HCA_CQE_SIZE / 8 - 1; i++)
		WRITE_ONCE(to[i], from[i]);
	smp_store_release(&to[i], from[i]);
	cq->pi++;
}

static void fire(struct hca_cq *cq)
{
	cq->armed = HCA_CQ_UNARMED;
	cq->waiting = 0;
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
	struct hca_cqe e __aligned(8) = {
		.flags_rqpn = cpu_to_be32(c->src_qpn),
		.srqn_uidx = cpu_to_be32(c->user_index),
		.imm_inval_pkey = c->imm,
		.byte_cnt = cpu_to_be32(c->byte_cnt),
		.sop_drop_qpn = cpu_to_be32((u32)c->send_op << 24 | c->qpn),
		.wqe_counter = cpu_to_be16(c->wqe_counter),
	};
	bool urgent = c->solicited || c->syndrome;

	if (c->syndrome) {
		e.vendor_err_synd = c->vendor_err;
		e.syndrome = c->syndrome;
	}

	spin_lock(&cq->lock);
	if (unlikely(cq->error))
		goto refuse;
	if (unlikely(is_full(cq))) {
		cq->error = true;
		hca_stats_add(cq->dev->stats, HCA_STAT_ERR_CQ_OVERRUN, 1);
		cq->dev->ops->cq_error(cq);
		goto refuse;
	}
	/* Under the lock, so that the ring is in the order of time.  A failed one has its syndrome there. */
	if (cq->timestamps && !c->syndrome)
		e.timestamp = cpu_to_be64(hca_clock_ns());
	e.op_own = c->opcode << 4 | owner(cq);
	put(cq, &e);
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
	if (sn == cq->fired_sn)
		goto out;
	behind = (cq->pi - word) & HCA_CQ_ARM_CI_MASK;
	cq->arm_sn = sn;
	cq->armed = word & HCA_CQ_ARM_SOLICITED ? HCA_CQ_ARMED_SOLICITED : HCA_CQ_ARMED;
	/* What came after the armed index has been missed: that is the event. */
	if (cq->armed == HCA_CQ_ARMED ? behind != 0 : cq->pi - cq->solicited_pi < behind)
		matched(cq, max(cq->waiting, cq->armed == HCA_CQ_ARMED ? behind : 1));
out:
	spin_unlock(&cq->lock);
}

void hca_cq_moderate(struct hca_cq *cq, u16 count, u64 ns)
{
	spin_lock(&cq->lock);
	cq->max_count = count;
	cq->max_ns = ns;
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
	struct hca_cqe e __aligned(8) = {};
	int ret = -EINVAL;

	spin_lock(&cq->lock);
	/* The resize CQE takes an index, too. */
	if (cq->error || is_full(cq) || outstanding(cq) + 1 > entries)
		goto out;
	e.op_own = HCA_CQE_RESIZE << 4 | owner(cq);
	put(cq, &e);
	cq->buf = buf;
	cq->mask = entries - 1;
	cq->cqe_size = cqe_size;
	ret = 0;
out:
	spin_unlock(&cq->lock);
	return ret;
}
