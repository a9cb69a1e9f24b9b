// SPDX-License-Identifier: GPL-2.0-only
/* Memory keys: who may touch which bytes. */
#include "hca.h"

void hca_mkey_publish(struct hca_dev *dev, struct hca_mkey *mkey)
{
	hca_table_publish(&dev->mkeys, mkey->key >> 8, mkey);
}

void hca_mkey_unpublish(struct hca_dev *dev, struct hca_mkey *mkey)
{
	hca_table_hide(&dev->mkeys, mkey->key >> 8);
}

static struct hca_mkey *lookup(struct hca_dev *dev, u32 key, u32 pdn)
{
	struct hca_mkey *m = hca_table_lookup(&dev->mkeys, key >> 8);

	if (unlikely(!m || m->key != key || m->pdn != pdn || READ_ONCE(m->free)))
		return NULL;
	return m;
}

static bool in_bounds(const struct hca_mkey *m, u64 addr, u64 len)
{
	u64 off = addr - m->iova;

	return addr >= m->iova && off <= m->length && len <= m->length - off;
}

static bool resolve(struct hca_dev *dev, struct hca_sge *sge, u32 pdn, u32 access)
{
	struct hca_mkey *m = lookup(dev, sge->key, pdn);

	if (unlikely(!m || (m->access & access) != access || !in_bounds(m, sge->addr, sge->len)))
		return false;
	sge->mkey = m;
	return true;
}

enum hca_cqe_syndrome hca_sges_resolve(struct hca_dev *dev, struct hca_sge *sges, u32 num, u32 pdn, u32 access)
{
	u32 i;

	for (i = 0; i < num; i++)
		if (!sges[i].data && !resolve(dev, &sges[i], pdn, access))
			return HCA_SYND_LOCAL_PROT;
	return HCA_SYND_OK;
}

bool hca_sge_resolve_remote(struct hca_dev *dev, struct hca_sge *sge, u64 addr, u32 rkey, u32 len, u32 pdn,
			    u32 access)
{
	sge->addr = addr;
	sge->len = len;
	sge->key = rkey;
	sge->data = NULL;
	return resolve(dev, sge, pdn, access);
}

bool hca_mkey_invalidate(struct hca_dev *dev, u32 key, u32 pdn)
{
	struct hca_mkey *m = lookup(dev, key, pdn);

	if (!m || !m->invalidate_ok)
		return false;
	WRITE_ONCE(m->free, true);
	return true;
}
