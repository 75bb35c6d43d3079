// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* QP 1: creation, loan to a program, received MADs. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/rate.h"
#include "daemon/datapath/grace.h"
#include "daemon/datapath/worker.h"
#include "daemon/io/tables.h"
#include "gsi_internal.h"

#define MAD_CLASS 1 /* offset */
#define MAD_CLASS_CM 0x07

/* ---- creation ------------------------------------------------------------------------------ */

static const struct xt_mem_ops always_mapped;

/* The L_Key of the receive buffers is the reserved one; addresses are offsets in rings->buffer. */
static void init_memory(struct gsi_qp *q)
{
	q->segment = (struct xt_mem_seg){
		.len = sizeof(q->rings->buffer),
		.ptr = (uint8_t *)q->rings->buffer,
		.writable = true,
	};
	q->memory = (struct xt_mem){
		.ops = &always_mapped,
		.length = q->segment.len,
		.nseg = 1,
		.seg = &q->segment,
	};
	q->memory_ptr = &q->memory;
}

static void post_receive(struct gsi_qp *q, uint64_t buffer)
{
	uint8_t *slot = q->rings->receive[q->receives % GSI_RECEIVES];
	const struct xr_recv_wqe wqe = { .wr_id = buffer, .num_sge = 1 };
	const struct xr_sge sge = {
		.addr = buffer * sizeof(struct gsi_buffer),
		.length = sizeof(struct gsi_buffer),
		.lkey = XR_RESERVED_LKEY,
	};

	memcpy(slot, &wqe, sizeof(wqe));
	memcpy(slot + sizeof(wqe), &sge, sizeof(sge));
	q->receives++;
	__atomic_store_n(&q->rings->rq.producer, q->receives, __ATOMIC_RELEASE);
}

/*
 * Fills the table of address handles, so that later changes need no memory: each takes that of the
 * handle that was replaced before.
 */
static int fill_ahs(struct gsi_qp *q)
{
	static const struct xt_path any = { .ip_version = 4, .hop_limit = 1 };
	int err = 0;

	q->ahs = xt_ahs_new();
	if (!q->ahs)
		return -ENOMEM;
	for (uint32_t i = 0; !err && i <= GSI_SENDS; i++)
		err = xt_ahs_set(q->ahs, i % GSI_SENDS, 0, &any);
	return err;
}

