// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Looks for bytes of the peer that arrive after the program has got its memory back: in each run
 * the peer is in the middle of a WRITE (or the program of a READ) of 4 MiB, the right to the memory
 * ends, the program writes a byte of its own to each page, and these must stay.
 *
 *   rdma_late [options]         the driver: owns the memory
 *   rdma_late [options] HOST    its partner: executes requests of the driver (endpoint.h)
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -t NAME  one way to end the right        -p PORT  TCP port for set-up (18516), and the next one
 *   -n N     runs (default 20; one for "close" and "killed")
 *   -x CMD   shell command that kills the daemon, for "killed"
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"

#include "../lib/direct_verbs.h"

#define SIZE EP_BUF_SIZE
#define PAGE 4096u
#define OWN 0xee /* the program's own bytes */
#define BEFORE 0x11
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define LATE_US 5000 /* after the end of the transfer, for what still takes effect */
#define SOME_US 3000 /* from the first bytes to the end of the right, at most */
#define SEND_US 1000 /* the same if a SEND of the peer has to arrive as well */

struct late {
	struct endpoint ep;
	struct endpoint other; /* a second QP of the PD: its SENDs do not wait for WRITEs of ep */
	struct direct_verbs dv;
	uint8_t *mem;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct xrocedv_pool *pool;
	const struct xrocedv_mapping *mapping;
	uint32_t rkey;
	const char *command;
};

/* ---- bytes that must stay -------------------------------------------------------------- */

/* The last byte of each page, as all bytes take so long that what arrives meanwhile is not seen. */
static void mark(uint8_t *p)
{
	for (size_t i = PAGE - 1; i < SIZE; i += PAGE)
		p[i] = OWN;
}

static size_t count_late(const uint8_t *p)
{
	size_t n = 0;

	for (size_t i = PAGE - 1; i < SIZE; i += PAGE)
		n += p[i] != OWN;
	return n;
}

/* ---- work requests --------------------------------------------------------------------- */

static int complete(struct late *l)
{
	struct ibv_wc wc;

	return ep_completion(&l->ep, &wc);
}

static int post(struct late *l, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err;

	wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(l->ep.qp, wr, &bad);
	return err ? err : complete(l);
}

static int local_inv(struct late *l)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = l->rkey };

	return post(l, &wr);
}

static int move_to(struct late *l, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(l->ep.qp, &attr, IBV_QP_STATE);
}

/* ---- memory that the peer may write ------------------------------------------------------ */

static int grant_region(struct late *l, unsigned access)
{
	l->mr = ibv_reg_mr(l->ep.pd, l->mem, SIZE, access);
	l->rkey = l->mr ? l->mr->rkey : 0;
	return l->mr ? 0 : errno;
}

/* Regions on demand are private memory: a mover writes to them. */
static int grant_private(struct late *l)
{
	return grant_region(l, RIGHTS | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND);
}

/* Its first page is only partly the region's, and so the rest of it is adopted memory. */
static int grant_plain(struct late *l)
{
	return grant_region(l, RIGHTS);
}

static int revoke_region(struct late *l)
{
	int err = l->mr ? ibv_dereg_mr(l->mr) : 0;

	l->mr = NULL;
	return err;
}

static int grant_fast(struct late *l)
{
	struct xrocedv_sg sg = { (uintptr_t)l->mem, SIZE };
	int err;

	l->mr = l->dv.alloc_mr(l->ep.pd, SIZE / PAGE);
	if (!l->mr || l->dv.map_mr_sg(l->mr, &sg, 1, NULL, PAGE) != 1)
		return errno;
	err = l->dv.post_reg_mr(l->ep.qp, l->mr, 1, RIGHTS, IBV_SEND_SIGNALED);
	l->rkey = l->mr->rkey;
	return err ? err : complete(l);
}

static int grant_window_2(struct late *l)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };
	int err = grant_private(l);

	l->mw = err ? NULL : ibv_alloc_mw(l->ep.pd, IBV_MW_TYPE_2);
	if (!l->mw)
		return errno;
	l->rkey = ibv_inc_rkey(l->mw->rkey);
	wr.bind_mw.mw = l->mw;
	wr.bind_mw.rkey = l->rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ l->mr, (uintptr_t)l->mem, SIZE,
							  RIGHTS & ~1u };
	return post(l, &wr);
}

static int bind_1(struct late *l, uint64_t len)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { len ? l->mr : NULL, len ? (uintptr_t)l->mem : 0, len,
			       IBV_ACCESS_REMOTE_WRITE },
	};
	int err = ibv_bind_mw(l->ep.qp, l->mw, &bind);

	return err ? err : complete(l);
}

static int grant_window_1(struct late *l)
{
	int err = grant_private(l);

	l->mw = err ? NULL : ibv_alloc_mw(l->ep.pd, IBV_MW_TYPE_1);
	if (!l->mw)
		return errno;
	err = bind_1(l, SIZE);
	l->rkey = l->mw->rkey;
	return err;
}

