// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters of key registrations, and of QPs other than RC.
#include "counter.hpp"
#include "dc.hpp"

#include <rdma/tally-abi.h>

using namespace rdma;

namespace {

KTEST(count_more, "the device says that it counts every class there is")
{
	Context c;
	ibv_comp_cntr_caps caps{};
	must(ibv_query_comp_cntr_caps(c.get(), &caps), "query");
	EXPECT_EQ(caps.supported_qp_attach_ops, 0x3fu | TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC |
						    TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC |
						    TALLY_QP_ATTACH_COMP_CNTR_OP_MEMCPY | TALLY_QP_ATTACH_COMP_CNTR_OP_UMR);
}

KTEST(count_more, "a registration counts when it succeeds, fails or is flushed, and an invalidation does not")
{
	Context c;
	Counter k(c);
	Pair p(c, dv_options(), false);
	Mkey key(p.a.pd.get(), 4);
	ibv_qp *qp = p.a.qp.get();

	p.init();
	must(k.attach(qp, TALLY_QP_ATTACH_COMP_CNTR_OP_UMR), "attach");
	p.ready();
	must(post_list(qp, key, {p.a.mem->sge(0, 8)}, all_access, IBV_SEND_INLINE), "mr_list");
	must(post_pattern(qp, key, 2, {{p.a.mem->addr(), 8, 8, p.a.mem->lkey()}}), "mr_interleaved");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(k.becomes(2));
	must(post_local_inv(qp, key.rkey()), "local_inv");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(k.becomes(2));
	must(post_list(qp, key, {p.a.mem->sge(0, 8), p.a.mem->sge(8, 0)}), "mr_list");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_MW_BIND_ERR) << "a piece of no bytes";
	must(post_list(qp, key, {p.a.mem->sge(0, 8)}), "mr_list");
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(k.becomes(2, 2));
	p.a.qp.reset();
}

KTEST(count_more, "an unreliable connection counts at both ends, and what is lost only at its sender")
{
	Context c;
	QpOptions o;
	o.type = IBV_QPT_UC;
	Counter sent(c), writes(c, IBV_COMP_CNTR_TYPE_BYTES), received(c), written(c, IBV_COMP_CNTR_TYPE_BYTES);
	Pair p(c, o, false);

	p.init();
	must(sent.attach(p.a.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND), "attach");
	must(writes.attach(p.a.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE), "attach");
	must(received.attach(p.b.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_RECV), "attach");
	must(written.attach(p.b.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE), "attach");
	p.ready();
	ibv_sge sge = p.a.mem->sge(0, 100);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(sent.becomes(1) && received.becomes(0));
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 100)});
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_TRUE(sent.becomes(2) && received.becomes(1) && writes.becomes(100) && written.becomes(100));
	p.a.qp.reset();
	p.b.qp.reset();
}

KTEST(count_more, "datagrams count at both ends")
{
	Context c;
	QpOptions o;
	o.type = IBV_QPT_UD;
	Counter sent(c), received(c);
	Pair p(c, o, false);

	p.init();
	must(sent.attach(p.a.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND), "attach");
	must(received.attach(p.b.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_RECV), "attach");
	p.ready();
	ibv_ah_attr to = address(c, c.gid());
	Ah ah = own<Ah>(ibv_create_ah(p.a.pd.get(), &to), "create_ah");
	ibv_sge sge = p.a.mem->sge(0, 100);
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 200)});
	for (uint32_t wrong : {1u, 0u})
		Wr(IBV_WR_SEND, {&sge, 1}).to(ah.get(), p.b.qp->qp_num, o.qkey + wrong).post(p.a.qp.get());
	EXPECT_TRUE(sent.becomes(2) && received.becomes(1));
	p.a.qp.reset();
	p.b.qp.reset();
}

KTEST(count_more, "initiators of XRC and DC take a counter, and so does a DC target")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	Counter k(c);

	for (ibv_qp_type type : {IBV_QPT_XRC_SEND, IBV_QPT_DRIVER}) {
		Qp qp = create_qp(pd.get(), cq.get(), cq.get(), dv_options(0, every_send_op, type));
		EXPECT_EQ(k.attach(qp.get(), uint32_t{IBV_QP_ATTACH_COMP_CNTR_OP_SEND} | TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC), 0)
		    << "type " << type;
		EXPECT_EQ(k.attach(qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND), EBUSY);
	}
	Dct target(c);
	EXPECT_EQ(k.attach(target.qp.get(), uint32_t{IBV_QP_ATTACH_COMP_CNTR_OP_RECV} |
					      TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC), 0);
}

} // namespace
