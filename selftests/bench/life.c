// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The life of a connection, as of a client of a key-value store: create an id, register two buffers
 * of 1 MiB, make a QP, connect, exchange messages in both directions, one at a time, disconnect,
 * destroy all.
 *
 *   life PORT MESSAGES                     serves, until it is killed; prints "ready"
 *   life HOST PORT MESSAGES LIVES THREADS  each thread has so many lives, one after the other
 *
 * The client prints a line for each step: its name, and the shortest time, the median and the
 * longest time in us. The last line, "life", is the sum of the steps.
 */
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "selftests/e2e/verbs_util.h"

#define BUFFER (1 << 20)
#define MESSAGE 64
#define BACKLOG 1024
#define WAIT_MS 60000

enum step {
	CREATE,
	REGISTER_1,
	REGISTER_2,
	RESOLVE,
	MAKE_QP,
	CONNECT,
	EXCHANGE,
	DISCONNECT,
	DESTROY,
	STEPS
};

static const char *const names[] = {
	[CREATE] = "create",
	[REGISTER_1] = "register-1",
	[REGISTER_2] = "register-2",
	[RESOLVE] = "resolve",
	[MAKE_QP] = "qp",
	[CONNECT] = "connect",
	[EXCHANGE] = "exchange",
	[DISCONNECT] = "disconnect",
	[DESTROY] = "destroy",
	[STEPS] = "life",
};

struct end {
	struct rdma_event_channel *channel; /* of the client only */
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_mr *mr[2];
	void *buffer[2];
};

static struct addrinfo *address;
static int lives, messages;
static double *times[STEPS + 1]; /* [life], in us */

static void post_receive(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->buffer[0], MESSAGE, e->mr[0]->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(!ibv_post_recv(e->id->qp, &wr, &bad), "post_recv");
}

static void make_qp(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	e->completions = ibv_create_comp_channel(e->id->verbs);
	MUST(e->completions, "completion channel");
	e->cq = ibv_create_cq(e->id->verbs, 32, NULL, e->completions, 0);
	MUST(e->cq && !ibv_req_notify_cq(e->cq, 0), "CQ");
	init.send_cq = init.recv_cq = e->cq;
	MUST(!rdma_create_qp(e->id, e->pd, &init), "QP");
	/* The peer may send its next message before this end has posted the next receive. */
	post_receive(e);
	post_receive(e);
}

static void register_buffer(struct end *e, int n)
{
	e->buffer[n] = aligned_alloc(4096, BUFFER);
	MUST(e->buffer[n], "memory");
	memset(e->buffer[n], n, BUFFER);
	e->mr[n] = ibv_reg_mr(e->pd, e->buffer[n], BUFFER,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ);
	MUST(e->mr[n], "memory region");
}

static void send_message(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->buffer[1], MESSAGE, e->mr[1]->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad;

	MUST(!ibv_post_send(e->id->qp, &wr, &bad), "post_send");
}

/* Sleeps until the send and the receive request have completed. */
static void wait_for_both(struct end *e)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int n = 0, got;

	while (n < 2) {
		got = ibv_poll_cq(e->cq, 1, &wc);
		MUST(got >= 0 && (!got || wc.status == IBV_WC_SUCCESS), "completion");
		n += got;
		if (got || n == 2)
			continue;
		MUST(!ibv_get_cq_event(e->completions, &cq, &context), "completion event");
		ibv_ack_cq_events(cq, 1);
		MUST(!ibv_req_notify_cq(cq, 0), "notify");
	}
}

static void exchange(struct end *e)
{
	for (int i = 0; i < messages; i++) {
		send_message(e);
		wait_for_both(e);
		post_receive(e);
	}
}

static void destroy(struct end *e)
{
	rdma_destroy_qp(e->id);
	MUST(!ibv_destroy_cq(e->cq), "destroy CQ");
	MUST(!ibv_destroy_comp_channel(e->completions), "destroy completion channel");
	for (int i = 0; i < 2; i++) {
		MUST(!ibv_dereg_mr(e->mr[i]), "deregister");
		free(e->buffer[i]);
	}
	MUST(!ibv_dealloc_pd(e->pd), "dealloc PD");
	MUST(!rdma_destroy_id(e->id), "destroy id");
	if (e->channel)
		rdma_destroy_event_channel(e->channel);
}

static void expect(struct end *e, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	MUST(!rdma_get_cm_event(e->channel, &ev), "event");
	if (ev->event != type) {
		fprintf(stderr, "%s instead of %s, status %d\n", rdma_event_str(ev->event),
			rdma_event_str(type), ev->status);
		exit(1);
	}
	rdma_ack_cm_event(ev);
}

/* ---- server ------------------------------------------------------------------------- */

