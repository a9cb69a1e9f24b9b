// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Transports other than RC, through the library: UC, UD with multicast, XRC and DC.
#include "counter.hpp"
#include "dc.hpp"

#include <algorithm>
#include <array>
#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>

using namespace rdma;

namespace {

constexpr size_t grh_bytes = 40;

QpOptions of_type(ibv_qp_type type)
{
	QpOptions o;
	o.type = type;
	return o;
}

bool equal(const Memory &to, size_t off, const Memory &from, size_t from_off, size_t len)
{
	return std::memcmp(to.data() + off, from.data() + from_off, len) == 0;
}

// ---- UC ----

KTEST(uc, "SEND and WRITE arrive over an unreliable connection")
{
	Context c;
	Pair p(c, of_type(IBV_QPT_UC));

	p.a.mem->pattern(1);
	ibv_sge sge = p.a.mem->sge(10, 90000);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(7), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(eventually([&] { return equal(*p.b.mem, 7, *p.a.mem, 10, 90000); }));

	post_recv(p.b.qp.get(), {p.b.mem->sge(200000, 500)}, 3);
	sge = p.a.mem->sge(1, 500);
	Wr(IBV_WR_SEND_WITH_IMM, {&sge, 1}).imm(htobe32(77)).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.wr_id, 3u);
	EXPECT_EQ(be32toh(wc.imm_data), 77u);
	EXPECT_TRUE(equal(*p.b.mem, 200000, *p.a.mem, 1, 500));
}

KTEST(uc, "what cannot be received is lost without an error, and what follows arrives")
{
	Context c;
	Pair p(c, of_type(IBV_QPT_UC));

	p.a.mem->pattern(1);
	ibv_sge sge = p.a.mem->sge(0, 64);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get()); // no receive
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), 0xdeadbe00).post(p.a.qp.get()); // no such key
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(p.b.mem->data()[1], 0);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_RTS);
	EXPECT_EQ(state_of(p.b.qp.get()), IBV_QPS_RTS);
	EXPECT_TRUE(empty(p.b.rcq.get()));

	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 64)});
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(expect_wc(p.b.rcq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(*p.b.mem, 0, *p.a.mem, 0, 64));
}

KTEST(uc, "a local error stops the send queue only, and RTS starts it again")
{
	Context c;
	Pair p(c, of_type(IBV_QPT_UC));

	ibv_sge bad{p.a.mem->addr(), 8, 0xdeadbe00}, good = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&bad, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_LOC_PROT_ERR);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_SQE);
	Wr(IBV_WR_RDMA_WRITE, {&good, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_WR_FLUSH_ERR);

	ibv_qp_attr a{};
	a.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(p.a.qp.get(), &a, IBV_QP_STATE), "rts");
	Wr(IBV_WR_RDMA_WRITE, {&good, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
}

// ---- UD ----

struct Datagrams : Pair {
	explicit Datagrams(Context &ctx) : Pair(ctx, of_type(IBV_QPT_UD))
	{
		a.mem->pattern(1);
		b.mem->pattern(2);
	}
	void send(const Ah &to, size_t len, uint32_t qkey, uint32_t qpn = 0)
	{
		ibv_sge sge = a.mem->sge(0, len);
		Wr(IBV_WR_SEND, {&sge, 1}).to(to.get(), qpn ? qpn : b.qp->qp_num, qkey).post(a.qp.get());
		EXPECT_EQ(expect_wc(a.scq.get()).status, IBV_WC_SUCCESS);
	}
};

uint16_t ones_sum(const uint8_t *p, size_t n)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < n; i += 2)
		sum += static_cast<uint32_t>(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return static_cast<uint16_t>(sum);
}

