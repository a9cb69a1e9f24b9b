// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the requester refuses by itself: the peer sees nothing of it.
#include "pair.hpp"

using namespace world;

namespace {

struct LocalError {
	const char *why;
	u8 syndrome;
	hca_class klass;
	std::function<Wqe(Pair &)> wqe;
};

Wqe good_write(Pair &p) { return Wqe::write(p.kb.addr(), p.kb.key()); }

const LocalError local_errors[] = {
	{"no such key", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge({p.ka.addr(), 8, 0x777700}); }},
	{"the key's index is beyond all numbers", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge({p.ka.addr(), 8, 0xffffffff}); }},
	{"another variant of the key", HCA_SYND_LOCAL_PROT, HCA_CLASS_SEND,
	 [](Pair &p) { return Wqe::send().sge({p.ka.addr(), 8, p.ka.key() ^ 1}); }},
	{"a key that is gone", HCA_SYND_LOCAL_PROT, HCA_CLASS_SEND,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.da, p.ma);
		 k.kill();
		 return Wqe::send().sge(k.sge(0, 8));
	 }},
	{"a key of another protection domain", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge(p.w.add_key(p.da, p.ma, {.pdn = 2}).sge(0, 8)); }},
	{"a key of another device", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) {
		 for (int i = 0; i < 5; i++)
			 p.w.add_key(p.db, p.mb);
		 return good_write(p).sge(p.w.add_key(p.db, p.mb).sge(0, 8));
	 }},
	{"the second piece is bad", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(0, 100)).sge({0, 8, 0}); }},
	{"one byte past the end", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) {
		 auto size = static_cast<u32>(p.ka.length());
		 return good_write(p).sge(p.ka.sge(0, size + 1));
	 }},
	{"one byte before the beginning", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge({p.ka.addr() - 1, 8, p.ka.key()}); }},
	{"starts past the end", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(p.ka.length() + 1, 1)); }},
	{"address and length pass 2^64", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.da, p.ma, {.length = 4096, .iova = 0ull - 4096});
		 return good_write(p).sge({0ull - 8, 16, k.key()});
	 }},
	{"address and length come round to the beginning", HCA_SYND_LOCAL_PROT, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge({p.ka.addr() - 8, 16, p.ka.key()}); }},
	{"a read into memory without local write", HCA_SYND_LOCAL_PROT, HCA_CLASS_READ,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.da, p.ma, {.access = HCA_ACCESS_LOCAL_READ});
		 return Wqe::read(p.kb.addr(), p.kb.key()).sge(k.sge(0, 8));
	 }},
	{"an atomic into memory without local write", HCA_SYND_LOCAL_PROT, HCA_CLASS_ATOMIC,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.da, p.ma, {.access = HCA_ACCESS_LOCAL_READ});
		 return Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).sge(k.sge(0, 8));
	 }},
	{"longer than a message may be", HCA_SYND_LOCAL_LENGTH, HCA_CLASS_SEND,
	 [](Pair &p) { return Wqe::send().sge({p.ka.addr(), HCA_MAX_MSG + 1, p.ka.key()}); }},
	{"a sum of pieces longer than 2^32", HCA_SYND_LOCAL_LENGTH, HCA_CLASS_WRITE,
	 [](Pair &p) {
		 Wqe w = good_write(p);
		 for (int i = 0; i < 3; i++)
			 w.sge({p.ka.addr(), 0x7fffffff, p.ka.key()});
		 return w;
	 }},
	{"an unknown opcode", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_NONE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(0, 8)).opcode(0x3f); }},
	{"an opcode beyond the table", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_NONE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(0, 8)).opcode(0xff); }},
	{"an opcode that this device does not have", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_NONE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(0, 8)).opcode(0x0e); }},
	{"a size of nothing", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).claim_ds(0); }},
	{"a size beyond what is posted", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(0, 8)).claim_ds(9); }},
	{"the largest size with one slot posted", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(0, 8)).claim_ds(63); }},
	{"too short for the remote address", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).claim_ds(1); }},
	{"too short for the operands", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_ATOMIC,
	 [](Pair &p) { return Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).claim_ds(2); }},
	{"an atomic without a buffer", HCA_SYND_LOCAL_LENGTH, HCA_CLASS_ATOMIC,
	 [](Pair &p) { return Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1); }},
	{"another QP's number", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_WRITE,
	 [](Pair &p) { return good_write(p).sge(p.ka.sge(0, 8)).claim_qpn(p.a.qpn() + 1); }},
	{"inline data longer than the WQE", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_WRITE,
	 [](Pair &p) {
		 hca_wqe_data d{cpu_to_be32(HCA_INLINE_SEG | 13), 0, 0};
		 return good_write(p).raw(std::span(reinterpret_cast<u8 *>(&d), sizeof(d)));
	 }},
	{"a read into inline data", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_READ,
	 [](Pair &p) { return Wqe::read(p.kb.addr(), p.kb.key()).inline_data(Bytes(8)); }},
	{"an atomic into inline data", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_ATOMIC,
	 [](Pair &p) { return Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).inline_data(Bytes(8)); }},
	{"invalidation of a key that does not allow it", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_NONE,
	 [](Pair &p) { return Wqe::local_inval(p.ka.key()); }},
	{"invalidation of no key", HCA_SYND_LOCAL_QP_OP, HCA_CLASS_NONE,
	 [](Pair &) { return Wqe::local_inval(0x123400); }},
};

} // namespace

