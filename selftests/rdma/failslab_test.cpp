// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every kernel allocation of every call fails once: the call fails cleanly or succeeds, and the next one works.
// Needs a kernel with CONFIG_FAILSLAB and root.
#include "ktap.hpp"
#include "verbs.hpp"

#include <fcntl.h>
#include <fstream>
#include <failure.hpp>
#include <nldev.hpp>
#include <sys/eventfd.h>
#include <tally/comp_cntr.h>
#include <tally/verbs.h>
#include <unistd.h>

using namespace rdma;

namespace {

// The nth kernel allocation of this thread fails, from construction on (Documentation/fault-injection).
class FailNth {
      public:
	explicit FailNth(int n) : fd_(open("/proc/thread-self/fail-nth", O_RDWR))
	{
		if (fd_ < 0)
			fail("open fail-nth: the kernel has no fault injection");
		write(n);
	}
	~FailNth()
	{
		disarm();
		close(fd_);
	}
	// Ends it; says whether the failure has happened.
	bool disarm()
	{
		char buf[16] = {};
		lseek(fd_, 0, SEEK_SET);
		// Copies to and from user space are made to fail as well, this one too: then the call got off.
		const bool injected = read(fd_, buf, sizeof(buf) - 1) > 0 && std::atoi(buf) == 0;
		write(0);
		return injected;
	}

      private:
	void write(int n)
	{
		const std::string s = std::to_string(n);
		for (int tries = 2; tries; tries--) {
			lseek(fd_, 0, SEEK_SET);
			if (::write(fd_, s.data(), s.size()) == static_cast<ssize_t>(s.size()))
				return;
		}
		fail("write fail-nth");
	}
	int fd_;
};

void set(const char *file, const char *value)
{
	std::ofstream f(file);
	f << value;
	f.flush();
	if (!f)
		fail(std::string("write ") + file, EINVAL);
}

void enable()
{
	set("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/failslab/verbose", "0");
}

// Runs a call with its 1st, 2nd, ... allocation failing, until none is left to fail; then it must succeed.
// @call returns 0 or an errno; @undo reverses a success; @last: none behind this one is made to fail.
void sweep(const std::function<int()> &call, const std::function<void()> &undo = [] {}, int last = 0)
{
	constexpr int most = 1000;

	enable();
	must(call(), "without any failure");
	undo();
	int n = 1;
	for (; !last || n <= last; n++) {
		ASSERT_LT(n, most) << "no end of allocations";
		int err;
		bool injected;
		{
			FailNth nth(n);
			err = call();
			injected = nth.disarm();
		}
		if (!err)
			undo();
		else
			ASSERT_TRUE(injected) << "allocation " << n << ": " << std::strerror(err);
		if (!injected)
			break;
		ASSERT_EQ(call(), 0) << "after a failure of allocation " << n;
		undo();
	}
	EXPECT_GT(n, 1) << "no allocation was made to fail";
}

template <class T> int got(T *&to, T *p)
{
	to = p;
	return p ? 0 : errno;
}

KTEST(failslab, "opening the device survives any failed allocation")
{
	int n;
	ibv_device **list = ibv_get_device_list(&n);
	ASSERT_NE(list, nullptr);
	ibv_device *dev = nullptr;
	for (int i = 0; i < n; i++)
		if (device_name() == ibv_get_device_name(list[i]))
			dev = list[i];
	ASSERT_NE(dev, nullptr);
	ibv_context *c;
	sweep([&] { return got(c, ibv_open_device(dev)); }, [&] { ibv_close_device(c); });
	ibv_free_device_list(list);
}

KTEST(failslab, "alloc_pd survives any failed allocation")
{
	Context c;
	ibv_pd *pd;
	sweep([&] { return got(pd, ibv_alloc_pd(c.get())); }, [&] { must(ibv_dealloc_pd(pd), "dealloc_pd"); });
}

KTEST(failslab, "reg_mr survives any failed allocation")
{
	Context c;
	Pd pd = alloc_pd(c);
	std::vector<char> mem(1 << 20);
	ibv_mr *mr;
	sweep([&] { return got(mr, ibv_reg_mr(pd.get(), mem.data(), mem.size(), all_access)); },
	      [&] { must(ibv_dereg_mr(mr), "dereg_mr"); });
}

KTEST(failslab, "rereg_mr survives any failed allocation, and so does the region")
{
	Context c;
	Pair p(c);
	Memory other(p.b.pd.get(), 1 << 20);
	ibv_mr *mr = p.b.mem->mr();
	uint8_t *at = p.b.mem->data();
	sweep([&] {
		uint8_t *next = at == other.data() ? p.b.mem->data() : other.data();
		errno = 0;
		if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, next, 1 << 20, 0)) {
			const int err = errno;
			// ib_uverbs could not copy: its answer, behind the change, or the request, before it.
			if (err == EFAULT)
				must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, 1 << 20, 0), "rereg_mr");
			ibv_sge sge = p.a.mem->sge(0, 8);
			Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(reinterpret_cast<uintptr_t>(at), mr->rkey).post(p.a.qp.get());
			EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS) << "after: " << std::strerror(err);
			return err ? err : EIO;
		}
		at = next;
		return 0;
	});
}

KTEST(failslab, "create_ah survives any failed allocation")
{
	Context c;
	Pd pd = alloc_pd(c);
	const ibv_gid gid = c.gid();
	ibv_ah *ah;
	sweep(
	    [&] {
		    ibv_ah_attr a{};
		    a.is_global = 1;
		    a.grh.dgid = gid;
		    a.grh.sgid_index = static_cast<uint8_t>(c.gid_index());
		    a.port_num = 1;
		    return got(ah, ibv_create_ah(pd.get(), &a));
	    },
	    [&] { must(ibv_destroy_ah(ah), "destroy_ah"); });
}

