// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion counters: what counts where, as what, and when.
#include "pair.hpp"

using namespace world;

namespace {

constexpr u32 bit(hca_class c) { return 1u << c; }
constexpr u32 every_class = (1u << HCA_CLASS_COUNT) - 1;

// A counter for each class, of both kinds on different QPs of the same traffic.
struct Counted {
	Counted(Pair &p, Device &d, Qp &q, bool bytes)
	{
		for (u32 c = 0; c < HCA_CLASS_COUNT; c++) {
			of[c] = &p.w.add_counter(d, bytes);
			EXPECT_EQ(q.attach(*of[c], 1u << c), 0);
		}
	}
	// Only these have these values.
	struct Expect {
		hca_class c;
		u64 comp;
		u64 err = 0;
	};
	void expect(std::initializer_list<Expect> list) const
	{
		for (u32 c = 0; c < HCA_CLASS_COUNT; c++) {
			u64 comp = 0, err = 0;
			for (auto &e : list)
				if (e.c == c)
					comp = e.comp, err = e.err;
			EXPECT_EQ(of[c]->comp(), comp) << "class " << c;
			EXPECT_EQ(of[c]->err(), err) << "class " << c;
		}
	}
	Counter *of[HCA_CLASS_COUNT];
};

struct Operation {
	const char *name;
	hca_class requester;
	std::vector<hca_class> responder;
	u32 bytes;
	std::function<Wqe(Pair &)> wqe; // over 100 bytes at 0 of both
	bool receive;
};

const Operation operations[] = {
	{"send", HCA_CLASS_SEND, {HCA_CLASS_RECV}, 100,
	 [](Pair &p) { return Wqe::send().sge(p.ka.sge(0, 100)); }, true},
	{"send with immediate", HCA_CLASS_SEND, {HCA_CLASS_RECV}, 100,
	 [](Pair &p) { return Wqe::send_imm(1).sge(p.ka.sge(0, 100)); }, true},
	{"send with invalidate", HCA_CLASS_SEND, {HCA_CLASS_RECV}, 100,
	 [](Pair &p) {
		 Key &k = p.w.add_key(p.db, p.mb, {.invalidate_ok = true});
		 return Wqe::send_inval(k.key()).sge(p.ka.sge(0, 100));
	 }, true},
	{"write", HCA_CLASS_WRITE, {HCA_CLASS_REMOTE_WRITE}, 100,
	 [](Pair &p) { return Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 100)); }, false},
	{"write with immediate", HCA_CLASS_WRITE, {HCA_CLASS_REMOTE_WRITE, HCA_CLASS_RECV}, 100,
	 [](Pair &p) { return Wqe::write_imm(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(0, 100)); }, true},
	{"read", HCA_CLASS_READ, {HCA_CLASS_REMOTE_READ}, 100,
	 [](Pair &p) { return Wqe::read(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 100)); }, false},
	{"fetch and add", HCA_CLASS_ATOMIC, {HCA_CLASS_REMOTE_ATOMIC}, 8,
	 [](Pair &p) { return Wqe::fetch_add(p.kb.addr(), p.kb.key(), 0).sge(p.ka.sge(0, 8)); }, false},
	{"compare and swap", HCA_CLASS_ATOMIC, {HCA_CLASS_REMOTE_ATOMIC}, 8,
	 [](Pair &p) { return Wqe::compare_swap(p.kb.addr(), p.kb.key(), 1, 1).sge(p.ka.sge(0, 8)); }, false},
};

} // namespace

TEST(Counter, EveryOperationCountsInItsClassAtBothEndsSignaledOrNot)
{
	for (auto &op : operations) {
		for (bool bytes : {false, true}) {
			for (bool signaled : {false, true}) {
				SCOPED_TRACE(testing::Message() << op.name << (bytes ? ", bytes" : ", requests")
								<< (signaled ? ", signaled" : ""));
				Pair p({.connect = false});
				Counted a(p, p.da, p.a, bytes), b(p, p.db, p.b, bytes);
				p.b.connect(p.a);
				p.a.connect(p.b);
				p.w.settle();
				p.ma.write(0, p.mb.read(0, 100)); /* the same at both ends */
				for (u64 n = 1; n <= 3; n++) {
					if (op.receive)
						p.b.post_recv(p.kb.sge(0, 100));
					p.post(op.wqe(p).signaled(signaled));
					u64 value = bytes ? n * op.bytes : n;
					a.expect({{op.requester, value}});
					if (op.responder.size() == 1)
						b.expect({{op.responder[0], value}});
					else
						b.expect({{op.responder[0], value}, {op.responder[1], value}});
					EXPECT_EQ(p.ca.poll_all().size(), signaled ? 1u : 0u);
				}
			}
		}
	}
}

