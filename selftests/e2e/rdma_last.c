// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends one message on each connection and ends it at once, as programs do whose peer needs no
 * answer:
 *
 *   serve ADDRESS PORT COUNT SIZE    counts the messages of so many connections
 *   END ADDRESS PORT COUNT SIZE      connects so often
 *
 * END: disconnect (the QP by librdmacm), disconnect-only (a QP that librdmacm does not know),
 * destroy, reset, exit, kill. Messages of up to 64 bytes are inline. The last bytes of a message
 * are a number, which the server checks.
 */
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_util.h"

#define INLINE 64
#define RESOLVE_MS 5000
#define WAIT_MS 60000
#define LATE_SECONDS 5 /* for a message behind the end of its connection */

struct link {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *message;
	size_t size;
};

static struct sockaddr_storage address_of(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *info;
	struct sockaddr_storage a = { 0 };

	MUST(!getaddrinfo(host, port, &hints, &info), "wrong address");
	memcpy(&a, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return a;
}

/* Returns the id of the event. */
static struct rdma_cm_id *expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	MUST(poll(&p, 1, WAIT_MS) > 0, "no event");
	MUST(!rdma_get_cm_event(ch, &ev), "rdma_get_cm_event");
	MUST(ev->event == type, rdma_event_str(ev->event));
	id = ev->id;
	MUST(!rdma_ack_cm_event(ev), "rdma_ack_cm_event");
	return id;
}

static void open_link(struct link *l)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 2,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = INLINE },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	l->pd = ibv_alloc_pd(l->id->verbs);
	l->cq = ibv_create_cq(l->id->verbs, 4, NULL, NULL, 0);
	l->message = aligned_alloc(4096, (l->size + 4095) & ~4095ul);
	MUST(l->pd && l->cq && l->message, "objects");
	memset(l->message, 0, l->size);
	l->mr = ibv_reg_mr(l->pd, l->message, l->size, IBV_ACCESS_LOCAL_WRITE);
	MUST(l->mr, "ibv_reg_mr");
	attr.send_cq = attr.recv_cq = l->cq;
	MUST(!rdma_create_qp(l->id, l->pd, &attr), "rdma_create_qp");
}

static void close_link(struct link *l)
{
	if (l->id->qp)
		rdma_destroy_qp(l->id);
	MUST(!rdma_destroy_id(l->id), "rdma_destroy_id");
	MUST(!ibv_dereg_mr(l->mr) && !ibv_destroy_cq(l->cq) && !ibv_dealloc_pd(l->pd), "objects");
	free(l->message);
}

static uint32_t *number_of(struct link *l)
{
	return (uint32_t *)(l->message + l->size - sizeof(uint32_t));
}

/* ---- server ------------------------------------------------------------------------- */

/* Returns true if the message arrives. */
static bool receives(struct link *l, uint32_t number)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	int n = next_completion(l->cq, &wc, LATE_SECONDS);

	if (n == 1 && !wc.status && wc.byte_len == l->size && *number_of(l) == number)
		return true;
	printf("message %u: %d completions, status %s\n", number, n, ibv_wc_status_str(wc.status));
	return false;
}

static bool serve_one(struct rdma_event_channel *ch, size_t size, uint32_t number)
{
	struct link l = { .id = expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST), .size = size };
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct ibv_recv_wr wr = { .num_sge = 1 }, *bad;
	struct ibv_sge sge;
	bool received;

	open_link(&l);
	sge = (struct ibv_sge){ (uintptr_t)l.message, (uint32_t)size, l.mr->lkey };
	wr.sg_list = &sge;
	MUST(!ibv_post_recv(l.id->qp, &wr, &bad) && !rdma_accept(l.id, &param), "accept");
	expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	expect(ch, RDMA_CM_EVENT_DISCONNECTED);
	received = receives(&l, number);
	rdma_disconnect(l.id);
	close_link(&l);
	return received;
}

static void serve(struct sockaddr_storage at, uint32_t count, size_t size)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	uint32_t i, received = 0;

	MUST(ch && !rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	MUST(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, 1),
	     "rdma_listen");
	for (i = 0; i < count && received == i; i++)
		received += serve_one(ch, size, i);
	printf("received %u of %u\n", received, i);
	exit(received != count);
}

/* ---- client ------------------------------------------------------------------------- */

static void post(struct link *l, uint32_t number)
{
	struct ibv_sge sge = { (uintptr_t)l->message, (uint32_t)l->size, l->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	*number_of(l) = number;
	wr.send_flags = l->size <= INLINE ? IBV_SEND_INLINE : 0;
	MUST(!ibv_post_send(l->id->qp, &wr, &bad), "ibv_post_send");
}

static void disconnect(struct link *l)
{
	MUST(!rdma_disconnect(l->id), "rdma_disconnect");
	expect(l->ch, RDMA_CM_EVENT_DISCONNECTED);
}

static void end(struct link *l, const char *how)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp *qp = l->id->qp;

	if (!strcmp(how, "exit"))
		_exit(0);
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	if (!strcmp(how, "reset"))
		MUST(!ibv_modify_qp(qp, &reset, IBV_QP_STATE), "RESET");
	if (!strcmp(how, "disconnect-only"))
		l->id->qp = NULL;
	else if (strcmp(how, "disconnect"))
		rdma_destroy_qp(l->id);
	disconnect(l);
	if (!strcmp(how, "disconnect-only"))
		l->id->qp = qp;
}

static void connect_one(struct sockaddr_storage to, size_t size, uint32_t number, const char *how)
{
	struct link l = { .ch = rdma_create_event_channel(), .size = size };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	MUST(l.ch && !rdma_create_id(l.ch, &l.id, NULL, RDMA_PS_TCP), "rdma_create_id");
	MUST(!rdma_resolve_addr(l.id, NULL, (struct sockaddr *)&to, RESOLVE_MS), "address");
	expect(l.ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(!rdma_resolve_route(l.id, RESOLVE_MS), "route");
	expect(l.ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	open_link(&l);
	MUST(!rdma_connect(l.id, &param), "rdma_connect");
	expect(l.ch, RDMA_CM_EVENT_ESTABLISHED);
	post(&l, number);
	end(&l, how);
	close_link(&l);
	rdma_destroy_event_channel(l.ch);
}

/* The process ends with its connection. */
static void connect_in_child(struct sockaddr_storage to, size_t size, uint32_t number,
			     const char *how)
{
	pid_t pid = fork();
	int status;

	MUST(pid >= 0, "fork");
	if (!pid)
		connect_one(to, size, number, how);
	MUST(waitpid(pid, &status, 0) == pid, "waitpid");
	MUST(WIFEXITED(status) ? !WEXITSTATUS(status) : WTERMSIG(status) == SIGKILL, "client");
}

int main(int argc, char **argv)
{
	struct sockaddr_storage at;
	uint32_t count, i;
	size_t size;

	MUST(argc == 6, "usage: serve|END ADDRESS PORT COUNT SIZE");
	at = address_of(argv[2], argv[3]);
	count = (uint32_t)atoi(argv[4]);
	size = (size_t)atoi(argv[5]);
	MUST(size >= sizeof(uint32_t), "size");
	if (!strcmp(argv[1], "serve"))
		serve(at, count, size);
	for (i = 0; i < count; i++) {
		if (!strcmp(argv[1], "exit") || !strcmp(argv[1], "kill"))
			connect_in_child(at, size, i, argv[1]);
		else
			connect_one(at, size, i, argv[1]);
	}
	return 0;
}
