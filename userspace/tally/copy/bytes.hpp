// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Numbers in messages: big-endian, as the two ends may differ.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tally::cli {

template <std::unsigned_integral T> constexpr std::array<std::byte, sizeof(T)> big_endian(T value) noexcept
{
	std::array<std::byte, sizeof(T)> bytes{};
	for (std::size_t i = sizeof(T); i-- > 0; value = static_cast<T>(sizeof(T) > 1 ? value >> 8 : 0))
		bytes[i] = static_cast<std::byte>(value & 0xff);
	return bytes;
}

template <std::unsigned_integral T> constexpr T from_big_endian(std::span<const std::byte, sizeof(T)> bytes) noexcept
{
	T value = 0;
	for (const auto byte : bytes)
		value = static_cast<T>((sizeof(T) > 1 ? value << 8 : 0) | std::to_integer<T>(byte));
	return value;
}

// Appends numbers and bytes to a message.
class byte_writer {
    public:
	template <std::unsigned_integral T> byte_writer &put(T value)
	{
		const auto bytes = big_endian(value);
		return put(std::span<const std::byte>{bytes});
	}

	byte_writer &put(std::span<const std::byte> bytes)
	{
		data_.insert(data_.end(), bytes.begin(), bytes.end());
		return *this;
	}

	std::vector<std::byte> take() { return std::move(data_); }

    private:
	std::vector<std::byte> data_;
};

// Takes them out again.  Reading past the end gives zeros and is remembered: look at complete() at the end.
class byte_reader {
    public:
	explicit byte_reader(std::span<const std::byte> data) noexcept : data_(data) {}

	template <std::unsigned_integral T> T get() noexcept
	{
		std::array<std::byte, sizeof(T)> bytes{};
		get(bytes);
		return from_big_endian<T>(bytes);
	}

	void get(std::span<std::byte> bytes) noexcept
	{
		if (bytes.size() > data_.size()) {
			short_ = true;
			data_ = {};
			return;
		}
		std::copy_n(data_.begin(), bytes.size(), bytes.begin());
		data_ = data_.subspan(bytes.size());
	}

	std::span<const std::byte> rest() noexcept { return std::exchange(data_, {}); }

	// Everything was there, and nothing is left.
	bool complete() const noexcept { return !short_ && data_.empty(); }

    private:
	std::span<const std::byte> data_;
	bool short_ = false;
};

} // namespace tally::cli
