// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Groups: counters side by side in one piece of memory.
#include "counter_life.hpp"
#include "public_api.hpp"
#include "waits.hpp"

#include <limits>
#include <memory>
#include <sys/mman.h>
#include <vector>

// Owns its counters, and the memory if the caller has none.
struct tally_comp_cntr_group {
	std::vector<ibv_comp_cntr *> cntrs;
	std::uint32_t stride = 0;
	const std::byte *words = nullptr; // where this process sees the counts, or null
	void *mapping = nullptr;	  // the group's own memory
	std::size_t mapped = 0;

	tally_comp_cntr_group() = default;
	tally_comp_cntr_group(const tally_comp_cntr_group &) = delete;
	tally_comp_cntr_group &operator=(const tally_comp_cntr_group &) = delete;

	~tally_comp_cntr_group()
	{
		if (mapping)
			munmap(mapping, mapped);
	}

	// The first error; what cannot be destroyed stays in its place.
	int destroy_counters() noexcept
	{
		int err = 0;
		for (auto &cntr : cntrs) {
			const int one = cntr ? tally::destroy_counter(tally::own(cntr)) : 0;
			if (!one)
				cntr = nullptr;
			else if (!err)
				err = one;
		}
		return err;
	}

	bool holds(std::uint32_t first, std::uint32_t num) const noexcept
	{
		return first <= cntrs.size() && num <= cntrs.size() - first;
	}
};

namespace {

using group = tally_comp_cntr_group;

// Private memory of the process, in whole pages.
int map_own_memory(group &g, std::size_t bytes, tally_memory &memory) noexcept
{
	void *range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (range == MAP_FAILED)
		return ENOMEM;
	g.mapping = range;
	g.mapped = bytes;
	memory = {.type = TALLY_MEMORY_VA, .fd = -1, .addr = range, .offset = 0};
	return 0;
}

tally_memory shifted(const tally_memory &memory, std::size_t bytes) noexcept
{
	auto place = memory;
	if (place.addr)
		place.addr = static_cast<std::byte *>(place.addr) + bytes;
	place.offset += bytes;
	return place;
}

int create(ibv_context *context, const tally_comp_cntr_group_attr &attr, group &g)
{
	constexpr std::uint32_t pair = sizeof(tally_comp_cntr_value);
	g.stride = attr.stride ? attr.stride : pair;
	if (attr.comp_mask || attr.flags || !attr.num || g.stride < pair || g.stride % sizeof(std::uint64_t))
		return EINVAL;

	std::uint64_t bytes = std::uint64_t{attr.num} * g.stride;
	if (bytes > std::numeric_limits<std::size_t>::max() || attr.memory.offset + bytes < bytes)
		return EINVAL;

	auto memory = attr.memory;
	if (tally::number_in(memory.type) == TALLY_MEMORY_LIBRARY)
		if (const int err = map_own_memory(g, bytes, memory))
			return err;
	g.words = static_cast<const std::byte *>(memory.addr);

	g.cntrs.reserve(attr.num);
	for (std::uint32_t i = 0; i < attr.num; ++i) {
		const auto at = std::size_t{i} * g.stride;
		tally::counter *cntr;
		if (const int err =
			    tally::create_counter(context, tally::number_in(attr.type),
						  shifted(memory, at + offsetof(tally_comp_cntr_value, comp)),
						  shifted(memory, at + offsetof(tally_comp_cntr_value, err)), cntr))
			return err;
		cntr->in_group = true;
		g.cntrs.push_back(&cntr->verbs);
	}
	return 0;
}

int create_guarded(ibv_context *context, const tally_comp_cntr_group_attr &attr,
		   std::unique_ptr<group> &created) noexcept
try {
	auto g = std::make_unique<group>();
	if (const int err = create(context, attr, *g)) {
		g->destroy_counters(); // never attached, so none can stay
		return err;
	}
	created = std::move(g);
	return 0;
} catch (...) {
	return ENOMEM;
}

} // namespace

TALLY_API group *tally_create_comp_cntr_group(ibv_context *context, const tally_comp_cntr_group_attr *attr)
{
	std::unique_ptr<group> created;
	if (const int err = create_guarded(context, *attr, created)) {
		errno = err;
		return nullptr;
	}
	return created.release();
}

TALLY_API int tally_destroy_comp_cntr_group(group *g)
{
	if (const int err = g->destroy_counters())
		return err;
	delete g;
	return 0;
}

TALLY_API std::uint32_t tally_comp_cntr_group_size(const group *g)
{
	return static_cast<std::uint32_t>(g->cntrs.size());
}

TALLY_API ibv_comp_cntr *tally_comp_cntr_group_at(const group *g, std::uint32_t index)
{
	return index < g->cntrs.size() ? g->cntrs[index] : nullptr;
}

TALLY_API const tally_comp_cntr_value *tally_comp_cntr_group_words(const group *g, std::uint32_t *stride)
{
	if (stride)
		*stride = g->stride;
	return reinterpret_cast<const tally_comp_cntr_value *>(g->words);
}

TALLY_API int tally_read_comp_cntr_group(const group *g, std::uint32_t first, std::uint32_t num,
					 tally_comp_cntr_value *values)
{
	if (!g->holds(first, num))
		return EINVAL;
	if (g->words) {
		const auto *at = g->words + std::size_t{first} * g->stride;
		for (std::uint32_t i = 0; i < num; ++i, at += g->stride) {
			const auto *pair = reinterpret_cast<const tally_comp_cntr_value *>(at);
			values[i] = {.comp = tally::load(&pair->comp), .err = tally::load(&pair->err)};
		}
		return 0;
	}
	for (std::uint32_t i = 0; i < num; ++i) {
		const auto *cntr = g->cntrs[first + i] ? tally::own(g->cntrs[first + i]) : nullptr;
		if (!cntr)
			return EINVAL;
		if (const int err = tally::read_counter(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_COMP, values[i].comp))
			return err;
		if (const int err = tally::read_counter(*cntr, IB_UVERBS_COMP_CNTR_ENTRY_ERR, values[i].err))
			return err;
	}
	return 0;
}

TALLY_API int tally_wait_comp_cntr_group(const group *g, std::uint32_t first, std::uint32_t num,
					 const tally_comp_cntr_target *targets, std::uint32_t flags,
					 std::uint64_t timeout_ns, std::uint32_t *index)
{
	if (!g->holds(first, num))
		return EINVAL;
	return tally::wait(std::span{g->cntrs}.subspan(first, num), {targets, num}, flags, timeout_ns, index);
}
