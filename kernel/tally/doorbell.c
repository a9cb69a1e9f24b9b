// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trapped doorbells: a store to a UAR page faults, the poster's queues run here and now, the store is skipped.
 *
 * Nothing has to be armed again afterwards and nothing can be lost: the doorbell record was written before the
 * store, the fault came after both, and hca_qp_run() reads the record after the fault.
 *
 * The handler runs under mmap_lock or the VMA's lock, held for reading, until a thread lingers (linger.c).  It must not
 * fault on user memory itself; it may sleep for memory, but not once the lock is released.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include "store.h"
#include "tally.h"
#include "trap.h"
#include "uar.h"

/* How long a page stays mapped for an instruction that cannot be skipped. */
#define HOLD_NS (10 * NSEC_PER_MSEC)

static unsigned int trap_wqes = 32;
module_param(trap_wqes, uint, 0644);
MODULE_PARM_DESC(trap_wqes, "work requests executed inside a doorbell's fault, the rest by the engine (32)");

static unsigned int trap_bytes = 64 * 1024;
module_param(trap_bytes, uint, 0644);
MODULE_PARM_DESC(trap_bytes, "bytes moved inside a doorbell's fault, the rest by the engine (65536)");

/* ---- which QP, which CQ ---- */

/* The first 8 bytes of a WQE, which is what posters store. */
static u32 word_qpn(u64 word)
{
	return be64_to_cpu((__force __be64)word) >> 8 & 0xffffff;
}

static u16 word_index(u64 word)
{
	return be64_to_cpu((__force __be64)word) >> 40;
}

struct tally_qp *tally_uar_hinted_qp(struct tally_uar *uar, u64 word)
{
	struct hca_qp *hca = hca_table_lookup(&uar->uars->dev->hca.qps, word_qpn(word));
	struct tally_bfreg *bfreg;

	if (!hca)
		return NULL;
	/* Perhaps another context's, that is going away: only compared, never followed. */
	bfreg = READ_ONCE(hca_to_tqp(hca)->bfreg);
	if (bfreg < uar->bfregs || bfreg >= uar->bfregs + TALLY_BFREGS_PER_UAR)
		return NULL;
	return hca_to_tqp(hca);
}

/* Whether the QP has executed the WQE that the word is from: the hint was right, and there is nothing to do. */
static bool executed(struct tally_qp *qp, u64 word)
{
	struct hca_sq *sq = &qp->hca.sq;

	return (u16)(READ_ONCE(sq->ci) - word_index(word) - 1) <= sq->mask;
}

static void run(struct tally_qp *qp, struct hca_budget *budget)
{
	/* The budget may end exactly where the queue does; but receives are flushed, too, and not in the queue's record. */
	if (hca_qp_run(&qp->hca, budget) == HCA_RUN_MORE &&
	    (hca_qp_pending(&qp->hca) || READ_ONCE(qp->hca.state) == HCA_QPS_ERR))
		tally_engine_kick(qp);
}

/*
 * Whether the poster may have waited for something that the device did since he rang for this QP last: a message of a
 * connection has come in, or all of the completions are polled.  Others (counters, messages to other QPs) are not seen;
 * who waits for those is found out by how little he posts, see polled.c.
 */
static bool has_waited(struct tally_qp *qp)
{
	u32 arrived = READ_ONCE(qp->hca.rq.psn) + READ_ONCE(qp->hca.rq.ci);
	struct hca_cq *cq = qp->hca.send_cq;
	u32 sent = cq ? READ_ONCE(cq->pi) : 0;
	bool ret = arrived != READ_ONCE(qp->work.arrived) ||
		   (sent != READ_ONCE(qp->work.sent) && hca_cq_is_empty(cq));

	WRITE_ONCE(qp->work.arrived, arrived);
	WRITE_ONCE(qp->work.sent, sent);
	return ret;
}

/* Every QP of the page whose record has moved. */
static void run_pending(struct tally_uar *uar, struct hca_budget *budget)
{
	struct tally_qp *qp;

	list_for_each_entry_rcu(qp, &uar->qps, bfreg_link) {
		if (!hca_qp_pending(&qp->hca))
			continue;
		if (budget->wqes && budget->bytes)
			run(qp, budget);
		else
			tally_engine_kick(qp);
	}
}

void tally_uar_kick_pending(struct tally_uar *uar)
{
	struct tally_qp *qp;

	rcu_read_lock();
	list_for_each_entry_rcu(qp, &uar->qps, bfreg_link)
		if (hca_qp_pending(&qp->hca))
			tally_engine_kick(qp);
	rcu_read_unlock();
}

/*
 * A doorbell.  The stored word is only a hint at where to look first; it may be stale, or anything.  In an RCU
 * read section, which keeps the QPs: who destroys one unbinds it, then waits for a grace period.
 */
static void ring(struct tally_uar *uar, bool hinted, u64 word)
{
	const struct hca_budget most = { .wqes = READ_ONCE(trap_wqes), .bytes = READ_ONCE(trap_bytes) };
	struct hca_budget budget = most;
	struct tally_qp *qp;
	bool waited, large;

	rcu_read_lock();
	qp = hinted ? tally_uar_hinted_qp(uar, word) : NULL;
	waited = !qp || has_waited(qp);
	if (qp && hca_qp_pending(&qp->hca))
		run(qp, &budget);
	else if (!qp || !executed(qp, word))
		run_pending(uar, &budget);
	rcu_read_unlock();
	large = !budget.wqes || !budget.bytes || most.bytes - budget.bytes > TALLY_STREAM_BYTES;
	WRITE_ONCE(uar->trapped_wqes, READ_ONCE(uar->trapped_wqes) + most.wqes - budget.wqes);
	WRITE_ONCE(uar->streak, waited || large ? 0 : READ_ONCE(uar->streak) + 1);
}

