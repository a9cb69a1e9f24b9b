// SPDX-License-Identifier: GPL-2.0-only
/* Queue pairs: creation and destruction. */
#include "tally.h"

/* Flags that ask for nothing this device would have to do differently. */
#define QP_FLAGS_IGNORED (MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE)
/* The library names the UAR page that it will ring. */
#define QP_FLAGS (QP_FLAGS_IGNORED | MLX5_QP_FLAG_UAR_PAGE_INDEX)
/* DC comes as a type of the driver's own. */
#define QP_FLAGS_DC (MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT | MLX5_QP_FLAG_DCI_STREAM)

/* Where the two rings are in the user's buffer, once the numbers have been found good. */
struct shape {
	enum hca_qp_type type;
	size_t rq_bytes;
	size_t bytes;
};

static bool valid_count(u32 count)
{
	return count <= TALLY_MAX_WQES && (!count || is_power_of_2(count));
}

/* Returns an enum hca_qp_type or a negative errno. */
static int type_of(const struct ib_qp_init_attr *init, const struct mlx5_ib_create_qp *req)
{
	u32 dc = req->flags & QP_FLAGS_DC;

	if (dc && init->qp_type != IB_QPT_DRIVER)
		return -EINVAL;
	switch (init->qp_type) {
	case IB_QPT_RC:
		return HCA_QP_RC;
	case IB_QPT_UC:
		return HCA_QP_UC;
	case IB_QPT_UD:
		return HCA_QP_UD;
	case IB_QPT_XRC_INI:
		return HCA_QP_XRC_INI;
	case IB_QPT_XRC_TGT:
		return HCA_QP_XRC_TGT;
	case IB_QPT_DRIVER:
		if (dc == MLX5_QP_FLAG_TYPE_DCT)
			return HCA_QP_DCT;
		if ((dc & ~MLX5_QP_FLAG_DCI_STREAM) == MLX5_QP_FLAG_TYPE_DCI)
			return HCA_QP_DCI;
		return -EINVAL;
	default:
		return -EOPNOTSUPP;
	}
}

static bool sends(int type)
{
	return type != HCA_QP_DCT && type != HCA_QP_XRC_TGT;
}

/* By a queue of its own or a shared one.  What others are given for that is not looked at. */
static bool receives(int type)
{
	return type == HCA_QP_RC || type == HCA_QP_UC || type == HCA_QP_UD || type == HCA_QP_DCT;
}

/* Whether what the type needs is there. */
static int check_halves(int type, const struct ib_qp_init_attr *init, const struct mlx5_ib_create_qp *req)
{
	if (type == HCA_QP_DCT && (!init->srq || req->rq_wqe_count))
		return -EINVAL;
	if (!sends(type) && req->sq_wqe_count)
		return -EINVAL;
	if (init->srq && to_tsrq(init->srq)->hca.cq)
		return -EINVAL;
	if (sends(type) && !init->send_cq)
		return -EINVAL;
	return receives(type) && !init->recv_cq ? -EINVAL : 0;
}

/* Streams that may fail, as hca_qp_config.streams. */
static int check_streams(const struct mlx5_ib_create_qp *req)
{
	const struct mlx5_ib_create_qp_dci_streams *s = &req->dci_streams;

	BUILD_BUG_ON(1u << TALLY_LOG_STREAMS > HCA_MAX_FAILED_STREAMS);
	if (!(req->flags & MLX5_QP_FLAG_DCI_STREAM))
		return s->log_num_concurent || s->log_num_errored ? -EINVAL : 0;
	if (s->log_num_concurent > TALLY_LOG_STREAMS || s->log_num_errored > TALLY_LOG_STREAMS)
		return -EINVAL;
	return 0;
}

static int check_rq(int type, const struct ib_qp_init_attr *init, const struct mlx5_ib_create_qp *req)
{
	if (init->srq)
		return req->rq_wqe_count ? -EINVAL : 0;
	if (!valid_count(req->rq_wqe_count))
		return -EINVAL;
	if (req->rq_wqe_count < init->cap.max_recv_wr && receives(type))
		return -EINVAL;
	if (!req->rq_wqe_count)
		return 0;
	if (req->rq_wqe_shift < TALLY_MIN_RQ_SHIFT || req->rq_wqe_shift > TALLY_MAX_RQ_SHIFT)
		return -EINVAL;
	if (init->cap.max_recv_sge > (1u << req->rq_wqe_shift) / sizeof(struct hca_wqe_data))
		return -EINVAL;
	return 0;
}

