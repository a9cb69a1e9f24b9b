// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whatever order things end in, nothing is left and nobody hangs.  Needs root: links are added and deleted.
#include "devx_queues.hpp"
#include "dv.hpp"
#include "ktap.hpp"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tally/comp_cntr.h>
#include <thread>
#include <unistd.h>

using namespace rdma;

namespace {

std::string output(const std::string &cmd)
{
	std::string text;
	std::unique_ptr<FILE, Deleter<pclose>> f(popen(cmd.c_str(), "r"));
	char buf[256];
	while (f && fgets(buf, sizeof(buf), f.get()))
		text += buf;
	return text;
}

int run(const std::string &cmd) { return std::system((cmd + " >/dev/null 2>&1").c_str()); }

// No objects of user space's on the device: rdma(8) says so of each kind, "N: dev: pd 1 cq 1 ...".  The kernel has QP 1
// on each device, with a domain and a queue of completions.
bool nothing_left(const std::string &dev)
{
	std::istringstream words(output("rdma resource show " + dev));
	std::map<std::string, std::string> number;
	for (std::string kind, word; words >> word; kind = word)
		number[kind] = word;
	for (const char *kind : {"pd", "cq", "qp"})
		if (number[kind] != "1")
			return false;
	for (const char *kind : {"mr", "ctx", "srq", "cm_id"})
		if (number[kind] != "0")
			return false;
	return true;
}

ibv_comp_cntr *create(Context &c)
{
	ibv_comp_cntr_init_attr a{};
	ibv_comp_cntr *k = ibv_create_comp_cntr(c.get(), &a);
	if (!k)
		fail("create_comp_cntr");
	return k;
}

void attach(ibv_qp *qp, ibv_comp_cntr *k, uint32_t ops)
{
	ibv_qp_attach_comp_cntr_attr a{};
	a.op_mask = ops;
	must(ibv_qp_attach_comp_cntr(qp, k, &a), "attach");
}

// Objects of every kind, half of them in use, and traffic without end.
[[noreturn]] void busy_child(int ready, const std::string &dev)
{
	try {
		Context c(dev);
		ibv_comp_cntr *k = create(c), *unused = create(c);
		(void)unused;
		Pair p(c, {}, false);
		attach(p.a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
		attach(p.b.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE);
		p.connect();
		Pd pd = alloc_pd(c);
		ibv_srq_init_attr sa{};
		sa.attr.max_wr = 16;
		sa.attr.max_sge = 1;
		Srq srq = own<Srq>(ibv_create_srq(pd.get(), &sa), "create_srq");
		bool told = false;
		for (;;) {
			ibv_sge sge = p.a.mem->sge(0, 1 << 19);
			for (int i = 0; i < 8; i++)
				Wr(IBV_WR_RDMA_WRITE, {&sge, 1})
				    .remote(p.b.mem->addr(), p.b.mem->rkey())
				    .post(p.a.qp.get());
			if (!told && write(ready, "x", 1) == 1)
				told = true;
			for (int i = 0; i < 8; i++)
				expect_wc(p.a.scq.get());
		}
	} catch (const std::exception &) {
		_exit(1);
	}
}

// What mlx5 has beside the verbs that every device has, and what commands make, with traffic over DC without end.
[[noreturn]] void busy_mlx5_child(int ready, const std::string &dev)
{
	try {
		Context c(dev);
		Pd pd = alloc_pd(c);
		Cq cq = create_cq(c);
		mlx5dv_mkey_init_attr ka{};
		ka.pd = pd.get();
		ka.max_entries = 16;
		ka.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
		ibv_alloc_dm_attr da{};
		da.length = 8192;
		ibv_dm *dm = ibv_alloc_dm(c.get(), &da);
		ibv_xrcd_init_attr xa{};
		xa.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
		xa.fd = -1;
		xa.oflags = O_CREAT;
		ibv_qp_init_attr_ex ta{};
		ta.qp_type = IBV_QPT_XRC_RECV;
		ta.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		ta.xrcd = ibv_open_xrcd(c.get(), &xa);
		QpOptions ud;
		ud.type = IBV_QPT_UD;
		Qp member = create_qp(pd.get(), cq.get(), cq.get(), ud);
		ibv_gid group{};
		group.raw[0] = 0xff;
		group.raw[1] = 0x0e;
		group.raw[15] = 0x55;
		const mlx5dv_devx_create_event_channel_flags data{};
		mlx5dv_devx_event_channel *ch = mlx5dv_devx_create_event_channel(c.get(), data);
		if (!mlx5dv_create_mkey(&ka) || !ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2) || !ibv_alloc_null_mr(pd.get()) ||
		    !dm || !ibv_reg_dm_mr(pd.get(), dm, 0, 4096, all_access | IBV_ACCESS_ZERO_BASED) || !ta.xrcd ||
		    !ibv_create_qp_ex(c.get(), &ta) || ibv_attach_mcast(member.get(), &group, 0) ||
		    ibv_attach_mcast(member.get(), &group, 1) || !ch)
			fail("an object");

		devx::Base to(c);
		devx::Rmp rmp(c, to.pdn, {devx::Form::cyclic});
		devx::Dct dct(c, to.pdn, to.rcq, rmp);
		devx::Initiator from(c);
		uint16_t comp[] = {0};
		must(mlx5dv_devx_subscribe_devx_event(ch, from.scq.obj.get(), sizeof(comp), comp, 1), "subscribe");
		for (bool told = false;; told = told || write(ready, "x", 1) == 1) {
			from.scq.arm();
			if (from.write(dct.number, to.mem, 0, to.mem.size()))
				_exit(1);
		}
	} catch (const std::exception &) {
		_exit(1);
	}
}

// Starts a child and waits until it is in full swing.
pid_t start(void (*body)(int, const std::string &), const std::string &dev)
{
	int fds[2];
	if (pipe(fds))
		fail("pipe");
	std::fflush(nullptr);
	const pid_t pid = fork();
	if (!pid) {
		close(fds[0]);
		body(fds[1], dev);
		_exit(0);
	}
	close(fds[1]);
	char byte;
	const bool ok = read(fds[0], &byte, 1) == 1;
	close(fds[0]);
	if (!ok)
		fail("the child did not start", ECHILD);
	return pid;
}

// Whether a process sleeps in an ioctl.
bool sleeps_in_ioctl(pid_t pid)
{
	std::ifstream syscall("/proc/" + std::to_string(pid) + "/syscall");
	long number;
	return syscall >> number && number == SYS_ioctl;
}

// Kills processes at different moments of their traffic; nothing of them stays.
void kill_some(void (*body)(int, const std::string &), int times)
{
	for (int i = 0; i < times; i++) {
		const pid_t pid = start(body, device_name());
		usleep(1000 * i);
		kill(pid, SIGKILL);
		int status;
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
	}
	EXPECT_TRUE(eventually([] { return nothing_left(device_name()); }))
	    << output("rdma resource show " + device_name());
}

KTEST(teardown, "a process that is killed in the middle of its traffic leaves nothing")
{
	kill_some(busy_child, 10);
}

KTEST(teardown, "a process that is killed with objects of every kind of mlx5's in use leaves nothing")
{
	kill_some(busy_mlx5_child, 5);
}

KTEST(teardown, "a process that exits without destroying anything leaves nothing, in whatever order it made it")
{
	for (int order = 0; order < 2; order++) {
		std::fflush(nullptr);
		const pid_t pid = fork();
		if (!pid) {
			try {
				auto *c = new Context;
				ibv_comp_cntr *k = order ? create(*c) : nullptr;
				auto *p = new Pair(*c, {}, false);
				if (!k)
					k = create(*c);
				attach(p->a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_SEND);
				attach(p->b.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_RECV);
				_exit(0);
			} catch (const std::exception &) {
				_exit(1);
			}
		}
		int status;
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
	}
	EXPECT_TRUE(eventually([] { return nothing_left(device_name()); }));
}

KTEST(teardown, "a process killed while it waits for a counter dies at once")
{
	const pid_t pid = start(
	    [](int ready, const std::string &dev) {
		    Context c(dev);
		    ibv_comp_cntr *k = create(c);
		    (void)!write(ready, "x", 1);
		    tally_wait_comp_cntr(k, 1, 0, TALLY_COMP_CNTR_WAIT_FOREVER);
	    },
	    device_name());
	EXPECT_TRUE(eventually([&] { return sleeps_in_ioctl(pid); }));
	kill(pid, SIGKILL);
	int status;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_TRUE(eventually([] { return nothing_left(device_name()); }));
}

// A link of our own on a netdev of our own, which may be taken away.
struct Link {
	std::string name = "tallytd", netdev = "tdnet";
	bool there = false;

