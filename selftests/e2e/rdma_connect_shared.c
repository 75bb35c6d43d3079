// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Objects that the connections of a program share. */
#include <fcntl.h>
#include <netdb.h>

#include "rdma_connect.h"

#define CQ_SPARE 64 /* for requests of connections that failed */

struct address parse_address(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *info;
	struct address a = { 0 };

	errno = 0;
	MUST(!getaddrinfo(host, port, &hints, &info), "wrong address");
	memcpy(&a.addr, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return a;
}

struct rdma_event_channel *new_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (!ch)
		exit(DEVICE_GONE);
	MUST(!fcntl(ch->fd, F_SETFL, O_NONBLOCK), "fcntl");
	return ch;
}

void share(struct shared *s, struct rdma_cm_id *id, uint32_t slots)
{
	size_t bytes = 2 * (size_t)slots * MESSAGE;

	if (s->ctx)
		return;
	s->ctx = id->verbs;
	s->slots = slots;
	s->pd = ibv_alloc_pd(id->verbs);
	MUST_OR_GONE(s->pd, "ibv_alloc_pd");
	s->comp = ibv_create_comp_channel(id->verbs);
	MUST_OR_GONE(s->comp && !fcntl(s->comp->fd, F_SETFL, O_NONBLOCK),
		     "ibv_create_comp_channel");
	s->cq = ibv_create_cq(id->verbs, (int)slots * 2 + CQ_SPARE, NULL, s->comp, 0);
	MUST_OR_GONE(s->cq, "ibv_create_cq");
	s->message = aligned_alloc(4096, (bytes + 4095) & ~4095ul);
	MUST(s->message, "memory");
	s->mr = ibv_reg_mr(s->pd, s->message, bytes, IBV_ACCESS_LOCAL_WRITE);
	MUST_OR_GONE(s->mr, "ibv_reg_mr");
}

void free_shared(struct shared *s)
{
	if (!s->ctx)
		return;
	ibv_dereg_mr(s->mr);
	ibv_destroy_cq(s->cq);
	ibv_destroy_comp_channel(s->comp);
	ibv_dealloc_pd(s->pd);
	free(s->message);
	s->ctx = NULL;
}

uint32_t *received(struct shared *s, uint32_t slot)
{
	return s->message[slot];
}

uint32_t *to_send(struct shared *s, uint32_t slot)
{
	return s->message[s->slots + slot];
}

int make_qp(struct shared *s, struct rdma_cm_id *id, uint32_t slot, uint64_t wr_id)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_sge sge = { (uintptr_t)received(s, slot), MESSAGE, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (rdma_create_qp(id, s->pd, &attr))
		return -1;
	memset(received(s, slot), 0, MESSAGE);
	return ibv_post_recv(id->qp, &wr, &bad) ? -1 : 0;
}

int send_message(struct shared *s, struct rdma_cm_id *id, uint32_t slot, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)to_send(s, slot), MESSAGE, s->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id | SENT, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(id->qp, &wr, &bad) ? -1 : 0;
}

bool completion(struct shared *s, struct ibv_wc *wc)
{
	struct ibv_cq *cq;
	void *arg;
	int n;

	if (!s->ctx)
		return false;
	n = ibv_poll_cq(s->cq, 1, wc);
	if (n > 0)
		return true;
	while (!ibv_get_cq_event(s->comp, &cq, &arg))
		ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(s->cq, 0);
	n = ibv_poll_cq(s->cq, 1, wc);
	if (n < 0)
		exit(DEVICE_GONE);
	return n > 0;
}

struct rdma_conn_param conn_param(const uint32_t *number)
{
	return (struct rdma_conn_param){
		.private_data = number,
		.private_data_len = sizeof(*number),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}
