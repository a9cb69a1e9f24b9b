// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Trapped and polled: the switch between them loses nothing, and neither costs anything when nothing happens.
#include <cstring>
#include <functional>
#include <list>
#include <random>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../rdma/ktap.hpp"
#include "busy.hpp"
#include "device.hpp"
#include "ringer.hpp"

using namespace rdma;

namespace {

using clock = std::chrono::steady_clock;

// Rings as fast as completions come, until @enough or the time is over.
std::uint64_t stream(Ringer &r, std::chrono::milliseconds limit,
		     const std::function<bool()> &enough = [] { return false; })
{
	auto end = clock::now() + limit;
	std::uint64_t n = 0;

	while (clock::now() < end) {
		for (int i = 0; i < 256; i++, n++) {
			r.post();
			r.ring();
			if (!r.completes())
				fail("lost doorbell", ETIMEDOUT);
		}
		if (enough())
			break;
	}
	return n;
}

// Rings for each of so many, and waits only then.
void burst(Ringer &r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		r.post();
		r.ring();
	}
	for (unsigned i = 0; i < n; i++)
		if (!r.completes())
			fail("lost doorbell", ETIMEDOUT);
}

// The same for so long; how many it were.
std::uint64_t bursts(Ringer &r, std::chrono::milliseconds time)
{
	std::uint64_t n = 0;

	for (auto end = clock::now() + time; clock::now() < end; n += 128)
		burst(r, 128);
	return n;
}

// In what part of a third of a second two threads that pass a word to and fro did not both run.
double apart()
{
	std::atomic<std::uint32_t> word = 0;
	const std::jthread other([&](const std::stop_token &stop) {
		while (!stop.stop_requested())
			if (word % 2)
				word++;
	});
	const auto start = clock::now();
	auto before = start, now = start;
	clock::duration lost{};

	for (; now - start < 333ms; before = now) {
		word++;
		while (word % 2 && clock::now() - start < 333ms)
			;
		now = clock::now();
		if (now - before > 500us)
			lost += now - before;
	}
	return std::chrono::duration<double>(lost) / std::chrono::duration<double>(now - start);
}

// Whether two CPUs run at the same time: an emulator's do not on a machine that has other things to do.  Waits for it.
bool has_two_cpus()
{
	return sysconf(_SC_NPROCESSORS_ONLN) >= 2 && eventually([] { return apart() < 0.15; }, 90s);
}

KTEST(modes, "a page that rings often is polled while a CPU is idle")
{
	if (!has_two_cpus())
		GTEST_SKIP() << "needs two CPUs that run at the same time";
	// Often is relative: a doorbell takes long on a kernel that checks every access.
	Parameter rate("poll_rate", "1");
	Context c;
	Ringer r(c);
	std::uint64_t polled = hw_counter("doorbells_polled");

	// Long: whoever else uses the machine's CPUs makes the engine leave again.
	stream(r, 40s, [&] { return hw_counter("doorbells_polled") > polled + 1000; });
	EXPECT_GT(hw_counter("doorbells_polled"), polled + 1000);
}

KTEST(modes, "a page that rings seldom is not")
{
	Context c;
	Ringer r(c);
	std::uint64_t switches = hw_counter("doorbell_mode_switches"), trapped = hw_counter("doorbells_trapped");

	for (int i = 0; i < 500; i++) {
		r.post();
		r.ring();
		ASSERT_TRUE(r.completes());
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	EXPECT_EQ(hw_counter("doorbell_mode_switches"), switches);
	EXPECT_EQ(hw_counter("doorbells_trapped"), trapped + 500);
}

KTEST(modes, "it is trapped while every CPU is busy")
{
	Context c;
	Busy busy;
	Ringer r(c);

	stream(r, 500ms);
	std::uint64_t trapped = hw_counter("doorbells_trapped");
	std::uint64_t n = stream(r, 1s);

	EXPECT_GT(hw_counter("doorbells_trapped") - trapped, n * 9 / 10);
}

// Two queues, connected; whoever posts may have a message from the other one.
struct Connected {
	static constexpr std::uint32_t large = 65536;

	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c, 512);
	Memory mem{pd.get(), 2 * large};
	Qp a = create_qp(pd.get(), cq.get(), cq.get(), {.max_send = 256}),
	   b = create_qp(pd.get(), cq.get(), cq.get(), {.max_send = 256});

	Connected()
	{
		for (auto *qp : {&a, &b})
			must(to_init(qp->get()), "init");
		must(to_rtr(a.get(), c, c.gid(), b->qp_num), "rtr");
		must(to_rtr(b.get(), c, c.gid(), a->qp_num), "rtr");
		for (auto *qp : {&a, &b})
			must(to_rts(qp->get()), "rts");
	}
	void write(Qp &from, std::uint32_t len, unsigned flags)
	{
		ibv_sge sge = mem.sge(0, len);
		Wr wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, flags);
		wr.remote(mem.addr(large), mem.rkey()).post(from.get());
	}
	void completes(int n)
	{
		for (ibv_wc wc; n; n--) {
			if (!eventually([&] { return ibv_poll_cq(cq.get(), 1, &wc) == 1; }, 5s))
				fail("lost doorbell", ETIMEDOUT);
			if (wc.status != IBV_WC_SUCCESS)
				fail("a write", EIO);
		}
	}
};