	Link()
	{
		run("ip link delete " + netdev);
		if (run("ip link add " + netdev + " type dummy && ip addr add 10.81.0.1/24 dev " + netdev +
			" && ip link set " + netdev + " up"))
			fail("ip link add", EINVAL);
		there = run("rdma link add " + name + " type tally netdev " + netdev) == 0;
		if (!there)
			fail("rdma link add", EINVAL);
		if (!eventually([this] { return ready(); }))
			fail("the link has no address", ETIMEDOUT);
	}
	~Link()
	{
		remove();
		run("ip link delete " + netdev);
	}
	bool remove() { return !there || (run("rdma link delete " + name) == 0 && !(there = false)); }
	bool remove_netdev() { return run("ip link delete " + netdev) == 0 && !(there = false); }

      private:
	bool ready() const
	{
		try {
			return Context(name).gid_index() >= 0;
		} catch (const std::exception &) {
			return false;
		}
	}
};

KTEST(teardown, "a link is deleted under a process in the middle of its traffic, which ends by itself")
{
	Link link;
	const pid_t pid = start(
	    [](int ready, const std::string &dev) {
		    // Its last completion never comes, so it gives up soon: what counts is that the link goes.
		    alarm(5);
		    busy_child(ready, dev);
	    },
	    link.name);
	EXPECT_TRUE(link.remove());
	EXPECT_EQ(output("rdma link show").find(link.name), std::string::npos);
	int status;
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_FALSE(WIFSIGNALED(status) && (WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGSEGV))
	    << "a doorbell of a device that is gone must do no harm";
}

KTEST(teardown, "a link is deleted under a waiter, whose wait and whose next one end with ENODEV")
{
	Link link;
	const pid_t pid = start(
	    [](int ready, const std::string &dev) {
		    Context c(dev);
		    ibv_comp_cntr *k = create(c);
		    (void)!write(ready, "x", 1);
		    const int err = tally_wait_comp_cntr(k, 1, 0, TALLY_COMP_CNTR_WAIT_FOREVER);
		    _exit(err == ENODEV ? tally_wait_comp_cntr(k, 1, 0, TALLY_COMP_CNTR_WAIT_FOREVER) : err);
	    },
	    link.name);
	EXPECT_TRUE(eventually([&] { return sleeps_in_ioctl(pid); }));
	EXPECT_TRUE(link.remove());
	int status;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), ENODEV) << strerror(WEXITSTATUS(status));
}

