// SPDX-License-Identifier: GPL-2.0-only
/* The counter as a uverbs object: CREATE, DESTROY, MODIFY, READ. */
#include <linux/slab.h>
#include "core.h"

static int comp_cntr_free(struct ib_uobject *uobject, enum rdma_remove_reason why,
			  struct uverbs_attr_bundle *attrs)
{
	struct ib_comp_cntr *cntr = uobject->object;
	struct ib_comp_cntr_memory *memory = cntr->memory;
	struct ib_comp_cntr_dev *dev = cntr->dev;

	/*
	 * Whatever the reason.  When the process or the device goes, the core takes its rounds over the objects
	 * until all are gone, and the QPs that hold this counter are among them.
	 * Acquire: pairs with the release in ib_comp_cntr_put().
	 */
	if (atomic_read_acquire(&cntr->attached))
		return -EBUSY;

	dev->ops->destroy(cntr);
	kfree(cntr);
	comp_cntr_memory_put(memory);
	atomic_dec(&dev->num);
	return 0;
}

/* The descriptor of a buffer, if there is one: @have is set to @desc or NULL. */
static int get_desc(struct uverbs_attr_bundle *attrs, u16 id, struct ib_uverbs_buffer_desc *desc,
		    struct ib_uverbs_buffer_desc **have)
{
	*have = NULL;
	if (!uverbs_attr_is_valid(attrs, id))
		return 0;
	*have = desc;
	return uverbs_copy_from_or_zero(desc, attrs, id);
}

static int COMP_CNTR_HANDLER(UVERBS_METHOD_COMP_CNTR_CREATE)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobject = uverbs_attr_get_uobject(attrs, UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE);
	struct ib_device *device = attrs->context->device;
	struct ib_uverbs_buffer_desc comp_desc, err_desc, *comp, *err;
	struct ib_comp_cntr_dev *dev;
	struct ib_comp_cntr *cntr;
	u64 type;
	int ret;

	dev = comp_cntr_find_dev(device);
	if (!dev)
		return -EOPNOTSUPP;

	ret = uverbs_get_const_default(&type, attrs, TALLY_ATTR_CREATE_COMP_CNTR_TYPE, TALLY_COMP_CNTR_TYPE_WRS);
	if (ret)
		return ret;
	if (type != TALLY_COMP_CNTR_TYPE_WRS && type != TALLY_COMP_CNTR_TYPE_BYTES)
		return -EOPNOTSUPP;

	ret = get_desc(attrs, TALLY_ATTR_CREATE_COMP_CNTR_COMP_BUFFER, &comp_desc, &comp);
	if (ret)
		return ret;
	ret = get_desc(attrs, TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, &err_desc, &err);
	if (ret)
		return ret;

	cntr = kzalloc(dev->ops->size, GFP_KERNEL_ACCOUNT);
	if (!cntr)
		return -ENOMEM;
	cntr->memory = comp_cntr_memory_get(device, comp, err);
	if (IS_ERR(cntr->memory)) {
		ret = PTR_ERR(cntr->memory);
		goto err_free;
	}
	cntr->device = device;
	cntr->uobject = uobject;
	cntr->type = type;
	cntr->comp = cntr->memory->comp;
	cntr->err = cntr->memory->err;
	cntr->dev = dev;

	ret = dev->ops->create(cntr);
	if (ret)
		goto err_memory;

	/* From here on nothing fails, and until now the caller's memory is as he left it. */
	WRITE_ONCE(*cntr->comp, 0);
	WRITE_ONCE(*cntr->err, 0);
	atomic_inc(&dev->num);
	uobject->object = cntr;
	uverbs_finalize_uobj_create(attrs, UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE);
	return 0;

err_memory:
	comp_cntr_memory_put(cntr->memory);
err_free:
	kfree(cntr);
	return ret;
}

static int get_entry(struct uverbs_attr_bundle *attrs, u16 id, enum ib_uverbs_comp_cntr_entry *entry)
{
	u64 value;
	int ret;

	ret = uverbs_get_const(&value, attrs, id);
	if (ret)
		return ret;
	if (value != IB_UVERBS_COMP_CNTR_ENTRY_COMP && value != IB_UVERBS_COMP_CNTR_ENTRY_ERR)
		return -EINVAL;
	*entry = value;
	return 0;
}

