// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sent MADs: their next hops, and the send queue. A MAD takes the slot of the send queue and the
 * address handle with the same number. The engine reads a handle only while its slot is in use, so
 * that a free one can be changed while only that engine's worker is paused.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/loop.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "daemon/netdev/net.h"
#include "gsi_internal.h"

/* After this time the neighbour is looked up again, so that the kernel verifies it. */
#define HOP_NS 1000000000u

/* A peer whose next hop is unknown; all MADs to it wait for one resolve */
struct gsi_peer {
	struct xt_list link; /* first; in gsi_qp.peers */
	struct xd_gsi *gsi;
	struct xr_addr local, peer;
	struct xd_resolve *resolve; /* NULL: known */
	bool starting;		    /* xd_net_resolve() has not returned */
	int err;
	struct xt_list mads;
};

struct gsi_waiting {
	struct xt_list link; /* first; in gsi_qp.waiting, the oldest one first */
	struct xt_list in_peer;
	struct gsi_peer *peer;
	struct xc_path path;
	uint32_t qpn; /* of the peer */
	uint8_t mad[XC_MAD_LEN];
};

/* ---- send queue ---------------------------------------------------------------------------- */

/*
 * The control thread sends a few MADs itself: waking the worker would take longer. If more are
 * left, the worker sends them.
 */
void xd_gsi_publish(struct xd_gsi *g)
{
	struct xd_workers *workers = g->config.workers;
	struct gsi_qp *q = g->qp;

	if (!q || q->published == q->sends)
		return;
	xd_worker_pause(workers, GSI_WORKER);
	for (; q->published != q->sends; q->published++) {
		uint32_t slot = q->published % GSI_SENDS;

		xt_ahs_set(q->ahs, slot, 0, &q->path[slot]);
	}
	__atomic_store_n(&q->rings->sq.producer, q->sends, __ATOMIC_RELEASE);
	xt_qp_catch_up(q->xt, xd_now(), 1);
	xd_worker_flush(workers, GSI_WORKER);
	xd_worker_resume_if_due(workers, GSI_WORKER);
}

static bool meets_faults(const struct xd_gsi *g)
{
	const struct xd_faults *f = xd_workers_faults(g->config.workers);

	return xd_faults_on(f, XD_FAULT_RX) || xd_faults_on(f, XD_FAULT_TX);
}

static void send_set_path(struct xt_path *p, const struct xt_path *hop, const struct xc_path *path)
{
	*p = *hop;
	p->flow_label = path->flow_label & 0xfffff;
	p->traffic_class = path->traffic_class;
	if (path->hop_limit)
		p->hop_limit = path->hop_limit;
}

static int queue(struct xd_gsi *g, const struct xt_path *hop, const struct xc_path *path,
		 uint32_t qpn, const uint8_t *mad)
{
	struct gsi_qp *q = g->qp;
	uint32_t slot = q->sends % GSI_SENDS;
	const struct xr_send_wqe wqe = {
		.opcode = XR_WR_SEND,
		.flags = XR_SEND_INLINE,
		.inline_len = XC_MAD_LEN,
		.ud = { .ah = slot, .remote_qpn = qpn, .remote_qkey = XR_GSI_QKEY },
	};

	if (q->sends - __atomic_load_n(&q->rings->sq.consumer, __ATOMIC_ACQUIRE) == GSI_SENDS) {
		g->counters.mads_no_room++;
		return -ENOBUFS;
	}
	send_set_path(&q->path[slot], hop, path);
	if (hop->loopback && meets_faults(g))
		xd_path_to_self(&q->path[slot]);
	memcpy(q->rings->send[slot], &wqe, sizeof(wqe));
	memcpy(q->rings->send[slot] + sizeof(wqe), mad, XC_MAD_LEN);
	q->sends++;
	g->counters.mads_sent++;
	if (!g->receiving)
		xd_gsi_publish(g);
	return 0;
}

