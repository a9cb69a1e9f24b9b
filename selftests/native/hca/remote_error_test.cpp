// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the responder refuses: both sides fail, each says why, nothing is written.
#include "pair.hpp"

using namespace world;

namespace {

struct Refusal {
	const char *why;
	u8 syndrome;	      // at the requester
	hca_event event;      // at the responder
	hca_class requester;  // counts in
	hca_class responder;  // counts in
	int receive_syndrome; // -1: no receive is used up
	std::function<Wqe(Pair &)> wqe;
	ConnectOptions b;
};

Key &weak(Pair &p, u8 missing)
{
	return p.w.add_key(p.db, p.mb, {.access = static_cast<u8>(all_access & ~missing)});
}

ConnectOptions without(u8 access)
{
	ConnectOptions o;
	o.access = static_cast<u8>(all_access & ~access);
	return o;
}

ConnectOptions no_reads()
{
	ConnectOptions o;
	o.max_dest_rd_atomic = 0;
	return o;
}

Wqe write8(Pair &p, u64 addr, u32 key) { return Wqe::write(addr, key).sge(p.ka.sge(0, 8)); }
Wqe read8(Pair &p, u64 addr, u32 key) { return Wqe::read(addr, key).sge(p.ka.sge(0, 8)); }
Wqe add8(Pair &p, u64 addr, u32 key) { return Wqe::fetch_add(addr, key, 1).sge(p.ka.sge(0, 8)); }

const Refusal refusals[] = {
	{"a write with no such key", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR, HCA_CLASS_WRITE,
	 HCA_CLASS_REMOTE_WRITE, -1, [](Pair &p) { return write8(p, p.kb.addr(), 0x999900); }, {}},
	{"a write with another variant of the key", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) { return write8(p, p.kb.addr(), p.kb.key() + 1); }, {}},
	{"a write with a key of another protection domain", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.db, p.mb, {.pdn = 2});
		 return write8(p, k.addr(), k.key());
	 }, {}},
	{"a write with a key without remote write", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) {
		 Key &k = weak(p, HCA_ACCESS_REMOTE_WRITE);
		 return write8(p, k.addr(), k.key());
	 }, {}},
	{"a write one byte past the end", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR, HCA_CLASS_WRITE,
	 HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) { return write8(p, p.kb.addr(p.kb.length() - 7), p.kb.key()); }, {}},
	{"a long write whose last byte is past the end", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) {
		 auto size = static_cast<u32>(p.ka.length());
		 return Wqe::write(p.kb.addr(1), p.kb.key()).sge(p.ka.sge(0, size));
	 }, {}},
	{"a write before the beginning", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR, HCA_CLASS_WRITE,
	 HCA_CLASS_REMOTE_WRITE, -1, [](Pair &p) { return write8(p, p.kb.addr() - 1, p.kb.key()); }, {}},
	{"a write whose address and length pass 2^64", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.db, p.mb, {.length = 4096, .iova = 0ull - 4096});
		 return write8(p, 0ull - 4, k.key());
	 }, {}},
	{"a write to a QP that forbids writes", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR,
	 HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) { return write8(p, p.kb.addr(), p.kb.key()); }, without(HCA_ACCESS_REMOTE_WRITE)},
	{"a write with immediate to a QP that forbids writes", HCA_SYND_REMOTE_INVAL_REQ,
	 HCA_EVENT_QP_REQ_ERR, HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) { return Wqe::write_imm(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(0, 8)); },
	 without(HCA_ACCESS_REMOTE_WRITE)},
	{"a write with immediate with no such key", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_WRITE, HCA_CLASS_REMOTE_WRITE, -1,
	 [](Pair &p) { return Wqe::write_imm(p.kb.addr(), 0, 1).sge(p.ka.sge(0, 8)); }, {}},
	{"a read with no such key", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR, HCA_CLASS_READ,
	 HCA_CLASS_REMOTE_READ, -1, [](Pair &p) { return read8(p, p.kb.addr(), 0x999900); }, {}},
	{"a read with a key without remote read", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_READ, HCA_CLASS_REMOTE_READ, -1,
	 [](Pair &p) {
		 Key &k = weak(p, HCA_ACCESS_REMOTE_READ);
		 return read8(p, k.addr(), k.key());
	 }, {}},
	{"a read past the end", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR, HCA_CLASS_READ,
	 HCA_CLASS_REMOTE_READ, -1,
	 [](Pair &p) { return read8(p, p.kb.addr(p.kb.length()), p.kb.key()); }, {}},
	{"a read from a QP that forbids reads", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR,
	 HCA_CLASS_READ, HCA_CLASS_REMOTE_READ, -1,
	 [](Pair &p) { return read8(p, p.kb.addr(), p.kb.key()); }, without(HCA_ACCESS_REMOTE_READ)},
	{"a read from a QP without responder resources", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR,
	 HCA_CLASS_READ, HCA_CLASS_REMOTE_READ, -1,
	 [](Pair &p) { return read8(p, p.kb.addr(), p.kb.key()); }, no_reads()},
	{"an atomic with no such key", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR, HCA_CLASS_ATOMIC,
	 HCA_CLASS_REMOTE_ATOMIC, -1, [](Pair &p) { return add8(p, p.kb.addr(), 0x999900); }, {}},
	{"an atomic with a key without remote atomics", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_ATOMIC, HCA_CLASS_REMOTE_ATOMIC, -1,
	 [](Pair &p) {
		 Key &k = weak(p, HCA_ACCESS_REMOTE_ATOMIC);
		 return add8(p, k.addr(), k.key());
	 }, {}},
	{"an atomic that ends past the end", HCA_SYND_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERR,
	 HCA_CLASS_ATOMIC, HCA_CLASS_REMOTE_ATOMIC, -1,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.db, p.mb, {.length = 12});
		 return add8(p, k.addr(8), k.key());
	 }, {}},
	{"an atomic to a QP that forbids atomics", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR,
	 HCA_CLASS_ATOMIC, HCA_CLASS_REMOTE_ATOMIC, -1,
	 [](Pair &p) { return add8(p, p.kb.addr(), p.kb.key()); }, without(HCA_ACCESS_REMOTE_ATOMIC)},
	{"an atomic to a QP without responder resources", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR,
	 HCA_CLASS_ATOMIC, HCA_CLASS_REMOTE_ATOMIC, -1,
	 [](Pair &p) { return add8(p, p.kb.addr(), p.kb.key()); }, no_reads()},
	{"an atomic at an address that is not aligned", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR,
	 HCA_CLASS_ATOMIC, HCA_CLASS_REMOTE_ATOMIC, -1,
	 [](Pair &p) { return add8(p, p.kb.addr(4), p.kb.key()); }, {}},
	{"a send longer than the receive", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR, HCA_CLASS_SEND,
	 HCA_CLASS_NONE, HCA_SYND_LOCAL_LENGTH,
	 [](Pair &p) {
		 p.b.post_recv(p.kb.sge(0, 99));
		 return Wqe::send().sge(p.ka.sge(0, 100));
	 }, {}},
	{"a send into an empty receive", HCA_SYND_REMOTE_INVAL_REQ, HCA_EVENT_QP_REQ_ERR, HCA_CLASS_SEND,
	 HCA_CLASS_NONE, HCA_SYND_LOCAL_LENGTH,
	 [](Pair &p) {
		 p.b.post_recv();
		 return Wqe::send().sge(p.ka.sge(0, 1));
	 }, {}},
	{"a receive with no such key", HCA_SYND_REMOTE_OP, HCA_EVENT_QP_FATAL, HCA_CLASS_SEND, HCA_CLASS_NONE,
	 HCA_SYND_LOCAL_PROT,
	 [](Pair &p) {
		 p.b.post_recv({p.kb.addr(), 100, 0xabc00});
		 return Wqe::send().sge(p.ka.sge(0, 100));
	 }, {}},
	{"a receive without local write", HCA_SYND_REMOTE_OP, HCA_EVENT_QP_FATAL, HCA_CLASS_SEND,
	 HCA_CLASS_NONE, HCA_SYND_LOCAL_PROT,
	 [](Pair &p) {
		 p.b.post_recv(weak(p, HCA_ACCESS_LOCAL_WRITE).sge(0, 100));
		 return Wqe::send().sge(p.ka.sge(0, 100));
	 }, {}},
	{"a receive whose second piece is past the end", HCA_SYND_REMOTE_OP, HCA_EVENT_QP_FATAL,
	 HCA_CLASS_SEND, HCA_CLASS_NONE, HCA_SYND_LOCAL_PROT,
	 [](Pair &p) {
		 Sge list[] = {p.kb.sge(0, 50), p.kb.sge(p.kb.length() - 10, 50)};
		 p.b.post_recv(list);
		 return Wqe::send().sge(p.ka.sge(0, 100));
	 }, {}},
	{"a receive in memory of another protection domain", HCA_SYND_REMOTE_OP, HCA_EVENT_QP_FATAL,
	 HCA_CLASS_SEND, HCA_CLASS_NONE, HCA_SYND_LOCAL_PROT,
	 [](Pair &p) {
		 p.b.post_recv(p.w.add_key(p.db, p.mb, {.pdn = 3}).sge(0, 100));
		 return Wqe::send().sge(p.ka.sge(0, 100));
	 }, {}},
};

} // namespace

