// SPDX-License-Identifier: GPL-2.0-only
/*
 * Event channels: files from which a program reads what happens to objects that its commands have made.
 *
 * A subscription belongs to a channel and to an object.  It ends with either; but an event that is waiting to be
 * read outlives its object.  Of a channel without data, an event is its subscription in the queue: it is told
 * once, however often it happened.  With data, each is kept with the device's description of it (EQE), in memory that
 * the channel has from the beginning; when that is full, the reader is told that some are lost.
 *
 * Locks: tally_ucontext.events_lock for the links between channels, subscriptions and objects, and in it channel.lock
 * for what is to be read, since a file lives on when the device, and with it the context, has gone.  Both are taken
 * under the virtual HCA's locks, like them in process context only, and by whoever makes the event: so what is done
 * under them is bounded.
 */
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/uverbs_types.h>
#include "compat.h"
#include "devx.h"
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

/* Subscriptions that one call can make, and that an object can have. */
#define MAX_SUBSCRIPTIONS 64
/* Events that a channel keeps until they are read. */
#define MAX_KEPT 4096

/**
 * struct record - an event with data, as it is read: struct mlx5_ib_uapi_devx_async_event_hdr
 * @cookie: of the subscription
 * @eqe: what the device says; not of a channel without data
 */
struct record {
	u64 cookie;
	struct mlx5_eqe eqe;
};

/**
 * struct channel - an event channel
 * @uobj: the file's object, which the file keeps beyond the device
 * @omit_data: readers get the cookie only; constant
 * @wait: readers
 * @subs: struct subscription.of_channel; under events_lock
 * @lock: what follows
 * @queue: struct subscription.queued, without data
 * @records: ring of MAX_KEPT events, with data
 * @head: the oldest of them
 * @kept: how many there are
 * @lost: some event could not be kept
 * @dead: destroyed, with the file or with the device
 */
struct channel {
	struct ib_uobject uobj;
	bool omit_data;
	wait_queue_head_t wait;
	struct list_head subs;
	spinlock_t lock;
	struct list_head queue;
	struct record *records;
	u32 head;
	u32 kept;
	bool lost;
	bool dead;
};

/**
 * struct subscription - what a channel wants to know of an object
 * @channel: the channel
 * @obj: the object; NULL when it is gone: then who takes the event out of the queue frees this.  Under channel.lock
 * @of_channel: its other subscriptions, like the next one under events_lock as long as @obj is there
 * @of_object: the object's
 * @queued: in the channel's queue, if an event is to be read; under channel.lock
 * @cookie: the program's name for it
 * @eventfd: to be signaled instead, or NULL
 * @type: event
 */
struct subscription {
	struct channel *channel;
	struct tally_devx_obj *obj;
	struct list_head of_channel;
	struct list_head of_object;
	struct list_head queued;
	u64 cookie;
	struct eventfd_ctx *eventfd;
	u16 type;
};

/* ---- what happens ---- */

static void describe(struct mlx5_eqe *eqe, const struct tally_devx_obj *obj, u8 type)
{
	memset(eqe, 0, sizeof(*eqe));
	eqe->type = type;
	switch (obj->type->opcode) {
	case MLX5_CMD_OP_CREATE_CQ:
		if (type == MLX5_EVENT_TYPE_COMP)
			eqe->data.comp.cqn = cpu_to_be32(obj->id);
		else
			eqe->data.cq_err.cqn = cpu_to_be32(obj->id);
		break;
	case MLX5_CMD_OP_CREATE_DCT:
		eqe->data.dct.dctn = cpu_to_be32(obj->id);
		break;
	default:
		eqe->data.qp_srq.type = obj->type->opcode == MLX5_CMD_OP_CREATE_RMP ? MLX5_EVENT_QUEUE_TYPE_RQ :
										       MLX5_EVENT_QUEUE_TYPE_QP;
		eqe->data.qp_srq.qp_srq_n = cpu_to_be32(obj->id);
		break;
	}
}

/* Under the channel's lock. */
static void keep(struct channel *ch, const struct subscription *sub)
{
	struct record *r;

	if (ch->kept == MAX_KEPT) {
		ch->lost = true;
		return;
	}
	r = &ch->records[(ch->head + ch->kept) % MAX_KEPT];
	r->cookie = sub->cookie;
	describe(&r->eqe, sub->obj, sub->type);
	ch->kept++;
}

