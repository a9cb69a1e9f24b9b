// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Processes that write anything into what they share with the device.
#include "../../fuzz/wqe_program.hpp"
#include "pair.hpp"

#include <atomic>
#include <random>
#include <thread>

using namespace world;

TEST(Hostile, RandomWqesHurtOnlyTheirQp)
{
	std::mt19937 rng(1);
	for (int round = 0; round < 300; round++) {
		Pair p({.memory = 4096, .qp = {.sq_slots = 16}});
		p.kb.kill(); /* nothing may be written at the peer */
		Key &ro = p.w.add_key(p.da, p.ma, {.access = HCA_ACCESS_LOCAL_READ});
		p.ka.kill();
		for (int i = 0; i < 16 * 64; i++)
			p.a.sq_ring()[i] = static_cast<u8>(rng());
		for (int slot = 0; slot < 16; slot++) {
			/* a control segment that is believed more often than chance would have it */
			Wqe w(static_cast<u8>(rng() % 0x30));
			w.sge(ro.sge(rng() % 4096, rng() % 4096));
			auto bytes = w.bytes(static_cast<u16>(slot), p.a.qpn());
			std::memcpy(p.a.sq_ring() + slot * 64, bytes.data(), rng() % 2 ? 16 : 32);
			p.a.sq_ring()[slot * 64 + 7] = rng() % 64;
		}
		u16 record = rng() % 2 ? 16 : static_cast<u16>(rng());
		p.a.set_sq_record(record);
		p.a.run(1000, 1 << 20);
		p.w.settle(100);
		ASSERT_LE(p.ca.poll_all().size(), record);
		ASSERT_FALSE(p.w.damage());
	}
}

TEST(Hostile, ADoorbellRecordThatClaimsMoreThanTheRingHoldsEnds)
{
	Pair p({.qp = {.sq_slots = 4}});
	for (int i = 0; i < 4; i++)
		p.a.stage(Wqe::nop().signaled(false));
	p.a.set_sq_record(65535);
	p.w.kicked(p.a);
	p.w.settle();
	EXPECT_EQ(p.a.run(1, 1), HCA_RUN_IDLE);
	EXPECT_EQ(p.da.stat(HCA_STAT_WQES), 65535u);
	EXPECT_EQ(p.a.state(), HCA_QPS_RTS);
}

TEST(Hostile, ADoorbellRecordThatGoesBackIsARoundForward)
{
	Pair p({.qp = {.sq_slots = 4}});
	p.post(Wqe::nop());
	p.post(Wqe::nop());
	EXPECT_EQ(p.ca.poll_all().size(), 2u);
	for (int i = 0; i < 4; i++)
		p.a.stage(Wqe::nop().signaled(false));
	p.a.set_sq_record(1);
	p.w.kicked(p.a);
	p.w.settle();
	EXPECT_EQ(p.da.stat(HCA_STAT_WQES), 2u + 65535u);
}

TEST(Hostile, TheUpperHalfOfADoorbellRecordMeansNothing)
{
	Pair p;
	u16 index = p.a.stage(Wqe::nop());
	p.a.set_sq_record(0xdead0000 | p.a.producer_index());
	p.a.run(10, 10);
	expect_sent(p.ca, index, 0);
}

TEST(Hostile, ARingThatChangesUnderTheDeviceIsReadOnce)
{
	/* Another thread scribbles over the ring while the device works on it. */
	Pair p({.memory = 4096, .cq_entries = 1024, .qp = {.sq_slots = 16}});
	std::atomic<bool> stop{false};
	p.kb.kill();
	std::thread scribbler([&] {
		std::mt19937 rng(7);
		while (!stop) {
			Wqe w(rng() % 2 ? HCA_OPCODE_RDMA_WRITE : HCA_OPCODE_NOP);
			if (rng() % 2)
				w.remote(rng(), rng());
			for (u32 i = rng() % 4; i; i--)
				w.sge(p.ka.sge(rng() % 5000, rng() % 100));
			auto bytes = w.bytes(0, p.a.qpn());
			size_t at = rng() % 16 * 64;
			for (size_t i = 0; i < bytes.size(); i++)
				__atomic_store_n(p.a.sq_ring() + (at + i) % (16 * 64), bytes[i], __ATOMIC_RELAXED);
		}
	});
	for (int i = 0; i < 3000; i++) {
		p.a.set_sq_record(16);
		p.a.run(100, 1 << 20);
		p.w.settle(10);
		p.ca.poll_all();
		for (Qp *q : {&p.a, &p.b}) {
			q->to(HCA_QPS_RESET);
			q->connect(q == &p.a ? p.b : p.a);
		}
		p.ca.poll_all();
	}
	stop = true;
	scribbler.join();
	EXPECT_FALSE(p.w.damage());
}

TEST(Hostile, RandomProgramsOfAHostileProcessHurtNobody)
{
	std::mt19937 rng(42);
	for (int round = 0; round < 1500; round++) {
		Bytes program(rng() % 2000);
		for (auto &b : program)
			b = static_cast<u8>(rng());
		SCOPED_TRACE(round);
		run_wqe_program(program);
	}
}
