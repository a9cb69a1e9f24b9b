// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ring that chunks of a file travel through, and the header in front of each chunk.
//
// Chunk number n of a transfer goes into slot n modulo the number of slots.  The sender may write it when chunk
// n - slots has been taken out, and it learns that from a counter.
#pragma once

#include "bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tally::cli {

struct ring_geometry {
	static constexpr std::size_t header_bytes = 64; // room for the header, so that payloads are aligned
	static constexpr std::uint32_t least_slots = 2;
	static constexpr std::uint32_t most_slots = 4096;
	static constexpr std::uint32_t largest_chunk = 64 << 20;
	static constexpr std::uint64_t most_bytes = 1 << 30;

	std::uint32_t slots = 0;
	std::uint32_t chunk = 0; // most payload in a slot

	constexpr std::uint64_t stride() const noexcept { return (header_bytes + std::uint64_t{chunk} + 63) / 64 * 64; }

	constexpr std::uint64_t bytes() const noexcept { return stride() * slots; }

	constexpr std::uint64_t offset(std::uint64_t sequence) const noexcept { return sequence % slots * stride(); }

	// What the number of returned slots must have reached before this chunk may be written.
	constexpr std::uint64_t credits_needed(std::uint64_t sequence) const noexcept
	{
		return sequence < slots ? 0 : sequence - slots + 1;
	}

	// May come from the other end, so it is checked before anything is computed with it.
	constexpr bool valid() const noexcept
	{
		return slots >= least_slots && slots <= most_slots && chunk >= 1 && chunk <= largest_chunk &&
		       bytes() <= most_bytes;
	}

	friend constexpr bool operator==(const ring_geometry &, const ring_geometry &) noexcept = default;
};

struct chunk_header {
	static constexpr std::size_t bytes = 16;

	std::uint64_t sequence = 0;
	std::uint32_t length = 0;
	bool last = false;

	void write(std::span<std::byte, bytes> to) const noexcept
	{
		std::ranges::copy(big_endian(sequence), to.begin());
		std::ranges::copy(big_endian(length), to.begin() + 8);
		std::ranges::copy(big_endian(std::uint32_t{last}), to.begin() + 12);
	}

	// Nothing: this is not the header of that chunk.
	static std::optional<chunk_header> read(std::span<const std::byte, bytes> from, std::uint64_t sequence,
						const ring_geometry &ring) noexcept
	{
		const chunk_header header{.sequence = from_big_endian<std::uint64_t>(from.subspan<0, 8>()),
					  .length = from_big_endian<std::uint32_t>(from.subspan<8, 4>()),
					  .last = from_big_endian<std::uint32_t>(from.subspan<12, 4>()) == 1};
		const bool flags_known = from_big_endian<std::uint32_t>(from.subspan<12, 4>()) <= 1;
		if (header.sequence != sequence || header.length > ring.chunk || !flags_known)
			return std::nullopt;
		return header;
	}
};

} // namespace tally::cli
