// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What libmlx5 adds to verbs: QPs made for its work requests, indirect keys, and the requests that lay them out.
#pragma once

#include "ktap.hpp"
#include "verbs.hpp"

#include <infiniband/mlx5dv.h>

namespace rdma {

constexpr uint64_t every_send_op = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND_WITH_IMM |
				   IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
				   IBV_QP_EX_WITH_BIND_MW;
constexpr uint64_t layout_ops =
    MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;

// nullptr and errno when the library or the device refuses.
inline ibv_qp *try_dv_qp(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpOptions &o,
			 mlx5dv_qp_init_attr dv = {})
{
	ibv_qp_init_attr_ex a{};
	a.send_cq = send_cq;
	a.recv_cq = recv_cq;
	a.srq = o.srq;
	a.cap.max_send_wr = o.max_send;
	a.cap.max_send_sge = o.max_sge;
	a.cap.max_inline_data = o.max_inline;
	const bool receives = !o.srq && o.type != IBV_QPT_DRIVER && o.type != IBV_QPT_XRC_SEND;
	if (receives) {
		a.cap.max_recv_wr = o.max_recv;
		a.cap.max_recv_sge = o.max_sge;
	}
	a.qp_type = o.type;
	a.sq_sig_all = o.all_signaled;
	a.pd = pd;
	a.comp_mask = IBV_QP_INIT_ATTR_PD;
	if (o.send_ops) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = o.send_ops;
	}
	if (o.dv_ops) {
		dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
		dv.send_ops_flags = o.dv_ops;
	}
	if (o.type == IBV_QPT_DRIVER && !(dv.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC)) {
		dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DC;
		dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
	}
	return mlx5dv_create_qp(pd->context, &a, &dv);
}

inline Qp make_dv_qp(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpOptions &o)
{
	return own<Qp>(try_dv_qp(pd, send_cq, recv_cq, o), "mlx5dv_create_qp");
}

// For create_qp(), End and Pair.
inline QpOptions dv_options(uint64_t dv_ops = layout_ops, uint64_t send_ops = every_send_op,
			    ibv_qp_type type = IBV_QPT_RC)
{
	QpOptions o;
	o.type = type;
	o.send_ops = send_ops;
	o.dv_ops = dv_ops;
	o.make = make_dv_qp;
	return o;
}

inline ibv_qp_ex *ex(ibv_qp *qp) { return ibv_qp_to_qp_ex(qp); }
inline mlx5dv_qp_ex *dv(ibv_qp *qp) { return mlx5dv_qp_ex_from_ibv_qp_ex(ex(qp)); }

// What @build adds, in one start and complete; 0 or an errno.
template <class F> int post(ibv_qp *qp, F build, unsigned flags = IBV_SEND_SIGNALED)
{
	ibv_wr_start(ex(qp));
	ex(qp)->wr_flags = flags;
	build(ex(qp), dv(qp));
	return ibv_wr_complete(ex(qp));
}

// A key that stands for pieces of others.
class Mkey {
      public:
	explicit Mkey(ibv_pd *pd, uint16_t entries = 16, uint32_t more_flags = 0)
	{
		mlx5dv_mkey_init_attr a{};
		a.pd = pd;
		a.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | more_flags;
		a.max_entries = entries;
		mkey_ = own<Handle>(mlx5dv_create_mkey(&a), "mlx5dv_create_mkey");
	}
	mlx5dv_mkey *get() const { return mkey_.get(); }
	uint32_t lkey() const { return mkey_->lkey; }
	uint32_t rkey() const { return mkey_->rkey; }
	ibv_sge sge(uint64_t off, size_t len) const { return {off, static_cast<uint32_t>(len), lkey()}; }

      private:
	using Handle = std::unique_ptr<mlx5dv_mkey, Deleter<mlx5dv_destroy_mkey>>;
	Handle mkey_;
};

using Pieces = std::vector<ibv_sge>;
using Blocks = std::vector<mlx5dv_mr_interleaved>;

constexpr unsigned umr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;

// Each returns 0 or an errno.
inline int post_list(ibv_qp *qp, const Mkey &k, Pieces l, uint32_t access = all_access, unsigned flags = umr_flags)
{
	return post(qp, [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_mr_list(d, k.get(), access, static_cast<uint16_t>(l.size()), l.data());
	}, flags);
}

inline int post_pattern(ibv_qp *qp, const Mkey &k, uint32_t rounds, Blocks l, uint32_t access = all_access,
			unsigned flags = umr_flags)
{
	return post(qp, [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_mr_interleaved(d, k.get(), access, rounds, static_cast<uint16_t>(l.size()), l.data());
	}, flags);
}

inline int post_local_inv(ibv_qp *qp, uint32_t rkey, unsigned flags = IBV_SEND_SIGNALED)
{
	return post(qp, [&](ibv_qp_ex *e, mlx5dv_qp_ex *) { ibv_wr_local_inv(e, rkey); }, flags);
}

// Registered, and the completion that says so taken.
inline void expect_registered(ibv_cq *cq)
{
	ibv_wc wc = expect_wc(cq);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(static_cast<unsigned>(wc.opcode), static_cast<unsigned>(MLX5DV_WC_UMR));
}

inline void register_list(const End &e, const Mkey &k, const Pieces &l, uint32_t access = all_access)
{
	must(post_list(e.qp.get(), k, l, access), "mr_list");
	expect_registered(e.scq.get());
}

// Registered by a QP of the domain that goes when that is done.
inline void register_for(const Context &c, ibv_pd *pd, const Mkey &k, const Pieces &l)
{
	Cq cq = create_cq(c);
	Qp qp = create_qp(pd, cq.get(), cq.get(), dv_options());

	connect_to_itself(qp.get(), c);
	must(post_list(qp.get(), k, l), "mr_list");
	expect_registered(cq.get());
}

inline void register_pattern(const End &e, const Mkey &k, uint32_t rounds, const Blocks &l,
			     uint32_t access = all_access)
{
	must(post_pattern(e.qp.get(), k, rounds, l, access), "mr_interleaved");
	expect_registered(e.scq.get());
}

} // namespace rdma