static void tell(struct subscription *sub)
{
	struct channel *ch = sub->channel;

	if (sub->eventfd) {
		tally_eventfd_signal(sub->eventfd);
		return;
	}
	spin_lock(&ch->lock);
	if (!ch->dead) {
		if (!ch->omit_data)
			keep(ch, sub);
		else if (list_empty(&sub->queued))
			list_add_tail(&sub->queued, &ch->queue);
		wake_up_interruptible(&ch->wait);
	}
	spin_unlock(&ch->lock);
}

void tally_devx_event(const struct tally_devx_obj *obj, u8 type)
{
	struct subscription *sub;

	spin_lock(&obj->ctx->events_lock);
	list_for_each_entry(sub, &obj->events, of_object)
		if (sub->type == type)
			tell(sub);
	spin_unlock(&obj->ctx->events_lock);
}

/* ---- subscriptions ---- */

static void free_subscription(struct subscription *sub)
{
	if (sub->eventfd)
		eventfd_ctx_put(sub->eventfd);
	kfree(sub);
}

/* The links of a subscription end, under events_lock.  Returns whether it is to be freed. */
static bool unlink_subscription(struct subscription *sub)
{
	struct channel *ch = sub->channel;
	bool queued;

	list_del(&sub->of_channel);
	list_del(&sub->of_object);
	sub->obj->num_events--;
	spin_lock(&ch->lock);
	sub->obj = NULL;
	queued = !list_empty(&sub->queued);
	spin_unlock(&ch->lock);
	return !queued;
}

void tally_devx_events_end(struct tally_devx_obj *obj)
{
	struct subscription *sub, *tmp;
	LIST_HEAD(done);

	spin_lock(&obj->ctx->events_lock);
	list_for_each_entry_safe(sub, tmp, &obj->events, of_object)
		if (unlink_subscription(sub))
			list_add(&sub->of_object, &done);
	spin_unlock(&obj->ctx->events_lock);
	list_for_each_entry_safe(sub, tmp, &done, of_object)
		free_subscription(sub);
}

/* What objects can tell, some of it never on this device. */
static bool is_known(u16 type)
{
	switch (type) {
	case MLX5_EVENT_TYPE_COMP:
	case MLX5_EVENT_TYPE_PATH_MIG:
	case MLX5_EVENT_TYPE_COMM_EST:
	case MLX5_EVENT_TYPE_SQ_DRAINED:
	case MLX5_EVENT_TYPE_CQ_ERROR:
	case MLX5_EVENT_TYPE_WQ_CATAS_ERROR:
	case MLX5_EVENT_TYPE_PATH_MIG_FAILED:
	case MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR:
	case MLX5_EVENT_TYPE_WQ_ACCESS_ERROR:
	case MLX5_EVENT_TYPE_SRQ_CATAS_ERROR:
	case MLX5_EVENT_TYPE_SRQ_LAST_WQE:
	case MLX5_EVENT_TYPE_SRQ_RQ_LIMIT:
	case MLX5_EVENT_TYPE_XRQ_ERROR:
	case MLX5_EVENT_TYPE_DCT_DRAINED:
	case MLX5_EVENT_TYPE_DCT_KEY_VIOLATION:
		return true;
	default:
		return false;
	}
}

static struct subscription *make_subscription(struct channel *ch, u16 type, u64 cookie, int fd)
{
	struct subscription *sub;
	int ret;

	if (!is_known(type))
		return ERR_PTR(-EINVAL);
	sub = kzalloc(sizeof(*sub), GFP_KERNEL_ACCOUNT);
	if (!sub)
		return ERR_PTR(-ENOMEM);
	sub->channel = ch;
	sub->type = type;
	sub->cookie = cookie;
	INIT_LIST_HEAD(&sub->queued);
	if (fd < 0)
		return sub;
	sub->eventfd = eventfd_ctx_fdget(fd);
	if (IS_ERR(sub->eventfd)) {
		ret = PTR_ERR(sub->eventfd);
		kfree(sub);
		return ERR_PTR(ret);
	}
	return sub;
}

