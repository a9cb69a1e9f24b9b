// SPDX-License-Identifier: GPL-2.0-only
/* The virtual HCA's layouts and numbers are those of the kernel's own headers.  Compiled, never run. */
#include <linux/mlx5/cq.h>
#include <linux/mlx5/device.h>
#include <linux/mlx5/driver.h>
#include <linux/mlx5/qp.h>
#include "tally.h"
#include "uar.h"

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs))
#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, our_field, theirs, their_field)                              \
	static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&   \
		      sizeof_field(ours, our_field) == sizeof_field(theirs, their_field))

SAME(HCA_WQE_BB, MLX5_SEND_WQE_BB);
SAME(HCA_WQE_DS, MLX5_SEND_WQE_DS);
SAME(HCA_WQE_MAX_DS, MLX5_WQE_CTRL_DS_MASK);
SAME(HCA_DBREC_RQ, MLX5_RCV_DBR);
SAME(HCA_DBREC_SQ, MLX5_SND_DBR);
SAME(TALLY_UAR_CQ_ARM, MLX5_CQ_DOORBELL);
SAME(TALLY_UAR_BFREG, MLX5_BF_OFFSET);
SAME(TALLY_BFREG_STRIDE, MLX5_BFREGS_PER_UAR);
SAME(TALLY_BFREGS_PER_UAR, MLX5_NON_FP_BFREGS_PER_UAR);
SAME(HCA_CQ_ARM_SOLICITED, MLX5_CQ_DB_REQ_NOT_SOL);

SAME(HCA_OPCODE_NOP, MLX5_OPCODE_NOP);
SAME(HCA_OPCODE_SEND_INVAL, MLX5_OPCODE_SEND_INVAL);
SAME(HCA_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE);
SAME(HCA_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_WRITE_IMM);
SAME(HCA_OPCODE_SEND, MLX5_OPCODE_SEND);
SAME(HCA_OPCODE_SEND_IMM, MLX5_OPCODE_SEND_IMM);
SAME(HCA_OPCODE_RDMA_READ, MLX5_OPCODE_RDMA_READ);
SAME(HCA_OPCODE_ATOMIC_CS, MLX5_OPCODE_ATOMIC_CS);
SAME(HCA_OPCODE_ATOMIC_FA, MLX5_OPCODE_ATOMIC_FA);
SAME(HCA_OPCODE_UMR, MLX5_OPCODE_UMR);

SAME_SIZE(struct hca_wqe_ctrl, struct mlx5_wqe_ctrl_seg);
SAME_FIELD(struct hca_wqe_ctrl, opmod_idx_opcode, struct mlx5_wqe_ctrl_seg, opmod_idx_opcode);
SAME_FIELD(struct hca_wqe_ctrl, qpn_ds, struct mlx5_wqe_ctrl_seg, qpn_ds);
SAME_FIELD(struct hca_wqe_ctrl, signature, struct mlx5_wqe_ctrl_seg, signature);
SAME_FIELD(struct hca_wqe_ctrl, fm_ce_se, struct mlx5_wqe_ctrl_seg, fm_ce_se);
SAME_FIELD(struct hca_wqe_ctrl, imm, struct mlx5_wqe_ctrl_seg, imm);
SAME(HCA_WQE_SOLICITED, MLX5_WQE_CTRL_SOLICITED);
SAME(HCA_WQE_CQ_UPDATE, MLX5_WQE_CTRL_CQ_UPDATE);

SAME_SIZE(struct hca_wqe_raddr, struct mlx5_wqe_raddr_seg);
SAME_FIELD(struct hca_wqe_raddr, raddr, struct mlx5_wqe_raddr_seg, raddr);
SAME_FIELD(struct hca_wqe_raddr, rkey, struct mlx5_wqe_raddr_seg, rkey);
SAME_SIZE(struct hca_wqe_atomic, struct mlx5_wqe_atomic_seg);
SAME_FIELD(struct hca_wqe_atomic, swap_add, struct mlx5_wqe_atomic_seg, swap_add);
SAME_FIELD(struct hca_wqe_atomic, compare, struct mlx5_wqe_atomic_seg, compare);
SAME_SIZE(struct hca_wqe_data, struct mlx5_wqe_data_seg);
SAME_FIELD(struct hca_wqe_data, byte_count, struct mlx5_wqe_data_seg, byte_count);
SAME_FIELD(struct hca_wqe_data, lkey, struct mlx5_wqe_data_seg, lkey);
SAME_FIELD(struct hca_wqe_data, addr, struct mlx5_wqe_data_seg, addr);
SAME(HCA_INLINE_SEG, MLX5_INLINE_SEG);
SAME_SIZE(struct hca_wqe_srq_next, struct mlx5_wqe_srq_next_seg);
SAME_FIELD(struct hca_wqe_srq_next, next_wqe_index, struct mlx5_wqe_srq_next_seg, next_wqe_index);

