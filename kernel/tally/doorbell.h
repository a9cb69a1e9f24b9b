/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Doorbells: UAR pages, and what happens when a store hits one.
 *
 * What a doorbell says is in the doorbell records, which user space writes before it touches the UAR page; the
 * store only wakes.  A page is either trapped (never mapped: the store faults, the poster's queues run in his
 * own context, the store instruction is skipped) or polled (mapped to a scratch page, the engine looks at the
 * records).
 */
#ifndef TALLY_DOORBELL_H
#define TALLY_DOORBELL_H

#include <linux/types.h>

struct tally_ucontext;
struct tally_qp;
struct tally_cq;
struct tally_bfreg;
struct tally_uars;
struct vm_area_struct;

#define TALLY_BFREGS_PER_UAR 2

/* By what number user space names a page: libraries take 0 for none. */
#define TALLY_UAR_ID(index) ((index) + 1)

/**
 * tally_uars_alloc - make a context's UAR pages
 * @ctx: the context, @ctx->uars is set
 * @num: pages; page 0 is for arming CQs.  All of them are there at once, unless @ctx->dyn_uars: then each comes
 *	by tally_uar_get_page().
 *
 * Return: 0 or -ENOMEM.
 */
int tally_uars_alloc(struct tally_ucontext *ctx, u32 num);

/**
 * tally_uars_disassociate - the device goes away while user space has pages mapped
 * @ctx: no QP and no CQ is left
 *
 * After the return no mapping calls into this module any more; later stores go to a page of nobody's.
 */
void tally_uars_disassociate(struct tally_ucontext *ctx);

/* The module goes; no context is left.  May sleep. */
void tally_uars_exit(void);

/* Free them; no QP, CQ or mapping is left, or they were disassociated. */
void tally_uars_free(struct tally_ucontext *ctx);

/**
 * tally_uar_mmap - map one page
 * @ctx: the context
 * @vma: one page, shared, writable
 * @index: page
 *
 * Return: 0, -EINVAL, -EPERM or -ENOMEM.
 */
int tally_uar_mmap(struct tally_ucontext *ctx, struct vm_area_struct *vma, u32 index);

/**
 * tally_bfreg_bind - give a QP its doorbell register
 * @qp: published nowhere yet; @qp->bfreg is set
 * @index: out: what user space is told
 *
 * Spreads QPs over the registers; several QPs may share one.
 */
int tally_bfreg_bind(struct tally_qp *qp, u32 *index);

/**
 * tally_bfreg_bind_page - give a QP a doorbell register of a page that user space has chosen
 * @qp: published nowhere yet; @qp->bfreg is set
 * @id: the page, as user space names it
 *
 * Return: 0, or -EINVAL if the context has no such page.
 */
int tally_bfreg_bind_page(struct tally_qp *qp, u32 id);

/**
 * tally_bfreg_page - the page of a register that came with the context
 * @ctx: the context
 * @index: the register, as user space numbers them
 * @id: the page, as user space names it
 *
 * Return: 0, or -EINVAL if there is no such register.
 */
int tally_bfreg_page(struct tally_ucontext *ctx, u32 index, u32 *id);

/**
 * tally_uar_hold - something else than a QP is bound to a page
 * @ctx: the context
 * @id: the page, as user space names it
 *
 * Return: 0, and the page stays until tally_uar_drop(); -EINVAL if the context has no such page.
 */
int tally_uar_hold(struct tally_ucontext *ctx, u32 id);
void tally_uar_drop(struct tally_ucontext *ctx, u32 id);

/**
 * tally_uar_get_page - a page of a context with dynamic UARs
 * @ctx: the context
 * @arming: it will arm CQs: page 0, if that is free
 * @index: the page
 *
 * Return: 0, and nothing can be bound to the page before tally_uar_publish_page(); -EOPNOTSUPP for a context without
 * dynamic UARs, or -ENOMEM.
 */
int tally_uar_get_page(struct tally_ucontext *ctx, bool arming, u32 *index);

/* User space may name it from here on. */
void tally_uar_publish_page(struct tally_ucontext *ctx, u32 index);

/* Give it back.  Return: 0, or -EBUSY while something is bound to it. */
int tally_uar_put_page(struct tally_ucontext *ctx, u32 index);

/**
 * tally_bfreg_unbind - the QP's doorbells are ignored from here on
 * @qp: bound, or not (then nothing happens)
 *
 * Waits for an RCU grace period: after the return no doorbell that came before is running the QP, and no peer
 * that found it before it was unpublished touches it.  The engine may still run it.
 */
void tally_bfreg_unbind(struct tally_qp *qp);

/* Same for a CQ's arming; both may sleep. */
void tally_uar_add_cq(struct tally_ucontext *ctx, struct tally_cq *cq);
void tally_uar_del_cq(struct tally_cq *cq);

#endif /* TALLY_DOORBELL_H */
