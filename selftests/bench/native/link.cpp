// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "link.hpp"

#include <array>

using namespace world;

namespace bench {

constexpr u32 sq_slots = 64;
constexpr u32 rq_entries = 64;

Link::Link(const LinkOptions &o)
    : da_(w_.add_device()), db_(w_.add_device()), near_(w_.add_memory(o.memory, o.block_shift, o.beside)),
      far_(w_.add_memory(o.memory, o.block_shift, o.beside)), ka_(w_.add_key(da_, near_)), kb_(w_.add_key(db_, far_)),
      ca_(w_.add_cq(da_)), cb_(w_.add_cq(db_)), sent_(w_.add_counter(da_)), arrived_(w_.add_counter(db_)),
      a_(add(da_, ca_, sent_, o.counters,
	     1u << HCA_CLASS_SEND | 1u << HCA_CLASS_WRITE | 1u << HCA_CLASS_READ | 1u << HCA_CLASS_ATOMIC)),
      b_(add(db_, cb_, arrived_, o.counters,
	     1u << HCA_CLASS_RECV | 1u << HCA_CLASS_REMOTE_WRITE | 1u << HCA_CLASS_REMOTE_READ |
		     1u << HCA_CLASS_REMOTE_ATOMIC)),
      gathered_(w_.add_indirect(da_))
{
	b_.connect(a_);
	a_.connect(b_);
	w_.settle();
}

Qp &Link::add(Device &dev, Cq &cq, Counter &counter, bool counted, u32 classes)
{
	Qp &qp = w_.add_qp(dev, {.send_cq = &cq, .sq_slots = sq_slots, .rq_entries = rq_entries});

	if (counted && qp.attach(counter, classes))
		hca_port_bug("a fresh QP takes no counter");
	return qp;
}

void Link::fill(const Wqe &request)
{
	slots_ = request.slots();
	if (sq_slots % slots_ || pi_ % slots_)
		hca_port_bug("requests of %u slots do not fill the ring", slots_);
	auto bytes = request.bytes(0, a_.qpn());
	for (u32 slot = 0; slot < sq_slots; slot += slots_)
		std::memcpy(a_.sq_ring() + slot * HCA_WQE_BB, bytes.data(), bytes.size());
}

void Link::fill_receives(u32 bytes)
{
	/* All places but one are posted at any time. */
	for (u32 i = 0; i < rq_entries; i++)
		b_.post_recv(kb_.sge(0, bytes));
	b_.set_rq_record(b_.hca()->rq.ci + rq_entries - 1u);
}

void Link::post(u32 slots, u32 requests)
{
	hca_budget budget{~0u, ~0u};
	u32 completions = a_.hca()->send_cq->pi;

	pi_ = static_cast<u16>(pi_ + slots * requests);
	a_.set_sq_record(pi_);
	while (hca_qp_run(a_.hca(), &budget) == HCA_RUN_MORE)
		budget = {~0u, ~0u};
	if (a_.hca()->send_cq->pi - completions != requests || a_.state() != HCA_QPS_RTS)
		hca_port_bug("not all requests have succeeded");
	/* The process has polled them all, and posted receives again. */
	ca_.set_consumer_index_record(a_.hca()->send_cq->pi & 0xffffff);
	cb_.set_consumer_index_record(b_.hca()->recv_cq->pi & 0xffffff);
	b_.set_rq_record(b_.hca()->rq.ci + rq_entries - 1u);
}

void Link::run(u32 requests)
{
	post(slots_, requests);
}

void Link::run_one(const Wqe &request)
{
	auto bytes = request.bytes(0, a_.qpn());

	/* From the ring's beginning, so that no request goes through its end. */
	while (pi_ % sq_slots) {
		fill(Wqe::nop());
		run(1);
	}
	std::memcpy(a_.sq_ring(), bytes.data(), bytes.size());
	post(request.slots(), 1);
	fill(Wqe::nop());
	run(sq_slots - request.slots());
}

Wqe Link::write(u32 bytes)
{
	return Wqe::write(kb_.addr(), kb_.key()).sge(ka_.sge(0, bytes));
}

Wqe Link::read(u32 bytes)
{
	return Wqe::read(kb_.addr(), kb_.key()).sge(ka_.sge(0, bytes));
}

Wqe Link::send(u32 bytes)
{
	return Wqe::send().sge(ka_.sge(0, bytes));
}

Wqe Link::fetch_add()
{
	return Wqe::fetch_add(kb_.addr(), kb_.key(), 1).sge(ka_.sge(0, 8));
}

Wqe Link::write_from(u32 key, u32 bytes)
{
	return Wqe::write(kb_.addr(), kb_.key()).sge({0, bytes, key});
}

Wqe Link::gather(u32 block, u32 bytes)
{
	const Block piece{ka_.addr(), static_cast<u16>(block), static_cast<u16>(block), ka_.key()};

	run_one(Wqe::umr_pattern(gathered_.key(), bytes / block, std::span(&piece, 1)));
	return write_from(gathered_.current_key(), bytes);
}

Wqe Link::gather_list(u32 pieces)
{
	std::array<Sge, 32> list;
	const u32 bytes = large / pieces;

	for (u32 i = 0; i < pieces; i++)
		list.at(i) = ka_.sge(u64{2} * i * bytes, bytes);
	run_one(Wqe::umr_list(gathered_.key(), std::span(list).first(pieces)));
	return write_from(gathered_.current_key(), large);
}

} // namespace bench
