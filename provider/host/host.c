// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Opens and closes a direct host, and passes requests to the functions that serve them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/io/memory_tables.h"
#include "daemon/io/verdict.h"
#include "daemon/transport/memory/guard.h"
#include "daemon/udp/udp.h"
#include "publish.h"
#include "requests.h"
#include "ring.h"

/* Packets per second that require a NAK, as the daemon's default */
#define NAK_RATE 10000
/* Memory that the kernel charges for a packet of 4 KiB that waits in a socket */
#define PACKET_CHARGE 8192

/* ---- requests ----------------------------------------------------------------------------- */

typedef int serve_fn(struct xp_host *h, struct xp_call *call);

static serve_fn *const served[XR_MSG_COUNT] = {
#define X(NAME, name) [XR_MSG_##NAME] = xp_do_##name,
	XP_HOST_REQUESTS(X)
#undef X
};

/* Lengths of the body of each request */
static const struct {
	uint32_t least, fixed;
} bodies[XR_MSG_COUNT] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = { body },
	XR_MESSAGES(X)
#undef X
};

static bool host_serves(uint32_t type)
{
	return type < XR_MSG_COUNT && served[type];
}

static int call(struct xp_host *h, struct xp_call *call)
{
	h->env.why[0] = '\0';
	call->rep_got = 0;
	call->rep_nfds = 0;
	if (call->req_len < bodies[call->type].least)
		return -EINVAL;
	return served[call->type](h, call);
}

/* A request of the program */
static int call_with_faults(struct xp_host *h, struct xp_call *c)
{
	int err;

	h->env.why[0] = '\0';
	err = xp_faults_request(h, c->type);
	return err ? err : call(h, c);
}

/* ---- open --------------------------------------------------------------------------------- */

/* Sockets are numbers then. */
static void host_use_ring(struct xp_host *h, struct xd_udp *u)
{
	h->ring = h->env.lent.ring;
	h->env.lent.ring = NULL;
	u->calls = &xp_ring_calls;
	u->calls_arg = h->ring;
	u->rx_fd[0] = 0;
	for (uint32_t i = 0; i < XD_UDP_PORTS; i++)
		u->tx.fd[i] = 1 + (int)(i % h->env.lent.rep.ports);
}

static int host_open_socket(struct xp_host *h)
{
	const struct xr_lend_rep *rep = &h->env.lent.rep;
	struct xd_udp *u = xd_udp_new(rep->ipv6, rep->mac, rep->segments);
	int err;

	if (!u)
		return -ENOMEM;
	h->socket = &u->socket;
	if (h->nearby.inbox.m)
		u->nearby = &h->nearby.way;
	u->socket.fd = u->rx_fd[u->rx_fds++] = h->env.lent.rx;
	h->env.lent.rx = -1;
	/* Ports beyond those that are lent stand for the first ones again, see host_tune(). */
	for (uint32_t i = 0; i < XD_UDP_PORTS; i++) {
		u->tx.port[i] = rep->port[i % rep->ports];
		u->tx.fd[i] = h->env.lent.tx[i];
		h->env.lent.tx[i] = -1;
	}
	if (h->env.lent.ring)
		host_use_ring(h, u);
	err = xd_verdict_new(h->tables, rep->slot, &u->verdict);
	if (!err)
		err = xd_udp_rx_init(u);
	return err ? err : xd_udp_tx_init(u);
}

static int host_tune(struct xp_host *h)
{
	const struct xr_lend_rep *rep = &h->env.lent.rep;
	struct xt_tuning t = XT_TUNING_DEFAULT;
	uint32_t room = rep->receive_buffer / PACKET_CHARGE;

	if (room < t.window)
		room = t.window;
	if (t.engine_window > room)
		t.engine_window = room;
	if (t.short_window > t.engine_window)
		t.short_window = t.engine_window;
	t.ports = xd_const_udp_of(h->socket)->tx.port;
	t.n_ports = rep->ports;
	t.port_by_slot = true;
	t.qpn_modulus = rep->qpn_modulus;
	t.qpn_rest = rep->qpn_rest;
	return xt_engine_tune(h->engine, &t);
}

