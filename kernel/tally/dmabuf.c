// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions of a dma-buf.
 *
 * The device is made of software: it needs the exporter's CPU mapping, and a DMA mapping neither helps it nor
 * could be made for it.  Memory that the CPU cannot reach as memory is refused.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include "tally.h"

TALLY_IMPORT_DMA_BUF;

static void move_notify(struct dma_buf_attachment *attach)
{
	/* Not called for what is pinned. */
}

static const struct dma_buf_attach_ops attach_ops = {
	.move_notify = move_notify,
};

/* Only exporters that move their memory ask for this; the others keep it in place while it is mapped. */
static int pin(struct tally_dmabuf *buf, struct ib_device *device)
{
	struct dma_buf_attachment *attach;
	long left;
	int ret;

	attach = dma_buf_dynamic_attach(buf->dmabuf, &device->dev, &attach_ops, NULL);
	if (IS_ERR(attach))
		return PTR_ERR(attach);

	dma_resv_lock(buf->dmabuf->resv, NULL);
	ret = dma_buf_pin(attach);
	dma_resv_unlock(buf->dmabuf->resv);
	if (ret)
		goto err_detach;

	/* The move that the pin caused may still run. */
	left = dma_resv_wait_timeout(buf->dmabuf->resv, DMA_RESV_USAGE_KERNEL, true, MAX_SCHEDULE_TIMEOUT);
	if (left <= 0) {
		ret = left ? left : -ETIMEDOUT;
		goto err_unpin;
	}
	buf->attach = attach;
	return 0;

err_unpin:
	dma_resv_lock(buf->dmabuf->resv, NULL);
	dma_buf_unpin(attach);
	dma_resv_unlock(buf->dmabuf->resv);
err_detach:
	dma_buf_detach(buf->dmabuf, attach);
	return ret;
}

static void unpin(struct tally_dmabuf *buf)
{
	if (!buf->attach)
		return;
	dma_resv_lock(buf->dmabuf->resv, NULL);
	dma_buf_unpin(buf->attach);
	dma_resv_unlock(buf->dmabuf->resv);
	dma_buf_detach(buf->dmabuf, buf->attach);
	buf->attach = NULL;
}

static int map_kernel(struct tally_dmabuf *buf)
{
	struct iosys_map map;
	int ret;

	ret = dma_buf_vmap_unlocked(buf->dmabuf, &map);
	if (ret)
		return ret;
	if (map.is_iomem) {
		dma_buf_vunmap_unlocked(buf->dmabuf, &map);
		return -EOPNOTSUPP;
	}
	buf->vmap = map.vaddr;
	return 0;
}

static void unmap_kernel(struct tally_dmabuf *buf)
{
	struct iosys_map map = IOSYS_MAP_INIT_VADDR(buf->vmap);

	if (buf->vmap)
		dma_buf_vunmap_unlocked(buf->dmabuf, &map);
	buf->vmap = NULL;
}

/*
 * An exporter without a kernel mapping may have a user mapping of ordinary pages (udmabuf before 6.2): it exists
 * for as long as it takes to pin them.
 */
static int pin_user(struct tally_dmabuf *buf, struct ib_device *device, u64 offset, u64 length, int access)
{
	unsigned long prot = PROT_READ | (ib_access_writable(access) ? PROT_WRITE : 0);
	u64 span = PAGE_ALIGN(offset_in_page(offset) + length);
	struct ib_umem *umem;
	unsigned long addr;

	addr = vm_mmap(buf->dmabuf->file, 0, span, prot, MAP_SHARED, offset & PAGE_MASK);
	if (IS_ERR_VALUE(addr))
		return addr;
	umem = ib_umem_get(device, addr + offset_in_page(offset), length, access);
	vm_munmap(addr, span);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	buf->umem = umem;
	return 0;
}

/* What can be tried again, or the caller can change, is said as it is; the rest means "not with this buffer". */
static int exporter_error(int ret)
{
	switch (ret) {
	case -ENOMEM:
	case -EACCES:
	case -EPERM:
	case -EINTR:
	case -ERESTARTSYS:
		return ret;
	default:
		return -EOPNOTSUPP;
	}
}

/**
 * tally_dmabuf_map - make a range of a dma-buf reachable for the CPU
 * @buf: zeroed; set
 * @device: on whose behalf
 * @fd: the buffer
 * @offset: first byte of the range
 * @length: bytes, not 0
 * @access: enum ib_access_flags
 *
 * Return: 0; -EBADF, -EINVAL for another kind of file or a range past its end, -EACCES for a fd that may only
 *	read, -EOPNOTSUPP for memory that the CPU cannot use, -ENOMEM and the like.
 */
int tally_dmabuf_map(struct tally_dmabuf *buf, struct ib_device *device, int fd, u64 offset, u64 length,
		     int access)
{
	int ret;

	buf->dmabuf = dma_buf_get(fd);
	if (IS_ERR(buf->dmabuf)) {
		ret = PTR_ERR(buf->dmabuf);
		buf->dmabuf = NULL;
		return ret;
	}

	ret = -EINVAL;
	if (length > buf->dmabuf->size || offset > buf->dmabuf->size - length)
		goto err_put;
	ret = -EACCES;
	if (ib_access_writable(access) && !(buf->dmabuf->file->f_mode & FMODE_WRITE))
		goto err_put;

	if (dma_buf_is_dynamic(buf->dmabuf)) {
		ret = pin(buf, device);
		if (ret)
			goto err_unpin;
	}
	if (buf->dmabuf->ops->vmap)
		ret = map_kernel(buf);
	else if (!buf->attach)
		ret = pin_user(buf, device, offset, length, access);
	else
		ret = -EOPNOTSUPP;
	if (ret)
		goto err_unpin;

	/* The other end of the bracket is in tally_dmabuf_unmap(): the CPU may read and write all the time. */
	ret = dma_buf_begin_cpu_access(buf->dmabuf, DMA_BIDIRECTIONAL);
	if (ret)
		goto err_unmap;
	return 0;

err_unmap:
	unmap_kernel(buf);
	ib_umem_release(buf->umem);
err_unpin:
	unpin(buf);
	ret = exporter_error(ret);
err_put:
	dma_buf_put(buf->dmabuf);
	*buf = (struct tally_dmabuf){};
	return ret;
}

/**
 * tally_dmabuf_unmap - undo tally_dmabuf_map()
 * @buf: mapped, and nobody uses it any more; or zeroed
 */
void tally_dmabuf_unmap(struct tally_dmabuf *buf)
{
	if (!buf->dmabuf)
		return;
	dma_buf_end_cpu_access(buf->dmabuf, DMA_BIDIRECTIONAL);
	unmap_kernel(buf);
	ib_umem_release(buf->umem);
	unpin(buf);
	dma_buf_put(buf->dmabuf);
	*buf = (struct tally_dmabuf){};
}
