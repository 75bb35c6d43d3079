// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* struct xd_io for XDP: joins the program, the sockets and the choice of GSO frames. */
#include "xdp_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "daemon/helper/helper.h"
#include "daemon/helper/steer.h"
#include "daemon/io/io.h"
#include "daemon/io/worker_count.h"
#include "daemon/netdev/net.h"
#include "gso.h"
#include "xdp.h"
#include "xsk.h"

/* Descriptors to send with; the engine sends fewer in a round */
#define TX_RING 2048
/* Longer frames need more than a page, and so multi-buffer AF_XDP. */
#define SINGLE_BUFFER_MTU 2048

struct xdp_io {
	struct xd_io io; /* first */
	struct xd_xdp_io_config config;
	struct xd_xdp *xdp;
	struct xd_gso gso;
	uint32_t queues, served, workers; /* queues of the interface, those that are served */
	const struct xd_socket *first;	  /* the first worker's */
};

static struct xdp_io *xdp_io_of(struct xd_io *io)
{
	return (struct xdp_io *)io;
}

static const struct xdp_io *const_xdp_io_of(const struct xd_io *io)
{
	return (const struct xdp_io *)io;
}

/* ---- sockets ------------------------------------------------------------------------------ */

static unsigned int xdp_workers(const struct xd_io *io)
{
	return const_xdp_io_of(io)->workers;
}

/*
 * A worker has every n-th queue, from that with its own number on, which it sends from. So packets
 * of a veth peer that has as many workers arrive at the worker of the same number.
 */
static struct xd_queues queues(const struct xd_io *io, uint32_t worker)
{
	const struct xdp_io *w = const_xdp_io_of(io);

	return (struct xd_queues){
		.first = worker,
		.step = w->workers,
		.count = (w->served - worker + w->workers - 1) / w->workers,
	};
}

static uint32_t tx_ring(const struct xdp_io *w)
{
	uint32_t size = w->config.opt->ring_size;

	return size < TX_RING ? size : TX_RING;
}

/*
 * Packets in flight must fit this worker's ring to send with, and the buffers of the peer's queue
 * where they arrive, which are as many as here if the peer has the same options. A long packet
 * needs two frames.
 */
static void limit_windows(const struct xdp_io *w, struct xt_tuning *t)
{
	uint32_t frames = xd_xdp_multi_buffer(w->xdp) ? 2 : 1, room = tx_ring(w);
	uint32_t receives = xd_xsk_queue_frames(w->config.opt->ring_size, queues(&w->io, 0).count);

	room = (room < receives ? room : receives) / frames;

	if (t->engine_window > room)
		t->engine_window = room;
	if (t->window > room)
		t->window = room;
	/* alone, a short packet fills a whole receive buffer */
	if (!w->gso.send)
		t->short_window = t->window;
	else if (t->short_window > t->engine_window)
		t->short_window = t->engine_window;
	if (t->read_packets > t->window)
		t->read_packets = t->window;
}

static void xdp_io_tune(const struct xd_io *io, uint32_t worker, const struct xd_socket *socket,
			struct xt_tuning *t)
{
	(void)worker;
	(void)socket;
	limit_windows(const_xdp_io_of(io), t);
}

static int try_open(struct xdp_io *w, struct xd_xsk_config *c, struct xd_socket **socket,
		    uint32_t *queue)
{
	enum xd_attach xdp_io_attach = w->config.opt->attach;
	int err = -EOPNOTSUPP;

	if (xdp_io_attach == XD_ATTACH_ZEROCOPY ||
	    (xdp_io_attach == XD_ATTACH_AUTO && !w->gso.prefer_generic)) {
		c->zerocopy = true;
		err = xd_xsk_open(socket, c, queue);
		/* another program has the queue, so copy mode would fail too, after another wait */
		if (err == -EBUSY || (err && xdp_io_attach == XD_ATTACH_ZEROCOPY))
			return err;
	}
	if (err) {
		xd_xdp_no_zerocopy(w->xdp, err);
		c->zerocopy = false;
		err = xd_xsk_open(socket, c, queue);
	}
	return err;
}

/* Makes the XDP program redirect the packets of a worker's queues to its sockets. */
static int set_map(struct xdp_io *w, const struct xd_xsk_config *c, const struct xd_socket *s)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < c->queues.count; i++)
		err = xd_xdp_xsk_set(w->xdp, xd_xsk_queue_number(c, i), xd_xsk_fd(s, i));
	return err;
}

static int xdp_io_open_socket(struct xd_io *io, uint32_t worker,
			      const struct xt_receivers *receivers, struct xd_socket **socket)
{
	struct xdp_io *w = xdp_io_of(io);
	struct xt_tuning t = XT_TUNING_DEFAULT;
	struct xd_xsk_config c = {
		.ifname = w->config.link->ifname,
		.queues = queues(io, worker),
		.rx_size = w->config.opt->ring_size,
		.tx_size = tx_ring(w),
		.multi_buffer = xd_xdp_multi_buffer(w->xdp),
		.gso = w->gso.send,
		.gso_all = w->gso.send_all,
		.receivers = receivers,
	};
	uint32_t queue = worker;
	int err;

	limit_windows(w, &t);
	/* a peer may have twice as many short packets in flight, see XT_TUNING_DEFAULT */
	c.of_qp = t.window * 2;
	err = try_open(w, &c, socket, &queue);
	if (err) {
		xd_log(XD_ERR, "AF_XDP socket for queue %u of %s: %s%s", queue, c.ifname,
		       strerror(-err), err == -EBUSY ? " (in use by another program)" : "");
		return err;
	}
	if (!worker)
		w->first = *socket;
	err = set_map(w, &c, *socket);
	if (err)
		xd_log(XD_ERR, "map of AF_XDP sockets: %s", strerror(-err));
	return err;
}

