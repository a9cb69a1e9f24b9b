// SPDX-License-Identifier: GPL-2.0-only
/*
 * UAR pages: their memory, their mappings, their registers.
 *
 * ib_core keeps track of a driver's mappings in order to take them away when the device goes while user space
 * lives on.  It does so for mappings with its own vm_ops.  Ours need a fault handler; so a mapping is made
 * through the core first, then our vm_ops take the place of the core's, and everything that ends a mapping (its
 * close, the device's end) puts the core's back.  Afterwards the core's fault handler maps a page of nobody's.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include "compat.h"
#include "tally.h"
#include "uar.h"

/* Page offsets of our mappings: beyond all that user space can ask for in mmap(), each used once. */
#define FIRST_PGOFF (1ull << 36)
static atomic64_t next_pgoff = ATOMIC64_INIT(FIRST_PGOFF);

/* Mappings of a page: one is usual, and one of each process that shares a context. */
#define MAX_MAPS 16

/* ---- pages ---- */

static void uar_init(struct tally_uars *uars, u32 index)
{
	struct tally_uar *uar = &uars->pages[index];
	u32 i;

	uar->uars = uars;
	uar->index = index;
	uar->pgoff = atomic64_inc_return(&next_pgoff);
	for (i = 0; i < TALLY_BFREGS_PER_UAR; i++)
		uar->bfregs[i].uar = uar;
	INIT_LIST_HEAD(&uar->qps);
	tally_backoff_init(&uar->retry);
	tally_backoff_init(&uar->look);
	mutex_init(&uar->mode_lock);
	INIT_LIST_HEAD(&uar->ask_link);
	INIT_LIST_HEAD(&uar->poll_link);
	INIT_LIST_HEAD(&uar->hot);
}

static void free_pages_and_all(struct tally_uars *uars)
{
	u32 i;

	for (i = 0; i < uars->num; i++)
		if (uars->pages[i].scratch)
			__free_page(uars->pages[i].scratch);
	/* It may not sleep, as kvfree() may: see tally_uars_exit(). */
	kvfree_rcu(uars, rcu);
}

static void release(struct kref *refs)
{
	free_pages_and_all(container_of(refs, struct tally_uars, refs));
}

int tally_uars_alloc(struct tally_ucontext *ctx, u32 num)
{
	struct tally_uars *uars;
	u32 i;

	uars = kvzalloc(struct_size(uars, pages, num), GFP_KERNEL_ACCOUNT);
	if (!uars)
		return -ENOMEM;
	kref_init(&uars->refs);
	uars->num = num;
	uars->dev = to_tdev(ctx->ib.device);
	uars->ctx = ctx;
	uars->engine = ctx->engine;
	spin_lock_init(&uars->lock);
	INIT_LIST_HEAD(&uars->cqs);
	mutex_init(&uars->maps_lock);
	INIT_LIST_HEAD(&uars->maps);
	init_waitqueue_head(&uars->no_maps);
	for (i = 0; i < num; i++) {
		uar_init(uars, i);
		if (ctx->dyn_uars)
			continue;
		uars->pages[i].taken = true;
		uars->pages[i].known = true;
		uars->pages[i].scratch = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!uars->pages[i].scratch) {
			free_pages_and_all(uars);
			return -ENOMEM;
		}
	}
	ctx->uars = uars;
	return 0;
}

/* No page will be mapped any more, nor polled. */
static void kill_pages(struct tally_uars *uars)
{
	u32 i;

	for (i = 0; i < uars->num; i++) {
		struct tally_uar *uar = &uars->pages[i];

		mutex_lock(&uar->mode_lock);
		/*
		 * A fault under way may have made it ASKED just before, and put it on the list of those that ask:
		 * tally_uars_forget() comes when there are no faults any more.
		 */
		WRITE_ONCE(uar->mode, TALLY_UAR_DEAD);
		mutex_unlock(&uar->mode_lock);
	}
}

