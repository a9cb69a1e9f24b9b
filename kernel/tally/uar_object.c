// SPDX-License-Identifier: GPL-2.0-only
/*
 * UAR pages as objects of their own: a library that says it can (MLX5_LIB_CAP_DYN_UAR) gets none with its
 * context, and allocates and maps each page when it needs one.
 */
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

/* The object is the page's index, plus 1 so that it is no NULL; the page itself is the context's. */
static void *to_object(u32 index)
{
	return (void *)(uintptr_t)(index + 1);
}

static int uar_free(struct ib_uobject *uobject, enum rdma_remove_reason why, struct uverbs_attr_bundle *attrs)
{
	/* While QPs are bound to it: they go first, also when the process or the device ends. */
	return tally_uar_put_page(to_tctx(uobject->context), (uintptr_t)uobject->object - 1);
}

static int answer(struct uverbs_attr_bundle *attrs, u32 index)
{
	u32 length = PAGE_SIZE, id = TALLY_UAR_ID(index);
	u64 offset = (u64)index << PAGE_SHIFT;
	int ret;

	ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof(offset));
	if (!ret)
		ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &id, sizeof(id));
	if (!ret)
		ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length, sizeof(length));
	return ret;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_UAR_OBJ_ALLOC)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobject = uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);
	struct ib_ucontext *context;
	u32 index;
	u64 type;
	int ret;

	context = ib_uverbs_get_ucontext(attrs);
	if (IS_ERR(context))
		return PTR_ERR(context);
	ret = uverbs_get_const(&type, attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE);
	if (ret)
		return ret;
	if (type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
		return -EOPNOTSUPP;

	ret = tally_uar_get_page(to_tctx(context), type == MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC, &index);
	if (ret)
		return ret;
	ret = answer(attrs, index);
	if (ret) {
		tally_uar_put_page(to_tctx(context), index);
		return ret;
	}
	uobject->object = to_object(index);
	/* Last: what is bound to it would keep it from being undone. */
	tally_uar_publish_page(to_tctx(context), index);
	return 0;
}

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_UAR_OBJ_ALLOC,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, MLX5_IB_OBJECT_UAR, UVERBS_ACCESS_NEW, UA_MANDATORY),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, enum mlx5_ib_uapi_uar_alloc_type, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, UVERBS_ATTR_TYPE(u32), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, UVERBS_ATTR_TYPE(u32), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, UVERBS_ATTR_TYPE(u64), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_UAR_OBJ_DESTROY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, MLX5_IB_OBJECT_UAR, UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_UAR, UVERBS_TYPE_ALLOC_IDR(uar_free),
			    &UVERBS_METHOD(MLX5_IB_METHOD_UAR_OBJ_ALLOC),
			    &UVERBS_METHOD(MLX5_IB_METHOD_UAR_OBJ_DESTROY));

const struct uapi_definition tally_uar_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_UAR),
	{},
};