SAME_SIZE(struct hca_cqe, struct mlx5_cqe64);
SAME_FIELD(struct hca_cqe, flags_rqpn, struct mlx5_cqe64, flags_rqpn);
SAME_FIELD(struct hca_cqe, srqn_uidx, struct mlx5_cqe64, srqn);
SAME_FIELD(struct hca_cqe, imm_inval_pkey, struct mlx5_cqe64, immediate);
static_assert(offsetof(struct hca_cqe, timestamp) == offsetof(struct mlx5_cqe64, timestamp_h));
SAME_FIELD(struct hca_cqe, byte_cnt, struct mlx5_cqe64, byte_cnt);
SAME_FIELD(struct hca_cqe, sop_drop_qpn, struct mlx5_cqe64, sop_drop_qpn);
SAME_FIELD(struct hca_cqe, wqe_counter, struct mlx5_cqe64, wqe_counter);
SAME_FIELD(struct hca_cqe, op_own, struct mlx5_cqe64, op_own);
SAME_SIZE(struct hca_cqe, struct mlx5_err_cqe);
SAME_FIELD(struct hca_cqe, vendor_err_synd, struct mlx5_err_cqe, vendor_err_synd);
SAME_FIELD(struct hca_cqe, syndrome, struct mlx5_err_cqe, syndrome);
SAME_FIELD(struct hca_cqe, op_own, struct mlx5_err_cqe, op_own);

SAME(HCA_CQE_REQ, MLX5_CQE_REQ);
SAME(HCA_CQE_RESP_WR_IMM, MLX5_CQE_RESP_WR_IMM);
SAME(HCA_CQE_RESP_SEND, MLX5_CQE_RESP_SEND);
SAME(HCA_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_IMM);
SAME(HCA_CQE_RESP_SEND_INV, MLX5_CQE_RESP_SEND_INV);
SAME(HCA_CQE_RESIZE, MLX5_CQE_RESIZE_CQ);
SAME(HCA_CQE_REQ_ERR, MLX5_CQE_REQ_ERR);
SAME(HCA_CQE_RESP_ERR, MLX5_CQE_RESP_ERR);
SAME(HCA_CQE_INVALID, MLX5_CQE_INVALID);

SAME(HCA_SYND_LOCAL_LENGTH, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
SAME(HCA_SYND_LOCAL_QP_OP, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
SAME(HCA_SYND_LOCAL_PROT, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
SAME(HCA_SYND_WR_FLUSH, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
SAME(HCA_SYND_MW_BIND, MLX5_CQE_SYNDROME_MW_BIND_ERR);
SAME(HCA_SYND_BAD_RESP, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
SAME(HCA_SYND_LOCAL_ACCESS, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
SAME(HCA_SYND_REMOTE_INVAL_REQ, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
SAME(HCA_SYND_REMOTE_ACCESS, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
SAME(HCA_SYND_REMOTE_OP, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
SAME(HCA_SYND_TRANSPORT_RETRY_EXC, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
SAME(HCA_SYND_RNR_RETRY_EXC, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
SAME(HCA_SYND_REMOTE_ABORTED, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);

SAME(HCA_QPS_RESET, IB_QPS_RESET);
SAME(HCA_QPS_INIT, IB_QPS_INIT);
SAME(HCA_QPS_RTR, IB_QPS_RTR);
SAME(HCA_QPS_RTS, IB_QPS_RTS);
SAME(HCA_QPS_SQD, IB_QPS_SQD);
SAME(HCA_QPS_SQE, IB_QPS_SQE);
SAME(HCA_QPS_ERR, IB_QPS_ERR);
