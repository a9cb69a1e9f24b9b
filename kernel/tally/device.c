// SPDX-License-Identifier: GPL-2.0-only
/* The device: what it can do, in one table, and what it says about itself. */
#include <net/addrconf.h>
#include <rdma/ib_mad.h>
#include "parent.h"
#include "tally.h"

#define VENDOR_ID 0x02c9

/* The only P_Key: the default partition, full member. */
#define DEFAULT_PKEY 0xffff

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	if (udata->inlen && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EINVAL;
	if (udata->outlen && udata->outlen < offsetofend(struct mlx5_ib_query_device_resp, response_length))
		return -EINVAL;

	*attr = (struct ib_device_attr){
		.fw_ver = (u64)TALLY_VERSION_MAJOR << 32 | TALLY_VERSION_MINOR << 16 | TALLY_VERSION_SUB,
		.sys_image_guid = ib->node_guid,
		.max_mr_size = TALLY_MAX_MR_SIZE,
		.page_size_cap = PAGE_SIZE,
		.vendor_id = VENDOR_ID,
		.vendor_part_id = TALLY_PART_ID,
		.max_qp = TALLY_MAX_QP,
		.max_qp_wr = TALLY_MAX_WQES,
		.device_cap_flags = IB_DEVICE_CURR_QP_STATE_MOD | IB_DEVICE_PORT_ACTIVE_EVENT |
				    IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_RC_RNR_NAK_GEN |
				    IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B |
				    IB_DEVICE_MEM_MGT_EXTENSIONS | IB_DEVICE_XRC,
		.kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_LOCAL_DMA_LKEY,
		.max_send_sge = TALLY_MAX_SEND_SGE,
		.max_recv_sge = HCA_MAX_RECV_SGE,
		.max_sge_rd = TALLY_MAX_SEND_SGE,
		.max_cq = TALLY_MAX_CQ,
		.max_cqe = TALLY_MAX_CQE,
		.max_mr = TALLY_MAX_MR,
		.max_mw = TALLY_MAX_MR,
		.max_mcast_grp = TALLY_MAX_MCAST_QP,
		.max_mcast_qp_attach = TALLY_MAX_MCAST_QP,
		.max_total_mcast_qp_attach = TALLY_MAX_MCAST_QP,
		.max_pd = TALLY_MAX_PD,
		.max_qp_rd_atom = TALLY_MAX_RD_ATOMIC,
		.max_res_rd_atom = TALLY_MAX_RD_ATOMIC * TALLY_MAX_QP,
		.max_qp_init_rd_atom = TALLY_MAX_RD_ATOMIC,
		.atomic_cap = IB_ATOMIC_HCA,
		.masked_atomic_cap = IB_ATOMIC_NONE,
		.max_ah = TALLY_MAX_AH,
		.max_srq = TALLY_MAX_SRQ,
		.max_srq_wr = TALLY_MAX_WQES - 1,
		.max_srq_sge = TALLY_MAX_SRQ_SGE,
		.max_pkeys = 1,
		.local_ca_ack_delay = 16,
		.max_dm_size = TALLY_MAX_DM_SIZE,
		.cq_caps = {
			.max_cq_moderation_count = TALLY_MAX_CQ_COUNT,
			.max_cq_moderation_period = TALLY_MAX_CQ_USECS,
		},
		.timestamp_mask = TALLY_TIMESTAMP_MASK,
		.hca_core_clock = TALLY_CLOCK_KHZ,
	};

	if (udata->outlen) {
		struct mlx5_ib_query_device_resp resp = {
			.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD,
			.dci_streams_caps = {
				.max_log_num_concurent = TALLY_LOG_STREAMS,
				.max_log_num_errored = TALLY_LOG_STREAMS,
			},
		};

		resp.response_length = min(udata->outlen, sizeof(resp));
		return tally_udata_put(&resp, sizeof(resp), udata);
	}
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct tally_dev *dev = to_tdev(ib);
	bool up = READ_ONCE(dev->port_up);

	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = READ_ONCE(dev->mtu);
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->gid_tbl_len = TALLY_NUM_GIDS;
	attr->ip_gids = true;
	attr->max_msg_sz = HCA_MAX_MSG;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	/* 100 Gb/s, for programs that scale something by it. */
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	struct ib_port_attr attr;
	int ret;

	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	ret = ib_query_port(ib, port, &attr);
	if (ret)
		return ret;
	immutable->pkey_tbl_len = attr.pkey_tbl_len;
	immutable->gid_tbl_len = attr.gid_tbl_len;
	return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = DEFAULT_PKEY;
	return 0;
}

