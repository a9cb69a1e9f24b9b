// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Commands of the device's own (DEVX): layouts for DEVX_SET() and DEVX_GET(), and owned objects.
#pragma once

#include "verbs.hpp"

#include <infiniband/mlx5dv.h>

// One array element is one bit; names and numbers are the programmer's reference manual's.
using u8 = uint8_t;

struct mlx5_ifc_cmd_in_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 vhca_tunnel_id[0x10];
	u8 op_mod[0x10];
	u8 reserved_at_40[0x8];
	u8 number[0x18];
	u8 reserved_at_60[0x20];
};

struct mlx5_ifc_cmd_out_bits {
	u8 status[0x8];
	u8 reserved_at_8[0x18];
	u8 syndrome[0x20];
	u8 reserved_at_40[0x8];
	u8 number[0x18];
	u8 reserved_at_60[0x20];
};

struct mlx5_ifc_cqc_bits {
	u8 status[0x4];
	u8 reserved_at_4[0x3];
	u8 apu_cq[0x1];
	u8 cqe_sz[0x3];
	u8 cc[0x1];
	u8 reserved_at_c[0x2];
	u8 oi[0x1];
	u8 cq_period_mode[0x2];
	u8 cqe_comp_en[0x1];
	u8 mini_cqe_res_format[0x2];
	u8 st[0x4];
	u8 reserved_at_18[0x8];
	u8 dbr_umem_id[0x20];
	u8 reserved_at_40[0x23];
	u8 log_cq_size[0x5];
	u8 uar_page[0x18];
	u8 reserved_at_80[0x4];
	u8 cq_period[0xc];
	u8 cq_max_count[0x10];
	u8 c_eqn[0x20];
	u8 reserved_at_c0[0x88];
	u8 consumer_counter[0x18];
	u8 reserved_at_160[0x8];
	u8 producer_counter[0x18];
	u8 reserved_at_180[0x40];
	u8 dbr_addr[0x40];
};

struct mlx5_ifc_create_cq_in_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 reserved_at_20[0x10];
	u8 op_mod[0x10];
	u8 reserved_at_40[0x40];
	struct mlx5_ifc_cqc_bits cqc;
	u8 cq_umem_offset[0x40];
	u8 cq_umem_id[0x20];
	u8 reserved_at_2e0[0x5a0];
};

struct mlx5_ifc_modify_cq_in_bits {
	u8 reserved_at_0[0x60];
	u8 field_select[0x20];
	struct mlx5_ifc_cqc_bits cqc;
	u8 reserved_at_280[0x600];
};

struct mlx5_ifc_query_cq_out_bits {
	u8 reserved_at_0[0x80];
	struct mlx5_ifc_cqc_bits cqc;
	u8 reserved_at_280[0x600];
};

struct mlx5_ifc_ads_bits {
	u8 reserved_at_0[0x10];
	u8 pkey_index[0x10];
	u8 reserved_at_20[0x20];
	u8 ack_timeout[0x5];
	u8 reserved_at_45[0x3];
	u8 src_addr_index[0x8];
	u8 reserved_at_50[0x8];
	u8 hop_limit[0x8];
	u8 reserved_at_60[0x20];
	u8 rgid_rip[0x80];
	u8 reserved_at_100[0x10];
	u8 udp_sport[0x10];
	u8 reserved_at_120[0x8];
	u8 vhca_port_num[0x8];
	u8 rmac[0x30];
};

