// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device_facts.hpp"

#include <map>
#include <mutex>
#include <rdma/ib_user_ioctl_verbs.h>

namespace tally {
namespace {

// Every command names the driver it is meant for, and the kernel refuses another's with EINVAL before it looks at
// anything else.  libibverbs knows the driver of a context but keeps it to itself, so the likely ones are tried.
constexpr std::uint32_t driver_ids_end = 64;

int find_driver(int cmd_fd, device_facts &facts) noexcept
{
	const auto try_one = [&](std::uint32_t id) {
		facts.endpoint = {.cmd_fd = cmd_fd, .driver_id = id};
		return uverbs::query_caps(facts.endpoint, facts.caps);
	};

	int err = try_one(RDMA_DRIVER_MLX5);
	for (std::uint32_t id = 0; err == EINVAL && id < driver_ids_end; ++id)
		if (id != RDMA_DRIVER_MLX5)
			err = try_one(id);
	return err == EINVAL ? ENOTSUP : uverbs::for_caller(err);
}

int discover(const ibv_context *context, device_facts &facts) noexcept
{
	if (const int err = find_driver(context->cmd_fd, facts))
		return err;

	facts.cmd_fd_seen = context->cmd_fd;
	facts.device_seen = context->device;
	facts.extensions = uverbs::has_extensions(facts.endpoint);
	// The two buffer attributes of EFA have the ids and layout of ours.  Another driver's attributes in its own
	// namespace may mean anything.
	facts.buffers = facts.extensions || facts.endpoint.driver_id == RDMA_DRIVER_EFA;
	return 0;
}

bool same_context(const device_facts &facts, const ibv_context *context) noexcept
{
	return facts.cmd_fd_seen == context->cmd_fd && facts.device_seen == context->device;
}

struct registry {
	std::mutex lock;
	std::map<const ibv_context *, std::weak_ptr<const device_facts>> known;
};

registry &the_registry()
{
	static auto *r = new registry; // outlives the static destructors of those who still hold counters
	return *r;
}

} // namespace

int facts_of(ibv_context *context, std::shared_ptr<const device_facts> &facts) noexcept
try {
	auto &reg = the_registry();
	const std::scoped_lock guard{reg.lock};

	if (const auto at = reg.known.find(context); at != reg.known.end()) {
		facts = at->second.lock();
		if (facts && same_context(*facts, context))
			return 0;
		reg.known.erase(at);
	}

	auto found = std::make_shared<device_facts>();
	if (const int err = discover(context, *found))
		return err;

	std::erase_if(reg.known, [](const auto &entry) { return entry.second.expired(); });
	reg.known.emplace(context, found);
	facts = std::move(found);
	return 0;
} catch (...) {
	return ENOMEM;
}

} // namespace tally
