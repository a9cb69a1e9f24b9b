// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the measurements share: queues, small writes on them, clocks, and how a result is said.
#pragma once

#include "../../rdma/verbs.hpp"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double since(Clock::time_point start)
{
	return std::chrono::duration<double>(Clock::now() - start).count();
}

// CPU time of this thread, in nanoseconds.
inline double cpu_ns()
{
	timespec t{};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// One result: a name and a number, on a line of its own.
inline void say(std::string_view name, double value)
{
	fmt::print("{} {:.6g}\n", name, value);
}

// Of a copy, which is sorted; @q from 0 to 1.
inline double quantile(std::vector<double> v, double q)
{
	if (v.empty())
		return 0;
	std::sort(v.begin(), v.end());
	return v[std::min(v.size() - 1, static_cast<size_t>(q * static_cast<double>(v.size())))];
}

inline double median(const std::vector<double> &v)
{
	return quantile(v, 0.5);
}

// QPs of one process on one CQ, connected in pairs: 2k with 2k + 1.
struct Queues {
	rdma::Context &c;
	rdma::QpOptions o;
	rdma::Pd pd;
	rdma::Cq cq;
	rdma::Memory mem;
	std::vector<rdma::Qp> qps;
	std::vector<unsigned> under_way; // signaled requests of each

	// Not connected yet.
	Queues(rdma::Context &context, unsigned n, int depth, int cq_entries, size_t bytes = 1 << 20,
	       ibv_comp_channel *channel = nullptr)
		: c(context), pd(rdma::alloc_pd(c)), cq(rdma::create_cq(c, cq_entries, channel)), mem(pd.get(), bytes),
		  under_way(n)
	{
		o.max_send = depth;
		o.max_recv = 1;
		o.max_sge = 1;
		o.max_inline = 0;
		o.timeout = 14;
		for (unsigned i = 0; i < n; i++)
			qps.push_back(rdma::create_qp(pd.get(), cq.get(), cq.get(), o));
	}
	void connect()
	{
		for (auto &qp : qps)
			rdma::must(rdma::to_init(qp.get(), o), "init");
		for (size_t i = 0; i < qps.size(); i++)
			rdma::must(rdma::to_rtr(qps[i].get(), c, c.gid(), qps[i ^ 1]->qp_num, o), "rtr");
		for (auto &qp : qps)
			rdma::must(rdma::to_rts(qp.get(), o), "rts");
	}

	// A write of @len bytes, one doorbell.
	void write(unsigned i, uint32_t len, unsigned flags = IBV_SEND_SIGNALED)
	{
		ibv_sge sge = mem.sge(0, len);
		rdma::Wr wr(IBV_WR_RDMA_WRITE, {&sge, 1}, i, flags);
		wr.remote(mem.addr(mem.size() / 2), mem.rkey()).post(qps[i].get());
		if (flags & IBV_SEND_SIGNALED)
			under_way[i]++;
	}
	// Takes what is there; how many.
	unsigned take()
	{
		ibv_wc wc[32];
		const int n = ibv_poll_cq(cq.get(), 32, wc);
		if (n < 0)
			rdma::fail("poll_cq", EIO);
		for (int k = 0; k < n; k++) {
			if (wc[k].status != IBV_WC_SUCCESS)
				rdma::fail(std::string("a write: ") + ibv_wc_status_str(wc[k].status), EIO);
			under_way[wc[k].wr_id]--;
		}
		return static_cast<unsigned>(n);
	}
	void drain()
	{
		while (std::any_of(under_way.begin(), under_way.end(), [](unsigned n) { return n; }))
			take();
	}
};

// Small writes on @active in turn, at most @window under way on each, for so long: writes per second.
double write_rate(Queues &q, const std::vector<unsigned> &active, unsigned window, double seconds, uint32_t len = 8);

struct Rates {
	unsigned qps = 16, active = 16, window = 0;
	double seconds = 1;
};
void rates(rdma::Context &c, const Rates &args);

struct Pace {
	double rate = 1000; // per second
	bool busy = false;  // others want the CPUs
	double seconds = 1;
};
void pace(rdma::Context &c, const Pace &args);

void copy(size_t bytes, double seconds);
void fairness(rdma::Context &c, const std::string &device, double seconds, size_t message);
void completions(rdma::Context &c, unsigned batch, bool counted, unsigned repeats);
void counters(rdma::Context &c, double seconds);
void builders(rdma::Context &c, unsigned doorbells);
void idle(rdma::Context &c, double seconds);

void handoff(double seconds);
void pages(size_t n, double seconds);
void pauses(double seconds, double every);
void exchange(double seconds, double every);
void oversleep(double seconds, double ask_us);

} // namespace bench
