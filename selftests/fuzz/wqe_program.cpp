// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wqe_program.hpp"

#include "input.hpp"
#include "world.hpp"

#include <array>
#include <iterator>

namespace world {

namespace {

// What a key is made of, so that it can come back after it was killed.
struct KeyPlan {
	Device *dev;
	Memory *memory;
	KeyOptions options;
	Key *key = nullptr;
};

class Program {
public:
	explicit Program(std::span<const u8> bytes) : in(bytes)
	{
		for (Device *d : {&a, &b}) {
			Memory &rw = w.add_memory(3000, 8), &ro = w.add_memory(1000, 12), &other = w.add_memory(500, 12);
			Memory &big = w.add_memory(4096, 12), &tiny = w.add_memory(300, 4, 3);
			auto add = [&](Memory &m, KeyOptions o) { keys.push_back({d, &m, o}); };
			add(rw, {.offset = 104, .length = 2500, .iova = 0x1000});
			add(ro, {.offset = 10, .length = 900, .access = HCA_ACCESS_LOCAL_READ | HCA_ACCESS_REMOTE_READ,
				 .iova = 0x1000});
			add(other, {.pdn = 2, .iova = 0x1000});
			add(big, {.iova = 0ull - 65 * 4096, .repeat = 65});
			add(tiny, {.offset = 3, .length = 290, .iova = 0x1001, .invalidate_ok = true});
		}
		for (auto &k : keys)
			make(k);
		qps[0] = &w.add_qp(a, {.send_cq = &ca, .sq_slots = 16, .rq_entries = 8, .rq_wqe_shift = 5});
		qps[1] = &w.add_qp(b, {.send_cq = &cb, .sq_slots = 16, .rq_entries = 8, .rq_wqe_shift = 6});
		qps[2] = &w.add_qp(a, {.send_cq = &ca, .srq = &srq, .sq_slots = 32});
		qps[3] = &w.add_qp(b, {.send_cq = &cb, .srq = nullptr, .sq_slots = 0, .rq_entries = 1,
				       .rq_wqe_shift = 4});
		qps[4] = &w.add_qp(a, {.send_cq = &ca, .sq_slots = 16, .rq_entries = 8, .type = HCA_QP_UD});
		qps[5] = &w.add_qp(a, {.send_cq = &ca, .sq_slots = 16, .rq_entries = 0, .type = HCA_QP_DCI, .streams = 3});
		qps[6] = &w.add_qp(a, {.send_cq = &ca, .srq = &srq, .sq_slots = 0, .type = HCA_QP_DCT, .key = dc_key});
		qps[7] = &w.add_qp(b, {.send_cq = &cb, .sq_slots = 16, .rq_entries = 0, .type = HCA_QP_XRC_INI});
		qps[8] = &w.add_qp(a, {.send_cq = &ca, .sq_slots = 0, .rq_entries = 0, .type = HCA_QP_XRC_TGT, .xrcdn = 3});
		qps[9] = &w.add_qp(a, {.send_cq = &ca, .sq_slots = 16, .rq_entries = 8, .type = HCA_QP_UC});
		xsrq.make_xrc(xrc_srqn, 3, ca, 0x77);
		w.groups.emplace(1, qps[4]);
		for (u32 i = 0; i < 3; i++)
			for (u32 c = 0; c < HCA_CLASS_COUNT; c++)
				qps[i]->attach(*counters[c % 2], 1u << c);
		for (u32 i = 0; i < qps.size(); i++)
			connect(i);
		w.settle(64);
	}

	void run()
	{
		/* Long programs teach nothing that several short ones do not. */
		for (int steps = 0; steps < 400 && !in.empty(); steps++)
			step();
		end();
	}

private:
	Qp &any_qp() { return *qps[in.below(qps.size())]; }
	Cq &any_cq() { return in.byte() & 1 ? cb : ca; }
	/* Mostly of the right device, for what nothing is done with teaches little. */
	Key &any_key(Device &d)
	{
		u32 n = in.byte();
		u32 half = static_cast<u32>(keys.size()) / 2;
		bool right = n < 240;
		return *keys[n % half + (right == (&d == &b) ? half : 0)].key;
	}

