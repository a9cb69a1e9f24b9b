// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The bytes that lists and patterns lead to.
#pragma once

#include "dv.hpp"

#include <algorithm>

namespace rdma {

using Bytes = std::vector<uint8_t>;

inline size_t sum(const Pieces &l)
{
	size_t n = 0;
	for (auto &s : l)
		n += s.length;
	return n;
}

inline Bytes joined(const Pieces &l)
{
	Bytes all;
	for (auto &s : l) {
		auto *p = reinterpret_cast<const uint8_t *>(s.addr);
		all.insert(all.end(), p, p + s.length);
	}
	return all;
}

// Odd places and lengths, over pages' borders.
inline Pieces pieces(const Memory &m)
{
	return {m.sge(1, 13), m.sge(4090, 4111), m.sge(20000, 1), m.sge(100001, 70000)};
}

// What a pattern takes, in turn.
inline Pieces pieces_of(uint32_t rounds, const Blocks &blocks)
{
	Pieces l;
	for (uint32_t r = 0; r < rounds; r++)
		for (auto &k : blocks)
			l.push_back({k.addr + r * (k.bytes_count + k.bytes_skip), k.bytes_count, k.lkey});
	return l;
}

// What the memory must look like, changed piece by piece.
class Picture {
      public:
	explicit Picture(const Memory &m) : m_(m), bytes_(m.data(), m.data() + m.size()) {}
	void scatter(const Pieces &l, std::span<const uint8_t> data)
	{
		for (auto &s : l) {
			const size_t n = std::min<size_t>(s.length, data.size());
			std::copy_n(data.begin(), n, bytes_.begin() + static_cast<long>(s.addr - m_.addr()));
			data = data.subspan(n);
		}
	}
	bool matches() const { return std::equal(bytes_.begin(), bytes_.end(), m_.data()); }

      private:
	const Memory &m_;
	Bytes bytes_;
};

} // namespace rdma
