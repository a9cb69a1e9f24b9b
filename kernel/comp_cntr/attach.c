// SPDX-License-Identifier: GPL-2.0-only
/* What a device can count, and counting for a QP. */
#include "core.h"

static int COMP_CNTR_HANDLER(UVERBS_METHOD_QUERY_COMP_CNTR_CAPS)(struct uverbs_attr_bundle *attrs)
{
	struct ib_comp_cntr_caps caps = {};
	struct ib_comp_cntr_dev *dev;
	struct ib_ucontext *context;
	int ret;

	context = ib_uverbs_get_ucontext(attrs);
	if (IS_ERR(context))
		return PTR_ERR(context);
	dev = comp_cntr_find_dev(context->device);
	if (!dev)
		return -EOPNOTSUPP;

	dev->ops->caps(dev->device, &caps);
	ret = uverbs_copy_to(attrs, UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, &caps.max_counters,
			     sizeof(caps.max_counters));
	if (IS_UVERBS_COPY_ERR(ret))
		return ret;
	ret = uverbs_copy_to(attrs, UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, &caps.max_value,
			     sizeof(caps.max_value));
	if (IS_UVERBS_COPY_ERR(ret))
		return ret;
	ret = uverbs_copy_to(attrs, UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS,
			     &caps.qp_attach_ops, sizeof(caps.qp_attach_ops));
	return IS_UVERBS_COPY_ERR(ret) ? ret : 0;
}

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_QUERY_COMP_CNTR_CAPS,
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, UVERBS_ATTR_TYPE(u32), UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, UVERBS_ATTR_TYPE(u64), UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, UVERBS_ATTR_TYPE(u32),
			    UA_OPTIONAL));

static int COMP_CNTR_HANDLER(UVERBS_METHOD_QP_ATTACH_COMP_CNTR)(struct uverbs_attr_bundle *attrs)
{
	struct ib_qp *qp = uverbs_attr_get_obj(attrs, UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE);
	struct ib_comp_cntr *cntr = uverbs_attr_get_obj(attrs, UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE);
	const struct ib_comp_cntr_ops *ops = cntr->dev->ops;
	struct ib_comp_cntr_caps caps = {};
	u64 op_mask;
	int ret;

	/* All bits, since one that the device does not know is not the caller's mistake: EOPNOTSUPP, not EINVAL. */
	ret = uverbs_get_flags64(&op_mask, attrs, UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, U64_MAX);
	if (ret)
		return ret;
	if (!op_mask)
		return -EINVAL;
	ops->caps(cntr->device, &caps);
	if (op_mask & ~(u64)caps.qp_attach_ops)
		return -EOPNOTSUPP;

	/* The real QP behind a shared handle may outlive this process, and with it the counter. */
	if (qp->real_qp != qp)
		return -EOPNOTSUPP;

	return ops->attach(qp, cntr, op_mask);
}

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_QP_ATTACH_COMP_CNTR,
	UVERBS_ATTR_IDR(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, UVERBS_OBJECT_QP, UVERBS_ACCESS_WRITE, UA_MANDATORY),
	UVERBS_ATTR_IDR(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, UVERBS_OBJECT_COMP_CNTR, UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_FLAGS_IN(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, enum ib_uverbs_qp_attach_comp_cntr_op,
			     UA_MANDATORY));

ADD_UVERBS_METHODS(device_methods, UVERBS_OBJECT_DEVICE, &COMP_CNTR_METHOD(UVERBS_METHOD_QUERY_COMP_CNTR_CAPS));
ADD_UVERBS_METHODS(qp_methods, UVERBS_OBJECT_QP, &COMP_CNTR_METHOD(UVERBS_METHOD_QP_ATTACH_COMP_CNTR));

const struct uapi_definition comp_cntr_attach_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &device_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_QP, &qp_methods),
	{},
};