static int unbind(struct late *l)
{
	return bind_1(l, 0);
}

static int revoke_window(struct late *l)
{
	int err = l->mw ? ibv_dealloc_mw(l->mw) : 0;

	l->mw = NULL;
	return err;
}

static int grant_pool(struct late *l)
{
	struct xrocedv_sg sg = { (uintptr_t)l->mem, SIZE };
	struct xrocedv_pool_attr attr = {
		.max_pages = SIZE / PAGE,
		.page_size = PAGE,
		.pool_size = 1,
		.access = RIGHTS,
	};

	l->pool = l->dv.create_pool(l->ep.pd, &attr);
	l->mapping = l->pool ? l->dv.pool_map(l->pool, &sg, 1) : NULL;
	if (!l->mapping)
		return errno;
	l->rkey = l->mapping->rkey;
	return 0;
}

static int flush_pool(struct late *l)
{
	int err = l->dv.pool_unmap(l->mapping);

	return err ? err : l->dv.flush_pool(l->pool);
}

static int revoke_pool(struct late *l)
{
	int err = l->pool ? l->dv.destroy_pool(l->pool) : 0;

	l->pool = NULL;
	return err;
}

static int lose_rights(struct late *l)
{
	return ibv_rereg_mr(l->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
}

static void *peer_invalidates(void *arg)
{
	struct late *l = arg;

	ep_call(&l->other, &(struct ep_request){ .op = EP_SEND_INV, .rkey = l->rkey });
	return NULL;
}

/* The completion of the receive, not that of the peer, gives the memory back. */
static int send_inv(struct late *l)
{
	struct ibv_recv_wr *bad, wr = { 0 };
	struct ibv_wc wc;
	pthread_t thread;
	int err = ibv_post_recv(l->other.qp, &wr, &bad);

	if (!err)
		err = pthread_create(&thread, NULL, peer_invalidates, l);
	if (err)
		return err;
	err = ep_completion(&l->other, &wc);
	if (!err && (!(wc.wc_flags & IBV_WC_WITH_INV) || wc.invalidated_rkey != l->rkey))
		err = -1;
	mark(l->mem);
	pthread_join(thread, NULL);
	return err;
}

static int reset(struct late *l)
{
	return move_to(l, IBV_QPS_RESET);
}

static int error(struct late *l)
{
	return move_to(l, IBV_QPS_ERR);
}

static int destroy_qp(struct late *l)
{
	int err = ibv_destroy_qp(l->ep.qp);

	l->ep.qp = NULL;
	return err;
}

/* Creates the QP of an endpoint that has none. */
static int make_qp(struct endpoint *ep)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { EP_DEPTH, EP_DEPTH, EP_SGE, EP_SGE, 64 },
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
	};

	if (ep->qp)
		return 0;
	ep->qp = ibv_create_qp(ep->pd, &init);
	ep->me.qpn = ep->qp ? ep->qp->qp_num : 0;
	return ep->qp ? 0 : errno;
}

static bool open_other(struct late *l, const char *host, int port)
{
	l->other = l->ep;
	l->other.qp = NULL;
	l->other.cq = ibv_create_cq(l->ep.ctx, EP_DEPTH, NULL, NULL, 0);
	return l->other.cq && !make_qp(&l->other) && ep_connect(&l->other, host, port);
}

static void *serve_other(void *arg)
{
	struct late *l = arg;

	return ep_serve(&l->other) ? l : NULL;
}

/* Serves both connections. */
static bool serve(struct late *l)
{
	pthread_t thread;
	void *other;
	bool ok = !pthread_create(&thread, NULL, serve_other, l) && ep_serve(&l->ep);

	return ok && !pthread_join(thread, &other) && other;
}

/* All objects are left to the daemon. */
static int close_device(struct late *l)
{
	return ibv_close_device(l->ep.ctx);
}

/* The daemon is killed: it never answers again, but what it has started must not go on. */
static int kill_daemon(struct late *l)
{
	struct ibv_async_event event;

	if (system(l->command))
		return -1;
	while (!ibv_get_async_event(l->ep.ctx, &event))
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			return 0;
	return -1;
}

/* ---- the transfer ------------------------------------------------------------------------ */

static void *peer_writes(void *arg)
{
	struct late *l = arg;

	ep_call(&l->ep,
		&(struct ep_request){
			.op = EP_WRITE, .addr = (uintptr_t)l->mem, .len = SIZE, .rkey = l->rkey });
	return NULL;
}

static void wait_for_bytes(const uint8_t *p)
{
	const volatile uint8_t *first = p;

	while (*first == BEFORE)
		;
}

/* Ends the right some time after the first bytes have arrived. Returns 0 or an error. */
static int end_right(struct late *l, int (*revoke)(struct late *l))
{
	int err;

	wait_for_bytes(l->mem);
	usleep((useconds_t)rand() % (revoke == send_inv ? SEND_US : SOME_US));
	err = revoke(l);
	mark(l->mem);
	return err;
}