KTEST(teardown, "a link is deleted under a loop that waits for the eventfd of a counter, which fires")
{
	Link link;
	const pid_t pid = start(
	    [](int ready, const std::string &dev) {
		    Context c(dev);
		    ibv_comp_cntr *k = create(c);
		    const int fd = eventfd(0, 0);
		    uint64_t times = 0;
		    if (tally_notify_comp_cntr(k, 1, nullptr, fd))
			    _exit(1);
		    (void)!write(ready, "x", 1);
		    alarm(20);
		    if (read(fd, &times, sizeof(times)) != sizeof(times) || times != 1)
			    _exit(2);
		    _exit(tally_notify_comp_cntr(k, 1, nullptr, fd) == ENODEV ? 42 : 3);
	    },
	    link.name);
	usleep(100000);
	EXPECT_TRUE(link.remove());
	int status;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 42);
}

KTEST(teardown, "a link is deleted under a process with objects of every kind of mlx5's")
{
	Link link;
	const pid_t pid = start(
	    [](int ready, const std::string &dev) {
		    alarm(5);
		    busy_mlx5_child(ready, dev);
	    },
	    link.name);
	EXPECT_TRUE(link.remove());
	int status;
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_FALSE(WIFSIGNALED(status) && (WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGSEGV));
}

KTEST(teardown, "a link is deleted under a reader of events, who reads EIO from then on")
{
	Link link;
	const pid_t pid = start(
	    [](int ready, const std::string &dev) {
		    Context c(dev);
		    const mlx5dv_devx_create_event_channel_flags data{};
		    mlx5dv_devx_event_channel *ch = mlx5dv_devx_create_event_channel(c.get(), data);
		    uint8_t event[72];
		    (void)!write(ready, "x", 1);
		    for (int i = 0; i < 2; i++)
			    if (!ch || read(ch->fd, event, sizeof(event)) != -1 || errno != EIO)
				    _exit(1);
		    _exit(42);
	    },
	    link.name);
	usleep(100000);
	EXPECT_TRUE(link.remove());
	int status;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 42);
}

