// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reserved QP numbers (mlx5dv_reserved_qpn_alloc()): no QP of the device gets them, so that a program can name them to
 * a connection manager in place of queue pairs that have none of their own.
 */
#include "devx.h"
#include "tally.h"

static u8 create(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	struct tally_dev *dev = to_tdev(cmd->ctx->ib.device);

	if (MLX5_GET(general_obj_in_cmd_hdr, cmd->in, obj_type) != TALLY_OBJ_TYPE_RESERVED_QPN)
		return MLX5_CMD_STAT_BAD_OP_ERR;
	if (hca_table_reserve(&dev->hca.qps, &obj->id))
		return MLX5_CMD_STAT_NO_RES_ERR;
	MLX5_SET(general_obj_out_cmd_hdr, cmd->out, obj_id, obj->id);
	obj->object = dev;
	return MLX5_CMD_STAT_OK;
}

static int destroy(struct tally_devx_obj *obj)
{
	struct tally_dev *dev = obj->object;

	hca_table_release(&dev->hca.qps, obj->id);
	return 0;
}

const struct tally_devx_type tally_devx_reserved_qpn = {
	.opcode = MLX5_CMD_OP_CREATE_GENERAL_OBJECT,
	.in_len = MLX5_ST_SZ_BYTES(general_obj_in_cmd_hdr),
	.out_len = MLX5_ST_SZ_BYTES(general_obj_out_cmd_hdr),
	.create = create,
	.destroy = destroy,
};