static int COMP_CNTR_HANDLER(UVERBS_METHOD_COMP_CNTR_MODIFY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_comp_cntr *cntr = uverbs_attr_get_obj(attrs, UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE);
	const struct ib_comp_cntr_ops *ops = cntr->dev->ops;
	enum ib_uverbs_comp_cntr_entry entry;
	struct ib_comp_cntr_caps caps = {};
	u64 op, value;
	int ret;

	ret = get_entry(attrs, UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, &entry);
	if (ret)
		return ret;
	ret = uverbs_get_const(&op, attrs, UVERBS_ATTR_MODIFY_COMP_CNTR_OP);
	if (ret)
		return ret;
	if (op != IB_UVERBS_COMP_CNTR_MODIFY_OP_SET && op != IB_UVERBS_COMP_CNTR_MODIFY_OP_INC)
		return -EINVAL;
	ret = uverbs_copy_from(&value, attrs, UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE);
	if (ret)
		return ret;
	ops->caps(cntr->device, &caps);
	if (value > caps.max_value)
		return -EINVAL;

	return ops->modify(cntr, entry, op, value);
}

static int COMP_CNTR_HANDLER(UVERBS_METHOD_COMP_CNTR_READ)(struct uverbs_attr_bundle *attrs)
{
	struct ib_comp_cntr *cntr = uverbs_attr_get_obj(attrs, UVERBS_ATTR_READ_COMP_CNTR_HANDLE);
	enum ib_uverbs_comp_cntr_entry entry;
	u64 value;
	int ret;

	ret = get_entry(attrs, UVERBS_ATTR_READ_COMP_CNTR_ENTRY, &entry);
	if (ret)
		return ret;
	ret = cntr->dev->ops->read(cntr, entry, &value);
	if (ret)
		return ret;
	return uverbs_copy_to(attrs, UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, &value, sizeof(value));
}

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_COMP_CNTR_CREATE,
	UVERBS_ATTR_IDR(UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE, UVERBS_OBJECT_COMP_CNTR, UVERBS_ACCESS_NEW,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(TALLY_ATTR_CREATE_COMP_CNTR_COMP_BUFFER,
			   UVERBS_ATTR_STRUCT(struct ib_uverbs_buffer_desc, length), UA_OPTIONAL),
	UVERBS_ATTR_PTR_IN(TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER,
			   UVERBS_ATTR_STRUCT(struct ib_uverbs_buffer_desc, length), UA_OPTIONAL),
	UVERBS_ATTR_CONST_IN(TALLY_ATTR_CREATE_COMP_CNTR_TYPE, enum tally_comp_cntr_type, UA_OPTIONAL));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	UVERBS_METHOD_COMP_CNTR_DESTROY,
	UVERBS_ATTR_IDR(UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, UVERBS_OBJECT_COMP_CNTR, UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

/*
 * Access READ although the counter changes: an exclusive lock would answer EBUSY to the thread that increments
 * while another waits for the result, or increments too.  The provider's increment is atomic anyway.
 */
DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_COMP_CNTR_MODIFY,
	UVERBS_ATTR_IDR(UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, UVERBS_OBJECT_COMP_CNTR, UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_CONST_IN(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, enum ib_uverbs_comp_cntr_entry, UA_MANDATORY),
	UVERBS_ATTR_CONST_IN(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, enum ib_uverbs_comp_cntr_modify_op, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, UVERBS_ATTR_TYPE(u64), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_COMP_CNTR_READ,
	UVERBS_ATTR_IDR(UVERBS_ATTR_READ_COMP_CNTR_HANDLE, UVERBS_OBJECT_COMP_CNTR, UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_CONST_IN(UVERBS_ATTR_READ_COMP_CNTR_ENTRY, enum ib_uverbs_comp_cntr_entry, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, UVERBS_ATTR_TYPE(u64), UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(UVERBS_OBJECT_COMP_CNTR, UVERBS_TYPE_ALLOC_IDR(comp_cntr_free),
			    &COMP_CNTR_METHOD(UVERBS_METHOD_COMP_CNTR_CREATE),
			    &COMP_CNTR_METHOD(UVERBS_METHOD_COMP_CNTR_DESTROY),
			    &COMP_CNTR_METHOD(UVERBS_METHOD_COMP_CNTR_MODIFY),
			    &COMP_CNTR_METHOD(UVERBS_METHOD_COMP_CNTR_READ));

/* Without it the object, and with it every method that takes one, is not there for the device. */
static bool has_counters(struct ib_device *device)
{
	return comp_cntr_find_dev(device);
}

const struct uapi_definition comp_cntr_object_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(UVERBS_OBJECT_COMP_CNTR, UAPI_DEF_IS_OBJ_SUPPORTED(has_counters)),
	{},
};
