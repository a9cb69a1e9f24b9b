// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The completion counters' methods of the uverbs ABI, one function each.  All return 0 or the kernel's errno value.
#pragma once

#include "uverbs_command.hpp"

#include <optional>
#include <tally/verbs.h>
#include <rdma/tally-abi.h>

namespace tally::uverbs {

// A device context as the ioctl ABI sees it.
struct endpoint {
	int cmd_fd;
	std::uint32_t driver_id;
};

namespace attrs {

inline constexpr out<std::uint32_t> caps_max_counters{UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS};
inline constexpr out<std::uint64_t> caps_max_value{UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE};
inline constexpr out<std::uint32_t> caps_ops{UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS};

inline constexpr object attach_qp{UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE};
inline constexpr object attach_cntr{UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE};
inline constexpr in<std::uint32_t> attach_ops{UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK};

inline constexpr new_object create_handle{UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE};
inline constexpr in<ib_uverbs_buffer_desc> create_comp_buffer{TALLY_ATTR_CREATE_COMP_CNTR_COMP_BUFFER};
inline constexpr in<ib_uverbs_buffer_desc> create_err_buffer{TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER};
inline constexpr constant<tally_comp_cntr_type> create_type{TALLY_ATTR_CREATE_COMP_CNTR_TYPE};

inline constexpr object destroy_handle{UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE};

inline constexpr object modify_handle{UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE};
inline constexpr constant<ib_uverbs_comp_cntr_entry> modify_entry{UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY};
inline constexpr constant<ib_uverbs_comp_cntr_modify_op> modify_op{UVERBS_ATTR_MODIFY_COMP_CNTR_OP};
inline constexpr in<std::uint64_t> modify_value{UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE};

inline constexpr object read_handle{UVERBS_ATTR_READ_COMP_CNTR_HANDLE};
inline constexpr constant<ib_uverbs_comp_cntr_entry> read_entry{UVERBS_ATTR_READ_COMP_CNTR_ENTRY};
inline constexpr out<std::uint64_t> read_value{UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE};

inline constexpr objects wait_handles{TALLY_ATTR_WAIT_COMP_CNTR_HANDLES};
inline constexpr in_array<tally_comp_cntr_target> wait_targets{TALLY_ATTR_WAIT_COMP_CNTR_TARGETS};
inline constexpr in<std::uint64_t> wait_timeout{TALLY_ATTR_WAIT_COMP_CNTR_TIMEOUT_NS};
inline constexpr in<std::uint32_t> wait_flags{TALLY_ATTR_WAIT_COMP_CNTR_FLAGS};
inline constexpr out<std::uint32_t> wait_index{TALLY_ATTR_WAIT_COMP_CNTR_RESP_INDEX};

inline constexpr object notify_handle{TALLY_ATTR_NOTIFY_COMP_CNTR_HANDLE};
inline constexpr file notify_eventfd{TALLY_ATTR_NOTIFY_COMP_CNTR_EVENTFD};
inline constexpr in<std::uint64_t> notify_target{TALLY_ATTR_NOTIFY_COMP_CNTR_TARGET};
inline constexpr in<std::uint64_t> notify_err_seen{TALLY_ATTR_NOTIFY_COMP_CNTR_ERR_SEEN};

} // namespace attrs

struct comp_cntr_caps {
	std::uint64_t max_value = 0;
	std::uint32_t max_counters = 0;
	std::uint32_t ops = 0;
};

inline int query_caps(endpoint ep, comp_cntr_caps &caps) noexcept
{
	return command{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS,
		       put(attrs::caps_max_counters, caps.max_counters), put(attrs::caps_max_value, caps.max_value),
		       put(attrs::caps_ops, caps.ops)}
		.run(ep.cmd_fd, ep.driver_id);
}

struct comp_cntr_buffers {
	ib_uverbs_buffer_desc comp;
	ib_uverbs_buffer_desc err;
};

// Without buffers the kernel keeps the counts.
inline int create(endpoint ep, tally_comp_cntr_type type, const comp_cntr_buffers *buffers,
		  std::uint32_t &handle) noexcept
{
	static constexpr comp_cntr_buffers none{};
	const comp_cntr_buffers &b = buffers ? *buffers : none;

	return command{UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_CREATE, put(attrs::create_handle, handle),
		       put_if(buffers, put(attrs::create_comp_buffer, b.comp)),
		       put_if(buffers, put(attrs::create_err_buffer, b.err)),
		       put_if(type != TALLY_COMP_CNTR_TYPE_WRS, put(attrs::create_type, type))}
		.run(ep.cmd_fd, ep.driver_id);
}

inline int destroy(endpoint ep, std::uint32_t handle) noexcept
{
	return command{UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_DESTROY, put(attrs::destroy_handle, handle)}
		.run(ep.cmd_fd, ep.driver_id);
}

inline int modify(endpoint ep, std::uint32_t handle, ib_uverbs_comp_cntr_entry entry, ib_uverbs_comp_cntr_modify_op op,
		  std::uint64_t value) noexcept
{
	return command{UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_MODIFY, put(attrs::modify_handle, handle),
		       put(attrs::modify_entry, entry), put(attrs::modify_op, op), put(attrs::modify_value, value)}
		.run(ep.cmd_fd, ep.driver_id);
}

inline int read(endpoint ep, std::uint32_t handle, ib_uverbs_comp_cntr_entry entry, std::uint64_t &value) noexcept
{
	return command{UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_READ, put(attrs::read_handle, handle),
		       put(attrs::read_entry, entry), put(attrs::read_value, value)}
		.run(ep.cmd_fd, ep.driver_id);
}

inline int attach(endpoint ep, std::uint32_t qp, std::uint32_t cntr, std::uint32_t ops) noexcept
{
	return command{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR, put(attrs::attach_qp, qp),
		       put(attrs::attach_cntr, cntr), put(attrs::attach_ops, ops)}
		.run(ep.cmd_fd, ep.driver_id);
}

inline int wait(endpoint ep, std::span<const std::uint32_t> handles, std::span<const tally_comp_cntr_target> targets,
		std::uint64_t timeout_ns, std::uint32_t flags, std::uint32_t &index) noexcept
{
	return command{UVERBS_OBJECT_COMP_CNTR, TALLY_METHOD_COMP_CNTR_WAIT, put(attrs::wait_handles, handles),
		       put(attrs::wait_targets, targets), put(attrs::wait_timeout, timeout_ns),
		       put_if(flags, put(attrs::wait_flags, flags)), put(attrs::wait_index, index)}
		.run(ep.cmd_fd, ep.driver_id);
}

inline int notify(endpoint ep, std::uint32_t handle, int eventfd, std::uint64_t target,
		  std::optional<std::uint64_t> err_seen) noexcept
{
	return command{UVERBS_OBJECT_COMP_CNTR, TALLY_METHOD_COMP_CNTR_NOTIFY, put(attrs::notify_handle, handle),
		       put(attrs::notify_eventfd, eventfd), put(attrs::notify_target, target),
		       put_if(err_seen.has_value(), put(attrs::notify_err_seen, err_seen.value_or(0)))}
		.run(ep.cmd_fd, ep.driver_id);
}

// Does the kernel know the extensions for this device?  A command without any attribute: EINVAL for the missing ones
// if it does, EPROTONOSUPPORT if there is no such method.
inline bool has_extensions(endpoint ep) noexcept
{
	return command{UVERBS_OBJECT_COMP_CNTR, TALLY_METHOD_COMP_CNTR_WAIT}.run(ep.cmd_fd, ep.driver_id) == EINVAL;
}

} // namespace tally::uverbs