void tally_uars_free(struct tally_ucontext *ctx)
{
	struct tally_uars *uars = ctx->uars;

	/* The file is closed, thus unmapped, or the device has gone and nothing is mapped any more. */
	kill_pages(uars);
	tally_uars_forget(uars);
	ctx->uars = NULL;
	kref_put(&uars->refs, release);
}

/* Whether the page is user space's to use. */
static bool is_known(struct tally_uar *uar)
{
	bool known;

	spin_lock(&uar->uars->lock);
	known = uar->known;
	spin_unlock(&uar->uars->lock);
	return known;
}

static struct tally_uar *take_page(struct tally_uars *uars, bool arming)
{
	struct tally_uar *found = NULL;
	u32 i;

	spin_lock(&uars->lock);
	for (i = arming ? 0 : 1; i < uars->num && !found; i++)
		if (!uars->pages[i].taken)
			found = &uars->pages[i];
	if (found)
		found->taken = true;
	spin_unlock(&uars->lock);
	return found;
}

int tally_uar_put_page(struct tally_ucontext *ctx, u32 index)
{
	struct tally_uars *uars = ctx->uars;
	struct tally_uar *uar = &uars->pages[index];
	int ret = 0;
	u32 i;

	spin_lock(&uars->lock);
	if (uar->users)
		ret = -EBUSY;
	for (i = 0; i < TALLY_BFREGS_PER_UAR; i++)
		if (uar->bfregs[i].num_qps)
			ret = -EBUSY;
	if (!ret) {
		uar->taken = false;
		uar->known = false;
	}
	spin_unlock(&uars->lock);
	return ret;
}

/* The page that user space names so, if it has it; under uars->lock. */
static struct tally_uar *find_page(struct tally_uars *uars, u32 id)
{
	struct tally_uar *uar;

	if (id < TALLY_UAR_ID(0) || id >= TALLY_UAR_ID(uars->num))
		return NULL;
	uar = &uars->pages[id - TALLY_UAR_ID(0)];
	return uar->known ? uar : NULL;
}

int tally_uar_hold(struct tally_ucontext *ctx, u32 id)
{
	struct tally_uar *uar;

	spin_lock(&ctx->uars->lock);
	uar = find_page(ctx->uars, id);
	if (uar)
		uar->users++;
	spin_unlock(&ctx->uars->lock);
	return uar ? 0 : -EINVAL;
}

void tally_uar_drop(struct tally_ucontext *ctx, u32 id)
{
	spin_lock(&ctx->uars->lock);
	find_page(ctx->uars, id)->users--;
	spin_unlock(&ctx->uars->lock);
}

int tally_uar_get_page(struct tally_ucontext *ctx, bool arming, u32 *index)
{
	struct tally_uar *uar;
	struct page *page;

	if (!ctx->dyn_uars)
		return -EOPNOTSUPP;
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!page)
		return -ENOMEM;
	uar = take_page(ctx->uars, arming);
	if (!uar) {
		__free_page(page);
		return -ENOMEM;
	}
	/* A mapping from the last time somebody had the page may be there, so its scratch page stays. */
	if (uar->scratch)
		__free_page(page);
	else
		uar->scratch = page;
	*index = uar->index;
	return 0;
}

void tally_uar_publish_page(struct tally_ucontext *ctx, u32 index)
{
	spin_lock(&ctx->uars->lock);
	ctx->uars->pages[index].known = true;
	spin_unlock(&ctx->uars->lock);
}

/* ---- mappings ---- */

vm_fault_t tally_uar_insert(struct tally_uar *uar, struct vm_fault *vmf, u64 hold_ns)
{
	vm_fault_t ret = VM_FAULT_NOPAGE;
	bool polled;
	u64 held;

	mutex_lock(&uar->mode_lock);
	polled = uar->mode == TALLY_UAR_OPEN || uar->mode == TALLY_UAR_MAPPED;
	/* DEAD: the mapping is about to become the core's; then the fault is the core's, too. */
	if (uar->mode == TALLY_UAR_DEAD || (!polled && !hold_ns))
		goto out;
	/* First of all the engine is to watch it, and not to give it up: another thread may store at once. */
	held = uar->hold_until;
	if (hold_ns)
		WRITE_ONCE(uar->hold_until, local_clock() + hold_ns);
	if (!polled)
		tally_uar_ask(uar);
	ret = vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(uar->scratch));
	if (ret == VM_FAULT_NOPAGE)
		WRITE_ONCE(uar->mode, TALLY_UAR_MAPPED);
	else
		WRITE_ONCE(uar->hold_until, held);
