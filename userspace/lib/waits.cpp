// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Waits and notifications.
#include "waits.hpp"
#include "counter_life.hpp"
#include "public_api.hpp"

#include <algorithm>
#include <array>

namespace tally {
namespace {

// Is the wait over, as far as the process can see for itself?  Only a reached target is decided here; whether a moved
// error count ends the wait is the kernel's to say, which looks at all of it in one order.
bool over(std::span<ibv_comp_cntr *const> cntrs, std::span<const tally_comp_cntr_target> targets, bool any,
	  std::uint32_t &index) noexcept
{
	for (std::size_t i = 0; i < cntrs.size(); ++i) {
		const auto *cntr = own(cntrs[i]);
		const bool reached = cntr->comp && tally_comp_cntr_reached(load(cntr->comp), targets[i].value);
		if (reached && any) {
			index = static_cast<std::uint32_t>(i);
			return true;
		}
		if (!reached && !any)
			return false;
	}
	if (!any)
		index = 0;
	return !any;
}

} // namespace

int wait(std::span<ibv_comp_cntr *const> cntrs, std::span<const tally_comp_cntr_target> targets, std::uint32_t flags,
	 std::uint64_t timeout_ns, std::uint32_t *index) noexcept
{
	if (cntrs.empty() || cntrs.size() > TALLY_COMP_CNTR_WAIT_MAX ||
	    (flags & ~std::uint32_t{TALLY_COMP_CNTR_WAIT_ANY}))
		return EINVAL;

	std::array<std::uint32_t, TALLY_COMP_CNTR_WAIT_MAX> handles;
	for (std::size_t i = 0; i < cntrs.size(); ++i) {
		const auto *cntr = own(cntrs[i]);
		if (!cntr || !cntr->facts->extensions)
			return ENOTSUP;
		if (cntrs[i]->context != cntrs[0]->context || std::find(&cntrs[0], &cntrs[i], cntrs[i]) != &cntrs[i])
			return EINVAL;
		handles[i] = cntrs[i]->handle;
	}

	// Commands of a device that has gone end with EIO, too, but say of no counter that it ended them.
	constexpr std::uint32_t nobody = TALLY_COMP_CNTR_WAIT_MAX;
	std::uint32_t at = nobody;
	int err = 0;
	if (!over(cntrs, targets, flags & TALLY_COMP_CNTR_WAIT_ANY, at))
		err = uverbs::wait(own(cntrs[0])->facts->endpoint, std::span{handles}.first(cntrs.size()), targets,
				   timeout_ns, flags, at);
	if (err == EIO && at == nobody)
		err = ENODEV;
	if (index && (!err || err == EIO))
		*index = at;
	return uverbs::for_caller(err);
}

} // namespace tally

TALLY_API int tally_wait_comp_cntr(ibv_comp_cntr *cntr, std::uint64_t target, std::uint64_t err_seen,
				   std::uint64_t timeout_ns)
{
	const tally_comp_cntr_target one{.value = target, .err_seen = err_seen};
	return tally::wait({&cntr, 1}, {&one, 1}, 0, timeout_ns, nullptr);
}

TALLY_API int tally_wait_comp_cntrs(ibv_comp_cntr *const *cntrs, const tally_comp_cntr_target *targets,
				    std::uint32_t num, std::uint32_t flags, std::uint64_t timeout_ns,
				    std::uint32_t *index)
{
	return tally::wait({cntrs, num}, {targets, num}, flags, timeout_ns, index);
}

TALLY_API int tally_notify_comp_cntr(ibv_comp_cntr *comp_cntr, std::uint64_t target, const std::uint64_t *err_seen,
				     int eventfd)
{
	const auto *cntr = tally::own(comp_cntr);
	if (!cntr || !cntr->facts->extensions)
		return ENOTSUP;
	const int err = tally::uverbs::notify(cntr->facts->endpoint, comp_cntr->handle, eventfd, target,
					      err_seen ? std::optional{*err_seen} : std::nullopt);
	return err == EIO ? ENODEV : tally::uverbs::for_caller(err); // EIO: the device has gone already
}