struct mlx5_ifc_qpc_bits {
	u8 state[0x4];
	u8 lag_tx_port_affinity[0x4];
	u8 st[0x8];
	u8 reserved_at_10[0x3];
	u8 pm_state[0x2];
	u8 reserved_at_15[0x3];
	u8 offload_type[0x4];
	u8 reserved_at_1c[0x4];
	u8 wq_signature[0x1];
	u8 reserved_at_21[0x7];
	u8 pd[0x18];
	u8 mtu[0x3];
	u8 log_msg_max[0x5];
	u8 reserved_at_48[0x1];
	u8 log_rq_size[0x4];
	u8 log_rq_stride[0x3];
	u8 no_sq[0x1];
	u8 log_sq_size[0x4];
	u8 reserved_at_55[0x3];
	u8 ts_format[0x2];
	u8 reserved_at_5a[0x1];
	u8 rlky[0x1];
	u8 ulp_stateless_offload_mode[0x4];
	u8 counter_set_id[0x8];
	u8 uar_page[0x18];
	u8 reserved_at_80[0x8];
	u8 user_index[0x18];
	u8 reserved_at_a0[0x8];
	u8 remote_qpn[0x18];
	struct mlx5_ifc_ads_bits primary;
	struct mlx5_ifc_ads_bits secondary;
	u8 reserved_at_380[0x8];
	u8 log_sra_max[0x3];
	u8 reserved_at_38b[0x2];
	u8 retry_count[0x3];
	u8 rnr_retry[0x3];
	u8 reserved_at_393[0x2d];
	u8 reserved_at_3c0[0x8];
	u8 next_send_psn[0x18];
	u8 reserved_at_3e0[0x3];
	u8 log_num_dci_stream_channels[0x5];
	u8 cqn_snd[0x18];
	u8 reserved_at_400[0x3];
	u8 log_num_dci_errored_streams[0x5];
	u8 reserved_at_408[0x78];
	u8 reserved_at_480[0x8];
	u8 log_rra_max[0x3];
	u8 reserved_at_48b[0x5];
	u8 rre[0x1];
	u8 rwe[0x1];
	u8 rae[0x1];
	u8 reserved_at_493[0xd];
	u8 reserved_at_4a0[0x3];
	u8 min_rnr_nak[0x5];
	u8 next_rcv_psn[0x18];
	u8 reserved_at_4c0[0x28];
	u8 cqn_rcv[0x18];
	u8 dbr_addr[0x40];
	u8 q_key[0x20];
	u8 reserved_at_560[0x5];
	u8 rq_type[0x3];
	u8 srqn[0x18];
	u8 reserved_at_580[0x20];
	u8 hw_sq_wqebb_counter[0x10];
	u8 reserved_at_5b0[0x170];
	u8 dbr_umem_id[0x20];
};
static_assert(sizeof(mlx5_ifc_qpc_bits) == 0x740);

struct mlx5_ifc_create_qp_in_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 reserved_at_20[0x10];
	u8 op_mod[0x10];
	u8 qpc_ext[0x1];
	u8 reserved_at_41[0x7];
	u8 input_qpn[0x18];
	u8 reserved_at_60[0x20];
	u8 opt_param_mask[0x20];
	u8 ece[0x20];
	struct mlx5_ifc_qpc_bits qpc;
	u8 wq_umem_offset[0x40];
	u8 wq_umem_id[0x20];
	u8 reserved_at_860[0x20];
};

struct mlx5_ifc_query_qp_out_bits {
	u8 reserved_at_0[0xc0];
	struct mlx5_ifc_qpc_bits qpc;
	u8 reserved_at_800[0x80];
};

struct mlx5_ifc_wq_bits {
	u8 wq_type[0x4];
	u8 wq_signature[0x1];
	u8 reserved_at_5[0x2b];
	u8 lwm[0x10];
	u8 reserved_at_40[0x8];
	u8 pd[0x18];
	u8 reserved_at_60[0x20];
	u8 dbr_addr[0x40];
	u8 hw_counter[0x20];
	u8 sw_counter[0x20];
	u8 reserved_at_100[0xc];
	u8 log_wq_stride[0x4];
	u8 reserved_at_110[0xb];
	u8 log_wq_sz[0x5];
	u8 reserved_at_120[0x20];
	u8 dbr_umem_id[0x20];
	u8 wq_umem_id[0x20];
	u8 wq_umem_offset[0x40];
	u8 reserved_at_1c0[0x440];
};

struct mlx5_ifc_rmpc_bits {
	u8 reserved_at_0[0x8];
	u8 state[0x4];
	u8 reserved_at_c[0x14];
	u8 basic_cyclic_rcv_wqe[0x1];
	u8 reserved_at_21[0x15f];
	struct mlx5_ifc_wq_bits wq;
};

// CREATE_RMP, MODIFY_RMP and what QUERY_RMP answers have the context in the same place.
struct mlx5_ifc_rmp_mailbox_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 reserved_at_20[0x10];
	u8 op_mod[0x10];
	u8 rmp_state[0x4];
	u8 reserved_at_44[0x4];
	u8 rmpn[0x18];
	u8 reserved_at_60[0x20];
	u8 reserved_at_80[0x3f];
	u8 change_lwm[0x1];
	u8 reserved_at_c0[0x40];
	struct mlx5_ifc_rmpc_bits rmpc;
};
static_assert(sizeof(mlx5_ifc_rmp_mailbox_bits) == 0x880);