/* ---- the device --------------------------------------------------------------------------- */

static int xdp_io_attach(struct xd_io *io, struct xd_workers *workers)
{
	struct xdp_io *w = xdp_io_of(io);

	(void)workers;
	if (w->served < w->queues)
		xd_helper_steer(w->config.helper, w->served, w->queues);
	return xd_xdp_attach(w->xdp, w->config.link->ifindex);
}

static bool xdp_io_is_attached(const struct xd_io *io)
{
	return xd_xdp_is_attached(const_xdp_io_of(io)->xdp);
}

static int xdp_io_give_pins(struct xd_io *io)
{
	return xd_xdp_give_pins(xdp_io_of(io)->xdp);
}

static void xdp_io_detach(struct xd_io *io)
{
	xd_xdp_detach(xdp_io_of(io)->xdp);
}

static void xdp_free_io(struct xd_io *io)
{
	struct xdp_io *w = xdp_io_of(io);

	xd_xdp_close(w->xdp);
	free(w);
}

static uint32_t xdp_io_max_mtu(const struct xd_io *io)
{
	return xd_xdp_multi_buffer(const_xdp_io_of(io)->xdp) ? 4096 : SINGLE_BUFFER_MTU;
}

static const char *xdp_io_mode(const struct xd_io *io)
{
	return xd_xdp_mode_name(const_xdp_io_of(io)->xdp);
}

static void xdp_io_show(const struct xd_io *io, struct json *j)
{
	const struct xdp_io *w = const_xdp_io_of(io);
	bool send = w->first && xd_socket_sends_gso(w->first);

	json_begin(j, "xdp", '{');
	json_boolean(j, "attached", xd_xdp_is_attached(w->xdp));
	json_text(j, "mode", xd_xdp_mode_name(w->xdp));
	json_text(j, "why", xd_xdp_mode_why(w->xdp));
	json_boolean(j, "multi_buffer", xd_xdp_multi_buffer(w->xdp));
	if (w->config.opt->dispatcher)
		json_number(j, "dispatcher", w->config.opt->dispatcher);
	json_text(j, "pins", xd_xdp_pins(w->xdp));
	json_end(j, '}');
	json_begin(j, "gso", '{');
	json_boolean(j, "receive", xd_xdp_receives_gso(w->xdp));
	json_boolean(j, "send", send);
	if (!send)
		json_text(j, "why_not", w->gso.why_not ?: "sending one failed: see the log");
	json_end(j, '}');
}

static void xdp_io_log_hints(const struct xd_io *io)
{
	const struct xdp_io *w = const_xdp_io_of(io);

	if (!xd_xdp_multi_buffer(w->xdp))
		xd_log(XD_NOTICE,
		       "no multi-buffer AF_XDP before Linux 6.6: the largest path MTU is %u",
		       SINGLE_BUFFER_MTU);
	if (xd_xdp_is_slow(w->xdp))
		xd_log(XD_WARN,
		       "%s has no native XDP: packets are copied by the kernel first, which "
		       "is slow; %s",
		       w->config.link->ifname, xd_xdp_mode_why(w->xdp));
}

static const struct xd_io_ops xdp_io_ops = {
	.name = "xdp",
	.workers = xdp_workers,
	.queues = queues,
	.open = xdp_io_open_socket,
	.tune = xdp_io_tune,
	.attach = xdp_io_attach,
	.is_attached = xdp_io_is_attached,
	.give_pins = xdp_io_give_pins,
	.detach = xdp_io_detach,
	.free = xdp_free_io,
	.max_mtu = xdp_io_max_mtu,
	.mode = xdp_io_mode,
	.show = xdp_io_show,
	.log_hints = xdp_io_log_hints,
};

/* Returns the number of RX queues to serve. */
static uint32_t queues_to_serve(const struct xd_options *opt, uint32_t queues)
{
	uint32_t n = opt->queues ? opt->queues : XR_MAX_WORKERS;

	return n < queues ? n : queues;
}

/* A queue belongs to one worker, so more workers than queues would have nothing to do. */
static uint32_t workers_for(const struct xd_options *opt, const char *ifname, uint32_t served)
{
	uint32_t n = xd_io_worker_count(opt);

	if (n <= served)
		return n;
	if (opt->workers)
		xd_log(XD_WARN, "--workers %u: %u of %s, as many as receive queues are served",
		       opt->workers, served, ifname);
	return served;
}

int xd_xdp_io_new(const struct xd_xdp_io_config *config, struct xd_io **io)
{
	const struct xd_link *link = config->link;
	struct xdp_io *w = calloc(1, sizeof(*w));
	struct xd_gso_facts facts;
	uint32_t tx_queues;
	int err;

	if (!w)
		return -ENOMEM;
	w->io.ops = &xdp_io_ops;
	w->config = *config;
	xd_count_queues(link->ifname, &w->queues, &tx_queues);
	w->served = queues_to_serve(config->opt, w->queues);
	w->workers = workers_for(config->opt, link->ifname, w->served);
	xd_gso_read_facts(link->ifname, link->noqueue, &facts);
	facts.served = w->served;
	facts.workers = w->workers;
	w->gso = xd_gso_choose(config->opt, &facts);
	err = xd_xdp_load(config->opt, link->ifname, &w->gso, &w->xdp);
	if (err) {
		free(w);
		return err;
	}
	w->io.tables = xd_xdp_tables(w->xdp);
	*io = &w->io;
	return 0;
}