TEST(LocalError, EndsTheRequestAndTheQpWhateverThePeerDoes)
{
	for (auto &e : local_errors) {
		SCOPED_TRACE(e.why);
		for (bool signaled : {true, false}) {
			Pair p({.connect = false});
			Counter &all = p.w.add_counter(p.da);
			Counter &other = p.w.add_counter(p.da);
			for (u32 c = 0; c < HCA_CLASS_COUNT; c++)
				ASSERT_EQ(p.a.attach(c == e.klass ? all : other, 1u << c), 0);
			p.b.connect(p.a);
			p.a.connect(p.b);
			p.w.settle();
			p.b.post_recv(p.kb.sge(0, 4096));

			u16 index = p.a.stage(e.wqe(p).signaled(signaled));
			p.post(Wqe::nop()); /* posted with it; comes too late */
			auto wcs = p.ca.poll_all();
			ASSERT_EQ(wcs.size(), 2u);
			expect_failed(wcs[0], HCA_CQE_REQ_ERR, e.syndrome, index);
			EXPECT_EQ(wcs[0].vendor_err, HCA_VENDOR_LOCAL);
			EXPECT_EQ(wcs[0].qpn, p.a.qpn());
			EXPECT_EQ(wcs[0].user_index, 0x00abcdefu);
			EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
			EXPECT_EQ(p.da.stat(HCA_STAT_ERR_LOCAL), 1u);
			EXPECT_EQ(all.comp(), 0u);
			EXPECT_EQ(all.err(), e.klass == HCA_CLASS_NONE ? 0u : 1u);
			EXPECT_EQ(other.err() + other.comp(), 0u);

			EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
			expect_none(p.cb);
			EXPECT_EQ(p.db.stat(HCA_STAT_ERR_RESPONDER), 0u);
		}
	}
}

TEST(LocalError, AWqeThatClaimsMoreThanIsPostedTakesOneSlot)
{
	Pair p;
	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).claim_ds(63));
	p.a.stage(Wqe::nop());
	p.a.ring();
	p.w.settle();
	auto wcs = p.ca.poll_all();
	ASSERT_EQ(wcs.size(), 2u);
	expect_failed(wcs[0], HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_QP_OP, 0);
	expect_flushed(wcs[1], HCA_CQE_REQ_ERR, 1);
}

TEST(LocalError, TheLastByteOfAKeyThatEndsAtTheTopOfTheAddressSpaceIsUsable)
{
	Pair p;
	Key &k = p.w.add_key(p.da, p.ma, {.length = 4096, .iova = 0ull - 4096});
	p.mb.expect(0, p.ma.read(4080, 16));
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge({0ull - 16, 16, k.key()}));
	expect_sent(p.ca, 0, 16);
}