struct mlx5_ifc_dctc_bits {
	u8 reserved_at_0[0x4];
	u8 state[0x4];
	u8 reserved_at_8[0x18];
	u8 reserved_at_20[0x8];
	u8 user_index[0x18];
	u8 reserved_at_40[0x8];
	u8 cqn[0x18];
	u8 reserved_at_60[0xc];
	u8 rre[0x1];
	u8 rwe[0x1];
	u8 rae[0x1];
	u8 reserved_at_6f[0x2];
	u8 rlky[0x1];
	u8 reserved_at_72[0x21];
	u8 min_rnr_nak[0x5];
	u8 reserved_at_98[0x10];
	u8 srqn[0x18];
	u8 reserved_at_c0[0x8];
	u8 pd[0x18];
	u8 reserved_at_e0[0x20];
	u8 dc_access_key[0x40];
	u8 reserved_at_140[0x5];
	u8 mtu[0x3];
	u8 port[0x8];
	u8 pkey_index[0x10];
	u8 reserved_at_160[0x8];
	u8 my_addr_index[0x8];
	u8 reserved_at_170[0x8];
	u8 hop_limit[0x8];
	u8 reserved_at_180[0x80];
};
static_assert(sizeof(mlx5_ifc_dctc_bits) == 0x200);

// CREATE_DCT, and what QUERY_DCT answers.
struct mlx5_ifc_dct_mailbox_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 reserved_at_20[0x10];
	u8 op_mod[0x10];
	u8 reserved_at_40[0x40];
	struct mlx5_ifc_dctc_bits dctc;
	u8 reserved_at_280[0x180];
};

// CREATE_MKEY, without entries behind it.
struct mlx5_ifc_create_mkey_in_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 reserved_at_20[0x10];
	u8 op_mod[0x10];
	u8 reserved_at_40[0x20];
	u8 pg_access[0x1];
	u8 mkey_umem_valid[0x1];
	u8 reserved_at_62[0x1e];
	u8 reserved_at_80[0x1];
	u8 free[0x1];
	u8 reserved_at_82[0xe];
	u8 umr_en[0x1];
	u8 a[0x1];
	u8 rw[0x1];
	u8 rr[0x1];
	u8 lw[0x1];
	u8 lr[0x1];
	u8 access_mode_1_0[0x2];
	u8 reserved_at_98[0x8];
	u8 qpn[0x18];
	u8 mkey_7_0[0x8];
	u8 reserved_at_c0[0x20];
	u8 length64[0x1];
	u8 bsf_en[0x1];
	u8 reserved_at_e2[0x5];
	u8 en_rinval[0x1];
	u8 pd[0x18];
	u8 start_addr[0x40];
	u8 len[0x40];
	u8 bsf_octword_size[0x20];
	u8 reserved_at_1a0[0xa0];
	u8 translations_octword_size[0x20];
	u8 reserved_at_260[0x1a];
	u8 log_page_size[0x6];
	u8 reserved_at_280[0x80];
	u8 translations_octword_actual_size[0x20];
	u8 mkey_umem_id[0x20];
	u8 mkey_umem_offset[0x40];
	u8 reserved_at_380[0x500];
};
static_assert(sizeof(mlx5_ifc_create_mkey_in_bits) == 0x880);

namespace rdma::devx {

enum Opcode : uint16_t {
	QUERY_HCA_CAP = 0x100,
	CREATE_MKEY = 0x200,
	CREATE_CQ = 0x400,
	QUERY_CQ = 0x402,
	MODIFY_CQ = 0x403,
	CREATE_QP = 0x500,
	RST2INIT_QP = 0x502,
	INIT2RTR_QP = 0x503,
	RTR2RTS_QP = 0x504,
	RTS2RTS_QP = 0x505,
	SQERR2RTS_QP = 0x506,
	TO_ERR_QP = 0x507,
	TO_RST_QP = 0x50a,
	QUERY_QP = 0x50b,
	INIT2INIT_QP = 0x50e,
	CREATE_DCT = 0x710,
	DRAIN_DCT = 0x712,
	QUERY_DCT = 0x713,
	ALLOC_PD = 0x800,
	DEALLOC_PD = 0x801,
	CREATE_RMP = 0x90c,
	MODIFY_RMP = 0x90d,
	QUERY_RMP = 0x90f,
};

enum Status : uint8_t {
	OK = 0,
	BAD_OP = 0x2,
	BAD_PARAM = 0x3,
	BAD_RES = 0x5,
	RES_BUSY = 0x6,
	BAD_RES_STATE = 0x9,
	NO_RES = 0xf,
	BAD_QP_STATE = 0x10,
	BAD_INP_LEN = 0x50,
	BAD_OUTP_LEN = 0x51,
};

// A mailbox: zeroed words with an opcode, and room for the answer.
struct Mailbox {
	std::vector<uint32_t> in;
	std::vector<uint32_t> out;

