// SPDX-License-Identifier: GPL-2.0-only
/* Protection domains. */
#include <rdma/mlx5_user_ioctl_cmds.h>
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

/**
 * tally_alloc_pd - ib_device_ops.alloc_pd
 * @ib: the domain
 * @udata: answered with its number, which WQEs and keys of the command interface name
 *
 * Return: 0 or a negative errno.
 */
int tally_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct tally_dev *dev = to_tdev(ib->device);
	struct tally_pd *pd = to_tpd(ib);
	struct mlx5_ib_alloc_pd_resp resp = {};
	int ret;

	ret = ida_alloc_range(&dev->pdns, 1, TALLY_MAX_PD, GFP_KERNEL);
	if (ret < 0)
		return -ENOMEM;
	pd->pdn = ret;

	resp.pdn = pd->pdn;
	ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret)
		ida_free(&dev->pdns, pd->pdn);
	return ret;
}

/**
 * tally_dealloc_pd - ib_device_ops.dealloc_pd
 * @ib: no object uses it any more
 * @udata: unused
 *
 * Return: 0.
 */
int tally_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	ida_free(&to_tdev(ib->device)->pdns, to_tpd(ib)->pdn);
	return 0;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_PD_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *ib = uverbs_attr_get_obj(attrs, MLX5_IB_ATTR_QUERY_PD_HANDLE);

	return uverbs_copy_to(attrs, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, &to_tpd(ib)->pdn, sizeof(to_tpd(ib)->pdn));
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