/* The daemon decides about each object (claims). There is room for no more than these. */
static void set_limits(struct xp_host *h)
{
	const struct xr_query_device_rep *attr = h->env.attr;
	uint32_t *most = h->objects.most;

	most[XP_KIND_PD] = most[XP_KIND_XRCD] = attr->max_pd;
	most[XP_KIND_MR] = most[XP_KIND_DM] = attr->max_mr;
	most[XP_KIND_CQ] = most[XP_KIND_CHANNEL] = attr->max_cq;
	most[XP_KIND_QP] = attr->max_qp < XP_HOST_QPS ? attr->max_qp : XP_HOST_QPS;
	most[XP_KIND_AH] = attr->max_ah;
	most[XP_KIND_SRQ] = attr->max_srq;
	most[XP_KIND_MW] = attr->max_mw;
	memcpy(h->claims.n, h->env.lent.rep.claims, sizeof(h->claims.n));
	memcpy(h->claims.spare, h->env.lent.rep.claims, sizeof(h->claims.spare));
}

static int make_engine(struct xp_host *h)
{
	uint64_t seed[2];

	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	h->shared.keys = xt_keys_new(h->env.attr->max_mr + h->env.attr->max_mw, seed[0]);
	h->shared.qps = xt_numbers_new(XP_HOST_QPS, seed[1]);
	h->shared.srqs = xt_numbers_new(h->env.attr->max_srq, seed[1] + 1);
	h->shared.groups = xt_groups_new();
	h->ahs = xt_ahs_new();
	h->doorbell = xp_shared_alloc(sizeof(*h->doorbell));
	if (!h->shared.keys || !h->shared.qps || !h->shared.srqs || !h->shared.groups || !h->ahs ||
	    !h->doorbell)
		return -ENOMEM;
	h->engine = xt_engine_new(&xp_engine_ops, h, &h->shared);
	if (!h->engine)
		return -ENOMEM;
	xt_flow_init(&h->flow, h->engine);
	return host_tune(h);
}

static void close_lent(struct xp_lent *lent)
{
	xp_ring_free(lent->ring);
	if (lent->rx >= 0)
		close(lent->rx);
	for (uint32_t i = 0; i < XR_LEND_PORTS; i++)
		if (lent->tx[i] >= 0)
			close(lent->tx[i]);
	if (lent->events >= 0)
		close(lent->events);
	if (lent->view >= 0)
		close(lent->view);
	if (lent->inbox >= 0)
		close(lent->inbox);
	if (lent->rules >= 0)
		close(lent->rules);
}

