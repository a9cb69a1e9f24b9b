// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rdma_path.hpp"
#include "../failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <random>
#include <sys/mman.h>

namespace tally::cli {
namespace {

constexpr std::size_t credit_bytes = sizeof(std::uint64_t);

// Looks that often before it goes to sleep: the other end is mostly about to be ready.
constexpr int spins = 256;

[[noreturn]] void throw_verb(const char *what, int err)
{
	throw failure(exit_status::rdma, fmt::format("{}: {}", what, errno_text(err)));
}

template <typename Handle> Handle created(typename Handle::pointer object, const char *what)
{
	if (!object)
		throw_verb(what, errno);
	return Handle{object};
}

mr_handle register_memory(ibv_pd &pd, std::span<std::byte> memory, int access)
{
	auto *mr = ibv_reg_mr(&pd, memory.data(), memory.size(), access);
	if (!mr && errno == ENOMEM)
		throw failure(
			exit_status::rdma,
			fmt::format("cannot pin {} bytes for RDMA (see RLIMIT_MEMLOCK, ulimit -l)", memory.size()));
	return created<mr_handle>(mr, "cannot register memory");
}

comp_cntr create_counter(ibv_context &context)
{
	auto cntr = comp_cntr::create(context);
	if (!cntr) {
		const auto why = cntr.error();
		const auto status = why == std::errc::not_supported ? exit_status::no_counters : exit_status::rdma;
		throw failure(status, fmt::format("cannot create a completion counter: {}", why.message()));
	}
	return std::move(*cntr);
}

void modify(ibv_qp &qp, ibv_qp_attr attr, int mask, const char *what)
{
	if (const int err = ibv_modify_qp(&qp, &attr, mask))
		throw_verb(what, err);
}

std::uint32_t random_packet_number()
{
	return std::random_device{}() & 0xffffff;
}

} // namespace

page_memory::page_memory(std::size_t bytes)
{
	void *range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (range == MAP_FAILED)
		throw failure(exit_status::failed, errno_text(errno));
	bytes_ = {static_cast<std::byte *>(range), bytes};
}

page_memory::~page_memory()
{
	munmap(bytes_.data(), bytes_.size());
}

rdma_path::rdma_path(std::shared_ptr<ibv_context> context, wire::role role, const ring_geometry &ring)
	: context_(std::move(context)), role_(role), ring_(ring), port_(active_port(*context_)),
	  packet_number_(random_packet_number()), memory_(ring.bytes()), credits_(ring.slots * credit_bytes),
	  pd_(created<pd_handle>(ibv_alloc_pd(context_.get()), "cannot allocate a protection domain")),
	  cq_(created<cq_handle>(ibv_create_cq(context_.get(), static_cast<int>(2 * ring.slots), nullptr, nullptr, 0),
				 "cannot create a completion queue")),
	  memory_mr_(register_memory(*pd_, memory_.bytes(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)),
	  credits_mr_(register_memory(*pd_, credits_.bytes(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)),
	  written_(create_counter(*context_)), arrived_(create_counter(*context_))
{
	create_queue_pair();

	if (auto attached = written_.attach(*qp_, op::rdma_write); !attached)
		throw_verb("cannot attach a counter for RDMA WRITE", attached.error().value());
	if (auto attached = arrived_.attach(*qp_, op::remote_rdma_write); !attached)
		throw_verb("cannot attach a counter for incoming RDMA WRITE", attached.error().value());

	ibv_qp_attr attr{};
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = port_.number;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	modify(*qp_, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "queue pair to INIT");
}

void rdma_path::create_queue_pair()
{
	ibv_qp_init_attr attr{};
	attr.qp_type = IBV_QPT_RC;
	attr.send_cq = cq_.get();
	attr.recv_cq = cq_.get();
	// The provider takes back a place in the queue only when a later signaled request has been polled.  Every half
	// a ring one is signaled, so a ring and a half is what can be taken at most.
	attr.cap.max_send_wr = 2 * ring_.slots;
	attr.cap.max_recv_wr = 1;
	attr.cap.max_send_sge = 1;
	attr.cap.max_recv_sge = 1;
	attr.cap.max_inline_data = credit_bytes;
	auto *qp = ibv_create_qp(pd_.get(), &attr);
	if (!qp) {
		attr.cap.max_inline_data = 0;
		qp = ibv_create_qp(pd_.get(), &attr);
	}
	qp_ = created<qp_handle>(qp, "cannot create a queue pair");
	inline_bytes_ = attr.cap.max_inline_data;
}

wire::hello rdma_path::describe() const
{
	const bool receiver = role_ == wire::role::receiver;
	const auto &memory = receiver ? memory_ : credits_;
	const auto &mr = receiver ? *memory_mr_ : *credits_mr_;

	wire::hello hello;
	hello.role = role_;
	hello.qp_number = qp_->qp_num;
	hello.packet_number = packet_number_;
	hello.mtu = static_cast<std::uint8_t>(port_.mtu);
	hello.lid = port_.lid;
	std::memcpy(hello.gid.data(), port_.gid.raw, hello.gid.size());
	hello.address = reinterpret_cast<std::uintptr_t>(memory.bytes().data());
	hello.rkey = mr.rkey;
	hello.ring = ring_;
	return hello;
}

void rdma_path::connect(const wire::hello &peer)
{
	peer_address_ = peer.address;
	peer_rkey_ = peer.rkey;

	ibv_qp_attr attr{};
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = std::min(port_.mtu, static_cast<ibv_mtu>(peer.mtu));
	attr.dest_qp_num = peer.qp_number;
	attr.rq_psn = peer.packet_number;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr.dlid = peer.lid;
	attr.ah_attr.port_num = port_.number;
	if (port_.ethernet) {
		attr.ah_attr.is_global = 1;
		std::memcpy(attr.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
		attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port_.gid_index);
		attr.ah_attr.grh.hop_limit = 64;
	}
	modify(*qp_, attr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	       "queue pair to RTR (can the two ends reach each other?)");

	attr = {};
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = packet_number_;
	attr.timeout = 14; // 67 ms; seven tries make half a second
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	modify(*qp_, attr,
	       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC,
	       "queue pair to RTS");
}

std::span<std::byte> rdma_path::slot(std::uint64_t sequence)
{
	return memory_.bytes().subspan(ring_.offset(sequence), ring_geometry::header_bytes + ring_.chunk);
}

void rdma_path::push_chunk(std::uint64_t sequence, std::size_t bytes)
{
	post(slot(sequence).first(bytes), *memory_mr_, peer_address_ + ring_.offset(sequence), false);
}

void rdma_path::push_credit(std::uint64_t sequence)
{
	const auto word = credits_.bytes().subspan(sequence % ring_.slots * credit_bytes, credit_bytes);
	std::ranges::copy(big_endian(sequence + 1), word.begin());
	post(word, *credits_mr_, peer_address_, true);
}

void rdma_path::post(std::span<const std::byte> from, const ibv_mr &mr, std::uint64_t to, bool small)
{
	reap();

	ibv_sge sge{};
	sge.addr = reinterpret_cast<std::uintptr_t>(from.data());
	sge.length = static_cast<std::uint32_t>(from.size());
	sge.lkey = mr.lkey;

	ibv_send_wr wr{};
	wr.wr_id = posted_;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = peer_rkey_;
	if (small && from.size() <= inline_bytes_)
		wr.send_flags |= IBV_SEND_INLINE;
	if (++posted_ % (ring_.slots / 2) == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;

	ibv_send_wr *bad = nullptr;
	if (const int err = ibv_post_send(qp_.get(), &wr, &bad))
		throw_verb("cannot post an RDMA WRITE", err);
}

// Takes the few CQEs there are off the queue.  They are no news, the counters have told already, but the provider
// wants to see them.
void rdma_path::reap()
{
	std::array<ibv_wc, 16> wcs;
	int got;
	while ((got = ibv_poll_cq(cq_.get(), static_cast<int>(wcs.size()), wcs.data())) > 0)
		for (const auto &wc : std::span{wcs}.first(static_cast<std::size_t>(got)))
			if (wc.status != IBV_WC_SUCCESS && first_error_ == IBV_WC_SUCCESS)
				first_error_ = wc.status;
}

void rdma_path::throw_failed()
{
	reap();
	throw failure(exit_status::rdma,
		      fmt::format("an RDMA WRITE failed{}{}", first_error_ == IBV_WC_SUCCESS ? "" : ": ",
				  first_error_ == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(first_error_)));
}

bool rdma_path::wait(const comp_cntr &cntr, std::uint64_t target, std::chrono::nanoseconds timeout)
{
	for (int i = 0; i < spins; ++i) {
		const auto count = cntr.read();
		if (count && tally_comp_cntr_reached(*count, target))
			return true;
	}

	const auto waited = cntr.wait(target, {.timeout = timeout, .err_seen = 0});
	if (waited)
		return true;
	if (waited.error() == std::errc::timed_out || waited.error() == std::errc::interrupted)
		return false;
	if (waited.error() == std::errc::io_error)
		throw_failed();
	if (waited.error() == std::errc::no_such_device)
		throw failure(exit_status::rdma, "the RDMA device went away");
	throw_verb("cannot wait for a completion counter", waited.error().value());
}

bool rdma_path::wait_arrived(std::uint64_t writes, std::chrono::nanoseconds timeout)
{
	return wait(arrived_, writes, timeout);
}

bool rdma_path::wait_written(std::uint64_t writes, std::chrono::nanoseconds timeout)
{
	return wait(written_, writes, timeout);
}

wire::count rdma_path::value(const comp_cntr &cntr)
{
	const auto done = cntr.read();
	const auto failed = cntr.read_err();
	if (!done || !failed)
		throw failure(exit_status::rdma, "cannot read a completion counter");
	return {.done = *done, .failed = *failed};
}

path_maker rdma_paths(const std::string &device)
{
	std::shared_ptr<ibv_context> context =
		open_device_with_counters(device, static_cast<std::uint32_t>(rdma_path::counted));
	return [context](wire::role role, const ring_geometry &ring) {
		return std::make_unique<rdma_path>(context, role, ring);
	};
}

} // namespace tally::cli
