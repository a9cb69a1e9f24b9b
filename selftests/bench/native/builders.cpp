// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "builders.hpp"

namespace wqe = tally::wqe;

namespace bench {

std::uint32_t build_write(void *block, std::uint32_t qpn, std::uint16_t index, const wqe::remote &peer,
			  const wqe::data &data)
{
	return wqe::build(wqe::linear{block}, {.qpn = qpn, .index = index, .flags = wqe::signaled},
			  wqe::rdma_write{peer, data});
}

bool post_write(tally::work_queue &q, const wqe::remote &peer, const wqe::data &data)
{
	return static_cast<bool>(q.post(wqe::rdma_write{peer, data}, wqe::signaled));
}

bool post_write_inline(tally::work_queue &q, const wqe::remote &peer, const void *bytes, std::uint32_t length)
{
	return static_cast<bool>(q.post(wqe::rdma_write{peer, wqe::inline_bytes{bytes, length}}, wqe::signaled));
}

bool post_send(tally::work_queue &q, const wqe::data &data)
{
	return static_cast<bool>(q.post(wqe::send{data}, wqe::signaled));
}

bool post_fetch_add(tally::work_queue &q, const wqe::remote &peer, std::uint64_t add, const wqe::data &result)
{
	return static_cast<bool>(q.post(wqe::fetch_add{peer, add, result}, wqe::signaled));
}

bool post_copy(tally::work_queue &q, const wqe::copy::end &to, const wqe::copy::end &from, std::uint64_t length,
	       const wqe::copy::end &scratch)
{
	return static_cast<bool>(q.post(wqe::copy{to, from, length, scratch}, wqe::signaled));
}

bool post_interleaved(tally::work_queue &q, std::uint32_t mkey, std::uint32_t repeat, const wqe::stride *list,
		      std::uint32_t count)
{
	return static_cast<bool>(q.post(
		wqe::register_interleaved{mkey, wqe::local_write | wqe::remote_write, repeat, list, count}, wqe::signaled));
}

void ring(tally::work_queue &q)
{
	q.ring();
	q.all_completed();
}

} // namespace bench