/* All of them or none. */
static int subscribe(struct channel *ch, struct tally_devx_obj *obj, const u16 *types, int num, u64 cookie, int fd)
{
	struct subscription *sub, *tmp;
	LIST_HEAD(made);
	int i, ret = 0;

	for (i = 0; i < num; i++) {
		sub = make_subscription(ch, types[i], cookie, fd);
		if (IS_ERR(sub)) {
			ret = PTR_ERR(sub);
			goto out;
		}
		sub->obj = obj;
		list_add_tail(&sub->of_channel, &made);
	}
	spin_lock(&obj->ctx->events_lock);
	if (obj->num_events + num > MAX_SUBSCRIPTIONS) {
		ret = -ENOSPC;
	} else {
		list_for_each_entry(sub, &made, of_channel)
			list_add_tail(&sub->of_object, &obj->events);
		list_splice_tail_init(&made, &ch->subs);
		obj->num_events += num;
	}
	spin_unlock(&obj->ctx->events_lock);
out:
	list_for_each_entry_safe(sub, tmp, &made, of_channel)
		free_subscription(sub);
	return ret;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *file = uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE);
	struct ib_uobject *uobj = uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE);
	struct tally_ucontext *ctx = tally_devx_context(attrs);
	const u16 *types;
	u64 cookie = 0;
	int fd = -1;
	int num, ret;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	/* Of the device itself nothing is told. */
	if (IS_ERR(uobj))
		return -EINVAL;
	if (uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM)) {
		ret = uverbs_copy_from(&fd, attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM);
		if (ret)
			return ret;
		if (fd < 0)
			return -EBADF;
	}
	if (uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE)) {
		if (fd >= 0)
			return -EINVAL;
		ret = uverbs_copy_from(&cookie, attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE);
		if (ret)
			return ret;
	}
	num = uverbs_attr_ptr_get_array_size(attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, sizeof(u16));
	if (num < 0)
		return num;
	if (num > MAX_SUBSCRIPTIONS)
		return -EINVAL;
	types = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST);
	return subscribe(container_of(file, struct channel, uobj), uobj->object, types, num, cookie, fd);
}

/* ---- channels ---- */

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj = uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE);
	struct channel *ch = container_of(uobj, struct channel, uobj);
	struct tally_ucontext *ctx = tally_devx_context(attrs);
	u32 flags;
	int ret;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = uverbs_get_flags32(&flags, attrs, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS,
				 MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA);
	if (ret)
		return ret;
	ch->omit_data = flags & MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA;
	init_waitqueue_head(&ch->wait);
	INIT_LIST_HEAD(&ch->subs);
	spin_lock_init(&ch->lock);
	INIT_LIST_HEAD(&ch->queue);
	if (ch->omit_data)
		return 0;
	ch->records = kvmalloc_array(MAX_KEPT, sizeof(*ch->records), GFP_KERNEL_ACCOUNT);
	return ch->records ? 0 : -ENOMEM;
}

/* The file is closed, or the device goes; a file that is still open reads EIO from here on. */
static void destroy_channel(struct ib_uobject *uobj, enum rdma_remove_reason why)
{
	struct channel *ch = container_of(uobj, struct channel, uobj);
	spinlock_t *events_lock = &to_tctx(uobj->context)->events_lock;
	struct subscription *sub, *tmp;

	spin_lock(&ch->lock);
	ch->dead = true;
	wake_up_interruptible(&ch->wait);
	spin_unlock(&ch->lock);

	/* One by one: there may be many. */
	spin_lock(events_lock);
	while ((sub = list_first_entry_or_null(&ch->subs, struct subscription, of_channel))) {
		bool done = unlink_subscription(sub);

		spin_unlock(events_lock);
		if (done)
			free_subscription(sub);
		spin_lock(events_lock);
	}
	spin_unlock(events_lock);
	/* Neither readers nor events touch these any more. */
	list_for_each_entry_safe(sub, tmp, &ch->queue, queued)
		free_subscription(sub);
	kvfree(ch->records);
}

static bool has_events(const struct channel *ch)
{
	return ch->omit_data ? !list_empty(&ch->queue) : ch->kept;
}