KTEST(teardown, "a link is deleted while the process that used it holds everything open, and it may clean up later")
{
	Link link;
	Context c(link.name);
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		attach(p.a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_SEND);
		p.connect();
		ASSERT_TRUE(link.remove());
		// The doorbell of a device that is gone goes nowhere.
		ibv_sge sge = p.a.mem->sge(0, 8);
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
		EXPECT_TRUE(empty(p.a.scq.get()));
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(teardown, "a link is deleted under a process that has memory of it mapped, which keeps that")
{
	Link link;
	Context c(link.name);
	ibv_alloc_dm_attr a{};
	a.length = 8192;
	ibv_dm *dm = ibv_alloc_dm(c.get(), &a);
	ASSERT_NE(dm, nullptr);
	const uint64_t word = 0x0123'4567'89ab'cdef;
	uint64_t seen = 0;
	must(ibv_memcpy_to_dm(dm, 4096, &word, 8), "memcpy_to_dm");
	ASSERT_TRUE(link.remove());
	must(ibv_memcpy_from_dm(&seen, dm, 4096, 8), "memcpy_from_dm");
	EXPECT_EQ(seen, word);
	// A child has it, too.
	std::fflush(nullptr);
	const pid_t pid = fork();
	if (!pid)
		_exit(ibv_memcpy_from_dm(&seen, dm, 4096, 8) || seen != word);
	int status;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	ibv_free_dm(dm);
}

KTEST(teardown, "a link goes with its netdev, under a process in the middle of its traffic")
{
	Link link;
	const pid_t pid = start(
	    [](int ready, const std::string &dev) {
		    alarm(5);
		    busy_child(ready, dev);
	    },
	    link.name);
	EXPECT_TRUE(link.remove_netdev());
	EXPECT_TRUE(eventually([&] { return output("rdma link show").find(link.name) == std::string::npos; }));
	kill(pid, SIGKILL);
	int status;
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
}

KTEST(teardown, "a netdev that moves to another network namespace takes its link with it, also one that is just being added")
{
	const std::string net = "tallytdns", netdev = "tdmoves", name = "tallymv";

	run("ip netns add " + net);
	// What is up takes a while to move, in which it can still be found.
	for (auto lead = 0us; lead <= 20000us; lead += 1250us) {
		must(run("ip link add " + netdev + " type dummy && ip link set " + netdev + " up"), "ip link add");
		std::jthread add([&] {
			std::this_thread::sleep_for(lead);
			run("rdma link add " + name + " type tally netdev " + netdev);
		});
		EXPECT_EQ(run("ip link set " + netdev + " netns " + net), 0);
		add.join();
		EXPECT_TRUE(eventually([&] { return run("rdma link show " + name + "/1") != 0; })) << lead.count();
		run("rdma link delete " + name);
		run("ip -n " + net + " link delete " + netdev);
	}
	run("ip netns delete " + net);
}

KTEST(teardown, "a second link on one netdev, and a name that is taken, are refused")
{
	Link link;
	EXPECT_NE(run("rdma link add other type tally netdev " + link.netdev), 0);
	EXPECT_NE(run("rdma link add " + device_name() + " type tally netdev " + link.netdev), 0);
	Context c(link.name);
	Pair p(c);
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
}

KTEST(teardown, "the port goes down and up with its netdev, and says so")
{
	Link link;
	Context c(link.name);
	auto state = [&] {
		ibv_port_attr a{};
		must(ibv_query_port(c.get(), 1, &a), "query_port");
		return a.state;
	};
	auto event = [&](ibv_event_type type) {
		ibv_async_event e{};
		do {
			must(ibv_get_async_event(c.get(), &e), "async event");
			ibv_ack_async_event(&e);
		} while (e.event_type != type);
	};
	EXPECT_EQ(state(), IBV_PORT_ACTIVE);
	must(run("ip link set " + link.netdev + " down"), "down");
	event(IBV_EVENT_PORT_ERR);
	EXPECT_EQ(state(), IBV_PORT_DOWN);
	must(run("ip link set " + link.netdev + " up"), "up");
	event(IBV_EVENT_PORT_ACTIVE);
	EXPECT_EQ(state(), IBV_PORT_ACTIVE);
}

} // namespace
