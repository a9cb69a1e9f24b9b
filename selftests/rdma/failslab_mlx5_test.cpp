// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Likewise, for what mlx5 has beside the verbs that every device has, and for what commands make.
#include "devx_queues.hpp"
#include "dv.hpp"
#include "failslab.hpp"

#include <utility>

using namespace rdma;

namespace {

// @make returns an owning pointer; what it made goes at once.
template <class F> void sweep_making(F make)
{
	decltype(make()) made;
	sweep(
	    [&] {
		    errno = 0;
		    made = make();
		    return made ? 0 : errno;
	    },
	    [&] { made.reset(); });
}

template <class T, auto destroy> using Owned = std::unique_ptr<T, Deleter<destroy>>;

KTEST(failslab_mlx5, "making a key, a window and memory on the device survives any failed allocation")
{
	Context c;
	Pd pd = alloc_pd(c);
	sweep_making([&] {
		mlx5dv_mkey_init_attr a{};
		a.pd = pd.get();
		a.max_entries = 16;
		a.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
		return Owned<mlx5dv_mkey, mlx5dv_destroy_mkey>(mlx5dv_create_mkey(&a));
	});
	sweep_making([&] { return Owned<ibv_mw, ibv_dealloc_mw>(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2)); });
	Owned<ibv_dm, ibv_free_dm> dm;
	ibv_alloc_dm_attr da{};
	da.length = 8192;
	sweep_making([&] { return Owned<ibv_dm, ibv_free_dm>(ibv_alloc_dm(c.get(), &da)); });
	dm.reset(ibv_alloc_dm(c.get(), &da));
	ASSERT_TRUE(dm);
	sweep_making([&] { return Mr(ibv_reg_dm_mr(pd.get(), dm.get(), 0, 4096, all_access | IBV_ACCESS_ZERO_BASED)); });
}

// Not of a target: when its allocations fail, ib_core (6.12) loses count of the domain's users.
KTEST(failslab_mlx5, "making a domain and a queue of XRC survives any failed allocation")
{
	using Xrcd = Owned<ibv_xrcd, ibv_close_xrcd>;
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	auto open = [&] {
		ibv_xrcd_init_attr a{};
		a.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
		a.fd = -1;
		a.oflags = O_CREAT;
		return Xrcd(ibv_open_xrcd(c.get(), &a));
	};
	sweep_making(open);
	Xrcd xrcd = open();
	ASSERT_TRUE(xrcd);
	sweep_making([&] {
		ibv_srq_init_attr_ex a{};
		a.attr.max_wr = 16;
		a.attr.max_sge = 1;
		a.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
		a.srq_type = IBV_SRQT_XRC;
		a.xrcd = xrcd.get();
		a.cq = cq.get();
		a.pd = pd.get();
		return Srq(ibv_create_srq_ex(c.get(), &a));
	});
}

KTEST(failslab_mlx5, "making and starting both ends of DC survives any failed allocation")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	Srq srq = create_srq(pd.get());
	QpOptions o;
	o.type = IBV_QPT_DRIVER;
	o.send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
	auto dci = [&] { return Qp(try_dv_qp(pd.get(), cq.get(), cq.get(), o)); };
	sweep_making(dci);
	auto dct = [&] {
		QpOptions t;
		t.type = IBV_QPT_DRIVER;
		t.srq = srq.get();
		t.max_send = t.max_sge = t.max_inline = 0;
		mlx5dv_qp_init_attr d{};
		d.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
		d.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
		d.dc_init_attr.dct_access_key = 7;
		return Qp(try_dv_qp(pd.get(), cq.get(), cq.get(), t, d));
	};
	sweep_making(dct);
	Qp qp = dct();
	ASSERT_TRUE(qp);
	bool again = false;
	sweep(
	    [&] {
		    if (std::exchange(again, false))
			    qp = dct();
		    ibv_qp_attr a{};
		    a.qp_state = IBV_QPS_INIT;
		    a.port_num = 1;
		    const int err = ibv_modify_qp(qp.get(), &a,
						  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
		    // The change may be made, and only the word of it was lost.
		    if (err)
			    again = true;
		    return err;
	    },
	    [&] { qp = dct(); });
}

