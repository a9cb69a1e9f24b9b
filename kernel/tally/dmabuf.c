// SPDX-License-Identifier: GPL-2.0-only
/* Regions of a dma-buf: memory that the CPU can reach as memory. */
#include <linux/dma-buf.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include "tally.h"

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

	addr = vm_mmap(buf->cpu.dmabuf->file, 0, span, prot, MAP_SHARED, offset & PAGE_MASK);
	if (IS_ERR_VALUE(addr))
		return addr;
	umem = ib_umem_get(device, addr + offset_in_page(offset), length, access);
	vm_munmap(addr, span);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	buf->umem = umem;
	return 0;
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
 * Return: 0 or an error of ib_cpu_dmabuf_get().
 */
int tally_dmabuf_map(struct tally_dmabuf *buf, struct ib_device *device, int fd, u64 offset, u64 length,
		     int access)
{
	int ret;

	ret = ib_cpu_dmabuf_get(&buf->cpu, device, fd, offset, length, ib_access_writable(access));
	if (ret || buf->cpu.vmap)
		return ret;
	ret = pin_user(buf, device, offset, length, access);
	if (ret) {
		ib_cpu_dmabuf_put(&buf->cpu);
		ret = ib_cpu_dmabuf_error(ret);
	}
	return ret;
}

/**
 * tally_dmabuf_unmap - undo tally_dmabuf_map()
 * @buf: mapped, and nobody uses it any more; or zeroed
 */
void tally_dmabuf_unmap(struct tally_dmabuf *buf)
{
	ib_umem_release(buf->umem);
	buf->umem = NULL;
	ib_cpu_dmabuf_put(&buf->cpu);
}