	void make(KeyPlan &p) { p.key = &w.add_key(*p.dev, *p.memory, p.options); }

	/* The peer of each: 0 and 1 each other, 2 and 9 themselves, 7 and 8 each other, 3 somebody who does not know it. */
	Qp &peer(u32 i) { return *qps[i == 3 ? 0 : i < 2 ? 1 - i : i == 7 ? 8 : i == 8 ? 7 : i]; }
	static bool has_peer(u8 type) { return type != HCA_QP_UD && type != HCA_QP_DCI && type != HCA_QP_DCT; }

	void connect(u32 i)
	{
		ConnectOptions o;
		o.mtu = 256u << in.below(5);
		o.rnr_retry = in.byte() & 7;
		o.retry_cnt = in.byte() & 7;
		o.rnr_timer = 1;
		o.timeout = in.byte() & 7;
		if (in.byte() == 1)
			o.access = in.byte() & all_access;
		if (in.byte() == 1)
			o.max_dest_rd_atomic = 0;
		if (!has_peer(qps[i]->options().type)) {
			qps[i]->start(o);
			return;
		}
		qps[i]->to_init(o);
		if (in.byte() & 1)
			hca_qp_enable_mmo(qps[i]->hca());
		qps[i]->to_rtr(peer(i), o);
		qps[i]->to_rts(o);
	}

	Sge any_sge(Device &d, bool aligned = false)
	{
		Key &k = any_key(d);
		u8 how = in.byte();
		if (how >= 0xc0) {
			IndirectKey &i = indirect_of(d);
			return i.sge(how & 4 ? i.layout().iova + in.byte() : in.word(), in.byte() & ~(aligned ? 7u : 0u));
		}
		u64 off = in.half() % k.length();
		u32 len = how & 1 ? in.half() : in.byte();

		if (how & 2)
			len = static_cast<u32>(k.length());
		if (how & 4)
			len *= 16;
		if (aligned)
			off &= ~7ull, len = 8;
		if (how < 0xc0) /* within the key */
			len = static_cast<u32>(std::min<u64>(len, k.length() - off));
		if (how < 0xf0)
			return {k.addr(off), len, k.key()};
		return {k.addr(off) ^ u64{in.word()} << 32, in.word(), in.byte() & 1 ? in.word() : k.key()};
	}

	void structured_wqe()
	{
		static constexpr u8 ops[] = {HCA_OPCODE_NOP, HCA_OPCODE_SEND, HCA_OPCODE_SEND_IMM,
					     HCA_OPCODE_SEND_INVAL, HCA_OPCODE_RDMA_WRITE,
					     HCA_OPCODE_RDMA_WRITE_IMM, HCA_OPCODE_RDMA_READ,
					     HCA_OPCODE_ATOMIC_CS, HCA_OPCODE_ATOMIC_FA,
					     HCA_OPCODE_LOCAL_INVAL, HCA_OPCODE_UMR, HCA_OPCODE_MMO};
		Qp &q = any_qp();
		u8 op = ops[in.below(std::size(ops))];
		u8 flags = in.byte();
		Wqe wqe(op);

		if (op == HCA_OPCODE_UMR) {
			registration(q, flags);
			return;
		}

		if (!q.sq_slots())
			return;
		Device &far_device = q.remote ? *q.remote : q.device();
		if (op != HCA_OPCODE_NOP && op != HCA_OPCODE_LOCAL_INVAL && op != HCA_OPCODE_MMO)
			address(q, wqe);
		bool atomic = op == HCA_OPCODE_ATOMIC_CS || op == HCA_OPCODE_ATOMIC_FA;
		if (op == HCA_OPCODE_SEND_INVAL)
			wqe.imm(any_key(far_device).key());
		if (op == HCA_OPCODE_LOCAL_INVAL)
			wqe.imm(flags & 8 ? indirect_of(q.device()).current_key() : any_key(q.device()).key());
		if (op >= HCA_OPCODE_RDMA_WRITE && op != HCA_OPCODE_SEND && op != HCA_OPCODE_SEND_IMM &&
		    op <= HCA_OPCODE_ATOMIC_FA) {
			Sge far = any_sge(far_device, atomic && !(flags & 0x80));
			wqe.remote(far.addr, far.key);
		}
		if (atomic)
			wqe.atomic(in.word(), in.word());
		if (op == HCA_OPCODE_MMO) {
			Sge from = any_sge(q.device()), to = any_sge(q.device());
			if (!(flags & 0x80))
				from.len = to.len = std::min(from.len, to.len);
			wqe = Wqe::memcpy(from, to);
			if (flags & 8)
				wqe.opmod(in.byte());
		}
		u32 pieces = op == HCA_OPCODE_MMO ? in.byte() < 8 : flags & 8 ? in.byte() % 40 : 1 + in.byte() % 3;
		for (u32 i = 0; i < pieces; i++) {
			if (flags & 16 && in.byte() & 1)
				wqe.inline_data(in.bytes(in.byte() % 40));
			else
				wqe.sge(any_sge(q.device(), atomic && !(flags & 0x80)));
		}
		if (wqe.slots() > std::min(q.sq_slots(), HCA_WQE_MAX_BYTES / HCA_WQE_BB))
			return;
		wqe.signaled(flags & 1);
		if (flags & 2)
			wqe.solicited();
		if ((flags & 0x60) == 0x60)
			wqe.claim_ds(in.byte());
		u16 index = q.stage(wqe);
		if (flags & 4)
			q.sq_ring()[(index % q.sq_slots() * HCA_WQE_BB + in.byte()) % (q.sq_slots() * HCA_WQE_BB)] ^=
			    in.byte();
		if (in.byte() & 1)
			q.ring();
	}

