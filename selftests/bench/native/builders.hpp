// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A program's own functions around the builders: what one request costs, call and all.
#pragma once

#include <tally/work_queue.hpp>

#include <array>

namespace bench {

// A send queue in plain memory; its doorbell is a variable.
class PlainQueue {
public:
	PlainQueue()
	    : queue_({.blocks = blocks_.data(),
		      .count = count,
		      .qpn = 0x123456,
		      .record = &record_,
		      .doorbell = &doorbell_})
	{
	}
	tally::work_queue &queue() { return queue_; }

private:
	static constexpr std::uint32_t count = 64;
	alignas(64) std::array<std::uint8_t, count * tally::wqe::block_bytes> blocks_{};
	tally::wqe::be32 record_{};
	std::uint64_t doorbell_ = 0;
	tally::work_queue queue_;
};

// A request at an address that is known already.
std::uint32_t build_write(void *block, std::uint32_t qpn, std::uint16_t index, const tally::wqe::remote &peer,
			  const tally::wqe::data &data);

// All return whether there was room.
bool post_write(tally::work_queue &q, const tally::wqe::remote &peer, const tally::wqe::data &data);
bool post_write_inline(tally::work_queue &q, const tally::wqe::remote &peer, const void *bytes,
		       std::uint32_t length);
bool post_send(tally::work_queue &q, const tally::wqe::data &data);
bool post_fetch_add(tally::work_queue &q, const tally::wqe::remote &peer, std::uint64_t add,
		    const tally::wqe::data &result);
bool post_copy(tally::work_queue &q, const tally::wqe::copy::end &to, const tally::wqe::copy::end &from,
	       std::uint64_t length, const tally::wqe::copy::end &scratch);
bool post_interleaved(tally::work_queue &q, std::uint32_t mkey, std::uint32_t repeat,
		      const tally::wqe::stride *list, std::uint32_t count);

// The doorbell, and the queue is empty again.
void ring(tally::work_queue &q);

} // namespace bench
