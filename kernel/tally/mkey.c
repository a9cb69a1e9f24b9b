// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys that stand for pieces of other keys: made by the device's command CREATE_MKEY, and memory windows.  What they
 * stand for comes with work requests, see ../hca/umr.c; a command may give the first entries, too.  And keys that the
 * command makes of registered memory, which are like a region's.
 */
#include "devx.h"
#include "tally.h"

/* A work request counts its entries in units of 64 bytes. */
#define ENTRIES_ALIGN 4

static int make(struct tally_dev *dev, struct tally_mkey *mkey, struct hca_indirect_config *cfg)
{
	u32 index;
	int ret;

	mkey->entries = kvcalloc(cfg->max_entries, 2 * sizeof(*mkey->entries), GFP_KERNEL_ACCOUNT);
	if (!mkey->entries)
		return -ENOMEM;
	cfg->room = mkey->entries;
	ret = hca_indirect_init(&mkey->indirect, cfg);
	if (!ret)
		ret = hca_table_reserve(&dev->hca.mkeys, &index);
	if (ret) {
		kvfree(mkey->entries);
		return ret;
	}
	mkey->hca.key = index << 8 | cfg->variant;
	mkey->hca.indirect = &mkey->indirect;
	return 0;
}

/* Nobody walks through the key any more when it returns. */
static void unmake(struct tally_dev *dev, struct tally_mkey *mkey)
{
	hca_mkey_unpublish(&dev->hca, &mkey->hca);
	synchronize_rcu_expedited();
	hca_table_release(&dev->hca.mkeys, mkey->hca.key >> 8);
	tally_ring_unmap(&mkey->memory);
	kvfree(mkey->entries);
}

/* ---- the command ---- */

static u8 access_of(const void *mkc)
{
	u8 access = 0;

	if (MLX5_GET(mkc, mkc, lr))
		access |= HCA_ACCESS_LOCAL_READ;
	if (MLX5_GET(mkc, mkc, lw))
		access |= HCA_ACCESS_LOCAL_WRITE;
	if (MLX5_GET(mkc, mkc, rr))
		access |= HCA_ACCESS_REMOTE_READ;
	if (MLX5_GET(mkc, mkc, rw))
		access |= HCA_ACCESS_REMOTE_WRITE;
	if (MLX5_GET(mkc, mkc, a))
		access |= HCA_ACCESS_REMOTE_ATOMIC;
	return access;
}

static u32 mode_of(const void *mkc)
{
	return MLX5_GET(mkc, mkc, access_mode_1_0) | MLX5_GET(mkc, mkc, access_mode_4_2) << 2;
}

/* What the mailbox asks for, in the HCA's terms. */
static u8 read_pieces(const struct tally_devx_cmd *cmd, struct hca_indirect_config *cfg)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, cmd->in, memory_key_mkey_entry);
	size_t given = cmd->in_len - MLX5_ST_SZ_BYTES(create_mkey_in);
	u32 shift = MLX5_GET(mkc, mkc, log_page_size);
	u32 mode = mode_of(mkc);

	if ((mode != MLX5_MKC_ACCESS_MODE_KLMS && mode != MLX5_MKC_ACCESS_MODE_KSM) ||
	    MLX5_GET(create_mkey_in, cmd->in, pg_access))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;

	*cfg = (struct hca_indirect_config){
		.max_entries = MLX5_GET(mkc, mkc, translations_octword_size),
		.variant = MLX5_GET(mkc, mkc, mkey_7_0),
		.access = access_of(mkc),
		.free = MLX5_GET(mkc, mkc, free),
		.qpn = MLX5_GET(mkc, mkc, qpn),
		.iova = MLX5_GET64(mkc, mkc, start_addr),
		.length = MLX5_GET(mkc, mkc, length64) ? U64_MAX : MLX5_GET64(mkc, mkc, len),
		.entries = MLX5_ADDR_OF(create_mkey_in, cmd->in, klm_pas_mtt),
		.num_entries = MLX5_GET(create_mkey_in, cmd->in, translations_octword_actual_size),
	};
	if (!cfg->max_entries || cfg->max_entries > TALLY_MAX_MKEY_ENTRIES)
		return MLX5_CMD_STAT_LIM_ERR;
	if (cfg->num_entries > cfg->max_entries)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (cfg->num_entries > given / sizeof(struct hca_klm))
		return MLX5_CMD_STAT_BAD_INP_LEN_ERR;
	if (mode == MLX5_MKC_ACCESS_MODE_KSM) {
		if (shift > 31)
			return MLX5_CMD_STAT_BAD_PARAM_ERR;
		cfg->piece = 1u << shift;
	}
	return MLX5_CMD_STAT_OK;
}

