// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// mlx5dv_wr_memcpy() and raw WQEs, posted by libmlx5.
#include "dv.hpp"
#include "ktap.hpp"

#include <endian.h>
#include <tally/comp_cntr.h>

using namespace rdma;

namespace {

// An end whose QP is made by mlx5dv_create_qp(), connected to itself.
struct DvEnd {
	Context &c;
	Pd pd;
	Cq cq;
	Memory from, to;
	Qp qp;

	explicit DvEnd(Context &ctx, uint64_t dv_ops = MLX5DV_QP_EX_WITH_MEMCPY, size_t bytes = 1 << 20)
	    : c(ctx), pd(alloc_pd(ctx)), cq(create_cq(ctx)), from(pd.get(), bytes), to(pd.get(), bytes)
	{
		qp = create_qp(pd.get(), cq.get(), cq.get(),
			       dv_options(dv_ops, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE));
		from.pattern(1);
	}
	void connect() { connect_to_itself(qp.get(), c); }
	ibv_qp_ex *ex() const { return rdma::ex(qp.get()); }
	mlx5dv_qp_ex *dv() const { return rdma::dv(qp.get()); }

	void memcpy(uint32_t to_key, uint64_t to_addr, uint32_t from_key, uint64_t from_addr, size_t len,
		    unsigned flags = IBV_SEND_SIGNALED) const
	{
		ex()->wr_flags = flags;
		mlx5dv_wr_memcpy(dv(), to_key, to_addr, from_key, from_addr, len);
	}
	// The whole call; 0 or an errno.
	int post_memcpy(uint32_t to_key, uint64_t to_addr, uint32_t from_key, uint64_t from_addr, size_t len,
			unsigned flags = IBV_SEND_SIGNALED) const
	{
		ibv_wr_start(ex());
		memcpy(to_key, to_addr, from_key, from_addr, len, flags);
		return ibv_wr_complete(ex());
	}
	int post_copy(size_t len, unsigned flags = IBV_SEND_SIGNALED) const
	{
		return post_memcpy(to.lkey(), to.addr(), from.lkey(), from.addr(), len, flags);
	}
};

bool all_zero(const Memory &m)
{
	for (uint8_t b : m.bytes())
		if (b)
			return false;
	return true;
}

KTEST(memcpy, "the device copies up to 2 GiB in one request")
{
	Context c;
	mlx5dv_context dv{};

	dv.comp_mask = MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH;
	must(mlx5dv_query_device(c.get(), &dv), "mlx5dv_query_device");
	EXPECT_TRUE(dv.comp_mask & MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH);
	EXPECT_EQ(dv.max_wr_memcpy_length, UINT64_C(1) << 31);
}

KTEST(memcpy, "bytes are copied between two regions, at any length and alignment")
{
	Context c;
	DvEnd e(c);

	e.connect();
	for (size_t len : {1u, 3u, 8u, 4096u, 65537u, 1000000u}) {
		std::memset(e.to.data(), 0, e.to.size());
		must(e.post_memcpy(e.to.lkey(), e.to.addr(13), e.from.lkey(), e.from.addr(5), len), "memcpy");
		ibv_wc wc = expect_wc(e.cq.get());
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(static_cast<unsigned>(wc.opcode), static_cast<unsigned>(MLX5DV_WC_MEMCPY));
		EXPECT_EQ(std::memcmp(e.to.data() + 13, e.from.data() + 5, len), 0) << len << " bytes";
		EXPECT_EQ(e.to.data()[12], 0);
		EXPECT_EQ(e.to.data()[13 + len], 0);
	}
}

KTEST(memcpy, "a fenced WRITE behind it carries what was copied")
{
	Context c;
	DvEnd e(c);
	Memory last(e.pd.get(), 1 << 20);

	e.connect();
	ibv_wr_start(e.ex());
	e.memcpy(e.to.lkey(), e.to.addr(), e.from.lkey(), e.from.addr(), 500000, 0);
	e.ex()->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ibv_wr_rdma_write(e.ex(), last.rkey(), last.addr());
	ibv_wr_set_sge(e.ex(), e.to.lkey(), e.to.addr(), 500000);
	must(ibv_wr_complete(e.ex()), "complete");
	ASSERT_EQ(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(last.data(), e.from.data(), 500000), 0);
	EXPECT_TRUE(empty(e.cq.get()));
}

KTEST(memcpy, "no length and too long a one are refused when posted")
{
	Context c;
	DvEnd e(c);

	e.connect();
	EXPECT_EQ(e.post_copy(0), EINVAL);
	EXPECT_EQ(e.post_copy((UINT64_C(1) << 31) + 1), EINVAL);
	must(e.post_copy(8), "memcpy");
	EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS);
}

