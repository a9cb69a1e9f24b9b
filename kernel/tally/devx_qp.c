// SPDX-License-Identifier: GPL-2.0-only
/* Queue pairs by commands of the device's own. */
#include "devx.h"
#include "tally.h"

/* Changes nothing but what the verbs have no attribute for. */
static u8 init2init(void *object, const struct tally_devx_cmd *cmd)
{
	struct tally_qp *qp = object;

	if (MLX5_GET(tally_init2init_ext, cmd->in, opt_param_mask) ||
	    MLX5_GET64(tally_init2init_ext, cmd->in, opt_param_mask_95_32) != TALLY_QPC_OPT_MASK_MMO ||
	    !MLX5_GET(tally_init2init_ext, cmd->in, qpc_ext) || !MLX5_GET(tally_init2init_ext, cmd->in, mmo))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (qp->hca.type != HCA_QP_RC && qp->hca.type != HCA_QP_DCI)
		return MLX5_CMD_STAT_BAD_RES_ERR;
	return hca_qp_enable_mmo(&qp->hca) ? MLX5_CMD_STAT_BAD_QP_STATE_ERR : MLX5_CMD_STAT_OK;
}

/* Lets a failed stream of a DCI go on, or chooses the source port of packets that there are none of. */
static u8 rts2rts(void *object, const struct tally_devx_cmd *cmd)
{
	u64 mask = MLX5_GET64(tally_init2init_ext, cmd->in, opt_param_mask_95_32);
	struct tally_qp *qp = object;

	if (MLX5_GET(tally_init2init_ext, cmd->in, opt_param_mask) ||
	    !MLX5_GET(tally_init2init_ext, cmd->in, qpc_ext))
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (mask == TALLY_QPC_OPT_MASK_UDP_SPORT)
		return READ_ONCE(qp->hca.state) == HCA_QPS_RTS ? MLX5_CMD_STAT_OK : MLX5_CMD_STAT_BAD_QP_STATE_ERR;
	if (mask != TALLY_QPC_OPT_MASK_STREAM)
		return MLX5_CMD_STAT_BAD_PARAM_ERR;
	if (qp->hca.type != HCA_QP_DCI)
		return MLX5_CMD_STAT_BAD_RES_ERR;
	return hca_qp_reset_stream(&qp->hca, MLX5_GET(tally_init2init_ext, cmd->in, dci_stream_channel_id)) ?
	       MLX5_CMD_STAT_BAD_QP_STATE_ERR : MLX5_CMD_STAT_OK;
}

static const struct tally_devx_method methods[] = {
	{ MLX5_CMD_OP_RTS2RTS_QP, true, MLX5_ST_SZ_BYTES(tally_init2init_ext), MLX5_ST_SZ_BYTES(rts2rts_qp_out),
	  rts2rts },
	{ MLX5_CMD_OP_INIT2INIT_QP, true, MLX5_ST_SZ_BYTES(tally_init2init_ext), MLX5_ST_SZ_BYTES(init2init_qp_out),
	  init2init },
};

const struct tally_devx_type tally_devx_qp = {
	.opcode = MLX5_CMD_OP_CREATE_QP,
	.methods = methods,
	.num_methods = ARRAY_SIZE(methods),
};
