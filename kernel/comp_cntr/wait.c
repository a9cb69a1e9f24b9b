// SPDX-License-Identifier: GPL-2.0-only
/* To be told when a counter has reached a target: WAIT sleeps, NOTIFY arms an eventfd. */
#include <linux/eventfd.h>
#include "core.h"

static int get_cntrs(struct uverbs_attr_bundle *attrs, struct ib_comp_cntr ***cntrs)
{
	struct ib_uobject **uobjects;
	int num, i, j;

	num = uverbs_attr_get_uobjs_arr(attrs, TALLY_ATTR_WAIT_COMP_CNTR_HANDLES, &uobjects);
	*cntrs = uverbs_alloc(attrs, array_size(num, sizeof(**cntrs)));
	if (IS_ERR(*cntrs))
		return PTR_ERR(*cntrs);

	for (i = 0; i < num; i++) {
		(*cntrs)[i] = uobjects[i]->object;
		/* A provider may lock or enqueue each of them. */
		for (j = 0; j < i; j++)
			if ((*cntrs)[j] == (*cntrs)[i])
				return -EINVAL;
	}
	return num;
}

static int COMP_CNTR_HANDLER(TALLY_METHOD_COMP_CNTR_WAIT)(struct uverbs_attr_bundle *attrs)
{
	const struct tally_comp_cntr_target *targets;
	struct ib_comp_cntr **cntrs;
	u32 flags, index = 0;
	u64 timeout_ns;
	int num, ret, err;

	num = get_cntrs(attrs, &cntrs);
	if (num < 0)
		return num;
	ret = uverbs_attr_ptr_get_array_size(attrs, TALLY_ATTR_WAIT_COMP_CNTR_TARGETS, sizeof(*targets));
	if (ret < 0)
		return ret;
	if (ret != num)
		return -EINVAL;
	targets = uverbs_attr_get_alloced_ptr(attrs, TALLY_ATTR_WAIT_COMP_CNTR_TARGETS);
	if (IS_ERR(targets))
		return PTR_ERR(targets);
	ret = uverbs_copy_from(&timeout_ns, attrs, TALLY_ATTR_WAIT_COMP_CNTR_TIMEOUT_NS);
	if (ret)
		return ret;
	ret = uverbs_get_flags32(&flags, attrs, TALLY_ATTR_WAIT_COMP_CNTR_FLAGS, TALLY_COMP_CNTR_WAIT_ANY);
	if (ret)
		return ret;

	/*
	 * The counters cannot go away: each uobject is held for reading, destruction gets EBUSY.  The device waits
	 * for this ioctl to end, see comp_cntr_remove_device().
	 */
	if (ib_comp_cntr_gone(cntrs[0]))
		return -ENODEV;
	ret = cntrs[0]->dev->ops->wait(cntrs, targets, num, timeout_ns, flags, &index);
	if (ret == -ERESTARTSYS) /* the timeout is relative: a restart would begin it anew */
		return -EINTR;
	if (ret && ret != -EIO)
		return ret;

	err = uverbs_copy_to(attrs, TALLY_ATTR_WAIT_COMP_CNTR_RESP_INDEX, &index, sizeof(index));
	return IS_UVERBS_COPY_ERR(err) ? err : ret;
}

DECLARE_UVERBS_NAMED_METHOD(
	TALLY_METHOD_COMP_CNTR_WAIT,
	UVERBS_ATTR_IDRS_ARR(TALLY_ATTR_WAIT_COMP_CNTR_HANDLES, UVERBS_OBJECT_COMP_CNTR, UVERBS_ACCESS_READ, 1,
			     TALLY_COMP_CNTR_WAIT_MAX, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(TALLY_ATTR_WAIT_COMP_CNTR_TARGETS,
			   UVERBS_ATTR_SIZE(sizeof(struct tally_comp_cntr_target),
					    sizeof(struct tally_comp_cntr_target) * TALLY_COMP_CNTR_WAIT_MAX),
			   UA_MANDATORY, UA_ALLOC_AND_COPY),
	UVERBS_ATTR_PTR_IN(TALLY_ATTR_WAIT_COMP_CNTR_TIMEOUT_NS, UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_FLAGS_IN(TALLY_ATTR_WAIT_COMP_CNTR_FLAGS, enum tally_comp_cntr_wait_flags, UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(TALLY_ATTR_WAIT_COMP_CNTR_RESP_INDEX, UVERBS_ATTR_TYPE(u32), UA_OPTIONAL));

static int COMP_CNTR_HANDLER(TALLY_METHOD_COMP_CNTR_NOTIFY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_comp_cntr *cntr = uverbs_attr_get_obj(attrs, TALLY_ATTR_NOTIFY_COMP_CNTR_HANDLE);
	u64 target, err_value, *err_seen = NULL;
	struct eventfd_ctx *ctx;
	int fd, ret;

	ret = uverbs_get_raw_fd(&fd, attrs, TALLY_ATTR_NOTIFY_COMP_CNTR_EVENTFD);
	if (ret)
		return ret;
	ret = uverbs_copy_from(&target, attrs, TALLY_ATTR_NOTIFY_COMP_CNTR_TARGET);
	if (ret)
		return ret;
	if (uverbs_attr_is_valid(attrs, TALLY_ATTR_NOTIFY_COMP_CNTR_ERR_SEEN)) {
		ret = uverbs_copy_from(&err_value, attrs, TALLY_ATTR_NOTIFY_COMP_CNTR_ERR_SEEN);
		if (ret)
			return ret;
		err_seen = &err_value;
	}

	/* What is armed from here on is destroyed with the device, and signalled then. */
	if (ib_comp_cntr_gone(cntr))
		return -ENODEV;
	ctx = eventfd_ctx_fdget(fd);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = cntr->dev->ops->notify(cntr, target, err_seen, ctx);
	if (ret)
		eventfd_ctx_put(ctx);
	return ret;
}

DECLARE_UVERBS_NAMED_METHOD(
	TALLY_METHOD_COMP_CNTR_NOTIFY,
	UVERBS_ATTR_IDR(TALLY_ATTR_NOTIFY_COMP_CNTR_HANDLE, UVERBS_OBJECT_COMP_CNTR, UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_RAW_FD(TALLY_ATTR_NOTIFY_COMP_CNTR_EVENTFD, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(TALLY_ATTR_NOTIFY_COMP_CNTR_TARGET, UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(TALLY_ATTR_NOTIFY_COMP_CNTR_ERR_SEEN, UVERBS_ATTR_TYPE(u64), UA_OPTIONAL));

ADD_UVERBS_METHODS(comp_cntr_methods, UVERBS_OBJECT_COMP_CNTR, &COMP_CNTR_METHOD(TALLY_METHOD_COMP_CNTR_WAIT),
		   &COMP_CNTR_METHOD(TALLY_METHOD_COMP_CNTR_NOTIFY));

const struct uapi_definition comp_cntr_wait_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_COMP_CNTR, &comp_cntr_methods),
	{},
};