KTEST(ud, "between IPv4 addresses a datagram arrives behind an IPv4 header, in the last 20 of 40 bytes")
{
	Context c;
	Datagrams p(c);
	const ibv_gid self = c.gid();
	ASSERT_TRUE(IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr *>(self.raw)));
	Ah ah = create_ah(c, p.a.pd.get(), self);

	post_recv(p.b.qp.get(), {p.b.mem->sge(0, grh_bytes + 100)}, 5);
	p.send(ah, 100, p.o.qkey);
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, grh_bytes + 100);
	EXPECT_EQ(wc.src_qp, p.a.qp->qp_num);
	EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
	EXPECT_TRUE(equal(*p.b.mem, grh_bytes, *p.a.mem, 0, 100));
	const uint8_t *ip = p.b.mem->data() + 20;
	EXPECT_EQ(ip[0], 0x45);
	EXPECT_EQ(ip[9], IPPROTO_UDP);
	EXPECT_EQ(std::memcmp(ip + 12, self.raw + 12, 4), 0) << "source";
	EXPECT_EQ(std::memcmp(ip + 16, self.raw + 12, 4), 0) << "destination";
	EXPECT_EQ(ones_sum(ip, 20), 0xffff) << "checksum";
}

KTEST(ud, "between IPv6 addresses a datagram arrives behind an IPv6 header")
{
	Context c;
	Datagrams p(c);
	ibv_gid gid{};
	int index = -1;
	for (int i = 0; i < c.port().gid_tbl_len && index < 0; i++) {
		ibv_gid_entry e;
		if (!ibv_query_gid_ex(c.get(), 1, i, &e, 0) && e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr *>(e.gid.raw))) {
			index = i;
			gid = e.gid;
		}
	}
	ASSERT_GE(index, 0) << "the device has no IPv6 address";
	ibv_ah_attr a = address(c, gid);
	a.grh.sgid_index = static_cast<uint8_t>(index);
	Ah ah = own<Ah>(ibv_create_ah(p.a.pd.get(), &a), "create_ah");

	post_recv(p.b.qp.get(), {p.b.mem->sge(0, grh_bytes + 100)});
	p.send(ah, 100, p.o.qkey);
	EXPECT_EQ(expect_wc(p.b.rcq.get()).byte_len, grh_bytes + 100);
	EXPECT_TRUE(equal(*p.b.mem, grh_bytes, *p.a.mem, 0, 100));
	const uint8_t *ip = p.b.mem->data();
	EXPECT_EQ(ip[0] >> 4, 6);
	EXPECT_EQ(std::memcmp(ip + 8, gid.raw, 16), 0) << "source";
	EXPECT_EQ(std::memcmp(ip + 24, gid.raw, 16), 0) << "destination";
}

KTEST(ud, "the receiver answers to the address that it finds in the completion and the header")
{
	Context c;
	Datagrams p(c);
	Ah ah = create_ah(c, p.a.pd.get(), c.gid());

	post_recv(p.b.qp.get(), {p.b.mem->sge(0, grh_bytes + 10)});
	post_recv(p.a.qp.get(), {p.a.mem->sge(5000, grh_bytes + 10)});
	p.send(ah, 10, p.o.qkey);
	ibv_wc wc = expect_wc(p.b.rcq.get());
	auto *grh = reinterpret_cast<ibv_grh *>(p.b.mem->data());
	ibv_ah_attr attr{};
	must(ibv_init_ah_from_wc(c.get(), 1, &wc, grh, &attr), "init_ah_from_wc");
	EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, c.gid().raw, 16), 0);
	EXPECT_EQ(attr.grh.sgid_index, c.gid_index());

	Ah back = own<Ah>(ibv_create_ah_from_wc(p.b.pd.get(), &wc, grh, 1), "create_ah_from_wc");
	ibv_sge sge = p.b.mem->sge(9000, 10);
	Wr(IBV_WR_SEND, {&sge, 1}).to(back.get(), wc.src_qp, p.o.qkey).post(p.b.qp.get());
	EXPECT_EQ(expect_wc(p.b.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(expect_wc(p.a.rcq.get()).src_qp, p.b.qp->qp_num);
	EXPECT_TRUE(equal(*p.a.mem, 5000 + grh_bytes, *p.b.mem, 9000, 10));
}

KTEST(ud, "a datagram with another Q_Key, to no QP or without a receive is lost, and the next one arrives")
{
	Context c;
	Datagrams p(c);
	Ah ah = create_ah(c, p.a.pd.get(), c.gid());

	p.send(ah, 10, p.o.qkey); // no receive
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 200)});
	p.send(ah, 10, p.o.qkey + 1);
	p.send(ah, 10, p.o.qkey, 0xabcdef);
	EXPECT_TRUE(empty(p.b.rcq.get()));
	p.send(ah, 33, p.o.qkey);
	EXPECT_EQ(expect_wc(p.b.rcq.get()).byte_len, grh_bytes + 33);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_RTS);
}

