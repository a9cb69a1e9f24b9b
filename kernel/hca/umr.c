// SPDX-License-Identifier: GPL-2.0-only
/*
 * User-mode memory registration: work requests that give an indirect key a new layout, or free it.
 *
 * The entries are read into the layout that is not in force; whatever is wrong with them, the key stays as it was.
 */
#include "mkey.h"
#include "sq.h"

#define MAX_PIECE 0x80000000u
/* An entry that is read from memory costs about what moving so many bytes does. */
#define ENTRY_BYTES 512u

static u8 access_flags(u8 access, u64 mask, u8 from)
{
	static const struct {
		u32 mask;
		u8 prm;
		u8 hca;
	} flags[] = {
		{ HCA_UMR_LOCAL_WRITE, HCA_MKEY_LOCAL_WRITE, HCA_ACCESS_LOCAL_WRITE },
		{ HCA_UMR_REMOTE_READ, HCA_MKEY_REMOTE_READ, HCA_ACCESS_REMOTE_READ },
		{ HCA_UMR_REMOTE_WRITE, HCA_MKEY_REMOTE_WRITE, HCA_ACCESS_REMOTE_WRITE },
		{ HCA_UMR_ATOMIC, HCA_MKEY_ATOMIC, HCA_ACCESS_REMOTE_ATOMIC },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!(mask & flags[i].mask))
			continue;
		access &= ~flags[i].hca;
		if (from & flags[i].prm)
			access |= flags[i].hca;
	}
	return access;
}

/* Where the entries come from: the WQE itself, or memory that it names. */
struct source {
	const u8 *raw;
	u32 piece;
	struct hca_cursor from;
	struct hca_sge sge;
};

static bool next_entry(struct source *s, void *entry)
{
	struct hca_sge to = { .data = entry, .len = HCA_WQE_DS };
	struct hca_cursor c;

	if (s->raw) {
		memcpy(entry, s->raw, HCA_WQE_DS);
		s->raw += HCA_WQE_DS;
		return true;
	}
	hca_cursor_init(&c, &to, 1);
	return hca_copy(&c, &s->from, HCA_WQE_DS) == HCA_COPIED;
}

static bool is_padding(const struct hca_klm *klm)
{
	return !klm->byte_count && !klm->key && !klm->addr;
}

static bool add_entry(const struct hca_indirect *ind, struct hca_layout *l, struct hca_entry e)
{
	struct hca_entry *entries = hca_layout_entries(ind, l);

	/* A pattern's header takes room, too. */
	if (l->num + l->strided >= ind->max_entries || !e.len || e.len > MAX_PIECE)
		return false;
	e.start = l->total;
	l->total += e.len;
	entries[l->num++] = e;
	return true;
}

static bool read_list(struct source *s, u32 num, struct hca_klm *klm, const struct hca_indirect *ind,
		      struct hca_layout *l)
{
	bool end = false;

	/* Zeroes at the end fill up the last unit of 64 bytes. */
	for (;;) {
		if (is_padding(klm))
			end = true;
		else if (end || !add_entry(ind, l,
					   (struct hca_entry){ .key = be32_to_cpu(klm->key),
							       .addr = be64_to_cpu(klm->addr),
							       .len = s->piece ?: be32_to_cpu(klm->byte_count) }))
			return false;
		if (!--num)
			return true;
		if (!next_entry(s, klm))
			return false;
	}
}

/* Whether the last round's piece still has addresses. */
static bool fits(const struct hca_layout *l, const struct hca_entry *e)
{
	u64 last = (u64)(l->rounds - 1) * e->stride;

	return e->addr + last >= e->addr && e->addr + last + e->len - 1 >= e->addr + last;
}

static bool read_pattern(struct source *s, u32 num, const struct hca_repeat *head, const struct hca_indirect *ind,
			 struct hca_layout *l)
{
	u32 entries = be16_to_cpu(head->num_entries);
	u32 i;

	l->strided = true;
	l->rounds = be32_to_cpu(head->repeat_count);
	if (!l->rounds || !entries || entries >= num)
		return false;
	for (i = 0; i < entries; i++) {
		struct hca_repeat_entry r;
		struct hca_entry e;

		if (!next_entry(s, &r))
			return false;
		e = (struct hca_entry){
			.key = be32_to_cpu(r.key),
			.addr = be64_to_cpu(r.addr),
			.len = be16_to_cpu(r.byte_count),
			.stride = be16_to_cpu(r.stride),
		};
		if (!fits(l, &e) || !add_entry(ind, l, e))
			return false;
	}
	l->round = l->total;
	if (l->round != be32_to_cpu(head->byte_count))
		return false;
	/* At most 2^16 - 1 pieces of as many bytes, less than 2^32 times: no overflow. */
	l->total = l->round * l->rounds;
	return true;
}

static bool read_entries(struct source *s, u32 num, const struct hca_indirect *ind, struct hca_layout *l)
{
	union {
		struct hca_klm klm;
		struct hca_repeat repeat;
	} first;

	l->num = 0;
	l->strided = false;
	l->total = 0;
	if (!next_entry(s, &first))
		return false;
	if (!s->piece && first.repeat.op == cpu_to_be32(HCA_REPEAT_OP))
		return read_pattern(s, num, &first.repeat, ind, l);
	return read_list(s, num, &first.klm, ind, l);
}

