/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A dma-buf for a device that is made of software: mapped for the CPU, for as long as the device uses it.
 *
 * ib_umem_dmabuf_get() is for hardware: it makes a DMA mapping, which such a device has no use for and no
 * dma_ops for.
 */
#ifndef IB_CPU_DMABUF_H
#define IB_CPU_DMABUF_H

#include <linux/types.h>

struct dma_buf;
struct dma_buf_attachment;
struct ib_device;

/**
 * struct ib_cpu_dmabuf - a dma-buf that is mapped for the CPU and stays where it is
 * @dmabuf: the buffer, referenced; NULL when there is none
 * @attach: pins the memory of an exporter that would move it otherwise; else NULL
 * @vmap: the exporter's kernel mapping of all of it; NULL when there is none
 *
 * The owner's, constant in between get and put.
 */
struct ib_cpu_dmabuf {
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;
	void *vmap;
};

int ib_cpu_dmabuf_get(struct ib_cpu_dmabuf *buf, struct ib_device *device, int fd, u64 offset, u64 length,
		      bool writable);
int ib_cpu_dmabuf_error(int err);
void ib_cpu_dmabuf_put(struct ib_cpu_dmabuf *buf);

#endif /* IB_CPU_DMABUF_H */
