/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads that post and poll at the same time, in one process. Each has an RC QP, connected to
 * another one of the same process, and sends, writes, reads and adds by it in turn. All bytes are
 * verified. Built with SANITIZE=thread, it finds accesses of a direct context's engine that are not
 * ordered with those of other threads.
 *
 *   rdma_threads [-g GID-INDEX] [-n ROUNDS] [-t THREADS] WAY...
 *
 *   own      each thread has CQs of its own
 *   shared   all threads poll the same CQs
 *   srq      the same, and QPs receive from one SRQ
 *   channel  each thread has CQs of its own, and waits for events of receives
 *   churn    as own, while other threads create and destroy objects of all kinds
 *
 * Each way is tested with QPs of one context, and of two.
 */
#include "verbs_util.h"

#include <pthread.h>
#include <unistd.h>

#define MAX_THREADS 16
#define LEN 2500u   /* bytes: three packets */
#define RECEIVES 4u /* of each thread */
#define WAIT_S 60
#define TIMEOUT 18 /* 1 s: the engine stands still while a report is written */
#define DEPTH 16
#define CQ_DEPTH (MAX_THREADS * DEPTH)

enum { CHANNEL = 1, SHARED = 2, SRQ = 4, CHURN = 8 };

/* One end of all QPs */
struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
};

struct worker {
	struct ibv_qp *qp, *peer;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_comp_channel *channel;
	unsigned int sent, received; /* atomic; completions */
	pthread_t thread;
};

static struct {
	uint64_t sum; /* of all threads */
	uint8_t source[MAX_THREADS][LEN], target[MAX_THREADS][LEN], read[MAX_THREADS][LEN];
	uint8_t receive[MAX_THREADS * RECEIVES][LEN];
	uint64_t old[MAX_THREADS];
} m;

static int gid_index = 1;
static unsigned int threads = 2, rounds = 200, flags;
static struct side side[2];
static struct worker workers[MAX_THREADS];
static struct side *requester, *responder;
static bool ends; /* atomic */

/* ---- set-up ------------------------------------------------------------------------------- */

static void open_side(struct side *s)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = CQ_DEPTH, .max_sge = 1 } };

	MUST(s->ctx = open_device(NULL), "device");
	MUST(s->pd = ibv_alloc_pd(s->ctx), "PD");
	MUST(s->mr = ibv_reg_mr(s->pd, &m, sizeof(m),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
	     "MR");
	MUST(s->cq = ibv_create_cq(s->ctx, CQ_DEPTH, NULL, NULL, 0), "CQ");
	MUST(s->srq = ibv_create_srq(s->pd, &init), "SRQ");
}

static void close_side(struct side *s)
{
	MUST(!ibv_destroy_srq(s->srq) && !ibv_destroy_cq(s->cq) && !ibv_dereg_mr(s->mr) &&
		     !ibv_dealloc_pd(s->pd) && !ibv_close_device(s->ctx),
	     "clean-up");
}

static struct ibv_qp *make_qp(struct side *s, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	MUST(qp, "QP");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, const struct ibv_qp *to)
{
	struct ibv_qp_attr attr = rc_attr(gid_index, own_gid(to->context, gid_index), to->qp_num);

	attr.timeout = TIMEOUT;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_ATOMIC;
	MUST(!reset_to_rts(qp, &attr), "RTS");
}

