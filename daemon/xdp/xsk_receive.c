// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Receives from all queues of a worker. A batch has frames of as many of them as it has room for;
 * the next batch begins with the queue behind the last one, so that none waits for another that
 * always has frames.
 */
#include <string.h>

#include "daemon/io/count.h"
#include "xsk_internal.h"

/* Descriptors of a queue that a batch takes at most */
#define RX_DESCS ((uint32_t)XD_BATCH * XT_MAX_SEGS)

/* Returns the number of buffers that the kernel has filled and that were not taken yet. */
static uint32_t waiting(const struct xd_xsk_queue *q)
{
	return __atomic_load_n(q->rx.producer, __ATOMIC_RELAXED) - q->rx.cached_cons;
}

bool xd_xsk_pending(struct xd_socket *s)
{
	const struct xd_xsk *x = xd_xsk_of(s);

	for (uint32_t i = 0; i < x->queues; i++)
		if (waiting(&x->queue[i]))
			return true;
	return false;
}

/* ---- frames ------------------------------------------------------------------------------- */

/*
 * Metadata is in front of the first byte. Frames without metadata are dropped: another XDP program
 * has redirected them. Such a program can also write wrong metadata, so the engine checks every
 * offset against the frame.
 */
static bool read_meta(struct xd_xsk *x, const uint8_t *data, struct xr_meta *meta)
{
	memcpy(meta, data - sizeof(*meta), sizeof(*meta));
	if (meta->magic == XR_META_MAGIC)
		return true;
	xd_count(&x->stats.rx_no_metadata, 1);
	return false;
}

/* Returns the number of descriptors of the next frame; 0: the last one has not arrived yet. */
static uint32_t count_descs(const struct xd_xsk_queue *q, uint32_t idx, uint32_t avail)
{
	for (uint32_t n = 0; n < avail; n++)
		if (!(xsk_ring_cons__rx_desc(&q->rx, idx + n)->options & XDP_PKT_CONTD))
			return n + 1;
	return 0;
}

/* Sets seg[] to the buffers of a frame, and returns its length. */
static uint32_t take_segs(const struct xd_xsk_queue *q, uint32_t idx, uint32_t descs,
			  struct xt_seg *seg)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < descs; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&q->rx, idx + i);

		seg[i] = (struct xt_seg){ q->area + d->addr, d->len };
		len += d->len;
	}
	return len;
}

/* Returns the number of packets, 0 if the frame was dropped. */
static uint32_t take_single(struct xd_xsk *x, const struct xd_xsk_queue *q, uint32_t idx,
			    uint32_t descs, struct xt_frame *f)
{
	if (descs > XT_MAX_SEGS) {
		xd_count(&x->stats.rx_too_long, 1);
		return 0;
	}
	f->nseg = descs;
	f->len = take_segs(q, idx, descs, f->seg);
	f->forwarded = f->self = false;
	f->inject = f->refusal = (struct xt_inject){ XT_INJECT_NONE, 0 };
	return 1;
}

/*
 * Divides a GSO frame into at most max packets. Returns their number, 0 if the frame was dropped,
 * -1 if it has more than max packets.
 */
static int take_gso(struct xd_xsk *x, const struct xd_xsk_queue *q, uint32_t idx, uint32_t descs,
		    struct xt_frame *frames, unsigned int max)
{
	struct xd_gso_frame *gso = &x->rx.gso;
	uint32_t count = 0, n;

	if (descs <= XD_GSO_SEGS) {
		gso->nseg = descs;
		gso->len = take_segs(q, idx, descs, gso->seg);
		count = xd_gso_count(gso);
	}
	if (!count) {
		xd_count(&x->stats.rx_too_long, 1);
		return 0;
	}
	if (count > max)
		return -1;
	n = xd_gso_split(gso, count, &x->rx.headers[XD_BATCH - max], frames);
	xd_count(&x->stats.rx_gso_frames, 1);
	xd_count(&x->stats.rx_gso_packets, n);
	xd_count(&x->stats.rx_gso_refused, count - n);
	return (int)n;
}

