// SPDX-License-Identifier: GPL-2.0-only
/* Memory regions: pinned memory and the key that stands for it. */
#include "tally.h"

static u8 hca_access(int access)
{
	u8 flags = HCA_ACCESS_LOCAL_READ;

	if (access & IB_ACCESS_LOCAL_WRITE)
		flags |= HCA_ACCESS_LOCAL_WRITE;
	if (access & IB_ACCESS_REMOTE_READ)
		flags |= HCA_ACCESS_REMOTE_READ;
	if (access & IB_ACCESS_REMOTE_WRITE)
		flags |= HCA_ACCESS_REMOTE_WRITE;
	if (access & IB_ACCESS_REMOTE_ATOMIC)
		flags |= HCA_ACCESS_REMOTE_ATOMIC;
	return flags;
}

static int check(u64 length, u64 iova, int access)
{
	u64 end;

	if (access & IB_ACCESS_ON_DEMAND)
		return -EOPNOTSUPP;
	if (!length || check_add_overflow(iova, length - 1, &end))
		return -EINVAL;
	return length > TALLY_MAX_MR_SIZE ? -ENOMEM : 0;
}

/* The key is not published while this runs. */
static void set_key(struct tally_mr *mr, struct ib_pd *pd, u64 iova, u64 length, int access)
{
	struct hca_mkey *key = &mr->hca;

	key->pdn = to_tpd(pd)->res.number;
	key->access = hca_access(access);
	key->free = false;
	key->iova = access & IB_ZERO_BASED ? 0 : iova;
	key->length = length;
	key->block_shift = mr->blocks.shift;
	key->first_offset = mr->blocks.first_offset;
	key->blocks = mr->blocks.addr;
	mr->access = access;
	mr->ib.length = length;
	mr->ib.iova = key->iova;
}

static int publish(struct tally_dev *dev, struct tally_mr *mr)
{
	u32 index;
	int ret;

	ret = hca_table_reserve(&dev->hca.mkeys, &index);
	if (ret)
		return ret;
	/* A variant of its own, so that an old key of the same number misses. */
	mr->hca.key = index << 8 | (atomic_inc_return(&dev->key_variant) & 0xff);
	mr->ib.lkey = mr->hca.key;
	mr->ib.rkey = mr->hca.key;
	hca_mkey_publish(&dev->hca, &mr->hca);
	return 0;
}

static void release_memory(struct tally_mr *mr)
{
	tally_blocks_free(&mr->blocks);
	tally_dmabuf_unmap(&mr->dmabuf);
	ib_umem_release(mr->umem);
	mr->umem = NULL;
}

static struct tally_mr *alloc(struct ib_pd *pd)
{
	struct tally_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);

	if (mr)
		mr->ib.device = pd->device;
	return mr;
}

/**
 * tally_get_dma_mr - ib_device_ops.get_dma_mr
 * @pd: protection domain
 * @access: enum ib_access_flags
 *
 * QP 1, the only user of kernel memory, reaches it without a key.  Return: -EOPNOTSUPP.
 */
struct ib_mr *tally_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

/**
 * tally_reg_user_mr - ib_device_ops.reg_user_mr
 * @pd: protection domain
 * @start: address in the caller's memory
 * @length: bytes
 * @iova: address of the first byte as requests name it
 * @access: enum ib_access_flags
 * @udata: NULL for a kernel user, who gets none
 *
 * Return: the region or an ERR_PTR.
 */
struct ib_mr *tally_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				struct ib_udata *udata)
{
	struct tally_mr *mr;
	int ret;

	if (!udata)
		return ERR_PTR(-EOPNOTSUPP);
	ret = check(length, iova, access);
	if (ret)
		return ERR_PTR(ret);
	mr = alloc(pd);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->umem = ib_umem_get(pd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		ret = PTR_ERR(mr->umem);
		mr->umem = NULL;
		goto err;
	}
	ret = tally_blocks_of_umem(&mr->blocks, mr->umem, start);
	if (ret)
		goto err;
	set_key(mr, pd, iova, length, access);
	ret = publish(to_tdev(pd->device), mr);
	if (ret)
		goto err;
	return &mr->ib;

err:
	release_memory(mr);
	kfree(mr);
	return ERR_PTR(ret);
}

/**
 * tally_reg_user_mr_dmabuf - ib_device_ops.reg_user_mr_dmabuf
 * @pd: protection domain
 * @offset: first byte of the dma-buf
 * @length: bytes
 * @iova: address of the first byte as requests name it
 * @fd: the dma-buf
 * @access: enum ib_access_flags
 * @attrs: unused
 *
 * Return: the region or an ERR_PTR.
 */
struct ib_mr *tally_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd, int access,
				       TALLY_DMABUF_ATTRS *attrs)
{
	struct tally_mr *mr;
	int ret;

	ret = check(length, iova, access);
	if (ret)
		return ERR_PTR(ret);
	mr = alloc(pd);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	ret = tally_dmabuf_map(&mr->dmabuf, pd->device, fd, offset, length, access);
	if (ret)
		goto err;
	if (mr->dmabuf.cpu.vmap)
		tally_blocks_of_range(&mr->blocks, mr->dmabuf.cpu.vmap + offset);
	else
		ret = tally_blocks_of_umem(&mr->blocks, mr->dmabuf.umem, offset);
	if (ret)
		goto err;
	set_key(mr, pd, iova, length, access);
	ret = publish(to_tdev(pd->device), mr);
	if (ret)
		goto err;
	return &mr->ib;

err:
	release_memory(mr);
	kfree(mr);
	return ERR_PTR(ret);
}

