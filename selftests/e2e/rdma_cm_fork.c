/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connects by librdmacm, forks, and connects in the child as well. librdmacm of the child has the
 * contexts that the parent opened.
 *
 *   rdma_cm_fork serve-closed|serve-open ADDRESS PORT
 *                                                receives a message on each of two connections
 *   rdma_cm_fork closed|open ADDRESS PORT        connects before and after fork()
 *
 * closed: the parent has disconnected before it forks. open: it sends its message afterwards.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_util.h"

#define WAIT_MS 10000

static char text[16];

static struct sockaddr_in address_of(char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])) };

	MUST(inet_pton(AF_INET, argv[0], &at.sin_addr) == 1, "address");
	return at;
}

static struct ibv_mr *make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_mr *mr;

	MUST(!rdma_create_qp(id, NULL, &init), "rdma_create_qp");
	MUST(id->qp->context == id->verbs && id->pd->context == id->verbs &&
		     id->send_cq->context == id->verbs && id->send_cq_channel->context == id->verbs,
	     "objects show the context of the id");
	mr = rdma_reg_msgs(id, text, sizeof(text));
	MUST(mr, "rdma_reg_msgs");
	return mr;
}

static void end(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_qp(id);
	MUST(!rdma_destroy_id(id), "rdma_destroy_id");
}

static void receive_and_end(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	MUST(rdma_get_recv_comp(id, &wc) == 1 && !wc.status, "receive");
	end(id, mr);
}

static void serve(struct sockaddr_in at, bool open)
{
	struct rdma_cm_id *listener, *id[2];
	struct ibv_mr *mr[2];

	MUST(!rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	MUST(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, 2),
	     "listen");
	for (int i = 0; i < 2; i++) {
		MUST(!rdma_get_request(listener, &id[i]), "rdma_get_request");
		mr[i] = make_qp(id[i]);
		MUST(!rdma_post_recv(id[i], NULL, text, sizeof(text), mr[i]), "rdma_post_recv");
		MUST(!rdma_accept(id[i], NULL), "rdma_accept");
		if (!open)
			receive_and_end(id[i], mr[i]);
	}
	for (int i = 1; open && i >= 0; i--)
		receive_and_end(id[i], mr[i]);
	MUST(!rdma_destroy_id(listener), "rdma_destroy_id");
}

static struct rdma_cm_id *connect_to(struct sockaddr_in *at, struct ibv_mr **mr)
{
	struct rdma_cm_id *id;

	MUST(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)at, WAIT_MS), "rdma_resolve_addr");
	MUST(!rdma_resolve_route(id, WAIT_MS), "rdma_resolve_route");
	*mr = make_qp(id);
	MUST(!rdma_connect(id, NULL), "rdma_connect");
	return id;
}

static void send_and_end(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	MUST(!rdma_post_send(id, NULL, text, sizeof(text), mr, IBV_SEND_SIGNALED),
	     "rdma_post_send");
	MUST(rdma_get_send_comp(id, &wc) == 1 && !wc.status, "send");
	end(id, mr);
}

static void connect_twice(struct sockaddr_in at, bool open)
{
	struct ibv_mr *mr;
	struct rdma_cm_id *id = connect_to(&at, &mr);
	int status = -1;
	pid_t pid;

	if (!open)
		send_and_end(id, mr);
	pid = fork();
	if (!pid) {
		id = connect_to(&at, &mr);
		send_and_end(id, mr);
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid && !status, "the child");
	if (open)
		send_and_end(id, mr);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at;

	MUST(argc == 4, "three arguments");
	at = address_of(argv + 2);
	if (!strncmp(argv[1], "serve-", 6))
		serve(at, !strcmp(argv[1], "serve-open"));
	else
		connect_twice(at, !strcmp(argv[1], "open"));
	return 0;
}
