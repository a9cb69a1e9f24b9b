// SPDX-License-Identifier: GPL-2.0-only
/* A page of user memory, pinned for the kernel to write to. */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <rdma/ib_umem.h>
#include "core.h"

/**
 * comp_cntr_pin_page - pin the page that holds a word
 * @pin: set
 * @device: on whose behalf
 * @addr: virtual address of the word in the caller's address space, 8-byte aligned
 *
 * Counts against RLIMIT_MEMLOCK as every memory registration.
 *
 * Return: 0; -EFAULT for memory that is not there or not writable; -ENOMEM, -EPERM by the limits.
 */
int comp_cntr_pin_page(struct comp_cntr_pin *pin, struct ib_device *device, u64 addr)
{
	struct ib_umem *umem;
	struct page *page;

	if (addr != (unsigned long)addr)
		return -EFAULT;

	umem = ib_umem_get(device, addr, sizeof(u64), IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);

	/* An aligned word does not cross a page, so the first entry is all there is. */
	page = sg_page(umem->sgt_append.sgt.sgl);
	if (PageHighMem(page)) {
		pin->vmap = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
		if (!pin->vmap) {
			ib_umem_release(umem);
			return -ENOMEM;
		}
		pin->page = pin->vmap;
	} else {
		pin->page = page_address(page);
	}
	pin->umem = umem;
	return 0;
}

/**
 * comp_cntr_unpin_page - undo comp_cntr_pin_page()
 * @pin: pinned or empty; empty afterwards
 */
void comp_cntr_unpin_page(struct comp_cntr_pin *pin)
{
	if (!pin->umem)
		return;
	vunmap(pin->vmap);
	ib_umem_release(pin->umem);
	*pin = (struct comp_cntr_pin){};
}
