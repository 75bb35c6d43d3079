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

#include "daemon/base/log.h"
#include "daemon/io/count.h"
#include "gso_queue.h"
#include "gso_split.h"
#include "gso_send.h"
#include "rx_depth.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

#define FRAME_SIZE 4096u
#define CACHE_LINE 64u
/* In copy mode a call sends at most 32 packets; this many calls empty the largest ring. */
#define MAX_KICKS 256
/* Descriptors submitted together; few enough that the kernel finds the packets in the cache */
#define TX_BATCH 32
/* Descriptors that recv_frames() takes at most */
#define RX_DESCS ((uint32_t)XD_BATCH * XT_MAX_SEGS)
#define BIND_RETRIES 100
#define BIND_RETRY_US 10000

/* An AF_XDP socket */
struct xd_xsk {
	struct xd_socket socket; /* first */
	struct xsk_umem *umem;
	struct xsk_socket *xsk;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons comp, rx;
	uint8_t *area;
	size_t area_size;
	bool multi_buffer;

	uint64_t *tx_free; /* stack of free frames to send from */
	uint32_t tx_free_count;
	uint32_t tx_queued;		  /* descriptors not submitted yet */
	bool tx_stalled;		  /* the kernel took none of the last descriptors */
	struct xd_gso_queue tx_gso_queue; /* frames behind those in the ring */
	int tx_gso;			  /* packet socket, -1: GSO frames are not sent; atomic */

	const struct xt_receivers *receivers;
	struct xd_rx_depth depth;
	uint32_t rx_frames; /* buffers to receive into */
	uint32_t rx_depth;  /* of them, those that the kernel should have; atomic */
	uint64_t *rx_spare; /* stack of those that it does not have */
	uint32_t rx_spare_count;
	uint64_t *rx_used; /* buffers of the frames that recv_frames() took */
	uint32_t rx_used_count;
	uint32_t rx_taken;	    /* descriptors to release */
	struct xd_gso_frame rx_gso; /* the frame that is being taken */
	struct xd_gso_headers rx_headers[XD_BATCH];

	struct xd_socket_stats stats;
};

static struct xd_xsk *xsk_of(struct xd_socket *s)
{
	return (struct xd_xsk *)s;
}

static const struct xd_xsk *const_xsk_of(const struct xd_socket *s)
{
	return (const struct xd_xsk *)s;
}

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

static bool sends_gso(const struct xd_socket *s)
{
	return __atomic_load_n(&const_xsk_of(s)->tx_gso, __ATOMIC_RELAXED) >= 0;
}

/* ---- receive -------------------------------------------------------------------- */

static bool rx_pending(struct xd_socket *s)
{
	return xsk_cons_nb_avail(&xsk_of(s)->rx, 1) > 0;
}

/* Returns the number of buffers that the kernel has filled and that were not taken yet. */
static uint32_t waiting(const struct xd_xsk *x)
{
	return __atomic_load_n(x->rx.producer, __ATOMIC_RELAXED) - x->rx.cached_cons;
}

/* There is always room: the ring is twice as long as the number of frames. */
static void fill(struct xd_xsk *x, const uint64_t *frame, uint32_t n)
{
	uint32_t idx;

	if (!n || xsk_ring_prod__reserve(&x->fill, n, &idx) != n)
		return;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&x->fill, idx + i) = frame[i];
	xsk_ring_prod__submit(&x->fill, n);
}

/* Returns how many buffers the kernel has more than it should have. */
static uint32_t excess(const struct xd_xsk *x)
{
	uint32_t has = x->rx_frames - x->rx_spare_count;

	return has > x->rx_depth ? has - x->rx_depth : 0;
}

/* Sets the number of buffers that the kernel has to receive into. */
static void set_rx_depth(struct xd_xsk *x, uint32_t depth)
{
	uint32_t has = x->rx_frames - x->rx_spare_count, more;

	__atomic_store_n(&x->rx_depth, depth, __ATOMIC_RELAXED);
	if (has >= depth)
		return;
	more = depth - has;
	x->rx_spare_count -= more;
	fill(x, &x->rx_spare[x->rx_spare_count], more);
}

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
static uint32_t count_descs(struct xd_xsk *x, uint32_t idx, uint32_t avail)
{
	for (uint32_t n = 0; n < avail; n++)
		if (!(xsk_ring_cons__rx_desc(&x->rx, idx + n)->options & XDP_PKT_CONTD))
			return n + 1;
	return 0;
}

