// SPDX-License-Identifier: GPL-2.0-only
/* Where the two values of a counter live: the caller's memory by buffer descriptors, or the kernel's own. */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "core.h"

enum { COMP, ERR };

static int check_desc(const struct ib_uverbs_buffer_desc *desc)
{
	u64 end;

	if (desc->flags)
		return -EINVAL;
	if (desc->type != IB_UVERBS_BUFFER_TYPE_DMABUF && desc->type != IB_UVERBS_BUFFER_TYPE_VA)
		return -EOPNOTSUPP;
	if (!IS_ALIGNED(desc->addr, sizeof(u64)) || desc->length < sizeof(u64))
		return -EINVAL;
	if (check_add_overflow(desc->addr, desc->length, &end))
		return -EINVAL;
	return 0;
}

static bool descs_overlap(const struct ib_uverbs_buffer_desc *a, const struct ib_uverbs_buffer_desc *b)
{
	if (a->type != b->type)
		return false;
	if (a->type == IB_UVERBS_BUFFER_TYPE_DMABUF && a->fd != b->fd)
		return false;
	return a->addr < b->addr + b->length && b->addr < a->addr + a->length;
}

static struct page *word_page(u64 *word)
{
	return is_vmalloc_addr(word) ? vmalloc_to_page(word) : virt_to_page(word);
}

/* The same memory may have been named in two ways. */
static bool words_alias(u64 *a, u64 *b)
{
	return offset_in_page(a) == offset_in_page(b) && word_page(a) == word_page(b);
}

/* The word at the descriptor's offset, which is 8-byte aligned; an exporter without a kernel mapping will not do. */
static int dmabuf_word(struct ib_cpu_dmabuf *buf, struct ib_device *device, const struct ib_uverbs_buffer_desc *desc,
		       u64 **word)
{
	int ret;

	ret = ib_cpu_dmabuf_get(buf, device, desc->fd, desc->addr, desc->length, true);
	if (ret)
		return ret;
	if (!buf->vmap) {
		ib_cpu_dmabuf_put(buf);
		return -EOPNOTSUPP;
	}
	*word = buf->vmap + desc->addr;
	return 0;
}

static int memory_map(struct ib_comp_cntr_memory *memory, struct ib_device *device, int i,
		      const struct ib_uverbs_buffer_desc *desc, u64 **word)
{
	int ret;

	if (desc->type == IB_UVERBS_BUFFER_TYPE_DMABUF)
		return dmabuf_word(&memory->bufs[i], device, desc, word);

	ret = comp_cntr_pin_page(&memory->pins[i], device, desc->addr);
	if (ret)
		return ret;
	*word = memory->pins[i].page + offset_in_page(desc->addr);
	return 0;
}

static int memory_map_both(struct ib_comp_cntr_memory *memory, struct ib_device *device,
			   const struct ib_uverbs_buffer_desc *comp, const struct ib_uverbs_buffer_desc *err)
{
	int ret;

	ret = check_desc(comp);
	if (ret)
		return ret;
	ret = check_desc(err);
	if (ret)
		return ret;
	if (descs_overlap(comp, err))
		return -EINVAL;

	ret = memory_map(memory, device, COMP, comp, &memory->comp);
	if (ret)
		return ret;

	/* One pinned page is enough, and costs its owner but one page of his limit. */
	if (comp->type == IB_UVERBS_BUFFER_TYPE_VA && err->type == comp->type &&
	    comp->addr >> PAGE_SHIFT == err->addr >> PAGE_SHIFT) {
		memory->err = memory->pins[COMP].page + offset_in_page(err->addr);
		return 0;
	}

	ret = memory_map(memory, device, ERR, err, &memory->err);
	if (ret)
		return ret;
	return words_alias(memory->comp, memory->err) ? -EINVAL : 0;
}

/**
 * comp_cntr_memory_get - find a home for the two values
 * @device: on whose behalf
 * @comp: the caller's memory for the completion count, or NULL
 * @err: the caller's memory for the error count, or NULL; both or none
 *
 * Of a buffer only its first eight bytes are used, pinned and mapped.  Its contents stay as they are.
 *
 * Return: the memory or an ERR_PTR; the errors are those of comp_cntr_pin_page() and ib_cpu_dmabuf_get(),
 *	-EINVAL for descriptors that make no sense, -EOPNOTSUPP for a type nobody knows.
 */
struct ib_comp_cntr_memory *comp_cntr_memory_get(struct ib_device *device,
						 const struct ib_uverbs_buffer_desc *comp,
						 const struct ib_uverbs_buffer_desc *err)
{
	struct ib_comp_cntr_memory *memory;
	int ret;

	if (!comp != !err)
		return ERR_PTR(-EINVAL);

	memory = kzalloc(sizeof(*memory), GFP_KERNEL_ACCOUNT);
	if (!memory)
		return ERR_PTR(-ENOMEM);

	if (comp) {
		ret = memory_map_both(memory, device, comp, err);
		if (ret)
			goto err_put;
		return memory;
	}

	/* A cache line of their own. */
	ret = -ENOMEM;
	memory->own = kzalloc(max_t(size_t, SMP_CACHE_BYTES, 2 * sizeof(u64)), GFP_KERNEL_ACCOUNT);
	if (!memory->own)
		goto err_put;
	memory->comp = &memory->own[COMP];
	memory->err = &memory->own[ERR];
	return memory;

err_put:
	comp_cntr_memory_put(memory);
	return ERR_PTR(ret);
}

/**
 * comp_cntr_memory_put - nobody uses the two values any more
 * @memory: complete or half made
 */
void comp_cntr_memory_put(struct ib_comp_cntr_memory *memory)
{
	int i;

	for (i = ERR; i >= COMP; i--) {
		comp_cntr_unpin_page(&memory->pins[i]);
		ib_cpu_dmabuf_put(&memory->bufs[i]);
	}
	kfree(memory->own);
	kfree(memory);
}
