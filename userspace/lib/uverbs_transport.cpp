// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "uverbs_transport.hpp"

#include <atomic>
#include <sys/ioctl.h>

namespace tally::uverbs {
namespace {

int ioctl_transport(int cmd_fd, ib_uverbs_ioctl_hdr *command)
{
	return ioctl(cmd_fd, RDMA_VERBS_IOCTL, command) ? errno : 0;
}

constinit std::atomic<transport> current{ioctl_transport};

} // namespace

transport set_transport(transport next) noexcept
{
	return current.exchange(next ? next : ioctl_transport);
}

int issue(int cmd_fd, ib_uverbs_ioctl_hdr *command) noexcept
{
	return current.load(std::memory_order_relaxed)(cmd_fd, command);
}

} // namespace tally::uverbs
