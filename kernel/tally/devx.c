// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's command interface (DEVX): what is common to all commands, and those that name no object.
 *
 * A command that the device does not have is answered as hardware does: a status in the mailbox, and EREMOTEIO
 * for the caller.
 */
#include <linux/mlx5/driver.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/uverbs_std_types.h>
#include "devx.h"
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

/* Larger than any command's answer. */
#define MAX_MAILBOX (4096 + MLX5_UN_SZ_BYTES(hca_cap_union))

static void general_caps(void *caps)
{
	MLX5_SET(cmd_hca_cap, caps, log_max_qp, ilog2(TALLY_MAX_QP));
	MLX5_SET(cmd_hca_cap, caps, log_max_cq, ilog2(TALLY_MAX_CQ));
	MLX5_SET(cmd_hca_cap, caps, log_max_srq, ilog2(TALLY_MAX_SRQ));
	MLX5_SET(cmd_hca_cap, caps, log_max_rmp, ilog2(TALLY_MAX_SRQ));
	MLX5_SET(cmd_hca_cap, caps, log_max_mkey, ilog2(TALLY_MAX_MR));
	MLX5_SET(cmd_hca_cap, caps, log_max_pd, ilog2(TALLY_MAX_PD));
	MLX5_SET(cmd_hca_cap, caps, log_max_qp_sz, ilog2(TALLY_MAX_WQES));
	MLX5_SET(cmd_hca_cap, caps, log_max_srq_sz, ilog2(TALLY_MAX_WQES));
	MLX5_SET(cmd_hca_cap, caps, log_max_cq_sz, ilog2(TALLY_MAX_CQE + 1));
	MLX5_SET(cmd_hca_cap, caps, log_max_msg, ilog2(HCA_MAX_MSG));
	MLX5_SET(cmd_hca_cap, caps, log_max_ra_req_qp, ilog2(TALLY_MAX_RD_ATOMIC));
	MLX5_SET(cmd_hca_cap, caps, log_max_ra_res_qp, ilog2(TALLY_MAX_RD_ATOMIC));
	MLX5_SET(cmd_hca_cap, caps, log_max_ra_req_dc, ilog2(TALLY_MAX_RD_ATOMIC));
	MLX5_SET(cmd_hca_cap, caps, log_max_ra_res_dc, ilog2(TALLY_MAX_RD_ATOMIC));
	MLX5_SET(cmd_hca_cap, caps, max_wqe_sz_sq, TALLY_MAX_SQ_WQE);
	MLX5_SET(cmd_hca_cap, caps, max_wqe_sz_rq, 1u << TALLY_MAX_RQ_SHIFT);
	MLX5_SET(cmd_hca_cap, caps, cqe_version, 1);
	MLX5_SET(cmd_hca_cap, caps, port_type, MLX5_CAP_PORT_TYPE_ETH);
	MLX5_SET(cmd_hca_cap, caps, num_ports, 1);
	MLX5_SET(cmd_hca_cap, caps, roce, 1);
	MLX5_SET(cmd_hca_cap, caps, atomic, 1);
	MLX5_SET(cmd_hca_cap, caps, cq_resize, 1);
	MLX5_SET(cmd_hca_cap, caps, cq_moderation, 1);
	MLX5_SET(cmd_hca_cap, caps, cqe_128_always, 1);
	MLX5_SET(cmd_hca_cap, caps, dump_fill_mkey, 1);
	MLX5_SET(cmd_hca_cap, caps, uar_4k, 1);
	MLX5_SET(tally_qpc_cap, caps, qpc_extension, 1);
	MLX5_SET(cmd_hca_cap, caps, dct, 1);
	MLX5_SET(cmd_hca_cap, caps, xrc, 1);
	MLX5_SET(cmd_hca_cap, caps, log_max_dci_stream_channels, TALLY_LOG_STREAMS);
	MLX5_SET(cmd_hca_cap, caps, log_max_dci_errored_streams, TALLY_LOG_STREAMS);
	MLX5_SET64(cmd_hca_cap, caps, general_obj_types, BIT_ULL(TALLY_OBJ_TYPE_RESERVED_QPN));
	MLX5_SET(cmd_hca_cap, caps, log_max_klm_list_size, ilog2(TALLY_MAX_MKEY_ENTRIES));
	MLX5_SET(cmd_hca_cap, caps, device_frequency_khz, TALLY_CLOCK_KHZ);
	/* To be enabled for each QP, see devx_qp.c. */
	MLX5_SET(tally_mmo_cap, caps, dma_mmo_qp, 1);
	MLX5_SET(tally_mmo_cap, caps, rts2rts_qp_udp_sport, 1);
	MLX5_SET(tally_mmo_cap, caps, log_dma_mmo_max_size, ilog2(HCA_MMO_MAX));
}