KTEST(ud, "a datagram to QP 1, which is the kernel's, is lost whatever its Q_Key")
{
	constexpr uint32_t qp1 = 1, qp1_key = 0x80010000;
	Context c;
	Datagrams p(c);
	Ah ah = create_ah(c, p.a.pd.get(), c.gid());

	p.send(ah, 256, p.o.qkey, qp1);
	p.send(ah, 256, qp1_key, qp1);
	// also as the QP's own, which a privileged process can give it
	ibv_qp_attr attr{};
	attr.qkey = qp1_key;
	if (ibv_modify_qp(p.a.qp.get(), &attr, IBV_QP_QKEY) == 0)
		p.send(ah, 256, qp1_key, qp1);
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 200)});
	p.send(ah, 33, p.o.qkey);
	EXPECT_EQ(expect_wc(p.b.rcq.get()).byte_len, grh_bytes + 33);
}

ibv_gid group(uint8_t number)
{
	ibv_gid g{};
	g.raw[0] = 0xff;
	g.raw[1] = 0x0e;
	g.raw[15] = number;
	return g;
}

KTEST(ud, "a datagram to a group reaches every member, its sender too, until they leave")
{
	Context c;
	Datagrams p(c);
	ibv_gid g = group(9), other = group(8);
	Ah ah = create_ah(c, p.a.pd.get(), g);

	must(ibv_attach_mcast(p.a.qp.get(), &g, 0), "attach");
	must(ibv_attach_mcast(p.b.qp.get(), &g, 0), "attach");
	must(ibv_attach_mcast(p.b.qp.get(), &other, 0), "attach");
	post_recv(p.a.qp.get(), {p.a.mem->sge(10000, 200)});
	for (size_t i = 0; i < 3; i++)
		post_recv(p.b.qp.get(), {p.b.mem->sge(i * 1000, 200)});
	p.send(ah, 60, p.o.qkey, 0xffffff);
	EXPECT_EQ(expect_wc(p.b.rcq.get()).byte_len, grh_bytes + 60);
	EXPECT_EQ(expect_wc(p.a.rcq.get()).byte_len, grh_bytes + 60);
	EXPECT_TRUE(equal(*p.b.mem, grh_bytes, *p.a.mem, 0, 60));
	EXPECT_TRUE(equal(*p.a.mem, 10000 + grh_bytes, *p.a.mem, 0, 60));
	EXPECT_TRUE(empty(p.b.rcq.get())) << "once, not once per group";

	must(ibv_detach_mcast(p.b.qp.get(), &g, 0), "detach");
	post_recv(p.a.qp.get(), {p.a.mem->sge(10000, 200)});
	p.send(ah, 61, p.o.qkey, 0xffffff);
	EXPECT_EQ(expect_wc(p.a.rcq.get()).byte_len, grh_bytes + 61);
	EXPECT_TRUE(empty(p.b.rcq.get()));
	EXPECT_EQ(ibv_detach_mcast(p.b.qp.get(), &g, 0), EINVAL) << "it has left";
	must(ibv_detach_mcast(p.a.qp.get(), &g, 0), "detach");
	must(ibv_detach_mcast(p.b.qp.get(), &other, 0), "detach");
}

