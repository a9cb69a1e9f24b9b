// SPDX-License-Identifier: GPL-2.0-only
/* Send WQEs: out of shared memory once, then decoded from the private copy. */
#include "sq.h"

enum {
	SEG_RADDR  = 1 << 0,
	SEG_ATOMIC = 1 << 1,
	SEG_DATA   = 1 << 2,
	/* the data segments are written to */
	SEG_WRITTEN = 1 << 3,
	SEG_MMO	   = 1 << 4,
	SEG_UMR	   = 1 << 5,
	KNOWN	   = 1 << 7,
};

static const struct hca_opcode_info {
	u8 segs;
	u8 class;
} opcodes[HCA_OPCODE_COUNT] = {
	[HCA_OPCODE_NOP]	     = { KNOWN, HCA_CLASS_NONE },
	[HCA_OPCODE_LOCAL_INVAL]     = { KNOWN, HCA_CLASS_NONE },
	[HCA_OPCODE_SEND_INVAL]	     = { KNOWN | SEG_DATA, HCA_CLASS_SEND },
	[HCA_OPCODE_SEND]	     = { KNOWN | SEG_DATA, HCA_CLASS_SEND },
	[HCA_OPCODE_SEND_IMM]	     = { KNOWN | SEG_DATA, HCA_CLASS_SEND },
	[HCA_OPCODE_RDMA_WRITE]	     = { KNOWN | SEG_RADDR | SEG_DATA, HCA_CLASS_WRITE },
	[HCA_OPCODE_RDMA_WRITE_IMM]  = { KNOWN | SEG_RADDR | SEG_DATA, HCA_CLASS_WRITE },
	[HCA_OPCODE_RDMA_READ]	     = { KNOWN | SEG_RADDR | SEG_DATA | SEG_WRITTEN, HCA_CLASS_READ },
	[HCA_OPCODE_ATOMIC_CS]	     = { KNOWN | SEG_RADDR | SEG_ATOMIC | SEG_DATA | SEG_WRITTEN,
					 HCA_CLASS_ATOMIC },
	[HCA_OPCODE_ATOMIC_FA]	     = { KNOWN | SEG_RADDR | SEG_ATOMIC | SEG_DATA | SEG_WRITTEN,
					 HCA_CLASS_ATOMIC },
	[HCA_OPCODE_UMR]	     = { KNOWN | SEG_UMR, HCA_CLASS_UMR },
	[HCA_OPCODE_MMO]	     = { KNOWN | SEG_MMO, HCA_CLASS_MEMCPY },
};

/* What each transport can send. */
#define DATAGRAM   (BIT_ULL(HCA_OPCODE_NOP) | BIT_ULL(HCA_OPCODE_SEND) | BIT_ULL(HCA_OPCODE_SEND_IMM))
#define UNRELIABLE (DATAGRAM | BIT_ULL(HCA_OPCODE_RDMA_WRITE) | BIT_ULL(HCA_OPCODE_RDMA_WRITE_IMM))
#define RELIABLE   (UNRELIABLE | BIT_ULL(HCA_OPCODE_SEND_INVAL) | BIT_ULL(HCA_OPCODE_RDMA_READ) | \
		    BIT_ULL(HCA_OPCODE_ATOMIC_CS) | BIT_ULL(HCA_OPCODE_ATOMIC_FA))
#define LOCAL	   (BIT_ULL(HCA_OPCODE_UMR) | BIT_ULL(HCA_OPCODE_LOCAL_INVAL))

static const u64 sendable[HCA_QP_TYPES] = {
	[HCA_QP_RC]	 = RELIABLE | LOCAL | BIT_ULL(HCA_OPCODE_MMO),
	[HCA_QP_UC]	 = UNRELIABLE | LOCAL,
	[HCA_QP_UD]	 = DATAGRAM,
	[HCA_QP_XRC_INI] = RELIABLE | LOCAL,
	[HCA_QP_DCI]	 = RELIABLE | BIT_ULL(HCA_OPCODE_MMO),
	[HCA_QP_XRC_TGT] = BIT_ULL(HCA_OPCODE_NOP),
	[HCA_QP_DCT]	 = BIT_ULL(HCA_OPCODE_NOP),
};

static const struct hca_opcode_info *info(u8 op)
{
	static const struct hca_opcode_info unknown = { 0, HCA_CLASS_NONE };

	return op < HCA_OPCODE_COUNT && opcodes[op].segs & KNOWN ? &opcodes[op] : &unknown;
}

/* Slots that a WQE of @ds units takes, 0 if it cannot be one. */
static u8 slots(const struct hca_sq *sq, u32 ds)
{
	u32 bbs = DIV_ROUND_UP(ds * HCA_WQE_DS, HCA_WQE_BB);

	return bbs <= (u16)(sq->pi - sq->ci) ? bbs : 0;
}

