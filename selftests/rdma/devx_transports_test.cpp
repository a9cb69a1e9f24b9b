// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Pools of receives, DC, UC and UD by commands: data through them, and what their commands refuse.
#include "devx_queues.hpp"
#include "ktap.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace rdma;
using devx::Address;
using devx::Base;
using devx::Initiator;
using devx::Mailbox;
using devx::Node;
using devx::Rmp;

namespace {

struct Target : Base {
	Rmp rmp;
	devx::Dct dct;

	explicit Target(const Context &c, devx::Form form = devx::Form::cyclic)
	    : Base(c), rmp(c, pdn, {form}), dct(c, pdn, rcq, rmp)
	{
	}
};

uint8_t write(Initiator &i, const Target &t, size_t at, size_t len, uint64_t key = devx::Dct::key)
{
	return i.write(t.dct.number, t.mem, at, len, key);
}

// ---- pools of receives ----

KTEST(devx_rmp, "QPs receive from a pool, whether its entries are linked, cyclic or bare, through many rounds")
{
	Context c;
	for (devx::Form form : {devx::Form::linked, devx::Form::cyclic, devx::Form::bare}) {
		Base b(c);
		Rmp rmp(c, b.pdn, {form});
		devx::QpShape s;
		s.rmpn = rmp.number;
		devx::Qp q1(c, b.pdn, b.scq, b.rcq, s), q2(c, b.pdn, b.scq, b.rcq, s);
		Node a1(c), a2(c);

		a1.qp.connect(q1.number);
		q1.connect(a1.qp.number);
		a2.qp.connect(q2.number);
		q2.connect(a2.qp.number);
		a1.mem.pattern(1);
		a2.mem.pattern(2);
		for (unsigned i = 0; i < 100; i++) {
			Node &a = i % 3 ? a1 : a2;
			rmp.post(b.mem.sge(i * 8, 1000));
			a.qp.write_wqe(MLX5_OPCODE_SEND, a.mem.sge(i, 500));
			ASSERT_EQ(a.sent(), 0) << i;
			auto *cqe = b.rcq.next();
			ASSERT_NE(cqe, nullptr);
			EXPECT_EQ(be16toh(cqe->wqe_counter), form == devx::Form::linked ? i % 16 : i);
			EXPECT_EQ(be32toh(cqe->sop_drop_qpn) & 0xffffff, i % 3 ? q1.number : q2.number);
			EXPECT_EQ(be32toh(cqe->byte_cnt), 500u);
			b.rcq.consumed();
			ASSERT_EQ(std::memcmp(b.mem.data() + i * 8, a.mem.data() + i, 500), 0);
		}
		Mailbox seen = rmp.looked_at();
		const void *o = seen.out.data();
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.state), 1u);
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.basic_cyclic_rcv_wqe), form == devx::Form::bare);
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.wq.wq_type), form != devx::Form::linked);
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.wq.pd), b.pdn);
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.wq.log_wq_sz), 4u);
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.wq.log_wq_stride), 6u);
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.wq.hw_counter), 100u);
		EXPECT_EQ(DEVX_GET(rmp_mailbox, o, rmpc.wq.sw_counter), 100u);
		// And goes when nothing receives from it any more.
		EXPECT_EQ(devx::destroy(rmp.obj), EBUSY);
		EXPECT_EQ(rmp.umem.dereg(), EBUSY);
	}
}

KTEST(devx_rmp, "an empty pool makes the sender wait")
{
	Context c;
	Base b(c);
	Rmp rmp(c, b.pdn);
	devx::QpShape s;
	s.rmpn = rmp.number;
	devx::Qp q(c, b.pdn, b.scq, b.rcq, s);
	Node a(c);

	a.qp.connect(q.number);
	q.connect(a.qp.number);
	a.qp.write_wqe(MLX5_OPCODE_SEND, a.mem.sge(0, 8));
	a.qp.ring();
	EXPECT_EQ(a.scq.next(50ms), nullptr);
	rmp.post(b.mem.sge(0, 8));
	EXPECT_NE(a.scq.next(), nullptr);
	EXPECT_NE(b.rcq.next(), nullptr);
}

