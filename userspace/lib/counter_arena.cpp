// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counter_arena.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace tally {
namespace {

constexpr std::size_t most_slots = std::size_t{1} << 20;
constexpr std::size_t least_slots = std::size_t{1} << 10; // when little address space is allowed (RLIMIT_AS)
constexpr std::size_t slots_per_step = 256;		  // made accessible at once: 32 KiB

struct free_link {
	free_link *next;
};

struct arena {
	std::mutex lock;
	// Written once under the lock, read by own() without it: nobody has a counter before they are set.
	std::atomic<std::uintptr_t> base{0};
	std::atomic<std::size_t> size{0};
	// The rest under the lock.
	std::size_t usable = 0; // slots that are accessible
	std::size_t used = 0;	// slots that have been handed out ever
	free_link *freed = nullptr;

	bool reserve() noexcept
	{
		for (auto slots = most_slots; slots >= least_slots; slots /= 2) {
			void *range = mmap(nullptr, slots * sizeof(counter_slot), PROT_NONE,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			if (range == MAP_FAILED)
				continue;
			size.store(slots * sizeof(counter_slot), std::memory_order_relaxed);
			base.store(reinterpret_cast<std::uintptr_t>(range), std::memory_order_release);
			return true;
		}
		return false;
	}

	bool grow() noexcept
	{
		const auto capacity = size.load(std::memory_order_relaxed) / sizeof(counter_slot);
		const auto step = std::min(slots_per_step, capacity - usable);
		void *at =
			reinterpret_cast<void *>(base.load(std::memory_order_relaxed) + usable * sizeof(counter_slot));
		if (!step || mprotect(at, step * sizeof(counter_slot), PROT_READ | PROT_WRITE))
			return false;
		usable += step;
		return true;
	}

	void *take() noexcept
	{
		const std::scoped_lock guard{lock};
		if (freed)
			return std::exchange(freed, freed->next);
		if (!base.load(std::memory_order_relaxed) && !reserve())
			return nullptr;
		if (used == usable && !grow())
			return nullptr;
		return reinterpret_cast<void *>(base.load(std::memory_order_relaxed) + used++ * sizeof(counter_slot));
	}

	void give_back(void *slot) noexcept
	{
		const std::scoped_lock guard{lock};
		freed = new (slot) free_link{freed};
	}

	bool contains(const void *p) const noexcept
	{
		const auto from = base.load(std::memory_order_acquire);
		return reinterpret_cast<std::uintptr_t>(p) - from < size.load(std::memory_order_relaxed);
	}
};

constinit arena the_arena;

} // namespace

counter_slot *allocate_slot() noexcept
{
	void *memory = the_arena.take();
	return memory ? new (memory) counter_slot : nullptr;
}

void free_slot(counter_slot *slot) noexcept
{
	slot->~counter_slot();
	the_arena.give_back(slot);
}

counter *own(ibv_comp_cntr *cntr) noexcept
{
	return the_arena.contains(cntr) ? reinterpret_cast<counter *>(cntr) : nullptr;
}

const counter *own(const ibv_comp_cntr *cntr) noexcept
{
	return the_arena.contains(cntr) ? reinterpret_cast<const counter *>(cntr) : nullptr;
}

} // namespace tally