void tally_uars_arm_all(struct tally_uars *uars)
{
	struct tally_cq *cq;

	rcu_read_lock();
	list_for_each_entry_rcu(cq, &uars->cqs, uar_link)
		hca_cq_arm(&cq->hca);
	rcu_read_unlock();
}

/*
 * A CQ's doorbell: its number is in the lower half, as the device reads it.  Returns whether the fault's lock has been
 * released, and the fault is over.
 */
static bool arm(struct tally_uar *uar, struct vm_fault *vmf, bool hinted, u64 word)
{
	struct tally_uars *uars = uar->uars;
	struct tally_res *res = NULL;
	bool lingers = false;
	struct tally_cq *cq;
	u32 events;

	tally_stat_inc(uars->dev, TALLY_STAT_CQ_ARMS);
	/* Who arms is about to sleep: polling would not pay for that, nor for a few doorbells between two arms. */
	WRITE_ONCE(uar->armed, true);
	rcu_read_lock();
	if (hinted)
		res = hca_table_lookup(&uars->dev->cqs, be64_to_cpu((__force __be64)word) & 0xffffff);
	if (res && READ_ONCE(res->ctx) == uars->ctx) {
		cq = container_of(res, struct tally_cq, res);
		events = READ_ONCE(cq->linger.events);
		hca_cq_arm(&cq->hca);
		lingers = READ_ONCE(uar->mode) == TALLY_UAR_TRAPPED && tally_linger_begin(cq, vmf);
	} else {
		tally_uars_arm_all(uars);
	}
	rcu_read_unlock();
	if (!lingers)
		return false;
	/* From here on the mapping may be gone, and the page with it. */
	release_fault_lock(vmf);
	tally_linger(cq, events);
	return true;
}

/* ---- the fault ---- */

/* The instruction at @ip, without faulting; returns how many bytes of it could be read. */
static size_t read_insn(unsigned long ip, u8 *insn)
{
	size_t here = min_t(size_t, PAGE_SIZE - offset_in_page(ip), TALLY_STORE_MAX_LEN);
	size_t rest = TALLY_STORE_MAX_LEN - here;

	if (copy_from_user_nofault(insn, (const void __user *)ip, here))
		return 0;
	/* It may end with the page, and there may be no other. */
	if (rest && copy_from_user_nofault(insn + here, (const void __user *)(ip + here), rest))
		return here;
	return TALLY_STORE_MAX_LEN;
}

/*
 * Decode the store that faulted at @offset of the page.  A store that lies in another page, too, has to run; at
 * offset 0 it may have begun before.
 */
static bool decode(struct pt_regs *regs, unsigned int offset, struct tally_store *store)
{
	u8 insn[TALLY_STORE_MAX_LEN];

	if (!tally_trap_usable(regs))
		return false;
	if (!tally_decode_store(insn, read_insn(instruction_pointer(regs), insn), store))
		return false;
	return offset && offset + store->width <= PAGE_SIZE;
}

/* The page's owner did something else than storing a word: look at everything, and let it happen. */
static vm_fault_t let_run(struct tally_uar *uar, struct vm_fault *vmf)
{
	ring(uar, false, 0);
	tally_uars_arm_all(uar->uars);
	return tally_uar_insert(uar, vmf, HOLD_NS);
}

vm_fault_t tally_uar_fault(struct vm_fault *vmf)
{
	struct tally_uar_map *map = vmf->vma->vm_private_data;
	struct pt_regs *regs = current_pt_regs();
	unsigned int offset = offset_in_page(vmf->real_address);
	struct tally_uar *uar = map->uar;
	struct tally_store store;
	bool hinted, arms;
	u64 word;

	/* The kernel, or somebody else, on the user's behalf; or a jump: nobody rings a doorbell so. */
	if (!(vmf->flags & FAULT_FLAG_USER) || (vmf->flags & (FAULT_FLAG_REMOTE | FAULT_FLAG_INSTRUCTION)) ||
	    current->mm != vmf->vma->vm_mm)
		return VM_FAULT_SIGBUS;
	if (!(vmf->flags & FAULT_FLAG_WRITE))
		return let_run(uar, vmf);

	tally_stat_inc(uar->uars->dev, TALLY_STAT_DB_TRAPPED);
	if (!decode(regs, offset, &store)) {
		tally_stat_inc(uar->uars->dev, TALLY_STAT_DB_UNDECODED);
		return let_run(uar, vmf);
	}

	hinted = store.width == sizeof(word) && store.reg != TALLY_STORE_NO_REG;
	word = hinted ? tally_trap_reg(regs, store.reg) : 0;
	arms = offset < TALLY_UAR_CQ_ARM + sizeof(word) && offset + store.width > TALLY_UAR_CQ_ARM;
	tally_trap_skip(regs, store.len);
	if (!arms)
		ring(uar, hinted, word);
	else if (arm(uar, vmf, hinted && offset == TALLY_UAR_CQ_ARM, word))
		return VM_FAULT_NOPAGE | VM_FAULT_COMPLETED;

	switch (READ_ONCE(uar->mode)) {
	case TALLY_UAR_TRAPPED:
		if (!arms)
			tally_uar_rang(uar);
		break;
	case TALLY_UAR_OPEN:
	case TALLY_UAR_MAPPED:
		return tally_uar_insert(uar, vmf, 0);
	}
	return VM_FAULT_NOPAGE;
}
