// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The completion queue of an mlx5 device, read without libmlx5: completions that name their WQE by its slot, for those
// who post with tally::work_queue.
//
// A completion queue is polled here or by libmlx5 (ibv_poll_cq(), ibv_start_poll()), from its first entry on and never
// by both.  Arming, events and resizing are libmlx5's and count on its polling: not with this.  Nor are compressed
// CQEs, which mlx5dv_create_cq() makes on demand, and small payloads in CQEs, which a ConnectX does not use on queue
// pairs made with MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE.
//
// Not for several threads at once.  Link with libmlx5.
#pragma once

#include <atomic>
#include <cstdint>
#include <infiniband/mlx5dv.h>
#include <optional>
#include <tally/result.hpp>
#include <tally/wqe.hpp>

namespace tally {

struct completion {
	std::uint32_t qpn;
	std::uint16_t index;   // posted::index of the request; of a receive: how many came before it, modulo 2^16
	std::uint8_t kind;     // MLX5_CQE_REQ, MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_*
	std::uint8_t opcode;   // wqe::opcode of the request, if it succeeded
	std::uint8_t syndrome; // of an error: MLX5_CQE_SYNDROME_*; 0: success
	std::uint8_t vendor_error;
	std::uint32_t bytes; // of READs, atomics and receives
	std::uint32_t imm;   // immediate data or invalidated key of a receive

	bool ok() const noexcept { return !syndrome; }
};

class completion_queue {
    public:
	// std::errc::operation_not_supported: no mlx5 completion queue.
	static result<completion_queue> over(ibv_cq &cq)
	{
		mlx5dv_cq parts{};
		mlx5dv_obj object{};

		if (!mlx5dv_is_supported(cq.context->device))
			return error_of(ENOTSUP);
		object.cq.in = &cq;
		object.cq.out = &parts;
		if (const int err = mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ))
			return error_of(err);
		return completion_queue(parts);
	}

	explicit completion_queue(const mlx5dv_cq &parts) noexcept
		: cqes_(static_cast<std::uint8_t *>(parts.buf) + parts.cqe_size - sizeof(mlx5_cqe64)),
		  size_(parts.cqe_size), count_(parts.cqe_cnt), record_(parts.dbrec)
	{
	}

	// The next completion, if there is one.  Its entry is free for the device at once.
	std::optional<completion> poll() noexcept
	{
		const auto *cqe =
			reinterpret_cast<const mlx5_cqe64 *>(cqes_ + std::size_t{next_ & (count_ - 1)} * size_);
		// Pairs with the device's writing it last, behind the entry and what the entry completes.
		const std::uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
		const std::uint8_t kind = op_own >> 4;

		if (kind == MLX5_CQE_INVALID || (op_own & MLX5_CQE_OWNER_MASK) != !!(next_ & count_))
			return std::nullopt;
#if defined(__aarch64__)
		asm volatile("dsb ld" ::: "memory"); // what a device wrote, not a CPU
#endif
		completion c{};
		c.kind = kind;
		c.qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff;
		c.index = be16toh(cqe->wqe_counter);
		if (kind == MLX5_CQE_REQ_ERR || kind == MLX5_CQE_RESP_ERR) {
			const auto *error = reinterpret_cast<const mlx5_err_cqe *>(cqe);
			c.syndrome = error->syndrome;
			c.vendor_error = error->vendor_err_synd;
		} else {
			c.opcode = static_cast<std::uint8_t>(be32toh(cqe->sop_drop_qpn) >> 24);
			c.bytes = be32toh(cqe->byte_cnt);
			c.imm = be32toh(cqe->imm_inval_pkey);
		}
		// The entry has been read before it is given back.
		std::atomic_thread_fence(std::memory_order_release);
		*const_cast<volatile __be32 *>(record_) = htobe32(++next_ & 0xffffff);
		return c;
	}

    private:
	const std::uint8_t *cqes_; // the 64 bytes that count of the first one
	std::uint32_t size_, count_;
	__be32 *record_;
	std::uint32_t next_ = 0;
};

} // namespace tally