/* Words of 8 bytes, and answers in the host's byte order. */
static void atomic_caps(void *caps)
{
	MLX5_SET(atomic_caps, caps, atomic_req_8B_endianness_mode, 1);
	MLX5_SET(atomic_caps, caps, supported_atomic_req_8B_endianness_mode_1, 1);
	MLX5_SET(atomic_caps, caps, atomic_operations, MLX5_ATOMIC_OPS_CMP_SWAP | MLX5_ATOMIC_OPS_FETCH_ADD);
	MLX5_SET(atomic_caps, caps, atomic_size_qp, MLX5_ATOMIC_CAPS_ATOMIC_SIZE_QP_8_BYTES);
	MLX5_SET(atomic_caps, caps, atomic_size_dc, MLX5_ATOMIC_CAPS_ATOMIC_SIZE_DC_8_BYTES);
}

/* A group that the device has nothing of is all zeroes. */
static u8 query_hca_cap(const void *in, size_t in_len, void *out, size_t out_len)
{
	size_t header = MLX5_BYTE_OFF(query_hca_cap_out, capability);
	u8 *caps;

	if (in_len < MLX5_ST_SZ_BYTES(query_hca_cap_in))
		return MLX5_CMD_STAT_BAD_INP_LEN_ERR;
	if (out_len < header)
		return MLX5_CMD_STAT_BAD_OUTP_LEN_ERR;
	if (MLX5_GET(query_hca_cap_in, in, other_function))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	caps = kzalloc(MLX5_UN_SZ_BYTES(hca_cap_union), GFP_KERNEL);
	if (!caps)
		return MLX5_CMD_STAT_NO_RES_ERR;
	/* Current values and largest possible ones are the same. */
	switch (MLX5_GET(query_hca_cap_in, in, op_mod) >> 1) {
	case MLX5_CAP_GENERAL:
		general_caps(caps);
		break;
	case MLX5_CAP_ATOMIC:
		atomic_caps(caps);
		break;
	}
	memcpy(out + header, caps, min(out_len - header, MLX5_UN_SZ_BYTES(hca_cap_union)));
	kfree(caps);
	return MLX5_CMD_STAT_OK;
}

static u8 run_general(const void *in, size_t in_len, void *out, size_t out_len)
{
	switch (MLX5_GET(general_obj_in_cmd_hdr, in, opcode)) {
	case MLX5_CMD_OP_QUERY_HCA_CAP:
		return query_hca_cap(in, in_len, out, out_len);
	default:
		return MLX5_CMD_STAT_BAD_OP_ERR;
	}
}

struct tally_ucontext *tally_devx_context(struct uverbs_attr_bundle *attrs)
{
	struct ib_ucontext *ib = ib_uverbs_get_ucontext(attrs);

	if (IS_ERR(ib))
		return ERR_CAST(ib);
	/* It was to be asked for when the device was opened. */
	return to_tctx(ib)->devx ? to_tctx(ib) : ERR_PTR(-EINVAL);
}

void *tally_devx_alloc_out(struct uverbs_attr_bundle *attrs, u16 attr, size_t *out_len)
{
	int len = uverbs_attr_get_len(attrs, attr);

	if (len < 0)
		return ERR_PTR(len);
	if (len > MAX_MAILBOX)
		return ERR_PTR(-EINVAL);
	*out_len = len;
	return uverbs_zalloc(attrs, len);
}

int tally_devx_answer(struct uverbs_attr_bundle *attrs, u16 attr, u8 status, void *out, size_t out_len)
{
	int ret;

	if (status != MLX5_CMD_STAT_OK) {
		memset(out, 0, out_len);
		MLX5_SET(general_obj_out_cmd_hdr, out, status, status);
	}
	ret = uverbs_copy_to(attrs, attr, out, out_len);
	if (ret)
		return ret;
	return status == MLX5_CMD_STAT_OK ? 0 : -EREMOTEIO;
}