void xd_gsi_flush(struct xd_gsi *g)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	uint64_t until = xd_now() + XD_GSI_FLUSH_MS * 1000000ull;
	struct gsi_qp *q = g->qp;

	if (!q)
		return;
	xd_gsi_publish(g);
	while (xd_now() < until &&
	       __atomic_load_n(&q->rings->sq.consumer, __ATOMIC_ACQUIRE) != q->sends)
		nanosleep(&pause, NULL);
}

/* ---- next hops ----------------------------------------------------------------------------- */

static struct gsi_hop *hop_slot(struct xd_gsi *g, const struct xc_path *path)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (unsigned int i = 0; i < sizeof(path->peer); i++)
		hash = ((hash ^ path->peer.raw[i]) * 16777619u ^ path->local.raw[i]) * 16777619u;
	return &g->hop[hash % GSI_HOPS];
}

static bool is_hop_of(const struct gsi_hop *h, const struct xc_path *path)
{
	return xr_gid_equal(&h->local, &path->local) && xr_gid_equal(&h->peer, &path->peer);
}

static const struct xt_path *known_hop(struct xd_gsi *g, const struct xc_path *path)
{
	const struct gsi_hop *h = hop_slot(g, path);

	return h->until > xd_now() && is_hop_of(h, path) ? &h->path : NULL;
}

bool xd_gsi_known_path(struct xd_gsi *g, const struct xc_path *path, struct xt_path *known)
{
	const struct xt_path *hop = known_hop(g, path);

	if (hop)
		send_set_path(known, hop, path);
	return hop;
}

bool xd_gsi_last_path(struct xd_gsi *g, const struct xc_path *path, struct xt_path *last)
{
	const struct gsi_hop *h = hop_slot(g, path);
	bool known = h->path.hop_limit && is_hop_of(h, path);

	if (known)
		send_set_path(last, &h->path, path);
	return known;
}

void xd_gsi_net_changed(struct xd_gsi *g)
{
	for (unsigned int i = 0; i < GSI_HOPS; i++)
		g->hop[i].until = 0;
}

/* ---- MADs that wait for next hops ------------------------------------------------------------ */

static void free_mad(struct gsi_qp *q, struct gsi_waiting *w)
{
	xt_list_del(&w->link);
	xt_list_del(&w->in_peer);
	q->waiting_count--;
	free(w);
}

static void free_peer(struct gsi_peer *p)
{
	xd_net_resolve_cancel(p->resolve);
	xt_list_del(&p->link);
	free(p);
}

/* The peer is freed with its last MAD. */
static void drop_oldest(struct gsi_qp *q)
{
	struct gsi_waiting *w = (struct gsi_waiting *)q->waiting.next;
	struct gsi_peer *p = w->peer;

	free_mad(q, w);
	if (xt_list_empty(&p->mads))
		free_peer(p);
}

void xd_gsi_drop_waiting(struct gsi_qp *q)
{
	while (!xt_list_empty(&q->waiting))
		drop_oldest(q);
}

static void send_waiting(struct xd_gsi *g, struct gsi_peer *p, const struct xt_path *hop)
{
	while (!xt_list_empty(&p->mads)) {
		struct gsi_waiting *w =
			(struct gsi_waiting *)((char *)p->mads.next -
					       offsetof(struct gsi_waiting, in_peer));

		if (hop)
			queue(g, hop, &w->path, w->qpn, w->mad);
		else
			g->counters.mads_no_path++;
		free_mad(g->qp, w);
	}
}

static void send_resolved(void *arg, int err, const struct xt_path *path)
{
	struct gsi_peer *p = arg;
	const struct xc_path key = { .local = p->local, .peer = p->peer };

	p->resolve = NULL;
	p->err = err;
	if (!err)
		*hop_slot(p->gsi, &key) = (struct gsi_hop){ p->local, p->peer, *path,
							    xd_now() + HOP_NS };
	send_waiting(p->gsi, p, path);
	if (!p->starting)
		free_peer(p);
}