TEST(RemoteError, FailsBothSidesAndWritesNothing)
{
	for (auto &r : refusals) {
		SCOPED_TRACE(r.why);
		Pair p({.connect = false});
		Counter &mine = p.w.add_counter(p.da), &my_rest = p.w.add_counter(p.da);
		Counter &its = p.w.add_counter(p.db), &its_recv = p.w.add_counter(p.db),
			&its_rest = p.w.add_counter(p.db);
		for (u32 c = 0; c < HCA_CLASS_COUNT; c++) {
			ASSERT_EQ(p.a.attach(c == r.requester ? mine : my_rest, 1u << c), 0);
			ASSERT_EQ(p.b.attach(c == HCA_CLASS_RECV  ? its_recv
					     : c == r.responder ? its
								: its_rest,
					     1u << c),
				  0);
		}
		p.b.connect(p.a, r.b);
		p.a.connect(p.b);
		p.w.settle();

		Wqe wqe = r.wqe(p);
		bool used = r.receive_syndrome >= 0;
		u16 queued = p.b.post_recv(p.kb.sge(0, 64));
		u16 own = p.b.stage(Wqe::nop()); /* not rung: flushed by the failure */
		p.b.set_sq_record(p.b.producer_index());
		u16 index = p.a.stage(wqe);
		u16 behind = p.a.post(Wqe::nop());
		p.w.settle();

		auto wcs = p.ca.poll_all();
		ASSERT_EQ(wcs.size(), 2u);
		expect_failed(wcs[0], HCA_CQE_REQ_ERR, r.syndrome, index);
		EXPECT_EQ(wcs[0].vendor_err, HCA_VENDOR_REMOTE);
		expect_flushed(wcs[1], HCA_CQE_REQ_ERR, behind);
		EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
		EXPECT_EQ(mine.comp(), 0u);
		EXPECT_EQ(mine.err(), 1u);
		EXPECT_EQ(my_rest.err() + my_rest.comp(), 0u);
		EXPECT_EQ(p.da.stat(HCA_STAT_ERR_REMOTE), 1u);

		EXPECT_EQ(p.b.state(), HCA_QPS_ERR);
		EXPECT_EQ(p.w.count_events({Told::QpEvent, &p.b, r.event}), 1u);
		auto back = p.cb.poll_all();
		ASSERT_EQ(back.size(), used ? 3u : 2u);
		size_t i = 0;
		if (used)
			expect_failed(back[i++], HCA_CQE_RESP_ERR, static_cast<u8>(r.receive_syndrome), 0);
		/* the two queues are flushed one after the other */
		expect_flushed(back[i++], HCA_CQE_REQ_ERR, own);
		expect_flushed(back[i], HCA_CQE_RESP_ERR, queued);
		EXPECT_EQ(its_recv.comp(), 0u);
		EXPECT_EQ(its_recv.err(), used ? 2u : 1u);
		EXPECT_EQ(its.err(), r.responder == HCA_CLASS_NONE ? 0u : 1u);
		EXPECT_EQ(its.comp(), 0u);
		EXPECT_EQ(its_rest.err() + its_rest.comp(), 0u);
		EXPECT_EQ(p.db.stat(HCA_STAT_ERR_RESPONDER), 1u);
		EXPECT_EQ(p.db.stat(HCA_STAT_ERR_FLUSH), 2u);
	}
}

