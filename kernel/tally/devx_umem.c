// SPDX-License-Identifier: GPL-2.0-only
/*
 * User memory that commands name by number: rings and doorbell records of their objects are ranges of it.
 *
 * It is pinned and mapped once, in one piece, however many objects lie in it; it cannot be deregistered as long
 * as there are any.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include "devx.h"
#include "tally.h"

#define UVERBS_MODULE_NAME tally
#include <rdma/uverbs_named_ioctl.h>

#define UMEM_ACCESS \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_RELAXED_ORDERING)

/* The unit of the device's own page tables. */
#define ADAPTER_PAGE_SHIFT 12

/**
 * struct tally_umem - registered memory
 * @res: its number, and the objects in it
 * @ring: pins and maps user memory, or
 * @dmabuf: a dma-buf, with
 * @vmap: a kernel mapping, if it has none of its own
 * @addr: kernel address of the first byte
 * @size: bytes
 * @writable: the device may write to it
 *
 * Constant; the handle owns it.
 */
struct tally_umem {
	struct tally_res res;
	struct tally_ring ring;
	struct tally_dmabuf dmabuf;
	void *vmap;
	u8 *addr;
	u64 size;
	bool writable;
};

/* A range of registered memory, to be given back by tally_umem_put(); or an ERR_PTR. */
static struct tally_umem *get_range(struct tally_ucontext *ctx, u32 id, u64 offset, u64 size, bool write)
{
	struct tally_res *res = tally_res_get(&to_tdev(ctx->ib.device)->umems, ctx, id);
	struct tally_umem *umem;

	if (!res)
		return ERR_PTR(-ENOENT);
	umem = container_of(res, struct tally_umem, res);
	if (offset > umem->size || size > umem->size - offset || (write && !umem->writable)) {
		tally_res_put(res);
		return ERR_PTR(-EINVAL);
	}
	return umem;
}

/**
 * tally_umem_put - a range is not used any more
 * @umem: of a ring or doorbell record, or NULL
 */
void tally_umem_put(struct tally_umem *umem)
{
	if (umem)
		tally_res_put(&umem->res);
}

/**
 * tally_ring_of_umem - a queue in registered memory
 * @ring: set; for tally_ring_unmap()
 * @ctx: whose memory it must be
 * @id: its number
 * @offset: of the queue
 * @size: bytes, not 0
 * @write: the device writes to it
 *
 * Return: 0; -ENOENT if there is no such memory; -EINVAL if the queue is not all in it, or may not be written to.
 */
int tally_ring_of_umem(struct tally_ring *ring, struct tally_ucontext *ctx, u32 id, u64 offset, size_t size,
		       bool write)
{
	struct tally_umem *umem = get_range(ctx, id, offset, size, write);

	if (IS_ERR(umem))
		return PTR_ERR(umem);
	*ring = (struct tally_ring){ .in = umem, .addr = umem->addr + offset };
	return 0;
}

/**
 * tally_dbrec_of_umem - a doorbell record in registered memory
 * @db: set; for tally_dbrec_unmap()
 * @ctx: whose memory it must be
 * @id: its number
 * @offset: of the record
 * @size: bytes
 *
 * Return: as tally_ring_of_umem(); -EINVAL also if the record is not aligned to 4 bytes.
 */
int tally_dbrec_of_umem(struct tally_dbrec *db, struct tally_ucontext *ctx, u32 id, u64 offset, u32 size)
{
	struct tally_umem *umem = get_range(ctx, id, offset, size, false);

	if (IS_ERR(umem))
		return PTR_ERR(umem);
	if (!IS_ALIGNED((uintptr_t)umem->addr + offset, sizeof(__be32))) {
		tally_umem_put(umem);
		return -EINVAL;
	}
	*db = (struct tally_dbrec){ .in = umem, .addr = (__be32 *)(umem->addr + offset) };
	return 0;
}

static void unmap(struct tally_umem *umem)
{
	vunmap(umem->vmap);
	tally_dmabuf_unmap(&umem->dmabuf);
	tally_ring_unmap(&umem->ring);
}

