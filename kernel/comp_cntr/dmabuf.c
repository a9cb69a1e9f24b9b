// SPDX-License-Identifier: GPL-2.0-only
/* A word of a dma-buf, mapped for the kernel to write to and kept where it is. */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include <linux/version.h>
#include "core.h"

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

/* What can be tried again, or the caller can change, is said as it is; the rest means "not with this buffer". */
static int dmabuf_error(int ret)
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
static int dmabuf_pin(struct comp_cntr_dmabuf *buf, struct ib_device *device)
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

static void dmabuf_unpin(struct comp_cntr_dmabuf *buf)
{
	if (!buf->attach)
		return;
	dma_resv_lock(buf->dmabuf->resv, NULL);
	dma_buf_unpin(buf->attach);
	dma_resv_unlock(buf->dmabuf->resv);
	dma_buf_detach(buf->dmabuf, buf->attach);
}

static int dmabuf_map(struct comp_cntr_dmabuf *buf)
{
	struct iosys_map map;
	int ret;

	if (!buf->dmabuf->ops->vmap)
		return -EOPNOTSUPP;
	ret = dma_buf_vmap_unlocked(buf->dmabuf, &map);
	if (ret)
		return ret;
	if (map.is_iomem) {
		/* Atomic operations need memory. */
		dma_buf_vunmap_unlocked(buf->dmabuf, &map);
		return -EOPNOTSUPP;
	}
	buf->vmap = map.vaddr;
	return 0;
}

static void dmabuf_unmap(struct comp_cntr_dmabuf *buf)
{
	struct iosys_map map = IOSYS_MAP_INIT_VADDR(buf->vmap);

	dma_buf_vunmap_unlocked(buf->dmabuf, &map);
}

/**
 * comp_cntr_dmabuf_get - map one word of a dma-buf
 * @buf: zeroed; set
 * @device: on whose behalf
 * @desc: fd, offset (8-byte aligned) and length (8 or more)
 * @word: set to the kernel address of the word
 *
 * Return: 0; -EBADF for a bad fd, -EINVAL for another kind of file or a range past its end, -EACCES for a fd that
 *	may only read, -EOPNOTSUPP for a buffer that the CPU cannot map as memory, -ENOMEM and the like.
 */
int comp_cntr_dmabuf_get(struct comp_cntr_dmabuf *buf, struct ib_device *device,
			 const struct ib_uverbs_buffer_desc *desc, u64 **word)
{
	int ret;

	buf->dmabuf = dma_buf_get(desc->fd);
	if (IS_ERR(buf->dmabuf)) {
		ret = PTR_ERR(buf->dmabuf);
		buf->dmabuf = NULL;
		return ret;
	}

	ret = -EINVAL;
	if (desc->length > buf->dmabuf->size || desc->addr > buf->dmabuf->size - desc->length)
		goto err_put;
	ret = -EACCES;
	if (!(buf->dmabuf->file->f_mode & FMODE_WRITE))
		goto err_put;

	if (dma_buf_is_dynamic(buf->dmabuf)) {
		ret = dmabuf_pin(buf, device);
		if (ret)
			goto err_unpin;
	}

	ret = dmabuf_map(buf);
	if (ret)
		goto err_unpin;

	/* The other end of the bracket is in comp_cntr_dmabuf_put(): the CPU may write all the time. */
	ret = dma_buf_begin_cpu_access(buf->dmabuf, DMA_BIDIRECTIONAL);
	if (ret)
		goto err_unmap;

	*word = buf->vmap + desc->addr;
	return 0;

err_unmap:
	dmabuf_unmap(buf);
err_unpin:
	dmabuf_unpin(buf);
	ret = dmabuf_error(ret);
err_put:
	dma_buf_put(buf->dmabuf);
	*buf = (struct comp_cntr_dmabuf){};
	return ret;
}

/**
 * comp_cntr_dmabuf_put - undo comp_cntr_dmabuf_get()
 * @buf: mapped or empty; empty afterwards
 */
void comp_cntr_dmabuf_put(struct comp_cntr_dmabuf *buf)
{
	if (!buf->dmabuf)
		return;
	dma_buf_end_cpu_access(buf->dmabuf, DMA_BIDIRECTIONAL);
	dmabuf_unmap(buf);
	dmabuf_unpin(buf);
	dma_buf_put(buf->dmabuf);
	*buf = (struct comp_cntr_dmabuf){};
}
