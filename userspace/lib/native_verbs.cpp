// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native_verbs.hpp"

#include <atomic>
#include <dlfcn.h>

namespace tally {
namespace {

// RTLD_NEXT misses a libibverbs that was loaded before libtally, so that one is asked for by its name.
void *find(const char *name) noexcept
{
	if (void *symbol = dlsym(RTLD_NEXT, name))
		return symbol;

	void *symbol = nullptr;
	if (void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
		symbol = dlsym(library, name);
		dlclose(library); // gives back only what dlopen() took; the process has it loaded
	}
	return symbol;
}

template <typename Function> void find(Function *&function, const char *name) noexcept
{
	function = reinterpret_cast<Function *>(find(name));
}

native_verbs load() noexcept
{
	native_verbs v;
	find(v.query_caps, "_ibv_query_comp_cntr_caps");
	find(v.create, "ibv_create_comp_cntr");
	find(v.destroy, "ibv_destroy_comp_cntr");
	find(v.set, "ibv_set_comp_cntr");
	find(v.set_err, "ibv_set_err_comp_cntr");
	find(v.inc, "ibv_inc_comp_cntr");
	find(v.inc_err, "ibv_inc_err_comp_cntr");
	find(v.read, "ibv_read_comp_cntr");
	find(v.read_err, "ibv_read_err_comp_cntr");
	find(v.attach, "ibv_qp_attach_comp_cntr");
	return v.complete() ? v : native_verbs{};
}

constinit std::atomic<const native_verbs *> replaced{nullptr};

} // namespace

const native_verbs &native() noexcept
{
	if (const auto *verbs = replaced.load(std::memory_order_acquire))
		return *verbs;
	static const native_verbs loaded = load();
	return loaded;
}

void set_native_verbs(const native_verbs *verbs) noexcept
{
	replaced.store(verbs, std::memory_order_release);
}

} // namespace tally