static u8 make_of_pieces(struct tally_dev *dev, struct tally_mkey *mkey, const struct tally_devx_cmd *cmd)
{
	struct hca_indirect_config cfg;
	u8 status;

	status = read_pieces(cmd, &cfg);
	if (status != MLX5_CMD_STAT_OK)
		return status;
	return tally_devx_status(make(dev, mkey, &cfg));
}

/*
 * Registered memory is in one piece here, so that page sizes and the length of the page table, which are in the mailbox
 * too, do not matter.  It is the memory that allows writing, whether the mailbox asks for that look (pg_access) or not.
 */
static u8 make_of_umem(struct tally_dev *dev, struct tally_mkey *mkey, const struct tally_devx_cmd *cmd)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, cmd->in, memory_key_mkey_entry);
	u64 iova = MLX5_GET64(mkc, mkc, start_addr), length = MLX5_GET64(mkc, mkc, len), last;
	u8 access = access_of(mkc);
	u32 index;
	int ret;

	if (mode_of(mkc) != MLX5_MKC_ACCESS_MODE_MTT || MLX5_GET(mkc, mkc, length64) ||
	    MLX5_GET(mkc, mkc, qpn) != HCA_ANY_QPN || !length || check_add_overflow(iova, length - 1, &last))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	ret = tally_ring_of_umem(&mkey->memory, cmd->ctx, MLX5_GET(tally_create_mkey_umem, cmd->in, mkey_umem_id),
				 MLX5_GET64(tally_create_mkey_umem, cmd->in, mkey_umem_offset), length,
				 access & (HCA_ACCESS_LOCAL_WRITE | HCA_ACCESS_REMOTE_WRITE | HCA_ACCESS_REMOTE_ATOMIC));
	if (ret)
		return tally_devx_status(ret);
	ret = hca_table_reserve(&dev->hca.mkeys, &index);
	if (ret) {
		tally_ring_unmap(&mkey->memory);
		return tally_devx_status(ret);
	}
	tally_blocks_of_range(&mkey->blocks, mkey->memory.addr);
	mkey->hca.key = index << 8 | MLX5_GET(mkc, mkc, mkey_7_0);
	mkey->hca.access = access;
	mkey->hca.free = MLX5_GET(mkc, mkc, free);
	mkey->hca.iova = iova;
	mkey->hca.length = length;
	mkey->hca.block_shift = mkey->blocks.shift;
	mkey->hca.first_offset = mkey->blocks.first_offset;
	mkey->hca.blocks = mkey->blocks.addr;
	return MLX5_CMD_STAT_OK;
}

