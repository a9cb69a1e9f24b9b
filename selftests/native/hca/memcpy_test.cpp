// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies within the host (MMO, DMA): what they move, and what is refused.
#include "pair.hpp"

using namespace world;

namespace {

// A QP with a buffer to copy from (ka) and one to copy to (extra); nobody is at the other end.
struct Copier : Pair {
	Memory &to_memory;
	Key &to;

	explicit Copier(bool enabled = true, size_t bytes = 256 * 1024)
	    : Pair({.connect = false, .memory = bytes}), to_memory(w.add_memory(bytes)), to(w.add_key(da, to_memory))
	{
		a.to_init();
		if (enabled) {
			EXPECT_EQ(hca_qp_enable_mmo(a.hca()), 0);
		}
		a.to_rtr(b);
		a.to_rts();
		w.settle();
	}
	Wqe copy(u32 from_at, u32 to_at, u32 len) { return Wqe::memcpy(ka.sge(from_at, len), to.sge(to_at, len)); }
};

void expect_refused(Copier &c, const Wqe &wqe, u8 syndrome)
{
	c.post(wqe);
	expect_failed(one(c.ca), HCA_CQE_REQ_ERR, syndrome, 0);
	EXPECT_EQ(c.a.state(), HCA_QPS_ERR);
}

} // namespace

TEST(Memcpy, BytesArriveAndTheCompletionNamesTheOperation)
{
	for (u32 len : {1u, 7u, 8u, 4095u, 65536u, 65537u, 200000u}) {
		Copier c;
		c.to_memory.expect(13, c.ma.read(5, len));
		c.post(c.copy(5, 13, len));
		Wc wc = one(c.ca);
		EXPECT_EQ(wc.opcode, HCA_CQE_REQ);
		EXPECT_EQ(wc.send_op, HCA_OPCODE_MMO);
		EXPECT_EQ(wc.byte_cnt, len);
	}
}

TEST(Memcpy, ALaterRequestSeesWhatWasCopied)
{
	Copier c;
	c.to_memory.expect(0, c.ma.read(0, 100000));
	c.to_memory.expect(150000, c.ma.read(0, 100000));
	c.a.stage(c.copy(0, 0, 100000).signaled(false));
	c.a.stage(Wqe::memcpy(c.to.sge(0, 100000), c.to.sge(150000, 100000)));
	c.a.ring();
	c.w.settle();
	EXPECT_TRUE(one(c.ca).ok());
}

TEST(Memcpy, ItGoesOnWhereTheBudgetEnded)
{
	Copier c;
	c.to_memory.expect(0, c.ma.read(0, 256 * 1024));
	c.a.stage(c.copy(0, 0, 256 * 1024));
	c.a.set_sq_record(c.a.producer_index());
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(c.a.run(1, HCA_SLICE), HCA_RUN_MORE);
		expect_none(c.ca);
	}
	c.a.run(1, HCA_SLICE);
	EXPECT_TRUE(one(c.ca).ok());
}

TEST(Memcpy, ACounterCountsItOrItsBytes)
{
	for (bool bytes : {false, true}) {
		Pair p({.connect = false});
		Memory &m = p.w.add_memory(4096);
		Key &to = p.w.add_key(p.da, m);
		Counter &k = p.w.add_counter(p.da, bytes);
		ASSERT_EQ(p.a.attach(k, 1u << HCA_CLASS_MEMCPY), 0);
		p.a.to_init();
		ASSERT_EQ(hca_qp_enable_mmo(p.a.hca()), 0);
		p.a.to_rtr(p.b);
		p.a.to_rts();
		m.expect(0, p.ma.read(0, 64));
		p.post(Wqe::memcpy(p.ka.sge(0, 64), to.sge(0, 64)).signaled(false));
		EXPECT_EQ(k.comp(), bytes ? 64u : 1u);
		p.post(Wqe::memcpy(p.ka.sge(0, 64), to.sge(4096, 64)));
		EXPECT_EQ(k.comp(), bytes ? 64u : 1u);
		EXPECT_EQ(k.err(), 1u);
		one(p.ca);
	}
}

