// SPDX-License-Identifier: GPL-2.0-only
/* User memory as the HCA wants to see it: queues side by side in kernel addresses, regions as large blocks. */
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/vmalloc.h>
#include "tally.h"

static void *map_pages(struct ib_umem *umem)
{
	size_t num = ib_umem_num_pages(umem), n = 0;
	struct sg_page_iter it;
	struct page **pages;
	void *addr = NULL;

	pages = kvmalloc_array(num, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return NULL;
	for_each_sgtable_page(&umem->sgt_append.sgt, &it, 0)
		if (n < num)
			pages[n++] = sg_page_iter_page(&it);
	if (n == num)
		addr = vmap(pages, num, VM_MAP, PAGE_KERNEL);
	kvfree(pages);
	return addr;
}

/**
 * tally_map_pinned - kernel address of pinned memory
 * @umem: the memory
 * @vmap: set to what is to be vunmap()ped in the end: NULL if the pages lie side by side anyway
 *
 * Return: where its first byte is, or NULL.
 */
void *tally_map_pinned(struct ib_umem *umem, void **vmap)
{
	*vmap = NULL;
	if (umem->sgt_append.sgt.orig_nents == 1)
		return page_address(sg_page(umem->sgt_append.sgt.sgl)) + ib_umem_offset(umem);
	*vmap = map_pages(umem);
	return *vmap ? *vmap + ib_umem_offset(umem) : NULL;
}

/**
 * tally_ring_map - pin a queue and give it a kernel address
 * @ring: set
 * @device: on whose behalf
 * @addr: in the caller's address space
 * @size: bytes, not 0
 * @access: IB_ACCESS_LOCAL_WRITE if the device writes to it
 *
 * Return: 0 or a negative errno.
 */
int tally_ring_map(struct tally_ring *ring, struct ib_device *device, u64 addr, size_t size, int access)
{
	struct ib_umem *umem;

	umem = ib_umem_get(device, addr, size, access);
	if (IS_ERR(umem))
		return PTR_ERR(umem);

	ring->addr = tally_map_pinned(umem, &ring->vmap);
	if (!ring->addr) {
		ib_umem_release(umem);
		return -ENOMEM;
	}
	ring->umem = umem;
	ring->in = NULL;
	return 0;
}

/**
 * tally_ring_unmap - undo tally_ring_map() or tally_ring_of_umem()
 * @ring: mapped, and nobody uses it any more; or zeroed
 */
void tally_ring_unmap(struct tally_ring *ring)
{
	if (ring->umem) {
		vunmap(ring->vmap);
		ib_umem_release(ring->umem);
	}
	tally_umem_put(ring->in);
	*ring = (struct tally_ring){};
}

/* Whether @sg goes on in physical memory where @prev ends; the linear mapping then does, too. */
static bool follows(struct scatterlist *prev, struct scatterlist *sg)
{
	return page_to_pfn(sg_page(prev)) + (prev->length >> PAGE_SHIFT) == page_to_pfn(sg_page(sg));
}

/*
 * Offsets, in @va's address space, at which the physical memory jumps, or'ed together.  Every jump must be at a
 * border of blocks, so the lowest bit set in it is the largest block size.
 */
static u64 jumps(struct sg_table *sgt, u64 va)
{
	struct scatterlist *sg, *prev = NULL;
	u64 mask = 0;
	u32 i;

	for_each_sgtable_sg(sgt, sg, i) {
		if (prev && !follows(prev, sg))
			mask |= va;
		va += sg->length;
		prev = sg;
	}
	return mask;
}

/* Fills in the address of each block; the first one may begin before the memory does, which is never touched. */
static void fill(struct tally_blocks *blocks, struct sg_table *sgt, u64 va)
{
	u64 first = va >> blocks->shift;
	struct scatterlist *sg;
	u32 i;

	for_each_sgtable_sg(sgt, sg, i) {
		u8 *at = page_address(sg_page(sg));
		u64 b, last = (va + sg->length - 1) >> blocks->shift;

		for (b = va >> blocks->shift; b <= last && b - first < blocks->num; b++)
			blocks->addr[b - first] = at + (s64)((b << blocks->shift) - va);
		va += sg->length;
		cond_resched();
	}
}

/**
 * tally_blocks_of_range - memory that is one piece in kernel addresses
 * @blocks: set; stays where it is as long as it is in use
 * @addr: the first byte
 */
void tally_blocks_of_range(struct tally_blocks *blocks, void *addr)
{
	blocks->one = addr;
	blocks->addr = &blocks->one;
	blocks->num = 1;
	/* larger than any offset */
	blocks->shift = 63;
	blocks->first_offset = 0;
}

/**
 * tally_blocks_of_umem - cut pinned memory into the largest equal pieces
 * @blocks: set; stays where it is as long as it is in use
 * @umem: the memory
 * @addr: where its first byte is in user space, as far as borders of huge pages are concerned
 *
 * Return: 0 or -ENOMEM.
 */
int tally_blocks_of_umem(struct tally_blocks *blocks, struct ib_umem *umem, u64 addr)
{
	struct sg_table *sgt = &umem->sgt_append.sgt;
	u64 va = addr & PAGE_MASK;
	u64 mask = jumps(sgt, va);

	if (!mask) {
		tally_blocks_of_range(blocks, page_address(sg_page(sgt->sgl)) + ib_umem_offset(umem));
		return 0;
	}
	blocks->shift = __ffs64(mask);
	blocks->first_offset = addr & ((1ull << blocks->shift) - 1);
	blocks->num = ((addr + umem->length - 1) >> blocks->shift) - (addr >> blocks->shift) + 1;
	blocks->addr = kvmalloc_array(blocks->num, sizeof(*blocks->addr), GFP_KERNEL_ACCOUNT);
	if (!blocks->addr)
		return -ENOMEM;
	fill(blocks, sgt, va);
	return 0;
}

/**
 * tally_blocks_free - forget the pieces
 * @blocks: set, and nobody uses it any more; or zeroed
 */
void tally_blocks_free(struct tally_blocks *blocks)
{
	if (blocks->addr != &blocks->one)
		kvfree(blocks->addr);
	blocks->addr = NULL;
	blocks->num = 0;
}