	/* Where a datagram, a DC or an XRC request goes; mostly to somebody. */
	void address(Qp &q, Wqe &wqe)
	{
		u8 how = in.byte();
		switch (q.options().type) {
		case HCA_QP_UD:
			if (how & 1)
				wqe.to_group(how >> 4 & 1, 0x1ee);
			else
				wqe.to(how & 2 ? a.number() : how >> 4, how & 12 ? qps[4]->qpn() : in.half(),
				       u64{how & 0x80 ? in.word() : 0x1ee} << 32, how != 2);
			break;
		case HCA_QP_DCI:
			wqe.to(how & 3 ? a.number() : how >> 4, how & 12 ? qps[6]->qpn() : in.half(),
			       how & 0xc0 ? dc_key : in.byte());
			wqe.stream(in.byte() & 7);
			break;
		case HCA_QP_XRC_INI:
			wqe.to_srq(how & 7 ? xrc_srqn : in.half());
			break;
		}
	}

	/* Layouts of pieces of any keys, or none. */
	void registration(Qp &q, u8 flags)
	{
		if (!q.sq_slots())
			return;
		IndirectKey &k = indirect_of(q.device());
		UmrOptions o;
		o.access = in.byte();
		if (flags & 2)
			o.variant = in.byte();
		if (flags & 4)
			o.flags |= static_cast<u8>(in.byte());
		if (flags & 8)
			o.mask ^= 1ull << in.below(32);
		if (flags & 32)
			o.start = in.word();
		Wqe wqe = Wqe::umr_free(k.current_key());
		u32 n = 1 + in.below(6);
		if (flags & 64) {
			std::vector<Sge> list;
			while (n--)
				list.push_back(any_sge(q.device()));
			wqe = Wqe::umr_list(k.current_key(), list, o);
		} else if (flags & 128) {
			std::vector<Block> list;
			while (n--) {
				Sge s = any_sge(q.device());
				list.push_back({s.addr, static_cast<u16>(s.len & 0x7f), in.byte(), s.key});
			}
			wqe = Wqe::umr_pattern(k.current_key(), in.byte(), list, o);
		}
		if (wqe.slots() > q.sq_slots())
			return;
		wqe.signaled(flags & 1);
		q.stage(wqe);
		if (flags & 16)
			q.ring();
	}

	IndirectKey &indirect_of(Device &d) { return *indirect[(&d == &b ? 2 : 0) + (in.byte() & 1)]; }

	static void scribble(u8 *ring, size_t size, size_t at, std::span<const u8> bytes)
	{
		for (size_t i = 0; size && i < bytes.size(); i++)
			ring[(at + i) % size] = bytes[i];
	}