static void get_dev_fw_str(struct ib_device *ib, char *str)
{
	strscpy(str, "tally " TALLY_VERSION, IB_FW_VERSION_NAME_MAX);
}

static const struct ib_device_ops tally_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_MLX5,
	.uverbs_abi_ver = MLX5_IB_UVERBS_ABI_VERSION,

	.query_device = query_device,
	.query_port = query_port,
	.query_pkey = query_pkey,
	.get_port_immutable = get_port_immutable,
	.get_link_layer = get_link_layer,
	.get_dev_fw_str = get_dev_fw_str,
	.add_gid = tally_add_gid,
	.del_gid = tally_del_gid,
	.dealloc_driver = tally_dealloc_driver,

	.alloc_ucontext = tally_alloc_ucontext,
	.dealloc_ucontext = tally_dealloc_ucontext,
	.query_ucontext = tally_query_ucontext,
	.disassociate_ucontext = tally_disassociate_ucontext,
	.mmap = tally_mmap,
	.mmap_free = tally_mmap_free,

	.alloc_pd = tally_alloc_pd,
	.dealloc_pd = tally_dealloc_pd,
	.get_dma_mr = tally_get_dma_mr,
	.reg_user_mr = tally_reg_user_mr,
	.reg_user_mr_dmabuf = tally_reg_user_mr_dmabuf,
	.rereg_user_mr = tally_rereg_user_mr,
	.dereg_mr = tally_dereg_mr,
	.alloc_xrcd = tally_alloc_xrcd,
	.dealloc_xrcd = tally_dealloc_xrcd,
	.attach_mcast = tally_attach_mcast,
	.detach_mcast = tally_detach_mcast,
	.alloc_mw = tally_alloc_mw,
	.dealloc_mw = tally_dealloc_mw,
	.alloc_dm = tally_alloc_dm,
	.dealloc_dm = tally_dealloc_dm,
	.reg_dm_mr = tally_reg_dm_mr,
	.create_cq = tally_create_cq,
	.modify_cq = tally_modify_cq,
	.resize_cq = tally_resize_cq,
	.destroy_cq = tally_destroy_cq,
	.poll_cq = tally_poll_cq,
	.req_notify_cq = tally_req_notify_cq,
	.create_srq = tally_create_srq,
	.modify_srq = tally_modify_srq,
	.query_srq = tally_query_srq,
	.destroy_srq = tally_destroy_srq,
	.create_qp = tally_create_qp,
	.modify_qp = tally_modify_qp,
	.query_qp = tally_query_qp,
	.destroy_qp = tally_destroy_qp,
	.post_send = tally_post_send,
	.post_recv = tally_post_recv,
	.create_ah = tally_create_ah,
	.create_user_ah = tally_create_ah,
	.destroy_ah = tally_destroy_ah,

	.alloc_hw_port_stats = tally_alloc_hw_port_stats,
	.get_hw_stats = tally_get_hw_stats,
	.fill_res_mr_entry = tally_fill_res_mr,
	.fill_res_cq_entry = tally_fill_res_cq,
	.fill_res_qp_entry = tally_fill_res_qp,
	TALLY_FILL_RES_SRQ(tally_fill_res_srq)

	INIT_RDMA_OBJ_SIZE(ib_ah, tally_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, tally_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, tally_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, tally_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, tally_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, tally_srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, tally_ucontext, ib),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, tally_xrcd, ib),
};

static const struct uapi_definition tally_defs[] = {
	UAPI_DEF_CHAIN(ib_comp_cntr_uapi_defs),
	UAPI_DEF_CHAIN(tally_context_defs),
	UAPI_DEF_CHAIN(tally_uar_defs),
	UAPI_DEF_CHAIN(tally_pd_defs),
	UAPI_DEF_CHAIN(tally_dm_defs),
	UAPI_DEF_CHAIN(tally_devx_defs),
	{},
};

