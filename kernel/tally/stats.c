// SPDX-License-Identifier: GPL-2.0-only
/* Hardware counters, for rdma statistic: those of the virtual HCA, then the driver's. */
#include "tally.h"

/* In the order of enum hca_stat, then of enum tally_stat. */
static const struct rdma_stat_desc descs[] = {
	[HCA_STAT_WQES].name			      = "wqes",
	[HCA_STAT_BYTES].name			      = "bytes",
	[HCA_STAT_CQES].name			      = "cqes",
	[HCA_STAT_EVENTS].name			      = "completion_events",
	[HCA_STAT_ERR_LOCAL].name		      = "req_local_errors",
	[HCA_STAT_ERR_REMOTE].name		      = "req_remote_errors",
	[HCA_STAT_ERR_RESPONDER].name		      = "resp_refused",
	[HCA_STAT_ERR_FLUSH].name		      = "flush_errors",
	[HCA_STAT_ERR_RETRY].name		      = "retry_exceeded_errors",
	[HCA_STAT_ERR_RNR].name			      = "rnr_exceeded_errors",
	[HCA_STAT_ERR_CQ_OVERRUN].name		      = "cq_overruns",
	[HCA_STAT_RNR_NAK].name			      = "rnr_naks",
	[HCA_STAT_NO_RESPONSE].name		      = "no_response",
	[HCA_STAT_COUNT + TALLY_STAT_DB_TRAPPED].name     = "doorbells_trapped",
	[HCA_STAT_COUNT + TALLY_STAT_DB_POLLED].name      = "doorbells_polled",
	[HCA_STAT_COUNT + TALLY_STAT_MODE_SWITCHES].name  = "doorbell_mode_switches",
	[HCA_STAT_COUNT + TALLY_STAT_DB_UNDECODED].name   = "doorbell_undecoded_stores",
	[HCA_STAT_COUNT + TALLY_STAT_CQ_ARMS].name	      = "cq_arms",
	[HCA_STAT_COUNT + TALLY_STAT_LINGERED].name	      = "cq_arms_lingered",
	[HCA_STAT_COUNT + TALLY_STAT_ENGINE_WAKEUPS].name = "engine_wakeups",
	[HCA_STAT_COUNT + TALLY_STAT_ENGINE_RUNS].name    = "engine_runs",
};

static_assert(ARRAY_SIZE(descs) == HCA_STAT_COUNT + (int)TALLY_STAT_COUNT);

/**
 * tally_alloc_hw_port_stats - ib_device_ops.alloc_hw_port_stats
 * @ib: the device
 * @port: its only one
 *
 * Return: names of the counters, never older than the moment; NULL without memory.
 */
struct rdma_hw_stats *tally_alloc_hw_port_stats(struct ib_device *ib, u32 port)
{
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs), 0);
}

/**
 * tally_get_hw_stats - ib_device_ops.get_hw_stats
 * @ib: the device
 * @stats: filled in
 * @port: 0 is the device as a whole, which has none
 * @index: all are read whatever it says
 *
 * Return: how many were read, or -EINVAL.
 */
int tally_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct tally_dev *dev = to_tdev(ib);
	int cpu, i;

	if (!port)
		return -EINVAL;
	memset(stats->value, 0, sizeof(*stats->value) * ARRAY_SIZE(descs));
	for_each_possible_cpu(cpu) {
		const struct hca_stats *hca = per_cpu_ptr(dev->hca.stats, cpu);
		const struct tally_stats *own = per_cpu_ptr(dev->stats, cpu);

		for (i = 0; i < HCA_STAT_COUNT; i++)
			stats->value[i] += READ_ONCE(hca->v[i]);
		for (i = 0; i < TALLY_STAT_COUNT; i++)
			stats->value[HCA_STAT_COUNT + i] += READ_ONCE(own->v[i]);
	}
	return ARRAY_SIZE(descs);
}
