/* SPDX-License-Identifier: GPL-2.0-only */
/* What queue pairs that commands make have in common, DC targets included. */
#ifndef TALLY_DEVX_QP_H
#define TALLY_DEVX_QP_H

#include "devx.h"
#include "tally.h"

/**
 * struct tally_devx_qp - a queue pair that a command has made
 * @qp: the queue pair
 * @pd: its domain
 * @send_cq: where its requests complete; NULL for a DC target
 * @recv_cq: where its receives complete
 * @srq: where its receives come from, or NULL
 */
struct tally_devx_qp {
	struct tally_qp qp;
	struct tally_pd *pd;
	struct tally_cq *send_cq;
	struct tally_cq *recv_cq;
	struct tally_srq *srq;
};

/* Puts what it stands on, as far as it has that, and frees it; the queue pair itself is not made, or not any more. */
void tally_devx_qp_put(struct tally_devx_qp *devx);

/* Of struct tally_devx_type, for an object whose @object is in such a struct. */
void tally_devx_qp_publish(struct tally_devx_obj *obj);
int tally_devx_qp_destroy(struct tally_devx_obj *obj);

#endif /* TALLY_DEVX_QP_H */
