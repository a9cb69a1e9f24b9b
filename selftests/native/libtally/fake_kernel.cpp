// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_kernel.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace tally::test {
namespace {

fake_kernel *current = nullptr;

} // namespace

// The attributes of a command by id; remembers which were looked at.  The first complaint is the answer.
struct fake_kernel::attributes {
	explicit attributes(ib_uverbs_ioctl_hdr *command)
	{
		for (std::size_t i = 0; i < command->num_attrs; ++i) {
			auto &attr = command->attrs[i];
			if (!by_id.emplace(attr.attr_id, &attr).second || attr.attr_data.reserved)
				err = EINVAL;
		}
	}

	ib_uverbs_attr *take(std::uint16_t id, bool mandatory)
	{
		known.insert(id);
		const auto at = by_id.find(id);
		if (at != by_id.end())
			return at->second;
		if (mandatory)
			err = EINVAL;
		return nullptr;
	}

	std::uint64_t idr(std::uint16_t id)
	{
		auto *attr = take(id, true);
		if (attr && attr->len)
			err = EINVAL;
		return attr ? attr->data : 0;
	}

	ib_uverbs_attr *new_idr(std::uint16_t id) { return take(id, true); }

	template <typename T> std::optional<T> value(std::uint16_t id, bool mandatory)
	{
		const auto *attr = take(id, mandatory);
		if (!attr)
			return std::nullopt;
		T out{};
		if (attr->len != sizeof(T)) {
			err = EINVAL;
			return out;
		}
		if (sizeof(T) <= sizeof(attr->data))
			std::memcpy(&out, &attr->data, sizeof(T));
		else
			std::memcpy(&out, reinterpret_cast<const void *>(attr->data), sizeof(T));
		return out;
	}

	template <typename T> std::vector<T> array(std::uint16_t id)
	{
		const auto *attr = take(id, true);
		if (!attr)
			return {};
		if (attr->len % sizeof(T)) {
			err = EINVAL;
			return {};
		}
		std::vector<T> out(attr->len / sizeof(T));
		if (attr->len <= sizeof(attr->data))
			std::memcpy(out.data(), &attr->data, attr->len);
		else
			std::memcpy(out.data(), reinterpret_cast<const void *>(attr->data), attr->len);
		return out;
	}

	template <typename T> void answer(std::uint16_t id, T value)
	{
		auto *attr = take(id, true);
		if (!attr)
			return;
		if (attr->len != sizeof(T)) {
			err = EINVAL;
			return;
		}
		std::memcpy(reinterpret_cast<void *>(attr->data), &value, sizeof(T));
		attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	}

	// An attribute that nobody looked at is one this kernel does not know.
	int verdict() const
	{
		for (const auto &[id, attr] : by_id)
			if (!known.contains(id) && (attr->flags & UVERBS_ATTR_F_MANDATORY))
				return EPROTONOSUPPORT;
		return err;
	}

	std::map<std::uint16_t, ib_uverbs_attr *> by_id;
	std::set<std::uint16_t> known;
	int err = 0;
};

fake_kernel::fake_kernel()
{
	EXPECT_EQ(current, nullptr) << "one kernel at a time";
	current = this;
	context_.device = &device_;
	context_.cmd_fd = 1234;
	former_ = uverbs::set_transport(entry);
}

fake_kernel::~fake_kernel()
{
	uverbs::set_transport(former_);
	current = nullptr;
}

ibv_qp fake_kernel::make_qp(std::uint32_t handle)
{
	ibv_qp qp{};
	qp.context = &context_;
	qp.handle = handle;
	return qp;
}

std::size_t fake_kernel::calls(std::uint16_t object, std::uint16_t method) const
{
	return static_cast<std::size_t>(std::ranges::count(commands, std::pair{object, method}));
}

void fake_kernel::destroy_qp(std::uint32_t qp)
{
	std::set<std::uint32_t> held;
	std::erase_if(attachments, [&](const auto &entry) {
		if (entry.first.first != qp)
			return false;
		held.insert(entry.second);
		return true;
	});
	for (const auto handle : held)
		--alive.at(handle).attached;
}

int fake_kernel::entry(int fd, ib_uverbs_ioctl_hdr *command)
{
	current->cmd_fd = fd;
	return current->run(command);
}

