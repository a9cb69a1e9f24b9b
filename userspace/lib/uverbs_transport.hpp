// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The one place where a command of the uverbs ioctl ABI leaves the process.
#pragma once

#include <cerrno>
#include <rdma/rdma_user_ioctl_cmds.h>

namespace tally::uverbs {

// Hands a command to the kernel; 0 or the errno value.
using transport = int (*)(int cmd_fd, ib_uverbs_ioctl_hdr *command);

// What commands go through; the native tests put a kernel of their own here.  Returns the former one.
transport set_transport(transport next) noexcept;

int issue(int cmd_fd, ib_uverbs_ioctl_hdr *command) noexcept;

// The kernel has several ways to say that it does not know an object, a method or an attribute.
constexpr bool means_unsupported(int err) noexcept
{
	return err == EPROTONOSUPPORT || err == ENOTTY || err == ENOSYS || err == EOPNOTSUPP;
}

// ... and the caller is told one.
constexpr int for_caller(int err) noexcept
{
	return means_unsupported(err) ? ENOTSUP : err;
}

} // namespace tally::uverbs