KTEST(ud, "who joins a group by several LIDs hears each datagram once, until he has left by each of them")
{
	Context c;
	Datagrams p(c);
	ibv_gid g = group(11);
	Ah ah = create_ah(c, p.a.pd.get(), g);
	// The library tells memberships apart by their LIDs, though on Ethernet there are none.
	const std::array<uint16_t, 3> lids{0, 1, 0xffff};

	for (uint16_t lid : lids)
		must(ibv_attach_mcast(p.b.qp.get(), &g, lid), "attach");
	for (uint16_t lid : lids) {
		post_recv(p.b.qp.get(), {p.b.mem->sge(0, 200)});
		p.send(ah, 60, p.o.qkey, 0xffffff);
		EXPECT_EQ(expect_wc(p.b.rcq.get()).byte_len, grh_bytes + 60) << lid;
		EXPECT_TRUE(empty(p.b.rcq.get())) << lid;
		EXPECT_EQ(ibv_detach_mcast(p.b.qp.get(), &g, lid), 0) << lid;
		EXPECT_EQ(ibv_detach_mcast(p.b.qp.get(), &g, lid), EINVAL) << lid;
	}
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 200)});
	p.send(ah, 60, p.o.qkey, 0xffffff);
	EXPECT_TRUE(empty(p.b.rcq.get())) << "it has left";
	EXPECT_EQ(ibv_destroy_qp(p.b.qp.release()), 0);
}

