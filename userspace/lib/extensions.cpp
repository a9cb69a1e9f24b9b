// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters in memory of the caller's choice.
#include "counter_life.hpp"
#include "public_api.hpp"

TALLY_API ibv_comp_cntr *tally_create_comp_cntr(ibv_context *context, const tally_comp_cntr_init_attr *attr)
{
	const bool by_library = tally::number_in(attr->comp.type) == TALLY_MEMORY_LIBRARY &&
				tally::number_in(attr->err.type) == TALLY_MEMORY_LIBRARY;

	tally::counter *created = nullptr;
	int err;
	if (attr->comp_mask || attr->flags)
		err = EINVAL;
	else if (by_library)
		err = tally::create_counter(context, tally::number_in(attr->type), created);
	else
		err = tally::create_counter(context, tally::number_in(attr->type), attr->comp, attr->err, created);
	if (err) {
		errno = err;
		return nullptr;
	}
	return &created->verbs;
}

TALLY_API int tally_get_comp_cntr_words(const ibv_comp_cntr *comp_cntr, tally_comp_cntr_words *words)
{
	const auto *cntr = tally::own(comp_cntr);
	if (!cntr || !cntr->comp || !cntr->err)
		return ENOTSUP;
	*words = {.comp = cntr->comp, .err = cntr->err};
	return 0;
}