TEST(Memcpy, IsRefusedWhereItWasNotEnabled)
{
	Copier c(false);
	expect_refused(c, c.copy(0, 0, 8), HCA_SYND_LOCAL_QP_OP);
}

TEST(Memcpy, IsEnabledInInitAndUntilReset)
{
	Pair p({.connect = false});
	EXPECT_EQ(hca_qp_enable_mmo(p.a.hca()), -EINVAL);
	p.a.to_init();
	EXPECT_EQ(hca_qp_enable_mmo(p.a.hca()), 0);
	p.a.to_rtr(p.b);
	EXPECT_EQ(hca_qp_enable_mmo(p.a.hca()), -EINVAL);
	EXPECT_TRUE(p.a.hca()->mmo);
	p.a.to(HCA_QPS_RESET);
	EXPECT_FALSE(p.a.hca()->mmo);
}

TEST(Memcpy, KeysAreCheckedAndNothingIsWritten)
{
	{
		Copier c; /* behind the source's end */
		expect_refused(c, c.copy(256 * 1024 - 8, 0, 9), HCA_SYND_LOCAL_PROT);
	}
	{
		Copier c; /* behind the destination's end */
		expect_refused(c, c.copy(0, 256 * 1024 - 8, 9), HCA_SYND_LOCAL_PROT);
	}
	{
		Copier c; /* 2 GiB */
		expect_refused(c, c.copy(0, 0, 0), HCA_SYND_LOCAL_PROT);
	}
	{
		Copier c; /* a destination that is read only */
		Key &ro = c.w.add_key(c.da, c.to_memory, {.access = HCA_ACCESS_REMOTE_READ});
		expect_refused(c, Wqe::memcpy(c.ka.sge(0, 8), ro.sge(0, 8)), HCA_SYND_LOCAL_PROT);
	}
	{
		Copier c; /* another protection domain */
		Key &other = c.w.add_key(c.da, c.to_memory, {.pdn = 77});
		expect_refused(c, Wqe::memcpy(c.ka.sge(0, 8), other.sge(0, 8)), HCA_SYND_LOCAL_PROT);
		Copier d;
		Key &source = d.w.add_key(d.da, d.to_memory, {.pdn = 77});
		expect_refused(d, Wqe::memcpy(source.sge(0, 8), d.to.sge(0, 8)), HCA_SYND_LOCAL_PROT);
	}
}

TEST(Memcpy, ItsWqeHasOneForm)
{
	{
		Copier c; /* another kind of MMO */
		expect_refused(c, c.copy(0, 0, 8).opmod(2), HCA_SYND_LOCAL_QP_OP);
	}
	{
		Copier c; /* lengths that differ */
		expect_refused(c, Wqe::memcpy(c.ka.sge(0, 8), c.to.sge(0, 16)), HCA_SYND_LOCAL_QP_OP);
	}
	{
		Copier c; /* inline data */
		expect_refused(c, c.copy(0, 0, HCA_INLINE_SEG | 4), HCA_SYND_LOCAL_QP_OP);
	}
	for (u8 ds : {1, 2, 3}) {
		Copier c; /* segments missing */
		expect_refused(c, c.copy(0, 0, 8).claim_ds(ds), HCA_SYND_LOCAL_QP_OP);
	}
	{
		Copier c; /* one too many */
		expect_refused(c, c.copy(0, 0, 8).sge(c.ka.sge(0, 8)), HCA_SYND_LOCAL_QP_OP);
	}
}

TEST(Memcpy, OfADestinationThatOverlapsTheSourceNothingElseIsWritten)
{
	for (u32 at : {1u, 8u, 100u, 70000u}) {
		Copier c;
		c.post(Wqe::memcpy(c.ka.sge(0, 100000), c.ka.sge(at, 100000)));
		EXPECT_TRUE(one(c.ca).ok());
		/* which of the source's bytes are there depends on the order of moves */
		c.ma.accept(at, 100000);
	}
}
