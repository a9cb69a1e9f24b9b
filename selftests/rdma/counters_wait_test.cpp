// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Waiting for a counter: by sleeping, and by an eventfd.
#include "ktap.hpp"
#include "verbs.hpp"

#include <atomic>
#include <csignal>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <tally/comp_cntr.h>
#include <thread>
#include <unistd.h>

using namespace rdma;

namespace {

constexpr uint64_t ms = 1000000;
constexpr uint64_t forever = TALLY_COMP_CNTR_WAIT_FOREVER;

struct Counter {
	Context &c;
	ibv_comp_cntr *k;

	explicit Counter(Context &ctx) : c(ctx)
	{
		ibv_comp_cntr_init_attr a{};
		k = ibv_create_comp_cntr(c.get(), &a);
		if (!k)
			fail("create");
	}
	~Counter() { EXPECT_EQ(ibv_destroy_comp_cntr(k), 0); }
	void inc(uint64_t n = 1) { must(ibv_inc_comp_cntr(k, n), "inc"); }
	void err(uint64_t n = 1) { must(ibv_inc_err_comp_cntr(k, n), "inc_err"); }
};

uint64_t now_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// Runs a wait in a thread; says whether it is still asleep a while later.
struct Waiter {
	std::atomic<int> result{-1};
	std::thread thread;

	template <class F> explicit Waiter(F f) : thread([this, f] { result = f(); }) { usleep(50000); }
	bool asleep() const { return result == -1; }
	int join()
	{
		thread.join();
		return result;
	}
};

KTEST(wait, "a target that is reached returns at once")
{
	Context c;
	Counter k(c);
	k.inc(5);
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 5, 0, forever), 0);
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 1, 0, 0), 0);
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 6, 0, 0), ETIMEDOUT);
}

KTEST(wait, "a waiter sleeps until the count reaches its target, not before")
{
	Context c;
	Counter k(c);
	Waiter w([&] { return tally_wait_comp_cntr(k.k, 3, 0, forever); });
	EXPECT_TRUE(w.asleep());
	k.inc(2);
	usleep(50000);
	EXPECT_TRUE(w.asleep());
	k.inc();
	EXPECT_EQ(w.join(), 0);
}

KTEST(wait, "a waiter is woken by the device's own count")
{
	Context c;
	Counter k(c);
	Pair p(c, {}, false);
	ibv_qp_attach_comp_cntr_attr a{};
	a.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;
	must(ibv_qp_attach_comp_cntr(p.b.qp.get(), k.k, &a), "attach");
	p.connect();
	for (uint64_t round = 1; round <= 20; round++) {
		Waiter w([&] { return tally_wait_comp_cntr(k.k, 2 * round, 0, forever); });
		ibv_sge sge = p.a.mem->sge(0, 8);
		for (int i = 0; i < 2; i++)
			Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, 0)
			    .remote(p.b.mem->addr(), p.b.mem->rkey())
			    .post(p.a.qp.get());
		ASSERT_EQ(w.join(), 0);
	}
	p.b.qp.reset();
}

KTEST(wait, "a waiting thread uses no CPU time")
{
	Context c;
	Counter k(c);
	rusage before{}, after{};
	getrusage(RUSAGE_SELF, &before);
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 1, 0, 1000 * ms), ETIMEDOUT);
	getrusage(RUSAGE_SELF, &after);
	auto us = [](const rusage &r) {
		return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
	};
	EXPECT_LT(us(after) - us(before), 300000) << "it spins";
}

KTEST(wait, "a timeout ends the wait with ETIMEDOUT, and not early")
{
	Context c;
	Counter k(c);
	const uint64_t start = now_ns();
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 1, 0, 100 * ms), ETIMEDOUT);
	EXPECT_GE(now_ns() - start, 100 * ms);
}

KTEST(wait, "an error that the caller has not seen ends the wait with EIO")
{
	Context c;
	Counter k(c);
	Waiter w([&] { return tally_wait_comp_cntr(k.k, 1, 0, forever); });
	EXPECT_TRUE(w.asleep());
	k.err();
	EXPECT_EQ(w.join(), EIO);
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 1, 0, forever), EIO) << "also one from before the wait";
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 1, 1, 0), ETIMEDOUT) << "but not one that is known";
	k.inc();
	EXPECT_EQ(tally_wait_comp_cntr(k.k, 1, 0, forever), 0) << "a reached target wins";
}

KTEST(wait, "a signal ends the wait with EINTR")
{
	Context c;
	Counter k(c);
	struct sigaction sa{}, old{};
	sa.sa_handler = [](int) {};
	sigaction(SIGUSR1, &sa, &old);
	Waiter w([&] { return tally_wait_comp_cntr(k.k, 1, 0, forever); });
	EXPECT_TRUE(w.asleep());
	pthread_kill(w.thread.native_handle(), SIGUSR1);
	EXPECT_EQ(w.join(), EINTR);
	sigaction(SIGUSR1, &old, nullptr);
}