/* Takes the packets of one frame; results as those of take_gso(). */
static int take_frame(struct xd_xsk *x, const struct xd_xsk_queue *q, uint32_t idx, uint32_t descs,
		      struct xt_frame *frames, unsigned int max)
{
	const uint8_t *data = q->area + xsk_ring_cons__rx_desc(&q->rx, idx)->addr;
	struct xr_meta *meta = &x->rx.gso.meta;
	int n;

	if (!read_meta(x, data, meta))
		return 0;
	if (meta->gso_size) {
		n = take_gso(x, q, idx, descs, frames, max);
	} else {
		frames->meta = *meta;
		n = (int)take_single(x, q, idx, descs, frames);
	}
	for (int i = 0; i < n; i++)
		frames[i].queue = (uint8_t)q->number;
	return n;
}

/* ---- a batch ------------------------------------------------------------------------------ */

/* Takes frames of one queue. Returns the number of packets. *full: the next frame has too many. */
static unsigned int take_queue(struct xd_xsk *x, struct xd_xsk_queue *q, struct xt_frame *frames,
			       unsigned int max, bool *full)
{
	uint32_t avail = xsk_cons_nb_avail(&q->rx, RX_DESCS), idx = q->rx.cached_cons, pos = 0;
	unsigned int n = 0;
	uint32_t descs;
	int packets;

	while (n < max) {
		descs = count_descs(q, idx + pos, avail - pos);
		if (!descs)
			break;
		packets = take_frame(x, q, idx + pos, descs, &frames[n], max - n);
		*full = packets < 0;
		if (*full)
			break;
		n += (unsigned int)packets;
		pos += descs;
	}
	q->rx.cached_cons += pos;
	q->taken = pos;
	return n;
}

static void set_depth(struct xd_xsk *x, struct xd_xsk_queue *q, uint32_t filled, uint64_t now)
{
	xd_xsk_queue_set_depth(q, xd_rx_depth(&q->depth, x->rx.receivers, filled, now));
}

/* More QPs need more buffers, in queues that have no frames yet as well. */
static void follow_receivers(struct xd_xsk *x, uint64_t now)
{
	const struct xt_receivers *r = x->rx.receivers;
	struct xt_receivers is = { __atomic_load_n(&r->reliable, __ATOMIC_RELAXED),
				   __atomic_load_n(&r->unreliable, __ATOMIC_RELAXED) };

	if (is.reliable == x->rx.seen.reliable && is.unreliable == x->rx.seen.unreliable)
		return;
	x->rx.seen = is;
	for (uint32_t i = 0; i < x->queues; i++)
		set_depth(x, &x->queue[i], waiting(&x->queue[i]), now);
}

unsigned int xd_xsk_recv(struct xd_socket *s, struct xt_frame *frames, unsigned int max,
			 uint64_t now)
{
	struct xd_xsk *x = xd_xsk_of(s);
	uint32_t at = x->rx.next, filled;
	unsigned int n = 0;
	bool full = false;

	follow_receivers(x, now);
	for (uint32_t i = 0; i < x->queues && n < max && !full; i++) {
		struct xd_xsk_queue *q = &x->queue[at];

		filled = waiting(q);
		if (filled) {
			set_depth(x, q, filled, now);
			n += take_queue(x, q, &frames[n], max - n, &full);
			if (q->taken)
				x->rx.touched[x->rx.touched_count++] = (uint8_t)at;
		}
		at = at + 1 < x->queues ? at + 1 : 0;
	}
	x->rx.next = at;
	if (!n) /* all frames were dropped, so the caller has none to give back */
		xd_xsk_recv_done(s);
	return n;
}

void xd_xsk_recv_done(struct xd_socket *s)
{
	struct xd_xsk *x = xd_xsk_of(s);

	for (uint32_t i = 0; i < x->rx.touched_count; i++)
		xd_xsk_queue_give_back(&x->queue[x->rx.touched[i]]);
	x->rx.touched_count = 0;
}
