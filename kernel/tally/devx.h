/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DEVX objects: made by a command of the device's own, known by a number, destroyed with their handle.
 *
 * A kind of objects is a struct tally_devx_type in the file that owns the idea, and an entry of the table in
 * devx_obj.c.  Statuses are the device's, MLX5_CMD_STAT_*.
 */
#ifndef TALLY_DEVX_H
#define TALLY_DEVX_H

#include <linux/mlx5/device.h>
#include <linux/mlx5/mlx5_ifc.h>
#include <rdma/uverbs_ioctl.h>
#include "ifc.h"

struct tally_ucontext;

/* Event queues: one for each completion vector. */
#define TALLY_FIRST_EQN 1

/**
 * struct tally_devx_cmd - a command under way
 * @ctx: who gives it
 * @in: its mailbox, a private copy
 * @in_len: at least what the command's description says
 * @out: its answer, zeroed; the status is filled in by the caller
 * @out_len: likewise
 */
struct tally_devx_cmd {
	struct tally_ucontext *ctx;
	const void *in;
	size_t in_len;
	void *out;
	size_t out_len;
};

struct tally_devx_type;

/**
 * struct tally_devx_obj - an object that a command has made
 * @type: its kind
 * @ctx: whose it is
 * @id: number, as in the mailboxes
 * @object: the object itself, of the same type as one of this kind that a verb has made
 * @events: what channels want to know of it, see devx_events.c; with the next one under tally_ucontext.events_lock
 * @num_events: its entries
 *
 * The handle (ib_core's uobject) owns it: commands hold that for reading, the destruction for writing.
 */
struct tally_devx_obj {
	const struct tally_devx_type *type;
	struct tally_ucontext *ctx;
	u32 id;
	void *object;
	struct list_head events;
	u32 num_events;
};

/**
 * struct tally_devx_method - a command on an object
 * @opcode: MLX5_CMD_OP_*
 * @modifies: or queries
 * @in_len: shortest mailbox
 * @out_len: shortest answer
 * @run: does it.  @object is as in struct tally_devx_obj, and the mailbox names it.  Methods of one object run at
 *	the same time.
 */
struct tally_devx_method {
	u16 opcode;
	bool modifies;
	u16 in_len;
	u16 out_len;
	u8 (*run)(void *object, const struct tally_devx_cmd *cmd);
};

/**
 * struct tally_devx_type - a kind of objects
 * @opcode: the command that makes one
 * @in_len: shortest mailbox
 * @out_len: shortest answer
 * @create: makes one, sets @obj->id and @obj->object, and answers with the number; NULL: verbs only
 * @publish: lets others find it by its number; NULL if nobody can
 * @destroy: undoes both.  Returns 0, or -EBUSY while others use it; not if it was never published.
 * @methods: commands on it
 * @num_methods: how many
 */
struct tally_devx_type {
	u16 opcode;
	u16 in_len;
	u16 out_len;
	u8 (*create)(struct tally_devx_obj *obj, const struct tally_devx_cmd *cmd);
	void (*publish)(struct tally_devx_obj *obj);
	int (*destroy)(struct tally_devx_obj *obj);
	const struct tally_devx_method *methods;
	u32 num_methods;
};

/* pd.c */
extern const struct tally_devx_type tally_devx_pd;
/* reserved_qpn.c */
extern const struct tally_devx_type tally_devx_reserved_qpn;
/* mkey.c */
extern const struct tally_devx_type tally_devx_mkey;
/* devx_cq.c */
extern const struct tally_devx_type tally_devx_cq;
/* devx_qp.c */
extern const struct tally_devx_type tally_devx_qp;
/* devx_rmp.c */
extern const struct tally_devx_type tally_devx_rmp;
/* devx_dct.c */
extern const struct tally_devx_type tally_devx_dct;

/* devx.c */

/* The context, if it may use commands; or an ERR_PTR. */
struct tally_ucontext *tally_devx_context(struct uverbs_attr_bundle *attrs);

/* Zeroed room for the answer to attribute @attr, as long as the method runs; or an ERR_PTR. */
void *tally_devx_alloc_out(struct uverbs_attr_bundle *attrs, u16 attr, size_t *out_len);

/* Copies the answer to user space.  Return: 0, -EREMOTEIO if the status is not OK, -EFAULT. */
int tally_devx_answer(struct uverbs_attr_bundle *attrs, u16 attr, u8 status, void *out, size_t out_len);

/* What the device says where the kernel says @err. */
u8 tally_devx_status(int err);

/* devx_events.c */

/* Tells who wants to know; under any lock of the virtual HCA's.  @type is one of MLX5_EVENT_TYPE_*. */
void tally_devx_event(const struct tally_devx_obj *obj, u8 type);

/* The object has been destroyed: nothing more happens to it. */
void tally_devx_events_end(struct tally_devx_obj *obj);

extern const struct uapi_definition tally_devx_events_defs[];

/* devx_obj.c */
extern const struct uapi_definition tally_devx_obj_defs[];

#endif /* TALLY_DEVX_H */