KTEST(wait, "distances are modulo 2^64: a wait goes through the wrap")
{
	Context c;
	Counter k(c);
	must(ibv_set_comp_cntr(k.k, ~0ull - 1), "set");
	Waiter w([&] { return tally_wait_comp_cntr(k.k, 2, 0, forever); });
	EXPECT_TRUE(w.asleep());
	k.inc(3);
	usleep(30000);
	EXPECT_TRUE(w.asleep());
	k.inc(1);
	EXPECT_EQ(w.join(), 0);
}

KTEST(wait, "set wakes a waiter as inc does")
{
	Context c;
	Counter k(c);
	Waiter w([&] { return tally_wait_comp_cntr(k.k, 1000, 0, forever); });
	must(ibv_set_comp_cntr(k.k, 1000), "set");
	EXPECT_EQ(w.join(), 0);
}

KTEST(wait, "many waiters with different targets are each woken by their own")
{
	Context c;
	Counter k(c);
	std::vector<std::unique_ptr<Waiter>> all;
	for (uint64_t t = 1; t <= 8; t++)
		all.push_back(std::make_unique<Waiter>([&, t] { return tally_wait_comp_cntr(k.k, t, 0, forever); }));
	for (size_t t = 0; t < 8; t++) {
		for (size_t i = t; i < 8; i++)
			EXPECT_TRUE(all[i]->asleep());
		k.inc();
		EXPECT_EQ(all[t]->join(), 0);
	}
}

KTEST(wait, "waiting for all of several counters needs every one, for any of them just one")
{
	Context c;
	Counter a(c), b(c), d(c);
	ibv_comp_cntr *three[] = {a.k, b.k, d.k};
	const tally_comp_cntr_target targets[] = {{1, 0}, {2, 0}, {3, 0}};
	uint32_t index = 99;
	EXPECT_EQ(tally_wait_comp_cntrs(three, targets, 3, 0, 0, nullptr), ETIMEDOUT);
	{
		Waiter any([&] {
			return tally_wait_comp_cntrs(three, targets, 3, TALLY_COMP_CNTR_WAIT_ANY, forever, &index);
		});
		Waiter every([&] { return tally_wait_comp_cntrs(three, targets, 3, 0, forever, nullptr); });
		EXPECT_TRUE(any.asleep());
		b.inc(2);
		EXPECT_EQ(any.join(), 0);
		EXPECT_EQ(index, 1u);
		EXPECT_TRUE(every.asleep());
		a.inc();
		usleep(30000);
		EXPECT_TRUE(every.asleep());
		d.inc(3);
		EXPECT_EQ(every.join(), 0);
	}
	d.err();
	EXPECT_EQ(tally_wait_comp_cntrs(three, targets, 3, 0, forever, nullptr), 0);
	const tally_comp_cntr_target more[] = {{10, 0}, {10, 0}, {10, 0}};
	EXPECT_EQ(tally_wait_comp_cntrs(three, more, 3, 0, forever, &index), EIO);
	EXPECT_EQ(index, 2u);
}

KTEST(wait, "the counters of a group can be waited for together")
{
	Context c;
	tally_comp_cntr_group_attr attr{};
	attr.num = 4;
	tally_comp_cntr_group *g = tally_create_comp_cntr_group(c.get(), &attr);
	ASSERT_NE(g, nullptr);
	const tally_comp_cntr_target targets[] = {{1, 0}, {1, 0}};
	Waiter w([&] { return tally_wait_comp_cntr_group(g, 1, 2, targets, 0, forever, nullptr); });
	must(ibv_inc_comp_cntr(tally_comp_cntr_group_at(g, 1), 1), "inc");
	usleep(30000);
	EXPECT_TRUE(w.asleep());
	must(ibv_inc_comp_cntr(tally_comp_cntr_group_at(g, 2), 1), "inc");
	EXPECT_EQ(w.join(), 0);
	EXPECT_EQ(tally_destroy_comp_cntr_group(g), 0);
}

KTEST(wait, "a counter that is waited for cannot be destroyed meanwhile")
{
	Context c;
	ibv_comp_cntr_init_attr a{};
	ibv_comp_cntr *k = ibv_create_comp_cntr(c.get(), &a);
	ASSERT_NE(k, nullptr);
	Waiter w([&] { return tally_wait_comp_cntr(k, 1, 0, forever); });
	EXPECT_TRUE(w.asleep());
	EXPECT_EQ(ibv_destroy_comp_cntr(k), EBUSY);
	must(ibv_inc_comp_cntr(k, 1), "inc");
	EXPECT_EQ(w.join(), 0);
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

struct Event {
	int fd = eventfd(0, EFD_NONBLOCK);
	~Event() { close(fd); }
	uint64_t value() const
	{
		uint64_t v = 0;
		return read(fd, &v, sizeof(v)) == sizeof(v) ? v : 0;
	}
};

KTEST(notify, "an eventfd fires once when the target is reached, and not before")
{
	Context c;
	Counter k(c);
	Event e;
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 2, nullptr, e.fd), 0);
	EXPECT_EQ(e.value(), 0u);
	k.inc();
	EXPECT_EQ(e.value(), 0u);
	k.inc();
	EXPECT_EQ(e.value(), 1u);
	k.inc(5);
	EXPECT_EQ(e.value(), 0u) << "one shot";
}

