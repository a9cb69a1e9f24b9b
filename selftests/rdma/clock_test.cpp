// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The device's clock: timestamps of completions, and wall-clock time made of them.
#include "ktap.hpp"
#include "verbs.hpp"

#include <ctime>
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

using namespace rdma;

namespace {

uint64_t clock_ns(clockid_t id)
{
	timespec t{};
	clock_gettime(id, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

struct Stamp {
	ibv_wc_status status;
	uint64_t raw, wall;
};

// A queue for both ends of a connection, which reads timestamps of both kinds.
struct Stamped {
	Context c;
	Pd pd = alloc_pd(c);
	ibv_cq_ex *cq = create();
	Memory mem{pd.get(), 4096};
	Qp qp = create_qp(pd.get(), ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq));

	Stamped() { connect_to_itself(qp.get(), c); }
	~Stamped()
	{
		qp.reset();
		ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	}
	ibv_cq_ex *create() const
	{
		ibv_cq_init_attr_ex a{};
		a.cqe = 64;
		a.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
		ibv_cq_ex *q = ibv_create_cq_ex(c.get(), &a);
		if (!q)
			fail("create_cq_ex");
		return q;
	}
	void write(uint32_t rkey)
	{
		ibv_sge sge = mem.sge(0, 8);
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(mem.addr(8), rkey).post(qp.get());
	}
	Stamp next()
	{
		ibv_poll_cq_attr a{};
		if (!eventually([&] { return ibv_start_poll(cq, &a) == 0; }))
			fail("no completion", ETIMEDOUT);
		const Stamp s{cq->status, ibv_wc_read_completion_ts(cq), ibv_wc_read_completion_wallclock_ns(cq)};
		ibv_end_poll(cq);
		return s;
	}
};

KTEST(clock, "says when each completion happened, in nanoseconds of the monotonic clock")
{
	Stamped s;

	for (int i = 0; i < 20; i++) {
		const uint64_t before = clock_ns(CLOCK_MONOTONIC);
		s.write(s.mem.rkey());
		s.write(s.mem.rkey());
		const Stamp one = s.next(), two = s.next();
		EXPECT_EQ(one.status, IBV_WC_SUCCESS);
		EXPECT_LE(before, one.raw);
		EXPECT_LE(one.raw, two.raw);
		EXPECT_LE(two.raw, clock_ns(CLOCK_MONOTONIC));
	}
}

KTEST(clock, "is converted to the wall clock")
{
	Stamped s;

	const uint64_t before = clock_ns(CLOCK_REALTIME);
	s.write(s.mem.rkey());
	const Stamp one = s.next();
	EXPECT_LE(before, one.wall);
	EXPECT_LE(one.wall, clock_ns(CLOCK_REALTIME));
	mlx5dv_clock_info info{};
	must(mlx5dv_get_clock_info(s.c.get(), &info), "get_clock_info");
	EXPECT_EQ(mlx5dv_ts_to_ns(&info, one.raw), one.wall);
	EXPECT_EQ(mlx5dv_ts_to_ns(&info, info.last_cycles - 1000), info.nsec - 1000);
}

KTEST(clock, "has no time for a failed request, whose place the error has")
{
	Stamped s;

	s.write(s.mem.rkey() ^ 0x80);
	EXPECT_EQ(s.next().status, IBV_WC_REM_ACCESS_ERR);
}

KTEST(clock, "is described by the device's attributes")
{
	Context c;
	ibv_device_attr_ex a{};

	must(ibv_query_device_ex(c.get(), nullptr, &a), "query_device_ex");
	EXPECT_EQ(a.completion_timestamp_mask, 0x7fff'ffff'ffff'ffffull);
	EXPECT_EQ(a.hca_core_clock, 1'000'000u); // kHz
}

KTEST(clock, "cannot be read by itself, nor can its page be written")
{
	Context c;
	ibv_values_ex v{};
	const off_t page = (7ul << 8) * 4096;

	v.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	EXPECT_NE(ibv_query_rt_values_ex(c.get(), &v), 0);
	errno = 0;
	EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, page), MAP_FAILED);
	EXPECT_EQ(errno, EPERM);
	EXPECT_EQ(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, c.get()->cmd_fd, page), MAP_FAILED);
	EXPECT_EQ(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, c.get()->cmd_fd, page + 4096), MAP_FAILED);
	void *map = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, c.get()->cmd_fd, page);
	ASSERT_NE(map, MAP_FAILED);
	EXPECT_NE(mprotect(map, 4096, PROT_READ | PROT_WRITE), 0);
	munmap(map, 4096);
}

// Sets the wall clock, until the end.
struct WallClock {
	static constexpr int64_t ahead = 5'000'000'000;
	bool set = move(ahead);

	~WallClock()
	{
		if (set)
			move(-ahead);
	}
	static bool move(int64_t by)
	{
		const uint64_t t = clock_ns(CLOCK_REALTIME) + static_cast<uint64_t>(by);
		const timespec ts{static_cast<time_t>(t / 1'000'000'000), static_cast<long>(t % 1'000'000'000)};
		return clock_settime(CLOCK_REALTIME, &ts) == 0;
	}
};

KTEST(clock, "follows the wall clock that was set when somebody opens the device")
{
	Stamped s;
	s.write(s.mem.rkey());
	const Stamp before = s.next();
	WallClock wall;
	if (!wall.set)
		GTEST_SKIP() << "the clock may not be set";

	Stamped later;
	later.write(later.mem.rkey());
	const uint64_t seen = later.next().wall, now = clock_ns(CLOCK_REALTIME);
	EXPECT_LE(seen, now);
	EXPECT_GT(seen, before.wall + WallClock::ahead);
	// One page for all.
	mlx5dv_clock_info a{}, b{};
	must(mlx5dv_get_clock_info(s.c.get(), &a), "get_clock_info");
	must(mlx5dv_get_clock_info(later.c.get(), &b), "get_clock_info");
	EXPECT_EQ(a.nsec, b.nsec);
}

} // namespace
