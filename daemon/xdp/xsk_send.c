// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends the packets of a worker, all by one socket: that of its first queue. So packets of a QP
 * stay in order, and one system call sends those of many QPs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/io/count.h"
#include "gso_send.h"
#include "xsk_internal.h"

#define CACHE_LINE 64u
/* In copy mode a call sends at most 32 packets; this many calls empty the largest ring. */
#define MAX_KICKS 256
/* Descriptors submitted together; few enough that the kernel finds the packets in the cache */
#define TX_BATCH 32

/* addr: in the buffer */
static void free_buffer(struct xd_xsk *x, uint64_t addr)
{
	x->tx.free[x->tx.free_count++] = addr & ~(uint64_t)(XD_XSK_FRAME - 1);
}

static void xsk_send_reap(struct xd_xsk *x)
{
	uint32_t idx, n = xsk_ring_cons__peek(&x->queue[0].comp, UINT32_MAX, &idx);

	/* In reverse, so that packets get buffers in the order in which they follow in memory. */
	for (uint32_t i = n; i-- > 0;)
		free_buffer(x, *xsk_ring_cons__comp_addr(&x->queue[0].comp, idx + i));
	if (n)
		xsk_ring_cons__release(&x->queue[0].comp, n);
}

/* Returns true if there are free frames, and room in the ring, also for the queue's frames. */
static bool tx_room(struct xd_xsk *x, uint32_t need)
{
	uint32_t all = need + x->tx.gso_queue.buffers;

	return x->tx.free_count >= need && xsk_prod_nb_free(&x->queue[0].tx, all) >= all;
}

static uint32_t buffers_for(uint32_t len)
{
	return (len + XD_XSK_FRAME - 1) / XD_XSK_FRAME;
}

/*
 * Returns the offset of a frame in its first buffer. It makes the payload start with a cache line,
 * unless the frame would need another buffer then. Otherwise a copy can take three times as long
 * (daemon/transport/bytes.c).
 */
static uint32_t xsk_send_start_of(uint32_t len, uint32_t payload_off)
{
	uint32_t start = -payload_off % CACHE_LINE;

	return buffers_for(start + len) == buffers_for(len) ? start : 0;
}

bool xd_xsk_tx_get(struct xd_socket *s, uint32_t len, struct xt_frame *f)
{
	struct xd_xsk *x = xd_xsk_of(s);
	uint32_t need = buffers_for(len), start = xsk_send_start_of(len, f->meta.payload_off);

	if (need > 1 && !x->tx.multi_buffer)
		return false;
	if (!tx_room(x, need)) {
		xsk_send_reap(x);
		if (!tx_room(x, need)) {
			xd_count(&x->stats.tx_full, 1);
			return false;
		}
	}
	f->nseg = need;
	f->len = len;
	for (uint32_t i = 0; i < need; i++, start = 0) {
		uint32_t room = XD_XSK_FRAME - start, part = len < room ? len : room;

		f->seg[i].data = x->queue[0].area + x->tx.free[--x->tx.free_count] + start;
		f->seg[i].len = part;
		len -= part;
	}
	return true;
}

static void free_frame(struct xd_xsk *x, const struct xt_frame *f)
{
	for (uint32_t i = f->nseg; i-- > 0;)
		free_buffer(x, (uint64_t)(f->seg[i].data - x->queue[0].area));
}

