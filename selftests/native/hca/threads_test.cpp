// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many threads at once, with real locks whose order is checked.
#include "pair.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

using namespace world;

namespace {

// Waits for a completion that succeeded, and does the engine's work meanwhile.
std::optional<Wc> wait_for(World &w, Cq &cq)
{
	using namespace std::chrono;
	auto end = steady_clock::now() + minutes(2);
	while (steady_clock::now() < end) {
		if (auto wc = cq.poll()) {
			if (wc->ok())
				return wc;
			return {};
		}
		if (!w.run_one())
			std::this_thread::yield();
	}
	return {};
}

} // namespace

TEST(Threads, TwoThreadsPlayPingPongAndEveryPayloadIsWhole)
{
	for (bool two_devices : {true, false}) {
		Pair p({.two_devices = two_devices, .memory = 128 * 1024});
		constexpr u32 rounds = 1500;
		auto size = [](u32 n) { return n % 50 == 49 ? 100000u : 1 + n * 7 % 3000; };
		constexpr size_t in = 0;
		std::atomic<u32> bad{0};
		Memory &out_a = p.w.add_memory(128 * 1024), &out_b = p.w.add_memory(128 * 1024);
		Key &oa = p.w.add_key(p.da, out_a), &ob = p.w.add_key(p.db, out_b);

		auto play = [&](Qp &q, Cq &cq, Key &inbox, Memory &mine, Memory &out, Key &out_key, bool first) {
			auto receive = [&](u32 n) {
				bool sent = false, got = false;
				while (!got || (n && !sent)) {
					auto wc = wait_for(p.w, cq);
					if (!wc) {
						bad++;
						return;
					}
					(wc->is_send() ? sent : got) = true;
				}
				if (mine.read(in, size(n)) != pattern(size(n), n + first * 1000000))
					bad++;
			};
			auto send = [&](u32 n) {
				out.write(0, pattern(size(n), n + !first * 1000000));
				q.post_recv(inbox.sge(in, 100000));
				q.post(Wqe::send().sge(out_key.sge(0, size(n))));
			};
			for (u32 n = 0; n < rounds && !bad; n++) {
				if (first)
					send(n), receive(n);
				else
					receive(n), send(n);
			}
		};
		/* Each has a receive posted before the other can send; nobody moves the clock for retries. */
		p.a.post_recv(p.ka.sge(in, 100000));
		p.b.post_recv(p.kb.sge(in, 100000));
		std::thread other([&] { play(p.b, p.cb, p.kb, p.mb, out_b, ob, false); });
		play(p.a, p.ca, p.ka, p.ma, out_a, oa, true);
		other.join();
		EXPECT_EQ(bad, 0u);
		p.ma.accept(in, 100000);
		p.mb.accept(in, 100000);
	}
}

TEST(Threads, BothEndsStreamAtEachOtherAndCountersAddUp)
{
	Pair p({.connect = false, .memory = 8192, .cq_entries = 1024});
	Counter &ca = p.w.add_counter(p.da), &cb = p.w.add_counter(p.db);
	constexpr u32 writes = 20000;
	u32 classes = 1u << HCA_CLASS_WRITE | 1u << HCA_CLASS_REMOTE_WRITE;
	ASSERT_EQ(p.a.attach(ca, classes), 0);
	ASSERT_EQ(p.b.attach(cb, classes), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.w.settle();
	auto stream = [&](Qp &q, Cq &cq, Key &from, Key &to) {
		for (u32 n = 0; n < writes; n++) {
			q.stage(Wqe::write(to.addr(n % 64 * 8), to.key())
				    .sge(from.sge(4096, 8))
				    .signaled(n % 16 == 15));
			if (n % 4 == 3)
				q.ring();
			if (n % 16 == 15) {
				if (!wait_for(p.w, cq))
					return;
			}
		}
	};
	std::thread other([&] { stream(p.b, p.cb, p.kb, p.ka); });
	stream(p.a, p.ca, p.ka, p.kb);
	other.join();
	EXPECT_EQ(ca.comp(), 2 * writes);
	EXPECT_EQ(cb.comp(), 2 * writes);
	EXPECT_EQ(ca.err() + cb.err(), 0u);
	p.ma.accept(0, 512);
	p.mb.accept(0, 512);
}

TEST(Threads, AReaderOfTheCounterFindsThePayloadAndTheCompletion)
{
	Pair p({.connect = false, .memory = 8192, .cq_entries = 16});
	Counter &c = p.w.add_counter(p.db);
	ASSERT_EQ(p.b.attach(c, 1u << HCA_CLASS_RECV), 0);
	p.b.connect(p.a);
	p.a.connect(p.b);
	p.w.settle();
	constexpr u64 rounds = 10000;
	std::atomic<u64> seen{0};
	u64 bad = 0;
	std::thread reader([&] {
		for (u64 n = 1; n <= rounds; n++) {
			while (c.comp() != n)
				std::this_thread::yield();
			u64 v = *reinterpret_cast<volatile u64 *>(p.mb.at(0));
			bad += v != n;
			bad += !p.cb.poll().has_value();
			seen = n;
		}
	});
	for (u64 n = 1; n <= rounds; n++) {
		p.b.post_recv();
		Bytes data(8);
		std::memcpy(data.data(), &n, 8);
		p.a.post(Wqe::write_imm(p.kb.addr(), p.kb.key(), 0).inline_data(data).signaled(false));
		while (seen != n)
			std::this_thread::yield();
	}
	reader.join();
	EXPECT_EQ(bad, 0u);
	p.mb.accept(0, 8);
}

TEST(Threads, ManyRunnersOfOneQueueExecuteEachRequestOnce)
{
	Pair p({.memory = 4096, .qp = {.sq_slots = 4096}});
	constexpr u32 n = 4000;
	u64 zero = 0;
	p.mb.write(0, std::span(reinterpret_cast<u8 *>(&zero), 8));
	for (u32 i = 0; i < n; i++)
		p.a.stage(Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(0, 8)).signaled(false));
	p.a.set_sq_record(p.a.producer_index());
	std::vector<std::thread> runners;
	for (int t = 0; t < 3; t++)
		runners.emplace_back([&] {
			while (p.a.run(7, 1 << 20) == HCA_RUN_MORE)
				;
		});
	for (auto &t : runners)
		t.join();
	u64 sum, last = n - 1, want = n;
	std::memcpy(&sum, p.mb.read(0, 8).data(), 8);
	EXPECT_EQ(sum, n);
	p.mb.expect(0, std::span(reinterpret_cast<u8 *>(&want), 8));
	p.ma.expect(0, std::span(reinterpret_cast<u8 *>(&last), 8));
}

