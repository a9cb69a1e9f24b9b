/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Layouts and numbers that the hardware's programming interface fixes: work queue entries, completion queue
 * entries, doorbell records.  User space (libmlx5) and the device agree on these bytes.  Everything is
 * big-endian.  tally.ko and the native tests check them against <linux/mlx5/...> and <infiniband/mlx5dv.h>.
 */
#ifndef HCA_PRM_H
#define HCA_PRM_H

#include "port.h"

#define HCA_WQE_BB_SHIFT	6
#define HCA_WQE_BB		(1u << HCA_WQE_BB_SHIFT)
#define HCA_WQE_DS		16u	/* a WQE's size is counted in units of this */
#define HCA_WQE_MAX_DS		63u	/* the field's largest value */
#define HCA_WQE_MAX_BYTES	1024u

/* Doorbell record of a QP. */
enum { HCA_DBREC_RQ = 0, HCA_DBREC_SQ = 1 };
/* Doorbell record of a CQ. */
enum { HCA_DBREC_CQ_CI = 0, HCA_DBREC_CQ_ARM = 1 };

#define HCA_CQ_ARM_SOLICITED	(1u << 24)	/* in the arm word; without it any completion fires */
#define HCA_CQ_ARM_CI_MASK	0xffffffu

enum hca_wqe_opcode {
	HCA_OPCODE_NOP		  = 0x00,
	HCA_OPCODE_SEND_INVAL	  = 0x01,
	HCA_OPCODE_RDMA_WRITE	  = 0x08,
	HCA_OPCODE_RDMA_WRITE_IMM = 0x09,
	HCA_OPCODE_SEND		  = 0x0a,
	HCA_OPCODE_SEND_IMM	  = 0x0b,
	HCA_OPCODE_RDMA_READ	  = 0x10,
	HCA_OPCODE_ATOMIC_CS	  = 0x11,
	HCA_OPCODE_ATOMIC_FA	  = 0x12,
	HCA_OPCODE_LOCAL_INVAL	  = 0x1b,
	HCA_OPCODE_UMR		  = 0x25,
	HCA_OPCODE_MMO		  = 0x2f,
	HCA_OPCODE_COUNT	  = 0x40,	/* one more than the largest we look up */
};

struct hca_wqe_ctrl {
	__be32 opmod_idx_opcode;	/* opmod 31:24, index 23:8, opcode 7:0 */
	__be32 qpn_ds;			/* QP number 31:8, size in units of 16 bytes 5:0 */
	u8 signature;
	u8 stream[2];
	u8 fm_ce_se;			/* enum hca_wqe_ctrl_flags */
	__be32 imm;			/* immediate data or a key to invalidate */
};

enum hca_wqe_ctrl_flags {
	HCA_WQE_SOLICITED   = 1 << 1,
	HCA_WQE_CE_MASK	    = 3 << 2,
	HCA_WQE_CQ_UPDATE   = 2 << 2,
	HCA_WQE_FENCE_MASK  = 7 << 5,
};

/* Of a datagram or a DC request: where it goes.  Behind the control segment. */
struct hca_wqe_av {
	__be64 key;		/* DC access key; of a datagram the Q_Key, in the upper half */
	__be32 dqp;		/* HCA_AV_EXTENDED, QP or DCT number 23:0 */
	u8 stat_rate_sl;
	u8 fl_mlid;
	__be16 rlid;
	u8 rsvd16[4];
	u8 rmac[6];
	u8 tclass;
	u8 hop_limit;
	__be32 grh_gid_fl;	/* GRH 30, index of the own GID 27:20, flow label 19:0 */
	u8 rgid[16];
};

#define HCA_AV_EXTENDED	0x80000000u	/* all of the segment is there; on Ethernet it must be */
#define HCA_QKEY_OWN	0x80000000u	/* the QP's Q_Key instead of the request's */

/* Of an XRC request, behind the control segment. */
struct hca_wqe_xrc {
	__be32 srqn;
	u8 rsvd4[12];
};

struct hca_wqe_raddr {
	__be64 raddr;
	__be32 rkey;
	__be32 reserved;
};

struct hca_wqe_atomic {
	__be64 swap_add;
	__be64 compare;
};

/* Of HCA_OPCODE_MMO: what is done, in bits 31:24 of the control segment's first word. */
#define HCA_MMO_DMA 1u

/* Behind it come two data segments: from where, to where. */
struct hca_wqe_mmo {
	__be32 control;
	__be32 lkey;		/* memory for results, of which a copy has none */
	__be64 addr;
};

struct hca_wqe_data {
	__be32 byte_count;	/* bit 31 set: inline data of that many bytes follows this word */
	__be32 lkey;
	__be64 addr;
};

#define HCA_INLINE_SEG	   0x80000000u
#define HCA_MMO_MAX	   0x80000000u	/* bytes of a copy; byte_count 0 means as many */
#define HCA_INLINE_LEN	   0x3ffu
#define HCA_INVALID_LKEY   0x100u	/* with byte_count 0: end of a receive's scatter list */

/* Of HCA_OPCODE_UMR; the control segment's imm names the key.  A struct hca_wqe_mkey and the entries follow. */
struct hca_wqe_umr {
	u8 flags;		/* enum hca_wqe_umr_flags */
	u8 rsvd0[3];
	__be16 klm_octowords;	/* entries, in units of 16 bytes */
	__be16 translation_offset;
	__be64 mkey_mask;	/* enum hca_umr_mask: what of struct hca_wqe_mkey is meant */
	u8 rsvd1[32];
};

