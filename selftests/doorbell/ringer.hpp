// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A QP whose queue, doorbell record and register are written by hand, as libmlx5 writes them.
#pragma once

#include <atomic>
#include <cstring>
#include <endian.h>
#include <fstream>
#include <immintrin.h>
#include <infiniband/mlx5dv.h>
#include <thread>

#include "../rdma/verbs.hpp"

namespace rdma {

// A hardware counter of the device, as `rdma statistic` shows it.
inline std::uint64_t hw_counter(const std::string &name, const std::string &device = device_name())
{
	std::ifstream file("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + name);
	std::uint64_t value = 0;

	if (!(file >> value))
		fail("hw counter " + name, ENOENT);
	return value;
}

class Ringer {
      public:
	explicit Ringer(Context &c, ibv_comp_channel *channel = nullptr)
	    : pd_(alloc_pd(c)), cq_(create_cq(c, 512, channel)), rcq_(create_cq(c, 16)),
	      qp_(create_qp(pd_.get(), cq_.get(), rcq_.get(), {.max_send = 256}))
	{
		must(to_init(qp_.get()), "init");
		must(to_rtr(qp_.get(), c, c.gid(), qp_->qp_num), "rtr");
		must(to_rts(qp_.get()), "rts");

		mlx5dv_obj obj{};
		dv_.comp_mask = MLX5DV_QP_MASK_UAR_MMAP_OFFSET;
		obj.qp = {qp_.get(), &dv_};
		obj.cq = {cq_.get(), &dv_cq_};
		must(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
	}

	std::uint32_t qpn() const { return qp_->qp_num; }
	ibv_qp *qp() const { return qp_.get(); }
	ibv_cq *cq() const { return cq_.get(); }
	mlx5dv_cq &dv_cq() { return dv_cq_; }
	char *reg() const { return static_cast<char *>(dv_.bf.reg); }
	char *page() const
	{
		return reinterpret_cast<char *>(reinterpret_cast<std::uintptr_t>(dv_.bf.reg) & ~std::uintptr_t(4095));
	}
	// Where in the device's file the page is.
	off_t page_offset() const { return static_cast<off_t>(dv_.uar_mmap_offset); }
	// The word that belongs into the register for the WQE posted last.
	std::uint64_t word() const { return word_; }

	// Writes a NOP that makes a CQE, and the doorbell record.
	void post()
	{
		auto *wqe = static_cast<std::uint32_t *>(dv_.sq.buf) + (pi_ & (dv_.sq.wqe_cnt - 1)) * 16;

		wqe[0] = htobe32(std::uint32_t(pi_) << 8 | MLX5_OPCODE_NOP);
		wqe[1] = htobe32(qpn() << 8 | 1);
		wqe[2] = htobe32(MLX5_WQE_CTRL_CQ_UPDATE);
		wqe[3] = 0;
		std::memcpy(&word_, wqe, sizeof(word_));
		pi_++;
		std::atomic_thread_fence(std::memory_order_release);
		reinterpret_cast<volatile std::uint32_t *>(dv_.dbrec)[MLX5_SND_DBR] = htobe32(pi_);
		_mm_sfence();
	}
	void ring() { *reinterpret_cast<volatile std::uint64_t *>(reg()) = word_; }

	// Takes a completion off the CQ, if there is one.
	bool take()
	{
		auto *cqe = static_cast<volatile std::uint8_t *>(dv_cq_.buf) +
			    (ci_ & (dv_cq_.cqe_cnt - 1)) * dv_cq_.cqe_size + (dv_cq_.cqe_size - 64);
		std::uint8_t op_own = cqe[63];

		if (op_own >> 4 == MLX5_CQE_INVALID || (op_own & 1) != !!(ci_ & dv_cq_.cqe_cnt))
			return false;
		std::atomic_thread_fence(std::memory_order_acquire);
		if (op_own >> 4 != MLX5_CQE_REQ)
			fail("error completion", EIO);
		ci_++;
		reinterpret_cast<volatile std::uint32_t *>(dv_cq_.dbrec)[0] = htobe32(ci_ & 0xffffff);
		return true;
	}
	bool completes(std::chrono::milliseconds limit = 5s)
	{
		return eventually([&] { return take(); }, limit);
	}
	std::uint32_t taken() const { return ci_; }

      private:
	Pd pd_;
	Cq cq_, rcq_;
	Qp qp_;
	mlx5dv_qp dv_{};
	mlx5dv_cq dv_cq_{};
	std::uint16_t pi_ = 0;
	std::uint32_t ci_ = 0;
	std::uint64_t word_ = 0;
};

} // namespace rdma
