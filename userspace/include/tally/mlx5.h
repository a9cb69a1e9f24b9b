/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mlx5 work requests through ibv_wr_*() and mlx5dv_wr_*(), with WQEs of Tally's making.
 *
 * For programs written against those functions; in libtally-mlx5, which needs libmlx5.  C++ programs that want the
 * shortest path use <tally/work_queue.hpp>.
 */
#ifndef TALLY_MLX5_H
#define TALLY_MLX5_H

#include <stdint.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * tally_mlx5dv_qp_ex_from_qp - builders over a queue pair of libmlx5
 * @qp: of mlx5dv_create_qp(), with any send_ops_flags of mlx5dv; must outlive the handle
 * @send_ops_flags: which of ibv_wr_*() will be used, IBV_QP_EX_WITH_*
 * @dv_send_ops_flags: which of mlx5dv_wr_*(), MLX5DV_QP_EX_WITH_*
 *
 * Stands where mlx5dv_qp_ex_from_ibv_qp_ex() does, and tally_ibv_qp_ex_from_mlx5dv_qp_ex() where ibv_qp_to_qp_ex()
 * does.  Each WQE is written here and handed to libmlx5 as a raw one, so that libmlx5 keeps its books: wr_id, flow
 * control and locking are as ever with ibv_poll_cq() and ibv_start_poll(), and ibv_post_send() and libmlx5's own
 * builders may be used on the same queue pair.  What differs:
 *
 * - The opcode of a send's completion is IBV_WC_DRIVER2, as of every raw WQE.
 * - A request of libmlx5's right behind an UMR or IBV_WR_LOCAL_INV of this handle needs IBV_SEND_FENCE.
 *   The other way round the fence is added.
 * - Only the device checks an mkey's max_entries, and mkeys with signature or crypto are not for this.
 *
 * Returns the handle, or NULL and sets errno.  ENOTSUP: @qp is not of mlx5 or was made without send_ops_flags of
 * mlx5dv; or a flag is not for its type, device or this library (which has no memory windows, TSO, and mkey
 * configuration).  ENOMEM.
 */
struct mlx5dv_qp_ex *tally_mlx5dv_qp_ex_from_qp(struct ibv_qp *qp, uint64_t send_ops_flags, uint64_t dv_send_ops_flags);

/**
 * tally_ibv_qp_ex_from_mlx5dv_qp_ex - the handle for ibv_wr_*()
 * @qp: of tally_mlx5dv_qp_ex_from_qp()
 *
 * Lives as long as @qp.  Its qp_base names the queue pair (context, pd, qp_num, ...) but is a copy: calls on queue
 * pairs take the original.
 */
struct ibv_qp_ex *tally_ibv_qp_ex_from_mlx5dv_qp_ex(struct mlx5dv_qp_ex *qp);

/**
 * tally_destroy_mlx5dv_qp_ex - end a handle
 * @qp: of tally_mlx5dv_qp_ex_from_qp(), or NULL; not between start and complete, nor with copies under way
 */
void tally_destroy_mlx5dv_qp_ex(struct mlx5dv_qp_ex *qp);

#ifdef __cplusplus
}
#endif

#endif /* TALLY_MLX5_H */