out:
	mutex_unlock(&uar->mode_lock);
	return ret;
}

bool tally_uar_try_zap(struct tally_uar *uar)
{
	lockdep_assert_held(&uar->mode_lock);
	if (!i_mmap_trylock_read(uar->mapping))
		return false;
	i_mmap_unlock_read(uar->mapping);
	unmap_mapping_range(uar->mapping, (loff_t)uar->pgoff << PAGE_SHIFT, PAGE_SIZE, 1);
	return true;
}

static void give_back(struct tally_uar_map *map)
{
	struct vm_area_struct *vma = map->vma;

	vma->vm_ops = map->core_ops;
	vma->vm_private_data = map->core_private;
}

static void map_free(struct tally_uar_map *map)
{
	kref_put(&map->uar->uars->refs, release);
	kfree(map);
}

/*
 * A copy of the VMA, for mremap() to move it to: fork() makes none (VM_DONTCOPY, which VM_IO keeps user space
 * from taking away), and a single page is not split.  The move is refused later, nothing is ever mapped there.
 * The core is not asked to track the copy: it would take the file's disassociation lock inside of mmap_lock, and
 * the removal of the device takes mmap_lock inside of that one.  To its close() a VMA without data is none of
 * its own.
 */
static void uar_vma_open(struct vm_area_struct *vma)
{
	struct tally_uar_map *map = vma->vm_private_data;

	vma->vm_ops = map->core_ops;
	vma->vm_private_data = NULL;
}

static void uar_vma_close(struct vm_area_struct *vma)
{
	struct tally_uar_map *map = vma->vm_private_data;
	struct tally_uars *uars = map->uar->uars;

	give_back(map);
	if (vma->vm_ops->close)
		vma->vm_ops->close(vma);
	mutex_lock(&uars->maps_lock);
	/* From here to the end nothing sleeps; see tally_uars_exit(). */
	list_del(&map->link);
	map->uar->num_maps--;
	if (list_empty(&uars->maps))
		wake_up(&uars->no_maps);
	mutex_unlock(&uars->maps_lock);
	map_free(map);
}

static int uar_vma_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

static int uar_vma_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

/*
 * Since 6.6, a fault on a VMA without this is tried again under mmap_lock, where the threads of a process
 * contend; see vmf_can_call_fault() in mm/memory.c.
 */
static vm_fault_t uar_vma_map_pages(struct vm_fault *vmf, pgoff_t start, pgoff_t end)
{
	return 0;
}

static const struct vm_operations_struct uar_vm_ops = {
	.open = uar_vma_open,
	.close = uar_vma_close,
	.may_split = uar_vma_may_split,
	.mremap = uar_vma_mremap,
	.fault = tally_uar_fault,
	.map_pages = uar_vma_map_pages,
};

/* One more mapping, if there are not too many: a zap goes over all of them while other pages wait. */
static bool count_map(struct tally_uar *uar)
{
	bool room;

	mutex_lock(&uar->uars->maps_lock);
	room = uar->num_maps < MAX_MAPS;
	uar->num_maps += room;
	mutex_unlock(&uar->uars->maps_lock);
	return room;
}

static void uncount_map(struct tally_uar *uar)
{
	mutex_lock(&uar->uars->maps_lock);
	uar->num_maps--;
	mutex_unlock(&uar->uars->maps_lock);
}