KTEST(devx_rmp, "a limit is armed by a command, on a queue of the verbs', too, and disarmed when it is passed")
{
	Context c;
	Pd pd = alloc_pd(c);
	Rmp rmp(c, devx::pdn_of(pd.get()));
	auto limit = [&] {
		Mailbox m = rmp.looked_at();
		return DEVX_GET(rmp_mailbox, m.out.data(), rmpc.wq.lwm);
	};
	for (int i = 0; i < 4; i++)
		rmp.post({0x1000, 8, 1});
	Mailbox three = Rmp::limit(rmp.number, 3);
	EXPECT_EQ(devx::modify(rmp.obj, three), devx::OK);
	EXPECT_EQ(limit(), 3u);
	Mailbox five = Rmp::limit(rmp.number, 5);
	EXPECT_EQ(devx::modify(rmp.obj, five), devx::OK);
	EXPECT_EQ(limit(), 0u);
	Mailbox beyond = Rmp::limit(rmp.number, 17);
	EXPECT_EQ(devx::modify(rmp.obj, beyond), devx::BAD_PARAM);
	Mailbox error = Rmp::limit(rmp.number, 1);
	DEVX_SET(rmp_mailbox, error.in.data(), rmp_state, 3);
	EXPECT_EQ(devx::modify(rmp.obj, error), devx::BAD_PARAM);

	Srq srq = create_srq(pd.get());
	uint32_t srqn = 0;
	must(ibv_get_srq_num(srq.get(), &srqn), "get_srq_num");
	for (int i = 0; i < 4; i++) {
		ibv_recv_wr wr{}, *bad = nullptr;
		must(ibv_post_srq_recv(srq.get(), &wr, &bad), "post_srq_recv");
	}
	Mailbox two = Rmp::limit(srqn, 2);
	must(mlx5dv_devx_srq_modify(srq.get(), two.in.data(), two.in_len(), two.out.data(), two.out_len()), "MODIFY_RMP");
	ibv_srq_attr attr{};
	must(ibv_query_srq(srq.get(), &attr), "query_srq");
	EXPECT_EQ(attr.srq_limit, 2u);
	Mailbox seen(devx::QUERY_RMP, 16, DEVX_ST_SZ_BYTES(rmp_mailbox));
	seen.names(srqn);
	must(mlx5dv_devx_srq_query(srq.get(), seen.in.data(), seen.in_len(), seen.out.data(), seen.out_len()), "QUERY_RMP");
	EXPECT_EQ(DEVX_GET(rmp_mailbox, seen.out.data(), rmpc.wq.lwm), 2u);
	EXPECT_EQ(DEVX_GET(rmp_mailbox, seen.out.data(), rmpc.wq.sw_counter), 4u);
	seen.names(srqn + 1);
	EXPECT_EQ(mlx5dv_devx_srq_query(srq.get(), seen.in.data(), seen.in_len(), seen.out.data(), seen.out_len()), EINVAL);
}