static int to_rts(struct xt_qp *qp)
{
	const struct {
		uint32_t state, mask;
	} steps[] = {
		{ XR_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
		{ XR_QPS_RTR, 0 },
		{ XR_QPS_RTS, IBV_QP_SQ_PSN },
	};
	struct xr_qp_attr attr = { .port_num = 1, .qkey = XR_GSI_QKEY };
	int err = 0;

	for (unsigned int i = 0; !err && i < 3; i++) {
		attr.qp_state = steps[i].state;
		err = xt_qp_modify(qp, &attr, IBV_QP_STATE | steps[i].mask, NULL, XC_MAD_LEN,
				   xd_now());
	}
	return err;
}

static struct xt_qp_init gsi_describe(const struct xd_gsi *g, struct gsi_qp *q)
{
	return (struct xt_qp_init){
		.type = XR_QPT_UD,
		.send_cq = &q->cq,
		.recv_cq = &q->cq,
		.sq = &q->rings->sq,
		.rq = &q->rings->rq,
		.sq_depth = GSI_SENDS,
		.rq_depth = GSI_RECEIVES,
		.sq_stride = GSI_SEND_STRIDE,
		.rq_stride = GSI_RECEIVE_STRIDE,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.max_inline = XC_MAD_LEN,
		.gsi = true,
		.ahs = q->ahs,
		.psns = g->config.tables->psns,
		.reserved_lkey_mem = &q->memory_ptr,
		.flow = &q->flow,
	};
}

/* The worker is paused. */
static int gsi_add_to_engine(struct xd_gsi *g, struct gsi_qp *q, const struct xt_qp_init *init)
{
	struct xr_qp_entry entry;
	int err;

	xt_flow_init(&q->flow, xt_qp_info(q->xt)->engine);
	q->flow.of_daemon = true;
	err = xt_qp_add(q->xt, init);
	if (!err) {
		err = to_rts(q->xt);
		xt_qp_entry(q->xt, &entry);
		if (!err)
			err = xd_tables_set_qp(g->config.tables, XR_GSI_QPN, &entry);
		if (err) {
			xt_qp_remove(q->xt);
			xt_qp_withdraw(q->xt);
		}
	}
	if (err)
		xt_flow_end(&q->flow);
	return err;
}

/* Waits until no worker has found the QP, which was withdrawn, in its round. */
static void wait_for_workers(struct xd_gsi *g)
{
	xd_grace_synchronize(g->config.workers);
}

static void gsi_free_qp(struct gsi_qp *q)
{
	if (q->xt)
		xt_qp_free(q->xt);
	xt_ahs_free(q->ahs);
	free(q->rings);
	free(q);
}

static struct gsi_qp *alloc_qp(void)
{
	struct gsi_qp *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	xt_list_init(&q->waiting);
	xt_list_init(&q->peers);
	q->rings = aligned_alloc(_Alignof(struct gsi_rings), sizeof(*q->rings));
	if (!q->rings || fill_ahs(q)) {
		gsi_free_qp(q);
		return NULL;
	}
	memset(q->rings, 0, sizeof(*q->rings));
	init_memory(q);
	xt_cq_init(&q->cq, &q->rings->cq, GSI_CQES);
	q->rings->cq.word = XR_ARM_ANY;
	for (uint32_t i = 0; i < GSI_RECEIVES; i++)
		post_receive(q, i);
	return q;
}

static int open_qp(struct xd_gsi *g)
{
	struct gsi_qp *q = alloc_qp();
	struct xt_qp_init init;
	int err;

	if (!q)
		return -ENOMEM;
	q->event_fd = g->event_fd;
	init = gsi_describe(g, q);
	err = xt_qp_new(xd_worker_engine(g->config.workers, GSI_WORKER), &init, &q->xt);
	if (!err) {
		xd_worker_pause(g->config.workers, GSI_WORKER);
		err = gsi_add_to_engine(g, q, &init);
		xd_worker_resume(g->config.workers, GSI_WORKER);
	}
	if (err) {
		wait_for_workers(g);
		gsi_free_qp(q);
	} else {
		g->qp = q;
	}
	return err;
}

static void close_qp(struct xd_gsi *g)
{
	struct gsi_qp *q = g->qp;

	if (!q)
		return;
	g->qp = NULL;
	xd_gsi_drop_waiting(q);
	xd_worker_pause(g->config.workers, GSI_WORKER);
	xt_qp_remove(q->xt);
	xt_flow_end(&q->flow);
	xd_worker_resume(g->config.workers, GSI_WORKER);
	xt_qp_withdraw(q->xt);
	xd_tables_del_qp(g->config.tables, XR_GSI_QPN);
	wait_for_workers(g);
	gsi_free_qp(q);
}

/* ---- received MADs ------------------------------------------------------------------------- */

static void parse_grh(const struct gsi_buffer *b, struct xc_path *path)
{
	const uint8_t *ipv4 = b->grh + XR_GRH_LEN - XR_IPV4_HLEN;
	__be32 word;

	if (b->grh[0] >> 4 == 6) {
		memcpy(&word, b->grh, sizeof(word));
		path->flow_label = be32toh(word) & 0xfffff;
		path->traffic_class = (uint8_t)(be32toh(word) >> 20);
		path->hop_limit = b->grh[7];
		memcpy(path->peer.raw, b->grh + 8, sizeof(path->peer));
		memcpy(path->local.raw, b->grh + 24, sizeof(path->local));
		return;
	}
	path->traffic_class = ipv4[1];
	path->hop_limit = ipv4[8];
	memcpy(&word, ipv4 + 12, sizeof(word));
	xr_gid_set_ipv4(&path->peer, word);
	memcpy(&word, ipv4 + 16, sizeof(word));
	xr_gid_set_ipv4(&path->local, word);
}

static void gsi_sum_counters(struct xd_gsi *g, struct xt_counters *sum)
{
	xd_workers_sum(g->config.workers, sum, NULL);
	if (g->add_counters)
		g->add_counters(g->add_counters_ctx, sum);
}

/* Responses are as long as requests, and go to the QP that has sent the request. */
static void respond(struct xd_gsi *g, const struct xc_path *path, uint32_t qpn, const uint8_t *mad)
{
	static const struct xd_rate rate = { 1000000000u / XD_GSI_PMA_RATE, XD_GSI_PMA_BURST };
	struct xc_path back = *path;
	struct xt_counters sum = { 0 };
	uint8_t response[XC_MAD_LEN];

	if (!xd_rate_take(&rate, &g->pma_bucket, xd_now())) {
		g->counters.pma_limited++;
		return;
	}
	g->counters.pma_requests++;
	gsi_sum_counters(g, &sum);
	xd_pma_respond(&g->pma, &sum, mad, response);
	back.hop_limit = 0; /* not what routers have left of that of the request */
	xd_gsi_send_to(g, &back, qpn, GSI_WAITING_PMA, response);
}

static void gsi_receive(struct xd_gsi *g, const struct xr_cqe *cqe)
{
	const struct gsi_buffer *b = &g->qp->rings->buffer[cqe->wr_id];
	bool whole = cqe->byte_len == sizeof(*b);
	bool cm = whole && b->mad[MAD_CLASS] == MAD_CLASS_CM;
	bool pma = whole && b->mad[MAD_CLASS] == XD_PMA_CLASS && xd_pma_is_request(b->mad);
	bool wanted = pma || (cm ? !!g->received : whole && g->others);
	struct xc_path path = { 0 };

	if (wanted)
		parse_grh(b, &path);
	if (wanted && pma)
		respond(g, &path, cqe->src_qpn, b->mad);
	else if (wanted && cm)
		g->received(g->ctx, &path, b->mad);
	else if (wanted)
		wanted = g->others(g->others_ctx, &path, cqe->src_qpn, b->mad);
	if (wanted)
		g->counters.mads_received++;
	else
		g->counters.mads_refused++;
}

/* Returns false if the CQ is empty. */
static bool gsi_poll_one(struct xd_gsi *g)
{
	struct gsi_qp *q = g->qp;
	struct xr_cqe cqe;

	if (__atomic_load_n(&q->rings->cq.producer, __ATOMIC_ACQUIRE) == q->polled)
		return false;
	cqe = q->rings->cqe[q->polled % GSI_CQES];
	q->polled++;
	__atomic_store_n(&q->rings->cq.consumer, q->polled, __ATOMIC_RELEASE);
	/* sends are not signaled, and failed ones have no buffer */
	if (!cqe.is_recv)
		return true;
	if (cqe.status == IBV_WC_SUCCESS)
		gsi_receive(g, &cqe);
	post_receive(q, cqe.wr_id);
	return true;
}

static void ask_for_event(int event_fd)
{
	uint64_t one = 1;

	(void)!write(event_fd, &one, sizeof(one));
}

static void gsi_arm(struct xd_gsi *g)
{
	struct xr_queue *cq = &g->qp->rings->cq;

	__atomic_store_n(&cq->word, XR_ARM_ANY, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&cq->producer, __ATOMIC_ACQUIRE) != g->qp->polled)
		ask_for_event(g->event_fd);
}