int tally_uar_mmap(struct tally_ucontext *ctx, struct vm_area_struct *vma, u32 index)
{
	struct tally_uars *uars = ctx->uars;
	struct tally_uar_map *map;
	struct tally_uar *uar;
	int ret;

	if (index >= uars->num || vma->vm_end - vma->vm_start != PAGE_SIZE || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (!(vma->vm_flags & VM_WRITE))
		return -EPERM;
	uar = &uars->pages[index];
	/* Once it is known it has a scratch page, for good. */
	if (!is_known(uar))
		return -EINVAL;

	if (!count_map(uar))
		return -ENOMEM;
	map = kmalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);
	if (!map) {
		uncount_map(uar);
		return -ENOMEM;
	}
	map->uar = uar;
	map->vma = vma;
	map->core_ops = vma->vm_ops;
	ret = rdma_user_mmap_io(&ctx->ib, vma, page_to_pfn(uar->scratch), PAGE_SIZE, vma->vm_page_prot, NULL);
	if (ret) {
		kfree(map);
		uncount_map(uar);
		return ret;
	}
	/* The VMA is not to be found yet: nobody faults, and nobody but us zaps. */
	zap_vma_ptes(vma, vma->vm_start, PAGE_SIZE);
	map->core_private = vma->vm_private_data;
	vma->vm_private_data = map;
	vma->vm_ops = &uar_vm_ops;
	vma->vm_pgoff = uar->pgoff;
	vm_flags_set(vma, VM_DONTCOPY);

	kref_get(&uars->refs);
	mutex_lock(&uars->maps_lock);
	uar->mapping = vma->vm_file->f_mapping;
	list_add_tail(&map->link, &uars->maps);
	mutex_unlock(&uars->maps_lock);
	return 0;
}

/* An mm that has a mapping, or NULL if there is none, or none that lives. */
static struct mm_struct *get_some_mm(struct tally_uars *uars)
{
	struct mm_struct *mm = NULL;
	struct tally_uar_map *map;

	mutex_lock(&uars->maps_lock);
	list_for_each_entry(map, &uars->maps, link) {
		if (mmget_not_zero(map->vma->vm_mm)) {
			mm = map->vma->vm_mm;
			break;
		}
	}
	mutex_unlock(&uars->maps_lock);
	return mm;
}

/*
 * With mmap_lock and the VMA's lock held for writing, no munmap() is under way and no fault, but for threads that
 * linger and have nothing to do with the page any more: whoever looks at the VMA later sees the core's operations.
 * maps_lock comes inside, since a close takes it under mmap_lock; so one mm at a time.  An mm whose last user has
 * gone is being taken apart: its VMAs are closed soon, and cannot fault.
 */
void tally_uars_disassociate(struct tally_ucontext *ctx)
{
	struct tally_uars *uars = ctx->uars;
	struct tally_uar_map *map, *tmp;
	struct mm_struct *mm;

	kill_pages(uars);
	while ((mm = get_some_mm(uars))) {
		LIST_HEAD(gone);

		mmap_write_lock(mm);
		mutex_lock(&uars->maps_lock);
		list_for_each_entry_safe(map, tmp, &uars->maps, link) {
			if (map->vma->vm_mm != mm)
				continue;
			vma_start_write(map->vma);
			give_back(map);
			list_move(&map->link, &gone);
			map->uar->num_maps--;
			zap_vma_ptes(map->vma, map->vma->vm_start, PAGE_SIZE);
		}
		mutex_unlock(&uars->maps_lock);
		list_for_each_entry_safe(map, tmp, &gone, link)
			map_free(map);
		mmap_write_unlock(mm);
		mmput(mm);
	}
	wait_event(uars->no_maps, list_empty(&uars->maps));
	tally_uars_forget(uars);
}

/*
 * A close that has taken its mapping off the list still has a few instructions of ours before it, and so has a thread that
 * has lingered and left its CQ.  Neither sleeps any more, so they are out when every task that was preempted has been
 * scheduled by its own will.  A kernel that does not preempt waits for a grace period instead; see compat.h.
 */
void tally_uars_exit(void)
{
	synchronize_rcu_tasks();
}

/* ---- registers ---- */