static void receive_into(struct worker *w, uint64_t buffer)
{
	struct ibv_sge sge = { (uintptr_t)m.receive[buffer], LEN, responder->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = buffer, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(!(flags & SRQ ? ibv_post_srq_recv(responder->srq, &wr, &bad)
			   : ibv_post_recv(w->peer, &wr, &bad)),
	     "post_recv");
}

static void set_up(struct worker *w)
{
	uint64_t index = (uint64_t)(w - workers);

	memset(w, 0, sizeof(*w));
	w->send_cq = requester->cq;
	w->recv_cq = responder->cq;
	if (flags & CHANNEL)
		MUST(w->channel = ibv_create_comp_channel(responder->ctx), "channel");
	if (!(flags & SHARED)) {
		w->send_cq = ibv_create_cq(requester->ctx, DEPTH * 2, NULL, NULL, 0);
		w->recv_cq = ibv_create_cq(responder->ctx, DEPTH * 2, NULL, w->channel, 0);
		MUST(w->send_cq && w->recv_cq, "CQs");
	}
	w->qp = make_qp(requester, w->send_cq, NULL);
	w->peer = make_qp(responder, w->recv_cq, flags & SRQ ? responder->srq : NULL);
	connect_qp(w->qp, w->peer);
	connect_qp(w->peer, w->qp);
	for (uint64_t i = 0; i < RECEIVES; i++)
		receive_into(w, index * RECEIVES + i);
}

static void tear_down(struct worker *w)
{
	MUST(!ibv_destroy_qp(w->qp) && !ibv_destroy_qp(w->peer), "QPs");
	if (!(flags & SHARED))
		MUST(!ibv_destroy_cq(w->send_cq) && !ibv_destroy_cq(w->recv_cq), "CQs");
	if (w->channel)
		MUST(!ibv_destroy_comp_channel(w->channel), "channel");
}

/* ---- completions -------------------------------------------------------------------------- */

static struct worker *worker_of(uint32_t qpn)
{
	for (unsigned int i = 0; i < threads; i++)
		if (workers[i].qp->qp_num == qpn || workers[i].peer->qp_num == qpn)
			return &workers[i];
	MUST(false, "completion of another QP");
	return NULL;
}

/* Those of another thread as well, if it shares the CQ */
static void take(struct ibv_cq *cq)
{
	struct worker *w;
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	MUST(n >= 0, "poll_cq");
	if (!n)
		return;
	MUST(!wc.status, ibv_wc_status_str(wc.status));
	w = worker_of(wc.qp_num);
	if (!(wc.opcode & IBV_WC_RECV)) {
		__atomic_fetch_add(&w->sent, 1, __ATOMIC_RELEASE);
		return;
	}
	MUST(wc.byte_len == LEN && has_pattern(m.receive[wc.wr_id], LEN, wc.imm_data, 0),
	     "received bytes");
	receive_into(w, wc.wr_id);
	__atomic_fetch_add(&w->received, 1, __ATOMIC_RELEASE);
}

static bool has(const unsigned int *count, unsigned int n)
{
	return __atomic_load_n(count, __ATOMIC_ACQUIRE) == n;
}

static void wait_event(struct worker *w, unsigned int received)
{
	struct ibv_cq *cq;
	void *context;

	MUST(!ibv_req_notify_cq(w->recv_cq, 0), "req_notify_cq");
	take(w->recv_cq);
	if (has(&w->received, received))
		return;
	MUST(!ibv_get_cq_event(w->channel, &cq, &context) && cq == w->recv_cq, "get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static void wait_for(struct worker *w, unsigned int sent, unsigned int received)
{
	double end = now() + WAIT_S;

	while (!has(&w->received, received) || !has(&w->sent, sent)) {
		MUST(now() < end, "no completion");
		if (w->channel && !has(&w->received, received))
			wait_event(w, received);
		else
			take(w->send_cq);
		take(w->recv_cq);
	}
}

/* ---- work --------------------------------------------------------------------------------- */

static void post(struct worker *w, enum ibv_wr_opcode opcode, void *at, uint32_t len, void *to,
		 uint32_t imm)
{
	struct ibv_sge sge = { (uintptr_t)at, len, requester->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.imm_data = imm,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to;
		wr.wr.atomic.rkey = responder->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to;
		wr.wr.rdma.rkey = responder->mr->rkey;
	}
	MUST(!ibv_post_send(w->qp, &wr, &bad), "post_send");
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint32_t index = (uint32_t)(w - workers), seed;
	unsigned int sent = 0, received = 0;

	for (unsigned int r = 0; r < rounds; r++) {
		seed = r * MAX_THREADS + index;
		fill_pattern(m.source[index], LEN, seed, 0);
		post(w, IBV_WR_SEND_WITH_IMM, m.source[index], LEN, NULL, seed);
		post(w, IBV_WR_RDMA_WRITE, m.source[index], LEN, m.target[index], 0);
		post(w, IBV_WR_RDMA_READ, m.read[index], LEN, m.target[index], 0);
		post(w, IBV_WR_ATOMIC_FETCH_AND_ADD, &m.old[index], sizeof(m.sum), &m.sum, 0);
		wait_for(w, sent += 4, ++received);
		MUST(has_pattern(m.read[index], LEN, seed, 0), "bytes that were read");
		MUST(m.old[index] < (uint64_t)threads * rounds, "value before the addition");
	}
	return NULL;
}

static void *churn(void *arg)
{
	struct side *s = arg;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_attr attr = rc_attr(gid_index, own_gid(s->ctx, gid_index), 1);
	struct ibv_ah_attr to = attr.ah_attr;
	char memory[64];
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;

	while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
		mr = ibv_reg_mr(s->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
		mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_1);
		cq = ibv_create_cq(s->ctx, DEPTH, NULL, NULL, 0);
		srq = ibv_create_srq(s->pd, &init);
		ah = ibv_create_ah(s->pd, &to);
		MUST(mr && mw && cq && srq && ah, "objects");
		qp = make_qp(s, cq, srq);
		MUST(!to_init(qp, &attr) && !to_rtr(qp, &attr) && !to_rts(qp, &attr), "RTS");
		MUST(!ibv_destroy_qp(qp) && !ibv_destroy_ah(ah) && !ibv_destroy_srq(srq) &&
			     !ibv_destroy_cq(cq) && !ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr),
		     "clean-up");
	}
	return NULL;
}

static void run(void)
{
	pthread_t other[2];

	m.sum = 0;
	__atomic_store_n(&ends, false, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < threads; i++)
		set_up(&workers[i]);
	for (unsigned int i = 0; i < 2 && flags & CHURN; i++)
		MUST(!pthread_create(&other[i], NULL, churn, &side[i]), "thread");
	for (unsigned int i = 0; i < threads; i++)
		MUST(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "thread");
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	__atomic_store_n(&ends, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < 2 && flags & CHURN; i++)
		pthread_join(other[i], NULL);
	MUST(m.sum == (uint64_t)threads * rounds, "sum of all threads");
	for (unsigned int i = 0; i < threads; i++)
		tear_down(&workers[i]);
}

static unsigned int flags_of(const char *way)
{
	static const struct {
		const char *name;
		unsigned int flags;
	} ways[] = { { "own", 0 },
		     { "shared", SHARED },
		     { "srq", SHARED | SRQ },
		     { "channel", CHANNEL },
		     { "churn", CHURN } };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, way))
			return ways[i].flags;
	fprintf(stderr, "no way '%s'\n", way);
	exit(2);
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "g:n:t:")) != -1)
		switch (c) {
		case 'g':
			gid_index = atoi(optarg);
			break;
		case 'n':
			rounds = (unsigned int)atoi(optarg);
			break;
		case 't':
			threads = (unsigned int)atoi(optarg);
			break;
		default:
			return 2;
		}
	if (!threads || threads > MAX_THREADS || optind == argc)
		return 2;
	for (; optind < argc; optind++) {
		flags = flags_of(argv[optind]);
		for (int two = 0; two < 2; two++) {
			/* an SRQ that is not empty would keep receives of the last run */
			open_side(&side[0]);
			open_side(&side[1]);
			requester = &side[0];
			responder = &side[two];
			run();
			close_side(&side[0]);
			close_side(&side[1]);
		}
		printf("ok %s\n", argv[optind]);
		fflush(stdout);
	}
	return 0;
}
