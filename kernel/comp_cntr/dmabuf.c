// SPDX-License-Identifier: GPL-2.0-only
/* A dma-buf, mapped for the CPU and kept where it is. */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include "ib_cpu_dmabuf.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

/* Until 6.2 the mapping was locked by the dma-buf itself, since then by its reservation. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define dma_buf_vmap_unlocked dma_buf_vmap
#define dma_buf_vunmap_unlocked dma_buf_vunmap
#endif

/**
 * ib_cpu_dmabuf_error - what to say when a buffer cannot be used
 * @err: a negative errno value of the exporter's
 *
 * Return: what can be tried again, or the caller can change, as it is; -EOPNOTSUPP, "not with this buffer", for
 *	the rest.
 */
int ib_cpu_dmabuf_error(int err)
{
	switch (err) {
	case -ENOMEM:
	case -EACCES:
	case -EPERM:
	case -EINTR:
	case -ERESTARTSYS:
		return err;
	default:
		return -EOPNOTSUPP;
	}
}
EXPORT_SYMBOL_GPL(ib_cpu_dmabuf_error);

static void dmabuf_move_notify(struct dma_buf_attachment *attach)
{
	/* Not called for what is pinned. */
}

static const struct dma_buf_attach_ops dmabuf_attach_ops = {
	.move_notify = dmabuf_move_notify,
};

/*
 * Only an exporter that moves its memory asks for this.  The others keep it in place while it is mapped, and
 * would insist on a DMA mapping, which nobody needs here and a device made of software cannot have.
 */
static int dmabuf_pin(struct ib_cpu_dmabuf *buf, struct ib_device *device)
{
	struct device *dev = device->dma_device ? device->dma_device : &device->dev;
	struct dma_buf_attachment *attach;
	long left;
	int ret;

	attach = dma_buf_dynamic_attach(buf->dmabuf, dev, &dmabuf_attach_ops, NULL);
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

static void dmabuf_unpin(struct ib_cpu_dmabuf *buf)
{
	if (!buf->attach)
		return;
	dma_resv_lock(buf->dmabuf->resv, NULL);
	dma_buf_unpin(buf->attach);
	dma_resv_unlock(buf->dmabuf->resv);
	dma_buf_detach(buf->dmabuf, buf->attach);
}

static int dmabuf_map(struct ib_cpu_dmabuf *buf)
{
	struct iosys_map map;
	int ret;

	/* A mapping for user space may do, where nothing moves. */
	if (!buf->dmabuf->ops->vmap)
		return buf->attach ? -EOPNOTSUPP : 0;
	ret = dma_buf_vmap_unlocked(buf->dmabuf, &map);
	if (ret)
		return ret;
	if (map.is_iomem) {
		/* Atomic operations, for one, need memory. */
		dma_buf_vunmap_unlocked(buf->dmabuf, &map);
		return -EOPNOTSUPP;
	}
	buf->vmap = map.vaddr;
	return 0;
}

static void dmabuf_unmap(struct ib_cpu_dmabuf *buf)
{
	struct iosys_map map = IOSYS_MAP_INIT_VADDR(buf->vmap);

	if (buf->vmap)
		dma_buf_vunmap_unlocked(buf->dmabuf, &map);
}

/**
 * ib_cpu_dmabuf_get - take and map a dma-buf
 * @buf: zeroed; set
 * @device: on whose behalf
 * @fd: the buffer
 * @offset: first byte of the range that is used
 * @length: bytes of it
 * @writable: whether the device writes to it
 *
 * @buf->vmap stays NULL for an exporter without a kernel mapping that does not move its memory either.
 *
 * Return: 0; -EBADF for a bad fd, -EINVAL for another kind of file or a range past its end, -EACCES for a fd that
 *	may only read, -EOPNOTSUPP for a buffer that the CPU cannot map as memory, -ENOMEM and the like.
 */
int ib_cpu_dmabuf_get(struct ib_cpu_dmabuf *buf, struct ib_device *device, int fd, u64 offset, u64 length,
		      bool writable)
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
	if (writable && !(buf->dmabuf->file->f_mode & FMODE_WRITE))
		goto err_put;

	if (dma_buf_is_dynamic(buf->dmabuf)) {
		ret = dmabuf_pin(buf, device);
		if (ret)
			goto err_unpin;
	}

	ret = dmabuf_map(buf);
	if (ret)
		goto err_unpin;

	/* The other end of the bracket is in ib_cpu_dmabuf_put(): the CPU may read and write all the time. */
	ret = dma_buf_begin_cpu_access(buf->dmabuf, DMA_BIDIRECTIONAL);
	if (ret)
		goto err_unmap;
	return 0;

err_unmap:
	dmabuf_unmap(buf);
err_unpin:
	dmabuf_unpin(buf);
	ret = ib_cpu_dmabuf_error(ret);
err_put:
	dma_buf_put(buf->dmabuf);
	*buf = (struct ib_cpu_dmabuf){};
	return ret;
}
EXPORT_SYMBOL_GPL(ib_cpu_dmabuf_get);

/**
 * ib_cpu_dmabuf_put - undo ib_cpu_dmabuf_get()
 * @buf: mapped, and nobody uses it any more; or zeroed.  Zeroed afterwards
 */
void ib_cpu_dmabuf_put(struct ib_cpu_dmabuf *buf)
{
	if (!buf->dmabuf)
		return;
	dma_buf_end_cpu_access(buf->dmabuf, DMA_BIDIRECTIONAL);
	dmabuf_unmap(buf);
	dmabuf_unpin(buf);
	dma_buf_put(buf->dmabuf);
	*buf = (struct ib_cpu_dmabuf){};
}
EXPORT_SYMBOL_GPL(ib_cpu_dmabuf_put);