KTEST(memcpy, "a range past a region's end is a local protection error, and nothing is written")
{
	Context c;
	for (bool source : {false, true}) {
		DvEnd e(c);
		const size_t from_off = source ? e.from.size() - 99 : 0, to_off = source ? 0 : e.to.size() - 99;

		e.connect();
		must(e.post_memcpy(e.to.lkey(), e.to.addr(to_off), e.from.lkey(), e.from.addr(from_off), 100), "memcpy");
		EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_LOC_PROT_ERR);
		EXPECT_TRUE(all_zero(e.to));
		EXPECT_EQ(state_of(e.qp.get()), IBV_QPS_ERR);
	}
}

KTEST(memcpy, "so is 2 GiB, which is said by a count of zero, in a small region")
{
	Context c;
	DvEnd e(c);

	e.connect();
	must(e.post_copy(UINT64_C(1) << 31), "memcpy");
	EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_LOC_PROT_ERR);
	EXPECT_TRUE(all_zero(e.to));
}

KTEST(memcpy, "so is a key of another protection domain, or a destination without local write")
{
	Context c;
	Pd other = alloc_pd(c);
	for (int wrong = 0; wrong < 3; wrong++) {
		DvEnd e(c);
		Memory m(wrong == 2 ? e.pd.get() : other.get(), 4096, wrong == 2 ? IBV_ACCESS_REMOTE_READ : all_access);
		const Memory &to = wrong == 0 ? e.to : m, &from = wrong == 0 ? m : e.from;

		e.connect();
		must(e.post_memcpy(to.lkey(), to.addr(), from.lkey(), from.addr(), 64), "memcpy");
		EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_LOC_PROT_ERR) << "case " << wrong;
		EXPECT_TRUE(all_zero(to));
	}
}

KTEST(memcpy, "it needs a QP that was made for it")
{
	Context c;
	Pair p(c);
	EXPECT_EQ(ibv_qp_to_qp_ex(p.a.qp.get()), nullptr);

	// The same request by hand, on a QP where it was not enabled.
	DvEnd e(c, MLX5DV_QP_EX_WITH_RAW_WQE);
	struct {
		mlx5_wqe_ctrl_seg ctrl;
		uint8_t meta[16];
		mlx5_wqe_data_seg from, to;
	} wqe{};
	wqe.ctrl.opmod_idx_opcode = htobe32(1 << 24 | MLX5_OPCODE_MMO);
	wqe.ctrl.qpn_ds = htobe32(e.qp->qp_num << 8 | sizeof(wqe) / 16);
	wqe.ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	mlx5dv_set_data_seg(&wqe.from, 64, e.from.lkey(), e.from.addr());
	mlx5dv_set_data_seg(&wqe.to, 64, e.to.lkey(), e.to.addr());
	e.connect();
	ibv_wr_start(e.ex());
	mlx5dv_wr_raw_wqe(e.dv(), &wqe);
	must(ibv_wr_complete(e.ex()), "complete");
	EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(all_zero(e.to));
}

// INIT2INIT_QP as libmlx5 sends it to enable copies.
struct Init2init {
	uint8_t bytes[464] = {};

	explicit Init2init(uint32_t qpn, uint16_t opcode = 0x50e)
	{
		put(0, htobe16(opcode));
		put(8, htobe32(UINT32_C(1) << 31 | qpn));
		put(264, htobe64(UINT64_C(1) << 3));
		bytes[272] = 0x20;
	}
	template <class T> void put(size_t at, T value) { std::memcpy(bytes + at, &value, sizeof(value)); }

	// The command's status; 0: done; negative: an errno.
	int run(ibv_qp *qp, size_t length = sizeof(bytes))
	{
		uint8_t out[16] = {};
		const int err = mlx5dv_devx_qp_modify(qp, bytes, length, out, sizeof(out));
		if (err == EINVAL)
			return -err;
		if (err && err != EREMOTEIO)
			fail("mlx5dv_devx_qp_modify", err);
		EXPECT_EQ(err == EREMOTEIO, out[0] != 0);
		return out[0];
	}
};

KTEST(memcpy, "the command that enables it says what is wrong with itself")
{
	enum { BAD_OP = 0x2, BAD_PARAM = 0x3, BAD_QP_STATE = 0x10, BAD_INPUT_LEN = 0x50 };
	Context c;
	Pair p(c, {}, false);
	ibv_qp *qp = p.a.qp.get();
	const uint32_t qpn = qp->qp_num;

	EXPECT_EQ(Init2init(qpn).run(qp), BAD_QP_STATE);
	must(to_init(qp), "init");
	EXPECT_EQ(Init2init(qpn + 1).run(qp), -EINVAL);
	EXPECT_EQ(Init2init(qpn, 0x5ff).run(qp), BAD_OP);
	EXPECT_EQ(Init2init(qpn).run(qp, 272), BAD_INPUT_LEN);
	Init2init other(qpn);
	other.put(16, htobe32(1));
	EXPECT_EQ(other.run(qp), BAD_PARAM);
	Init2init more(qpn);
	more.put(264, htobe64(UINT64_C(3) << 3));
	EXPECT_EQ(more.run(qp), BAD_PARAM);
	Init2init off(qpn);
	off.bytes[272] = 0;
	EXPECT_EQ(off.run(qp), BAD_PARAM);
	EXPECT_EQ(Init2init(qpn).run(qp), 0);
	must(to_rtr(qp, c, c.gid(), p.b.qp->qp_num), "rtr");
	EXPECT_EQ(Init2init(qpn).run(qp), BAD_QP_STATE);
}

