// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands that make objects, and commands on objects, whether a command or a verb has made them.
 *
 * A mailbox names its object twice: by the handle, which ib_core has looked up in the caller's context, and by
 * the number.  Both must agree.
 */
#include <linux/slab.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/uverbs_std_types.h>
#include "devx.h"
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

static const struct tally_devx_type *const types[] = {
	&tally_devx_pd,
	&tally_devx_mkey,
	&tally_devx_reserved_qpn,
	&tally_devx_cq,
	&tally_devx_qp,
	&tally_devx_rmp,
	&tally_devx_dct,
};

static u16 opcode_of(const void *in)
{
	return MLX5_GET(general_obj_in_cmd_hdr, in, opcode);
}

static const struct tally_devx_type *find_type(u16 opcode)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (types[i]->opcode == opcode && types[i]->create)
			return types[i];
	return NULL;
}

static const struct tally_devx_method *find_method(u16 opcode, const struct tally_devx_type **type)
{
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		for (k = 0; k < types[i]->num_methods; k++) {
			if (types[i]->methods[k].opcode == opcode) {
				*type = types[i];
				return &types[i]->methods[k];
			}
		}
	}
	return NULL;
}

/* ---- birth and death ---- */

static u8 create(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd)
{
	obj->type = find_type(opcode_of(cmd->in));
	if (!obj->type)
		return MLX5_CMD_STAT_BAD_OP_ERR;
	if (cmd->in_len < obj->type->in_len)
		return MLX5_CMD_STAT_BAD_INP_LEN_ERR;
	if (cmd->out_len < obj->type->out_len)
		return MLX5_CMD_STAT_BAD_OUTP_LEN_ERR;
	return obj->type->create(obj, cmd);
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OBJ_CREATE)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj = uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE);
	struct tally_devx_cmd cmd = {
		.ctx = tally_devx_context(attrs),
		.in = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
		.in_len = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
	};
	struct tally_devx_obj *obj;
	u8 status;
	int ret;

	if (IS_ERR(cmd.ctx))
		return PTR_ERR(cmd.ctx);
	if (MLX5_GET(general_obj_in_cmd_hdr, cmd.in, vhca_tunnel_id))
		return -EINVAL;
	cmd.out = tally_devx_alloc_out(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &cmd.out_len);
	if (IS_ERR(cmd.out))
		return PTR_ERR(cmd.out);
	obj = kzalloc(sizeof(*obj), GFP_KERNEL_ACCOUNT);
	if (!obj)
		return -ENOMEM;

	obj->ctx = cmd.ctx;
	INIT_LIST_HEAD(&obj->events);
	status = create(obj, &cmd);
	ret = tally_devx_answer(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, status, cmd.out, cmd.out_len);
	if (ret) {
		if (status == MLX5_CMD_STAT_OK)
			obj->type->destroy(obj);
		kfree(obj);
		return ret;
	}
	uobj->object = obj;
	/* Last: who finds it by its number would keep it from being undone. */
	if (obj->type->publish)
		obj->type->publish(obj);
	return 0;
}

static int devx_obj_free(struct ib_uobject *uobj, enum rdma_remove_reason why, struct uverbs_attr_bundle *attrs)
{
	struct tally_devx_obj *obj = uobj->object;
	int ret;

	/* In use: the users go first, also when the process or the device ends. */
	ret = obj->type->destroy(obj);
	if (ret)
		return ret;
	tally_devx_events_end(obj);
	kfree(obj);
	return 0;
}

/* ---- commands on objects ---- */

/* The object behind a handle, if it is one of a kind, with the number that the mailbox names. */
static void *find_object(struct ib_uobject *uobj, const struct tally_devx_type *type, const void *in)
{
	u32 number = MLX5_GET(tally_obj_cmd, in, number);

	switch (uobj_get_object_id(uobj)) {
	case UVERBS_OBJECT_CQ: {
		struct tally_cq *cq = to_tcq(uobj->object);

		return type->opcode == MLX5_CMD_OP_CREATE_CQ && number == cq->res.number ? cq : NULL;
	}
	case UVERBS_OBJECT_SRQ: {
		struct tally_srq *srq = to_tsrq(uobj->object);

		/* One of XRC is not a memory pool of receives. */
		if (srq->hca.cq || type->opcode != MLX5_CMD_OP_CREATE_RMP || number != srq->res.number)
			return NULL;
		return srq;
	}
	case UVERBS_OBJECT_QP: {
		struct ib_qp *ib = uobj->object;
		u16 opcode;

		/* An XRC target's handle is a stand-in of ib_core's, for a QP that processes share. */
		if (ib->real_qp != ib || number != ib->qp_num)
			return NULL;
		opcode = to_tqp(ib)->hca.type == HCA_QP_DCT ? MLX5_CMD_OP_CREATE_DCT : MLX5_CMD_OP_CREATE_QP;
		return type->opcode == opcode ? to_tqp(ib) : NULL;
	}
	case MLX5_IB_OBJECT_DEVX_OBJ: {
		struct tally_devx_obj *obj = uobj->object;

		return type == obj->type && number == obj->id ? obj->object : NULL;
	}
	default:
		return NULL;
	}
}

