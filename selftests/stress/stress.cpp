// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many processes open the device, make objects, run traffic, and are killed at random moments, while links are
// added and deleted under them.  Says what it did; whether anything is left behind is for its caller to see.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "../rdma/verbs.hpp"
#include <tally/verbs.h>

using namespace rdma;

namespace {

using Clock = std::chrono::steady_clock;

std::mt19937 rng;

unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(rng); }

void attach_counter(Context &c, Pair &p, std::vector<ibv_comp_cntr *> &counters)
{
	ibv_comp_cntr_init_attr attr{};
	attr.type = below(2) ? IBV_COMP_CNTR_TYPE_WRS : IBV_COMP_CNTR_TYPE_BYTES;
	ibv_comp_cntr *k = ibv_create_comp_cntr(c.get(), &attr);
	if (!k)
		fail("create_comp_cntr");
	counters.push_back(k);
	ibv_qp_attach_comp_cntr_attr a{};
	a.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE | IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
	must(ibv_qp_attach_comp_cntr(p.a.qp.get(), k, &a), "attach");
	a.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE | IBV_QP_ATTACH_COMP_CNTR_OP_RECV;
	must(ibv_qp_attach_comp_cntr(p.b.qp.get(), k, &a), "attach");
}

void post_something(Pair &p)
{
	static const ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
					    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD};
	const ibv_wr_opcode op = ops[below(5)];
	const size_t len = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 1u << below(17);
	ibv_sge sge = p.a.mem->sge(0, len);
	Wr wr(op, {&sge, 1}, 0, below(4) ? 0 : IBV_SEND_SIGNALED);
	// Now and then a key that is wrong, so that queues are flushed and events raised.
	const uint32_t rkey = below(500) ? p.b.mem->rkey() : 0xdead00;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.atomic(p.b.mem->addr(), rkey, 1);
	else
		wr.remote(p.b.mem->addr(), rkey);
	if (below(50) && (op == IBV_WR_SEND || op == IBV_WR_RDMA_WRITE_WITH_IMM))
		post_recv(p.b.qp.get(), {p.b.mem->sge(0, 1 << 17)});
	wr.post(p.a.qp.get());
}

void drain(ibv_cq *cq)
{
	ibv_wc wc[16];
	while (ibv_poll_cq(cq, 16, wc) > 0)
		;
}

void traffic(const std::string &device)
{
	Context c(device);
	std::vector<ibv_comp_cntr *> counters;
	std::vector<std::unique_ptr<Pair>> pairs;
	for (unsigned n = 1 + below(3); n; n--) {
		QpOptions o;
		o.timeout = 4;
		auto &p = pairs.emplace_back(std::make_unique<Pair>(c, o, false, 1 << 18));
		p->init();
		attach_counter(c, *p, counters);
		p->ready();
	}
	for (unsigned i = 20 + below(2000); i; i--) {
		Pair &p = *pairs[below(pairs.size())];
		try {
			post_something(p);
		} catch (const std::system_error &) {
			// The ring is full or the QP is in error: go on with what is there.
		}
		drain(p.a.scq.get());
		drain(p.b.rcq.get());
		if (!below(300)) {
			must(to_reset(p.a.qp.get()), "reset");
			must(to_reset(p.b.qp.get()), "reset");
			p.connect();
		}
	}
	if (below(2)) {
		// Sometimes tidily, otherwise the kernel has to.
		pairs.clear();
		for (ibv_comp_cntr *k : counters)
			must(ibv_destroy_comp_cntr(k), "destroy");
	} else {
		_exit(0);
	}
}

[[noreturn]] void child(unsigned seed, const std::vector<std::string> &devices)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rng.seed(seed);
	for (;;) {
		try {
			traffic(devices[below(devices.size())]);
		} catch (const std::exception &) {
			// The device went away under it, or is not there just now.
			usleep(1000);
		}
	}
}

// Adds the link if it is not there, else deletes it.
void flip_link(const std::string &name, const std::string &netdev, bool &there)
{
	const std::string cmd = there ? "rdma link delete " + name
				      : "rdma link add " + name + " type tally netdev " + netdev;
	if (std::system((cmd + " 2>/dev/null").c_str()) == 0)
		there = !there;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 5) {
		std::fprintf(stderr,
			     "usage: %s PROCESSES SECONDS DEVICE NETDEV\n"
			     "Runs PROCESSES processes on DEVICE and on a link that comes and goes on NETDEV, which must have none.\n",
			     argv[0]);
		return 2;
	}
	const unsigned processes = std::strtoul(argv[1], nullptr, 10);
	const auto end = Clock::now() + std::chrono::seconds(std::strtoul(argv[2], nullptr, 10));
	const std::string netdev = argv[4], extra = "tallystress";
	const std::vector<std::string> devices = {argv[3], extra};

	rng.seed(1);
	std::vector<pid_t> pids(processes, 0);
	unsigned long started = 0, killed = 0, flips = 0, crashed = 0;
	bool there = false;
	while (Clock::now() < end) {
		for (pid_t &pid : pids) {
			if (pid)
				continue;
			std::fflush(nullptr);
			const unsigned seed = rng();
			pid = fork();
			if (pid < 0) {
				std::perror("fork");
				pid = 0;
				break;
			}
			if (!pid)
				child(seed, devices);
			started++;
		}
		if (below(3) == 0) {
			flip_link(extra, netdev, there);
			flips++;
		}
		pid_t &victim = pids[below(processes)];
		if (victim && !kill(victim, SIGKILL))
			killed++;
		int status;
		while (pid_t gone = waitpid(-1, &status, WNOHANG)) {
			if (gone < 0)
				break;
			if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
				crashed++;
			std::replace(pids.begin(), pids.end(), gone, pid_t{0});
		}
		usleep(below(30000));
	}
	for (pid_t pid : pids)
		if (pid)
			kill(pid, SIGKILL);
	while (waitpid(-1, nullptr, 0) > 0)
		;
	if (there)
		flip_link(extra, netdev, there);
	std::printf("# %lu processes started, %lu killed, %lu crashed, %lu times a link added or deleted\n", started,
		    killed, crashed, flips);
	const bool ok = started >= processes && killed && flips && !crashed && !there;
	std::printf("%s 1 - stress: processes die at random while links come and go\n", ok ? "ok" : "not ok");
	return !ok;
}