static enum hca_cqe_syndrome set_entries(struct hca_qp *qp, const struct hca_wqe *wqe, const struct hca_wqe_umr *umr,
					 const struct hca_indirect *ind, struct hca_layout *l, u32 *room)
{
	const u8 *behind = (const u8 *)umr + sizeof(*umr) + sizeof(struct hca_wqe_mkey);
	u32 num = be16_to_cpu(umr->klm_octowords);
	struct source s = {};

	if (umr->flags & HCA_UMR_INLINE) {
		s.raw = behind;
		/* Memory windows come with an offset instead, and one entry. */
		if (!num && umr->flags & HCA_UMR_OFFSET)
			num = (wqe->raw + wqe->size - behind) / HCA_WQE_DS;
	} else if (num) {
		const struct hca_wqe_data *d = (const void *)behind;
		struct hca_claim claim = { .dev = qp->dev, .pdn = qp->pdn, .qpn = qp->qpn };

		s.sge = (struct hca_sge){
			.addr = be64_to_cpu(d->addr),
			.key = be32_to_cpu(d->lkey),
			.len = num * HCA_WQE_DS,
		};
		/* Of memory that is itself a list or a pattern, each entry could be many pieces. */
		if (hca_sges_resolve(&claim, &s.sge, 1) || s.sge.mkey->indirect)
			return HCA_SYND_LOCAL_PROT;
		hca_cursor_init(&s.from, &s.sge, 1);
		hca_sq_charge(&qp->sq, room, num * ENTRY_BYTES);
	}
	if (!num)
		return HCA_SYND_OK;
	l->second = !l->second;
	return read_entries(&s, num, ind, l) ? HCA_SYND_OK : HCA_SYND_MW_BIND;
}

static enum hca_cqe_syndrome change(struct hca_qp *qp, const struct hca_wqe *wqe, const struct hca_indirect *ind,
				    struct hca_layout *l, u32 *room)
{
	const struct hca_wqe_umr *umr = (const void *)(wqe->raw + sizeof(struct hca_wqe_ctrl));
	const struct hca_wqe_mkey *mk = (const void *)(umr + 1);
	u64 mask = be64_to_cpu(umr->mkey_mask);
	u32 qpn_mkey = be32_to_cpu(mk->qpn_mkey);

	if (l->variant != (be32_to_cpu(wqe->imm) & 0xff))
		return HCA_SYND_MW_BIND;
	if (umr->flags & HCA_UMR_CHECK_FREE && !l->free)
		return HCA_SYND_MW_BIND;
	if (umr->flags & HCA_UMR_CHECK_QPN && l->qpn != HCA_ANY_QPN && l->qpn != qp->qpn)
		return HCA_SYND_MW_BIND;
	if (mask & HCA_UMR_FREE)
		l->free = mk->free & HCA_MKEY_FREE;
	if (mask & HCA_UMR_MKEY)
		l->variant = qpn_mkey & 0xff;
	if (mask & HCA_UMR_QPN)
		l->qpn = qpn_mkey >> 8;
	if (mask & HCA_UMR_START_ADDR)
		l->iova = be64_to_cpu(mk->start_addr);
	if (mask & HCA_UMR_LEN)
		l->length = be64_to_cpu(mk->len);
	l->access = access_flags(l->access, mask, mk->access_flags);
	if (l->free)
		return HCA_SYND_OK;
	return set_entries(qp, wqe, umr, ind, l, room);
}

enum hca_cqe_syndrome hca_umr(struct hca_qp *qp, const struct hca_wqe *wqe, u32 *room)
{
	struct hca_mkey *m = hca_mkey_find(qp->dev, be32_to_cpu(wqe->imm), qp->pdn);
	enum hca_cqe_syndrome synd;
	struct hca_indirect *ind;
	struct hca_layout *l;

	if (!m || !m->indirect || m->no_umr)
		return HCA_SYND_MW_BIND;
	ind = m->indirect;
	spin_lock(&ind->lock);
	l = hca_layout_begin(ind);
	synd = change(qp, wqe, ind, l, room);
	if (synd == HCA_SYND_OK)
		hca_layout_publish(ind);
	spin_unlock(&ind->lock);
	return synd;
}

int hca_indirect_init(struct hca_indirect *ind, const struct hca_indirect_config *cfg)
{
	struct hca_layout *l = &ind->layouts[0];
	struct source s = { .raw = cfg->entries, .piece = cfg->piece };

	spin_lock_init(&ind->lock);
	ind->max_entries = cfg->max_entries;
	ind->room = cfg->room;
	*l = (struct hca_layout){
		.variant = cfg->variant,
		.access = cfg->access,
		.free = cfg->free,
		.qpn = cfg->qpn,
		.iova = cfg->iova,
		.length = cfg->length,
	};
	ind->layouts[1] = (struct hca_layout){};
	if (cfg->num_entries && !read_entries(&s, cfg->num_entries, ind, l))
		return -EINVAL;
	return 0;
}
