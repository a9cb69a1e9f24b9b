// SPDX-License-Identifier: GPL-2.0-only
/* Memory keys: who may touch which bytes. */
#include "mkey.h"

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

enum hca_cqe_syndrome hca_sges_resolve(struct hca_claim *claim, struct hca_sge *sges, u32 num)
{
	u32 i;

	for (i = 0; i < num; i++)
		if (!sges[i].data && !hca_sge_resolve(claim, &sges[i]))
			return HCA_SYND_LOCAL_PROT;
	return HCA_SYND_OK;
}

enum hca_cqe_syndrome hca_sges_resolve_some(struct hca_claim *claim, struct hca_sge *sges, u64 bytes)
{
	for (; bytes; sges++) {
		u32 len = min_t(u64, sges->len, bytes);

		if (!hca_mkey_resolve(claim, sges->key, sges->addr, len, &sges->mkey, &sges->seq))
			return HCA_SYND_LOCAL_PROT;
		bytes -= len;
	}
	return HCA_SYND_OK;
}

u64 hca_mkey_beside_more(const struct hca_mkey *m, u64 i, u64 have, u64 len)
{
	u64 size = 1ull << m->block_shift;

	for (; have < len && m->blocks[i + 1] == m->blocks[i] + size; i++)
		have += size;
	return min(have, len);
}

u8 *hca_mkey_null_run(bool write, u32 *len)
{
	*len = min_t(u32, *len, sizeof(sink));
	return write ? sink : (u8 *)zeroes;
}

bool hca_mkey_is_sink(const u8 *at)
{
	return at == sink;
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

bool hca_mkey_invalidate(struct hca_qp *qp, u32 pdn, u32 key, bool remote)
{
	struct hca_mkey *m = hca_mkey_find(qp->dev, key, pdn);

	if (!m || (!m->invalidate_ok && (remote || !m->indirect)))
		return false;
	if (m->indirect)
		return invalidate_indirect(qp, m->indirect, key);
	if (m->key != key || READ_ONCE(m->free))
		return false;
	WRITE_ONCE(m->free, true);
	return true;
}
