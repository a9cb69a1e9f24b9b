// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory on the device: here it is kernel memory, which a region makes reachable for requests and a mapping for
 * the CPU.
 *
 * A mapping holds its pages like any other memory's.  It stays good when the object or the device goes, however
 * it was copied or moved meanwhile, so that nobody has to find it and take it away.
 */
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/uverbs_std_types.h>
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

/* Where the offsets for mmap() begin, and how many there are. */
#define FIRST_PGOFF (MLX5_IB_MMAP_DEVICE_MEM << 16)
#define NUM_PGOFFS  (1u << 16)

#define ACCESS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC | \
		IB_ZERO_BASED)

/**
 * struct tally_dm - memory on the device
 * @ib: what ib_core knows of it
 * @entry: its offset for mmap(); the last reference frees it all
 * @addr: the memory, from the beginning of a page on
 * @size: bytes, in whole pages
 * @length: bytes asked for
 *
 * Constant.  ib_core keeps it until no region is in it.
 */
struct tally_dm {
	struct ib_dm ib;
	struct rdma_user_mmap_entry entry;
	void *addr;
	size_t size;
	u64 length;
};

static struct tally_dm *to_tdm(struct ib_dm *ib)
{
	return container_of(ib, struct tally_dm, ib);
}

static bool take(struct tally_dev *dev, size_t size)
{
	if (atomic_long_add_return(size, &dev->dm_used) <= TALLY_DM_BYTES)
		return true;
	atomic_long_sub(size, &dev->dm_used);
	return false;
}

static void free_memory(struct tally_dev *dev, struct tally_dm *dm)
{
	vfree(dm->addr);
	atomic_long_sub(dm->size, &dev->dm_used);
	kfree(dm);
}

/**
 * tally_mmap_free - ib_device_ops.mmap_free
 * @entry: a memory's, which is no object any more
 */
void tally_mmap_free(struct rdma_user_mmap_entry *entry)
{
	free_memory(to_tdev(entry->ucontext->device), container_of(entry, struct tally_dm, entry));
}

static u16 mmap_index(const struct tally_dm *dm)
{
	return dm->entry.start_pgoff - FIRST_PGOFF;
}

static int check(const struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs)
{
	enum mlx5_ib_uapi_dm_type type;
	int ret;

	ret = uverbs_get_const_default(&type, attrs, MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, MLX5_IB_UAPI_DM_TYPE_MEMIC);
	if (ret)
		return ret;
	if (type != MLX5_IB_UAPI_DM_TYPE_MEMIC)
		return -EOPNOTSUPP;
	/* @alignment is a logarithm. */
	if (!attr->length || attr->alignment > PAGE_SHIFT)
		return -EINVAL;
	return attr->length > TALLY_MAX_DM_SIZE ? -ENOMEM : 0;
}

static struct tally_dm *alloc(struct tally_dev *dev, u64 length)
{
	struct tally_dm *dm = kzalloc(sizeof(*dm), GFP_KERNEL_ACCOUNT);

	if (!dm)
		return NULL;
	dm->length = length;
	dm->size = PAGE_ALIGN(length);
	if (!take(dev, dm->size)) {
		kfree(dm);
		return NULL;
	}
	dm->addr = __vmalloc(dm->size, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
	if (!dm->addr) {
		free_memory(dev, dm);
		return NULL;
	}
	return dm;
}

static int answer(struct uverbs_attr_bundle *attrs, const struct tally_dm *dm)
{
	const u64 start = 0;
	u16 index = mmap_index(dm);
	int ret;

	ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &start, sizeof(start));
	if (ret)
		return ret;
	ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &index, sizeof(index));
	return ret == -ENOENT ? 0 : ret;
}

/**
 * tally_alloc_dm - ib_device_ops.alloc_dm
 * @ib: the device
 * @context: whose it is going to be
 * @attr: how large
 * @attrs: of what kind; answered with where it is to be mapped
 *
 * Return: the memory, zeroed; or an ERR_PTR: -EOPNOTSUPP for memory that is not for data, -EINVAL for no size or an
 *	alignment beyond a page's, -ENOMEM if there is not so much.
 */
struct ib_dm *tally_alloc_dm(struct ib_device *ib, struct ib_ucontext *context, struct ib_dm_alloc_attr *attr,
			     struct uverbs_attr_bundle *attrs)
{
	struct tally_dev *dev = to_tdev(ib);
	struct tally_dm *dm;
	int ret;