	void post_recv()
	{
		Qp &q = any_qp();
		std::vector<Sge> list;
		if (q.options().type == HCA_QP_XRC_TGT) {
			list.push_back(any_sge(a));
			if (xsrq_left)
				xsrq_left--, xsrq.post(list);
			return;
		}
		if (!q.options().srq && !q.options().rq_entries)
			return;
		u32 room = q.options().srq ? 3 : (1u << q.options().rq_wqe_shift) / 16;
		u32 n = 1 + in.byte() % room;
		for (u32 i = 0; i < n; i++)
			list.push_back(any_sge(q.device()));
		if (!q.options().srq) {
			q.post_recv(list);
		} else if (!srq_broken) {
			if (srq_left)
				srq_left--, srq.post(list);
		}
	}

	void hostile_srq()
	{
		srq_broken = true;
		switch (in.below(3)) {
		case 0:
			scribble(srq.wqe(0), size_t{srq.entries()} << srq.shift(), in.half(), in.bytes(in.byte()));
			break;
		case 1:
			srq.set_next(static_cast<u16>(in.below(srq.entries())), in.half());
			break;
		case 2:
			srq.set_posted_record(in.half());
			break;
		}
	}

	void change_state()
	{
		u32 i = in.below(qps.size());
		Qp &q = *qps[i];
		switch (in.below(6)) {
		case 0:
			q.to(HCA_QPS_ERR);
			break;
		case 1:
			q.to(HCA_QPS_RESET);
			break;
		case 2:
			q.to(HCA_QPS_RESET);
			connect(i);
			break;
		case 3:
			if (q.state() == HCA_QPS_RTS)
				q.to(HCA_QPS_SQD);
			else if (q.state() == HCA_QPS_SQD)
				q.to(HCA_QPS_RTS);
			break;
		case 4:
			if (q.state() == HCA_QPS_RESET && in.byte() & 1)
				q.attach(*counters[in.below(counters.size())], in.half() & ((1u << HCA_CLASS_COUNT) - 1));
			break;
		case 5: {
			hca_qp_attr attr{};
			attr.mask = HCA_ATTR_ACCESS | HCA_ATTR_RNR_TIMER | HCA_ATTR_MAX_DEST_RD_ATOMIC;
			attr.access = in.byte() & all_access;
			attr.rnr_timer = in.byte() & 31;
			attr.max_dest_rd_atomic = in.byte() & 1;
			q.modify(attr);
			break;
		}
		}
	}

	void change_key()
	{
		KeyPlan &p = keys[in.below(static_cast<u32>(keys.size()))];
		p.key->kill();
		if (in.byte() & 3)
			make(p);
	}

	void use_cq()
	{
		Cq &cq = any_cq();
		switch (in.below(7)) {
		case 0:
			cq.set_consumer_index_record(in.word());
			broken(cq) = true;
			break;
		case 1:
			cq.set_arm_record(in.word());
			hca_cq_arm(cq.hca());
			break;
		case 2:
			cq.arm(in.byte() & 1);
			break;
		case 3:
			if (!broken(cq))
				cq.resize(1u << (1 + in.below(6)), in.byte() & 1 ? 64 : 128);
			break;
		case 4:
			cq.take_event();
			break;
		default:
			for (u32 n = in.below(40); n && !broken(cq); n--) {
				auto wc = cq.poll();
				if (!wc)
					break;
				check(*wc);
			}
		}
	}

