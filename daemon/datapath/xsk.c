// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "xsk.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <xdp/xsk.h>

#include "count.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

#define FRAME_SIZE 4096u
/* In copy mode a call sends at most 32 packets; this many calls empty the largest ring. */
#define MAX_KICKS 256
/* Descriptors submitted together; few enough that the kernel finds the packets in the cache */
#define TX_BATCH 32
#define BIND_RETRIES 100
#define BIND_RETRY_US 10000

struct xd_xsk {
	struct xsk_umem *umem;
	struct xsk_socket *socket;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons comp, rx;
	uint8_t *area;
	size_t area_size;
	bool multi_buffer;

	uint64_t *tx_free; /* stack of free frames to send from */
	uint32_t tx_free_count;
	uint32_t tx_queued; /* descriptors not submitted yet */

	uint64_t *rx_used; /* frames of the packets that xd_xsk_recv() returned or dropped */
	uint32_t rx_used_count;
	uint32_t rx_taken; /* descriptors to release */

	struct xd_xsk_stats stats;
};

bool xd_xsk_multi_buffer_possible(void)
{
	struct sockaddr_xdp sa = { .sxdp_family = AF_XDP, .sxdp_flags = XDP_USE_SG };
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	bool possible;

	if (fd < 0)
		return false;
	/* bind() without an interface always fails, but with EINVAL if the flag is unknown */
	possible = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINVAL;
	close(fd);
	return possible;
}

static int create_socket(struct xd_xsk *x, const struct xd_xsk_config *c)
{
	struct xsk_socket_config cfg = {
		.rx_size = c->ring_size,
		.tx_size = c->ring_size,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = (__u16)(XDP_USE_NEED_WAKEUP |
				      (c->zerocopy ? XDP_ZEROCOPY : XDP_COPY) |
				      (c->multi_buffer ? XDP_USE_SG : 0)),
	};
	int err = 0;

	for (int i = 0; i < BIND_RETRIES; i++) {
		err = xsk_socket__create(&x->socket, c->ifname, c->queue, x->umem, &x->rx, &x->tx,
					 &cfg);
		if (err != -EBUSY)
			break;
		usleep(BIND_RETRY_US);
	}
	if (err)
		x->socket = NULL;
	return err;
}