TEST(LocalError, AnEmptyKeyAllowsNothing)
{
	Pair p;
	Key &k = p.w.add_key(p.da, p.ma, {.length = 0});
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(k.sge(0, 1)));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_PROT, 0);
}

TEST(LocalError, MemoryWithoutLocalWriteMayBeSent)
{
	Pair p;
	Key &k = p.w.add_key(p.da, p.ma, {.access = HCA_ACCESS_LOCAL_READ});
	p.mb.expect(0, p.ma.read(7, 8));
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(k.sge(7, 8)));
	expect_sent(p.ca, 0, 8);
}

TEST(Invalidation, ALocalInvalidateFreesAKeyThatAllowsIt)
{
	Pair p;
	Key &k = p.w.add_key(p.da, p.ma, {.invalidate_ok = true});
	p.mb.expect(0, p.ma.read(0, 8));
	p.a.stage(Wqe::write(p.kb.addr(), p.kb.key()).sge(k.sge(0, 8)));
	u16 index = p.a.stage(Wqe::local_inval(k.key()));
	u16 late = p.a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(k.sge(8, 8)));
	p.w.settle();
	auto wcs = p.ca.poll_all();
	ASSERT_EQ(wcs.size(), 3u);
	EXPECT_TRUE(wcs[0].ok());
	EXPECT_TRUE(wcs[1].ok());
	EXPECT_EQ(wcs[1].index, index);
	EXPECT_EQ(wcs[1].send_op, HCA_OPCODE_LOCAL_INVAL);
	expect_failed(wcs[2], HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_PROT, late);
	EXPECT_TRUE(k.is_free());
}

TEST(Invalidation, ASendWithInvalidateFreesThePeersKeyBeforeItsCompletion)
{
	Pair p;
	Key &k = p.w.add_key(p.db, p.mb, {.invalidate_ok = true});
	p.cb.arm();
	bool free_at_event = false;
	p.w.on_event = [&](const Event &e) {
		if (e.what == Told::CqEvent)
			free_at_event = k.is_free();
	};
	p.mb.expect(9, p.ma.read(0, 5));
	u16 recv = p.b.post_recv(p.kb.sge(9, 5));
	p.post(Wqe::send_inval(k.key()).sge(p.ka.sge(0, 5)));
	expect_sent(p.ca, 0, 5);
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.opcode, HCA_CQE_RESP_SEND_INV);
	EXPECT_EQ(wc.index, recv);
	EXPECT_EQ(wc.imm, k.key());
	EXPECT_TRUE(free_at_event);
	p.w.on_event = nullptr;

	p.post(Wqe::write(k.addr(), k.key()).sge(p.ka.sge(0, 5)));
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_REMOTE_ACCESS);
}

TEST(Invalidation, ASendWithInvalidateOfAKeyThatForbidsItFailsBothSides)
{
	Pair p;
	u16 recv = p.b.post_recv(p.kb.sge(9, 5));
	p.post(Wqe::send_inval(p.kb.key()).sge(p.ka.sge(0, 5)));
	EXPECT_EQ(one(p.ca).opcode, HCA_CQE_REQ_ERR);
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.opcode, HCA_CQE_RESP_ERR);
	EXPECT_EQ(wc.index, recv);
	EXPECT_FALSE(p.kb.is_free());
	EXPECT_EQ(p.b.state(), HCA_QPS_ERR);
	p.mb.accept(9, 5); /* the payload came first */
}

TEST(Invalidation, AFreedKeyDoesNotComeBackWhenItIsInvalidatedAgain)
{
	Pair p;
	Key &k = p.w.add_key(p.da, p.ma, {.invalidate_ok = true});
	p.post(Wqe::local_inval(k.key()));
	EXPECT_TRUE(one(p.ca).ok());
	p.post(Wqe::local_inval(k.key()));
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_LOCAL_QP_OP, 1);
	EXPECT_TRUE(k.is_free());
}