// Doorbells of @work, which says how many there were, that did not fault; in parts of all.
double share_executed_together(const std::function<std::uint64_t(std::chrono::milliseconds)> &work)
{
	work(500ms);
	const std::uint64_t trapped = hw_counter("doorbells_trapped");
	const auto n = static_cast<double>(work(2s));
	const auto faults = static_cast<double>(hw_counter("doorbells_trapped") - trapped);

	return 1 - std::min(faults / n, 1.0);
}

// The same, the most of a few times: on CPUs that do not run at the same time, looks are no faster than faults.
double most_executed_together(const std::function<std::uint64_t(std::chrono::milliseconds)> &work)
{
	double most = 0;

	for (int i = 0; i < 10 && most < 0.5; i++)
		most = std::max(most, share_executed_together(work));
	return most;
}

// Repeats @some, which says how many doorbells it rang.
std::uint64_t repeat(std::chrono::milliseconds time, const std::function<unsigned()> &some)
{
	std::uint64_t n = 0;

	for (auto end = clock::now() + time; clock::now() < end;)
		n += some();
	return n;
}

KTEST(modes, "while every CPU is busy, what nobody waits for is executed together")
{
	if (!has_two_cpus())
		GTEST_SKIP() << "needs two CPUs that run at the same time";
	Parameter rate("poll_rate", "1");
	Context c;
	Busy busy;
	Ringer r(c);

	EXPECT_GT(most_executed_together([&](auto time) { return bursts(r, time); }), 0.5);
}

KTEST(modes, "it is not if the driver is told so")
{
	Parameter rate("poll_rate", "1"), us("stream_us", "0");
	Context c;
	Busy busy;
	Ringer r(c);

	EXPECT_LT(share_executed_together([&](auto time) { return bursts(r, time); }), 0.1);
}

KTEST(modes, "while every CPU is busy, small writes are executed together, large ones are not")
{
	if (!has_two_cpus())
		GTEST_SKIP() << "needs two CPUs that run at the same time";
	Parameter rate("poll_rate", "1");
	Connected q;
	Busy busy;
	auto writes = [&](std::uint32_t len) {
		return [&q, len](auto time) {
			return repeat(time, [&q, len] {
				for (int i = 0; i < 128; i++)
					q.write(q.a, len, i == 127 ? IBV_SEND_SIGNALED : 0);
				q.completes(1);
				return 128;
			});
		};
	};

	EXPECT_GT(most_executed_together(writes(8)), 0.5);
	EXPECT_LT(share_executed_together(writes(Connected::large)), 0.1);
}

KTEST(modes, "who has few lists under way does not wait for the next look")
{
	// Far apart: on a kernel that checks every access, faults would else be no faster than looks.
	Parameter rate("poll_rate", "1"), us("stream_us", "1000");
	Context c;
	Busy busy;
	Ringer r(c);

	// Two lists of 24 at most: one completion polled, and the next list follows.
	EXPECT_LT(share_executed_together([&](auto time) {
			  unsigned under_way = 0;
			  const std::uint64_t n = repeat(time, [&] {
				  for (int i = 0; i < 24; i++)
					  r.post();
				  r.ring();
				  for (under_way += 24; under_way > 24; under_way--)
					  if (!r.completes())
						  fail("lost doorbell", ETIMEDOUT);
				  return 1;
			  });
			  for (; under_way; under_way--)
				  r.completes();
			  return n;
		  }),
		  0.3);
}

