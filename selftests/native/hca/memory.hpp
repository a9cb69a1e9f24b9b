// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory of a process as the device sees it, which knows what must be in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <hca.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace world {

using Bytes = std::vector<u8>;

// The same bytes for the same seed.
inline Bytes pattern(size_t len, u32 seed)
{
	Bytes b(len);
	u64 x = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
	for (size_t i = 0; i < len; i += 8) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		u64 word = x ^ x >> 32;
		std::memcpy(&b[i], &word, std::min<size_t>(8, len - i));
	}
	return b;
}

// Blocks strewn over the heap, each an allocation of its own, so that a byte beyond a block is an error at once; or so
// many side by side in one.
// A shadow holds what must be there: whoever lets the device write says so with expect(); everything else must
// stay as it was.
class Memory {
public:
	explicit Memory(size_t size, u8 block_shift = 12, u32 seed = 1, u32 beside = 1)
	    : size_(size), shift_(block_shift),
	      shadow_(pattern((size + (size_t{1} << block_shift) - 1) >> block_shift << block_shift, seed))
	{
		size_t block = size_t{1} << shift_;
		size_t align = block < 4096 ? block : 4096;
		if (align < alignof(std::max_align_t))
			align = alignof(std::max_align_t);
		for (size_t at = 0; at < size_; at += beside * block) {
			size_t len = (beside * block + align - 1) / align * align;
			owned_.emplace_back(static_cast<u8 *>(std::aligned_alloc(align, len)));
			std::memset(owned_.back().get(), 0, len);
			for (size_t i = 0; i < beside && at + i * block < size_; i++)
				blocks_.push_back(owned_.back().get() + i * block);
		}
		put(0, shadow_);
	}

	size_t size() const { return size_; }
	u8 shift() const { return shift_; }
	const std::vector<u8 *> &blocks() const { return blocks_; }
	u8 *at(size_t off) { return blocks_[off >> shift_] + (off & ((size_t{1} << shift_) - 1)); }

	Bytes read(size_t off, size_t len) const
	{
		Bytes b(len);
		each(off, len, [&](u8 *p, size_t done, size_t n) { std::memcpy(&b[done], p, n); });
		return b;
	}

	// The process writes.
	void write(size_t off, std::span<const u8> data)
	{
		put(off, data);
		expect(off, data);
	}

	// The device must have written.
	void expect(size_t off, std::span<const u8> data)
	{
		if (!data.empty())
			std::memcpy(&shadow_[off], data.data(), data.size());
	}

	// Whatever the device has written there is right.
	void accept(size_t off, size_t len)
	{
		each(off, len, [&](u8 *p, size_t done, size_t n) { std::memcpy(&shadow_[off + done], p, n); });
	}

	// Where the first byte is that is not what it must be.
	std::optional<size_t> difference() const
	{
		std::optional<size_t> bad;
		each(0, shadow_.size(), [&](u8 *p, size_t done, size_t n) {
			if (bad || !std::memcmp(p, &shadow_[done], n))
				return;
			for (size_t i = 0; i < n && !bad; i++)
				if (p[i] != shadow_[done + i])
					bad = done + i;
		});
		return bad;
	}

private:
	struct Free {
		void operator()(u8 *p) const { std::free(p); }
	};

	template <class F> void each(size_t off, size_t len, F &&f) const
	{
		size_t block = size_t{1} << shift_;
		for (size_t done = 0; done < len;) {
			size_t in_block = (off + done) & (block - 1);
			size_t n = std::min(len - done, block - in_block);
			f(blocks_[(off + done) >> shift_] + in_block, done, n);
			done += n;
		}
	}

	void put(size_t off, std::span<const u8> data)
	{
		each(off, data.size(),
		     [&](u8 *p, size_t done, size_t n) { std::memcpy(p, data.data() + done, n); });
	}

	size_t size_;
	u8 shift_;
	std::vector<std::unique_ptr<u8, Free>> owned_;
	std::vector<u8 *> blocks_;
	Bytes shadow_;
};

} // namespace world
