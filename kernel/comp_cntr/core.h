/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of ib_comp_cntr share. */
#ifndef IB_COMP_CNTR_CORE_H
#define IB_COMP_CNTR_CORE_H

#include "ib_comp_cntr.h"
#include "ib_cpu_dmabuf.h"

#define UVERBS_MODULE_NAME ib_comp_cntr
#include <rdma/uverbs_named_ioctl.h>
#include <rdma/uverbs_std_types.h>

/*
 * The names that DECLARE_UVERBS_NAMED_METHOD() gives to a handler and to its method.  Where the id is a macro,
 * that one pastes the number; UVERBS_HANDLER() and UVERBS_METHOD() alone would paste the macro's name.
 */
#define COMP_CNTR_HANDLER(id) UVERBS_HANDLER(id)
#define COMP_CNTR_METHOD(id) UVERBS_METHOD(id)

/**
 * struct ib_comp_cntr_dev - a device that has counters
 * @node: in the registry
 * @rcu: frees it
 * @device: the key
 * @ops: what the provider does
 * @num: counters that exist
 * @gone: the device is being removed
 *
 * Lifetime: from ib_comp_cntr_register_ops() to ib_comp_cntr_unregister_ops(), which the provider calls when
 * the device has no users any more; so whoever holds a counter of the device, runs one of its ioctls or is the
 * client callback of it uses the record without a reference.  The registry itself is walked under RCU.
 */
struct ib_comp_cntr_dev {
	struct hlist_node node;
	struct rcu_head rcu;
	struct ib_device *device;
	const struct ib_comp_cntr_ops *ops;
	atomic_t num;
	bool gone;
};

/* ops.c */
struct ib_comp_cntr_dev *comp_cntr_find_dev(struct ib_device *device);
int comp_cntr_ops_init(void);
void comp_cntr_ops_exit(void);

/**
 * struct comp_cntr_pin - a page of user memory that the kernel writes to
 * @umem: keeps it in place and on the account of its owner; NULL when nothing is pinned
 * @page: kernel address of the page
 * @vmap: the mapping made for that, if the page had no address
 */
struct comp_cntr_pin {
	struct ib_umem *umem;
	void *page;
	void *vmap;
};

/* pin.c */
int comp_cntr_pin_page(struct comp_cntr_pin *pin, struct ib_device *device, u64 addr);
void comp_cntr_unpin_page(struct comp_cntr_pin *pin);

/**
 * struct ib_comp_cntr_memory - where the two values of a counter live
 * @comp: the completion count
 * @err: the error count
 * @own: memory of the kernel's own that holds both; NULL if the caller brought his
 * @pins: pinned pages, by word; the second is empty if both words are in one page
 * @bufs: dma-bufs, by word
 *
 * Belongs to one counter, constant in between get and put.
 */
struct ib_comp_cntr_memory {
	u64 *comp;
	u64 *err;
	u64 *own;
	struct comp_cntr_pin pins[2];
	struct ib_cpu_dmabuf bufs[2];
};

/* memory.c */
struct ib_comp_cntr_memory *comp_cntr_memory_get(struct ib_device *device,
						 const struct ib_uverbs_buffer_desc *comp,
						 const struct ib_uverbs_buffer_desc *err);
void comp_cntr_memory_put(struct ib_comp_cntr_memory *memory);

/* object.c, attach.c, wait.c: each one's part of ib_comp_cntr_uapi_defs */
extern const struct uapi_definition comp_cntr_object_defs[];
extern const struct uapi_definition comp_cntr_attach_defs[];
extern const struct uapi_definition comp_cntr_wait_defs[];

#endif /* IB_COMP_CNTR_CORE_H */
