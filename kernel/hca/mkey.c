// SPDX-License-Identifier: GPL-2.0-only
/* Memory keys: who may touch which bytes. */
#include "hca.h"

/* What keys without memory give and take; nobody reads the latter. */
static const u8 zeroes[4096];
static u8 sink[4096];

void hca_mkey_publish(struct hca_dev *dev, struct hca_mkey *mkey)
{
	mkey->dev = dev;
	hca_table_publish(&dev->mkeys, mkey->key >> 8, mkey);
}

void hca_mkey_unpublish(struct hca_dev *dev, struct hca_mkey *mkey)
{
	hca_table_hide(&dev->mkeys, mkey->key >> 8);
}

struct hca_mkey *hca_mkey_find(struct hca_dev *dev, u32 key, u32 pdn)
{
	struct hca_mkey *m = hca_table_lookup(&dev->mkeys, key >> 8);

	return likely(m && (m->pdn == pdn || m->null)) ? m : NULL;
}

static bool in_bounds(const struct hca_mkey *m, u64 addr, u64 len)
{
	u64 off = addr - m->iova;

	return addr >= m->iova && off <= m->length && len <= m->length - off;
}

bool hca_mkey_resolve(struct hca_claim *claim, u32 key, u64 addr, u64 len, struct hca_mkey **mkey, u32 *seq)
{
	struct hca_mkey *m = hca_mkey_find(claim->dev, key, claim->pdn);

	if (unlikely(!m))
		return false;
	*mkey = m;
	if (m->indirect)
		return hca_layout_resolve(claim, m, key, addr, len, seq);
	return m->key == key && !READ_ONCE(m->free) && (m->access & claim->access) == claim->access &&
	       in_bounds(m, addr, len);
}

static bool resolve(struct hca_claim *claim, struct hca_sge *sge)
{
	return hca_mkey_resolve(claim, sge->key, sge->addr, sge->len, &sge->mkey, &sge->seq);
}

enum hca_cqe_syndrome hca_sges_resolve(struct hca_claim *claim, struct hca_sge *sges, u32 num)
{
	u32 i;

	for (i = 0; i < num; i++)
		if (!sges[i].data && !resolve(claim, &sges[i]))
			return HCA_SYND_LOCAL_PROT;
	return HCA_SYND_OK;
}

bool hca_sge_resolve_remote(struct hca_claim *claim, struct hca_sge *sge, u64 addr, u32 rkey, u32 len)
{
	sge->addr = addr;
	sge->len = len;
	sge->key = rkey;
	sge->data = NULL;
	return resolve(claim, sge);
}

u8 *hca_mkey_run(const struct hca_mkey *m, u64 pos, bool write, u32 *len)
{
	u64 block;

	if (unlikely(m->null)) {
		*len = min_t(u32, *len, sizeof(sink));
		return write ? sink : (u8 *)zeroes;
	}
	pos += m->first_offset;
	block = pos & ((1ull << m->block_shift) - 1);
	*len = min_t(u64, *len, (1ull << m->block_shift) - block);
	return m->blocks[pos >> m->block_shift] + block;
}

/* Whether @qp may free the key, whose lower bits are @key's. */
static bool may_free(const struct hca_layout *l, const struct hca_qp *qp, u32 key)
{
	return !l->free && l->variant == (key & 0xff) && (l->qpn == HCA_ANY_QPN || l->qpn == qp->qpn);
}

static bool invalidate_indirect(struct hca_qp *qp, struct hca_indirect *ind, u32 key)
{
	struct hca_layout *l;
	bool ok;

	spin_lock(&ind->lock);
	l = hca_layout_begin(ind);
	ok = may_free(l, qp, key);
	if (ok) {
		l->free = true;
		hca_layout_publish(ind);
	}
	spin_unlock(&ind->lock);
	return ok;
}

bool hca_mkey_invalidate(struct hca_qp *qp, u32 key, bool remote)
{
	struct hca_mkey *m = hca_mkey_find(qp->dev, key, qp->pdn);

	if (!m || (!m->invalidate_ok && (remote || !m->indirect)))
		return false;
	if (m->indirect)
		return invalidate_indirect(qp, m->indirect, key);
	if (m->key != key || READ_ONCE(m->free))
		return false;
	WRITE_ONCE(m->free, true);
	return true;
}
