// SPDX-License-Identifier: GPL-2.0-only
/*
 * Doorbell records in user memory.
 *
 * Libraries put many into one page: each page is pinned once per context, so that thousands of queues neither
 * cost a page each of the user's limit nor a mapping.
 */
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>
#include "tally.h"

/**
 * struct tally_db_page - a pinned page of doorbell records
 * @node: in ucontext.db_pages
 * @umem: pins it, and holds the mm it is of
 * @virt: its address there
 * @refs: records in use
 *
 * All under ucontext.db_lock; the page itself stays put as long as @refs.
 */
struct tally_db_page {
	struct hlist_node node;
	struct ib_umem *umem;
	unsigned long virt;
	u32 refs;
};

static struct tally_db_page *find_page(struct tally_ucontext *ctx, unsigned long virt)
{
	struct tally_db_page *page;

	hash_for_each_possible(ctx->db_pages, page, node, virt >> PAGE_SHIFT)
		if (page->virt == virt && page->umem->owning_mm == current->mm)
			return page;
	return NULL;
}

static struct tally_db_page *pin_page(struct tally_ucontext *ctx, unsigned long virt)
{
	struct tally_db_page *page;
	int ret;

	page = kzalloc(sizeof(*page), GFP_KERNEL_ACCOUNT);
	if (!page)
		return ERR_PTR(-ENOMEM);
	page->umem = ib_umem_get(ctx->ib.device, virt, PAGE_SIZE, 0);
	if (IS_ERR(page->umem)) {
		ret = PTR_ERR(page->umem);
		kfree(page);
		return ERR_PTR(ret);
	}
	page->virt = virt;
	hash_add(ctx->db_pages, &page->node, virt >> PAGE_SHIFT);
	return page;
}

/**
 * tally_dbrec_map - pin a doorbell record
 * @db: set
 * @ctx: whose it is
 * @addr: in the caller's address space
 * @size: bytes
 *
 * Return: 0; -EINVAL if it is not aligned to 4 bytes or crosses a page; or what ib_umem_get() says.
 */
int tally_dbrec_map(struct tally_dbrec *db, struct tally_ucontext *ctx, u64 addr, u32 size)
{
	struct tally_db_page *page;
	int ret = 0;

	if (!IS_ALIGNED(addr, sizeof(__be32)) || offset_in_page(addr) + size > PAGE_SIZE)
		return -EINVAL;

	mutex_lock(&ctx->db_lock);
	page = find_page(ctx, addr & PAGE_MASK);
	if (!page)
		page = pin_page(ctx, addr & PAGE_MASK);
	if (IS_ERR(page)) {
		ret = PTR_ERR(page);
	} else {
		page->refs++;
		db->page = page;
		db->in = NULL;
		db->addr = page_address(sg_page(page->umem->sgt_append.sgt.sgl)) + offset_in_page(addr);
	}
	mutex_unlock(&ctx->db_lock);
	return ret;
}

/**
 * tally_dbrec_unmap - undo tally_dbrec_map() or tally_dbrec_of_umem()
 * @db: mapped, and nobody uses it any more; or zeroed
 * @ctx: the same context
 */
void tally_dbrec_unmap(struct tally_dbrec *db, struct tally_ucontext *ctx)
{
	struct tally_db_page *page = db->page;

	if (page) {
		mutex_lock(&ctx->db_lock);
		if (!--page->refs) {
			hash_del(&page->node);
			ib_umem_release(page->umem);
			kfree(page);
		}
		mutex_unlock(&ctx->db_lock);
	}
	tally_umem_put(db->in);
	*db = (struct tally_dbrec){};
}