KTEST(devx_rmp, "a pool that makes no sense is refused, and says why")
{
	Context c, other;
	Pd pd = alloc_pd(c), foreign = alloc_pd(other), more = alloc_pd(other);
	Rmp rmp(c, devx::pdn_of(pd.get()));
	auto refused = [&](auto &&wrong) {
		Mailbox m = rmp.request();
		wrong(m.in.data());
		return devx::refused(c, m);
	};

	EXPECT_EQ(refused([](void *) {}), devx::OK);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, op_mod, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.state, 0); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.state, 3); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.basic_cyclic_rcv_wqe, 1); }), devx::BAD_PARAM);
	for (unsigned striding : {2u, 3u, 4u, 15u})
		EXPECT_EQ(refused([&](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.wq_type, striding); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.wq_signature, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.lwm, 17); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.log_wq_stride, 4); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.log_wq_stride, 10); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.log_wq_sz, 16); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.log_wq_sz, 31); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.log_wq_sz, 8); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.pd, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([&](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.pd, devx::pdn_of(more.get())); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.wq_umem_id, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(rmp_mailbox, m, rmpc.wq.dbr_umem_id, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(rmp_mailbox, m, rmpc.wq.wq_umem_offset, 8); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(rmp_mailbox, m, rmpc.wq.wq_umem_offset, 4096); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(rmp_mailbox, m, rmpc.wq.wq_umem_offset, UINT64_MAX - 15); }),
		  devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(rmp_mailbox, m, rmpc.wq.dbr_addr, 2); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET64(rmp_mailbox, m, rmpc.wq.dbr_addr, UINT64_MAX - 3); }), devx::BAD_PARAM);
	Mailbox brief = rmp.request();
	brief.in.resize(brief.in.size() - 1);
	EXPECT_EQ(devx::refused(c, brief), devx::BAD_INP_LEN);
	// Nothing was left behind.
	EXPECT_EQ(devx::destroy(rmp.obj), 0);
	EXPECT_EQ(rmp.umem.dereg(), 0);
}

// ---- DC ----

KTEST(devx_dc, "WRITE, SEND and READ of an initiator reach a target, both made by commands")
{
	Context c;
	for (devx::Form form : {devx::Form::linked, devx::Form::cyclic, devx::Form::bare}) {
		Target t(c, form);
		Initiator i(c);

		// Requests of two slots, so that some wrap in the ring of 64.
		for (unsigned k = 0; k < 100; k++) {
			ASSERT_EQ(write(i, t, k, 3000), 0) << k;
			ASSERT_EQ(std::memcmp(t.mem.data() + k, i.mem.data() + k, 3000), 0);
		}
		for (unsigned k = 0; k < 40; k++) {
			t.rmp.post(t.mem.sge(k, 1000));
			i.qp.write_wqe(MLX5_OPCODE_SEND_IMM, i.mem.sge(k + 1, 700), 0, 0, 9,
				       i.where.to(t.dct.number, devx::Dct::key, true));
			ASSERT_EQ(i.sent(), 0);
			auto *cqe = t.rcq.next();
			ASSERT_NE(cqe, nullptr);
			EXPECT_EQ(cqe->op_own >> 4, MLX5_CQE_RESP_SEND_IMM);
			EXPECT_EQ(be32toh(cqe->imm_inval_pkey), 9u);
			EXPECT_EQ(be32toh(cqe->srqn_uidx) & 0xffffff, 0xdc7u);
			EXPECT_EQ(be32toh(cqe->byte_cnt), 700u);
			t.rcq.consumed();
			ASSERT_EQ(std::memcmp(t.mem.data() + k, i.mem.data() + k + 1, 700), 0);
		}
		t.mem.pattern(7);
		i.qp.write_wqe(MLX5_OPCODE_RDMA_READ, i.mem.sge(5, 9000), t.mem.addr(3), t.mem.rkey(), 0,
			       i.where.to(t.dct.number, devx::Dct::key, true));
		ASSERT_EQ(i.sent(), 0);
		EXPECT_EQ(std::memcmp(i.mem.data() + 5, t.mem.data() + 3, 9000), 0);
	}
}