static int create_umem(struct xd_xsk *x, const struct xd_xsk_config *c)
{
	struct xsk_umem_config cfg = {
		/*
		 * Twice the number of frames: the kernel delivers packets before it advances the
		 * consumer index of the fill ring.
		 */
		.fill_size = c->ring_size * 2,
		.comp_size = c->ring_size,
		.frame_size = FRAME_SIZE,
	};
	int err;

	/* half to receive into, half to send from */
	x->area_size = (size_t)c->ring_size * 2 * FRAME_SIZE;
	x->area = mmap(NULL, x->area_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (x->area == MAP_FAILED) {
		x->area = NULL;
		return -ENOMEM;
	}
	madvise(x->area, x->area_size, MADV_HUGEPAGE);
	err = xsk_umem__create(&x->umem, x->area, x->area_size, &x->fill, &x->comp, &cfg);
	if (err)
		x->umem = NULL;
	return err;
}

static void fill_all(struct xd_xsk *x, uint32_t frames)
{
	uint32_t idx;

	if (xsk_ring_prod__reserve(&x->fill, frames, &idx) != frames)
		return;
	for (uint32_t i = 0; i < frames; i++)
		*xsk_ring_prod__fill_addr(&x->fill, idx + i) = (uint64_t)i * FRAME_SIZE;
	xsk_ring_prod__submit(&x->fill, frames);
}

int xd_xsk_open(struct xd_xsk **xsk, const struct xd_xsk_config *c)
{
	struct xd_xsk *x = calloc(1, sizeof(*x));
	int err = -ENOMEM;

	if (!x)
		return -ENOMEM;
	x->multi_buffer = c->multi_buffer;
	x->tx_free = calloc(c->ring_size, sizeof(*x->tx_free));
	x->rx_used = calloc((size_t)XD_XSK_BATCH * XT_MAX_SEGS, sizeof(*x->rx_used));
	if (!x->tx_free || !x->rx_used)
		goto fail;
	err = create_umem(x, c);
	if (err)
		goto fail;
	err = create_socket(x, c);
	if (err)
		goto fail;
	fill_all(x, c->ring_size);
	for (uint32_t i = 0; i < c->ring_size; i++)
		x->tx_free[i] = (uint64_t)(2 * c->ring_size - 1 - i) * FRAME_SIZE;
	x->tx_free_count = c->ring_size;
	*xsk = x;
	return 0;
fail:
	xd_xsk_close(x);
	return err;
}

void xd_xsk_close(struct xd_xsk *x)
{
	if (!x)
		return;
	if (x->socket)
		xsk_socket__delete(x->socket);
	if (x->umem)
		xsk_umem__delete(x->umem);
	if (x->area)
		munmap(x->area, x->area_size);
	free(x->tx_free);
	free(x->rx_used);
	free(x);
}

int xd_xsk_fd(const struct xd_xsk *x)
{
	return xsk_socket__fd(x->socket);
}

/* ---- receive -------------------------------------------------------------------- */

bool xd_xsk_pending(struct xd_xsk *x)
{
	return xsk_cons_nb_avail(&x->rx, 1) > 0;
}

/*
 * Metadata is in front of the first byte. Frames without metadata are dropped: another XDP program
 * has redirected them. Such a program can also write wrong metadata, so the engine checks every
 * offset against the frame.
 */
static bool read_meta(struct xd_xsk *x, struct xt_frame *f)
{
	memcpy(&f->meta, f->seg[0].data - sizeof(f->meta), sizeof(f->meta));
	if (f->meta.magic == XR_META_MAGIC)
		return true;
	xd_count(&x->stats.rx_no_metadata, 1);
	return false;
}

/* Returns the number of descriptors of the next packet; 0: the last one has not arrived yet. */
static uint32_t take_packet(struct xd_xsk *x, uint32_t idx, uint32_t avail, struct xt_frame *f)
{
	uint32_t n = 0;

	f->nseg = 0;
	f->len = 0;
	f->forwarded = f->self = false;
	f->inject = (struct xt_inject){ XT_INJECT_NONE, 0 };
	for (;;) {
		const struct xdp_desc *d;

		if (n == avail)
			return 0;
		d = xsk_ring_cons__rx_desc(&x->rx, idx + n);
		if (n < XT_MAX_SEGS) {
			f->seg[n].data = x->area + d->addr;
			f->seg[n].len = d->len;
			f->nseg++;
		}
		f->len += d->len;
		n++;
		if (!(d->options & XDP_PKT_CONTD))
			return n;
	}
}

/* Notes the frames of a packet, which xd_xsk_recv_done() returns to the kernel. */
static void note_used(struct xd_xsk *x, uint32_t idx, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t addr = xsk_ring_cons__rx_desc(&x->rx, idx + i)->addr;

		x->rx_used[x->rx_used_count++] = addr & ~(uint64_t)(FRAME_SIZE - 1);
	}
	x->rx_taken += n;
}

unsigned int xd_xsk_recv(struct xd_xsk *x, struct xt_frame *frames, unsigned int max)
{
	uint32_t idx, avail = xsk_cons_nb_avail(&x->rx, XD_XSK_BATCH * XT_MAX_SEGS);
	uint32_t pos = 0, room = XD_XSK_BATCH * XT_MAX_SEGS;
	unsigned int n = 0;

	if (!avail)
		return 0;
	idx = x->rx.cached_cons;
	while (n < max && pos < avail) {
		struct xt_frame *f = &frames[n];
		uint32_t used = take_packet(x, idx + pos, avail - pos, f);

		if (!used || used > room)
			break;
		if (used > XT_MAX_SEGS)
			xd_count(&x->stats.rx_too_long, 1);
		else if (read_meta(x, f))
			n++;
		note_used(x, idx + pos, used);
		pos += used;
		room -= used;
	}
	x->rx.cached_cons += pos;
	return n ? n : (xd_xsk_recv_done(x), 0);
}

