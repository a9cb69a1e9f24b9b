/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Command layouts that <linux/mlx5/mlx5_ifc.h> has not got yet, in its notation: one array element is one bit,
 * for MLX5_GET() and MLX5_SET().  Numbers and names are the programmer's reference manual's; user space has them
 * in rdma-core's mlx5_ifc.h.
 */
#ifndef TALLY_IFC_H
#define TALLY_IFC_H

#include <linux/types.h>

/* What all commands on an object have in common. */
struct mlx5_ifc_tally_obj_cmd_bits {
	u8 opcode[0x10];
	u8 uid[0x10];
	u8 reserved_at_20[0x10];
	u8 op_mod[0x10];
	u8 reserved_at_40[0x8];
	u8 number[0x18];
	u8 reserved_at_60[0x20];
};

/* A view of create_cq_in: where registered memory is named; of its dbr_addr in cqc, the offset is left. */
struct mlx5_ifc_tally_create_cq_umem_bits {
	u8 reserved_at_0[0xa0];
	u8 dbr_umem_id[0x20];
	u8 reserved_at_c0[0x1c0];
	u8 cq_umem_offset[0x40];
	u8 cq_umem_id[0x20];
	u8 reserved_at_2e0[0x5a0];
};

/* Likewise, of create_qp_in. */
struct mlx5_ifc_tally_create_qp_umem_bits {
	u8 reserved_at_0[0x7e0];
	u8 dbr_umem_id[0x20];
	u8 wq_umem_offset[0x40];
	u8 wq_umem_id[0x20];
	u8 reserved_at_860[0x20];
};

/* Likewise, of create_rmp_in. */
struct mlx5_ifc_tally_create_rmp_umem_bits {
	u8 reserved_at_0[0x3c0];
	u8 dbr_umem_id[0x20];
	u8 wq_umem_id[0x20];
	u8 wq_umem_offset[0x40];
	u8 reserved_at_440[0x40];
};

/* Likewise, of create_mkey_in. */
struct mlx5_ifc_tally_create_mkey_umem_bits {
	u8 reserved_at_0[0x320];
	u8 mkey_umem_id[0x20];
	u8 mkey_umem_offset[0x40];
	u8 reserved_at_380[0x500];
};

/* A view of cmd_hca_cap. */
struct mlx5_ifc_tally_mmo_cap_bits {
	u8 reserved_at_0[0x6b];
	u8 log_dma_mmo_max_size[0x5];
	u8 reserved_at_70[0xe1];
	u8 rts2rts_qp_udp_sport[0x1];
	u8 reserved_at_152[0x1];
	u8 dma_mmo_sq[0x1];
	u8 reserved_at_154[0x5f4];
	u8 dma_mmo_qp[0x1];
	u8 reserved_at_749[0xb7];
};

/* Another one. */
struct mlx5_ifc_tally_qpc_cap_bits {
	u8 reserved_at_0[0x122];
	u8 qpc_extension[0x1];
	u8 reserved_at_123[0x6dd];
};

/* A view of init2init_qp_in, which rts2rts_qp_in looks like. */
struct mlx5_ifc_tally_init2init_ext_bits {
	u8 reserved_at_0[0x40];
	u8 qpc_ext[0x1];
	u8 reserved_at_41[0x7];
	u8 qpn[0x18];
	u8 reserved_at_60[0x20];
	u8 opt_param_mask[0x20];
	u8 reserved_at_a0[0x7a0];
	u8 opt_param_mask_95_32[0x40];
	u8 reserved_at_880[0x2];
	u8 mmo[0x1];
	u8 reserved_at_883[0xd];
	u8 dci_stream_channel_id[0x10];
	u8 reserved_at_8a0[0x5e0];
};

/* Of modify_field_select. */
#define TALLY_CQ_MODIFY_PERIOD_MODE BIT(4)

/* A kind of general objects. */
#define TALLY_OBJ_TYPE_RESERVED_QPN 0x2c

/* Of opt_param_mask_95_32. */
#define TALLY_QPC_OPT_MASK_MMO BIT_ULL(3)
#define TALLY_QPC_OPT_MASK_STREAM BIT_ULL(0)
#define TALLY_QPC_OPT_MASK_UDP_SPORT BIT_ULL(2)

#endif /* TALLY_IFC_H */
