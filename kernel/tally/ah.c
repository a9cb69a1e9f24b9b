// SPDX-License-Identifier: GPL-2.0-only
/* Address handles: the kernel finds the MAC, the library keeps the rest. */
#include "tally.h"

/**
 * tally_create_ah - ib_device_ops.create_user_ah
 * @ib: the handle, which needs nothing kept
 * @init: the address, with its MAC resolved by ib_core
 * @udata: answered with that MAC
 *
 * Return: 0; -EINVAL for an address without a GRH; -EFAULT.
 */
int tally_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct rdma_ah_attr *attr = init->ah_attr;
	struct mlx5_ib_create_ah_resp resp = {};

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return -EINVAL;
	if (!udata || udata->outlen < offsetofend(struct mlx5_ib_create_ah_resp, dmac))
		return -EINVAL;

	resp.response_length = min(udata->outlen, sizeof(resp));
	ether_addr_copy(resp.dmac, attr->roce.dmac);
	return tally_udata_put(&resp, sizeof(resp), udata);
}

/**
 * tally_destroy_ah - ib_device_ops.destroy_ah
 * @ib: the handle
 * @flags: unused
 *
 * Return: 0.
 */
int tally_destroy_ah(struct ib_ah *ib, u32 flags)
{
	return 0;
}
