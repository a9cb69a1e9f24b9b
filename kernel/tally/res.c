// SPDX-License-Identifier: GPL-2.0-only
/*
 * Objects that commands name by number.
 *
 * A verb holds an object by its handle, and ib_core counts the users.  A command of the device's own names any
 * object of its context by number, made by a verb or by a command; those users are counted here, and an object
 * that has some is not destroyed.  One spinlock per device: nothing of this is on the path of data.
 */
#include "tally.h"

static struct tally_dev *dev_of(const struct tally_ucontext *ctx)
{
	return to_tdev(ctx->ib.device);
}

/**
 * tally_res_init - give an object a number, under which it is not found yet
 * @res: zeroed; set
 * @table: of its kind
 * @ctx: whose it is
 *
 * Return: 0 or -ENOMEM.
 */
int tally_res_init(struct tally_res *res, struct hca_table *table, struct tally_ucontext *ctx)
{
	res->table = table;
	res->ctx = ctx;
	return hca_table_reserve(table, &res->number);
}

/**
 * tally_res_of_verb - a verb makes the object, not a command
 * @res: not published yet
 * @uobject: the object's uobject; of a CQ or SRQ the structure is ib_core's own, but begins with the general one
 */
void tally_res_of_verb(struct tally_res *res, const void *uobject)
{
	res->uobject = uobject;
	/* Should it not any more, this says so at the first object of all. */
	WARN_ON_ONCE(res->uobject->context != &res->ctx->ib);
}

/**
 * tally_res_publish - the object can be found from here on
 * @res: of a complete object
 */
void tally_res_publish(struct tally_res *res)
{
	hca_table_publish(res->table, res->number, res);
}

/*
 * Whether ib_core holds the handle for itself: until it has finished the creation, in which it may still fail and
 * destroy the object, and that must not fail; and while it destroys it.  A handle goes after its object was hidden.
 */
static bool is_held(const struct ib_uobject *uobject)
{
	return uobject && atomic_read(&uobject->usecnt) < 0;
}

/**
 * tally_res_get - find an object and keep it
 * @table: of its kind
 * @ctx: whose it must be
 * @number: any value
 *
 * Return: the object, for tally_res_put(); or NULL, also as long as the verb that makes it goes on.
 */
struct tally_res *tally_res_get(struct hca_table *table, struct tally_ucontext *ctx, u32 number)
{
	struct tally_res *res;

	rcu_read_lock();
	spin_lock(&dev_of(ctx)->res_lock);
	res = hca_table_lookup(table, number);
	if (res && (res->ctx != ctx || is_held(res->uobject) || res->users == U32_MAX))
		res = NULL;
	if (res)
		res->users++;
	spin_unlock(&dev_of(ctx)->res_lock);
	rcu_read_unlock();
	return res;
}

/**
 * tally_res_put - undo tally_res_get()
 * @res: the object, or NULL
 */
void tally_res_put(struct tally_res *res)
{
	struct tally_dev *dev;

	if (!res)
		return;
	dev = dev_of(res->ctx);
	spin_lock(&dev->res_lock);
	res->users--;
	spin_unlock(&dev->res_lock);
}

/**
 * tally_res_hide - the object is not found any more, and about to be destroyed
 * @res: published or not
 *
 * Return: 0, or -EBUSY if it has users: then nothing has changed.
 */
int tally_res_hide(struct tally_res *res)
{
	struct tally_dev *dev = dev_of(res->ctx);
	int ret = 0;

	spin_lock(&dev->res_lock);
	if (res->users)
		ret = -EBUSY;
	else
		hca_table_hide(res->table, res->number);
	spin_unlock(&dev->res_lock);
	return ret;
}

/**
 * tally_res_release - give the number back
 * @res: hidden, or never published
 */
void tally_res_release(struct tally_res *res)
{
	hca_table_release(res->table, res->number);
}
