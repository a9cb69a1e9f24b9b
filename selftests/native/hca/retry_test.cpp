// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Receivers that are not ready, peers that do not answer.
#include "pair.hpp"

using namespace world;

namespace {

/* InfiniBand specification, RNR NAK timer field, in units of 10 us. */
constexpr u32 rnr_table[32] = {65536, 1,   2,	 3,    4,    6,	   8,	 12,   16,   24,    32,
			       48,    64,  96,	 128,  192,  256,  384,	 512,  768,  1024,  1536,
			       2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr u64 ack_timeout(u8 code) { return 4096ull << code; }

} // namespace

TEST(ReceiverNotReady, TheWaitIsWhatTheResponderAsksForByEveryCode)
{
	for (u8 code = 0; code < 32; code++) {
		ConnectOptions b;
		b.rnr_timer = code;
		Pair p({.b = b});
		p.post(Wqe::send().sge(p.ka.sge(0, 8)));
		expect_none(p.ca);
		EXPECT_EQ(p.w.timer_of(p.a), rnr_table[code] * 10000ull) << "code " << int{code};
		EXPECT_EQ(p.da.stat(HCA_STAT_RNR_NAK), 1u);
		EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
		EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
	}
}

TEST(ReceiverNotReady, TheRequestFailsAfterExactlyTheGivenNumberOfRetries)
{
	for (u8 retries = 0; retries < 7; retries++) {
		for (bool imm : {false, true}) {
			SCOPED_TRACE(int{retries});
			ConnectOptions a;
			a.rnr_retry = retries;
			Pair p({.a = a});
			u16 index = p.a.post(imm ? Wqe::write_imm(0, 0, 1) : Wqe::send().sge(p.ka.sge(0, 8)));
			p.w.settle();
			for (u8 i = 0; i < retries; i++) {
				expect_none(p.ca);
				auto wait = p.w.timer_of(p.a);
				ASSERT_TRUE(wait);
				p.w.advance(*wait - 1);
				EXPECT_EQ(p.da.stat(HCA_STAT_RNR_NAK), i + 1u);
				p.w.advance(1);
			}
			Wc wc = one(p.ca);
			expect_failed(wc, HCA_CQE_REQ_ERR, HCA_SYND_RNR_RETRY_EXC, index);
			EXPECT_EQ(wc.vendor_err, HCA_VENDOR_RETRY);
			EXPECT_EQ(p.da.stat(HCA_STAT_RNR_NAK), retries + 1u);
			EXPECT_EQ(p.da.stat(HCA_STAT_ERR_RNR), 1u);
			EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
			EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
			expect_none(p.cb);
		}
	}
}

TEST(ReceiverNotReady, SevenRetriesMeanForEver)
{
	ConnectOptions a;
	a.rnr_retry = 7;
	Pair p({.a = a});
	p.post(Wqe::send().sge(p.ka.sge(0, 8)));
	for (int i = 0; i < 1000; i++) {
		auto wait = p.w.timer_of(p.a);
		ASSERT_TRUE(wait);
		p.w.advance(*wait);
	}
	expect_none(p.ca);
	p.mb.expect(5, p.ma.read(0, 8));
	p.b.post_recv(p.kb.sge(5, 8));
	p.w.advance(*p.w.timer_of(p.a));
	expect_sent(p.ca, 0, 8);
	one(p.cb);
}

TEST(ReceiverNotReady, ALateReceiveIsFoundByTheNextTryAndRefillsTheRetries)
{
	ConnectOptions a;
	a.rnr_retry = 1;
	Pair p({.a = a});
	for (u16 i = 0; i < 5; i++) {
		p.post(Wqe::send().sge(p.ka.sge(0, 8)));
		expect_none(p.ca);
		p.mb.expect(5, p.ma.read(0, 8));
		p.b.post_recv(p.kb.sge(5, 8));
		p.w.advance(*p.w.timer_of(p.a));
		expect_sent(p.ca, i, 8);
		EXPECT_EQ(one(p.cb).index, i);
	}
}

TEST(ReceiverNotReady, DoorbellsDuringTheWaitChangeNothing)
{
	Pair p;
	p.post(Wqe::send().sge(p.ka.sge(0, 8)));
	auto wait = p.w.timer_of(p.a);
	p.a.post(Wqe::nop());
	p.a.post(Wqe::nop());
	p.w.settle();
	EXPECT_EQ(p.a.run(10, 1 << 20), HCA_RUN_WAIT);
	expect_none(p.ca);
	EXPECT_EQ(p.w.timer_of(p.a), wait);
	EXPECT_EQ(p.da.stat(HCA_STAT_RNR_NAK), 1u);
	p.mb.expect(0, p.ma.read(0, 8));
	p.b.post_recv(p.kb.sge(0, 8));
	p.w.advance(*wait);
	EXPECT_EQ(p.ca.poll_all().size(), 3u);
}

TEST(ReceiverNotReady, TheImmediateOfALongWriteWaitsAtItsEndAndNothingIsLost)
{
	Pair p({.memory = 256 * 1024});
	u32 size = 200000;
	p.mb.expect(0, p.ma.read(1, size));
	p.post(Wqe::write_imm(p.kb.addr(), p.kb.key(), 77).sge(p.ka.sge(1, size)));
	expect_none(p.ca);
	ASSERT_TRUE(p.w.timer_of(p.a));
	p.b.post_recv();
	p.w.advance(*p.w.timer_of(p.a));
	expect_sent(p.ca, 0, size);
	Wc wc = one(p.cb);
	EXPECT_EQ(wc.imm, 77u);
	EXPECT_EQ(wc.byte_cnt, size);
}

TEST(ReceiverNotReady, AQpWithoutAnyReceiveQueueIsNeverReady)
{
	Pair p({.connect = false, .qp = {.rq_entries = 0}});
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.post(Wqe::send());
	p.b.set_rq_record(5); /* says that something is posted where nothing can be */
	p.w.advance(1ull << 40);
	expect_failed(one(p.ca), HCA_CQE_REQ_ERR, HCA_SYND_RNR_RETRY_EXC, 0);
	EXPECT_EQ(p.b.state(), HCA_QPS_RTS);
}

namespace {

// Why nobody answers.
struct Silence {
	const char *why;
	std::function<void(Pair &)> make;
};

const Silence silences[] = {
	{"the peer is in RESET", [](Pair &p) { p.b.to(HCA_QPS_RESET); }},
	{"the peer is in INIT", [](Pair &p) { p.b.to(HCA_QPS_RESET), p.b.to_init(); }},
	{"the peer is in the error state", [](Pair &p) { p.b.to(HCA_QPS_ERR); }},
	{"the peer is gone", [](Pair &p) { p.b.destroy(); }},
	{"the peer's device is down", [](Pair &p) { p.db.set_up(false); }},
	{"nobody has the address", [](Pair &p) { p.a.remote = nullptr, p.w.fabric_changed(); }},
	{"the peer is connected to somebody else",
	 [](Pair &p) {
		 Qp &c = p.w.add_qp(p.da, {.send_cq = &p.ca});
		 p.b.to(HCA_QPS_RESET);
		 p.b.connect(c);
	 }},
	{"the peer expects another packet number",
	 [](Pair &p) {
		 ConnectOptions o;
		 o.rq_psn++;
		 p.b.to(HCA_QPS_RESET);
		 p.b.connect(p.a, o);
	 }},
};

} // namespace

TEST(NoResponse, EndsInRetryExhaustionAfterTheTimeOutOfEachTransmission)
{
	for (auto &s : silences) {
		for (u8 retries : {0, 1, 7}) {
			SCOPED_TRACE(testing::Message() << s.why << ", " << int{retries} << " retries");
			ConnectOptions a;
			a.retry_cnt = retries;
			a.timeout = 10;
			Pair p({.a = a});
			s.make(p);
			p.w.settle();
			u16 index = p.a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
			p.w.settle();
			/* the request itself and each retry time out */
			u64 left = (retries + 1ull) * ack_timeout(10);
			p.w.advance(left - 1);
			expect_none(p.ca);
			EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
			p.w.advance(1);
			Wc wc = one(p.ca);
			expect_failed(wc, HCA_CQE_REQ_ERR, HCA_SYND_TRANSPORT_RETRY_EXC, index);
			EXPECT_EQ(wc.vendor_err, HCA_VENDOR_RETRY);
			EXPECT_EQ(p.a.state(), HCA_QPS_ERR);
			EXPECT_EQ(p.da.stat(HCA_STAT_ERR_RETRY), 1u);
		}
	}
}

TEST(NoResponse, WithoutATimeOutTheRequestWaitsForEver)
{
	ConnectOptions a;
	a.timeout = 0;
	Pair p({.a = a});
	p.db.set_up(false);
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	p.w.advance(3600ull * 1000000000);
	expect_none(p.ca);
	p.mb.expect(0, p.ma.read(0, 8));
	p.db.set_up(true);
	p.w.advance(HCA_NO_TIMEOUT_POLL_NS);
	expect_sent(p.ca, 0, 8);
}

TEST(NoResponse, APeerThatComesBackInTimeGetsTheRequest)
{
	Pair p;
	p.db.set_up(false);
	p.mb.expect(0, p.ma.read(0, 8));
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	p.w.advance(3 * ack_timeout(8));
	expect_none(p.ca);
	p.db.set_up(true);
	p.w.advance(ack_timeout(8));
	expect_sent(p.ca, 0, 8);
	/* and the retries are full again */
	p.db.set_up(false);
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
	p.w.advance(4 * ack_timeout(8) - 1);
	expect_none(p.ca);
	p.w.advance(1);
	EXPECT_EQ(one(p.ca).syndrome, HCA_SYND_TRANSPORT_RETRY_EXC);
}

TEST(NoResponse, AMessageInterruptedInItsMiddleGoesOnWhereItStopped)
{
	Pair p({.memory = 320 * 1024});
	u32 size = 300000;
	p.b.post_recv(p.kb.sge(9, size));
	p.a.post(Wqe::send().sge(p.ka.sge(0, size)));
	p.db.set_up(false);
	p.w.settle();
	expect_none(p.ca);
	EXPECT_EQ(p.da.stat(HCA_STAT_BYTES), HCA_SLICE);
	p.db.set_up(true);
	p.mb.expect(9, p.ma.read(0, size));
	p.w.advance(ack_timeout(8));
	expect_sent(p.ca, 0, size);
	EXPECT_EQ(one(p.cb).byte_cnt, size);
	EXPECT_EQ(p.da.stat(HCA_STAT_BYTES), size);
}

TEST(NoResponse, ARequesterThatWasResetMidMessageStartsItsNextMessageAfresh)
{
	Pair p({.memory = 320 * 1024});
	p.b.post_recv(p.kb.sge(9, 300000));
	p.a.post(Wqe::send().sge(p.ka.sge(0, 300000)));
	p.mb.expect(9, p.ma.read(0, HCA_SLICE));
	p.a.to(HCA_QPS_RESET);
	p.w.settle();
	p.a.connect(p.b); /* with the packet number that the peer still waits for */
	p.w.settle();
	p.mb.expect(9, p.ma.read(70001, 100));
	p.post(Wqe::send().sge(p.ka.sge(70001, 100)));
	expect_sent(p.ca, 0, 100);
	EXPECT_EQ(one(p.cb).byte_cnt, 100u);
}

TEST(PacketNumbers, WrapAt24Bits)
{
	ConnectOptions o;
	o.sq_psn = o.rq_psn = 0xfffffe;
	Pair p({.a = o, .b = o});
	for (u16 i = 0; i < 5; i++) {
		p.mb.expect(0, p.ma.read(i, 3000));
		p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(i, 3000)));
		expect_sent(p.ca, i, 3000);
	}
	EXPECT_EQ(p.a.hca()->sq.psn, 0x00000du); /* 5 messages of 3 packets of up to 1024 bytes */
	EXPECT_EQ(p.b.hca()->rq.psn, 0x00000du);
}

TEST(PacketNumbers, CountPacketsOfTheMtuAndAtLeastOnePerMessage)
{
	for (auto [size, packets] : {std::pair{0u, 1u}, {1u, 1u}, {1024u, 1u}, {1025u, 2u}, {10240u, 10u}}) {
		Pair p;
		p.mb.expect(0, p.ma.read(0, size));
		Wqe w = Wqe::write(p.kb.addr(), p.kb.key());
		if (size)
			w.sge(p.ka.sge(0, size));
		p.post(w);
		expect_sent(p.ca, 0, size);
		EXPECT_EQ(p.a.hca()->sq.psn, 0x100 + packets);
	}
}