static bool xsk_send_unsent(const struct xd_xsk *x)
{
	return __atomic_load_n(x->queue[0].tx.consumer, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(x->queue[0].tx.producer, __ATOMIC_RELAXED);
}

/* Makes the kernel send. Returns false if it took nothing, or has no room for more. */
static bool kick(struct xd_xsk *x)
{
	uint32_t before = __atomic_load_n(x->queue[0].tx.consumer, __ATOMIC_ACQUIRE);
	int err = 0;

	xd_count(&x->stats.tx_kicks, 1);
	if (sendto(xd_xsk_queue_fd(x->queue), NULL, 0, MSG_DONTWAIT, NULL, 0) < 0)
		err = errno;
	x->tx.stalled = before == __atomic_load_n(x->queue[0].tx.consumer, __ATOMIC_ACQUIRE);
	/* ENOBUFS, EBUSY: the driver's queue is full now */
	return !x->tx.stalled && (!err || err == EAGAIN);
}

/* Submits the descriptors in the ring. */
static void flush_ring(struct xd_xsk *x)
{
	if (x->tx.queued) {
		xsk_ring_prod__submit(&x->queue[0].tx, x->tx.queued);
		x->tx.queued = 0;
	}
	x->tx.stalled = false;
	for (int i = 0; i < MAX_KICKS && xsk_send_unsent(x); i++)
		if (!xsk_ring_prod__needs_wakeup(&x->queue[0].tx) || !kick(x))
			break;
}

static void put_ring(struct xd_xsk *x, const struct xt_frame *f)
{
	uint32_t idx;

	if (xsk_ring_prod__reserve(&x->queue[0].tx, f->nseg, &idx) != f->nseg) {
		free_frame(x, f);
		return;
	}
	for (uint32_t i = 0; i < f->nseg; i++) {
		struct xdp_desc *d = xsk_ring_prod__tx_desc(&x->queue[0].tx, idx + i);

		d->addr = (uint64_t)(f->seg[i].data - x->queue[0].area);
		d->len = f->seg[i].len;
		d->options = i + 1 < f->nseg ? XDP_PKT_CONTD : 0;
	}
	x->tx.queued += f->nseg;
	if (x->tx.queued >= TX_BATCH)
		flush_ring(x);
}

/* ---- send GSO frames --------------------------------------------------------------- */

/* Any error but those of a full queue is final, as the next frame would have it too. */
static void gso_failed(struct xd_xsk *x, int err)
{
	if (err == -EAGAIN || err == -ENOBUFS || err == -ENOMEM || err == -ENETDOWN)
		return;
	xd_log(XD_NOTICE, "GSO frames are no longer sent: %s", strerror(-err));
	close(x->tx.gso);
	__atomic_store_n(&x->tx.gso, -1, __ATOMIC_RELAXED);
}

static void count_run(struct xd_xsk *x, const struct xd_gso_run *run)
{
	if (run->count == 1)
		return;
	xd_count(&x->stats.tx_gso_frames, 1);
	xd_count(&x->stats.tx_gso_packets, run->count);
}

static uint32_t send_runs(void *ctx, const struct xd_gso_run *runs, uint32_t n)
{
	struct xd_xsk *x = ctx;
	int sent;

	flush_ring(x);
	if (x->tx.gso < 0 || xsk_send_unsent(x)) /* the runs would overtake */
		return 0;
	xd_count(&x->stats.tx_kicks, 1);
	sent = xd_gso_send(x->tx.gso, runs, n);
	if (sent < 0) {
		gso_failed(x, sent);
		return 0;
	}
	for (int i = 0; i < sent; i++)
		count_run(x, &runs[i]);
	return (uint32_t)sent;
}

static void run_sent(void *ctx, const struct xt_frame *f)
{
	free_frame(ctx, f);
}

static void send_alone(void *ctx, const struct xt_frame *f)
{
	put_ring(ctx, f);
}

static const struct xd_gso_ways gso_ways = { send_runs, run_sent, send_alone, false };
/*
 * With several queues: the kernel selects one for each flow, in which single packets must leave as
 * well to stay in order. If the packet socket has no room, they leave by AF_XDP all the same.
 */
static const struct xd_gso_ways all_ways = { send_runs, run_sent, send_alone, true };

void xd_xsk_tx_put(struct xd_socket *s, const struct xt_frame *f)
{
	struct xd_xsk *x = xd_xsk_of(s);

	if (x->tx.gso < 0 && !x->tx.gso_queue.buffers)
		put_ring(x, f);
	else
		xd_gso_queue_put(&x->tx.gso_queue, f, x->tx.ways, x);
}

void xd_xsk_tx_cancel(struct xd_socket *s, const struct xt_frame *f)
{
	free_frame(xd_xsk_of(s), f);
}

void xd_xsk_tx_flush(struct xd_socket *s, bool more)
{
	struct xd_xsk *x = xd_xsk_of(s);

	if (x->tx.gso_queue.buffers)
		xd_gso_queue_flush(&x->tx.gso_queue, more, x->tx.ways, x);
	flush_ring(x);
	xsk_send_reap(x);
}

bool xd_xsk_tx_pending(const struct xd_socket *s)
{
	return xsk_send_unsent(xd_const_xsk_of(s));
}

/*
 * In copy mode the packets that a receiver has not taken yet fill the send buffer of the socket
 * (EAGAIN).
 */
bool xd_xsk_tx_stalled(const struct xd_socket *s)
{
	return xd_const_xsk_of(s)->tx.stalled;
}

bool xd_xsk_sends_gso(const struct xd_socket *s)
{
	return __atomic_load_n(&xd_const_xsk_of(s)->tx.gso, __ATOMIC_RELAXED) >= 0;
}

/* ---- open and close ----------------------------------------------------------------------- */

static void open_gso(struct xd_xsk_tx *tx, const struct xd_xsk_config *c)
{
	if (!c->gso || c->zerocopy)
		return;
	tx->gso = xd_gso_open(c->ifname);
	if (tx->gso < 0)
		xd_log(XD_NOTICE, "GSO frames are not sent on %s: packet socket: %s", c->ifname,
		       strerror(-tx->gso));
}

int xd_xsk_tx_init(struct xd_xsk_tx *tx, const struct xd_xsk_config *c, uint32_t behind)
{
	uint32_t all = behind + c->tx_size;

	tx->multi_buffer = c->multi_buffer;
	tx->ways = c->gso_all ? &all_ways : &gso_ways;
	tx->free = calloc(c->tx_size, sizeof(*tx->free));
	if (!tx->free)
		return -ENOMEM;
	tx->free_count = c->tx_size;
	for (uint32_t i = 0; i < c->tx_size; i++)
		tx->free[i] = (uint64_t)(all - 1 - i) * XD_XSK_FRAME;
	open_gso(tx, c);
	return 0;
}

void xd_xsk_tx_free(struct xd_xsk_tx *tx)
{
	if (tx->gso >= 0)
		close(tx->gso);
	free(tx->free);
}