/* Freeing a key looks like registering one, and counts as nothing. */
static enum hca_class class_of(u8 op, u8 mkey_free)
{
	if (op == HCA_OPCODE_UMR && mkey_free & HCA_MKEY_FREE)
		return HCA_CLASS_NONE;
	return info(op)->class;
}

u8 hca_wqe_peek(const struct hca_sq *sq, u8 *op, enum hca_class *class)
{
	const struct hca_wqe_ctrl *ctrl = (const void *)hca_sq_slot(sq, sq->ci);
	u8 bbs = slots(sq, be32_to_cpu(READ_ONCE(ctrl->qpn_ds)) & HCA_WQE_MAX_DS);
	const struct hca_wqe_mkey *mk = (const void *)hca_sq_slot(sq, sq->ci + 1);

	*op = be32_to_cpu(READ_ONCE(ctrl->opmod_idx_opcode)) & 0xff;
	*class = class_of(*op, bbs > 1 ? READ_ONCE(mk->free) : 0);
	return bbs ? bbs : 1;
}

/*
 * memcpy() reads each byte once; the barrier keeps the compiler from taking a field from shared memory again
 * in place of the copy.
 */
static void copy_slot(u8 *to, const u8 *from, u32 len)
{
	memcpy(to, from, len);
	barrier();
}

static bool decode_data(struct hca_wqe *wqe, const u8 *p, const u8 *end, bool written)
{
	while (p < end) {
		const struct hca_wqe_data *d = (const void *)p;
		struct hca_sge *sge = &wqe->sges[wqe->num_sge];
		u32 count = be32_to_cpu(d->byte_count);

		if (count & HCA_INLINE_SEG) {
			count &= HCA_INLINE_LEN;
			if (written || count > end - p - sizeof(d->byte_count))
				return false;
			sge->data = p + sizeof(d->byte_count);
			p += ALIGN(sizeof(d->byte_count) + count, HCA_WQE_DS);
		} else {
			sge->data = NULL;
			sge->key = be32_to_cpu(d->lkey);
			sge->addr = be64_to_cpu(d->addr);
			p += sizeof(*d);
		}
		if (!count)
			continue;
		sge->len = count;
		sge->mkey = NULL;
		wqe->length += count;
		wqe->num_sge++;
	}
	return true;
}

/* A copy within the host: from sges[0] to sges[1], which are as long. */
static bool decode_mmo(struct hca_wqe *wqe, const u8 *p, const u8 *end)
{
	const struct hca_wqe_ctrl *ctrl = (const void *)wqe->raw;
	const struct hca_wqe_data *d = (const void *)(p + sizeof(struct hca_wqe_mmo));
	u32 i, count;

	if (end - p != sizeof(struct hca_wqe_mmo) + 2 * sizeof(*d))
		return false;
	if (be32_to_cpu(ctrl->opmod_idx_opcode) >> 24 != HCA_MMO_DMA)
		return false;
	count = be32_to_cpu(d[0].byte_count);
	if (count & HCA_INLINE_SEG || d[0].byte_count != d[1].byte_count)
		return false;
	wqe->length = count ? count : HCA_MMO_MAX;
	wqe->num_sge = 2;
	for (i = 0; i < 2; i++)
		wqe->sges[i] = (struct hca_sge){
			.addr = be64_to_cpu(d[i].addr),
			.len = wqe->length,
			.key = be32_to_cpu(d[i].lkey),
		};
	return true;
}

/* Whether the segments are there; umr.c says what they mean. */
static bool decode_umr(struct hca_wqe *wqe, const u8 *p, const u8 *end)
{
	const struct hca_wqe_umr *umr = (const void *)p;
	size_t head = sizeof(*umr) + sizeof(struct hca_wqe_mkey);
	size_t entries;

	BUILD_BUG_ON(sizeof(struct hca_wqe_ctrl) + sizeof(*umr) != HCA_WQE_BB);
	if (end - p < (long)head || be64_to_cpu(umr->mkey_mask) & ~(u64)HCA_UMR_KNOWN)
		return false;
	if (umr->flags & ~(HCA_UMR_CHECK_QPN | HCA_UMR_OFFSET | HCA_UMR_CHECK_FREE | HCA_UMR_INLINE) ||
	    umr->translation_offset)
		return false;
	entries = umr->flags & HCA_UMR_INLINE ? be16_to_cpu(umr->klm_octowords) : !!umr->klm_octowords;
	wqe->class = class_of(wqe->op, wqe->raw[HCA_WQE_BB]);
	return head + entries * HCA_WQE_DS <= (size_t)(end - p);
}