TEST(RemoteError, AMessageWithoutPayloadNeedsNoKey)
{
	Pair p;
	p.post(Wqe::write(0x12345, 0));
	expect_sent(p.ca, 0, 0);
	p.post(Wqe::read(0x12345, 0));
	expect_sent(p.ca, 1, 0);
	p.b.post_recv();
	p.post(Wqe::write_imm(0x12345, 0, 5));
	expect_sent(p.ca, 2, 0);
	EXPECT_EQ(one(p.cb).imm, 5u);
}

TEST(RemoteError, AReadNeedsNoLocalReadAtTheTarget)
{
	Pair p;
	Key &k = p.w.add_key(p.db, p.mb, {.access = HCA_ACCESS_REMOTE_READ});
	p.ma.expect(0, p.mb.read(0, 8));
	p.post(Wqe::read(k.addr(), k.key()).sge(p.ka.sge(0, 8)));
	expect_sent(p.ca, 0, 8);
}

TEST(RemoteError, AKeyThatDiesMidMessageEndsTheMessage)
{
	enum Who { OwnKey, RemoteKey, ReceiveKey };
	for (Who who : {OwnKey, RemoteKey, ReceiveKey}) {
		SCOPED_TRACE(static_cast<int>(who));
		Pair p({.memory = 320 * 1024});
		Key &k = who == OwnKey ? p.w.add_key(p.da, p.ma) : p.w.add_key(p.db, p.mb);
		u32 size = 300000;
		if (who == ReceiveKey)
			p.b.post_recv(k.sge(0, size));
		Wqe wqe = who == ReceiveKey  ? Wqe::send()
			  : who == RemoteKey ? Wqe::write(k.addr(), k.key())
					     : Wqe::write(p.kb.addr(), p.kb.key());
		wqe.sge(who == OwnKey ? k.sge(0, size) : p.ka.sge(0, size));
		p.a.post(wqe); /* a poster moves one slice, the rest is for the engine */
		ASSERT_TRUE(p.w.is_kicked(p.a));
		expect_none(p.ca);
		p.mb.expect(0, p.ma.read(0, HCA_SLICE));
		k.kill();
		p.w.settle();
		Wc wc = one(p.ca);
		EXPECT_EQ(int{wc.syndrome}, who == OwnKey      ? HCA_SYND_LOCAL_PROT
					    : who == RemoteKey ? HCA_SYND_REMOTE_ACCESS
							       : HCA_SYND_REMOTE_OP);
		if (who == ReceiveKey)
			expect_failed(one(p.cb), HCA_CQE_RESP_ERR, HCA_SYND_LOCAL_PROT, 0);
		else
			expect_none(p.cb);
		EXPECT_EQ(p.b.state(), who == OwnKey ? HCA_QPS_RTS : HCA_QPS_ERR);
		EXPECT_FALSE(p.w.damage());
	}
}

TEST(RemoteError, AnotherQpsPeerIsNotServed)
{
	/* c believes it is connected to b, b is connected to a */
	Pair p;
	Qp &c = p.w.add_qp(p.da, {.send_cq = &p.ca});
	c.connect(p.b);
	p.w.settle();
	c.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	expect_none(p.ca);
	EXPECT_TRUE(p.w.timer_of(c));
	EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
	/* the same number on another device is somebody else */
	Device &third = p.w.add_device();
	Cq &cq = p.w.add_cq(third);
	Key &k = p.w.add_key(third, p.ma);
	Qp &d = p.w.add_qp(third, {.send_cq = &cq});
	ASSERT_EQ(d.qpn(), p.a.qpn());
	d.connect(p.b);
	p.w.settle();
	d.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(k.sge(0, 8)));
	expect_none(cq);
	EXPECT_TRUE(p.w.timer_of(d));
}