u8 tally_devx_status(int err)
{
	switch (err) {
	case 0:
		return MLX5_CMD_STAT_OK;
	case -ENOMEM:
		return MLX5_CMD_STAT_NO_RES_ERR;
	case -EBUSY:
		return MLX5_CMD_STAT_RES_BUSY;
	case -ENOENT:
		return MLX5_CMD_STAT_BAD_RES_ERR;
	default:
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	}
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OTHER)(struct uverbs_attr_bundle *attrs)
{
	void *in = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
	int in_len = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
	struct tally_ucontext *ctx = tally_devx_context(attrs);
	size_t out_len;
	void *out;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	out = tally_devx_alloc_out(attrs, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, &out_len);
	if (IS_ERR(out))
		return PTR_ERR(out);
	return tally_devx_answer(attrs, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, run_general(in, in_len, out, out_len), out,
				 out_len);
}

/* A vector's event queue; all that user space can do with its number is to name it. */
static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_QUERY_EQN)(struct uverbs_attr_bundle *attrs)
{
	struct tally_ucontext *ctx = tally_devx_context(attrs);
	u32 vector, eqn;
	int ret;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = uverbs_copy_from(&vector, attrs, MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
	if (ret)
		return ret;
	if (vector >= ctx->ib.device->num_comp_vectors)
		return -EINVAL;
	eqn = TALLY_FIRST_EQN + vector;
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, &eqn, sizeof(eqn));
}

/* The page of a register that came with the context. */
static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_QUERY_UAR)(struct uverbs_attr_bundle *attrs)
{
	struct tally_ucontext *ctx = tally_devx_context(attrs);
	u32 bfreg, id;
	int ret;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = uverbs_copy_from(&bfreg, attrs, MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX);
	if (ret)
		return ret;
	ret = tally_bfreg_page(ctx, bfreg, &id);
	if (ret)
		return ret;
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX, &id, sizeof(id));
}

/* No switch, no other functions: there is nothing to say but that the port exists. */
static int UVERBS_HANDLER(MLX5_IB_METHOD_QUERY_PORT)(struct uverbs_attr_bundle *attrs)
{
	struct mlx5_ib_uapi_query_port info = {};
	struct ib_ucontext *ib;
	u32 port;
	int ret;

	ret = uverbs_copy_from(&port, attrs, MLX5_IB_ATTR_QUERY_PORT_PORT_NUM);
	if (ret)
		return ret;
	ib = ib_uverbs_get_ucontext(attrs);
	if (IS_ERR(ib))
		return PTR_ERR(ib);
	if (!rdma_is_port_valid(ib->device, port))
		return -EINVAL;
	return uverbs_copy_to_struct_or_zero(attrs, MLX5_IB_ATTR_QUERY_PORT, &info, sizeof(info));
}

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OTHER,
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN,
			   UVERBS_ATTR_MIN_SIZE(MLX5_ST_SZ_BYTES(general_obj_in_cmd_hdr)), UA_MANDATORY,
			   UA_ALLOC_AND_COPY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
			    UVERBS_ATTR_MIN_SIZE(MLX5_ST_SZ_BYTES(general_obj_out_cmd_hdr)), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_QUERY_EQN,
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, UVERBS_ATTR_TYPE(u32), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_QUERY_UAR,
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX, UVERBS_ATTR_TYPE(u32), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX, UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_QUERY_PORT,
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, UVERBS_ATTR_TYPE(u32), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_QUERY_PORT, UVERBS_ATTR_STRUCT(struct mlx5_ib_uapi_query_port, reg_c0),
			    UA_MANDATORY));

DECLARE_UVERBS_GLOBAL_METHODS(MLX5_IB_OBJECT_DEVX, &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OTHER),
			      &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_QUERY_EQN),
			      &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_QUERY_UAR));

ADD_UVERBS_METHODS(tally_device_methods, UVERBS_OBJECT_DEVICE, &UVERBS_METHOD(MLX5_IB_METHOD_QUERY_PORT));

const struct uapi_definition tally_devx_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX),
	UAPI_DEF_CHAIN(tally_devx_obj_defs),
	UAPI_DEF_CHAIN(tally_devx_umem_defs),
	UAPI_DEF_CHAIN(tally_devx_events_defs),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &tally_device_methods),
	{},
};