static void free_host(struct xp_host *h)
{
	if (h->wake_fd >= 0)
		close(h->wake_fd);
	xp_nearby_free(h);
	xd_socket_close(h->socket);
	if (h->engine) {
		xt_flow_end(&h->flow);
		xt_engine_free(h->engine);
	}
	if (h->ahs)
		xt_ahs_free(h->ahs);
	if (h->shared.groups)
		xt_groups_free(h->shared.groups);
	if (h->shared.srqs)
		xt_numbers_free(h->shared.srqs);
	if (h->shared.qps)
		xt_numbers_free(h->shared.qps);
	if (h->shared.keys)
		xt_keys_free(h->shared.keys);
	xd_memory_tables_free(h->tables);
	xp_shared_free(h->doorbell, sizeof(*h->doorbell));
	xp_publish_close(h);
	close_lent(&h->env.lent);
	free(h->objects.of);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static int check_lent(const struct xr_lend_rep *rep)
{
	return rep->ports && rep->ports <= XR_LEND_PORTS && rep->qpn_modulus &&
			       rep->qpn_rest < rep->qpn_modulus
		       ? 0
		       : -EPROTO;
}

static int host_start(struct xp_host *h)
{
	int err = check_lent(&h->env.lent.rep);

	xp_captures_open(h, h->env.lent.view);
	xp_view_open(h, h->env.lent.view);
	h->env.lent.view = -1;
	xp_nearby_init(h);
	xp_page_open(h, h->env.lent.rules);
	h->env.lent.rules = -1;
	if (!err)
		err = xp_publish_open(h);
	if (!err)
		err = xd_memory_tables_new(XP_HOST_QPS, NAK_RATE, &h->tables);
	if (!err)
		err = host_open_socket(h);
	if (!err)
		err = make_engine(h);
	if (!err)
		err = xp_host_learn_port(h);
	return err ? err : xp_progress_start(h);
}

/* What the daemon sees, and what it has given to see */
static void close_shared(struct xp_host *h)
{
	xp_captures_close(h);
	xp_view_close(h);
	xp_faults_close(h);
	xp_page_close(h);
}

static int provider_host_open_host(const struct xp_host_env *env, struct xp_host **host)
{
	struct xp_host *h = calloc(1, sizeof(*h));
	struct xp_lent lent = env->lent;
	pthread_mutexattr_t spins;
	int err;

	if (!h) {
		close_lent(&lent);
		return -ENOMEM;
	}
	h->env = *env;
	h->wake_fd = -1;
	h->next = XT_NEVER;
	set_limits(h);
	pthread_mutexattr_init(&spins);
	pthread_mutexattr_settype(&spins, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&h->lock, &spins);
	pthread_mutexattr_destroy(&spins);
	err = host_start(h);
	if (err) {
		close_shared(h);
		free_host(h);
		return err;
	}
	xp_exit_add(h);
	*host = h;
	return 0;
}

/* ---- close -------------------------------------------------------------------------------- */

/* Destroys what the program has left, as the daemon does when a connection ends. */
static void destroy_objects(struct xp_host *h)
{
	static const struct {
		uint8_t kind;
		uint32_t type;
	} order[] = {
		{ XP_KIND_QP, XR_MSG_DESTROY_QP },   { XP_KIND_AH, XR_MSG_DESTROY_AH },
		{ XP_KIND_MW, XR_MSG_DEALLOC_MW },   { XP_KIND_MR, XR_MSG_DEREG_MR },
		{ XP_KIND_DM, XR_MSG_FREE_DM },	     { XP_KIND_SRQ, XR_MSG_DESTROY_SRQ },
		{ XP_KIND_CQ, XR_MSG_DESTROY_CQ },   { XP_KIND_CHANNEL, XR_MSG_DESTROY_CHANNEL },
		{ XP_KIND_XRCD, XR_MSG_CLOSE_XRCD }, { XP_KIND_PD, XR_MSG_DEALLOC_PD },
	};
	struct xr_handle_req req = { 0 };
	struct xp_call c = { .req = &req, .req_len = sizeof(req) };
	struct xp_object *obj;

	for (uint32_t i = 0; h->groups && i < h->objects.room; i++)
		if (h->objects.of[i] && h->objects.of[i]->kind == XP_KIND_QP)
			xp_mcast_leave(h, (struct xp_qp_object *)h->objects.of[i]);
	for (uint32_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		while ((obj = xp_object_any(&h->objects, order[i].kind))) {
			req.handle = obj->handle;
			c.type = order[i].type;
			if (call(h, &c))
				break;
		}
	}
}

static void close_host(struct xp_host *h, bool forked)
{
	/* The lock, and all that it protects, may be as another thread of the parent left it. */
	if (forked)
		return;
	h->closes = true;
	xp_exit_remove(h);
	destroy_objects(h);
	xp_progress_stop(h);
	close_shared(h);
	free_host(h);
}

static struct xr_doorbell *doorbell(struct xp_host *h)
{
	return h->doorbell;
}

static int host_packets(const struct xp_host *h)
{
	return h->socket->fd;
}

static bool sleeps(const struct xp_host *h)
{
	return __atomic_load_n(&h->sleeps, __ATOMIC_RELAXED) &&
	       xp_reader_sleeps(&h->reader, xp_host_clock());
}

static uint64_t host_received(const struct xp_host *h)
{
	return __atomic_load_n(&h->received, __ATOMIC_RELAXED);
}

__attribute__((visibility("default"))) const struct xp_host_ops xp_host_ops = {
	.version = XR_VERSION,
	.view = xp_view_new,
	.ring = xp_ring_new,
	.free_ring = xp_ring_free,
	.inbox = xp_inbox_new,
	.open = provider_host_open_host,
	.close = close_host,
	.in_child = xp_give_back_sockets,
	.doorbell = doorbell,
	.serves = host_serves,
	.call = call_with_faults,
	.kick = xp_host_kick,
	.poll = xp_host_poll,
	.poll_channel = xp_host_poll_channel,
	.received = host_received,
	.forget_cq = xp_cq_forget,
	.channel = xp_channel_of,
	.take_event = xp_host_take_event,
	.wait_event = xp_host_wait_event,
	.packets = host_packets,
	.sleeps = sleeps,
	.woken = xp_host_woken,
	.fault = xt_guard_fault,
};

/* ---- messages of the files that the daemon uses, too ---------------------------------------- */

void xd_log_at(struct xd_log_site *site, enum xd_log_level level, const char *fmt, ...)
{
	(void)site;
	(void)level;
	(void)fmt;
}