/* The address that a datagram or a DC request brings along, or the SRQ that one of XRC does; NULL: it is not there. */
static const u8 *decode_address(u8 type, struct hca_wqe *wqe, const u8 *p, const u8 *end)
{
	const struct hca_wqe_av *av = (const void *)p;
	const struct hca_wqe_xrc *xrc = (const void *)p;

	switch (type) {
	case HCA_QP_XRC_INI:
		if (end - p < (long)sizeof(*xrc))
			return NULL;
		wqe->srqn = be32_to_cpu(xrc->srqn);
		return p + sizeof(*xrc);
	case HCA_QP_UD:
	case HCA_QP_DCI:
		if (end - p < (long)sizeof(*av) || !(be32_to_cpu(av->dqp) & HCA_AV_EXTENDED))
			return NULL;
		wqe->av = (struct hca_av){
			.key = be64_to_cpu(av->key),
			.qpn = be32_to_cpu(av->dqp) & 0xffffff,
			.tclass = av->tclass,
			.hop_limit = av->hop_limit,
			.flow = be32_to_cpu(av->grh_gid_fl),
		};
		if (type == HCA_QP_UD)
			wqe->av.key >>= 32;
		memcpy(wqe->av.gid, av->rgid, sizeof(av->rgid));
		memcpy(wqe->av.mac, av->rmac, sizeof(av->rmac));
		return p + sizeof(*av);
	default:
		return p;
	}
}

static bool decode(struct hca_qp *qp, struct hca_wqe *wqe, u32 segs, u32 qpn_ds)
{
	const u8 *p = wqe->raw + sizeof(struct hca_wqe_ctrl);
	const u8 *end = wqe->raw + wqe->size;

	if (unlikely(qpn_ds >> 8 != qp->qpn || !(segs & KNOWN) || !(sendable[qp->type] >> wqe->op & 1)))
		return false;
	if (segs & SEG_UMR)
		return decode_umr(wqe, p, end);
	if (segs & SEG_MMO)
		return decode_mmo(wqe, p, end);
	if (segs & SEG_DATA) {
		p = decode_address(qp->type, wqe, p, end);
		if (!p)
			return false;
	}
	if (segs & SEG_RADDR) {
		const struct hca_wqe_raddr *r = (const void *)p;

		p += sizeof(*r);
		if (p > end)
			return false;
		wqe->raddr = be64_to_cpu(r->raddr);
		wqe->rkey = be32_to_cpu(r->rkey);
	}
	if (segs & SEG_ATOMIC) {
		const struct hca_wqe_atomic *a = (const void *)p;

		p += sizeof(*a);
		if (p > end)
			return false;
		wqe->swap_add = be64_to_cpu(a->swap_add);
		wqe->compare = be64_to_cpu(a->compare);
	}
	return !(segs & SEG_DATA) || decode_data(wqe, p, end, segs & SEG_WRITTEN);
}

void hca_wqe_fetch(struct hca_qp *qp, struct hca_wqe *wqe)
{
	struct hca_sq *sq = &qp->sq;
	const struct hca_wqe_ctrl *ctrl = (const void *)wqe->raw;
	const struct hca_opcode_info *i;
	u32 qpn_ds, ds;
	u8 n;

	copy_slot(wqe->raw, hca_sq_slot(sq, sq->ci), HCA_WQE_BB);
	qpn_ds = be32_to_cpu(ctrl->qpn_ds);
	ds = qpn_ds & HCA_WQE_MAX_DS;
	wqe->index = sq->ci;
	wqe->size = ds * HCA_WQE_DS;
	wqe->op = be32_to_cpu(ctrl->opmod_idx_opcode) & 0xff;
	i = info(wqe->op);
	wqe->class = i->class;
	wqe->signaled = ctrl->fm_ce_se & HCA_WQE_CQ_UPDATE;
	wqe->solicited = ctrl->fm_ce_se & HCA_WQE_SOLICITED;
	wqe->imm = ctrl->imm;
	wqe->stream = ctrl->stream[0] << 8 | ctrl->stream[1];
	wqe->num_sge = 0;
	wqe->length = 0;
	wqe->status = HCA_SYND_LOCAL_QP_OP;
	wqe->bbs = slots(sq, ds);
	if (unlikely(!wqe->bbs)) {
		wqe->bbs = 1;
		return;
	}
	for (n = 1; n < wqe->bbs; n++)
		copy_slot(wqe->raw + n * HCA_WQE_BB, hca_sq_slot(sq, sq->ci + n), HCA_WQE_BB);
	if (likely(decode(qp, wqe, i->segs, qpn_ds)))
		wqe->status = HCA_SYND_OK;
}