static int map_dmabuf(struct tally_umem *umem, struct ib_device *device, int fd, u64 offset, int access)
{
	int ret;

	ret = tally_dmabuf_map(&umem->dmabuf, device, fd, offset, umem->size, access);
	if (ret)
		return ret;
	if (umem->dmabuf.cpu.vmap)
		umem->addr = umem->dmabuf.cpu.vmap + offset;
	else
		umem->addr = tally_map_pinned(umem->dmabuf.umem, &umem->vmap);
	if (!umem->addr) {
		tally_dmabuf_unmap(&umem->dmabuf);
		return -ENOMEM;
	}
	return 0;
}

static int map(struct tally_umem *umem, struct ib_device *device, struct uverbs_attr_bundle *attrs, int access)
{
	u64 addr;
	int ret, fd;

	ret = uverbs_copy_from(&addr, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
	if (!ret)
		ret = uverbs_copy_from(&umem->size, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
	if (ret)
		return ret;
	if (!umem->size || umem->size > TALLY_MAX_MR_SIZE)
		return -EINVAL;
	umem->writable = ib_access_writable(access);

	if (uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD)) {
		ret = uverbs_get_raw_fd(&fd, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD);
		return ret ? -EFAULT : map_dmabuf(umem, device, fd, addr, access);
	}
	ret = tally_ring_map(&umem->ring, device, addr, umem->size, access);
	umem->addr = umem->ring.addr;
	return ret;
}

/* The sizes that pages may have say how objects are aligned; here all sizes are one, but there must be one. */
static int check_page_sizes(struct uverbs_attr_bundle *attrs, u64 size)
{
	u64 sizes, largest = max_t(u64, order_base_2(size), PAGE_SHIFT);
	int ret;

	if (!uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP))
		return 0;
	ret = uverbs_copy_from(&sizes, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP);
	if (ret)
		return ret;
	return sizes & GENMASK_ULL(largest, ADAPTER_PAGE_SHIFT) ? 0 : -EINVAL;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_UMEM_REG)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj = uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE);
	struct tally_ucontext *ctx = tally_devx_context(attrs);
	struct tally_umem *umem;
	u32 access;
	int ret;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	ret = uverbs_get_flags32(&access, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, UMEM_ACCESS);
	if (!ret)
		ret = ib_check_mr_access(ctx->ib.device, access);
	if (ret)
		return ret;
	umem = kzalloc(sizeof(*umem), GFP_KERNEL_ACCOUNT);
	if (!umem)
		return -ENOMEM;
	ret = map(umem, ctx->ib.device, attrs, access);
	if (ret)
		goto err_free;
	ret = check_page_sizes(attrs, umem->size);
	if (ret)
		goto err_unmap;
	ret = tally_res_init(&umem->res, &to_tdev(ctx->ib.device)->umems, ctx);
	if (ret)
		goto err_unmap;
	ret = uverbs_copy_to(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &umem->res.number, sizeof(umem->res.number));
	if (ret)
		goto err_number;
	uobj->object = umem;
	tally_res_publish(&umem->res);
	return 0;

err_number:
	tally_res_release(&umem->res);
err_unmap:
	unmap(umem);
err_free:
	kfree(umem);
	return ret;
}

static int umem_free(struct ib_uobject *uobj, enum rdma_remove_reason why, struct uverbs_attr_bundle *attrs)
{
	struct tally_umem *umem = uobj->object;
	int ret;

	/* While objects are in it: they go first, also when the process or the device ends. */
	ret = tally_res_hide(&umem->res);
	if (ret)
		return ret;
	tally_res_release(&umem->res);
	unmap(umem);
	kfree(umem);
	return 0;
}

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_UMEM_REG,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, MLX5_IB_OBJECT_DEVX_UMEM, UVERBS_ACCESS_NEW, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_RAW_FD(MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD, UA_OPTIONAL),
	UVERBS_ATTR_FLAGS_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, enum ib_access_flags),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, u64),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_DEVX_UMEM_DEREG,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, MLX5_IB_OBJECT_DEVX_UMEM, UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_DEVX_UMEM, UVERBS_TYPE_ALLOC_IDR(umem_free),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_UMEM_REG),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_UMEM_DEREG));

const struct uapi_definition tally_devx_umem_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX_UMEM),
	{},
};