static int check_sq(int type, const struct ib_qp_init_attr *init, const struct mlx5_ib_create_qp *req)
{
	if (!sends(type))
		return 0;
	if (!valid_count(req->sq_wqe_count) || req->sq_wqe_count < init->cap.max_send_wr)
		return -EINVAL;
	if (init->cap.max_send_sge > HCA_MAX_SEND_SGE || init->cap.max_inline_data > TALLY_MAX_SQ_WQE)
		return -EINVAL;
	return 0;
}

static int check_request(const struct ib_qp_init_attr *init, const struct mlx5_ib_create_qp *req,
			 struct shape *shape)
{
	int type, ret;

	if (init->create_flags & ~(init->qp_type == IB_QPT_UD ? IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK : 0))
		return -EOPNOTSUPP;
	if (req->flags & ~(QP_FLAGS | QP_FLAGS_DC))
		return -EINVAL;
	type = type_of(init, req);
	if (type < 0)
		return type;
	ret = check_halves(type, init, req);
	if (!ret)
		ret = check_streams(req);
	if (ret)
		return ret;
	shape->type = type;
	ret = check_rq(type, init, req);
	if (ret)
		return ret;
	ret = check_sq(type, init, req);
	if (ret)
		return ret;
	/* The send queue follows, and its slots are aligned to their size. */
	shape->rq_bytes = (size_t)req->rq_wqe_count << (req->rq_wqe_count ? req->rq_wqe_shift : 0);
	shape->bytes = shape->rq_bytes + ((size_t)req->sq_wqe_count << HCA_WQE_BB_SHIFT);
	if (!IS_ALIGNED(req->buf_addr | shape->rq_bytes, HCA_WQE_BB))
		return -EINVAL;
	return 0;
}

/* What CQEs carry: the library's own index, or, for those without, the number of the SRQ. */
static u32 user_index(const struct tally_ucontext *ctx, const struct ib_qp_init_attr *init,
		      const struct mlx5_ib_create_qp *req)
{
	/* Of an XRC target nothing is said: completions are of the SRQs. */
	if (!ctx)
		return 0;
	if (ctx->cqe_version)
		return req->uidx & 0xffffff;
	return init->srq ? to_tsrq(init->srq)->res.number : 0;
}

/**
 * tally_qp_unmap - give a QP's memory back
 * @qp: nobody uses it; its rings and its doorbell record are mapped or not
 */
void tally_qp_unmap(struct tally_qp *qp)
{
	tally_dbrec_unmap(&qp->dbrec, qp->ctx);
	tally_ring_unmap(&qp->ring);
}

static int map_memory(struct tally_qp *qp, const struct mlx5_ib_create_qp *req, const struct shape *shape)
{
	int ret;

	if (!shape->bytes)
		return 0;
	ret = tally_ring_map(&qp->ring, qp->ib.device, req->buf_addr, shape->bytes, IB_ACCESS_LOCAL_WRITE);
	if (ret)
		return ret;
	ret = tally_dbrec_map(&qp->dbrec, qp->ctx, req->db_addr, 2 * sizeof(__be32));
	if (ret)
		tally_qp_unmap(qp);
	return ret;
}

/**
 * tally_qp_make - a queue pair in RESET that nobody finds and no doorbell reaches yet
 * @qp: zeroed but for its device, its context and its memory, which is mapped
 * @cfg: how; gets the number
 *
 * tally_bfreg_bind() and then hca_qp_publish() follow.
 *
 * Return: 0, then tally_qp_unmake() undoes it and unmaps the memory; or -ENOMEM, then the memory is the caller's.
 */
int tally_qp_make(struct tally_qp *qp, struct hca_qp_config *cfg)
{
	struct tally_dev *dev = to_tdev(qp->ib.device);
	int ret;

	mutex_init(&qp->lock);
	ret = hca_table_reserve(&dev->hca.qps, &qp->ib.qp_num);
	if (ret)
		return ret;
	cfg->qpn = qp->ib.qp_num;
	hca_qp_init(&qp->hca, &dev->hca, cfg);
	tally_work_init(qp, qp->ctx ? qp->ctx->engine : tally_engine_next(dev));
	return 0;
}

/**
 * tally_qp_unmake - end of a queue pair
 * @qp: made, in any state
 *
 * Doorbells go first, and with the grace period they take, peers that found it by number; then the engine.
 * Then nobody is left who could touch its memory, its CQs or its counters.
 */
void tally_qp_unmake(struct tally_qp *qp)
{
	const struct hca_qp_attr reset = { .mask = HCA_ATTR_STATE, .state = HCA_QPS_RESET };

	hca_qp_unpublish(&qp->hca);
	tally_bfreg_unbind(qp);
	tally_engine_forget(qp);
	hca_qp_modify(&qp->hca, READ_ONCE(qp->hca.state), &reset);

	tally_qp_put_cntrs(qp);
	hca_table_release(&to_tdev(qp->ib.device)->hca.qps, qp->ib.qp_num);
	tally_qp_unmap(qp);
}

