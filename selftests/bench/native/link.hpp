// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two connected QPs whose send queue is full of one request, so that posting is no more than raising a record: what is
// measured is the device's work.  Counters are attached on both sides.
#pragma once

#include "world.hpp"

namespace bench {

struct LinkOptions {
	size_t memory = 256 * 1024;
	u8 block_shift = 22; // all of it side by side
	u32 beside = 1;      // blocks that are
	bool counters = true;
};

class Link {
public:
	explicit Link(const LinkOptions &options = {});

	// What the send queue is full of from here on.
	void fill(const world::Wqe &request);
	// Receives of so many bytes, in all places of the peer's queue.
	void fill_receives(u32 bytes);
	// Executes so many of them, with one doorbell; all must succeed.
	void run(u32 requests);
	// Executes one that is posted now.
	void run_one(const world::Wqe &request);

	u8 *local(size_t offset = 0) { return near_.at(offset); }
	u8 *remote(size_t offset = 0) { return far_.at(offset); }

	// Requests of so many bytes between the beginnings of both memories.
	world::Wqe write(u32 bytes);
	world::Wqe read(u32 bytes);
	world::Wqe send(u32 bytes);
	world::Wqe fetch_add();
	// A write from a key that gathers blocks of so many bytes out of twice as many.
	world::Wqe gather(u32 block, u32 bytes = 64 * 1024);
	// 64 KiB from a list of pieces, 32 at most.
	world::Wqe gather_list(u32 pieces);

	hca_qp *requester() { return a_.hca(); }

private:
	world::Qp &add(world::Device &dev, world::Cq &cq, world::Counter &counter, bool counted, u32 classes);
	void post(u32 slots, u32 requests);
	world::Wqe write_from(u32 key, u32 bytes);

	world::World w_;
	world::Device &da_, &db_;
	world::Memory &near_, &far_;
	world::Key &ka_, &kb_;
	world::Cq &ca_, &cb_;
	world::Counter &sent_, &arrived_;
	world::Qp &a_, &b_;
	world::IndirectKey &gathered_;
	u32 slots_ = 1;
	u16 pi_ = 0;
};

constexpr u32 large = 64 * 1024;

} // namespace bench