void xd_xsk_recv_done(struct xd_xsk *x)
{
	uint32_t idx;

	if (!x->rx_taken)
		return;
	xsk_ring_cons__release(&x->rx, x->rx_taken);
	x->rx_taken = 0;
	/* there is always room: the ring is twice as long as the number of frames */
	if (xsk_ring_prod__reserve(&x->fill, x->rx_used_count, &idx) == x->rx_used_count) {
		for (uint32_t i = 0; i < x->rx_used_count; i++)
			*xsk_ring_prod__fill_addr(&x->fill, idx + i) = x->rx_used[i];
		xsk_ring_prod__submit(&x->fill, x->rx_used_count);
	}
	x->rx_used_count = 0;
	if (xsk_ring_prod__needs_wakeup(&x->fill))
		recvfrom(xd_xsk_fd(x), NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

/* ---- send -------------------------------------------------------------------------- */

static void reap(struct xd_xsk *x)
{
	uint32_t idx, n = xsk_ring_cons__peek(&x->comp, UINT32_MAX, &idx);

	for (uint32_t i = 0; i < n; i++)
		x->tx_free[x->tx_free_count++] = *xsk_ring_cons__comp_addr(&x->comp, idx + i);
	if (n)
		xsk_ring_cons__release(&x->comp, n);
}

bool xd_xsk_tx_get(struct xd_xsk *x, uint32_t len, struct xt_frame *f)
{
	uint32_t need = (len + FRAME_SIZE - 1) / FRAME_SIZE;

	if (need > 1 && !x->multi_buffer)
		return false;
	if (x->tx_free_count < need || xsk_prod_nb_free(&x->tx, need) < need) {
		reap(x);
		if (x->tx_free_count < need || xsk_prod_nb_free(&x->tx, need) < need) {
			xd_count(&x->stats.tx_full, 1);
			return false;
		}
	}
	f->nseg = need;
	f->len = len;
	for (uint32_t i = 0; i < need; i++) {
		uint32_t part = len < FRAME_SIZE ? len : FRAME_SIZE;

		f->seg[i].data = x->area + x->tx_free[--x->tx_free_count];
		f->seg[i].len = part;
		len -= part;
	}
	return true;
}

void xd_xsk_tx_put(struct xd_xsk *x, const struct xt_frame *f)
{
	uint32_t idx;

	if (xsk_ring_prod__reserve(&x->tx, f->nseg, &idx) != f->nseg) {
		xd_xsk_tx_cancel(x, f);
		return;
	}
	for (uint32_t i = 0; i < f->nseg; i++) {
		struct xdp_desc *d = xsk_ring_prod__tx_desc(&x->tx, idx + i);

		d->addr = (uint64_t)(f->seg[i].data - x->area);
		d->len = f->seg[i].len;
		d->options = i + 1 < f->nseg ? XDP_PKT_CONTD : 0;
	}
	x->tx_queued += f->nseg;
	if (x->tx_queued >= TX_BATCH)
		xd_xsk_tx_flush(x);
}

void xd_xsk_tx_cancel(struct xd_xsk *x, const struct xt_frame *f)
{
	for (uint32_t i = f->nseg; i-- > 0;)
		x->tx_free[x->tx_free_count++] = (uint64_t)(f->seg[i].data - x->area);
}

bool xd_xsk_tx_pending(const struct xd_xsk *x)
{
	return __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(x->tx.producer, __ATOMIC_RELAXED);
}

void xd_xsk_tx_flush(struct xd_xsk *x)
{
	if (x->tx_queued) {
		xsk_ring_prod__submit(&x->tx, x->tx_queued);
		x->tx_queued = 0;
	}
	for (int i = 0; i < MAX_KICKS && xd_xsk_tx_pending(x); i++) {
		if (!xsk_ring_prod__needs_wakeup(&x->tx))
			break;
		xd_count(&x->stats.tx_kicks, 1);
		if (sendto(xd_xsk_fd(x), NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN)
			break; /* ENOBUFS, EBUSY: the driver's queue is full now */
	}
	reap(x);
}

void xd_xsk_stats(const struct xd_xsk *x, struct xd_xsk_stats *stats)
{
	struct xdp_statistics s = { 0 };
	socklen_t len = sizeof(s);

	*stats = (struct xd_xsk_stats){
		.rx_no_metadata = xd_counted(&x->stats.rx_no_metadata),
		.rx_too_long = xd_counted(&x->stats.rx_too_long),
		.tx_full = xd_counted(&x->stats.tx_full),
		.tx_kicks = xd_counted(&x->stats.tx_kicks),
	};
	if (!getsockopt(xd_xsk_fd(x), SOL_XDP, XDP_STATISTICS, &s, &len)) {
		stats->rx_ring_full = s.rx_ring_full + s.rx_dropped;
		stats->rx_fill_empty = s.rx_fill_ring_empty_descs;
	}
}