static u8 devx_create(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, cmd->in, memory_key_mkey_entry);
	struct tally_dev *dev = to_tdev(cmd->ctx->ib.device);
	struct tally_mkey *mkey;
	u8 status;

	if (MLX5_GET(mkc, mkc, bsf_en) || MLX5_GET(mkc, mkc, bsf_octword_size))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	mkey = kzalloc(sizeof(*mkey), GFP_KERNEL_ACCOUNT);
	if (!mkey)
		return MLX5_CMD_STAT_NO_RES_ERR;
	mkey->pd = tally_pd_get(cmd->ctx, MLX5_GET(mkc, mkc, pd));
	if (!mkey->pd) {
		kfree(mkey);
		return MLX5_CMD_STAT_BAD_RES_ERR;
	}
	mkey->hca.pdn = mkey->pd->res.number;
	mkey->hca.invalidate_ok = MLX5_GET(mkc, mkc, en_rinval);
	mkey->hca.no_umr = !MLX5_GET(mkc, mkc, umr_en);
	if (MLX5_GET(create_mkey_in, cmd->in, mkey_umem_valid))
		status = make_of_umem(dev, mkey, cmd);
	else
		status = make_of_pieces(dev, mkey, cmd);
	if (status != MLX5_CMD_STAT_OK) {
		tally_pd_put(mkey->pd);
		kfree(mkey);
		return status;
	}
	MLX5_SET(create_mkey_out, cmd->out, mkey_index, mkey->hca.key >> 8);
	obj->id = mkey->hca.key >> 8;
	obj->object = mkey;
	return MLX5_CMD_STAT_OK;
}

static void devx_publish(struct tally_devx_obj *obj)
{
	struct tally_mkey *mkey = obj->object;

	hca_mkey_publish(&to_tdev(mkey->pd->res.ctx->ib.device)->hca, &mkey->hca);
}

static int devx_destroy(struct tally_devx_obj *obj)
{
	struct tally_mkey *mkey = obj->object;

	unmake(to_tdev(mkey->pd->res.ctx->ib.device), mkey);
	tally_pd_put(mkey->pd);
	kfree(mkey);
	return 0;
}

const struct tally_devx_type tally_devx_mkey = {
	.opcode = MLX5_CMD_OP_CREATE_MKEY,
	.in_len = MLX5_ST_SZ_BYTES(create_mkey_in),
	.out_len = MLX5_ST_SZ_BYTES(create_mkey_out),
	.create = devx_create,
	.publish = devx_publish,
	.destroy = devx_destroy,
};

/* ---- memory windows ---- */

/**
 * tally_alloc_mw - ib_device_ops.alloc_mw
 * @ib: the window; not bound to anything
 * @udata: how many pieces it is to have room for
 *
 * Return: 0; -EOPNOTSUPP for what is not known here; -ENOMEM; -EFAULT.
 */
int tally_alloc_mw(struct ib_mw *ib, struct ib_udata *udata)
{
	struct {
		__u32 comp_mask;
		__u32 response_length;
	} resp = {};
	struct tally_dev *dev = to_tdev(ib->device);
	struct tally_mkey *mkey = &to_tmw(ib)->key;
	struct hca_indirect_config cfg = {
		.access = HCA_ACCESS_LOCAL_READ,
		.free = true,
		.qpn = HCA_ANY_QPN,
	};
	struct mlx5_ib_alloc_mw req;
	int ret;

	ret = tally_udata_get(&req, sizeof(req), 0, udata);
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved1 || req.reserved2)
		return -EOPNOTSUPP;

	cfg.max_entries = ALIGN(max_t(u32, req.num_klms, 1), ENTRIES_ALIGN);
	cfg.variant = atomic_inc_return(&dev->key_variant) & 0xff;
	mkey->hca.pdn = to_tpd(ib->pd)->res.number;
	mkey->hca.invalidate_ok = ib->type == IB_MW_TYPE_2;
	ret = make(dev, mkey, &cfg);
	if (ret)
		return ret;
	ib->rkey = mkey->hca.key;
	resp.response_length = min(udata->outlen, sizeof(resp));
	ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret)
		unmake(dev, mkey);
	else
		hca_mkey_publish(&dev->hca, &mkey->hca);
	return ret;
}

/**
 * tally_dealloc_mw - ib_device_ops.dealloc_mw
 * @ib: the window, bound or not
 *
 * Return: 0.
 */
int tally_dealloc_mw(struct ib_mw *ib)
{
	unmake(to_tdev(ib->device), &to_tmw(ib)->key);
	return 0;
}