/* Serves one connection: sends and receives one message, and waits for the end. */
static void *serve_one(void *arg)
{
	struct end *e = arg;

	expect(e, RDMA_CM_EVENT_ESTABLISHED);
	exchange(e);
	expect(e, RDMA_CM_EVENT_DISCONNECTED);
	rdma_disconnect(e->id);
	destroy(e);
	free(e);
	return NULL;
}

static void accept_one(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct end *e = calloc(1, sizeof(*e));
	pthread_t thread;

	MUST(e, "memory");
	e->id = id;
	e->channel = rdma_create_event_channel();
	MUST(e->channel && !rdma_migrate_id(id, e->channel), "channel");
	e->pd = ibv_alloc_pd(id->verbs);
	MUST(e->pd, "PD");
	register_buffer(e, 0);
	register_buffer(e, 1);
	make_qp(e);
	MUST(!rdma_accept(id, &param), "accept");
	MUST(!pthread_create(&thread, NULL, serve_one, e) && !pthread_detach(thread), "thread");
}

static void serve(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	MUST(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "id");
	MUST(!rdma_bind_addr(id, address->ai_addr), "bind");
	MUST(!rdma_listen(id, BACKLOG), "listen");
	puts("ready");
	fflush(stdout);
	while (!rdma_get_cm_event(channel, &ev)) {
		struct rdma_cm_id *new = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ? ev->id : NULL;

		rdma_ack_cm_event(ev);
		if (new)
			accept_one(new);
	}
}

/* ---- client ------------------------------------------------------------------------- */

static void do_step(struct end *e, enum step step)
{
	struct rdma_conn_param param = { .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7 };

	switch (step) {
	case CREATE:
		e->channel = rdma_create_event_channel();
		MUST(e->channel, "channel");
		MUST(!rdma_create_id(e->channel, &e->id, NULL, RDMA_PS_TCP), "id");
		MUST(!rdma_resolve_addr(e->id, NULL, address->ai_addr, WAIT_MS), "resolve_addr");
		expect(e, RDMA_CM_EVENT_ADDR_RESOLVED);
		e->pd = ibv_alloc_pd(e->id->verbs);
		MUST(e->pd, "PD");
		break;
	case REGISTER_1:
	case REGISTER_2:
		register_buffer(e, step - REGISTER_1);
		break;
	case RESOLVE:
		MUST(!rdma_resolve_route(e->id, WAIT_MS), "resolve_route");
		expect(e, RDMA_CM_EVENT_ROUTE_RESOLVED);
		break;
	case MAKE_QP:
		make_qp(e);
		break;
	case CONNECT:
		MUST(!rdma_connect(e->id, &param), "connect");
		expect(e, RDMA_CM_EVENT_ESTABLISHED);
		break;
	case EXCHANGE:
		exchange(e);
		break;
	case DISCONNECT:
		MUST(!rdma_disconnect(e->id), "disconnect");
		expect(e, RDMA_CM_EVENT_DISCONNECTED);
		break;
	default:
		destroy(e);
	}
}

static void *live(void *arg)
{
	int first = *(int *)arg;

	for (int i = first; i < first + lives; i++) {
		struct end e = { 0 };

		for (enum step s = 0; s < STEPS; s++) {
			double start = now();

			do_step(&e, s);
			times[s][i] = (now() - start) * 1e6;
			times[STEPS][i] += times[s][i];
		}
	}
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void run_threads(int threads)
{
	pthread_t *thread = calloc(threads, sizeof(*thread));
	int *first = calloc(threads, sizeof(*first));

	MUST(thread && first, "memory");
	for (int i = 0; i < threads; i++) {
		first[i] = i * lives;
		MUST(!pthread_create(&thread[i], NULL, live, &first[i]), "thread");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	free(first);
}

int main(int argc, char **argv)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	bool client = argc == 6;
	int n;

	MUST(argc == 3 || client,
	     "usage: life PORT MESSAGES, life HOST PORT MESSAGES LIVES THREADS");
	MUST(!getaddrinfo(client ? argv[1] : NULL, argv[client ? 2 : 1], &hints, &address),
	     "address");
	messages = atoi(argv[client ? 3 : 2]);
	if (!client) {
		serve();
		return 1;
	}
	lives = atoi(argv[4]);
	n = lives * atoi(argv[5]);
	MUST(n > 0, "number of lives or threads");
	for (int s = 0; s <= STEPS; s++) {
		times[s] = calloc(n, sizeof(double));
		MUST(times[s], "memory");
	}
	run_threads(atoi(argv[5]));
	for (int s = 0; s <= STEPS; s++) {
		qsort(times[s], n, sizeof(double), by_value);
		printf("%s %.0f %.0f %.0f\n", names[s], times[s][0], times[s][n / 2],
		       times[s][n - 1]);
	}
	return 0;
}
