// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Stands for a libibverbs that has counters itself: a library with its names and versions, behind libtally in the
// order of loading.  Says how often its functions were called.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <tally/verbs.h>

int native_calls;

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size);

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size)
{
	if (!context || size < sizeof(*caps))
		return EOPNOTSUPP;
	caps->max_counters = 4711;
	return 0;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr)
{
	struct ibv_comp_cntr *cntr = calloc(1, sizeof(*cntr));

	native_calls++;
	cntr->context = context;
	cntr->handle = attr->type;
	return cntr;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr)
{
	native_calls++;
	free(cntr);
	return 0;
}

static int called(struct ibv_comp_cntr *cntr)
{
	native_calls++;
	return cntr ? 0 : EINVAL;
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value)
{
	return value ? called(cntr) : EINVAL;
}
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value)
{
	return value ? called(cntr) : EINVAL;
}
int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount)
{
	return amount ? called(cntr) : EINVAL;
}
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount)
{
	return amount ? called(cntr) : EINVAL;
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value)
{
	*value = 7;
	return called(cntr);
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value)
{
	*value = 8;
	return called(cntr);
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr, struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return qp && attr ? called(cntr) : EINVAL;
}
