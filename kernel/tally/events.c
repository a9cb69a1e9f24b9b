// SPDX-License-Identifier: GPL-2.0-only
/* What the virtual HCA asks of its driver, all of it under the HCA's spinlocks: events, and work for the engine. */
#include <linux/mlx5/device.h>
#include "devx.h"
#include "tally.h"

static void cq_event(struct hca_cq *hca)
{
	struct tally_cq *tcq = hca_to_tcq(hca);
	struct ib_cq *cq = &tcq->ib;

	tally_linger_event(tcq);
	if (tcq->devx)
		tally_devx_event(tcq->devx, MLX5_EVENT_TYPE_COMP);
	else if (cq->comp_handler)
		cq->comp_handler(cq, cq->cq_context);
}

static void cq_timer(struct hca_cq *hca, u64 ns)
{
	hrtimer_start(&hca_to_tcq(hca)->timer, ns_to_ktime(ns), HRTIMER_MODE_REL);
}

static void cq_error(struct hca_cq *hca)
{
	struct tally_cq *tcq = hca_to_tcq(hca);
	struct ib_cq *cq = &tcq->ib;
	struct ib_event event = { .device = cq->device, .event = IB_EVENT_CQ_ERR, .element.cq = cq };

	if (tcq->devx)
		tally_devx_event(tcq->devx, MLX5_EVENT_TYPE_CQ_ERROR);
	else if (cq->event_handler)
		cq->event_handler(&event, cq->cq_context);
}

static void srq_limit(struct hca_srq *hca)
{
	struct tally_srq *tsrq = hca_to_tsrq(hca);
	struct ib_srq *srq = &tsrq->ib;
	struct ib_event event = { .device = srq->device, .event = IB_EVENT_SRQ_LIMIT_REACHED, .element.srq = srq };

	if (tsrq->devx)
		tally_devx_event(tsrq->devx, MLX5_EVENT_TYPE_SRQ_RQ_LIMIT);
	else if (srq->event_handler)
		srq->event_handler(&event, srq->srq_context);
}

static void qp_event(struct hca_qp *hca, enum hca_event what)
{
	static const struct {
		enum ib_event_type ib;
		u8 mlx5;
	} types[] = {
		[HCA_EVENT_QP_FATAL]	  = { IB_EVENT_QP_FATAL, MLX5_EVENT_TYPE_WQ_CATAS_ERROR },
		[HCA_EVENT_QP_REQ_ERR]	  = { IB_EVENT_QP_REQ_ERR, MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR },
		[HCA_EVENT_QP_ACCESS_ERR] = { IB_EVENT_QP_ACCESS_ERR, MLX5_EVENT_TYPE_WQ_ACCESS_ERROR },
		[HCA_EVENT_QP_LAST_WQE]	  = { IB_EVENT_QP_LAST_WQE_REACHED, MLX5_EVENT_TYPE_SRQ_LAST_WQE },
		[HCA_EVENT_COMM_EST]	  = { IB_EVENT_COMM_EST, MLX5_EVENT_TYPE_COMM_EST },
		[HCA_EVENT_SQ_DRAINED]	  = { IB_EVENT_SQ_DRAINED, MLX5_EVENT_TYPE_SQ_DRAINED },
	};
	struct tally_qp *qp = hca_to_tqp(hca);
	struct ib_event event = { .device = qp->ib.device, .event = types[what].ib, .element.qp = &qp->ib };

	if (what == HCA_EVENT_SQ_DRAINED && !READ_ONCE(qp->sqd_notify))
		return;
	if (qp->devx)
		tally_devx_event(qp->devx, types[what].mlx5);
	else if (qp->ib.event_handler)
		qp->ib.event_handler(&event, qp->ib.qp_context);
}

static void kick(struct hca_qp *hca)
{
	tally_engine_kick(hca_to_tqp(hca));
}

static void timer(struct hca_qp *hca, u64 ns)
{
	tally_engine_timer(hca_to_tqp(hca), ns);
}

const struct hca_ops tally_hca_ops = {
	.cq_event = cq_event,
	.cq_timer = cq_timer,
	.cq_error = cq_error,
	.srq_limit = srq_limit,
	.qp_event = qp_event,
	.kick = kick,
	.timer = timer,
	.route = tally_route,
	.route_av = tally_route_av,
	.is_there = tally_is_there,
	.multicast = tally_multicast,
	.fill_grh = tally_fill_grh,
	.xrc_srq = tally_xrc_srq,
	.counter_event = tally_cntr_event,
};