/* Sets seg[] to the buffers of a frame, and returns its length. */
static uint32_t take_segs(struct xd_xsk *x, uint32_t idx, uint32_t descs, struct xt_seg *seg)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < descs; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&x->rx, idx + i);

		seg[i] = (struct xt_seg){ x->area + d->addr, d->len };
		len += d->len;
	}
	return len;
}

/* Returns the number of packets, 0 if the frame was dropped. */
static uint32_t take_single(struct xd_xsk *x, uint32_t idx, uint32_t descs, struct xt_frame *f)
{
	if (descs > XT_MAX_SEGS) {
		xd_count(&x->stats.rx_too_long, 1);
		return 0;
	}
	f->nseg = descs;
	f->len = take_segs(x, idx, descs, f->seg);
	f->forwarded = f->self = false;
	f->inject = f->refusal = (struct xt_inject){ XT_INJECT_NONE, 0 };
	return 1;
}

/*
 * Divides a GSO frame into at most max packets. Returns their number, 0 if the frame was dropped,
 * -1 if it has more than max packets.
 */
static int take_gso(struct xd_xsk *x, uint32_t idx, uint32_t descs, struct xt_frame *frames,
		    unsigned int max)
{
	struct xd_gso_frame *gso = &x->rx_gso;
	uint32_t count = 0, n;

	if (descs <= XD_GSO_SEGS) {
		gso->nseg = descs;
		gso->len = take_segs(x, idx, descs, gso->seg);
		count = xd_gso_count(gso);
	}
	if (!count) {
		xd_count(&x->stats.rx_too_long, 1);
		return 0;
	}
	if (count > max)
		return -1;
	n = xd_gso_split(gso, count, &x->rx_headers[XD_BATCH - max], frames);
	xd_count(&x->stats.rx_gso_frames, 1);
	xd_count(&x->stats.rx_gso_packets, n);
	xd_count(&x->stats.rx_gso_refused, count - n);
	return (int)n;
}

/* Takes the packets of one frame; results as those of take_gso(). */
static int take_frame(struct xd_xsk *x, uint32_t idx, uint32_t descs, struct xt_frame *frames,
		      unsigned int max)
{
	const uint8_t *data = x->area + xsk_ring_cons__rx_desc(&x->rx, idx)->addr;
	struct xr_meta *meta = &x->rx_gso.meta;

	if (!read_meta(x, data, meta))
		return 0;
	if (meta->gso_size)
		return take_gso(x, idx, descs, frames, max);
	frames->meta = *meta;
	return (int)take_single(x, idx, descs, frames);
}

/* Notes the buffers of a frame, which recv_done() returns to the kernel. */
static void note_used(struct xd_xsk *x, uint32_t idx, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t addr = xsk_ring_cons__rx_desc(&x->rx, idx + i)->addr;

		x->rx_used[x->rx_used_count++] = addr & ~(uint64_t)(FRAME_SIZE - 1);
	}
	x->rx_taken += n;
}