KTEST(memcpy, "a counter counts its success, its error and its flush")
{
	Context c;
	DvEnd e(c);
	ibv_comp_cntr_init_attr init{};
	ibv_comp_cntr *k = ibv_create_comp_cntr(c.get(), &init);
	ASSERT_NE(k, nullptr);
	ibv_qp_attach_comp_cntr_attr at{};
	at.op_mask = TALLY_QP_ATTACH_COMP_CNTR_OP_MEMCPY;
	must(ibv_qp_attach_comp_cntr(e.qp.get(), k, &at), "attach");
	e.connect();

	must(e.post_copy(1000, 0), "memcpy");
	must(tally_wait_comp_cntr(k, 1, 0, 5'000'000'000), "wait");
	EXPECT_EQ(std::memcmp(e.to.data(), e.from.data(), 1000), 0);
	must(e.post_memcpy(e.to.lkey(), 0, e.from.lkey(), e.from.addr(), 8, 0), "memcpy");
	expect_wc(e.cq.get());
	must(e.post_copy(8, 0), "memcpy");
	EXPECT_EQ(expect_wc(e.cq.get()).status, IBV_WC_WR_FLUSH_ERR);
	uint64_t done = 0, failed = 0;
	must(ibv_read_comp_cntr(k, &done), "read");
	must(ibv_read_err_comp_cntr(k, &failed), "read");
	EXPECT_EQ(done, 1u);
	EXPECT_EQ(failed, 2u);
	e.qp.reset();
	must(ibv_destroy_comp_cntr(k), "destroy");
}

KTEST(raw_wqe, "one written by hand goes among those of the builders, and completes as the driver's own")
{
	Context c;
	DvEnd e(c, MLX5DV_QP_EX_WITH_RAW_WQE);
	struct {
		mlx5_wqe_ctrl_seg ctrl;
		mlx5_wqe_raddr_seg raddr;
		mlx5_wqe_data_seg data;
	} wqe{};

	e.connect();
	wqe.ctrl.opmod_idx_opcode = htobe32(MLX5_OPCODE_RDMA_WRITE);
	wqe.ctrl.qpn_ds = htobe32(e.qp->qp_num << 8 | sizeof(wqe) / 16);
	wqe.ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	wqe.raddr.raddr = htobe64(e.to.addr(100));
	wqe.raddr.rkey = htobe32(e.to.rkey());
	mlx5dv_set_data_seg(&wqe.data, 64, e.from.lkey(), e.from.addr());

	// More than the queue is long, so that they wrap.
	for (int i = 0; i < 100; i++) {
		const bool raw = i % 2;
		std::memset(e.to.data(), 0, 4096);
		ibv_wr_start(e.ex());
		if (raw) {
			mlx5dv_wr_raw_wqe(e.dv(), &wqe);
		} else {
			e.ex()->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(e.ex(), e.to.rkey(), e.to.addr(100));
			ibv_wr_set_sge(e.ex(), e.from.lkey(), e.from.addr(), 64);
		}
		must(ibv_wr_complete(e.ex()), "complete");
		ibv_wc wc = expect_wc(e.cq.get());
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, raw ? IBV_WC_DRIVER2 : IBV_WC_RDMA_WRITE);
		EXPECT_EQ(std::memcmp(e.to.data() + 100, e.from.data(), 64), 0);
	}
}

KTEST(raw_wqe, "a malformed one ends in an error completion and the error state")
{
	Context c;
	struct wqe {
		mlx5_wqe_ctrl_seg ctrl;
		uint8_t rest[112];
	};
	for (unsigned opcode : {0x02u, 0x1fu, 0x25u, 0x3fu, 0xffu})
		for (unsigned ds : {1u, 2u, 8u}) {
			DvEnd e(c, MLX5DV_QP_EX_WITH_RAW_WQE);
			wqe w{};
			std::memset(w.rest, 0xa5, sizeof(w.rest));
			w.ctrl.opmod_idx_opcode = htobe32(opcode);
			w.ctrl.qpn_ds = htobe32(e.qp->qp_num << 8 | ds);
			e.connect();
			ibv_wr_start(e.ex());
			mlx5dv_wr_raw_wqe(e.dv(), &w);
			must(ibv_wr_complete(e.ex()), "complete");
			EXPECT_NE(expect_wc(e.cq.get()).status, IBV_WC_SUCCESS) << "opcode " << opcode << ", ds " << ds;
			EXPECT_EQ(state_of(e.qp.get()), IBV_QPS_ERR);
		}
}

} // namespace