TEST(Counter, AFailedOperationCountsOneErrorOfItsClassWhateverTheKind)
{
	for (auto &op : operations) {
		for (bool bytes : {false, true}) {
			for (bool signaled : {false, true}) {
				SCOPED_TRACE(op.name);
				Pair p({.connect = false});
				Counted a(p, p.da, p.a, bytes), b(p, p.db, p.b, bytes);
				ConnectOptions closed;
				closed.access = 0;
				p.b.connect(p.a, closed);
				p.a.connect(p.b);
				p.w.settle();
				/* sends fail for the receive's lack of room, the rest for the QP's lack of access */
				bool send = op.requester == HCA_CLASS_SEND;
				if (send)
					p.b.post_recv(p.kb.sge(0, 50));
				p.post(op.wqe(p).signaled(signaled));
				a.expect({{op.requester, 0, 1}});
				b.expect({{op.responder[0], 0, 1}});
				EXPECT_EQ(p.ca.poll_all().size(), 1u);
			}
		}
	}
}

TEST(Counter, AFlushedRequestCountsOneErrorOfItsClassWhateverTheKind)
{
	for (auto &op : operations) {
		for (bool bytes : {false, true}) {
			for (bool signaled : {false, true}) {
				SCOPED_TRACE(op.name);
				Pair p({.connect = false});
				Counted a(p, p.da, p.a, bytes);
				p.a.connect(p.b);
				p.w.settle();
				for (int i = 0; i < 3; i++)
					p.a.stage(op.wqe(p).signaled(signaled));
				p.a.set_sq_record(p.a.producer_index());
				p.a.to(HCA_QPS_ERR);
				p.w.settle();
				a.expect({{op.requester, 0, 3}});
				EXPECT_EQ(p.ca.poll_all().size(), 3u);
			}
		}
	}
}

TEST(Counter, AFlushedReceiveCountsOneErrorWhateverTheKind)
{
	for (bool bytes : {false, true}) {
		Pair p({.connect = false});
		Counted b(p, p.db, p.b, bytes);
		p.b.to_init();
		for (int i = 0; i < 4; i++)
			p.b.post_recv(p.kb.sge(0, 100));
		p.b.to(HCA_QPS_ERR);
		b.expect({{HCA_CLASS_RECV, 0, 4}});
	}
}

TEST(Counter, AReceiveOfASharedQueueCountsForTheQpThatUsedIt)
{
	Pair p({.connect = false, .srq = true});
	Counted b(p, p.db, p.b, true);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.srq->post(p.kb.sge(0, 64));
	p.mb.expect(0, p.ma.read(0, 33));
	p.post(Wqe::send().sge(p.ka.sge(0, 33)));
	b.expect({{HCA_CLASS_RECV, 33}});
}

TEST(Counter, OfADatagramBothEndsCountThePayloadAlone)
{
	Pair p({.connect = false, .qp = {.type = HCA_QP_UD}});
	Counted a(p, p.da, p.a, true), b(p, p.db, p.b, true);
	p.a.start();
	p.b.start();
	p.b.post_recv(p.kb.sge(0, HCA_GRH_BYTES + 100));
	p.mb.expect(HCA_GRH_BYTES, p.ma.read(0, 100));
	p.post(Wqe::send().to(p.db.number(), p.b.qpn(), u64{ConnectOptions{}.qkey} << 32).sge(p.ka.sge(0, 100)));
	a.expect({{HCA_CLASS_SEND, 100}});
	b.expect({{HCA_CLASS_RECV, 100}});
	p.mb.accept(0, HCA_GRH_BYTES);
	EXPECT_EQ(one(p.cb).byte_cnt, HCA_GRH_BYTES + 100u);
}