static bool readable(struct channel *ch)
{
	bool yes;

	spin_lock(&ch->lock);
	yes = ch->dead || ch->lost || has_events(ch);
	spin_unlock(&ch->lock);
	return yes;
}

static void take_record(struct channel *ch, struct record *out)
{
	*out = ch->records[ch->head];
	ch->head = (ch->head + 1) % MAX_KEPT;
	ch->kept--;
}

/* Returns a subscription that is to be freed, or NULL. */
static struct subscription *take_subscription(struct channel *ch, struct record *out)
{
	struct subscription *sub = list_first_entry(&ch->queue, struct subscription, queued);

	list_del_init(&sub->queued);
	out->cookie = sub->cookie;
	return sub->obj ? NULL : sub;
}

static size_t record_size(const struct channel *ch)
{
	return ch->omit_data ? offsetofend(struct record, cookie) : sizeof(struct record);
}

/* Returns 0, -EAGAIN if there is nothing, or what the reader is to be told. */
static int take(struct channel *ch, size_t room, struct record *out)
{
	struct subscription *done = NULL;
	int ret = 0;

	spin_lock(&ch->lock);
	if (ch->dead) {
		ret = -EIO;
	} else if (ch->lost) {
		ch->lost = false;
		ret = -EOVERFLOW;
	} else if (!has_events(ch)) {
		ret = -EAGAIN;
	} else if (room < record_size(ch)) {
		ret = -EINVAL;
	} else if (ch->omit_data) {
		done = take_subscription(ch, out);
	} else {
		take_record(ch, out);
	}
	spin_unlock(&ch->lock);
	if (done)
		free_subscription(done);
	return ret;
}

static ssize_t channel_read(struct file *file, char __user *buf, size_t room, loff_t *pos)
{
	struct channel *ch = container_of(file->private_data, struct channel, uobj);
	struct record out;
	int ret;

	BUILD_BUG_ON(sizeof(out) != sizeof(struct mlx5_ib_uapi_devx_async_event_hdr) + sizeof(struct mlx5_eqe));
	while ((ret = take(ch, room, &out)) == -EAGAIN) {
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(ch->wait, readable(ch)))
			return -ERESTARTSYS;
	}
	if (ret)
		return ret;
	return copy_to_user(buf, &out, record_size(ch)) ? -EFAULT : record_size(ch);
}

static __poll_t channel_poll(struct file *file, struct poll_table_struct *table)
{
	struct channel *ch = container_of(file->private_data, struct channel, uobj);

	poll_wait(file, &ch->wait, table);
	if (!readable(ch))
		return 0;
	return EPOLLIN | EPOLLRDNORM | (READ_ONCE(ch->dead) ? EPOLLRDHUP : 0);
}

static const struct file_operations channel_fops = {
	.owner = THIS_MODULE,
	.read = channel_read,
	.poll = channel_poll,
	.release = uverbs_uobject_fd_release,
};

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT,
	UVERBS_ATTR_FD(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
		       UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, MLX5_IB_OBJECT_DEVX_OBJ, UVERBS_ACCESS_READ,
			UA_OPTIONAL),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, UVERBS_ATTR_MIN_SIZE(sizeof(u16)),
			   UA_MANDATORY, UA_ALLOC_AND_COPY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, UVERBS_ATTR_TYPE(u64), UA_OPTIONAL),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, UVERBS_ATTR_TYPE(u32), UA_OPTIONAL));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
	UVERBS_ATTR_FD(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
		       UVERBS_ACCESS_NEW, UA_MANDATORY),
	UVERBS_ATTR_FLAGS_IN(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS,
			     enum mlx5_ib_uapi_devx_create_event_channel_flags, UA_MANDATORY));

ADD_UVERBS_METHODS(tally_devx_subscribe, MLX5_IB_OBJECT_DEVX, &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
			    UVERBS_TYPE_ALLOC_FD(sizeof(struct channel), destroy_channel, &channel_fops,
						 "[tally_devx_event]", O_RDONLY),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC));

const struct uapi_definition tally_devx_events_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(MLX5_IB_OBJECT_DEVX, &tally_devx_subscribe),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD),
	{},
};
