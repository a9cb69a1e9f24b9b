// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counter_life.hpp"

namespace tally {
namespace {

constexpr std::size_t count_bytes = sizeof(std::uint64_t);

ib_uverbs_buffer_desc at_address(const void *address) noexcept
{
	return {.type = IB_UVERBS_BUFFER_TYPE_VA,
		.fd = -1,
		.flags = 0,
		.optional_flags = 0,
		.addr = reinterpret_cast<std::uintptr_t>(address),
		.length = count_bytes};
}

// EINVAL: no memory the caller could have meant.
int describe(const tally_memory &memory, ib_uverbs_buffer_desc &desc) noexcept
{
	switch (number_in(memory.type)) {
	case TALLY_MEMORY_VA:
		desc = at_address(memory.addr);
		break;
	case TALLY_MEMORY_DMABUF:
		desc = {.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
			.fd = memory.fd,
			.flags = 0,
			.optional_flags = 0,
			.addr = memory.offset,
			.length = count_bytes};
		if (reinterpret_cast<std::uintptr_t>(memory.addr) % count_bytes)
			return EINVAL;
		break;
	default:
		return EINVAL;
	}
	return desc.addr % count_bytes ? EINVAL : 0;
}

tally_comp_cntr_type in_kernel(type_number type) noexcept
{
	return type == IBV_COMP_CNTR_TYPE_BYTES ? TALLY_COMP_CNTR_TYPE_BYTES : TALLY_COMP_CNTR_TYPE_WRS;
}

// A slot with the facts of its device, without a counter of the kernel yet.
int prepare(ibv_context *context, type_number type, counter_slot *&slot) noexcept
{
	if (type != IBV_COMP_CNTR_TYPE_WRS && type != IBV_COMP_CNTR_TYPE_BYTES)
		return ENOTSUP;

	std::shared_ptr<const device_facts> facts;
	if (const int err = facts_of(context, facts))
		return err;
	if (type != IBV_COMP_CNTR_TYPE_WRS && !facts->extensions)
		return ENOTSUP;

	slot = allocate_slot();
	if (!slot)
		return ENOMEM;
	slot->control.verbs.context = context;
	slot->control.facts = std::move(facts);
	return 0;
}

} // namespace

int create_counter(ibv_context *context, type_number type, counter *&created) noexcept
{
	counter_slot *slot;
	if (const int err = prepare(context, type, slot))
		return err;

	auto &cntr = slot->control;
	int err = ENOMEM;
	if (cntr.facts->buffers) {
		const uverbs::comp_cntr_buffers buffers{at_address(&slot->comp), at_address(&slot->err)};
		err = uverbs::create(cntr.facts->endpoint, in_kernel(type), &buffers, cntr.verbs.handle);
		if (!err) {
			cntr.comp = &slot->comp;
			cntr.err = &slot->err;
		}
	}
	// No such buffers, or no more pages may be pinned: the kernel has to keep the counts.
	if (err == ENOMEM || err == EPERM)
		err = uverbs::create(cntr.facts->endpoint, in_kernel(type), nullptr, cntr.verbs.handle);

	if (err) {
		free_slot(slot);
		return uverbs::for_caller(err);
	}
	created = &cntr;
	return 0;
}

int create_counter(ibv_context *context, type_number type, const tally_memory &comp, const tally_memory &err_memory,
		   counter *&created) noexcept
{
	uverbs::comp_cntr_buffers buffers{};
	if (const int err = describe(comp, buffers.comp))
		return err;
	if (const int err = describe(err_memory, buffers.err))
		return err;

	counter_slot *slot;
	if (const int err = prepare(context, type, slot))
		return err;

	auto &cntr = slot->control;
	const int err = cntr.facts->buffers ?
				uverbs::create(cntr.facts->endpoint, in_kernel(type), &buffers, cntr.verbs.handle) :
				ENOTSUP;
	if (err) {
		free_slot(slot);
		return uverbs::for_caller(err);
	}
	cntr.comp = static_cast<const std::uint64_t *>(comp.addr);
	cntr.err = static_cast<const std::uint64_t *>(err_memory.addr);
	created = &cntr;
	return 0;
}

int destroy_counter(counter *cntr) noexcept
{
	const int err = uverbs::destroy(cntr->facts->endpoint, cntr->verbs.handle);
	// EIO: the device is gone, and the kernel has destroyed all of its objects.
	if (err && err != EIO)
		return uverbs::for_caller(err);
	free_slot(slot_of(cntr));
	return 0;
}

int read_counter(const counter &cntr, ib_uverbs_comp_cntr_entry entry, std::uint64_t &value) noexcept
{
	const auto *count = entry == IB_UVERBS_COMP_CNTR_ENTRY_COMP ? cntr.comp : cntr.err;
	if (count) {
		value = load(count);
		return 0;
	}
	return uverbs::for_caller(uverbs::read(cntr.facts->endpoint, cntr.verbs.handle, entry, value));
}

} // namespace tally