KTEST(notify, "arming for a target that is reached already fires at once")
{
	Context c;
	Counter k(c);
	Event e;
	k.inc(7);
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 7, nullptr, e.fd), 0);
	EXPECT_EQ(e.value(), 1u);
}

KTEST(notify, "the eventfd wakes an epoll loop when the device counts")
{
	Context c;
	Counter k(c);
	Event e;
	Pair p(c, {}, false);
	ibv_qp_attach_comp_cntr_attr a{};
	a.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
	must(ibv_qp_attach_comp_cntr(p.a.qp.get(), k.k, &a), "attach");
	p.connect();
	const int ep = epoll_create1(0);
	epoll_event ev{};
	ev.events = EPOLLIN;
	epoll_ctl(ep, EPOLL_CTL_ADD, e.fd, &ev);
	for (uint64_t round = 1; round <= 10; round++) {
		must(tally_notify_comp_cntr(k.k, round, nullptr, e.fd), "notify");
		EXPECT_EQ(epoll_wait(ep, &ev, 1, 0), 0);
		ibv_sge sge = p.a.mem->sge(0, 8);
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, 0)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
		ASSERT_EQ(epoll_wait(ep, &ev, 1, 20000), 1);
		EXPECT_EQ(e.value(), 1u);
	}
	close(ep);
	p.a.qp.reset();
}

KTEST(notify, "with a known error count the eventfd fires for an error, too")
{
	Context c;
	Counter k(c);
	Event e, deaf;
	const uint64_t seen = 0;
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 100, &seen, e.fd), 0);
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 100, nullptr, deaf.fd), 0);
	k.err();
	EXPECT_EQ(e.value(), 1u);
	EXPECT_EQ(deaf.value(), 0u);
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 100, &seen, e.fd), 0);
	EXPECT_EQ(e.value(), 1u) << "an error from before fires at once";
}

KTEST(notify, "destroying a counter drops what is armed, and the eventfd may be closed before")
{
	Context c;
	Event kept;
	{
		Counter k(c);
		Event closed;
		EXPECT_EQ(tally_notify_comp_cntr(k.k, 1, nullptr, kept.fd), 0);
		EXPECT_EQ(tally_notify_comp_cntr(k.k, 1000, nullptr, closed.fd), 0);
	}
	EXPECT_EQ(kept.value(), 0u);
}

KTEST(notify, "to arm the same again changes nothing, so a loop that times out and arms again goes on for ever")
{
	Context c;
	Counter k(c);
	Event e;
	const uint64_t seen = 0;
	for (int i = 0; i < 1000; i++) {
		ASSERT_EQ(tally_notify_comp_cntr(k.k, 1, nullptr, e.fd), 0);
		ASSERT_EQ(tally_notify_comp_cntr(k.k, 1, &seen, e.fd), 0);
	}
	k.inc();
	EXPECT_EQ(e.value(), 2u) << "once without and once with an error count";
}

KTEST(notify, "many eventfds and many threads that wait for one counter all hear of it, and no more eventfds than 256 fit")
{
	Context c;
	Counter k(c);
	std::vector<Event> events(256);
	Event more;
	for (size_t i = 0; i < events.size(); i++)
		ASSERT_EQ(tally_notify_comp_cntr(k.k, i < 200 ? 1 : 2, nullptr, events[i].fd), 0);
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 1, nullptr, more.fd), ENOSPC);
	std::vector<std::thread> waiters;
	std::atomic<int> woken{0};
	for (uint64_t target = 1; target <= 2; target++)
		for (int i = 0; i < 20; i++)
			waiters.emplace_back([&, target] {
				if (!tally_wait_comp_cntr(k.k, target, 0, 20'000'000'000))
					woken++;
			});
	usleep(50000);
	EXPECT_EQ(woken.load(), 0);
	k.inc();
	// They are told by a worker; the last one of them last.
	auto all = [&](size_t from, size_t to) {
		for (size_t i = from; i < to; i++) {
			pollfd p{events[i].fd, POLLIN, 0};
			if (poll(&p, 1, 20000) != 1 || events[i].value() != 1)
				return false;
		}
		return true;
	};
	EXPECT_TRUE(all(0, 200));
	for (size_t i = 200; i < events.size(); i++)
		EXPECT_EQ(events[i].value(), 0u);
	k.inc();
	EXPECT_TRUE(all(200, events.size()));
	for (auto &w : waiters)
		w.join();
	EXPECT_EQ(woken.load(), 40);
}

KTEST(notify, "what is no eventfd is refused")
{
	Context c;
	Counter k(c);
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 1, nullptr, -1), EBADF);
	EXPECT_EQ(tally_notify_comp_cntr(k.k, 1, nullptr, STDERR_FILENO), EINVAL);
}

} // namespace