static int make(struct tally_qp *qp, const struct ib_qp_init_attr *init, const struct mlx5_ib_create_qp *req,
		const struct shape *shape)
{
	struct ib_cq *recv_cq = init->recv_cq ?: init->send_cq;
	struct ib_cq *send_cq = init->send_cq ?: init->recv_cq;
	struct hca_qp_config cfg = {
		.pdn = qp->ib.pd ? to_tpd(qp->ib.pd)->res.number : 0,
		.type = shape->type,
		.user_index = user_index(qp->ctx, init, req),
		.all_signaled = init->sq_sig_type == IB_SIGNAL_ALL_WR,
		.send_cq = send_cq ? &to_tcq(send_cq)->hca : NULL,
		.recv_cq = recv_cq ? &to_tcq(recv_cq)->hca : NULL,
		.srq = init->srq && receives(shape->type) ? &to_tsrq(init->srq)->hca : NULL,
		.sq_slots = req->sq_wqe_count,
		.rq_entries = req->rq_wqe_count,
		.rq_wqe_shift = req->rq_wqe_shift,
		.dbrec = qp->dbrec.addr,
	};

	if (shape->type == HCA_QP_DCT)
		cfg.key = req->access_key;
	if (shape->type == HCA_QP_XRC_TGT)
		cfg.xrcdn = to_txrcd(init->xrcd)->xrcdn;
	if (req->flags & MLX5_QP_FLAG_DCI_STREAM)
		cfg.streams = 1u << req->dci_streams.log_num_errored;
	if (!receives(shape->type))
		cfg.rq_entries = 0;
	if (cfg.rq_entries)
		cfg.rq_buf = qp->ring.addr;
	if (cfg.sq_slots)
		cfg.sq_buf = qp->ring.addr + shape->rq_bytes;
	return tally_qp_make(qp, &cfg);
}

/**
 * tally_create_qp - ib_device_ops.create_qp
 * @ib: the queue pair
 * @init: what kind and how large
 * @udata: where the library has put it; NULL for a kernel user
 *
 * Return: 0; -EOPNOTSUPP for another transport, -EINVAL for numbers that do not fit together, -ENOMEM beyond the
 *	device's limits; another negative errno.
 */
int tally_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct tally_qp *qp = to_tqp(ib);
	struct mlx5_ib_create_qp_resp resp = {};
	struct mlx5_ib_create_qp req = {};
	struct shape shape;
	int ret;

	if (!udata && init->qp_type != IB_QPT_XRC_TGT)
		return tally_gsi_create(qp, init);
	/* Of an XRC target, which has no queues, ib_core keeps the library's part to itself. */
	if (init->qp_type != IB_QPT_XRC_TGT) {
		ret = tally_udata_get(&req, sizeof(req), offsetof(struct mlx5_ib_create_qp, uidx), udata);
		if (ret)
			return ret;
	}
	ret = check_request(init, &req, &shape);
	if (ret)
		return ret;

	/* It belongs to its domain, too, and outlives the process that has made it. */
	if (shape.type != HCA_QP_XRC_TGT)
		qp->ctx = rdma_udata_to_drv_context(udata, struct tally_ucontext, ib);
	init->cap.max_recv_wr = req.rq_wqe_count;
	init->cap.max_recv_sge = req.rq_wqe_count ? (1u << req.rq_wqe_shift) / sizeof(struct hca_wqe_data) : 0;
	qp->cap = init->cap;
	qp->sig_type = init->sq_sig_type;
	qp->no_loopback = init->create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	ret = map_memory(qp, &req, &shape);
	if (ret)
		return ret;
	ret = make(qp, init, &req, &shape);
	if (ret) {
		tally_qp_unmap(qp);
		return ret;
	}
	if (!sends(shape.type))
		ret = 0;
	else if (req.flags & MLX5_QP_FLAG_UAR_PAGE_INDEX)
		ret = tally_bfreg_bind_page(qp, req.bfreg_index);
	else
		ret = tally_bfreg_bind(qp, &resp.bfreg_index);
	if (!ret && udata)
		ret = tally_udata_put(&resp, sizeof(resp), udata);
	if (ret)
		tally_qp_unmake(qp);
	else
		hca_qp_publish(&qp->hca);
	return ret;
}

/**
 * tally_destroy_qp - ib_device_ops.destroy_qp
 * @ib: the queue pair, in any state
 * @udata: unused
 *
 * Return: 0.
 */
int tally_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct tally_qp *qp = to_tqp(ib);

	if (qp->gsi)
		tally_gsi_destroy(qp);
	else
		tally_qp_unmake(qp);
	return 0;
}
