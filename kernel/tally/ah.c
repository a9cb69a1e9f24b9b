// SPDX-License-Identifier: GPL-2.0-only
/* Address handles: the kernel finds the MAC, a user's library keeps the rest. */
#include <rdma/ib_cache.h>
#include "tally.h"

static void keep(struct tally_address *to, const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	u8 smac[ETH_ALEN];

	to->av.tclass = grh->traffic_class;
	to->av.hop_limit = grh->hop_limit;
	to->av.flow = grh->flow_label & 0xfffff;
	memcpy(to->av.gid, grh->dgid.raw, sizeof(to->av.gid));
	ether_addr_copy(to->av.mac, attr->roce.dmac);
	to->from = grh->sgid_attr->gid;
	to->ipv4 = ipv6_addr_v4mapped((struct in6_addr *)to->from.raw);
	to->sl = rdma_ah_get_sl(attr);
	if (rdma_read_gid_l2_fields(grh->sgid_attr, &to->vlan, smac))
		to->vlan = VLAN_N_VID;
}

/**
 * tally_create_ah - ib_device_ops.create_ah and create_user_ah
 * @ib: the handle; a user's needs nothing kept
 * @init: the address, with its MAC resolved by ib_core
 * @udata: answered with that MAC; NULL for a kernel user
 *
 * Never sleeps for a kernel user.  Return: 0; -EINVAL for an address without a GRH; -EFAULT.
 */
int tally_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct rdma_ah_attr *attr = init->ah_attr;
	struct mlx5_ib_create_ah_resp resp = {};

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return -EINVAL;
	if (!udata) {
		keep(&to_tah(ib)->address, attr);
		return 0;
	}
	if (udata->outlen < offsetofend(struct mlx5_ib_create_ah_resp, dmac))
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
