// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every kernel allocation of every call fails once: the call fails cleanly or succeeds, and the next one works.
// Needs a kernel with CONFIG_FAILSLAB and root.
#include "failslab.hpp"

#include <failure.hpp>
#include <nldev.hpp>
#include <sys/eventfd.h>
#include <tally/comp_cntr.h>
#include <tally/verbs.h>

using namespace rdma;

namespace {

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