TEST(Threads, KeysAndStatesThatComeAndGoUnderTrafficHurtNobody)
{
	/* Three QPs at each end, all connected; two posters, one who breaks things. */
	Pair p({.memory = 64 * 1024, .cq_entries = 4096});
	struct Link {
		Qp *a, *b;
		std::mutex owner; /* who modifies or posts */
	};
	std::vector<std::unique_ptr<Link>> links;
	for (int i = 0; i < 3; i++) {
		auto l = std::make_unique<Link>();
		l->a = &p.w.add_qp(p.da, {.send_cq = &p.ca});
		l->b = &p.w.add_qp(p.db, {.send_cq = &p.cb});
		l->b->connect(*l->a);
		l->a->connect(*l->b);
		links.push_back(std::move(l));
	}
	p.ca.hca()->ignore_overrun = p.cb.hca()->ignore_overrun = true;
	std::atomic<bool> stop{false};
	std::atomic<Key *> key_a{&p.w.add_key(p.da, p.ma)}, key_b{&p.w.add_key(p.db, p.mb)};
	std::mutex keys_lock; /* the world's list of keys */
	std::atomic<u64> posted{0};

	auto poster = [&](bool from_a) {
		std::mt19937 rng(from_a);
		while (!stop) {
			Link &l = *links[rng() % links.size()];
			Sge near, far;
			{
				std::lock_guard k(keys_lock);
				near = (from_a ? key_a : key_b).load()->sge(rng() % 1000, 1 + rng() % 30000);
				far = (from_a ? key_b : key_a).load()->sge(rng() % 1000, 1);
			}
			std::lock_guard o(l.owner);
			Qp &q = from_a ? *l.a : *l.b;
			if (rng() % 3 == 0)
				(from_a ? *l.b : *l.a).post_recv(far.len ? Sge{far.addr, 31000, far.key} : far);
			q.stage(rng() % 2 ? Wqe::write(far.addr, far.key).sge(near) : Wqe::send().sge(near));
			q.set_sq_record(q.producer_index());
			p.w.kicked(q);
			posted++;
		}
	};
	std::thread engine([&] {
		while (!stop)
			if (!p.w.run_one())
				p.w.advance(100000, 4);
	});
	std::thread one_way([&] { poster(true); }), other_way([&] { poster(false); });

	std::mt19937 rng(99);
	for (int i = 0; i < 400; i++) {
		std::this_thread::sleep_for(std::chrono::microseconds(300));
		if (rng() % 2) {
			std::lock_guard k(keys_lock);
			auto &which = rng() % 2 ? key_a : key_b;
			Key *old = which;
			which = &p.w.add_key(&which == &key_a ? p.da : p.db, &which == &key_a ? p.ma : p.mb);
			old->kill();
		} else {
			Link &l = *links[rng() % links.size()];
			std::lock_guard o(l.owner);
			if (rng() % 2) {
				(rng() % 2 ? l.a : l.b)->to(HCA_QPS_ERR);
			} else {
				l.a->to(HCA_QPS_RESET);
				l.b->to(HCA_QPS_RESET);
				l.b->connect(*l.a);
				l.a->connect(*l.b);
			}
		}
		if (i % 50 == 25) {
			p.db.set_up(false);
			p.db.set_up(true);
		}
	}
	stop = true;
	engine.join();
	one_way.join();
	other_way.join();
	EXPECT_GT(posted, 100u);
	EXPECT_GT(p.da.stat(HCA_STAT_BYTES) + p.db.stat(HCA_STAT_BYTES), 0u);
	for (auto &l : links) {
		l->a->destroy();
		l->b->destroy();
	}
	p.ma.accept(0, p.ma.size());
	p.mb.accept(0, p.mb.size());
}

TEST(Threads, AQpThatIsDestroyedUnderItsPeersTrafficIsNotTouchedAgain)
{
	Pair p({.memory = 4096});
	p.ca.hca()->ignore_overrun = true; /* nobody polls */
	for (int i = 0; i < 60; i++) {
		Qp &a = p.w.add_qp(p.da, {.send_cq = &p.ca}), &b = p.w.add_qp(p.db, {.send_cq = &p.cb});
		b.connect(a);
		a.connect(b);
		std::atomic<bool> stop{false};
		std::thread traffic([&] {
			while (!stop) {
				a.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 100)).signaled(false));
				a.timer();
			}
		});
		std::this_thread::sleep_for(std::chrono::microseconds(200));
		b.destroy();
		/* as its owner frees it */
		std::memset(static_cast<void *>(b.hca()), 0xff, sizeof(*b.hca()));
		b.hca()->qpn = 0;
		std::this_thread::sleep_for(std::chrono::microseconds(200));
		stop = true;
		traffic.join();
		a.destroy();
	}
	p.mb.accept(0, 100);
}
