// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The layouts and constants of <tally/wqe.hpp> against those of <infiniband/mlx5dv.h>.
#include <cstddef>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <tally/wqe.hpp>
#include <type_traits>

using namespace tally::wqe;

#define SAME_PLACE(ours, field, theirs, their_field)                                                                   \
	static_assert(offsetof(ours, field) == offsetof(theirs, their_field));                                         \
	static_assert(sizeof(ours::field) == sizeof(theirs::their_field))

static_assert(sizeof(ctrl_seg) == sizeof(mlx5_wqe_ctrl_seg));
SAME_PLACE(ctrl_seg, opmod_index_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
SAME_PLACE(ctrl_seg, qpn_units, mlx5_wqe_ctrl_seg, qpn_ds);
SAME_PLACE(ctrl_seg, imm, mlx5_wqe_ctrl_seg, imm);
static_assert(offsetof(ctrl_seg, signature_stream_fm_ce_se) == offsetof(mlx5_wqe_ctrl_seg, signature));
static_assert(offsetof(mlx5_wqe_ctrl_seg, dci_stream_channel_id) == 9 && offsetof(mlx5_wqe_ctrl_seg, fm_ce_se) == 11);

static_assert(sizeof(data_seg) == sizeof(mlx5_wqe_data_seg));
SAME_PLACE(data_seg, byte_count, mlx5_wqe_data_seg, byte_count);
SAME_PLACE(data_seg, lkey, mlx5_wqe_data_seg, lkey);
SAME_PLACE(data_seg, addr, mlx5_wqe_data_seg, addr);
static_assert(sizeof(data_seg) == sizeof(mlx5_wqe_umr_klm_seg));
SAME_PLACE(data_seg, byte_count, mlx5_wqe_umr_klm_seg, byte_count);
SAME_PLACE(data_seg, lkey, mlx5_wqe_umr_klm_seg, mkey);
SAME_PLACE(data_seg, addr, mlx5_wqe_umr_klm_seg, address);
SAME_PLACE(inline_seg, byte_count, mlx5_wqe_inl_data_seg, byte_count);

static_assert(sizeof(raddr_seg) == sizeof(mlx5_wqe_raddr_seg));
SAME_PLACE(raddr_seg, addr, mlx5_wqe_raddr_seg, raddr);
SAME_PLACE(raddr_seg, rkey, mlx5_wqe_raddr_seg, rkey);
static_assert(sizeof(atomic_seg) == sizeof(mlx5_wqe_atomic_seg));
SAME_PLACE(atomic_seg, swap_add, mlx5_wqe_atomic_seg, swap_add);
SAME_PLACE(atomic_seg, compare, mlx5_wqe_atomic_seg, compare);

static_assert(sizeof(av_seg) == sizeof(mlx5_wqe_av) && sizeof(av_seg) == sizeof(mlx5_wqe_datagram_seg));
SAME_PLACE(av_seg, key, mlx5_wqe_av, key.dc_key);
static_assert(offsetof(mlx5_wqe_av, key.qkey.qkey) == 0);
SAME_PLACE(av_seg, number, mlx5_wqe_av, dqp_dct);
SAME_PLACE(av_seg, stat_rate_sl, mlx5_wqe_av, stat_rate_sl);
SAME_PLACE(av_seg, fl_mlid, mlx5_wqe_av, fl_mlid);
SAME_PLACE(av_seg, rlid, mlx5_wqe_av, rlid);
SAME_PLACE(av_seg, rmac, mlx5_wqe_av, rmac);
SAME_PLACE(av_seg, tclass, mlx5_wqe_av, tclass);
SAME_PLACE(av_seg, hop_limit, mlx5_wqe_av, hop_limit);
SAME_PLACE(av_seg, grh_gid_fl, mlx5_wqe_av, grh_gid_fl);
SAME_PLACE(av_seg, rgid, mlx5_wqe_av, rgid);

static_assert(sizeof(umr_ctrl_seg) == sizeof(mlx5_wqe_umr_ctrl_seg));
SAME_PLACE(umr_ctrl_seg, flags, mlx5_wqe_umr_ctrl_seg, flags);
SAME_PLACE(umr_ctrl_seg, klm_units, mlx5_wqe_umr_ctrl_seg, klm_octowords);
SAME_PLACE(umr_ctrl_seg, translation_offset, mlx5_wqe_umr_ctrl_seg, translation_offset);
SAME_PLACE(umr_ctrl_seg, mkey_mask, mlx5_wqe_umr_ctrl_seg, mkey_mask);

static_assert(sizeof(mkey_seg) == sizeof(mlx5_wqe_mkey_context_seg));
SAME_PLACE(mkey_seg, free, mlx5_wqe_mkey_context_seg, free);
SAME_PLACE(mkey_seg, access, mlx5_wqe_mkey_context_seg, access_flags);
SAME_PLACE(mkey_seg, sf, mlx5_wqe_mkey_context_seg, sf);
SAME_PLACE(mkey_seg, qpn_tag, mlx5_wqe_mkey_context_seg, qpn_mkey);
SAME_PLACE(mkey_seg, flags_pd, mlx5_wqe_mkey_context_seg, flags_pd);
SAME_PLACE(mkey_seg, start, mlx5_wqe_mkey_context_seg, start_addr);
SAME_PLACE(mkey_seg, length, mlx5_wqe_mkey_context_seg, len);
SAME_PLACE(mkey_seg, bsf_units, mlx5_wqe_mkey_context_seg, bsf_octword_size);
SAME_PLACE(mkey_seg, translation_units, mlx5_wqe_mkey_context_seg, translations_octword_size);
SAME_PLACE(mkey_seg, log_page_size, mlx5_wqe_mkey_context_seg, log_page_size);

static_assert(sizeof(repeat_seg) == sizeof(mlx5_wqe_umr_repeat_block_seg));
SAME_PLACE(repeat_seg, byte_count, mlx5_wqe_umr_repeat_block_seg, byte_count);
SAME_PLACE(repeat_seg, op, mlx5_wqe_umr_repeat_block_seg, op);
SAME_PLACE(repeat_seg, repeat_count, mlx5_wqe_umr_repeat_block_seg, repeat_count);
SAME_PLACE(repeat_seg, entries, mlx5_wqe_umr_repeat_block_seg, num_ent);
static_assert(sizeof(stride_seg) == sizeof(mlx5_wqe_umr_repeat_ent_seg));
SAME_PLACE(stride_seg, stride, mlx5_wqe_umr_repeat_ent_seg, stride);
SAME_PLACE(stride_seg, byte_count, mlx5_wqe_umr_repeat_ent_seg, byte_count);
SAME_PLACE(stride_seg, lkey, mlx5_wqe_umr_repeat_ent_seg, memkey);
SAME_PLACE(stride_seg, addr, mlx5_wqe_umr_repeat_ent_seg, va);

// Two enumerators of different types.
template <class A, class B> constexpr bool equal(A a, B b)
{
	return static_cast<std::uint64_t>(a) == static_cast<std::uint32_t>(b);
}

static_assert(equal(op_nop, MLX5_OPCODE_NOP) && equal(op_send_inval, MLX5_OPCODE_SEND_INVAL));
static_assert(equal(op_rdma_write, MLX5_OPCODE_RDMA_WRITE) && equal(op_rdma_write_imm, MLX5_OPCODE_RDMA_WRITE_IMM));
static_assert(equal(op_send, MLX5_OPCODE_SEND) && equal(op_send_imm, MLX5_OPCODE_SEND_IMM));
static_assert(equal(op_rdma_read, MLX5_OPCODE_RDMA_READ) && equal(op_atomic_cs, MLX5_OPCODE_ATOMIC_CS));
static_assert(equal(op_atomic_fa, MLX5_OPCODE_ATOMIC_FA) && equal(op_umr, MLX5_OPCODE_UMR));
static_assert(equal(op_mmo, MLX5_OPCODE_MMO));

static_assert(equal(signaled, MLX5_WQE_CTRL_CQ_UPDATE) && equal(solicited, MLX5_WQE_CTRL_SOLICITED));
static_assert(equal(strong_fence, MLX5_WQE_CTRL_FENCE) && equal(small_fence, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE));
static_assert(equal(local_write, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE));
static_assert(equal(remote_read, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ));
static_assert(equal(remote_write, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE));
static_assert(equal(remote_atomic, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC));
static_assert(equal(inline_bit, MLX5_INLINE_SEG) && equal(av_extended, MLX5_EXTENDED_UD_AV));
static_assert(equal(block_bytes, MLX5_SEND_WQE_BB) && equal(mkey_free, MLX5_WQE_MKEY_CONTEXT_FREE));
static_assert(equal(umr_inline, MLX5_WQE_UMR_CTRL_FLAG_INLINE) &&
	      equal(umr_check_qpn, MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN));
static_assert(equal(umr_translation_offset, MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET));
static_assert(equal(umr_mask_length, MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN));
static_assert(equal(umr_mask_mkey, MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY));
static_assert(equal(umr_mask_qpn, MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN));
static_assert(equal(umr_mask_free, MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE));
static_assert(equal(umr_mask_access, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |
					     MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
					     MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE |
					     MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC));

static_assert(std::is_trivially_copyable_v<ctrl_seg> && std::is_standard_layout_v<mkey_seg>);
static_assert(be16(0x1234).host() == 0x1234 && be64(0x123456789abcdef0).host() == 0x123456789abcdef0);

TEST(layout, numbers_are_big_endian_in_memory)
{
	EXPECT_EQ(be16(0x0102).raw(), htobe16(0x0102));
	EXPECT_EQ(be32(0x01020304).raw(), htobe32(0x01020304));
	EXPECT_EQ(be64(0x0102030405060708).raw(), htobe64(0x0102030405060708));
}

TEST(layout, entries_of_the_longest_umr_fit_into_the_longest_wqe)
{
	EXPECT_LE(register_list(0, 0, {nullptr, max_umr_pieces}).units(), max_units);
	EXPECT_GT(register_list(0, 0, {nullptr, max_umr_pieces + 1}).units(), max_units);
	EXPECT_LE(register_interleaved(0, 0, 1, nullptr, max_umr_strides).units(), max_units);
	EXPECT_GT(register_interleaved(0, 0, 1, nullptr, max_umr_strides + 1).units(), max_units);
}