static int init_tables(struct tally_dev *dev)
{
	/* Small numbers have meanings of their own: QPs 0 and 1, keys 0 and 0x100. */
	const u32 first = 16;
	int ret;

	/* And the null key, which is the device's own. */
	ret = hca_table_init(&dev->hca.mkeys, first, TALLY_MAX_MR + 1);
	if (!ret)
		ret = hca_table_init(&dev->hca.qps, first, TALLY_MAX_QP);
	if (!ret)
		ret = hca_table_init(&dev->cqs, first, TALLY_MAX_CQ);
	if (!ret)
		ret = hca_table_init(&dev->srqs, first, TALLY_MAX_SRQ);
	if (!ret)
		ret = hca_table_init(&dev->pds, 1, TALLY_MAX_PD);
	if (!ret)
		ret = hca_table_init(&dev->umems, 1, TALLY_MAX_UMEM);
	return ret;
}

/**
 * tally_dev_alloc - make a device
 * @ndev: its netdev
 * @name: what it is going to be called
 *
 * Return: the device, not registered, for ib_dealloc_device() if it is not to be; or an ERR_PTR.
 */
struct tally_dev *tally_dev_alloc(struct net_device *ndev, const char *name)
{
	struct tally_dev *dev;
	int ret;

	dev = ib_alloc_device(tally_dev, ib);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&dev->registered);
	INIT_LIST_HEAD(&dev->link);
	INIT_LIST_HEAD(&dev->cntr_wait);
	spin_lock_init(&dev->cntr_wait_lock);
	ida_init(&dev->xrcds);
	spin_lock_init(&dev->res_lock);
	dev->ndev = ndev;
	tally_fabric_set_netdev(dev, ndev);

	dev->ib.node_type = RDMA_NODE_IB_CA;
	dev->ib.phys_port_cnt = 1;
	dev->ib.num_comp_vectors = num_possible_cpus();
	dev->ib.driver_def = tally_defs;
	addrconf_addr_eui48((u8 *)&dev->ib.node_guid, ndev->dev_addr);
	strscpy(dev->ib.node_desc, "tally " TALLY_VERSION ", RDMA in software", sizeof(dev->ib.node_desc));
	ib_set_device_ops(&dev->ib, &tally_ops);

	dev->hca.ops = &tally_hca_ops;
	dev->hca.fabric_gen = &tally_fabric_gen;
	dev->hca.stats = alloc_percpu(struct hca_stats);
	dev->stats = alloc_percpu(struct tally_stats);
	ret = -ENOMEM;
	if (!dev->hca.stats || !dev->stats)
		goto err;
	ret = init_tables(dev);
	if (ret)
		goto err;
	ret = tally_null_key_init(dev);
	if (ret)
		goto err;
	ret = tally_clock_init(dev);
	if (ret)
		goto err;
	ret = tally_parent_add(&dev->ib);
	if (ret)
		goto err;
	dev->engines = tally_engines_create(dev, name);
	if (IS_ERR(dev->engines)) {
		ret = PTR_ERR(dev->engines);
		dev->engines = NULL;
		goto err;
	}
	ret = ib_comp_cntr_register_ops(&dev->ib, &tally_cntr_ops);
	if (ret)
		goto err;
	return dev;

err:
	ib_dealloc_device(&dev->ib);
	return ERR_PTR(ret);
}

/**
 * tally_dev_free_parts - free what a device points to
 * @dev: complete or half made; nobody uses it any more
 */
void tally_dev_free_parts(struct tally_dev *dev)
{
	ib_comp_cntr_unregister_ops(&dev->ib);
	if (dev->engines)
		tally_engines_destroy(dev->engines);
	hca_table_destroy(&dev->umems);
	hca_table_destroy(&dev->pds);
	ida_destroy(&dev->xrcds);
	tally_parent_del(&dev->ib);
	tally_clock_free(dev);
	tally_null_key_free(dev);
	hca_table_destroy(&dev->srqs);
	hca_table_destroy(&dev->cqs);
	hca_table_destroy(&dev->hca.qps);
	hca_table_destroy(&dev->hca.mkeys);
	free_percpu(dev->stats);
	free_percpu(dev->hca.stats);
}