static int run_method(struct uverbs_attr_bundle *attrs, struct ib_uobject *uobj, struct tally_devx_cmd *cmd,
		      bool modifies, u16 out_attr)
{
	const struct tally_devx_method *method;
	const struct tally_devx_type *type;
	void *object = NULL;
	u8 status;

	if (MLX5_GET(general_obj_in_cmd_hdr, cmd->in, vhca_tunnel_id))
		return -EINVAL;
	method = find_method(opcode_of(cmd->in), &type);
	if (method) {
		object = find_object(uobj, type, cmd->in);
		if (method->modifies != modifies || !object)
			return -EINVAL;
	}

	cmd->out = tally_devx_alloc_out(attrs, out_attr, &cmd->out_len);
	if (IS_ERR(cmd->out))
		return PTR_ERR(cmd->out);
	if (!method)
		status = MLX5_CMD_STAT_BAD_OP_ERR;
	else if (cmd->in_len < method->in_len)
		status = MLX5_CMD_STAT_BAD_INP_LEN_ERR;
	else if (cmd->out_len < method->out_len)
		status = MLX5_CMD_STAT_BAD_OUTP_LEN_ERR;
	else
		status = method->run(object, cmd);
	return tally_devx_answer(attrs, out_attr, status, cmd->out, cmd->out_len);
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OBJ_MODIFY)(struct uverbs_attr_bundle *attrs)
{
	struct tally_devx_cmd cmd = {
		.ctx = tally_devx_context(attrs),
		.in = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN),
		.in_len = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN),
	};

	if (IS_ERR(cmd.ctx))
		return PTR_ERR(cmd.ctx);
	return run_method(attrs, uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE), &cmd, true,
			  MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT);
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OBJ_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct tally_devx_cmd cmd = {
		.ctx = tally_devx_context(attrs),
		.in = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN),
		.in_len = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN),
	};

	if (IS_ERR(cmd.ctx))
		return PTR_ERR(cmd.ctx);
	return run_method(attrs, uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE), &cmd, false,
			  MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT);
}

/* Every command's mailbox and answer begin with a header of this size. */
#define CMD_IN(attr)                                                                                        \
	UVERBS_ATTR_PTR_IN(attr, UVERBS_ATTR_MIN_SIZE(MLX5_ST_SZ_BYTES(general_obj_in_cmd_hdr)), UA_MANDATORY, \
			   UA_ALLOC_AND_COPY)
#define CMD_OUT(attr)                                                                                         \
	UVERBS_ATTR_PTR_OUT(attr, UVERBS_ATTR_MIN_SIZE(MLX5_ST_SZ_BYTES(general_obj_out_cmd_hdr)), UA_MANDATORY)

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OBJ_CREATE,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, MLX5_IB_OBJECT_DEVX_OBJ, UVERBS_ACCESS_NEW, UA_MANDATORY),
	CMD_IN(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN), CMD_OUT(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, MLX5_IB_OBJECT_DEVX_OBJ, UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OBJ_MODIFY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, UVERBS_IDR_ANY_OBJECT, UVERBS_ACCESS_READ, UA_MANDATORY),
	CMD_IN(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN), CMD_OUT(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OBJ_QUERY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, UVERBS_IDR_ANY_OBJECT, UVERBS_ACCESS_READ, UA_MANDATORY),
	CMD_IN(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN), CMD_OUT(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_DEVX_OBJ, UVERBS_TYPE_ALLOC_IDR(devx_obj_free),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_CREATE),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_DESTROY),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_MODIFY),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_QUERY));

const struct uapi_definition tally_devx_obj_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX_OBJ),
	{},
};
