// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What most tests start from: two connected QPs, each with memory, a key over it and a CQ.
#pragma once

#include "world.hpp"

#include <gtest/gtest.h>

namespace world {

struct PairOptions {
	bool two_devices = true;
	bool connect = true;
	size_t memory = 96 * 1024;
	u8 block_shift = 12;
	u32 beside = 1; // blocks
	u32 cq_entries = 256;
	u32 cqe_size = 64;
	bool srq = false;
	QpOptions qp{}; // for both, CQs and SRQ aside
	ConnectOptions a{}, b{};
};

// At the end no memory may hold what no test expects there.
struct Pair {
	explicit Pair(const PairOptions &o = {})
	    : options(o), da(w.add_device()), db(o.two_devices ? w.add_device() : da),
	      ma(w.add_memory(o.memory, o.block_shift, o.beside)),
	      mb(w.add_memory(o.memory, o.block_shift, o.beside)),
	      ka(w.add_key(da, ma)), kb(w.add_key(db, mb, {.iova = 0x7f5500000000})),
	      ca(w.add_cq(da, o.cq_entries, o.cqe_size)), cb(w.add_cq(db, o.cq_entries, o.cqe_size)),
	      srq(o.srq ? &w.add_srq(db) : nullptr), a(add(da, ca, nullptr)), b(add(db, cb, srq))
	{
		if (o.connect) {
			b.connect(a, o.b);
			a.connect(b, o.a);
			w.settle();
		}
	}
	~Pair()
	{
		auto bad = w.damage();
		EXPECT_FALSE(bad) << "damaged: " << *bad;
	}

	// Ends with a as it was, so that a sentence about one QP can be about the pair.
	void post(const Wqe &wqe)
	{
		a.post(wqe);
		w.settle();
	}

	PairOptions options;
	World w;
	Device &da, &db;
	Memory &ma, &mb;
	Key &ka, &kb;
	Cq &ca, &cb;
	Srq *srq;
	Qp &a, &b;

private:
	Qp &add(Device &d, Cq &cq, Srq *s)
	{
		QpOptions o = options.qp;
		o.send_cq = &cq;
		o.srq = s;
		return w.add_qp(d, o);
	}
};

// Copies out of a key of domain 1, all of whose bytes are alike in any one of its layouts, while it changes.
struct Copies {
	u32 whole = 0; // that did not end because it had changed
	u32 mixed = 0; // bytes of another layout than the first of the same copy
};

inline Copies copy_while_it_changes(Device &d, u32 key, u32 len, u32 times)
{
	hca_claim claim{};
	claim.dev = d.hca();
	claim.pdn = 1;
	claim.whole = true;
	Copies copies;
	std::vector<u8> out(len);
	for (u32 i = 0; i < times; i++) {
		hca_sge from{}, to{};
		hca_cursor f, t;
		claim.tree_left = HCA_KEY_TREE;
		from.key = key;
		to.data = out.data();
		from.len = to.len = len;
		rcu_read_lock();
		if (hca_sges_resolve(&claim, &from, 1) == HCA_SYND_OK) {
			hca_cursor_init(&f, &from, 1);
			hca_cursor_init(&t, &to, 1);
			if (hca_copy(&t, &f, len) == HCA_COPIED) {
				copies.whole++;
				for (u8 byte : out)
					copies.mixed += byte != out[0];
			}
		}
		rcu_read_unlock();
	}
	return copies;
}

// The only completion in the CQ.
inline Wc one(Cq &cq)
{
	auto wc = cq.poll();
	EXPECT_TRUE(wc) << "no completion";
	EXPECT_FALSE(cq.peek()) << "more than one completion";
	return wc.value_or(Wc{});
}

inline void expect_none(Cq &cq)
{
	auto wc = cq.poll();
	EXPECT_FALSE(wc) << "completion of WQE " << wc->index << ", syndrome " << int{wc->syndrome};
}

// The only completion: a send WQE that succeeded.
inline void expect_sent(Cq &cq, u16 index, u32 bytes)
{
	Wc wc = one(cq);
	EXPECT_EQ(wc.opcode, HCA_CQE_REQ) << "syndrome " << int{wc.syndrome};
	EXPECT_EQ(wc.index, index);
	EXPECT_EQ(wc.byte_cnt, bytes);
}

inline void expect_failed(const Wc &wc, u8 opcode, u8 syndrome, u16 index)
{
	EXPECT_EQ(wc.opcode, opcode);
	EXPECT_EQ(int{wc.syndrome}, int{syndrome});
	EXPECT_EQ(wc.index, index);
}

inline void expect_flushed(const Wc &wc, u8 opcode, u16 index)
{
	expect_failed(wc, opcode, HCA_SYND_WR_FLUSH, index);
}

} // namespace world