KTEST(failslab_mlx5, "joining a multicast group survives any failed allocation")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	QpOptions o;
	o.type = IBV_QPT_UD;
	Qp qp = create_qp(pd.get(), cq.get(), cq.get(), o);
	ibv_gid g{};
	g.raw[0] = 0xff;
	g.raw[1] = 0x0e;
	g.raw[15] = 0x77;
	sweep([&] { return ibv_attach_mcast(qp.get(), &g, 0); },
	      [&] { must(ibv_detach_mcast(qp.get(), &g, 0), "detach_mcast"); });
}

KTEST(failslab_mlx5, "registering memory for commands survives any failed allocation")
{
	Context c;
	devx::Buffer buf(1 << 16);
	sweep_making([&] {
		return Owned<mlx5dv_devx_umem, mlx5dv_devx_umem_dereg>(
		    mlx5dv_devx_umem_reg(c.get(), buf.data(), buf.size(), IBV_ACCESS_LOCAL_WRITE));
	});
}

// Commands of a kind, each of whose allocations fails.
template <class T> void sweep_command(const Context &c, const T &like)
{
	const devx::Mailbox request = like.request();
	sweep_making([&] {
		devx::Mailbox m = request;
		return devx::try_create(c, m);
	});
}

KTEST(failslab_mlx5, "commands that make queues survive any failed allocation")
{
	Context c;
	devx::Node n(c);
	devx::Rmp rmp(c, n.pdn);
	devx::Dct dct(c, n.pdn, n.rcq, rmp);

	sweep_making([&] {
		devx::Mailbox m(devx::ALLOC_PD, 16);
		return devx::try_create(c, m);
	});
	sweep_command(c, n.scq);
	sweep_command(c, n.qp);
	sweep_command(c, rmp);
	sweep_command(c, dct);
	// What was there before is what it was.
	n.qp.connect(n.qp.number);
	n.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, n.mem.sge(0, 100), n.mem.addr(5000), n.mem.rkey());
	EXPECT_EQ(n.sent(), 0);
}

KTEST(failslab_mlx5, "event channels and subscriptions survive any failed allocation")
{
	Context c;
	devx::Base b(c);
	devx::Rmp rmp(c, b.pdn);
	mlx5dv_devx_event_channel *ch = nullptr;
	const mlx5dv_devx_create_event_channel_flags data{};
	auto open = [&] {
		errno = 0;
		ch = mlx5dv_devx_create_event_channel(c.get(), data);
		return ch ? 0 : errno;
	};
	auto shut = [&] { mlx5dv_devx_destroy_event_channel(ch); };

	sweep(open, shut);
	must(open(), "create_event_channel");
	uint16_t limit[] = {0x14, 0x12, 0x14};
	sweep([&] { return mlx5dv_devx_subscribe_devx_event(ch, rmp.obj.get(), sizeof(limit), limit, 1); },
	      [&] {
		      shut();
		      must(open(), "create_event_channel");
	      });
	// Events need no memory: none is lost.
	must(mlx5dv_devx_subscribe_devx_event(ch, rmp.obj.get(), sizeof(limit), limit, 1), "subscribe");
	must(fcntl(ch->fd, F_SETFL, O_NONBLOCK), "fcntl");
	bool lost = false;
	for (int n = 1; n < 40; n++) {
		uint8_t event[72];
		devx::Mailbox m = devx::Rmp::limit(rmp.number, 1);
		{
			FailNth nth(n);
			(void)mlx5dv_devx_obj_modify(rmp.obj.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len());
		}
		for (;;) {
			if (read(ch->fd, event, sizeof(event)) > 0)
				continue;
			lost |= errno == EOVERFLOW;
			if (errno == EAGAIN)
				break;
		}
	}
	EXPECT_FALSE(lost);
	shut();
}

} // namespace