	void step()
	{
		switch (in.below(18)) {
		case 0:
		case 1:
		case 2:
			structured_wqe();
			break;
		case 3:
		case 4:
		case 5: {
			Qp &q = any_qp();
			if (q.sq_slots())
				q.ring();
			break;
		}
		case 6: {
			Qp &q = any_qp();
			scribble(q.sq_ring(), size_t{q.sq_slots()} * HCA_WQE_BB, in.half(), in.bytes(in.byte()));
			break;
		}
		case 7:
			any_qp().set_sq_record(in.half());
			break;
		case 8:
		case 9:
			post_recv();
			break;
		case 10: {
			Qp &q = any_qp();
			if (!q.options().srq)
				scribble(q.rq_ring(), size_t{q.options().rq_entries} << q.options().rq_wqe_shift,
					 in.half(), in.bytes(in.byte()));
			else
				hostile_srq();
			break;
		}
		case 11:
			any_qp().set_rq_record(in.half());
			break;
		case 12:
			change_state();
			break;
		case 13:
			change_key();
			break;
		case 14: {
			Qp &q = any_qp();
			q.run(in.byte(), in.byte() * 700u);
			break;
		}
		case 15:
			/* At most a few dozen timers: the shortest are of some microseconds. */
			w.advance(1ull << in.below(23), 8);
			w.settle(4);
			break;
		case 16:
			use_cq();
			break;
		case 17:
			switch (in.below(3)) {
			case 0:
				(in.byte() & 1 ? a : b).set_up(in.byte() & 3);
				break;
			case 1:
				hca_srq_set_limit(srq.hca(), in.byte());
				break;
			case 2:
				hca_counter_arm(counters[in.byte() & 1]->hca(), in.byte() & 1);
				break;
			}
			break;
		}
	}

	void check(const Wc &wc)
	{
		require(wc.opcode <= HCA_CQE_RESP_SEND_INV || wc.opcode == HCA_CQE_REQ_ERR ||
			    wc.opcode == HCA_CQE_RESP_ERR,
			"a completion has an opcode that exists");
		require(wc.ok() == (wc.syndrome == 0), "only failed completions say why");
		bool ours = false;
		for (Qp *q : qps)
			ours |= q->qpn() == wc.qpn;
		require(ours, "a completion is of one of the QPs");
	}

	bool &broken(Cq &cq) { return &cq == &ca ? ca_broken : cb_broken; }

	/* Whatever happened: the error state ends it. */
	void end()
	{
		for (Qp *q : qps)
			q->to(HCA_QPS_ERR);
		w.settle(64);
		for (Qp *q : qps) {
			require(!w.is_kicked(*q), "a QP in the error state comes to rest");
			require(q->state() == HCA_QPS_ERR, "the error state is not left by itself");
		}
		for (Cq *cq : {&ca, &cb})
			while (!broken(*cq)) {
				auto wc = cq->poll();
				if (!wc)
					break;
				check(*wc);
			}

		u64 posted[2] = {srq.ever_posted() + xsrq.ever_posted(), 0};
		for (Qp *q : qps)
			posted[&q->device() == &b] += q->ever_posted();
		/* Operations that finished at a, receives and sends, counted by number. */
		require(counters[0]->comp() + counters[0]->err() <= 2 * (posted[0] + posted[1]),
			"no more is counted than was posted");
		require(a.stat(HCA_STAT_CQES) <= posted[0], "device a completes no more than was posted");
		require(b.stat(HCA_STAT_CQES) <= posted[1], "device b completes no more than was posted");

		for (auto &k : keys)
			if (k.options.access & HCA_ACCESS_LOCAL_WRITE && k.options.pdn == 1)
				k.memory->accept(k.options.offset,
						 std::min(k.options.length, k.memory->size() - k.options.offset));
		auto bad = w.damage();
		require(!bad, "memory that no key allows to write is untouched");
	}

	Input in;
	World w;
	Device &a = w.add_device(), &b = w.add_device();
	Cq &ca = w.add_cq(a, 16), &cb = w.add_cq(b, 64, 128);
	static constexpr u64 dc_key = 0xdc;
	static constexpr u32 xrc_srqn = 100;
	Srq &srq = w.add_srq(a, 8, 6);
	Srq &xsrq = w.add_srq(a, 8, 6);
	std::array<IndirectKey *, 4> indirect = {&w.add_indirect(a), &w.add_indirect(a, {.max_entries = 4}),
						 &w.add_indirect(b), &w.add_indirect(b, {.invalidate_ok = true})};
	std::array<Counter *, 2> counters = {&w.add_counter(a), &w.add_counter(a, true)};
	std::array<Qp *, 10> qps{};
	std::vector<KeyPlan> keys;
	bool ca_broken = false, cb_broken = false, srq_broken = false;
	u32 srq_left = 7, xsrq_left = 7;
};

} // namespace

void run_wqe_program(std::span<const u8> program)
{
	Program(program).run();
}

} // namespace world