static void gsi_on_event(void *arg, uint32_t events)
{
	struct xd_gsi *g = arg;
	unsigned int n = 0;
	bool late = false;
	uint64_t value;

	(void)!read(g->event_fd, &value, sizeof(value));
	if (!g->qp)
		return;
	g->receiving = true;
	while (n < XD_GSI_BATCH && !late && gsi_poll_one(g)) {
		late = xd_loop_must_yield(g->config.loop);
		n++;
	}
	g->receiving = false;
	xd_gsi_publish(g);
	if (late || n == XD_GSI_BATCH)
		ask_for_event(g->event_fd);
	else
		gsi_arm(g);
}

void xd_gsi_cq_event(struct xt_cq *cq)
{
	const struct gsi_qp *q = (struct gsi_qp *)((char *)cq - offsetof(struct gsi_qp, cq));

	ask_for_event(q->event_fd);
}

/* ---- start and stop ------------------------------------------------------------------------ */

int xd_gsi_new(const struct xd_gsi_config *config, struct xd_gsi **out)
{
	struct xd_gsi *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->config = *config;
	g->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (g->event_fd >= 0)
		g->watch = xd_watch_add(config->loop, g->event_fd, EPOLLIN, gsi_on_event, g);
	err = g->watch ? open_qp(g) : -ENOMEM;
	if (err) {
		xd_gsi_free(g);
		return err;
	}
	*out = g;
	return 0;
}

void xd_gsi_free(struct xd_gsi *g)
{
	if (!g)
		return;
	close_qp(g);
	xd_watch_del(g->watch);
	if (g->event_fd >= 0)
		close(g->event_fd);
	free(g);
}

void xd_gsi_set_receiver(struct xd_gsi *g, xd_gsi_received_fn fn, void *ctx)
{
	g->received = fn;
	g->ctx = ctx;
}

void xd_gsi_set_counters(struct xd_gsi *g, xd_gsi_counters_fn fn, void *ctx)
{
	g->add_counters = fn;
	g->add_counters_ctx = ctx;
}

void xd_gsi_set_others(struct xd_gsi *g, xd_gsi_others_fn fn, void *ctx)
{
	g->others = fn;
	g->others_ctx = ctx;
}

const struct xd_gsi_counters *xd_gsi_counters(const struct xd_gsi *g)
{
	return &g->counters;
}

/* ---- owner of QP 1 ------------------------------------------------------------------------- */

int xd_gsi_hold(struct xd_gsi *g)
{
	int err = 0;

	if (!g)
		return 0;
	if (g->lent)
		return -EBUSY;
	if (!g->qp)
		err = open_qp(g);
	if (!err)
		g->holders++;
	return err;
}

void xd_gsi_release(struct xd_gsi *g)
{
	if (g)
		g->holders--;
}

int xd_gsi_lend(struct xd_gsi *g)
{
	if (!g)
		return 0;
	if (g->lent || g->holders)
		return -EBUSY;
	close_qp(g);
	g->lent = true;
	return 0;
}

void xd_gsi_take_back(struct xd_gsi *g)
{
	int err;

	if (!g)
		return;
	g->lent = false;
	err = open_qp(g);
	if (err)
		xd_log(XD_WARN, "QP 1: %s; the next CM id tries again", strerror(-err));
}

bool xd_gsi_lent(const struct xd_gsi *g)
{
	return g && g->lent;
}
