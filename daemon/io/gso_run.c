// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gso_run.h"

#include <string.h>

#include <xroce/parse.h>

/* The IP packet, and the datagram in it, have 16 bits for their length. */
#define MAX_DATAGRAM (UINT16_MAX - XR_IPV4_HLEN)

static bool gso_run_same(const uint8_t *a, const uint8_t *b, uint32_t from, uint32_t end)
{
	return !memcmp(a + from, b + from, end - from);
}

/* Compares what IPv4 headers share in a run. The kernel counts the identification up. */
static bool continues_ipv4(const uint8_t *first, const uint8_t *ip, uint32_t index)
{
	const struct xr_ipv4 *a = (const struct xr_ipv4 *)first, *b = (const struct xr_ipv4 *)ip;

	return gso_run_same(first, ip, 0, offsetof(struct xr_ipv4, len)) &&
	       gso_run_same(first, ip, offsetof(struct xr_ipv4, frag),
			    offsetof(struct xr_ipv4, check)) &&
	       gso_run_same(first, ip, offsetof(struct xr_ipv4, src), XR_IPV4_HLEN) &&
	       (uint16_t)(xr_be16(a->id) + index) == xr_be16(b->id);
}

static bool continues_ipv6(const uint8_t *first, const uint8_t *ip)
{
	return gso_run_same(first, ip, 0, offsetof(struct xr_ipv6, len)) &&
	       gso_run_same(first, ip, offsetof(struct xr_ipv6, next_header), XR_IPV6_HLEN);
}

bool xd_gso_continues_flow(const uint8_t *first, const struct xr_meta *a, const uint8_t *next,
			   const struct xr_meta *b, uint32_t index)
{
	uint32_t ip = a->ip_off, udp = a->bth_off - XR_UDP_HLEN;

	if (b->ip_off != ip || b->bth_off != a->bth_off || b->ip_version != a->ip_version ||
	    !gso_run_same(first, next, 0, ip))
		return false;
	if (!(a->ip_version == 4 ? continues_ipv4(first + ip, next + ip, index)
				 : continues_ipv6(first + ip, next + ip)))
		return false;
	return gso_run_same(first, next, udp, udp + offsetof(struct xr_udp, len));
}

bool xd_gso_continues(const uint8_t *first, const struct xr_meta *a, const uint8_t *next,
		      const struct xr_meta *b, uint32_t index)
{
	uint32_t bth = a->bth_off;

	return xd_gso_continues_flow(first, a, next, b, index) &&
	       gso_run_same(first, next, bth + offsetof(struct xr_bth, fecn_dqpn),
			    bth + offsetof(struct xr_bth, ack_psn));
}

/* The kernel segments frames without VLAN tags only. */
static bool possible(const struct xt_frame *f)
{
	return f->meta.ip_off == XR_ETH_HLEN && f->nseg <= 2;
}

/*
 * Copies what the functions of this file and the ring need, field by field. The processor has just
 * written the fields, and wider reads would wait until the payload before them is in the cache.
 */
static void gso_run_keep(struct xt_frame *to, const struct xt_frame *f)
{
	for (uint32_t i = 0; i < f->nseg; i++) {
		to->seg[i].data = f->seg[i].data;
		to->seg[i].len = f->seg[i].len;
	}
	to->nseg = f->nseg;
	to->len = f->len;
	to->meta.ip_version = f->meta.ip_version;
	to->meta.ip_off = f->meta.ip_off;
	to->meta.bth_off = f->meta.bth_off;
}

bool xd_gso_run_add(struct xd_gso_run *run, const struct xt_frame *f)
{
	uint32_t size = f->len - f->meta.bth_off;

	if (!run->count) {
		run->size = size;
		run->total = 0;
		run->ended = !possible(f);
	} else if (run->ended || run->count == XD_GSO_RUN || size > run->size || !possible(f) ||
		   run->total + size > MAX_DATAGRAM - XR_UDP_HLEN ||
		   !xd_gso_continues(run->frame[0].seg[0].data, &run->frame[0].meta, f->seg[0].data,
				     &f->meta, run->count)) {
		return false;
	}
	gso_run_keep(&run->frame[run->count++], f);
	run->total += size;
	run->ended |= size < run->size;
	return true;
}

bool xd_gso_run_is_long(const struct xd_gso_run *run)
{
	return run->count >= XD_GSO_RUN / 2 || run->total >= MAX_DATAGRAM / 2;
}
