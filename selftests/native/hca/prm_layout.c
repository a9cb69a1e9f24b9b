// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The bytes that kernel/hca reads and writes are those that libmlx5 writes and reads: prm.h against the header
 * that rdma-core installs.  Nothing here runs; that it compiles is the test.
 */
#include <hca/prm.h>
#include <infiniband/mlx5dv.h>

#define SAME(a, b) _Static_assert((unsigned long)(a) == (unsigned long)(b), #a " is " #b)
#define SAME_FIELD(a, fa, b, fb)							\
	_Static_assert(offsetof(a, fa) == offsetof(b, fb) &&				\
			       sizeof(((a *)0)->fa) == sizeof(((b *)0)->fb),		\
		       #a "." #fa " is " #b "." #fb)

SAME(HCA_WQE_BB, MLX5_SEND_WQE_BB);
SAME(HCA_WQE_BB_SHIFT, MLX5_SEND_WQE_SHIFT);
SAME(HCA_DBREC_RQ, MLX5_RCV_DBR);
SAME(HCA_DBREC_SQ, MLX5_SND_DBR);

SAME(HCA_OPCODE_NOP, MLX5_OPCODE_NOP);
SAME(HCA_OPCODE_SEND_INVAL, MLX5_OPCODE_SEND_INVAL);
SAME(HCA_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE);
SAME(HCA_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_WRITE_IMM);
SAME(HCA_OPCODE_SEND, MLX5_OPCODE_SEND);
SAME(HCA_OPCODE_SEND_IMM, MLX5_OPCODE_SEND_IMM);
SAME(HCA_OPCODE_RDMA_READ, MLX5_OPCODE_RDMA_READ);
SAME(HCA_OPCODE_ATOMIC_CS, MLX5_OPCODE_ATOMIC_CS);
SAME(HCA_OPCODE_ATOMIC_FA, MLX5_OPCODE_ATOMIC_FA);
SAME(HCA_OPCODE_LOCAL_INVAL, MLX5_OPCODE_LOCAL_INVAL);
SAME(HCA_OPCODE_UMR, MLX5_OPCODE_UMR);
SAME(HCA_OPCODE_MMO, MLX5_OPCODE_MMO);

SAME(sizeof(struct hca_wqe_ctrl), sizeof(struct mlx5_wqe_ctrl_seg));
SAME_FIELD(struct hca_wqe_ctrl, opmod_idx_opcode, struct mlx5_wqe_ctrl_seg, opmod_idx_opcode);
SAME_FIELD(struct hca_wqe_ctrl, qpn_ds, struct mlx5_wqe_ctrl_seg, qpn_ds);
SAME_FIELD(struct hca_wqe_ctrl, signature, struct mlx5_wqe_ctrl_seg, signature);
SAME_FIELD(struct hca_wqe_ctrl, stream, struct mlx5_wqe_ctrl_seg, dci_stream_channel_id);
SAME_FIELD(struct hca_wqe_ctrl, fm_ce_se, struct mlx5_wqe_ctrl_seg, fm_ce_se);
SAME_FIELD(struct hca_wqe_ctrl, imm, struct mlx5_wqe_ctrl_seg, imm);
SAME(HCA_WQE_CQ_UPDATE, MLX5_WQE_CTRL_CQ_UPDATE);
SAME(HCA_WQE_SOLICITED, MLX5_WQE_CTRL_SOLICITED);
SAME(HCA_WQE_FENCE_MASK & MLX5_WQE_CTRL_FENCE, MLX5_WQE_CTRL_FENCE);
SAME(HCA_WQE_FENCE_MASK & MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);

SAME(sizeof(struct hca_wqe_raddr), sizeof(struct mlx5_wqe_raddr_seg));
SAME_FIELD(struct hca_wqe_raddr, raddr, struct mlx5_wqe_raddr_seg, raddr);
SAME_FIELD(struct hca_wqe_raddr, rkey, struct mlx5_wqe_raddr_seg, rkey);

SAME(sizeof(struct hca_wqe_atomic), sizeof(struct mlx5_wqe_atomic_seg));
SAME_FIELD(struct hca_wqe_atomic, swap_add, struct mlx5_wqe_atomic_seg, swap_add);
SAME_FIELD(struct hca_wqe_atomic, compare, struct mlx5_wqe_atomic_seg, compare);

SAME(sizeof(struct hca_wqe_data), sizeof(struct mlx5_wqe_data_seg));
SAME(sizeof(struct hca_wqe_data), HCA_WQE_DS);
SAME_FIELD(struct hca_wqe_data, byte_count, struct mlx5_wqe_data_seg, byte_count);
SAME_FIELD(struct hca_wqe_data, lkey, struct mlx5_wqe_data_seg, lkey);
SAME_FIELD(struct hca_wqe_data, addr, struct mlx5_wqe_data_seg, addr);
SAME_FIELD(struct hca_wqe_data, byte_count, struct mlx5_wqe_inl_data_seg, byte_count);
SAME(HCA_INLINE_SEG, MLX5_INLINE_SEG);
SAME(HCA_INVALID_LKEY, MLX5_INVALID_LKEY);

SAME(sizeof(struct hca_wqe_srq_next), sizeof(struct mlx5_wqe_srq_next_seg));
SAME_FIELD(struct hca_wqe_srq_next, next_wqe_index, struct mlx5_wqe_srq_next_seg, next_wqe_index);
SAME_FIELD(struct hca_wqe_srq_next, signature, struct mlx5_wqe_srq_next_seg, signature);

SAME(sizeof(struct hca_cqe), sizeof(struct mlx5_cqe64));
SAME(sizeof(struct hca_cqe), HCA_CQE_SIZE);
SAME_FIELD(struct hca_cqe, slid, struct mlx5_cqe64, slid);
SAME_FIELD(struct hca_cqe, flags_rqpn, struct mlx5_cqe64, flags_rqpn);
SAME_FIELD(struct hca_cqe, srqn_uidx, struct mlx5_cqe64, srqn_uidx);
SAME_FIELD(struct hca_cqe, imm_inval_pkey, struct mlx5_cqe64, imm_inval_pkey);
SAME_FIELD(struct hca_cqe, byte_cnt, struct mlx5_cqe64, byte_cnt);
SAME_FIELD(struct hca_cqe, timestamp, struct mlx5_cqe64, timestamp);
SAME_FIELD(struct hca_cqe, sop_drop_qpn, struct mlx5_cqe64, sop_drop_qpn);
SAME_FIELD(struct hca_cqe, wqe_counter, struct mlx5_cqe64, wqe_counter);
SAME_FIELD(struct hca_cqe, op_own, struct mlx5_cqe64, op_own);
/* libmlx5's layout of a failed completion, which no header installs: bytes 54 and 55 of the 64. */
SAME(offsetof(struct hca_cqe, vendor_err_synd), 54);
SAME(offsetof(struct hca_cqe, syndrome), 55);

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

SAME(sizeof(struct hca_wqe_umr), sizeof(struct mlx5_wqe_umr_ctrl_seg));
SAME_FIELD(struct hca_wqe_umr, flags, struct mlx5_wqe_umr_ctrl_seg, flags);
SAME_FIELD(struct hca_wqe_umr, klm_octowords, struct mlx5_wqe_umr_ctrl_seg, klm_octowords);
SAME_FIELD(struct hca_wqe_umr, translation_offset, struct mlx5_wqe_umr_ctrl_seg, translation_offset);
SAME_FIELD(struct hca_wqe_umr, mkey_mask, struct mlx5_wqe_umr_ctrl_seg, mkey_mask);
SAME(HCA_UMR_CHECK_QPN, MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN);
SAME(HCA_UMR_OFFSET, MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET);
SAME(HCA_UMR_CHECK_FREE, MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE);
SAME(HCA_UMR_INLINE, MLX5_WQE_UMR_CTRL_FLAG_INLINE);
SAME(HCA_UMR_LEN, MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN);
SAME(HCA_UMR_START_ADDR, MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR);
SAME(HCA_UMR_MKEY, MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY);
SAME(HCA_UMR_QPN, MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN);
SAME(HCA_UMR_LOCAL_WRITE, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE);
SAME(HCA_UMR_REMOTE_READ, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ);
SAME(HCA_UMR_REMOTE_WRITE, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE);
SAME(HCA_UMR_ATOMIC, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC);
SAME(HCA_UMR_FREE, MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);

SAME(sizeof(struct hca_wqe_mkey), sizeof(struct mlx5_wqe_mkey_context_seg));
SAME_FIELD(struct hca_wqe_mkey, free, struct mlx5_wqe_mkey_context_seg, free);
SAME_FIELD(struct hca_wqe_mkey, access_flags, struct mlx5_wqe_mkey_context_seg, access_flags);
SAME_FIELD(struct hca_wqe_mkey, qpn_mkey, struct mlx5_wqe_mkey_context_seg, qpn_mkey);
SAME_FIELD(struct hca_wqe_mkey, start_addr, struct mlx5_wqe_mkey_context_seg, start_addr);
SAME_FIELD(struct hca_wqe_mkey, len, struct mlx5_wqe_mkey_context_seg, len);
SAME(HCA_MKEY_FREE, MLX5_WQE_MKEY_CONTEXT_FREE);
SAME(HCA_MKEY_LOCAL_READ, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_READ);
SAME(HCA_MKEY_LOCAL_WRITE, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE);
SAME(HCA_MKEY_REMOTE_READ, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ);
SAME(HCA_MKEY_REMOTE_WRITE, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE);
SAME(HCA_MKEY_ATOMIC, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC);

SAME(sizeof(struct hca_klm), sizeof(struct mlx5_wqe_umr_klm_seg));
SAME_FIELD(struct hca_klm, byte_count, struct mlx5_wqe_umr_klm_seg, byte_count);
SAME_FIELD(struct hca_klm, key, struct mlx5_wqe_umr_klm_seg, mkey);
SAME_FIELD(struct hca_klm, addr, struct mlx5_wqe_umr_klm_seg, address);
SAME(sizeof(struct hca_repeat), sizeof(struct mlx5_wqe_umr_repeat_block_seg));
SAME_FIELD(struct hca_repeat, byte_count, struct mlx5_wqe_umr_repeat_block_seg, byte_count);
SAME_FIELD(struct hca_repeat, op, struct mlx5_wqe_umr_repeat_block_seg, op);
SAME_FIELD(struct hca_repeat, repeat_count, struct mlx5_wqe_umr_repeat_block_seg, repeat_count);
SAME_FIELD(struct hca_repeat, num_entries, struct mlx5_wqe_umr_repeat_block_seg, num_ent);
SAME(sizeof(struct hca_repeat_entry), sizeof(struct mlx5_wqe_umr_repeat_ent_seg));
SAME_FIELD(struct hca_repeat_entry, stride, struct mlx5_wqe_umr_repeat_ent_seg, stride);
SAME_FIELD(struct hca_repeat_entry, byte_count, struct mlx5_wqe_umr_repeat_ent_seg, byte_count);
SAME_FIELD(struct hca_repeat_entry, key, struct mlx5_wqe_umr_repeat_ent_seg, memkey);
SAME_FIELD(struct hca_repeat_entry, addr, struct mlx5_wqe_umr_repeat_ent_seg, va);

SAME(sizeof(struct hca_wqe_av), sizeof(struct mlx5_wqe_av));
SAME_FIELD(struct hca_wqe_av, key, struct mlx5_wqe_av, key);
SAME_FIELD(struct hca_wqe_av, dqp, struct mlx5_wqe_av, dqp_dct);
SAME_FIELD(struct hca_wqe_av, rmac, struct mlx5_wqe_av, rmac);
SAME_FIELD(struct hca_wqe_av, tclass, struct mlx5_wqe_av, tclass);
SAME_FIELD(struct hca_wqe_av, hop_limit, struct mlx5_wqe_av, hop_limit);
SAME_FIELD(struct hca_wqe_av, grh_gid_fl, struct mlx5_wqe_av, grh_gid_fl);
SAME_FIELD(struct hca_wqe_av, rgid, struct mlx5_wqe_av, rgid);
SAME(HCA_AV_EXTENDED, MLX5_EXTENDED_UD_AV);
