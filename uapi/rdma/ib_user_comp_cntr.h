/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion counters: the uverbs ioctl ABI in the core namespace.
 *
 * These are the identifiers of the upstream kernel that introduced the feature.  Headers that have them already
 * define the ids in <rdma/ib_user_ioctl_cmds.h> and the types in <rdma/ib_user_ioctl_verbs.h>, and whoever compiles
 * against such headers defines TALLY_HAVE_UVERBS_COMP_CNTR for the one and TALLY_HAVE_UVERBS_COMP_CNTR_TYPES for the
 * other: rdma-core brings a copy of the second file, which may be newer than the kernel's headers.  The numbers may
 * never change.
 */
#ifndef TALLY_IB_USER_COMP_CNTR_H
#define TALLY_IB_USER_COMP_CNTR_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

#ifndef TALLY_HAVE_UVERBS_COMP_CNTR

#define UVERBS_OBJECT_COMP_CNTR 19

/* UVERBS_OBJECT_DEVICE */
#define UVERBS_METHOD_QUERY_COMP_CNTR_CAPS 8

enum uverbs_attrs_query_comp_cntr_caps_attr_ids {
	UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS,		  /* out, u32 */
	UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE,		  /* out, u64 */
	UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, /* out, u32 */
};

/* UVERBS_OBJECT_QP */
#define UVERBS_METHOD_QP_ATTACH_COMP_CNTR 2

enum uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids {
	UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE,	     /* idr of the QP, write */
	UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, /* idr of the counter, read */
	UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK,     /* flags, u32: ib_uverbs_qp_attach_comp_cntr_op */
};

enum uverbs_methods_comp_cntr {
	UVERBS_METHOD_COMP_CNTR_CREATE,
	UVERBS_METHOD_COMP_CNTR_DESTROY,
	UVERBS_METHOD_COMP_CNTR_MODIFY,
	UVERBS_METHOD_COMP_CNTR_READ,
};

enum uverbs_attrs_create_comp_cntr_cmd_attr_ids {
	UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE, /* idr, new */
};

enum uverbs_attrs_destroy_comp_cntr_cmd_attr_ids {
	UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, /* idr, destroy */
};

enum uverbs_attrs_modify_comp_cntr_cmd_attr_ids {
	UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, /* idr, write (this device: read, so never EBUSY) */
	UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY,  /* const in: ib_uverbs_comp_cntr_entry */
	UVERBS_ATTR_MODIFY_COMP_CNTR_OP,     /* const in: ib_uverbs_comp_cntr_modify_op */
	UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE,  /* in, u64 */
};

enum uverbs_attrs_read_comp_cntr_cmd_attr_ids {
	UVERBS_ATTR_READ_COMP_CNTR_HANDLE,     /* idr, read */
	UVERBS_ATTR_READ_COMP_CNTR_ENTRY,      /* const in: ib_uverbs_comp_cntr_entry */
	UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, /* out, u64 */
};

#endif /* TALLY_HAVE_UVERBS_COMP_CNTR */

#ifdef TALLY_HAVE_UVERBS_COMP_CNTR_TYPES
#include <rdma/ib_user_ioctl_verbs.h>
#else

enum ib_uverbs_buffer_type {
	IB_UVERBS_BUFFER_TYPE_DMABUF,
	IB_UVERBS_BUFFER_TYPE_VA,
};

/**
 * struct ib_uverbs_buffer_desc - memory of the caller's choice
 * @type: one of enum ib_uverbs_buffer_type
 * @fd: the dma-buf, for IB_UVERBS_BUFFER_TYPE_DMABUF
 * @flags: must be 0
 * @optional_flags: unknown bits are ignored
 * @addr: virtual address, or offset in the dma-buf
 * @length: bytes
 */
struct ib_uverbs_buffer_desc {
	__u32 type;
	__s32 fd;
	__u32 flags;
	__u32 optional_flags;
	__aligned_u64 addr;
	__aligned_u64 length;
};

enum ib_uverbs_comp_cntr_entry {
	IB_UVERBS_COMP_CNTR_ENTRY_COMP,
	IB_UVERBS_COMP_CNTR_ENTRY_ERR,
};

enum ib_uverbs_comp_cntr_modify_op {
	IB_UVERBS_COMP_CNTR_MODIFY_OP_SET,
	IB_UVERBS_COMP_CNTR_MODIFY_OP_INC,
};

enum ib_uverbs_qp_attach_comp_cntr_op {
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND		   = 1 << 0,
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV		   = 1 << 1,
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ	   = 1 << 2,
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ  = 1 << 3,
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE	   = 1 << 4,
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
};

#endif /* TALLY_HAVE_UVERBS_COMP_CNTR_TYPES */

#endif /* TALLY_IB_USER_COMP_CNTR_H */
