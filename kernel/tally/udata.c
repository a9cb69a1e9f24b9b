// SPDX-License-Identifier: GPL-2.0-only
/* A provider library's part of a request and of its answer: older and newer ones send more or less of it. */
#include "tally.h"

/**
 * tally_udata_get - read the library's part of a request
 * @req: zeroed where the library sent nothing
 * @size: of what this driver knows
 * @min: what every library sends
 * @udata: the request; NULL in one of a kernel user
 *
 * Return: 0; -EINVAL for too little, -EOPNOTSUPP for a tail that is unknown here and not zero or for a request of a
 *	kernel user, -EFAULT.
 */
int tally_udata_get(void *req, size_t size, size_t min, struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	if (udata->inlen < min)
		return -EINVAL;
	if (udata->inlen > size && !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EOPNOTSUPP;
	memset(req, 0, size);
	return ib_copy_from_udata(req, udata, min(udata->inlen, size));
}

/**
 * tally_udata_put - answer as much as the library has room for
 * @resp: the answer
 * @size: its size
 * @udata: the request
 *
 * Return: 0 or -EFAULT.
 */
int tally_udata_put(const void *resp, size_t size, struct ib_udata *udata)
{
	return ib_copy_to_udata(udata, (void *)resp, min(udata->outlen, size));
}