TEST(Counter, EndsThatRefuseAndGoOnCountAnErrorToo)
{
	for (u8 type : {HCA_QP_UC, HCA_QP_DCT}) {
		SCOPED_TRACE(testing::Message() << "type " << int{type});
		const bool dc = type == HCA_QP_DCT;
		Pair p({.connect = false, .qp = {.rq_entries = dc ? 0u : 64u, .type = u8(dc ? HCA_QP_DCI : HCA_QP_UC)}});
		Srq &srq = p.w.add_srq(p.db);
		Qp &to = dc ? p.w.add_qp(p.db, {.send_cq = &p.cb, .srq = &srq, .sq_slots = 0, .rq_entries = 0,
						.type = HCA_QP_DCT, .key = 7}) :
			      p.b;
		Counted a(p, p.da, p.a, true), b(p, p.db, to, true);
		if (dc) {
			p.a.start();
			to.start();
		} else {
			to.connect(p.a);
			p.a.connect(to);
		}
		auto request = [&](u8 op, u32 key, u32 len) {
			Wqe w(op);
			if (dc)
				w.to(p.db.number(), to.qpn(), 7);
			w.remote(p.kb.addr(), key);
			if (op == HCA_OPCODE_ATOMIC_FA)
				w.atomic(1, 0);
			return w.sge(p.ka.sge(0, len));
		};
		p.mb.expect(0, p.ma.read(0, 30));
		p.post(request(HCA_OPCODE_RDMA_WRITE, p.kb.key(), 30));
		p.post(request(HCA_OPCODE_RDMA_WRITE, p.kb.key() ^ 1, 30));
		b.expect({{HCA_CLASS_REMOTE_WRITE, 30, 1}});
		EXPECT_NE(to.state(), HCA_QPS_ERR);
		if (!dc)
			continue;
		a.expect({{HCA_CLASS_WRITE, 30, 1}});
		for (u8 op : {HCA_OPCODE_RDMA_READ, HCA_OPCODE_ATOMIC_FA}) {
			p.a.to(HCA_QPS_RESET);
			p.a.start();
			p.post(request(op, p.kb.key() ^ 1, 8));
		}
		b.expect({{HCA_CLASS_REMOTE_WRITE, 30, 1}, {HCA_CLASS_REMOTE_READ, 0, 1}, {HCA_CLASS_REMOTE_ATOMIC, 0, 1}});
		EXPECT_EQ(to.state(), HCA_QPS_RTR);
	}
}

TEST(Counter, ExhaustedRetriesCountAsErrors)
{
	Pair p({.connect = false});
	Counted a(p, p.da, p.a, false);
	p.a.connect(p.b); /* b is not connected */
	p.post(Wqe::read(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	p.w.advance(1ull << 33);
	a.expect({{HCA_CLASS_READ, 0, 1}});
}

TEST(Counter, NoOperationAndInvalidationCountInNoClass)
{
	Pair p({.connect = false});
	Counted a(p, p.da, p.a, false);
	p.a.connect(p.b);
	Key &k = p.w.add_key(p.da, p.ma, {.invalidate_ok = true});
	p.post(Wqe::nop());
	p.post(Wqe::local_inval(k.key()));
	a.expect({});
	EXPECT_EQ(p.ca.poll_all().size(), 2u);
}

TEST(Counter, ALongMessageCountsOnceAtItsEnd)
{
	Pair p({.connect = false, .memory = 320 * 1024});
	Counted a(p, p.da, p.a, true), b(p, p.db, p.b, true);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.w.settle();
	p.a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 300000)));
	b.expect({});
	p.w.settle();
	a.expect({{HCA_CLASS_WRITE, 300000}});
	b.expect({{HCA_CLASS_REMOTE_WRITE, 300000}});
	p.mb.expect(0, p.ma.read(0, 300000));
}