enum hca_wqe_umr_flags {
	HCA_UMR_CHECK_QPN   = 1 << 3,
	HCA_UMR_OFFSET	    = 1 << 4,
	HCA_UMR_CHECK_FREE  = 1 << 5,
	HCA_UMR_INLINE	    = 1 << 7,	/* else a data segment says where the entries are */
};

enum hca_umr_mask {
	HCA_UMR_LEN	      = 1 << 0,
	HCA_UMR_START_ADDR    = 1 << 6,
	HCA_UMR_MKEY	      = 1 << 13,
	HCA_UMR_QPN	      = 1 << 14,
	HCA_UMR_LOCAL_WRITE   = 1 << 18,
	HCA_UMR_REMOTE_READ   = 1 << 19,
	HCA_UMR_REMOTE_WRITE  = 1 << 20,
	HCA_UMR_ATOMIC	      = 1 << 21,
	HCA_UMR_FREE	      = 1 << 29,
	HCA_UMR_KNOWN	      = HCA_UMR_LEN | HCA_UMR_START_ADDR | HCA_UMR_MKEY | HCA_UMR_QPN | HCA_UMR_LOCAL_WRITE |
				HCA_UMR_REMOTE_READ | HCA_UMR_REMOTE_WRITE | HCA_UMR_ATOMIC | HCA_UMR_FREE,
};

struct hca_wqe_mkey {
	u8 free;		/* HCA_MKEY_FREE */
	u8 rsvd1;
	u8 access_flags;	/* enum hca_wqe_mkey_access */
	u8 sf;
	__be32 qpn_mkey;	/* QP number 31:8, variant 7:0 */
	u8 rsvd8[8];
	__be64 start_addr;
	__be64 len;
	u8 rsvd32[32];
};

#define HCA_MKEY_FREE (1u << 6)

enum hca_wqe_mkey_access {
	HCA_MKEY_LOCAL_READ   = 1 << 2,
	HCA_MKEY_LOCAL_WRITE  = 1 << 3,
	HCA_MKEY_REMOTE_READ  = 1 << 4,
	HCA_MKEY_REMOTE_WRITE = 1 << 5,
	HCA_MKEY_ATOMIC	      = 1 << 6,
};

/* An entry of a list. */
struct hca_klm {
	__be32 byte_count;	/* up to 2 GiB */
	__be32 key;
	__be64 addr;
};

/* In place of a list's first entry: a pattern follows. */
struct hca_repeat {
	__be32 byte_count;	/* of a round */
	__be32 op;		/* HCA_REPEAT_OP where a list has a key */
	__be32 repeat_count;
	__be16 rsvd;
	__be16 num_entries;
};

#define HCA_REPEAT_OP 0x400u

struct hca_repeat_entry {
	__be16 stride;
	__be16 byte_count;
	__be32 key;
	__be64 addr;
};

struct hca_wqe_srq_next {
	u8 rsvd0[2];
	__be16 next_wqe_index;
	u8 signature;
	u8 rsvd1[11];
};

enum hca_cqe_opcode {
	HCA_CQE_REQ	      = 0,
	HCA_CQE_RESP_WR_IMM   = 1,
	HCA_CQE_RESP_SEND     = 2,
	HCA_CQE_RESP_SEND_IMM = 3,
	HCA_CQE_RESP_SEND_INV = 4,
	HCA_CQE_RESIZE	      = 5,
	HCA_CQE_REQ_ERR	      = 13,
	HCA_CQE_RESP_ERR      = 14,
	HCA_CQE_INVALID	      = 15,
};

enum hca_cqe_syndrome {
	HCA_SYND_OK		      = 0x00,
	HCA_SYND_LOCAL_LENGTH	      = 0x01,
	HCA_SYND_LOCAL_QP_OP	      = 0x02,
	HCA_SYND_LOCAL_PROT	      = 0x04,
	HCA_SYND_WR_FLUSH	      = 0x05,
	HCA_SYND_MW_BIND	      = 0x06,
	HCA_SYND_BAD_RESP	      = 0x10,
	HCA_SYND_LOCAL_ACCESS	      = 0x11,
	HCA_SYND_REMOTE_INVAL_REQ     = 0x12,
	HCA_SYND_REMOTE_ACCESS	      = 0x13,
	HCA_SYND_REMOTE_OP	      = 0x14,
	HCA_SYND_TRANSPORT_RETRY_EXC  = 0x15,
	HCA_SYND_RNR_RETRY_EXC	      = 0x16,
	HCA_SYND_REMOTE_ABORTED	      = 0x22,
};

/* The last 64 bytes of a CQE, whatever its size. */
struct hca_cqe {
	u8 rsvd0[22];
	__be16 slid;
	__be32 flags_rqpn;
	u8 rsvd28[4];
	__be32 srqn_uidx;
	__be32 imm_inval_pkey;
	u8 rsvd40[4];
	__be32 byte_cnt;
	union {
		__be64 timestamp;
		struct {
			u8 rsvd48[6];
			u8 vendor_err_synd;
			u8 syndrome;
		};
	};
	__be32 sop_drop_qpn;	/* send opcode 31:24, QP number 23:0 */
	__be16 wqe_counter;
	u8 signature;
	u8 op_own;		/* enum hca_cqe_opcode 7:4, owner 0 */
};

#define HCA_CQE_SIZE 64u
/*
 * In flags_rqpn: the receive begins with a GRH; and, where InfiniBand has the service level, that the packet came by
 * UDP, and which network header the GRH is.
 */
#define HCA_CQE_GRH  (1u << 28)
#define HCA_CQE_UDP  (8u << 24)
#define HCA_CQE_IPV6 (1u << 24)
#define HCA_CQE_IPV4 (2u << 24)
#define HCA_GRH_BYTES 40u

#endif /* HCA_PRM_H */