	ret = check(attr, attrs);
	if (ret)
		return ERR_PTR(ret);
	dm = alloc(dev, attr->length);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	ret = rdma_user_mmap_entry_insert_range(context, &dm->entry, dm->size, FIRST_PGOFF,
						FIRST_PGOFF + NUM_PGOFFS - 1);
	if (ret) {
		free_memory(dev, dm);
		return ERR_PTR(ret);
	}
	ret = answer(attrs, dm);
	if (ret) {
		rdma_user_mmap_entry_remove(&dm->entry);
		return ERR_PTR(ret);
	}
	return &dm->ib;
}

/**
 * tally_dealloc_dm - ib_device_ops.dealloc_dm
 * @ib: the memory; no region is in it
 * @attrs: unused
 *
 * Return: 0.
 */
int tally_dealloc_dm(struct ib_dm *ib, struct uverbs_attr_bundle *attrs)
{
	rdma_user_mmap_entry_remove(&to_tdm(ib)->entry);
	return 0;
}

/**
 * tally_reg_dm_mr - ib_device_ops.reg_dm_mr
 * @pd: protection domain
 * @ib: the memory
 * @attr: which part of it, and what is allowed
 * @attrs: unused
 *
 * Return: the region, whose addresses begin with 0; or an ERR_PTR.
 */
struct ib_mr *tally_reg_dm_mr(struct ib_pd *pd, struct ib_dm *ib, struct ib_dm_mr_attr *attr,
			      struct uverbs_attr_bundle *attrs)
{
	if (attr->access_flags & ~ACCESS)
		return ERR_PTR(-EINVAL);
	return tally_reg_range(pd, to_tdm(ib)->addr + attr->offset, attr->length, attr->access_flags);
}

/**
 * tally_dm_mmap - map memory that was allocated
 * @ctx: whose it is
 * @vma: the mapping
 * @index: what tally_alloc_dm() has answered
 *
 * Return: 0; -EINVAL if there is no such memory, or the mapping is not of all of it.
 */
int tally_dm_mmap(struct tally_ucontext *ctx, struct vm_area_struct *vma, u32 index)
{
	struct rdma_user_mmap_entry *entry;
	struct tally_dm *dm;
	size_t off;
	int ret = 0;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	entry = rdma_user_mmap_entry_get_pgoff(&ctx->ib, FIRST_PGOFF + index);
	if (!entry)
		return -EINVAL;
	dm = container_of(entry, struct tally_dm, entry);
	if (vma->vm_end - vma->vm_start != dm->size)
		ret = -EINVAL;
	for (off = 0; !ret && off < dm->size; off += PAGE_SIZE)
		ret = vm_insert_page(vma, vma->vm_start + off, vmalloc_to_page(dm->addr + off));
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	rdma_user_mmap_entry_put(entry);
	return ret;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct tally_dm *dm = to_tdm(uverbs_attr_get_obj(attrs, MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE));
	const u64 start = 0;
	u16 index = mmap_index(dm);
	int ret;

	ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, &index, sizeof(index));
	if (ret)
		return ret;
	ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, &start, sizeof(start));
	if (ret)
		return ret;
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, &dm->length, sizeof(dm->length));
}

/* Operations of the memory itself, behind addresses of their own: there are none, as QUERY_HCA_CAP says. */
static int UVERBS_HANDLER(MLX5_IB_METHOD_DM_MAP_OP_ADDR)(struct uverbs_attr_bundle *attrs)
{
	return -EOPNOTSUPP;
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	tally_dm_alloc, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, UVERBS_ATTR_TYPE(u16), UA_OPTIONAL),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, enum mlx5_ib_uapi_dm_type, UA_OPTIONAL));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DM_QUERY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, UVERBS_OBJECT_DM, UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, UVERBS_ATTR_TYPE(u16), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, UVERBS_ATTR_TYPE(u64), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DM_MAP_OP_ADDR,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE, UVERBS_OBJECT_DM, UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP, UVERBS_ATTR_TYPE(u8), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET, UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX, UVERBS_ATTR_TYPE(u16), UA_OPTIONAL));

ADD_UVERBS_METHODS(tally_dm_methods, UVERBS_OBJECT_DM, &UVERBS_METHOD(MLX5_IB_METHOD_DM_MAP_OP_ADDR),
		   &UVERBS_METHOD(MLX5_IB_METHOD_DM_QUERY));

const struct uapi_definition tally_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &tally_dm_alloc),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &tally_dm_methods),
	{},
};