struct way {
	const char *name;
	int (*grant)(struct late *l);
	int (*revoke)(struct late *l);
};

/* Returns the number of pages that have changed, -1 on error. */
static long write_once(struct late *l, const struct way *w)
{
	pthread_t thread;
	int err = w->grant(l);

	if (err || pthread_create(&thread, NULL, peer_writes, l)) {
		printf("# %s: cannot grant access: %d\n", w->name, err);
		return -1;
	}
	err = end_right(l, w->revoke);
	pthread_join(thread, NULL);
	if (!err)
		return 0;
	printf("# %s: %d\n", w->name, err);
	return -1;
}

/* The program reads, and a flushed completion gives the memory back, unless the READ was fast. */
static int flush_read(struct late *l)
{
	int err = move_to(l, IBV_QPS_ERR), status = err ? err : complete(l);

	return status == IBV_WC_WR_FLUSH_ERR ? 0 : status;
}

static long read_once(struct late *l, const struct way *w)
{
	struct ibv_sge sge = { (uintptr_t)l->mem, SIZE, 0 };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { l->ep.peer.addr, l->ep.peer.rkey },
	};
	int err = w->grant(l);

	if (err)
		return -1;
	sge.lkey = l->mr->lkey;
	if (ibv_post_send(l->ep.qp, &wr, &bad))
		return -1;
	return end_right(l, w->revoke) ? -1 : 0;
}

static long run_once(struct late *l, const struct way *w)
{
	long failed;

	memset(l->mem, BEFORE, SIZE);
	failed = w->revoke == flush_read ? read_once(l, w) : write_once(l, w);
	if (failed)
		return failed;
	usleep(LATE_US);
	failed = (long)count_late(l->mem);
	if (w->revoke == close_device || w->revoke == kill_daemon)
		return failed;
	if (revoke_window(l) || revoke_pool(l) || revoke_region(l) || make_qp(&l->ep) ||
	    ep_reconnect(&l->ep))
		return -1;
	return failed;
}

static const struct way ways[] = {
	{ "fast", grant_fast, local_inv },
	{ "send-inv", grant_fast, send_inv },
	{ "window", grant_window_2, local_inv },
	{ "unbind", grant_window_1, unbind },
	{ "dealloc-window", grant_window_1, revoke_window },
	{ "pool", grant_pool, flush_pool },
	{ "rereg", grant_private, lose_rights },
	{ "dereg", grant_private, revoke_region },
	{ "dereg-plain", grant_plain, revoke_region },
	{ "dereg-fast", grant_fast, revoke_region },
	{ "reset", grant_private, reset },
	{ "error", grant_private, error },
	{ "destroy", grant_private, destroy_qp },
	{ "close", grant_private, close_device },
	{ "killed", grant_private, kill_daemon },
	{ "flushed-read", grant_private, flush_read },
};

static int end_calls(struct endpoint *ep)
{
	return ep_call(ep, &(struct ep_request){ .op = EP_END });
}

static int run(struct late *l, const char *name, int runs)
{
	const struct way *w = ways;
	long pages = 0, late, wrong = 0;

	while (strcmp(w->name, name))
		if (++w == ways + sizeof(ways) / sizeof(ways[0]))
			return 2;
	if (w->revoke == close_device || w->revoke == kill_daemon)
		runs = 1;
	ep_call(&l->ep, &(struct ep_request){ .op = EP_FILL, .len = SIZE, .seed = 1 });
	for (int i = 0; i < runs; i++) {
		late = run_once(l, w);
		if (late < 0)
			return 1;
		wrong += late > 0;
		pages += late;
	}
	printf("%s %s: memory changed in %ld of %d runs, %ld pages\n", wrong ? "FAILED" : "ok",
	       name, wrong, runs, pages);
	return end_calls(&l->other) || end_calls(&l->ep) || wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *name = "fast", *dev = NULL;
	int c, gid_index = 1, port = 18516, runs = 20;
	struct late l = { 0 };

	while ((c = getopt(argc, argv, "d:g:p:t:n:x:")) != -1) {
		switch (c) {
		case 'd':
			dev = optarg;
			break;
		case 'g':
			gid_index = atoi(optarg);
			break;
		case 'p':
			port = atoi(optarg);
			break;
		case 't':
			name = optarg;
			break;
		case 'n':
			runs = atoi(optarg);
			break;
		case 'x':
			l.command = optarg;
			break;
		default:
			fprintf(stderr,
				"usage: rdma_late [-d DEV] [-g GID-INDEX] [-p PORT] [-n RUNS] "
				"[-t NAME] [-x CMD] [HOST]\n");
			return 2;
		}
	}
	find_direct_verbs(&l.dv);
	l.mem = map_anonymous(SIZE);
	if (!l.mem || !ep_open(&l.ep, dev, gid_index) || !ep_connect(&l.ep, argv[optind], port) ||
	    !open_other(&l, argv[optind], port + 1))
		return 1;
	return argv[optind] ? !serve(&l) : run(&l, name, runs);
}
