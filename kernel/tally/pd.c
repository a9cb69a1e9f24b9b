// SPDX-License-Identifier: GPL-2.0-only
/* Protection domains. */
#include <rdma/mlx5_user_ioctl_cmds.h>
#include "devx.h"
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

/**
 * tally_alloc_pd - ib_device_ops.alloc_pd
 * @ib: the domain
 * @udata: answered with its number, which WQEs and keys of the command interface name; NULL for a kernel user
 *
 * Return: 0 or a negative errno.
 */
int tally_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct tally_ucontext *ctx = rdma_udata_to_drv_context(udata, struct tally_ucontext, ib);
	struct tally_pd *pd = to_tpd(ib);
	struct mlx5_ib_alloc_pd_resp resp = {};
	int ret;

	/* A kernel user's has no number, for nothing that commands make is in it. */
	if (!ctx)
		return 0;
	ret = tally_res_init(&pd->res, &to_tdev(ib->device)->pds, ctx);
	if (ret)
		return ret;
	tally_res_of_verb(&pd->res, ib->uobject);

	resp.pdn = pd->res.number;
	ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret)
		tally_res_release(&pd->res);
	else
		tally_res_publish(&pd->res);
	return ret;
}

/**
 * tally_dealloc_pd - ib_device_ops.dealloc_pd
 * @ib: no object of the verbs' uses it any more
 * @udata: unused
 *
 * Return: 0, or -EBUSY while an object made by a command does.
 */
int tally_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct tally_pd *pd = to_tpd(ib);
	int ret;

	if (!pd->res.ctx)
		return 0;
	ret = tally_res_hide(&pd->res);
	if (!ret)
		tally_res_release(&pd->res);
	return ret;
}

/**
 * tally_pd_get - a protection domain by its number, to make something in it
 * @ctx: whose it must be
 * @pdn: any value
 *
 * Return: the domain, for tally_pd_put(), or NULL.
 */
struct tally_pd *tally_pd_get(struct tally_ucontext *ctx, u32 pdn)
{
	struct tally_res *res = tally_res_get(&to_tdev(ctx->ib.device)->pds, ctx, pdn);

	return res ? container_of(res, struct tally_pd, res) : NULL;
}

/**
 * tally_pd_put - undo tally_pd_get()
 * @pd: the domain, or NULL
 */
void tally_pd_put(struct tally_pd *pd)
{
	if (pd)
		tally_res_put(&pd->res);
}

static u8 devx_alloc(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	struct tally_pd *pd;
	int ret;

	pd = kzalloc(sizeof(*pd), GFP_KERNEL_ACCOUNT);
	if (!pd)
		return MLX5_CMD_STAT_NO_RES_ERR;
	ret = tally_res_init(&pd->res, &to_tdev(cmd->ctx->ib.device)->pds, cmd->ctx);
	if (ret) {
		kfree(pd);
		return tally_devx_status(ret);
	}
	MLX5_SET(alloc_pd_out, cmd->out, pd, pd->res.number);
	obj->id = pd->res.number;
	obj->object = pd;
	return MLX5_CMD_STAT_OK;
}

static void devx_publish(struct tally_devx_obj *obj)
{
	struct tally_pd *pd = obj->object;

	tally_res_publish(&pd->res);
}

static int devx_dealloc(struct tally_devx_obj *obj)
{
	struct tally_pd *pd = obj->object;
	int ret;

	ret = tally_res_hide(&pd->res);
	if (ret)
		return ret;
	tally_res_release(&pd->res);
	kfree(pd);
	return 0;
}

const struct tally_devx_type tally_devx_pd = {
	.opcode = MLX5_CMD_OP_ALLOC_PD,
	.in_len = MLX5_ST_SZ_BYTES(alloc_pd_in),
	.out_len = MLX5_ST_SZ_BYTES(alloc_pd_out),
	.create = devx_alloc,
	.publish = devx_publish,
	.destroy = devx_dealloc,
};

static int UVERBS_HANDLER(MLX5_IB_METHOD_PD_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *ib = uverbs_attr_get_obj(attrs, MLX5_IB_ATTR_QUERY_PD_HANDLE);
	u32 pdn = to_tpd(ib)->res.number;

	return uverbs_copy_to(attrs, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, &pdn, sizeof(pdn));
}

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_PD_QUERY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_QUERY_PD_HANDLE, UVERBS_OBJECT_PD, UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

ADD_UVERBS_METHODS(tally_pd_methods, UVERBS_OBJECT_PD, &UVERBS_METHOD(MLX5_IB_METHOD_PD_QUERY));

const struct uapi_definition tally_pd_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_PD, &tally_pd_methods),
	{},
};