KTEST(failslab, "create_cq and resize_cq survive any failed allocation")
{
	Context c;
	ibv_cq *cq;
	sweep([&] { return got(cq, ibv_create_cq(c.get(), 100, nullptr, nullptr, 0)); },
	      [&] { must(ibv_destroy_cq(cq), "destroy_cq"); });
	Cq keep = create_cq(c);
	int size = 100;
	sweep([&] { return ibv_resize_cq(keep.get(), size = size == 100 ? 1000 : 100); });
}

KTEST(failslab, "create_srq survives any failed allocation")
{
	Context c;
	Pd pd = alloc_pd(c);
	ibv_srq *srq;
	sweep(
	    [&] {
		    ibv_srq_init_attr a{};
		    a.attr.max_wr = 100;
		    a.attr.max_sge = 2;
		    return got(srq, ibv_create_srq(pd.get(), &a));
	    },
	    [&] { must(ibv_destroy_srq(srq), "destroy_srq"); });
}

KTEST(failslab, "create_qp survives any failed allocation")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	ibv_qp *qp;
	sweep(
	    [&] {
		    ibv_qp_init_attr a{};
		    a.send_cq = a.recv_cq = cq.get();
		    a.cap = {64, 64, 2, 2, 64};
		    a.qp_type = IBV_QPT_RC;
		    return got(qp, ibv_create_qp(pd.get(), &a));
	    },
	    [&] { must(ibv_destroy_qp(qp), "destroy_qp"); });
}

KTEST(failslab, "connecting a QP survives any failed allocation")
{
	Context c;
	Pair p(c, {}, false);
	ibv_qp *qp = p.a.qp.get();
	const ibv_gid gid = c.gid();
	sweep(
	    [&] {
		    int err = to_init(qp);
		    if (!err)
			    err = to_rtr(qp, c, gid, p.b.qp->qp_num);
		    if (!err)
			    err = to_rts(qp);
		    if (err)
			    must(to_reset(qp), "reset after a failure");
		    return err;
	    },
	    [&] { must(to_reset(qp), "reset"); });
}

KTEST(failslab, "creating, attaching and changing a counter survive any failed allocation")
{
	Context c;
	ibv_comp_cntr *k;
	ibv_comp_cntr_init_attr init{};
	sweep([&] { return got(k, ibv_create_comp_cntr(c.get(), &init)); },
	      [&] { must(ibv_destroy_comp_cntr(k), "destroy"); });

	must(got(k, ibv_create_comp_cntr(c.get(), &init)), "create");
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	Qp qp;
	sweep(
	    [&] {
		    // Made outside of the failure: a QP that was attached to would refuse the next attach.
		    if (!qp)
			    qp = create_qp(pd.get(), cq.get(), cq.get());
		    ibv_qp_attach_comp_cntr_attr a{};
		    a.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
		    return ibv_qp_attach_comp_cntr(qp.get(), k, &a);
	    },
	    [&] { qp = create_qp(pd.get(), cq.get(), cq.get()); });
	qp.reset();
	must(ibv_destroy_comp_cntr(k), "destroy");
}

KTEST(failslab, "a counter in the caller's memory survives any failed allocation")
{
	Context c;
	alignas(4096) static uint64_t words[1024];
	tally_comp_cntr_init_attr init{};
	init.comp = {TALLY_MEMORY_VA, -1, &words[0], 0};
	init.err = {TALLY_MEMORY_VA, -1, &words[600], 0};
	ibv_comp_cntr *k;
	sweep([&] { return got(k, tally_create_comp_cntr(c.get(), &init)); },
	      [&] { must(ibv_destroy_comp_cntr(k), "destroy"); });
}

KTEST(failslab, "waiting for a counter and being notified survive any failed allocation")
{
	Context c;
	ibv_comp_cntr_init_attr init{};
	ibv_comp_cntr *k = nullptr;
	const int event = eventfd(0, EFD_NONBLOCK);
	auto fresh = [&] {
		if (k)
			must(ibv_destroy_comp_cntr(k), "destroy");
		must(got(k, ibv_create_comp_cntr(c.get(), &init)), "create");
	};

	fresh();
	sweep([&] {
		const int err = tally_wait_comp_cntr(k, 1, 0, 1000);
		return err == ETIMEDOUT ? 0 : err;
	});
	sweep([&] { return tally_notify_comp_cntr(k, 1, nullptr, event); }, fresh);
	must(ibv_destroy_comp_cntr(k), "destroy");
	close(event);
}

// The driver's own come first; ib_core's, when it registers the device, are some hundred, and take minutes.
KTEST(failslab, "adding and removing a device survive any failed allocation of the driver's")
{
	constexpr int drivers = 40;
	const char *netdev = std::getenv("TALLY_FREE_NETDEV");
	if (!netdev)
		GTEST_SKIP() << "TALLY_FREE_NETDEV names no netdev for another device";
	auto errno_of = [](auto what) {
		try {
			what();
			return 0;
		} catch (const tally::cli::failure &) {
			return EIO;
		}
	};
	sweep(
	    [&] {
		    const int err = errno_of([&] { tally::cli::nldev().add_link("tallyfail", "tally", netdev); });
		    // The device may be there, and only the word of it was lost.
		    if (err)
			    errno_of([] { tally::cli::nldev().delete_link("tallyfail"); });
		    return err;
	    },
	    [] { tally::cli::nldev().delete_link("tallyfail"); }, drivers);
}

KTEST(failslab, "traffic runs after all that")
{
	Context c;
	Pair p(c);
	p.a.mem->pattern(1);
	ibv_sge sge = p.a.mem->sge(0, 4096);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(p.a.mem->data(), p.b.mem->data(), 4096), 0);
}

} // namespace
