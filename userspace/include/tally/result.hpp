// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a function of tally's C++ API returns: a value, or the reason why there is none.
//
// The part of std::expected<T, std::error_code> that is needed, for C++20.  Nothing throws but value(), which
// throws std::system_error when there is no value.
#pragma once

#include <system_error>
#include <utility>
#include <variant>

namespace tally {

// The error of an errno value: compares with std::errc, message() says it in words.
inline std::error_code error_of(int err) noexcept
{
	return {err, std::system_category()};
}

template <typename T> class [[nodiscard]] result {
    public:
	using value_type = T;
	using error_type = std::error_code;

	result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
	result(std::error_code error) noexcept : state_(std::in_place_index<1>, error) {}

	bool has_value() const noexcept { return state_.index() == 0; }
	explicit operator bool() const noexcept { return has_value(); }

	T &value() & { return checked(); }
	const T &value() const & { return const_cast<result *>(this)->checked(); }
	T &&value() && { return std::move(checked()); }

	// Only with a value.
	T &operator*() & noexcept { return *std::get_if<0>(&state_); }
	const T &operator*() const & noexcept { return *std::get_if<0>(&state_); }
	T &&operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
	T *operator->() noexcept { return std::get_if<0>(&state_); }
	const T *operator->() const noexcept { return std::get_if<0>(&state_); }

	template <typename U> T value_or(U &&other) const &
	{
		return has_value() ? **this : static_cast<T>(std::forward<U>(other));
	}

	// No error compares equal to a default std::error_code.
	std::error_code error() const noexcept { return has_value() ? std::error_code{} : *std::get_if<1>(&state_); }

    private:
	T &checked()
	{
		if (!has_value())
			throw std::system_error(error());
		return **this;
	}

	std::variant<T, std::error_code> state_;
};

template <> class [[nodiscard]] result<void> {
    public:
	using value_type = void;
	using error_type = std::error_code;

	result() noexcept = default;
	result(std::error_code error) noexcept : error_(error) {}

	bool has_value() const noexcept { return !error_; }
	explicit operator bool() const noexcept { return has_value(); }
	std::error_code error() const noexcept { return error_; }

	void value() const
	{
		if (error_)
			throw std::system_error(error_);
	}

    private:
	std::error_code error_;
};

} // namespace tally
