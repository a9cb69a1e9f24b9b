// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The send queue of an mlx5 queue pair, without libmlx5 between a request and its WQE.
//
//	auto wq = tally::work_queue::over(*qp).value();
//	if (wq.post(wqe::rdma_write{wqe::remote{raddr, rkey}, wqe::data{addr, length, lkey}}) &&
//	    wq.post(wqe::send{wqe::nothing{}}, wqe::signaled))
//		wq.ring();
//
// libmlx5 makes the queue pair and its memory, and moves it through its states; requests are posted here, and only
// here: libmlx5 does not learn of them, and what ibv_post_send() or ibv_wr_*() post on the same queue pair lands in
// the same slots.  For the same reason completions that libmlx5 polls have the right status and QP number, but a
// meaningless wr_id, and no opcode for copies and requests on mkeys: poll with tally::completion_queue, which gives
// the slot.  Receives are libmlx5's as ever.
//
// Not for several threads at once.  Link with libmlx5.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <infiniband/mlx5dv.h>
#include <tally/result.hpp>
#include <tally/wqe.hpp>

namespace tally {

namespace detail {

// Stores to memory before it are there for the device before those after it.
inline void device_write_barrier() noexcept
{
#if defined(__x86_64__)
	asm volatile("" ::: "memory");
#elif defined(__aarch64__)
	asm volatile("dsb st" ::: "memory");
#else
	std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// The same between memory and a write-combining register, either way round; also sends off what is being combined.
inline void register_write_barrier() noexcept
{
#if defined(__x86_64__)
	asm volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
	asm volatile("dsb st" ::: "memory");
#else
	std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

} // namespace detail

// What a send queue consists of.
struct send_queue_memory {
	void *blocks;		 // the ring: 64 bytes each
	std::uint32_t count;	 // of them, a power of two, 2^15 at most
	std::uint32_t qpn;	 // of the queue pair
	wqe::be32 *record;	 // the doorbell record of the send queue
	std::uint64_t *doorbell; // the register
};

// What became of a request.
struct [[nodiscard]] posted {
	enum outcome : std::uint16_t {
		done,
		full,	// no room until earlier requests are completed
		refused // cannot be said in a WQE, or never fits into this ring
	};
	std::uint16_t index; // names the WQE in its completion (mlx5_cqe64.wqe_counter)
	outcome what;

	explicit operator bool() const noexcept { return what == done; }
};

class work_queue {
    public:
	// The send queue of @qp, which must outlive this, as it is now: with nothing outstanding.
	// std::errc::operation_not_supported: no mlx5 queue pair, or its ring is not one of 64-byte blocks.
	static result<work_queue> over(ibv_qp &qp)
	{
		mlx5dv_qp parts{};
		mlx5dv_obj object{};

		if (!mlx5dv_is_supported(qp.context->device))
			return error_of(ENOTSUP);
		object.qp.in = &qp;
		object.qp.out = &parts;
		if (const int err = mlx5dv_init_obj(&object, MLX5DV_OBJ_QP))
			return error_of(err);
		if (parts.sq.stride != wqe::block_bytes || !parts.sq.wqe_cnt ||
		    parts.sq.wqe_cnt & (parts.sq.wqe_cnt - 1))
			return error_of(ENOTSUP);
		return work_queue({.blocks = parts.sq.buf,
				   .count = parts.sq.wqe_cnt,
				   .qpn = qp.qp_num,
				   .record = reinterpret_cast<wqe::be32 *>(&parts.dbrec[MLX5_SND_DBR]),
				   .doorbell = static_cast<std::uint64_t *>(parts.bf.reg)});
	}

	// One that somebody else has taken apart.  Goes on from what its doorbell record says.
	explicit work_queue(const send_queue_memory &memory) noexcept : memory_(memory) { restart(); }

	// Writes @request behind the others; the device does not know before ring().  @flags: wqe::signaled,
	// wqe::solicited, wqe::strong_fence.  The fence that a request needs behind an UMR is added.
	//
	// Always inline, so that what the caller knows of the request is not written to memory and looked at again.
	template <class Request>
	[[gnu::always_inline]] posted post(const Request &request, std::uint8_t flags = 0) noexcept
	{
		const std::uint32_t most = wqe::blocks_of(request.units());

		if (most > room()) [[unlikely]]
			return unposted(most);
		const std::uint8_t fence = flags & wqe::strong_fence ? 0 : next_fence_;
		const std::uint32_t units = wqe::build(
			wqe::ring{memory_.blocks, memory_.count - 1, head_},
			{.qpn = memory_.qpn, .index = index(), .flags = static_cast<std::uint8_t>(flags | fence)},
			request);
		return advance(units, Request::fences_next ? wqe::small_fence : 0);
	}

	// Writes a WQE of the caller's making as it is, its index apart: flags are in the WQE, and no fence is added; one
	// that would be needed here goes to the next request.
	posted post_raw(const void *wqe) noexcept
	{
		const auto *ctrl = static_cast<const wqe::ctrl_seg *>(wqe);
		const std::uint32_t blocks = wqe::blocks_of(ctrl->qpn_units.host() & wqe::max_units);

		if (blocks > room()) [[unlikely]]
			return unposted(blocks);
		return advance(wqe::build_raw(wqe::ring{memory_.blocks, memory_.count - 1, head_}, index(), wqe),
			       wqe::fence_behind_raw(*ctrl, next_fence_));
	}

	// Hands all that has been posted to the device, with one doorbell.
	void ring() noexcept
	{
		if (head_ == rung_)
			return;
		// WQEs before the record that says that they are there; pairs with the device's reading them in turn.
		detail::device_write_barrier();
		*const_cast<volatile std::uint32_t *>(reinterpret_cast<std::uint32_t *>(memory_.record)) =
			wqe::be32(head_ & 0xffff).raw();
		// The record before the register that makes the device read it.
		detail::register_write_barrier();
		*const_cast<volatile std::uint64_t *>(memory_.doorbell) = first_of_last();
		// Out now, and never behind the next doorbell.
		detail::register_write_barrier();
		rung_ = head_;
		rung_fence_ = next_fence_;
	}

	// Forgets what has been posted since the last ring().
	void drop() noexcept
	{
		head_ = rung_;
		next_fence_ = rung_fence_;
	}

	// How many blocks may be posted.
	std::uint32_t room() const noexcept { return memory_.count - (head_ - tail_); }

	// The request at @index is completed, and so are all before it: their blocks are free.  False: no such one is
	// under way.
	bool completed(std::uint16_t index) noexcept
	{
		const std::uint32_t ahead = static_cast<std::uint16_t>(index - tail_);

		if (ahead >= rung_ - tail_)
			return false;
		tail_ += ahead + wqe::blocks_of(ctrl_of(index)->qpn_units.host() & wqe::max_units);
		return true;
	}

	// All that the device has been told of is completed.
	void all_completed() noexcept { tail_ = rung_; }

	// Begins anew, after the queue pair has gone through RESET.
	void restart() noexcept
	{
		head_ = tail_ = rung_ = last_ = memory_.record->host() & 0xffff;
		next_fence_ = rung_fence_ = 0;
	}

	// The WQE at @index, whole or up to the end of the ring.
	const wqe::ctrl_seg *ctrl_of(std::uint16_t index) const noexcept
	{
		return static_cast<const wqe::ctrl_seg *>(wqe::ring{memory_.blocks, memory_.count - 1, index}.block(0));
	}

	const send_queue_memory &memory() const noexcept { return memory_; }

    private:
	std::uint16_t index() const noexcept { return static_cast<std::uint16_t>(head_); }

	posted unposted(std::uint32_t blocks) const noexcept
	{
		return {index(), blocks > memory_.count ? posted::refused : posted::full};
	}

	posted advance(std::uint32_t units, std::uint8_t fence) noexcept
	{
		if (!units) [[unlikely]]
			return {index(), posted::refused};
		last_ = head_;
		head_ += wqe::blocks_of(units);
		next_fence_ = fence;
		return {static_cast<std::uint16_t>(last_), posted::done};
	}

	// What a doorbell consists of: the first 8 bytes of the newest WQE.
	std::uint64_t first_of_last() const noexcept
	{
		const wqe::ctrl_seg *ctrl = ctrl_of(static_cast<std::uint16_t>(last_));

		return ctrl->opmod_index_opcode.raw() | std::uint64_t{ctrl->qpn_units.raw()} << 32;
	}

	send_queue_memory memory_;
	// In blocks, counting on: where the next WQE goes, up to where the device knows and has completed them, and
	// the newest WQE.  head_ - tail_ is never more than the ring.
	std::uint32_t head_, rung_, tail_, last_;
	// What the next WQE carries because of the one before it, and what it did at the last ring().
	std::uint8_t next_fence_, rung_fence_;
};

// The address vector of an address handle, for wqe::ud and wqe::dc; lives as long as the handle.
inline result<const wqe::av_seg *> path_of(ibv_ah &ah)
{
	mlx5dv_ah parts{};
	mlx5dv_obj object{};

	if (!mlx5dv_is_supported(ah.context->device))
		return error_of(ENOTSUP);
	object.ah.in = &ah;
	object.ah.out = &parts;
	if (const int err = mlx5dv_init_obj(&object, MLX5DV_OBJ_AH))
		return error_of(err);
	return reinterpret_cast<const wqe::av_seg *>(parts.av);
}

} // namespace tally