/* Fewest QPs on the register, then on its page; the later ones are those that user space takes no lock for. */
static bool better(const struct tally_bfreg *a, u32 a_page, const struct tally_bfreg *b, u32 b_page)
{
	if (a->num_qps != b->num_qps)
		return a->num_qps < b->num_qps;
	return a_page < b_page;
}

static u32 page_qps(const struct tally_uar *uar)
{
	u32 i, n = 0;

	for (i = 0; i < TALLY_BFREGS_PER_UAR; i++)
		n += uar->bfregs[i].num_qps;
	return n;
}

static struct tally_bfreg *choose(struct tally_uars *uars)
{
	struct tally_bfreg *best = NULL;
	u32 best_page = 0, i, k;

	for (i = uars->num; i-- > 1;) {
		u32 page;

		if (!uars->pages[i].known)
			continue;
		page = page_qps(&uars->pages[i]);
		for (k = 0; k < TALLY_BFREGS_PER_UAR; k++) {
			struct tally_bfreg *b = &uars->pages[i].bfregs[k];

			if (!best || better(b, page, best, best_page)) {
				best = b;
				best_page = page;
			}
		}
	}
	return best;
}

/* Under uars->lock. */
static void bind(struct tally_qp *qp, struct tally_bfreg *b)
{
	b->num_qps++;
	WRITE_ONCE(qp->bfreg, b);
	list_add_tail_rcu(&qp->bfreg_link, &b->uar->qps);
}

int tally_bfreg_bind(struct tally_qp *qp, u32 *index)
{
	struct tally_uars *uars = qp->ctx->uars;
	struct tally_bfreg *b;

	spin_lock(&uars->lock);
	b = choose(uars);
	if (b)
		bind(qp, b);
	spin_unlock(&uars->lock);
	if (!b)
		return -ENOMEM;
	*index = b->uar->index * TALLY_BFREG_STRIDE + (b - b->uar->bfregs);
	return 0;
}

int tally_bfreg_bind_page(struct tally_qp *qp, u32 id)
{
	struct tally_uars *uars = qp->ctx->uars;
	struct tally_bfreg *b = NULL;
	struct tally_uar *uar;
	u32 k;

	spin_lock(&uars->lock);
	uar = find_page(uars, id);
	for (k = 0; uar && k < TALLY_BFREGS_PER_UAR; k++)
		if (!b || uar->bfregs[k].num_qps < b->num_qps)
			b = &uar->bfregs[k];
	if (b)
		bind(qp, b);
	spin_unlock(&uars->lock);
	return b ? 0 : -EINVAL;
}

int tally_bfreg_page(struct tally_ucontext *ctx, u32 index, u32 *id)
{
	u32 page = index / TALLY_BFREG_STRIDE;

	if (ctx->dyn_uars || page >= ctx->num_uars || index % TALLY_BFREG_STRIDE >= TALLY_BFREGS_PER_UAR)
		return -EINVAL;
	*id = TALLY_UAR_ID(page);
	return 0;
}

void tally_bfreg_unbind(struct tally_qp *qp)
{
	struct tally_bfreg *b = qp->bfreg;

	if (b) {
		struct tally_uars *uars = qp->ctx->uars;

		spin_lock(&uars->lock);
		tally_uar_forget_qp(b->uar, qp);
		list_del_rcu(&qp->bfreg_link);
		WRITE_ONCE(qp->bfreg, NULL);
		b->num_qps--;
		spin_unlock(&uars->lock);
	}
	/* Who runs the QP because of a doorbell does so in an RCU read section. */
	synchronize_rcu_expedited();
}

void tally_uar_add_cq(struct tally_ucontext *ctx, struct tally_cq *cq)
{
	spin_lock(&ctx->uars->lock);
	list_add_tail_rcu(&cq->uar_link, &ctx->uars->cqs);
	spin_unlock(&ctx->uars->lock);
}

void tally_uar_del_cq(struct tally_cq *cq)
{
	struct tally_uars *uars = cq->ctx->uars;

	spin_lock(&uars->lock);
	list_del_rcu(&cq->uar_link);
	spin_unlock(&uars->lock);
	synchronize_rcu_expedited();
}