static struct gsi_peer *send_find_peer(const struct gsi_qp *q, const struct xc_path *path)
{
	for (const struct xt_list *l = q->peers.next; l != &q->peers; l = l->next) {
		struct gsi_peer *p = (struct gsi_peer *)l;

		if (xr_gid_equal(&p->peer, &path->peer) && xr_gid_equal(&p->local, &path->local))
			return p;
	}
	return NULL;
}

/* Sets *out to NULL if the next hop is known now. */
static int send_resolve(struct xd_gsi *g, uint32_t gid_index, const struct xc_path *path,
			struct gsi_peer **out)
{
	const struct xr_ah_attr attr = {
		.dgid = path->peer,
		.sgid_index = gid_index,
		.is_global = 1,
		.port_num = 1,
	};
	struct gsi_peer *p = *out = calloc(1, sizeof(*p));
	int err;

	if (!p) {
		g->counters.mads_no_room++;
		return -ENOBUFS;
	}
	p->gsi = g;
	p->local = path->local;
	p->peer = path->peer;
	xt_list_init(&p->mads);
	xt_list_add_tail(&g->qp->peers, &p->link);
	p->starting = true;
	p->resolve = xd_net_resolve(g->config.net, &attr, send_resolved, p);
	p->starting = false;
	if (p->resolve)
		return 0;
	err = p->err;
	if (err)
		g->counters.mads_no_path++;
	*out = NULL;
	free_peer(p);
	return err;
}

/*
 * A peer that does not exist keeps its MADs waiting for seconds, and their number is that of forged
 * addresses. So a MAD of communication management takes the place of the oldest one, which would
 * have been sent by now if its next hop existed.
 */
static int send_wait_for(struct xd_gsi *g, struct gsi_peer *p, uint32_t waiting,
			 struct gsi_waiting *w)
{
	struct gsi_qp *q = g->qp;

	if (!w || (q->waiting_count >= waiting && waiting < GSI_WAITING)) {
		g->counters.mads_no_room++;
		free(w);
		if (xt_list_empty(&p->mads))
			free_peer(p);
		return -ENOBUFS;
	}
	w->peer = p;
	xt_list_add_tail(&q->waiting, &w->link);
	xt_list_add_tail(&p->mads, &w->in_peer);
	if (++q->waiting_count <= GSI_WAITING)
		return 0;
	g->counters.mads_no_room++;
	drop_oldest(q);
	return 0;
}

/* ---- send ------------------------------------------------------------------------------------ */

int xd_gsi_send_to(struct xd_gsi *g, const struct xc_path *path, uint32_t qpn, uint32_t waiting,
		   const uint8_t *mad)
{
	int gid_index = xd_net_gid_index(g->config.net, &path->local), err = 0;
	const struct xt_path *hop;
	struct gsi_waiting *w;
	struct gsi_peer *p;

	if (!g->qp)
		return -EBUSY;
	if (gid_index < 0) {
		g->counters.mads_no_path++;
		return -EINVAL;
	}
	hop = known_hop(g, path);
	p = hop ? NULL : send_find_peer(g->qp, path);
	if (!hop && !p) {
		err = send_resolve(g, (uint32_t)gid_index, path, &p);
		hop = known_hop(g, path);
	}
	if (err || !p)
		return err ? err : queue(g, hop, path, qpn, mad);
	w = calloc(1, sizeof(*w));
	if (w) {
		w->path = *path;
		w->qpn = qpn;
		memcpy(w->mad, mad, XC_MAD_LEN);
	}
	return send_wait_for(g, p, waiting, w);
}

int xd_gsi_send(struct xd_gsi *g, const struct xc_path *path, const uint8_t *mad)
{
	return xd_gsi_send_to(g, path, XR_GSI_QPN, GSI_WAITING, mad);
}
