// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The verbs of tally/verbs.h.  A counter of this library is operated here; one of a provider of libibverbs by it.
#include "counter_life.hpp"
#include "native_verbs.hpp"
#include "public_api.hpp"

#include <cstring>

using tally::native;
using tally::own;

namespace {

int query_caps(ibv_context *context, ibv_comp_cntr_caps *caps, std::size_t size) noexcept
{
	std::memset(caps, 0, size);
	if (size < sizeof(*caps))
		return EINVAL;

	if (native().complete() && !native().query_caps(context, caps, size))
		return 0;

	std::shared_ptr<const tally::device_facts> facts;
	if (const int err = tally::facts_of(context, facts))
		return err;
	caps->max_value = facts->caps.max_value;
	caps->max_counters = facts->caps.max_counters;
	caps->supported_qp_attach_ops = facts->caps.ops;
	return 0;
}

bool device_has_native_counters(ibv_context *context) noexcept
{
	ibv_comp_cntr_caps caps{};
	return native().complete() && !native().query_caps(context, &caps, sizeof(caps));
}

int modify(tally::counter &cntr, ib_uverbs_comp_cntr_entry entry, ib_uverbs_comp_cntr_modify_op op,
	   std::uint64_t value) noexcept
{
	return tally::uverbs::for_caller(
		tally::uverbs::modify(cntr.facts->endpoint, cntr.verbs.handle, entry, op, value));
}

// A counter that is neither this library's nor, as there are no native functions, anyone's.
template <typename Function, typename... Arguments> int by_native(Function *function, Arguments... arguments) noexcept
{
	return function ? function(arguments...) : EINVAL;
}

} // namespace

// Newer headers of libibverbs have this one as an inline function around the second; programs built with older ones
// call the first.  The library exports both.
TALLY_API int tally_query_caps_symbol(ibv_context *context,
				      ibv_comp_cntr_caps *caps) __asm__("ibv_query_comp_cntr_caps");

TALLY_API int tally_query_caps_symbol(ibv_context *context, ibv_comp_cntr_caps *caps)
{
	return query_caps(context, caps, sizeof(*caps));
}

TALLY_API int _ibv_query_comp_cntr_caps(ibv_context *context, ibv_comp_cntr_caps *caps, std::size_t caps_size)
{
	return query_caps(context, caps, caps_size);
}

TALLY_API ibv_comp_cntr *ibv_create_comp_cntr(ibv_context *context, ibv_comp_cntr_init_attr *attr)
{
	if (device_has_native_counters(context))
		return native().create(context, attr);

	tally::counter *created = nullptr;
	const int err = attr->comp_mask || attr->flags ?
				EINVAL :
				tally::create_counter(context, tally::number_in(attr->type), created);
	if (err) {
		errno = err;
		return nullptr;
	}
	return &created->verbs;
}

TALLY_API int ibv_destroy_comp_cntr(ibv_comp_cntr *comp_cntr)
{
	auto *cntr = own(comp_cntr);
	if (!cntr)
		return by_native(native().destroy, comp_cntr);
	return cntr->in_group ? EINVAL : tally::destroy_counter(cntr);
}

TALLY_API int ibv_set_comp_cntr(ibv_comp_cntr *comp_cntr, std::uint64_t value)
{
	auto *cntr = own(comp_cntr);
	return cntr ? modify(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_COMP, IB_UVERBS_COMP_CNTR_MODIFY_OP_SET, value) :
		      by_native(native().set, comp_cntr, value);
}

TALLY_API int ibv_set_err_comp_cntr(ibv_comp_cntr *comp_cntr, std::uint64_t value)
{
	auto *cntr = own(comp_cntr);
	return cntr ? modify(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_ERR, IB_UVERBS_COMP_CNTR_MODIFY_OP_SET, value) :
		      by_native(native().set_err, comp_cntr, value);
}

TALLY_API int ibv_inc_comp_cntr(ibv_comp_cntr *comp_cntr, std::uint64_t amount)
{
	auto *cntr = own(comp_cntr);
	return cntr ? modify(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_COMP, IB_UVERBS_COMP_CNTR_MODIFY_OP_INC, amount) :
		      by_native(native().inc, comp_cntr, amount);
}

TALLY_API int ibv_inc_err_comp_cntr(ibv_comp_cntr *comp_cntr, std::uint64_t amount)
{
	auto *cntr = own(comp_cntr);
	return cntr ? modify(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_ERR, IB_UVERBS_COMP_CNTR_MODIFY_OP_INC, amount) :
		      by_native(native().inc_err, comp_cntr, amount);
}

TALLY_API int ibv_read_comp_cntr(ibv_comp_cntr *comp_cntr, std::uint64_t *value)
{
	const auto *cntr = own(comp_cntr);
	return cntr ? tally::read_counter(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_COMP, *value) :
		      by_native(native().read, comp_cntr, value);
}

TALLY_API int ibv_read_err_comp_cntr(ibv_comp_cntr *comp_cntr, std::uint64_t *value)
{
	const auto *cntr = own(comp_cntr);
	return cntr ? tally::read_counter(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_ERR, *value) :
		      by_native(native().read_err, comp_cntr, value);
}

TALLY_API int ibv_qp_attach_comp_cntr(ibv_qp *qp, ibv_comp_cntr *comp_cntr, ibv_qp_attach_comp_cntr_attr *attr)
{
	auto *cntr = own(comp_cntr);
	if (!cntr)
		return by_native(native().attach, qp, comp_cntr, attr);
	if (attr->comp_mask || !attr->op_mask || qp->context != comp_cntr->context)
		return EINVAL;
	return tally::uverbs::for_caller(
		tally::uverbs::attach(cntr->facts->endpoint, qp->handle, comp_cntr->handle, attr->op_mask));
}