kernel_counter *fake_kernel::find(std::uint64_t handle)
{
	const auto at = alive.find(static_cast<std::uint32_t>(handle));
	return at == alive.end() ? nullptr : &at->second;
}

int fake_kernel::run(ib_uverbs_ioctl_hdr *command)
{
	const std::pair key{command->object_id, command->method_id};
	commands.push_back(key);

	if (command->length != sizeof(*command) + command->num_attrs * sizeof(command->attrs[0]))
		return EINVAL;
	if (command->reserved1 || command->reserved2)
		return EPROTONOSUPPORT;
	if (command->driver_id != driver_id)
		return EINVAL;
	if (!counters)
		return EPROTONOSUPPORT;
	if (const auto failure = failures.find(key); failure != failures.end())
		return failure->second;

	attributes a(command);
	if (key == std::pair{device_object, std::uint16_t{UVERBS_METHOD_QUERY_COMP_CNTR_CAPS}})
		return query_caps(a);
	if (key == std::pair{qp_object, std::uint16_t{UVERBS_METHOD_QP_ATTACH_COMP_CNTR}})
		return attach(a);
	if (key.first != counter_object)
		return EPROTONOSUPPORT;
	switch (key.second) {
	case UVERBS_METHOD_COMP_CNTR_CREATE:
		return create(a);
	case UVERBS_METHOD_COMP_CNTR_DESTROY:
		return destroy(a);
	case UVERBS_METHOD_COMP_CNTR_MODIFY:
		return modify(a);
	case UVERBS_METHOD_COMP_CNTR_READ:
		return read(a);
	case TALLY_METHOD_COMP_CNTR_WAIT:
		return extensions ? wait(a) : EPROTONOSUPPORT;
	case TALLY_METHOD_COMP_CNTR_NOTIFY:
		return extensions ? notify(a) : EPROTONOSUPPORT;
	default:
		return EPROTONOSUPPORT;
	}
}

int fake_kernel::query_caps(attributes &a)
{
	a.answer<std::uint32_t>(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, max_counters);
	a.answer<std::uint64_t>(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, UINT64_MAX);
	a.answer<std::uint32_t>(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, ops);
	return a.verdict();
}

int fake_kernel::attach(attributes &a)
{
	const auto qp = static_cast<std::uint32_t>(a.idr(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE));
	const auto handle = static_cast<std::uint32_t>(a.idr(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE));
	const auto mask = a.value<std::uint32_t>(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, true).value_or(0);
	if (const int err = a.verdict())
		return err;

	auto *cntr = find(handle);
	if (!cntr)
		return ENOENT;
	if (mask & ~ops)
		return EOPNOTSUPP;
	if (busy_qps.contains(qp))
		return EINVAL;
	for (std::uint32_t bit = 1; bit; bit <<= 1)
		if ((mask & bit) && attachments.contains({qp, bit}))
			return EBUSY;
	const bool first = std::ranges::none_of(
		attachments, [&](const auto &entry) { return entry.first.first == qp && entry.second == handle; });
	cntr->attached += first;
	for (std::uint32_t bit = 1; bit; bit <<= 1)
		if (mask & bit)
			attachments[{qp, bit}] = handle;
	return 0;
}

int fake_kernel::create(attributes &a)
{
	auto *created = a.new_idr(UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE);
	std::optional<ib_uverbs_buffer_desc> comp, err;
	std::uint64_t type = 0;
	if (extensions || driver_id == 17 /* RDMA_DRIVER_EFA */) {
		comp = a.value<ib_uverbs_buffer_desc>(TALLY_ATTR_CREATE_COMP_CNTR_COMP_BUFFER, false);
		err = a.value<ib_uverbs_buffer_desc>(TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, false);
	}
	if (extensions)
		type = a.value<std::uint64_t>(TALLY_ATTR_CREATE_COMP_CNTR_TYPE, false).value_or(0);
	if (const int verdict = a.verdict())
		return verdict;
	if (comp.has_value() != err.has_value())
		return EINVAL;
	if (type > TALLY_COMP_CNTR_TYPE_BYTES)
		return EOPNOTSUPP;
	if (alive.size() >= max_counters)
		return ENOMEM;
	if (comp && buffer_failure)
		return buffer_failure;

	auto &cntr = alive[next_handle_];
	cntr.type = static_cast<tally_comp_cntr_type>(type);
	if (comp) {
		cntr.buffers = {*comp, *err};
		for (const auto *desc : {&*comp, &*err})
			if (desc->flags || desc->addr % 8 || desc->length != 8) {
				alive.erase(next_handle_);
				return EINVAL;
			}
		if (comp->type == IB_UVERBS_BUFFER_TYPE_VA) {
			cntr.comp = reinterpret_cast<std::uint64_t *>(comp->addr);
			cntr.err = reinterpret_cast<std::uint64_t *>(err->addr);
		}
	}
	*cntr.comp = *cntr.err = 0;
	created->data = next_handle_++;
	return 0;
}