/**
 * tally_reg_range - make a region of kernel memory, with addresses that begin with 0
 * @pd: protection domain
 * @addr: the first byte; the memory stays until the region is gone
 * @length: bytes
 * @access: enum ib_access_flags
 *
 * Return: the region or an ERR_PTR.
 */
struct ib_mr *tally_reg_range(struct ib_pd *pd, void *addr, u64 length, int access)
{
	struct tally_mr *mr = alloc(pd);
	int ret;

	if (!mr)
		return ERR_PTR(-ENOMEM);
	tally_blocks_of_range(&mr->blocks, addr);
	set_key(mr, pd, 0, length, access);
	ret = publish(to_tdev(pd->device), mr);
	if (ret) {
		release_memory(mr);
		kfree(mr);
		return ERR_PTR(ret);
	}
	return &mr->ib;
}

/* Whether the memory, as it is pinned, cannot serve the new access. */
static bool must_repin(const struct tally_mr *mr, int access)
{
	return ib_access_writable(access) && !ib_access_writable(mr->access);
}

/**
 * tally_rereg_user_mr - ib_device_ops.rereg_user_mr
 * @ib: the region; it stays as it is when this fails
 * @flags: IB_MR_REREG_*
 * @start: see tally_reg_user_mr()
 * @length: see there
 * @iova: see there
 * @access: new access if @flags says so
 * @pd: new protection domain if @flags says so, else the old one
 * @udata: unused
 *
 * The region keeps its key.  Requests that use it meanwhile fail.
 *
 * Return: NULL for success, or an ERR_PTR.
 */
struct ib_mr *tally_rereg_user_mr(struct ib_mr *ib, int flags, u64 start, u64 length, u64 iova, int access,
				  struct ib_pd *pd, struct ib_udata *udata)
{
	struct tally_mr *mr = to_tmr(ib);
	struct tally_dev *dev = to_tdev(ib->device);
	struct tally_blocks blocks = {};
	struct ib_umem *umem = NULL;
	int ret;

	if (flags & ~(IB_MR_REREG_TRANS | IB_MR_REREG_PD | IB_MR_REREG_ACCESS))
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (!(flags & IB_MR_REREG_TRANS)) {
		length = mr->hca.length;
		iova = mr->hca.iova;
	}
	ret = check(length, iova, access);
	if (ret)
		return ERR_PTR(ret);

	if (flags & IB_MR_REREG_TRANS || must_repin(mr, access)) {
		if (!(flags & IB_MR_REREG_TRANS)) {
			if (!mr->umem)
				return ERR_PTR(-EOPNOTSUPP);
			/* Its memory again, which only its own process can name. */
			if (mr->umem->owning_mm != current->mm)
				return ERR_PTR(-EINVAL);
			start = mr->umem->address;
		}
		umem = ib_umem_get(ib->device, start, length, access);
		if (IS_ERR(umem))
			return ERR_CAST(umem);
		ret = tally_blocks_of_umem(&blocks, umem, start);
		if (ret) {
			ib_umem_release(umem);
			return ERR_PTR(ret);
		}
	}

	hca_mkey_unpublish(&dev->hca, &mr->hca);
	synchronize_rcu_expedited();
	if (umem) {
		release_memory(mr);
		mr->umem = umem;
		mr->blocks = blocks;
		if (blocks.addr == &blocks.one)
			mr->blocks.addr = &mr->blocks.one;
	}
	set_key(mr, pd, iova, length, access);
	hca_mkey_publish(&dev->hca, &mr->hca);
	return NULL;
}

/**
 * tally_dereg_mr - ib_device_ops.dereg_mr
 * @ib: the region
 * @udata: unused
 *
 * Return: 0; nobody touches the memory any more.
 */
int tally_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct tally_mr *mr = to_tmr(ib);
	struct tally_dev *dev = to_tdev(ib->device);

	hca_mkey_unpublish(&dev->hca, &mr->hca);
	synchronize_rcu_expedited();
	release_memory(mr);
	hca_table_release(&dev->hca.mkeys, mr->hca.key >> 8);
	kfree(mr);
	return 0;
}

/**
 * tally_null_key_init - make the key that stands for no memory
 * @dev: the device
 *
 * The library makes null regions (ibv_alloc_null_mr()) of it by itself, in any protection domain.
 *
 * Return: 0 or -ENOMEM.
 */
int tally_null_key_init(struct tally_dev *dev)
{
	struct hca_mkey *key = &dev->null_key;
	u32 index;
	int ret;

	ret = hca_table_reserve(&dev->hca.mkeys, &index);
	if (ret)
		return ret;
	key->key = index << 8;
	key->null = true;
	key->access = HCA_ACCESS_LOCAL_READ | HCA_ACCESS_LOCAL_WRITE;
	key->length = U64_MAX;
	hca_mkey_publish(&dev->hca, key);
	return 0;
}

/**
 * tally_null_key_free - undo tally_null_key_init()
 * @dev: nobody uses it any more; perhaps half made
 */
void tally_null_key_free(struct tally_dev *dev)
{
	if (!dev->null_key.key)
		return;
	hca_mkey_unpublish(&dev->hca, &dev->null_key);
	hca_table_release(&dev->hca.mkeys, dev->null_key.key >> 8);
}
