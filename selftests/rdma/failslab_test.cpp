// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every kernel allocation of every call fails once: the call fails cleanly or succeeds, and the next one works.
// Needs a kernel with CONFIG_FAILSLAB and root.
#include "ktap.hpp"
#include "verbs.hpp"

#include <fcntl.h>
#include <fstream>
#include <sys/eventfd.h>
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
// @call returns 0 or an errno; @undo reverses a success.
void sweep(const std::function<int()> &call, const std::function<void()> &undo = [] {})
{
	constexpr int most = 1000;

	enable();
	must(call(), "without any failure");
	undo();
	int n = 1;
	for (;; n++) {
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