int fake_kernel::destroy(attributes &a)
{
	const auto handle = a.idr(UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE);
	if (const int err = a.verdict())
		return err;
	const auto *cntr = find(handle);
	if (!cntr)
		return ENOENT;
	if (cntr->attached)
		return EBUSY;
	alive.erase(static_cast<std::uint32_t>(handle));
	return 0;
}

int fake_kernel::modify(attributes &a)
{
	const auto handle = a.idr(UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE);
	const auto entry = a.value<std::uint64_t>(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, true).value_or(9);
	const auto op = a.value<std::uint64_t>(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, true).value_or(9);
	const auto value = a.value<std::uint64_t>(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, true).value_or(0);
	if (const int err = a.verdict())
		return err;
	auto *cntr = find(handle);
	if (!cntr)
		return ENOENT;
	if (entry > 1 || op > 1)
		return EINVAL;
	auto *count = entry == IB_UVERBS_COMP_CNTR_ENTRY_COMP ? cntr->comp : cntr->err;
	*count = value + (op == IB_UVERBS_COMP_CNTR_MODIFY_OP_INC ? *count : 0);
	return 0;
}

int fake_kernel::read(attributes &a)
{
	const auto handle = a.idr(UVERBS_ATTR_READ_COMP_CNTR_HANDLE);
	const auto entry = a.value<std::uint64_t>(UVERBS_ATTR_READ_COMP_CNTR_ENTRY, true).value_or(9);
	auto *cntr = find(handle);
	a.answer<std::uint64_t>(UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE,
				cntr ? *(entry == IB_UVERBS_COMP_CNTR_ENTRY_COMP ? cntr->comp : cntr->err) : 0);
	if (const int err = a.verdict())
		return err;
	return !cntr ? ENOENT : entry > 1 ? EINVAL : 0;
}

int fake_kernel::wait(attributes &a)
{
	waited_handles = a.array<std::uint32_t>(TALLY_ATTR_WAIT_COMP_CNTR_HANDLES);
	waited_targets = a.array<tally_comp_cntr_target>(TALLY_ATTR_WAIT_COMP_CNTR_TARGETS);
	waited_timeout = a.value<std::uint64_t>(TALLY_ATTR_WAIT_COMP_CNTR_TIMEOUT_NS, true).value_or(0);
	waited_flags = a.value<std::uint32_t>(TALLY_ATTR_WAIT_COMP_CNTR_FLAGS, false).value_or(0);
	if (a.err)
		return a.err;
	if (waited_handles.empty() || waited_handles.size() != waited_targets.size())
		return EINVAL;
	for (const auto handle : waited_handles)
		if (!find(handle))
			return ENOENT;
	a.answer<std::uint32_t>(TALLY_ATTR_WAIT_COMP_CNTR_RESP_INDEX, wait_index);
	if (const int err = a.verdict())
		return err;
	return wait_answer;
}

int fake_kernel::notify(attributes &a)
{
	notification n{};
	n.handle = static_cast<std::uint32_t>(a.idr(TALLY_ATTR_NOTIFY_COMP_CNTR_HANDLE));
	const auto *fd = a.take(TALLY_ATTR_NOTIFY_COMP_CNTR_EVENTFD, true);
	n.fd = fd && !fd->len ? static_cast<int>(fd->data_s64) : -1;
	n.target = a.value<std::uint64_t>(TALLY_ATTR_NOTIFY_COMP_CNTR_TARGET, true).value_or(0);
	n.err_seen = a.value<std::uint64_t>(TALLY_ATTR_NOTIFY_COMP_CNTR_ERR_SEEN, false);
	if (const int err = a.verdict())
		return err;
	if (!find(n.handle))
		return ENOENT;
	if (n.fd < 0)
		return EBADF;
	notifications.push_back(n);
	return 0;
}

} // namespace tally::test