KTEST(devx_dc, "a target says what it is, and is drained once")
{
	Context c;
	Target t(c);
	Initiator i(c), late(c);
	Mailbox seen = t.dct.looked_at();
	const void *o = seen.out.data();

	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.state), 0u);
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.user_index), 0xdc7u);
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.cqn), t.rcq.number);
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.srqn), t.rmp.number);
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.pd), t.pdn);
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.mtu), static_cast<uint32_t>(IBV_MTU_1024));
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.rwe), 1u);
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.port), 1u);
	EXPECT_EQ(DEVX_GET(dct_mailbox, o, dctc.my_addr_index), static_cast<uint32_t>(c.gid_index()));
	EXPECT_EQ(DEVX_GET64(dct_mailbox, o, dctc.dc_access_key), devx::Dct::key);

	EXPECT_EQ(write(i, t, 0, 100), 0);
	EXPECT_EQ(t.dct.drain(), devx::OK);
	EXPECT_EQ(DEVX_GET(dct_mailbox, t.dct.looked_at().out.data(), dctc.state), 2u);
	EXPECT_EQ(t.dct.drain(), devx::BAD_RES_STATE);
	t.mem.fill(0);
	EXPECT_NE(write(late, t, 0, 100), 0);
	EXPECT_EQ(std::count(t.mem.data(), t.mem.data() + 100, 0), 100);
	// What it stands on is needed as long as it is there.
	EXPECT_EQ(devx::destroy(t.rmp.obj), EBUSY);
	EXPECT_EQ(devx::destroy(t.rcq.obj), EBUSY);
	EXPECT_EQ(devx::destroy(t.dct.obj), 0);
	EXPECT_EQ(devx::destroy(t.rmp.obj), 0);
}

KTEST(devx_dc, "a wrong access key is refused")
{
	Context c;
	Target t(c);
	Initiator i(c);

	t.mem.fill(0);
	EXPECT_EQ(write(i, t, 0, 100, devx::Dct::key + 1), MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	EXPECT_EQ(std::count(t.mem.data(), t.mem.data() + 100, 0), 100);
}

KTEST(devx_dc, "a target that makes no sense is refused, and says why")
{
	Context c, other;
	Target t(c), foreign(other);
	auto refused = [&](auto &&wrong) {
		Mailbox m = t.dct.request();
		wrong(m.in.data());
		return devx::refused(c, m);
	};

	EXPECT_EQ(refused([](void *) {}), devx::OK);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, op_mod, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.rlky, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.mtu, 0); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.mtu, 6); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.port, 2); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.pkey_index, 1); }), devx::BAD_PARAM);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.my_addr_index, 255); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.pd, 0); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.cqn, 0xffffff); }), devx::BAD_RES);
	EXPECT_EQ(refused([](void *m) { DEVX_SET(dct_mailbox, m, dctc.srqn, 0); }), devx::BAD_RES);
	Mailbox brief = t.dct.request();
	brief.in.resize(16);
	EXPECT_EQ(devx::refused(c, brief), devx::BAD_INP_LEN);
	Mailbox another(devx::QUERY_QP, 16, DEVX_ST_SZ_BYTES(query_qp_out));
	another.names(t.dct.number);
	EXPECT_EQ(mlx5dv_devx_obj_query(t.dct.obj.get(), another.in.data(), another.in_len(), another.out.data(),
					another.out_len()),
		  EINVAL);
}

KTEST(devx_dc, "streams of an initiator are as many as a command says, and only an initiator has some")
{
	Context c;
	Initiator i(c);
	Node rc(c);
	auto refused = [&](const devx::Qp &qp, unsigned streams, unsigned errored) {
		Mailbox m = qp.request();
		DEVX_SET(create_qp_in, m.in.data(), qpc.log_num_dci_stream_channels, streams);
		DEVX_SET(create_qp_in, m.in.data(), qpc.log_num_dci_errored_streams, errored);
		return devx::refused(c, m);
	};
	EXPECT_EQ(refused(i.qp, 3, 2), devx::OK);
	EXPECT_EQ(refused(i.qp, 31, 2), devx::BAD_PARAM);
	EXPECT_EQ(refused(i.qp, 3, 31), devx::BAD_PARAM);
	EXPECT_EQ(refused(rc.qp, 3, 2), devx::BAD_PARAM);
}

// ---- UC and UD ----