TEST(Counter, ValuesWrapThroughZero)
{
	Pair p({.connect = false});
	Counter &wrs = p.w.add_counter(p.da), &bytes = p.w.add_counter(p.da, true);
	ASSERT_EQ(p.a.attach(wrs, bit(HCA_CLASS_SEND)), 0);
	ASSERT_EQ(p.a.attach(bytes, bit(HCA_CLASS_WRITE)), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	wrs.set(~0ull, ~0ull);
	bytes.set(~0ull - 9, 0);
	p.b.post_recv();
	p.post(Wqe::send());
	EXPECT_EQ(wrs.comp(), 0u);
	p.mb.expect(0, p.ma.read(0, 100));
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 100)));
	EXPECT_EQ(bytes.comp(), 90u);
	p.post(Wqe::send().sge({0, 1, 0}));
	EXPECT_EQ(wrs.err(), 0u);
	EXPECT_EQ(wrs.comp(), 0u);
}

TEST(Counter, IncrementsOfOthersAreKept)
{
	Pair p({.connect = false});
	Counter &c = p.w.add_counter(p.da);
	ASSERT_EQ(p.a.attach(c, bit(HCA_CLASS_WRITE)), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.post(Wqe::write(0, 0));
	hca_counter_add(c.hca(), c.hca()->comp, 1000);
	hca_counter_add(c.hca(), c.hca()->err, 7);
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(c.comp(), 1002u);
	EXPECT_EQ(c.err(), 7u);
}

TEST(Attach, OneCounterMayCountManyQpsAndManyClasses)
{
	Pair p({.connect = false});
	Counter &c = p.w.add_counter(p.da);
	Qp &a2 = p.w.add_qp(p.da, {.send_cq = &p.ca}), &b2 = p.w.add_qp(p.db, {.send_cq = &p.cb});
	ASSERT_EQ(p.a.attach(c, every_class), 0);
	ASSERT_EQ(a2.attach(c, bit(HCA_CLASS_WRITE) | bit(HCA_CLASS_READ)), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	b2.connect(a2);
	a2.connect(b2);
	p.w.settle();
	for (int i = 0; i < 5; i++) {
		p.post(Wqe::write(0, 0));
		a2.post(Wqe::read(0, 0));
	}
	EXPECT_EQ(c.comp(), 10u);
}

TEST(Attach, IsAllowedInResetAndInitOnly)
{
	Pair p({.connect = false});
	Counter &c = p.w.add_counter(p.da);
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_SEND)), 0);
	p.a.to_init();
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_RECV)), 0);
	p.a.to_rtr(p.b);
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_READ)), -EINVAL);
	p.a.to_rts();
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_READ)), -EINVAL);
	p.a.to(HCA_QPS_SQD);
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_READ)), -EINVAL);
	p.a.to(HCA_QPS_ERR);
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_READ)), -EINVAL);
	p.a.to(HCA_QPS_RESET);
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_READ)), 0);
}

TEST(Attach, AClassThatIsTakenRefusesAllOfThem)
{
	Pair p({.connect = false});
	Counter &c = p.w.add_counter(p.da), &d = p.w.add_counter(p.da);
	ASSERT_EQ(p.a.attach(c, bit(HCA_CLASS_WRITE)), 0);
	EXPECT_EQ(p.a.attach(d, every_class), -EBUSY);
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_WRITE)), -EBUSY); /* by itself, too */
	EXPECT_EQ(p.a.attach(d, every_class & ~bit(HCA_CLASS_WRITE)), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.post(Wqe::write(0, 0));
	p.post(Wqe::read(0, 0));
	EXPECT_EQ(c.comp(), 1u);
	EXPECT_EQ(d.comp(), 1u);
}

TEST(Attach, SurvivesReset)
{
	Pair p({.connect = false});
	Counter &c = p.w.add_counter(p.da);
	ASSERT_EQ(p.a.attach(c, bit(HCA_CLASS_WRITE)), 0);
	for (u64 i = 1; i <= 3; i++) {
		p.b.connect(p.a);
		p.a.connect(p.b);
		p.w.settle();
		p.post(Wqe::write(0, 0));
		EXPECT_EQ(c.comp(), i);
		p.a.to(HCA_QPS_RESET);
		p.b.to(HCA_QPS_RESET);
	}
	EXPECT_EQ(p.a.attach(c, bit(HCA_CLASS_WRITE)), -EBUSY);
}