KTEST(modes, "who answers each message with one is served at once")
{
	Parameter rate("poll_rate", "1");
	Connected q;
	Busy busy;

	EXPECT_LT(share_executed_together([&](auto time) {
			  return repeat(time, [&] {
				  // Nobody polls: what has been waited for is seen by the messages that came.
				  for (int i = 0; i < 64; i++) {
					  q.write(q.a, 8, i == 63 ? IBV_SEND_SIGNALED : 0);
					  q.write(q.b, 8, i == 63 ? IBV_SEND_SIGNALED : 0);
				  }
				  q.completes(2);
				  return 128;
			  });
		  }),
		  0.1);
}

// Bursts for so long, whose page is looked at at intervals.
void is_polled_in_bursts(Ringer &r, std::chrono::milliseconds time)
{
	const std::uint64_t polled = hw_counter("doorbells_polled");

	bursts(r, time);
	EXPECT_GT(hw_counter("doorbells_polled"), polled);
}

struct Scheduled {
	int policy, nice;
	bool operator==(const Scheduled &) const = default;
};

// What an administrator tells the scheduler of a thread, for a while.
class Told {
      public:
	Told(pid_t pid, const Scheduled &how) : pid_(pid) { tell(how); }
	Told(const Told &) = delete;
	~Told() { tell({SCHED_OTHER, 0}); }
	Scheduled now() const { return {sched_getscheduler(pid_), getpriority(PRIO_PROCESS, pid_)}; }

      private:
	void tell(const Scheduled &how)
	{
		const sched_param param{.sched_priority = how.policy == SCHED_RR ? 1 : 0};

		EXPECT_EQ(sched_setscheduler(pid_, how.policy, &param), 0) << strerror(errno);
		EXPECT_EQ(setpriority(PRIO_PROCESS, pid_, how.nice), 0) << strerror(errno);
	}
	pid_t pid_;
};

KTEST(modes, "what the scheduler was told of an engine outlasts a stream on busy CPUs")
{
	Parameter rate("poll_rate", "1");
	Context c;

	for (auto &how : {Scheduled{SCHED_OTHER, -5}, Scheduled{SCHED_BATCH, 3}, Scheduled{SCHED_RR, 0}}) {
		std::list<Told> told;
		for (auto &[name, pid] : engines_of(device_name()))
			told.emplace_back(pid, how);
		{
			Busy busy;
			Ringer r(c);
			is_polled_in_bursts(r, 500ms);
		}
		ASSERT_FALSE(told.empty());
		for (auto &engine : told)
			EXPECT_TRUE(eventually([&] { return engine.now() == how; }, 5s)) << how.policy;
	}
}

KTEST(modes, "who begins to wait for what he posts does so in his own time again")
{
	Parameter rate("poll_rate", "1");
	Context c;
	Busy busy;
	Ringer r(c);

	is_polled_in_bursts(r, 1s);
	EXPECT_LT(share_executed_together([&](auto time) { return stream(r, time); }), 0.1);
}

KTEST(modes, "whoever is in the way, no doorbell is lost at any distance from the last one")
{
	Parameter rate("poll_rate", "1");
	Context c;
	Busy busy;
	Ringer r(c);
	std::mt19937 random(11);
	std::uint64_t polled = hw_counter("doorbells_polled");

	// Streams of all lengths, pauses around the time between two looks at them.
	for (int round = 0; round < 300; round++) {
		burst(r, 1 + random() % 128);
		auto until = clock::now() + std::chrono::microseconds(random() % 400);
		while (clock::now() < until)
			;
	}
	EXPECT_GT(hw_counter("doorbells_polled"), polled);
}

KTEST(modes, "after a stream on busy CPUs the engine sleeps")
{
	Parameter rate("poll_rate", "1");
	Context c;
	Busy busy;
	Ringer r(c);

	is_polled_in_bursts(r, 500ms);
	std::this_thread::sleep_for(500ms);
	std::uint64_t before = hw_counter("engine_wakeups");
	std::this_thread::sleep_for(1s);
	EXPECT_EQ(hw_counter("engine_wakeups"), before);
}

// A store that cannot be skipped: the page is mapped and polled for a while, whatever else there is to do.
void ring_for_real(char *reg)
{
	asm volatile("lock addq $1, (%0)" ::"r"(reg) : "memory");
}