KTEST(devx_transports, "UC by commands writes and sends")
{
	Context c;
	devx::QpShape s;
	s.type = devx::UC;
	Node a(c, s), b(c, s);

	a.qp.connect(b.qp.number);
	b.qp.connect(a.qp.number);
	a.mem.pattern(4);
	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 5000), b.mem.addr(7), b.mem.rkey());
	ASSERT_EQ(a.sent(), 0);
	EXPECT_EQ(std::memcmp(b.mem.data() + 7, a.mem.data(), 5000), 0);
	b.qp.post_recv(b.mem.sge(10000, 100));
	a.qp.write_wqe(MLX5_OPCODE_SEND, a.mem.sge(0, 100));
	ASSERT_EQ(a.sent(), 0);
	ASSERT_NE(b.rcq.next(), nullptr);
	EXPECT_EQ(std::memcmp(b.mem.data() + 10000, a.mem.data(), 100), 0);
	Mailbox seen = a.qp.looked_at();
	EXPECT_EQ(DEVX_GET(query_qp_out, seen.out.data(), qpc.st), 1u);
}

KTEST(devx_transports, "UD by commands sends datagrams to who has the Q_Key, and to nobody else")
{
	Context c;
	devx::QpShape s;
	s.type = devx::UD;
	s.qkey = 0x5511;
	Node a(c, s), b(c, s);
	Address where(c, a.pd.get());

	a.qp.connect(0);
	b.qp.connect(0);
	a.mem.pattern(4);
	b.qp.post_recv(b.mem.sge(0, 1000));
	a.qp.write_wqe(MLX5_OPCODE_SEND, a.mem.sge(0, 300), 0, 0, 0, where.to(b.qp.number, s.qkey + 1, false));
	ASSERT_EQ(a.sent(), 0);
	EXPECT_EQ(b.rcq.next(20ms), nullptr);
	a.qp.write_wqe(MLX5_OPCODE_SEND, a.mem.sge(0, 300), 0, 0, 0, where.to(b.qp.number, s.qkey, false));
	ASSERT_EQ(a.sent(), 0);
	auto *cqe = b.rcq.next();
	ASSERT_NE(cqe, nullptr);
	EXPECT_EQ(be32toh(cqe->byte_cnt), 340u);
	EXPECT_EQ(be32toh(cqe->flags_rqpn) & 0xffffff, a.qp.number);
	EXPECT_EQ(std::memcmp(b.mem.data() + 40, a.mem.data(), 300), 0);
	Mailbox seen = b.qp.looked_at();
	EXPECT_EQ(DEVX_GET(query_qp_out, seen.out.data(), qpc.st), 2u);
	EXPECT_EQ(DEVX_GET(query_qp_out, seen.out.data(), qpc.q_key), s.qkey);
}

// What @call returns to a thread without that right.
int without_capability(int capability, const std::function<int()> &call)
{
	int ret = -1;

	std::jthread([&] {
		__user_cap_header_struct who{_LINUX_CAPABILITY_VERSION_3, 0};
		std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> rights{};
		must(syscall(SYS_capget, &who, rights.data()) ? errno : 0, "capget");
		rights[CAP_TO_INDEX(capability)].effective &= ~CAP_TO_MASK(capability);
		must(syscall(SYS_capset, &who, rights.data()) ? errno : 0, "capset");
		ret = call();
	}).join();
	return ret;
}

KTEST(devx_transports, "a Q_Key of privileged senders is given to who has CAP_NET_RAW, and by a command to nobody else, either")
{
	Context c;
	devx::QpShape s;
	s.type = devx::UD;
	for (uint32_t qkey : {0x5511u, 0x80010000u, 0x80000000u}) {
		s.qkey = qkey;
		Node a(c, s);
		auto init = [&] { return a.qp.apply(a.qp.rst2init()); };
		const bool privileged = qkey & 0x80000000;

		EXPECT_EQ(without_capability(CAP_NET_RAW, init), privileged ? devx::BAD_PARAM : 0) << qkey;
		if (privileged) {
			EXPECT_EQ(init(), 0) << qkey;
		}
	}
}

} // namespace
