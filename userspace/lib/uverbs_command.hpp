// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Commands of the uverbs ioctl ABI: a header and an array of attributes.
//
// An attribute is described once, as a constant of one of the kinds below, which says its id and what it carries;
// put() then takes a value of just that kind.  A command is a method and its attributes, sized by their number:
//
//	constexpr uverbs::in<std::uint64_t> modify_value{UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE};
//
//	return uverbs::command{UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_MODIFY, put(handle, h),
//			       put(modify_value, value)}.run(cmd_fd, driver_id);
//
// All attributes are sent as mandatory: a kernel that does not know one refuses the command (EPROTONOSUPPORT)
// instead of doing something else than was asked for.
#pragma once

#include "uverbs_transport.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

namespace tally::uverbs {

using attr_id = std::uint16_t;

template <typename T>
concept payload = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && sizeof(T) <= UINT16_MAX;

// A value or struct for the kernel: within the attribute up to 8 bytes, by pointer beyond.
template <payload T> struct in {
	attr_id id;
};

// An array of them; the same rule goes for its size in bytes.
template <payload T> struct in_array {
	attr_id id;
};

// A value or struct from the kernel, always by pointer.
template <payload T> struct out {
	attr_id id;
};

// A number out of an enum, always 8 bytes within the attribute.
template <typename E> struct constant {
	attr_id id;
};

// The handle of an object; of one the command creates; of several; and a file descriptor.
struct object {
	attr_id id;
};
struct new_object {
	attr_id id;
};
struct objects {
	attr_id id;
};
struct file {
	attr_id id;
};

// An attribute with its value, ready for a command.
struct argument {
	ib_uverbs_attr attr{};
	std::uint32_t *created = nullptr; // where the handle of a new object goes
	bool present = true;
	bool fits = true; // its length can be told in 16 bits
};

namespace detail {

inline argument header(attr_id id) noexcept
{
	argument arg;
	arg.attr.attr_id = id;
	arg.attr.flags = UVERBS_ATTR_F_MANDATORY;
	return arg;
}

inline argument bytes_in(attr_id id, const void *data, std::size_t length) noexcept
{
	auto arg = header(id);
	arg.fits = length <= UINT16_MAX;
	arg.attr.len = static_cast<std::uint16_t>(length);
	if (length > sizeof(arg.attr.data))
		arg.attr.data = reinterpret_cast<std::uintptr_t>(data);
	else if (length)
		std::memcpy(&arg.attr.data, data, length);
	return arg;
}

} // namespace detail

template <payload T> argument put(in<T> attr, const std::type_identity_t<T> &value) noexcept
{
	return detail::bytes_in(attr.id, &value, sizeof(value));
}

// What goes by pointer must outlive the command.
template <payload T>
	requires(sizeof(T) > sizeof(std::uint64_t))
argument put(in<T> attr, const std::type_identity_t<T> &&value) = delete;

template <payload T> argument put(in_array<T> attr, std::span<const std::type_identity_t<T>> values) noexcept
{
	return detail::bytes_in(attr.id, values.data(), values.size_bytes());
}

template <payload T> argument put(out<T> attr, T &value) noexcept
{
	auto arg = detail::header(attr.id);
	arg.attr.len = sizeof(value);
	arg.attr.data = reinterpret_cast<std::uintptr_t>(&value);
	return arg;
}

template <typename E> argument put(constant<E> attr, E value) noexcept
{
	const auto number = static_cast<std::uint64_t>(value);
	return detail::bytes_in(attr.id, &number, sizeof(number));
}

inline argument put(object attr, std::uint32_t handle) noexcept
{
	auto arg = detail::header(attr.id);
	arg.attr.data = handle;
	return arg;
}

inline argument put(new_object attr, std::uint32_t &handle) noexcept
{
	auto arg = detail::header(attr.id);
	arg.created = &handle;
	return arg;
}

inline argument put(objects attr, std::span<const std::uint32_t> handles) noexcept
{
	return detail::bytes_in(attr.id, handles.data(), handles.size_bytes());
}

inline argument put(file attr, int fd) noexcept
{
	auto arg = detail::header(attr.id);
	arg.attr.data_s64 = fd;
	return arg;
}

// The argument only if the condition holds; else the command goes without that attribute.
inline argument put_if(bool condition, argument arg) noexcept
{
	arg.present = condition;
	return arg;
}

template <std::size_t Most> class command {
    public:
	template <std::same_as<argument>... Arguments>
		requires(sizeof...(Arguments) == Most)
	command(std::uint16_t object_id, std::uint16_t method_id, Arguments... arguments) noexcept
	{
		auto *hdr = header();
		hdr->object_id = object_id;
		hdr->method_id = method_id;
		(add(arguments), ...);
		hdr->length = static_cast<std::uint16_t>(sizeof(ib_uverbs_ioctl_hdr) +
							 hdr->num_attrs * sizeof(ib_uverbs_attr));
	}

	command(const command &) = delete;
	command &operator=(const command &) = delete;

	// The kernel's answer: 0 or the errno value.  Outputs are valid only if it is 0.
	[[nodiscard]] int run(int cmd_fd, std::uint32_t driver_id) noexcept
	{
		if (!fits_)
			return EINVAL;
		header()->driver_id = driver_id;
		if (const int err = issue(cmd_fd, header()))
			return err;
		for (std::size_t i = 0; i < header()->num_attrs; ++i)
			if (created_[i])
				*created_[i] = static_cast<std::uint32_t>(header()->attrs[i].data);
		return 0;
	}

	// What the kernel is given, for tests.
	std::span<const std::byte> bytes() const noexcept
	{
		return std::span{storage_}.first(header()->length);
	}

    private:
	ib_uverbs_ioctl_hdr *header() noexcept
	{
		return std::launder(reinterpret_cast<ib_uverbs_ioctl_hdr *>(storage_.data()));
	}

	const ib_uverbs_ioctl_hdr *header() const noexcept
	{
		return std::launder(reinterpret_cast<const ib_uverbs_ioctl_hdr *>(storage_.data()));
	}

	void add(const argument &arg) noexcept
	{
		if (!arg.present)
			return;
		fits_ = fits_ && arg.fits;
		const auto at = header()->num_attrs++;
		header()->attrs[at] = arg.attr;
		created_[at] = arg.created;
	}

	alignas(ib_uverbs_ioctl_hdr)
		std::array<std::byte, sizeof(ib_uverbs_ioctl_hdr) + Most * sizeof(ib_uverbs_attr)> storage_{};
	std::array<std::uint32_t *, Most> created_{};
	bool fits_ = true;
};

template <typename... Arguments>
command(std::uint16_t, std::uint16_t, Arguments...) -> command<sizeof...(Arguments)>;

} // namespace tally::uverbs