static void recv_done(struct xd_socket *s)
{
	struct xd_xsk *x = xsk_of(s);
	uint32_t kept = excess(x);

	if (!x->rx_taken)
		return;
	xsk_ring_cons__release(&x->rx, x->rx_taken);
	x->rx_taken = 0;
	for (; kept && x->rx_used_count; kept--)
		x->rx_spare[x->rx_spare_count++] = x->rx_used[--x->rx_used_count];
	fill(x, x->rx_used, x->rx_used_count);
	x->rx_used_count = 0;
	if (xsk_ring_prod__needs_wakeup(&x->fill))
		recvfrom(x->socket.fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static unsigned int recv_frames(struct xd_socket *s, struct xt_frame *frames, unsigned int max,
				uint64_t now)
{
	struct xd_xsk *x = xsk_of(s);
	uint32_t idx, avail, pos = 0, descs;
	unsigned int n = 0;
	int packets;

	set_rx_depth(x, xd_rx_depth(&x->depth, x->receivers, waiting(x), now));
	avail = xsk_cons_nb_avail(&x->rx, RX_DESCS);
	if (!avail)
		return 0;
	idx = x->rx.cached_cons;
	while (n < max) {
		descs = count_descs(x, idx + pos, avail - pos);
		if (!descs)
			break;
		packets = take_frame(x, idx + pos, descs, &frames[n], max - n);
		if (packets < 0)
			break;
		n += (unsigned int)packets;
		note_used(x, idx + pos, descs);
		pos += descs;
	}
	x->rx.cached_cons += pos;
	if (!n) /* all frames were dropped, so the caller has none to give back */
		recv_done(s);
	return n;
}

/* ---- send -------------------------------------------------------------------------- */

/* addr: in the buffer */
static void free_buffer(struct xd_xsk *x, uint64_t addr)
{
	x->tx_free[x->tx_free_count++] = addr & ~(uint64_t)(FRAME_SIZE - 1);
}

static void reap(struct xd_xsk *x)
{
	uint32_t idx, n = xsk_ring_cons__peek(&x->comp, UINT32_MAX, &idx);

	/* In reverse, so that packets get buffers in the order in which they follow in memory. */
	for (uint32_t i = n; i-- > 0;)
		free_buffer(x, *xsk_ring_cons__comp_addr(&x->comp, idx + i));
	if (n)
		xsk_ring_cons__release(&x->comp, n);
}

/* Returns true if there are free frames, and room in the ring, also for the queue's frames. */
static bool tx_room(struct xd_xsk *x, uint32_t need)
{
	uint32_t all = need + x->tx_gso_queue.buffers;

	return x->tx_free_count >= need && xsk_prod_nb_free(&x->tx, all) >= all;
}

static uint32_t buffers_for(uint32_t len)
{
	return (len + FRAME_SIZE - 1) / FRAME_SIZE;
}

/*
 * Returns the offset of a frame in its first buffer. It makes the payload start with a cache line,
 * unless the frame would need another buffer then. Otherwise a copy can take three times as long
 * (daemon/transport/bytes.c).
 */
static uint32_t start_of(uint32_t len, uint32_t payload_off)
{
	uint32_t start = -payload_off % CACHE_LINE;

	return buffers_for(start + len) == buffers_for(len) ? start : 0;
}

static bool tx_get(struct xd_socket *s, uint32_t len, struct xt_frame *f)
{
	struct xd_xsk *x = xsk_of(s);
	uint32_t need = buffers_for(len), start = start_of(len, f->meta.payload_off);

	if (need > 1 && !x->multi_buffer)
		return false;
	if (!tx_room(x, need)) {
		reap(x);
		if (!tx_room(x, need)) {
			xd_count(&x->stats.tx_full, 1);
			return false;
		}
	}
	f->nseg = need;
	f->len = len;
	for (uint32_t i = 0; i < need; i++, start = 0) {
		uint32_t room = FRAME_SIZE - start, part = len < room ? len : room;

		f->seg[i].data = x->area + x->tx_free[--x->tx_free_count] + start;
		f->seg[i].len = part;
		len -= part;
	}
	return true;
}

static void free_frame(struct xd_xsk *x, const struct xt_frame *f)
{
	for (uint32_t i = f->nseg; i-- > 0;)
		free_buffer(x, (uint64_t)(f->seg[i].data - x->area));
}

static bool unsent(const struct xd_xsk *x)
{
	return __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(x->tx.producer, __ATOMIC_RELAXED);
}

/* Makes the kernel send. Returns false if it took nothing, or has no room for more. */
static bool kick(struct xd_xsk *x)
{
	uint32_t before = __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE);
	int err = 0;

	xd_count(&x->stats.tx_kicks, 1);
	if (sendto(x->socket.fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0)
		err = errno;
	x->tx_stalled = before == __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE);
	/* ENOBUFS, EBUSY: the driver's queue is full now */
	return !x->tx_stalled && (!err || err == EAGAIN);
}

/* Submits the descriptors in the ring. */
static void flush_ring(struct xd_xsk *x)
{
	if (x->tx_queued) {
		xsk_ring_prod__submit(&x->tx, x->tx_queued);
		x->tx_queued = 0;
	}
	x->tx_stalled = false;
	for (int i = 0; i < MAX_KICKS && unsent(x); i++)
		if (!xsk_ring_prod__needs_wakeup(&x->tx) || !kick(x))
			break;
}

static void put_ring(struct xd_xsk *x, const struct xt_frame *f)
{
	uint32_t idx;

	if (xsk_ring_prod__reserve(&x->tx, f->nseg, &idx) != f->nseg) {
		free_frame(x, f);
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
		flush_ring(x);
}

/* ---- send GSO frames --------------------------------------------------------------- */

/* Any error but those of a full queue is final, as the next frame would have it too. */
static void gso_failed(struct xd_xsk *x, int err)
{
	if (err == -EAGAIN || err == -ENOBUFS || err == -ENOMEM || err == -ENETDOWN)
		return;
	xd_log(XD_NOTICE, "GSO frames are no longer sent: %s", strerror(-err));
	close(x->tx_gso);
	__atomic_store_n(&x->tx_gso, -1, __ATOMIC_RELAXED);
}

static uint32_t send_runs(void *ctx, const struct xd_gso_run *runs, uint32_t n)
{
	struct xd_xsk *x = ctx;
	int sent;

	flush_ring(x);
	if (x->tx_gso < 0 || unsent(x)) /* the runs would overtake */
		return 0;
	xd_count(&x->stats.tx_kicks, 1);
	sent = xd_gso_send(x->tx_gso, runs, n);
	if (sent < 0) {
		gso_failed(x, sent);
		return 0;
	}
	xd_count(&x->stats.tx_gso_frames, (uint64_t)sent);
	return (uint32_t)sent;
}

static void run_sent(void *ctx, const struct xt_frame *f)
{
	struct xd_xsk *x = ctx;

	xd_count(&x->stats.tx_gso_packets, 1);
	free_frame(x, f);
}

static void send_alone(void *ctx, const struct xt_frame *f)
{
	put_ring(ctx, f);
}

static const struct xd_gso_ways gso_ways = { send_runs, run_sent, send_alone };

static void tx_put(struct xd_socket *s, const struct xt_frame *f)
{
	struct xd_xsk *x = xsk_of(s);

	if (x->tx_gso < 0 && !x->tx_gso_queue.buffers)
		put_ring(x, f);
	else
		xd_gso_queue_put(&x->tx_gso_queue, f, &gso_ways, x);
}

static void tx_cancel(struct xd_socket *s, const struct xt_frame *f)
{
	free_frame(xsk_of(s), f);
}

static void tx_flush(struct xd_socket *s, bool more)
{
	struct xd_xsk *x = xsk_of(s);

	if (x->tx_gso_queue.buffers)
		xd_gso_queue_flush(&x->tx_gso_queue, more, &gso_ways, x);
	flush_ring(x);
	reap(x);
}

static bool tx_pending(const struct xd_socket *s)
{
	return unsent(const_xsk_of(s));
}

/*
 * In copy mode the packets that a receiver has not taken yet fill the send buffer of the socket
 * (EAGAIN).
 */
static bool tx_stalled(const struct xd_socket *s)
{
	return const_xsk_of(s)->tx_stalled;
}

static void read_stats(const struct xd_socket *s, struct xd_socket_stats *stats)
{
	const struct xd_xsk *x = const_xsk_of(s);
	struct xdp_statistics k = { 0 };
	socklen_t len = sizeof(k);

	*stats = (struct xd_socket_stats){
		.rx_no_metadata = xd_counted(&x->stats.rx_no_metadata),
		.rx_too_long = xd_counted(&x->stats.rx_too_long),
		.rx_gso_frames = xd_counted(&x->stats.rx_gso_frames),
		.rx_gso_packets = xd_counted(&x->stats.rx_gso_packets),
		.rx_gso_refused = xd_counted(&x->stats.rx_gso_refused),
		.tx_full = xd_counted(&x->stats.tx_full),
		.tx_kicks = xd_counted(&x->stats.tx_kicks),
		.tx_gso_frames = xd_counted(&x->stats.tx_gso_frames),
		.tx_gso_packets = xd_counted(&x->stats.tx_gso_packets),
		.rx_buffers = __atomic_load_n(&x->rx_depth, __ATOMIC_RELAXED),
	};
	if (!getsockopt(x->socket.fd, SOL_XDP, XDP_STATISTICS, &k, &len))
		stats->rx_ring_full = k.rx_ring_full + k.rx_dropped + k.rx_fill_ring_empty_descs;
}

/* ---- open and close ---------------------------------------------------------------- */

static void close_xsk(struct xd_socket *s)
{
	struct xd_xsk *x = xsk_of(s);

	if (x->tx_gso >= 0)
		close(x->tx_gso);
	if (x->xsk)
		xsk_socket__delete(x->xsk);
	if (x->umem)
		xsk_umem__delete(x->umem);
	if (x->area)
		munmap(x->area, x->area_size);
	free(x->tx_free);
	free(x->rx_spare);
	free(x->rx_used);
	free(x);
}

static const struct xd_socket_ops xsk_ops = {
	.close = close_xsk,
	.recv = recv_frames,
	.recv_done = recv_done,
	.pending = rx_pending,
	.tx_get = tx_get,
	.tx_put = tx_put,
	.tx_cancel = tx_cancel,
	.tx_flush = tx_flush,
	.tx_pending = tx_pending,
	.tx_stalled = tx_stalled,
	.sends_gso = sends_gso,
	.stats = read_stats,
};

static int create_socket(struct xd_xsk *x, const struct xd_xsk_config *c)
{
	struct xsk_socket_config cfg = {
		.rx_size = c->rx_size,
		.tx_size = c->tx_size,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = (__u16)(XDP_USE_NEED_WAKEUP |
				      (c->zerocopy ? XDP_ZEROCOPY : XDP_COPY) |
				      (c->multi_buffer ? XDP_USE_SG : 0)),
	};
	int err = 0;

	for (int i = 0; i < BIND_RETRIES; i++) {
		err = xsk_socket__create(&x->xsk, c->ifname, c->queue, x->umem, &x->rx, &x->tx,
					 &cfg);
		if (err != -EBUSY)
			break;
		usleep(BIND_RETRY_US);
	}
	if (err)
		x->xsk = NULL;
	return err;
}

static int create_umem(struct xd_xsk *x, const struct xd_xsk_config *c)
{
	struct xsk_umem_config cfg = {
		/*
		 * Twice the number of frames: the kernel delivers packets before it advances the
		 * consumer index of the fill ring.
		 */
		.fill_size = c->rx_size * 2,
		.comp_size = c->tx_size,
		.frame_size = FRAME_SIZE,
	};
	int err;

	x->area_size = ((size_t)c->rx_size + c->tx_size) * FRAME_SIZE;
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

/* The first buffers are to receive into, the others to send from. */
static int init_frames(struct xd_xsk *x, const struct xd_xsk_config *c)
{
	uint32_t all = c->rx_size + c->tx_size;

	x->rx_spare = calloc(c->rx_size, sizeof(*x->rx_spare));
	x->tx_free = calloc(c->tx_size, sizeof(*x->tx_free));
	if (!x->rx_spare || !x->tx_free)
		return -ENOMEM;
	x->rx_frames = x->rx_spare_count = c->rx_size;
	x->tx_free_count = c->tx_size;
	for (uint32_t i = 0; i < c->rx_size; i++)
		x->rx_spare[i] = (uint64_t)(c->rx_size - 1 - i) * FRAME_SIZE;
	for (uint32_t i = 0; i < c->tx_size; i++)
		x->tx_free[i] = (uint64_t)(all - 1 - i) * FRAME_SIZE;
	return 0;
}

static void open_gso(struct xd_xsk *x, const struct xd_xsk_config *c)
{
	if (!c->gso || c->zerocopy)
		return;
	x->tx_gso = xd_gso_open(c->ifname);
	if (x->tx_gso < 0)
		xd_log(XD_NOTICE, "GSO frames are not sent on %s: packet socket: %s", c->ifname,
		       strerror(-x->tx_gso));
}

int xd_xsk_open(struct xd_socket **socket, const struct xd_xsk_config *c)
{
	struct xd_xsk *x = calloc(1, sizeof(*x));
	int err = -ENOMEM;

	if (!x)
		return -ENOMEM;
	x->socket.ops = &xsk_ops;
	x->multi_buffer = c->multi_buffer;
	x->receivers = c->receivers;
	xd_rx_depth_init(&x->depth, c->rx_size, c->of_qp);
	x->tx_gso = -1;
	x->rx_used = calloc(RX_DESCS, sizeof(*x->rx_used));
	if (!x->rx_used)
		goto fail;
	err = init_frames(x, c);
	if (!err)
		err = create_umem(x, c);
	if (err)
		goto fail;
	err = create_socket(x, c);
	if (err)
		goto fail;
	set_rx_depth(x, c->rx_size);
	open_gso(x, c);
	x->socket.fd = xsk_socket__fd(x->xsk);
	*socket = &x->socket;
	return 0;
fail:
	close_xsk(&x->socket);
	return err;
}