KTEST(ud, "a QP made without loopback does not hear itself in a group, and others do")
{
	Context c;
	End a(c, of_type(IBV_QPT_UD)), b(c, of_type(IBV_QPT_UD));
	ibv_qp_init_attr_ex init{};
	init.send_cq = a.scq.get();
	init.recv_cq = a.rcq.get();
	init.cap = {16, 16, 1, 1, 0};
	init.qp_type = IBV_QPT_UD;
	init.pd = a.pd.get();
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	a.qp = own<Qp>(ibv_create_qp_ex(c.get(), &init), "create_qp_ex");
	ibv_gid g = group(10);
	for (ibv_qp *qp : {a.qp.get(), b.qp.get()}) {
		const QpOptions o = of_type(IBV_QPT_UD);
		must(to_init(qp, o), "init");
		must(to_rtr(qp, c, c.gid(), 0, o), "rtr");
		must(to_rts(qp, o), "rts");
		must(ibv_attach_mcast(qp, &g, 0), "attach");
	}
	post_recv(a.qp.get(), {a.mem->sge(1000, 200)});
	post_recv(b.qp.get(), {b.mem->sge(1000, 200)});
	Ah ah = create_ah(c, a.pd.get(), g);
	ibv_sge sge = a.mem->sge(0, 8);
	Wr(IBV_WR_SEND, {&sge, 1}).to(ah.get(), 0xffffff, QpOptions{}.qkey).post(a.qp.get());
	EXPECT_EQ(expect_wc(a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(expect_wc(b.rcq.get()).byte_len, grh_bytes + 8);
	EXPECT_TRUE(empty(a.rcq.get()));
	for (ibv_qp *qp : {a.qp.get(), b.qp.get()})
		must(ibv_detach_mcast(qp, &g, 0), "detach");
}

// ---- XRC ----

using Xrcd = std::unique_ptr<ibv_xrcd, Deleter<ibv_close_xrcd>>;

struct XrcSrq {
	Cq cq;
	Memory mem;
	Srq srq;
	uint32_t number = 0;

	XrcSrq(Context &c, ibv_pd *pd, ibv_xrcd *xrcd) : cq(create_cq(c)), mem(pd, 1 << 17)
	{
		ibv_srq_init_attr_ex a{};
		a.attr.max_wr = 16;
		a.attr.max_sge = 1;
		a.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
		a.srq_type = IBV_SRQT_XRC;
		a.xrcd = xrcd;
		a.cq = cq.get();
		a.pd = pd;
		srq = own<Srq>(ibv_create_srq_ex(c.get(), &a), "create_srq_ex");
		must(ibv_get_srq_num(srq.get(), &number), "get_srq_num");
	}
};

struct Xrc {
	Context &c;
	End a;
	Pd pd;
	Xrcd xrcd;
	XrcSrq first, second;
	Qp target;

	explicit Xrc(Context &ctx, const Counter *sends = nullptr)
	    : c(ctx), a(ctx, of_type(IBV_QPT_XRC_SEND)), pd(alloc_pd(ctx)), xrcd(open(ctx)), first(ctx, pd.get(), xrcd.get()),
	      second(ctx, pd.get(), xrcd.get())
	{
		ibv_qp_init_attr_ex t{};
		t.qp_type = IBV_QPT_XRC_RECV;
		t.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		t.xrcd = xrcd.get();
		target = own<Qp>(ibv_create_qp_ex(c.get(), &t), "create_qp_ex");
		if (sends)
			must(sends->attach(a.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND), "attach");
		QpOptions from = of_type(IBV_QPT_XRC_SEND), to = of_type(IBV_QPT_XRC_RECV);
		must(to_init(a.qp.get(), from), "init");
		must(to_init(target.get(), to), "init target");
		must(to_rtr(target.get(), c, c.gid(), a.qp->qp_num, to), "rtr target");
		must(to_rtr(a.qp.get(), c, c.gid(), target->qp_num, from), "rtr");
		must(to_rts(a.qp.get(), from), "rts");
		a.mem->pattern(1);
	}
	static Xrcd open(Context &c)
	{
		ibv_xrcd_init_attr a{};
		a.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
		a.fd = -1;
		a.oflags = O_CREAT;
		return own<Xrcd>(ibv_open_xrcd(c.get(), &a), "open_xrcd");
	}
	ibv_wc_status send(uint32_t srqn, size_t off, size_t len)
	{
		ibv_sge sge = a.mem->sge(off, len);
		Wr(IBV_WR_SEND, {&sge, 1}).to_srq(srqn).post(a.qp.get());
		return expect_wc(a.scq.get()).status;
	}
};

KTEST(xrc, "one connection reaches each of two shared queues, which complete on their own queues")
{
	Context c;
	Xrc x(c);

	for (XrcSrq *s : {&x.second, &x.first, &x.second}) {
		s->mem.fill(0);
		post_srq_recv(s->srq.get(), {s->mem.sge(11, 70000)}, s->number);
		EXPECT_EQ(x.send(s->number, 5, 70000), IBV_WC_SUCCESS);
		ibv_wc wc = expect_wc(s->cq.get());
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.wr_id, s->number);
		EXPECT_EQ(wc.byte_len, 70000u);
		EXPECT_EQ(wc.qp_num, x.target->qp_num);
		EXPECT_TRUE(equal(s->mem, 11, *x.a.mem, 5, 70000));
		EXPECT_TRUE(empty((s == &x.first ? x.second : x.first).cq.get()));
	}
}

KTEST(xrc, "WRITE, READ and atomics reach the memory of the shared queue's domain")
{
	Context c;
	Xrc x(c);
	Memory &m = x.first.mem;

	ibv_sge sge = x.a.mem->sge(0, 500);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(m.addr(8), m.rkey()).to_srq(x.first.number).post(x.a.qp.get());
	EXPECT_EQ(expect_wc(x.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(m, 8, *x.a.mem, 0, 500));
	sge = x.a.mem->sge(5000, 500);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(m.addr(8), m.rkey()).to_srq(x.first.number).post(x.a.qp.get());
	EXPECT_EQ(expect_wc(x.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(*x.a.mem, 5000, *x.a.mem, 0, 500));
	sge = x.a.mem->sge(6000, 8);
	m.fill(0);
	Wr(IBV_WR_ATOMIC_FETCH_AND_ADD, {&sge, 1}).atomic(m.addr(), m.rkey(), 3).to_srq(x.first.number).post(x.a.qp.get());
	EXPECT_EQ(expect_wc(x.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(m.data()[0], 3);
}

KTEST(xrc, "a shared queue that does not exist is a remote error")
{
	Context c;
	Xrc x(c);
	EXPECT_EQ(x.send(0xfffff0, 0, 8), IBV_WC_REM_INV_REQ_ERR);
	EXPECT_EQ(state_of(x.a.qp.get()), IBV_QPS_ERR);
}

KTEST(xrc, "requests count at the initiator, those that fail as errors")
{
	Context c;
	Counter sent(c);
	Xrc x(c, &sent);

	for (int i = 0; i < 3; i++) {
		post_srq_recv(x.first.srq.get(), {x.first.mem.sge(0, 100)});
		EXPECT_EQ(x.send(x.first.number, 0, 100), IBV_WC_SUCCESS);
	}
	EXPECT_TRUE(sent.becomes(3));
	EXPECT_EQ(x.send(0xfffff0, 0, 8), IBV_WC_REM_INV_REQ_ERR);
	EXPECT_TRUE(sent.becomes(3, 1));
	x.a.qp.reset();
}

// ---- DC ----

KTEST(dc, "WRITE, SEND, READ and atomics of an initiator reach a target")
{
	Context c;
	Dct t(c);
	t.start(c);
	Dci i(c);
	const uint32_t dctn = t.qp->qp_num;

	EXPECT_EQ(i.write(t, 5, 90000), IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(t.mem, 5, i.mem, 5, 90000));

	post_srq_recv(t.srq.get(), {t.mem.sge(100000, 3000)}, 8);
	EXPECT_EQ(i.to(dctn, dc_key, i.mem.sge(1, 3000), [&](ibv_qp_ex *e) { ibv_wr_send_imm(e, htobe32(4)); }),
		  IBV_WC_SUCCESS);
	ibv_wc wc = expect_wc(t.cq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.wr_id, 8u);
	EXPECT_EQ(wc.qp_num, dctn);
	EXPECT_EQ(wc.byte_len, 3000u);
	EXPECT_TRUE(equal(t.mem, 100000, i.mem, 1, 3000));

	t.mem.pattern(7);
	EXPECT_EQ(i.to(dctn, dc_key, i.mem.sge(0, 5000),
		       [&](ibv_qp_ex *e) { ibv_wr_rdma_read(e, t.mem.rkey(), t.mem.addr(9)); }),
		  IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(i.mem, 0, t.mem, 9, 5000));

	t.mem.fill(0);
	for (int n = 0; n < 2; n++)
		EXPECT_EQ(i.to(dctn, dc_key, i.mem.sge(0, 8), [&](ibv_qp_ex *e) {
			ibv_wr_atomic_fetch_add(e, t.mem.rkey(), t.mem.addr(), 21);
		}), IBV_WC_SUCCESS);
	EXPECT_EQ(i.mem.data()[0], 21);
	EXPECT_EQ(t.mem.data()[0], 42);
}

KTEST(dc, "requests count at the initiator, and what they do at the target")
{
	Context c;
	Counter sent(c), written(c), received(c);
	{
		Dct t(c);
		must(received.attach(t.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_RECV), "attach");
		must(written.attach(t.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE), "attach");
		t.start(c);
		Dci i(c), other(c);
		must(to_reset(i.qp.get()), "reset");
		must(sent.attach(i.qp.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE), "attach");
		const QpOptions o = dv_options(0, every_send_op, IBV_QPT_DRIVER);
		must(to_init(i.qp.get(), o), "init");
		must(to_rtr(i.qp.get(), c, c.gid(), 0, o), "rtr");
		must(to_rts(i.qp.get(), o), "rts");

		for (size_t k = 0; k < 3; k++)
			EXPECT_EQ(i.write(t, k, 5000), IBV_WC_SUCCESS);
		EXPECT_EQ(other.write(t, 0, 8), IBV_WC_SUCCESS);
		post_srq_recv(t.srq.get(), {t.mem.sge(0, 100)});
		EXPECT_EQ(i.to(t.qp->qp_num, dc_key, i.mem.sge(0, 100), [](ibv_qp_ex *e) { ibv_wr_send(e); }),
			  IBV_WC_SUCCESS);
		EXPECT_TRUE(sent.becomes(4));
		EXPECT_TRUE(written.becomes(4));
		EXPECT_TRUE(received.becomes(1));
		EXPECT_EQ(i.write(t, 0, 8, -1, 0x100), IBV_WC_REM_ACCESS_ERR);
		EXPECT_TRUE(sent.becomes(4, 1));
		EXPECT_TRUE(written.becomes(4, 1));
	}
}

KTEST(dc, "a wrong access key, or no such target, is a remote error, and nothing is written")
{
	Context c;
	Dct t(c);
	t.start(c);
	auto write = [&](Dci &i, uint32_t dctn, uint64_t key) {
		return i.to(dctn, key, i.mem.sge(1, 8), [&](ibv_qp_ex *e) { ibv_wr_rdma_write(e, t.mem.rkey(), t.mem.addr()); });
	};
	{
		Dci i(c);
		EXPECT_EQ(write(i, t.qp->qp_num, dc_key + 1), IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(state_of(i.qp.get()), IBV_QPS_ERR);
	}
	{
		Dci i(c);
		EXPECT_EQ(write(i, 0xfffff0, dc_key), IBV_WC_REM_INV_REQ_ERR);
		EXPECT_EQ(state_of(i.qp.get()), IBV_QPS_ERR);
	}
	EXPECT_EQ(t.mem.data()[0], 0);
	EXPECT_EQ(t.mem.data()[7], 0);
}

KTEST(dc, "a target serves others after it has refused one")
{
	Context c;
	Dct t(c);
	t.start(c);
	Dci bad(c), good(c);
	EXPECT_EQ(bad.write(t, 0, 8, -1, 0x100 << 12), IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(good.write(t, 16, 1000), IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(t.mem, 16, good.mem, 16, 1000));
}

KTEST(dc, "an error stops one stream only, until that is reset")
{
	Context c;
	Dct t(c);
	t.start(c);
	Dci i(c, 0, true);
	EXPECT_EQ(i.write(t, 0, 8, 1), IBV_WC_SUCCESS);
	EXPECT_EQ(i.write(t, 0, 8, 2, 0x100 << 12), IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(i.write(t, 0, 8, 2), IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(state_of(i.qp.get()), IBV_QPS_RTS);
	EXPECT_EQ(i.write(t, 100, 8, 1), IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(t.mem, 100, i.mem, 100, 8));
	EXPECT_NE(mlx5dv_dci_stream_id_reset(i.qp.get(), 1), 0) << "it has not failed";
	must(mlx5dv_dci_stream_id_reset(i.qp.get(), 2), "dci_stream_id_reset");
	EXPECT_EQ(i.write(t, 200, 8, 2), IBV_WC_SUCCESS);
	EXPECT_TRUE(equal(t.mem, 200, i.mem, 200, 8));
}

KTEST(dc, "an initiator copies within the host, and takes requests written by hand")
{
	Context c;
	Dct t(c);
	t.start(c);
	Dci i(c);
	Memory to(i.pd.get(), 8192);

	must(post(i.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_memcpy(d, to.lkey(), to.addr(3), i.mem.lkey(), i.mem.addr(1), 5000);
	}), "memcpy");
	ibv_wc wc = expect_wc(i.cq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(static_cast<unsigned>(wc.opcode), static_cast<unsigned>(MLX5DV_WC_MEMCPY));
	EXPECT_TRUE(equal(to, 3, i.mem, 1, 5000));

	mlx5_wqe_ctrl_seg nop{};
	nop.opmod_idx_opcode = htobe32(MLX5_OPCODE_NOP);
	nop.qpn_ds = htobe32(i.qp->qp_num << 8 | 1);
	nop.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	must(post(i.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) { mlx5dv_wr_raw_wqe(d, &nop); }), "raw");
	wc = expect_wc(i.cq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_DRIVER2);

	// A WRITE that names no target.
	struct {
		mlx5_wqe_ctrl_seg ctrl;
		mlx5_wqe_data_seg data;
	} bad{};
	bad.ctrl.opmod_idx_opcode = htobe32(MLX5_OPCODE_RDMA_WRITE);
	bad.ctrl.qpn_ds = htobe32(i.qp->qp_num << 8 | 2);
	bad.ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	must(post(i.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) { mlx5dv_wr_raw_wqe(d, &bad); }), "raw");
	EXPECT_EQ(expect_wc(i.cq.get()).status, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_EQ(state_of(i.qp.get()), IBV_QPS_ERR);
}

} // namespace
