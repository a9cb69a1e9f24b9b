// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A fuzzer's bytes, taken one by one; behind their end there are zeroes.
#pragma once

#include <algorithm>
#include <hca.hpp>
#include <span>

namespace world {

class Input {
public:
	explicit Input(std::span<const u8> bytes) : rest_(bytes) {}
	bool empty() const { return rest_.empty(); }
	u8 byte()
	{
		if (rest_.empty())
			return 0;
		u8 b = rest_[0];
		rest_ = rest_.subspan(1);
		return b;
	}
	u16 half() { return static_cast<u16>(byte() | byte() << 8); }
	u32 word() { return half() | u32{half()} << 16; }
	u32 below(u32 n) { return byte() % n; }
	std::span<const u8> bytes(size_t n)
	{
		n = std::min(n, rest_.size());
		auto b = rest_.first(n);
		rest_ = rest_.subspan(n);
		return b;
	}

private:
	std::span<const u8> rest_;
};

inline void require(bool holds, const char *what)
{
	if (!holds)
		hca_port_bug("does not hold: %s", what);
}

} // namespace world