TEST(CounterEvent, ComesWithEveryChangeWhileSomebodyWaits)
{
	Pair p({.connect = false});
	Counter &c = p.w.add_counter(p.da);
	ASSERT_EQ(p.a.attach(c, every_class), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	Event e{Told::CounterEvent, &c};
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(p.w.count_events(e), 0u);
	hca_counter_arm(c.hca(), true);
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(p.w.count_events(e), 1u);
	hca_counter_add(c.hca(), c.hca()->err, 1);
	EXPECT_EQ(p.w.count_events(e), 2u);
	hca_counter_arm(c.hca(), false);
	p.post(Wqe::write(0, 0));
	EXPECT_EQ(p.w.count_events(e), 2u);
}

TEST(Order, ThePayloadThenTheCompletionThenTheCounter)
{
	struct Case {
		const char *name;
		bool receiver;
		bool established; /* a plain request of a connection that has begun takes another way */
		std::function<Wqe(Pair &)> wqe;
	};
	const auto write_imm = [](Pair &p) { return Wqe::write_imm(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(0, 5000)); };
	const auto write = [](Pair &p) { return Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 5000)); };
	const auto send = [](Pair &p) { return Wqe::send().sge(p.ka.sge(0, 5000)); };
	const auto read = [](Pair &p) { return Wqe::read(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 5000)); };
	const Case cases[] = {
		{"write with immediate", false, false, write_imm}, {"its receive", true, false, write_imm},
		{"send", false, false, send},			   {"its receive", true, false, send},
		{"plain send", false, true, send},		   {"its receive", true, true, send},
		{"write", false, false, write},			   {"plain write", false, true, write},
		{"read", false, false, read},			   {"plain read", false, true, read},
	};
	for (const Case &one_case : cases) {
		SCOPED_TRACE(one_case.name);
		const bool receiver = one_case.receiver;
		/* Keys in one piece: such requests are plain. */
		Pair p({.connect = false, .block_shift = 20});
		Device &d = receiver ? p.db : p.da;
		Qp &q = receiver ? p.b : p.a;
		Cq &cq = receiver ? p.cb : p.ca;
		Counter &c = p.w.add_counter(d);
		ASSERT_EQ(q.attach(c, every_class & ~bit(HCA_CLASS_REMOTE_WRITE)), 0);
		p.b.connect(p.a);
		p.a.connect(p.b);
		p.w.settle();
		if (one_case.established) {
			p.post(Wqe::write(0, 0).signaled(false));
			c.set(0);
		}
		hca_counter_arm(c.hca(), true);
		cq.arm();
		auto data = pattern(5000, 8);
		p.ma.write(0, data);
		if (std::string_view(one_case.name).ends_with("read"))
			p.mb.write(0, data);
		else
			p.mb.expect(0, data);
		std::vector<Told> seen;
		p.w.on_event = [&](const Event &e) {
			if (e.who != &cq && e.who != &c)
				return;
			seen.push_back(e.what);
			EXPECT_EQ(p.mb.read(0, 5000), data);
			EXPECT_EQ(c.comp(), e.what == Told::CounterEvent ? 1u : 0u);
			if (e.what == Told::CounterEvent) {
				EXPECT_TRUE(cq.peek());
			}
		};
		p.b.post_recv(p.kb.sge(0, 5000));
		p.post(one_case.wqe(p));
		p.w.on_event = nullptr;
		EXPECT_EQ(seen, (std::vector{Told::CqEvent, Told::CounterEvent}));
	}
}

TEST(Order, TheReceiverHasEverythingBeforeTheSenderKnows)
{
	Pair p;
	p.cb.arm();
	p.ca.arm();
	std::vector<const void *> seen;
	p.w.on_event = [&](const Event &e) { seen.push_back(e.who); };
	p.b.post_recv();
	p.post(Wqe::send());
	p.w.on_event = nullptr;
	EXPECT_EQ(seen, (std::vector<const void *>{&p.cb, &p.ca}));
}
