// SPDX-License-Identifier: GPL-2.0-only
/* Open devices: what the library is told about itself, and its mappings. */
#include <linux/cache.h>
#include <linux/mm.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

/* What an offset for mmap() consists of, in pages: an index's upper byte, a command, the lower byte. */
#define MMAP_CMD_SHIFT 8
#define MMAP_INDEX_MASK ((1u << MMAP_CMD_SHIFT) - 1)

static void fill_response(const struct tally_ucontext *ctx, struct mlx5_ib_alloc_ucontext_resp *resp)
{
	*resp = (struct mlx5_ib_alloc_ucontext_resp){
		.qp_tab_size = TALLY_MAX_QP,
		/*
		 * No BlueFlame, as on a machine that cannot combine writes: a doorbell is one store of 8 bytes, and
		 * no WQE is copied through the register.
		 */
		.bf_reg_size = 0,
		.tot_bfregs = ctx->dyn_uars ? 0 : ctx->num_uars * TALLY_BFREGS_PER_UAR,
		.cache_line_size = cache_line_size(),
		.max_sq_desc_sz = TALLY_MAX_SQ_WQE,
		.max_rq_desc_sz = 1u << TALLY_MAX_RQ_SHIFT,
		.max_send_wqebb = TALLY_MAX_WQES,
		.max_recv_wr = TALLY_MAX_WQES,
		.max_srq_recv_wr = TALLY_MAX_WQES - 1,
		.num_ports = 1,
		.cqe_version = ctx->cqe_version,
		.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG |
			     MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		.dump_fill_mkey = to_tdev(ctx->ib.device)->null_key.key,
		.clock_info_versions = BIT(MLX5_IB_CLOCK_INFO_V1),
		.log_uar_size = PAGE_SHIFT,
		.num_uars_per_page = 1,
	};
}

static int check_request(const struct mlx5_ib_alloc_ucontext_req_v2 *req)
{
	if (req->flags & ~MLX5_IB_ALLOC_UCTX_DEVX)
		return -EOPNOTSUPP;
	if (req->comp_mask || req->reserved0 || req->reserved1 || req->reserved2)
		return -EOPNOTSUPP;
	if (!req->total_num_bfregs || req->num_low_latency_bfregs >= req->total_num_bfregs)
		return -EINVAL;
	if (req->total_num_bfregs > TALLY_MAX_UARS * TALLY_BFREGS_PER_UAR)
		return -ENOMEM;
	return 0;
}

/**
 * tally_alloc_ucontext - ib_device_ops.alloc_ucontext
 * @ib: the context
 * @udata: what the library can do; answered with what the device can
 *
 * Return: 0 or a negative errno.
 */
int tally_alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata)
{
	struct tally_ucontext *ctx = to_tctx(ib);
	struct mlx5_ib_alloc_ucontext_resp resp;
	struct mlx5_ib_alloc_ucontext_req_v2 req;
	int ret;

	ret = tally_udata_get(&req, sizeof(req), sizeof(struct mlx5_ib_alloc_ucontext_req), udata);
	if (ret)
		return ret;
	ret = check_request(&req);
	if (ret)
		return ret;

	/* The library has locks for page 0 of its own, so there is at least one more. */
	ctx->dyn_uars = req.lib_caps & MLX5_LIB_CAP_DYN_UAR;
	ctx->num_uars = ctx->dyn_uars ? TALLY_MAX_UARS :
			max_t(u32, DIV_ROUND_UP(req.total_num_bfregs, TALLY_BFREGS_PER_UAR), 2);
	ctx->cqe_version = min_t(u8, req.max_cqe_version, 1);
	ctx->devx = req.flags & MLX5_IB_ALLOC_UCTX_DEVX;
	hash_init(ctx->db_pages);
	mutex_init(&ctx->db_lock);
	spin_lock_init(&ctx->events_lock);
	ctx->engine = tally_engine_next(to_tdev(ib->device));
	ret = tally_uars_alloc(ctx, ctx->num_uars);
	if (ret)
		return ret;

	tally_clock_update(to_tdev(ib->device));
	fill_response(ctx, &resp);
	resp.response_length = min(udata->outlen, sizeof(resp));
	ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret)
		tally_uars_free(ctx);
	return ret;
}

/**
 * tally_dealloc_ucontext - ib_device_ops.dealloc_ucontext
 * @ib: nothing made in it is left
 */
void tally_dealloc_ucontext(struct ib_ucontext *ib)
{
	struct tally_ucontext *ctx = to_tctx(ib);

	tally_uars_free(ctx);
	WARN_ON(!hash_empty(ctx->db_pages));
}

/**
 * tally_query_ucontext - ib_device_ops.query_ucontext
 * @ib: the context
 * @attrs: answered like the request that made it
 *
 * Return: 0 or a negative errno.
 */
int tally_query_ucontext(struct ib_ucontext *ib, struct uverbs_attr_bundle *attrs)
{
	struct mlx5_ib_alloc_ucontext_resp resp;

	fill_response(to_tctx(ib), &resp);
	resp.response_length = min_t(size_t, sizeof(resp),
				     uverbs_attr_get_len(attrs, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX));
	return uverbs_copy_to_struct_or_zero(attrs, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, &resp, sizeof(resp));
}

/**
 * tally_disassociate_ucontext - ib_device_ops.disassociate_ucontext
 * @ib: its process goes on without the device
 */
void tally_disassociate_ucontext(struct ib_ucontext *ib)
{
	tally_uars_disassociate(to_tctx(ib));
}

/**
 * tally_mmap - ib_device_ops.mmap
 * @ib: the context
 * @vma: its offset says what is to be mapped
 *
 * Return: 0; -EINVAL for what this device does not map; another negative errno.
 */
int tally_mmap(struct ib_ucontext *ib, struct vm_area_struct *vma)
{
	u32 command = vma->vm_pgoff >> MMAP_CMD_SHIFT & MMAP_INDEX_MASK;
	u32 index = vma->vm_pgoff & MMAP_INDEX_MASK;
	unsigned long high = vma->vm_pgoff >> (2 * MMAP_CMD_SHIFT);

	if (high > (command == MLX5_IB_MMAP_DEVICE_MEM ? MMAP_INDEX_MASK : 0))
		return -EINVAL;
	switch (command) {
	case MLX5_IB_MMAP_REGULAR_PAGE:
	case MLX5_IB_MMAP_WC_PAGE:
	case MLX5_IB_MMAP_NC_PAGE:
		return tally_uar_mmap(to_tctx(ib), vma, index);
	case MLX5_IB_MMAP_CLOCK_INFO:
		return tally_clock_mmap(to_tctx(ib), vma, index);
	case MLX5_IB_MMAP_DEVICE_MEM:
		return tally_dm_mmap(to_tctx(ib), vma, high << MMAP_CMD_SHIFT | index);
	default:
		return -EINVAL;
	}
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	tally_query_context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX,
			    UVERBS_ATTR_STRUCT(struct mlx5_ib_alloc_ucontext_resp, dump_fill_mkey), UA_MANDATORY));

const struct uapi_definition tally_context_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &tally_query_context),
	{},
};