// The page is polled once more, and that ends soon, though a queue is left whose record has moved.
void ends_polling(Ringer &r)
{
	const std::uint64_t switches = hw_counter("doorbell_mode_switches"), polled = hw_counter("doorbells_polled");

	ring_for_real(r.reg());
	EXPECT_TRUE(eventually(
		[&] {
			std::this_thread::sleep_for(20ms);
			return hw_counter("doorbell_mode_switches") >= switches + 2;
		},
		5s));
	EXPECT_LT(hw_counter("doorbells_polled"), polled + 20);
}

KTEST(modes, "a queue that waits for a receive does not keep its page polled")
{
	Connected q;
	Ringer r(q.c);
	ibv_sge sge = q.mem.sge(0, 8);

	Wr(IBV_WR_SEND, {&sge, 1}).post(q.a.get());
	ASSERT_TRUE(eventually([naks = hw_counter("rnr_naks")] { return hw_counter("rnr_naks") > naks; }, 5s));
	ends_polling(r);
	// What it waits for comes.
	ibv_recv_wr recv{}, *bad;
	ibv_sge into = q.mem.sge(Connected::large, 8);
	recv.sg_list = &into;
	recv.num_sge = 1;
	ASSERT_EQ(ibv_post_recv(q.b.get(), &recv, &bad), 0);
	q.completes(1);
}

KTEST(modes, "a queue that is not to execute what it has does not keep its page polled")
{
	Context c;
	Ringer r(c), stopped(c);
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_SQD;
	ASSERT_EQ(ibv_modify_qp(stopped.qp(), &attr, IBV_QP_STATE), 0);
	stopped.post();
	ends_polling(r);
	attr.qp_state = IBV_QPS_RTS;
	ASSERT_EQ(ibv_modify_qp(stopped.qp(), &attr, IBV_QP_STATE), 0);
	EXPECT_TRUE(stopped.completes());
}

KTEST(modes, "no doorbell is lost at any distance from the last one")
{
	Parameter rate("poll_rate", "1"), us("poll_us", "100");
	Context c;
	Ringer r(c);
	std::mt19937 random(7);

	// Streams that make the page polled, pauses around the time after which it is not polled any more.
	for (int round = 0; round < 300; round++) {
		stream(r, 5ms);
		auto until = clock::now() + std::chrono::microseconds(random() % 400);
		while (clock::now() < until)
			;
		r.post();
		r.ring();
		ASSERT_TRUE(r.completes()) << "round " << round;
	}
}

KTEST(modes, "threads that share pages and registers lose nothing")
{
	Context c;
	std::vector<std::unique_ptr<Ringer>> ringers;
	std::vector<std::thread> threads;
	std::atomic<int> lost = 0;

	for (int i = 0; i < 48; i++)
		ringers.push_back(std::make_unique<Ringer>(c));
	for (unsigned t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			std::mt19937 random(t);

			for (int i = 0; i < 20000; i++) {
				Ringer &r = *ringers[t * 12 + random() % 12];
				unsigned n = random() % 8 + 1;

				// Several posts, one doorbell; and now and then a word that says nothing.
				for (unsigned k = 0; k < n; k++)
					r.post();
				if (random() % 4)
					r.ring();
				else
					*reinterpret_cast<volatile std::uint64_t *>(r.reg() + 8) = random();
				for (unsigned k = 0; k < n; k++)
					if (!r.completes(20s)) {
						lost++;
						return;
					}
			}
		});
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(lost, 0);
}

KTEST(modes, "among many quiet queues a busy one is found, and a quiet one that wakes up, too")
{
	Context c;
	std::vector<std::unique_ptr<Ringer>> ringers;

	for (int i = 0; i < 500; i++)
		ringers.push_back(std::make_unique<Ringer>(c));
	for (auto &r : ringers) {
		stream(*ringers[0], 1ms);
		r->post();
		r->ring();
		ASSERT_TRUE(r->completes());
	}
}

KTEST(modes, "an idle device does not wake its engine")
{
	Context c;
	Ringer r(c);

	stream(r, 100ms);
	std::this_thread::sleep_for(500ms);
	std::uint64_t before = hw_counter("engine_wakeups");
	std::this_thread::sleep_for(3s);
	EXPECT_EQ(hw_counter("engine_wakeups"), before);
}

} // namespace