	Mailbox(Opcode op, size_t in_bytes, size_t out_bytes = 16) : in(in_bytes / 4), out(out_bytes / 4)
	{
		DEVX_SET(cmd_in, in.data(), opcode, op);
	}
	size_t in_len() const { return in.size() * 4; }
	size_t out_len() const { return out.size() * 4; }
	uint8_t status() const { return static_cast<uint8_t>(DEVX_GET(cmd_out, out.data(), status)); }
	uint32_t number() const { return DEVX_GET(cmd_out, out.data(), number); }
	Mailbox &names(uint32_t number)
	{
		DEVX_SET(cmd_in, in.data(), number, number);
		return *this;
	}
	// What a call has come to: the status in the mailbox, or a failure of the test if there is none.
	int result(int err) const
	{
		if (err && err != EREMOTEIO)
			fail("command", err);
		if ((err == EREMOTEIO) != (status() != OK))
			fail("EREMOTEIO and the status go together", EPROTO);
		return status();
	}
};

// Page-aligned memory that nothing is registered over yet.
class Buffer {
      public:
	explicit Buffer(size_t size) : size_(size)
	{
		p_ = static_cast<uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		if (p_ == MAP_FAILED)
			fail("mmap");
	}
	~Buffer() { munmap(p_, size_); }
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;
	uint8_t *data() const { return p_; }
	size_t size() const { return size_; }

      private:
	uint8_t *p_;
	size_t size_;
};

struct ObjDeleter {
	void operator()(mlx5dv_devx_obj *obj) const
	{
		if (int err = mlx5dv_devx_obj_destroy(obj))
			std::fprintf(stderr, "# mlx5dv_devx_obj_destroy: %s\n", std::strerror(err));
	}
};
using Obj = std::unique_ptr<mlx5dv_devx_obj, ObjDeleter>;

// Makes an object; nullptr with errno, and with a status if that is EREMOTEIO.
inline Obj try_create(const Context &c, Mailbox &m)
{
	return Obj(mlx5dv_devx_obj_create(c.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len()));
}

inline Obj create(const Context &c, Mailbox &m, const char *what)
{
	Obj obj = try_create(c, m);
	if (!obj)
		fail(std::string(what) + ", status " + std::to_string(m.status()));
	return obj;
}

// The status of a creation that fails.
inline int refused(const Context &c, Mailbox &m)
{
	if (Obj obj = try_create(c, m))
		return OK;
	return m.result(errno);
}

inline int query(const Obj &obj, Mailbox &m)
{
	return m.result(mlx5dv_devx_obj_query(obj.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len()));
}

inline int modify(const Obj &obj, Mailbox &m)
{
	return m.result(mlx5dv_devx_obj_modify(obj.get(), m.in.data(), m.in_len(), m.out.data(), m.out_len()));
}

// Fails unless it works: for objects that are still in use.
inline int destroy(Obj &obj)
{
	int err = mlx5dv_devx_obj_destroy(obj.get());
	if (!err)
		(void)obj.release();
	return err;
}

class Umem {
      public:
	Umem(const Context &c, void *addr, size_t size, uint32_t access = IBV_ACCESS_LOCAL_WRITE)
	    : umem_(mlx5dv_devx_umem_reg(c.get(), addr, size, access))
	{
		if (!umem_)
			fail("mlx5dv_devx_umem_reg");
	}
	~Umem()
	{
		if (int err = umem_ ? dereg() : 0)
			std::fprintf(stderr, "# mlx5dv_devx_umem_dereg: %s\n", std::strerror(err));
	}
	Umem(const Umem &) = delete;
	Umem &operator=(const Umem &) = delete;
	uint32_t id() const { return umem_->umem_id; }
	int dereg()
	{
		int err = mlx5dv_devx_umem_dereg(umem_);
		if (!err)
			umem_ = nullptr;
		return err;
	}

      private:
	mlx5dv_devx_umem *umem_;
};

using Uar = std::unique_ptr<mlx5dv_devx_uar, Deleter<mlx5dv_devx_free_uar>>;

inline Uar alloc_uar(const Context &c, uint32_t type = MLX5DV_UAR_ALLOC_TYPE_NC)
{
	return own<Uar>(mlx5dv_devx_alloc_uar(c.get(), type), "mlx5dv_devx_alloc_uar");
}

inline uint32_t eqn(const Context &c)
{
	uint32_t n = 0;
	if (int err = mlx5dv_devx_query_eqn(c.get(), 0, &n))
		fail("query_eqn", err);
	return n;
}

inline Obj alloc_pd(const Context &c, uint32_t *pdn)
{
	Mailbox m(ALLOC_PD, 16);
	Obj obj = create(c, m, "ALLOC_PD");
	*pdn = m.number();
	return obj;
}

} // namespace rdma::devx
