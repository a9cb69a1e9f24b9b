// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a datagram's receiver finds in the 40 bytes in front of it: the network header that RoCEv2 would have.
 * Between IPv4 addresses that is an IPv4 header, in the last 20 bytes.
 */
#include <linux/ip.h>
#include <net/ip.h>
#include <rdma/ib_pack.h>
#include "tally.h"

/* Base and datagram extended transport header, and the invariant CRC. */
#define TRANSPORT_BYTES (12 + 8 + 4)

static void fill_ipv4(u8 *grh, const struct hca_av *av, u32 bytes, const u8 *from, const u8 *to)
{
	struct iphdr *ip = (struct iphdr *)(grh + HCA_GRH_BYTES - sizeof(*ip));

	memset(grh, 0, HCA_GRH_BYTES - sizeof(*ip));
	*ip = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*ip) / 4,
		.tos = av->tclass,
		.tot_len = cpu_to_be16(sizeof(*ip) + sizeof(struct udphdr) + TRANSPORT_BYTES + bytes),
		.frag_off = cpu_to_be16(IP_DF),
		.ttl = av->hop_limit,
		.protocol = IPPROTO_UDP,
	};
	memcpy(&ip->saddr, from + 12, sizeof(ip->saddr));
	memcpy(&ip->daddr, to + 12, sizeof(ip->daddr));
	ip->check = ip_fast_csum(ip, ip->ihl);
}

/**
 * tally_write_grh - the network header of a datagram
 * @av: where to
 * @from: from where
 * @bytes: of payload
 * @grh: filled in, HCA_GRH_BYTES; aligned to 4
 */
void tally_write_grh(const struct hca_av *av, const union ib_gid *from, u32 bytes, u8 *grh)
{
	struct ib_grh *h = (struct ib_grh *)grh;
	union ib_gid to;

	memcpy(to.raw, av->gid, sizeof(to.raw));
	if (ipv6_addr_v4mapped((struct in6_addr *)from->raw)) {
		fill_ipv4(grh, av, bytes, from->raw, to.raw);
		return;
	}
	*h = (struct ib_grh){
		.version_tclass_flow = cpu_to_be32(6u << 28 | av->tclass << 20 | (av->flow & 0xfffff)),
		.paylen = cpu_to_be16(sizeof(struct udphdr) + TRANSPORT_BYTES + bytes),
		.next_hdr = IPPROTO_UDP,
		.hop_limit = av->hop_limit,
		.sgid = *from,
		.dgid = to,
	};
}

/**
 * tally_fill_grh - hca_ops.fill_grh
 * @hca: the QP that sends
 * @av: where to
 * @bytes: of payload
 * @grh: filled in, HCA_GRH_BYTES; aligned to 4
 *
 * Return: whether the device has the address that @av says is its own.
 */
bool tally_fill_grh(struct hca_qp *hca, const struct hca_av *av, u32 bytes, u8 *grh)
{
	union ib_gid from;

	if (!tally_gid_at(hca_to_tdev(hca->dev), av->flow >> 20 & 0xff, &from))
		return false;
	tally_write_grh(av, &from, bytes, grh);
	return true;
}
