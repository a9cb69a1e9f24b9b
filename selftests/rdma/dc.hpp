// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Dynamic connections: targets, and initiators that reach any of them.
#pragma once

#include "dv.hpp"

namespace rdma {

constexpr uint64_t dc_key = 0x1122334455667788;

inline Ah create_ah(const Context &c, ibv_pd *pd, const ibv_gid &to)
{
	ibv_ah_attr a = address(c, to);
	return own<Ah>(ibv_create_ah(pd, &a), "create_ah");
}

struct Dct {
	Pd pd;
	Cq cq;
	Memory mem;
	Srq srq;
	Qp qp;

	explicit Dct(Context &c)
	    : pd(alloc_pd(c)), cq(create_cq(c)), mem(pd.get(), 1 << 18), srq(create_srq(pd.get()))
	{
		QpOptions o = dv_options(0, 0, IBV_QPT_DRIVER);
		o.srq = srq.get();
		o.max_send = o.max_sge = o.max_inline = 0;
		mlx5dv_qp_init_attr d{};
		d.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
		d.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
		d.dc_init_attr.dct_access_key = dc_key;
		qp = own<Qp>(try_dv_qp(pd.get(), cq.get(), cq.get(), o, d), "create DCT");
	}
	void start(Context &c)
	{
		ibv_qp_attr a{};
		a.qp_state = IBV_QPS_INIT;
		a.port_num = 1;
		a.qp_access_flags = all_access & ~IBV_ACCESS_LOCAL_WRITE;
		must(ibv_modify_qp(qp.get(), &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		     "DCT init");
		a.qp_state = IBV_QPS_RTR;
		a.path_mtu = IBV_MTU_1024;
		a.min_rnr_timer = 1;
		a.ah_attr = address(c, c.gid());
		must(ibv_modify_qp(qp.get(), &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER),
		     "DCT rtr");
	}
};

struct Dci {
	Pd pd;
	Cq cq;
	Memory mem;
	Ah ah;
	Qp qp;

	explicit Dci(Context &c, uint64_t dv_ops = MLX5DV_QP_EX_WITH_MEMCPY | MLX5DV_QP_EX_WITH_RAW_WQE, bool streams = false)
	    : pd(alloc_pd(c)), cq(create_cq(c)), mem(pd.get(), 1 << 18), ah(create_ah(c, pd.get(), c.gid()))
	{
		const QpOptions o = dv_options(dv_ops, every_send_op, IBV_QPT_DRIVER);
		mlx5dv_qp_init_attr d{};
		if (streams) {
			d.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
			d.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
			d.dc_init_attr.dci_streams = {3, 2};
		}
		qp = own<Qp>(try_dv_qp(pd.get(), cq.get(), cq.get(), o, d), "create DCI");
		must(to_init(qp.get(), o), "DCI init");
		must(to_rtr(qp.get(), c, c.gid(), 0, o), "DCI rtr");
		must(to_rts(qp.get(), o), "DCI rts");
		mem.pattern(1);
	}
	// One request, which @build begins, to a DCT; how it ended.
	template <class F> ibv_wc_status to(uint32_t dctn, uint64_t key, ibv_sge sge, F build, int stream = -1)
	{
		must(post(qp.get(), [&](ibv_qp_ex *e, mlx5dv_qp_ex *d) {
			build(e);
			if (stream < 0)
				mlx5dv_wr_set_dc_addr(d, ah.get(), dctn, key);
			else
				mlx5dv_wr_set_dc_addr_stream(d, ah.get(), dctn, key, static_cast<uint16_t>(stream));
			ibv_wr_set_sge(e, sge.lkey, sge.addr, sge.length);
		}), "post");
		return expect_wc(cq.get()).status;
	}
	ibv_wc_status write(const Dct &t, size_t at, size_t len, int stream = -1, uint32_t wrong_key = 0)
	{
		return to(t.qp->qp_num, dc_key, mem.sge(at, len),
			  [&](ibv_qp_ex *e) { ibv_wr_rdma_write(e, t.mem.rkey() ^ wrong_key, t.mem.addr(at)); }, stream);
	}
};

} // namespace rdma
