// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The data path over an RC queue pair with two completion counters.
#pragma once

#include "../open_device.hpp"
#include "../verbs_handles.hpp"
#include "data_path.hpp"

#include <memory>
#include <string>
#include <tally/comp_cntr.hpp>

namespace tally::cli {

// Whole pages of memory with an owner.
class page_memory {
    public:
	explicit page_memory(std::size_t bytes);
	page_memory(const page_memory &) = delete;
	page_memory &operator=(const page_memory &) = delete;
	~page_memory();

	std::span<std::byte> bytes() const noexcept { return bytes_; }

    private:
	std::span<std::byte> bytes_;
};

class rdma_path final : public data_path {
    public:
	// What has to be countable of a device.
	static constexpr op counted = op::rdma_write | op::remote_rdma_write;

	// Everything but the connection.  Throws failure, as all of it does.
	rdma_path(std::shared_ptr<ibv_context> context, wire::role role, const ring_geometry &ring);

	wire::hello describe() const override;
	void connect(const wire::hello &peer) override;
	std::span<std::byte> slot(std::uint64_t sequence) override;
	void push_chunk(std::uint64_t sequence, std::size_t bytes) override;
	void push_credit(std::uint64_t sequence) override;
	bool wait_arrived(std::uint64_t writes, std::chrono::nanoseconds timeout) override;
	bool wait_written(std::uint64_t writes, std::chrono::nanoseconds timeout) override;
	wire::count arrived() override { return value(arrived_); }
	wire::count written() override { return value(written_); }

    private:
	void create_queue_pair();
	void post(std::span<const std::byte> from, const ibv_mr &mr, std::uint64_t to, bool small);
	bool wait(const comp_cntr &cntr, std::uint64_t target, std::chrono::nanoseconds timeout);
	wire::count value(const comp_cntr &cntr);
	void reap();
	[[noreturn]] void throw_failed();

	std::shared_ptr<ibv_context> context_;
	wire::role role_;
	ring_geometry ring_;
	local_port port_;
	std::uint32_t packet_number_;

	page_memory memory_;  // the ring, or the slots that chunks are put together in
	page_memory credits_; // what is written to the other end (receiver), the word it writes to (sender)

	// The queue pair holds the counters, so it ends first: members end from last to first.
	pd_handle pd_;
	cq_handle cq_;
	mr_handle memory_mr_;
	mr_handle credits_mr_;
	comp_cntr written_;
	comp_cntr arrived_;
	qp_handle qp_;

	std::uint64_t peer_address_ = 0;
	std::uint32_t peer_rkey_ = 0;
	std::uint32_t inline_bytes_ = 0;
	std::uint64_t posted_ = 0;
	ibv_wc_status first_error_ = IBV_WC_SUCCESS;
};

// Opens the device of that name, or the first that will do, and makes paths on it.  Throws failure.
path_maker rdma_paths(const std::string &device);

} // namespace tally::cli
