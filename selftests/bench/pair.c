// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pair.h"

#include <sys/socket.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ACCEPT_SECONDS 30

struct hello {
	uint64_t addr;
	union ibv_gid gid;
	uint32_t rkey;
	uint32_t n; /* QP numbers follow */
};

void pair_open_at(struct pair *p, uint32_t n, int gid_index, int vector)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = PAIR_DEPTH,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	*p = (struct pair){ .n = n, .gid_index = gid_index, .sock = -1 };
	p->ctx = open_device(NULL);
	MUST(p->ctx, "no device");
	p->gid = own_gid(p->ctx, gid_index);
	p->pd = ibv_alloc_pd(p->ctx);
	MUST(p->pd, "PD");
	p->cq = ibv_create_cq(p->ctx, (int)(n * PAIR_DEPTH), NULL, NULL, vector);
	MUST(p->cq, "CQ");
	p->buf = aligned_alloc(4096, PAIR_MESSAGE);
	memset(p->buf, 1, PAIR_MESSAGE);
	p->mr = ibv_reg_mr(p->pd, p->buf, PAIR_MESSAGE, ACCESS);
	MUST(p->mr, "MR");
	p->qp = calloc(n, sizeof(struct ibv_qp *));
	init.send_cq = init.recv_cq = p->cq;
	for (uint32_t i = 0; i < n; i++) {
		p->qp[i] = ibv_create_qp(p->pd, &init);
		MUST(p->qp[i], "QP");
	}
}

void pair_open(struct pair *p, uint32_t n, int gid_index)
{
	pair_open_at(p, n, gid_index, 0);
}

static struct ibv_qp_attr attr_of(const struct pair *p, union ibv_gid dgid, uint32_t qpn)
{
	struct ibv_qp_attr attr = rc_attr(p->gid_index, dgid, qpn);

	attr.path_mtu = IBV_MTU_4096;
	attr.qp_access_flags = ACCESS;
	return attr;
}

static void exchange(int sock, const void *out, void *in, size_t len)
{
	MUST(send(sock, out, len, 0) == (ssize_t)len, "send");
	MUST(recv(sock, in, len, MSG_WAITALL) == (ssize_t)len, "the peer has ended");
}

void pair_connect(struct pair *p, const char *host, int port)
{
	struct hello me = { (uint64_t)p->buf, p->gid, p->mr->rkey, p->n }, peer;
	uint32_t *mine = calloc(p->n, 4), *theirs = calloc(p->n, 4);
	struct ibv_qp_attr attr;
	char done = 1;

	p->sock = host ? tcp_connect(host, port) : tcp_accept(port, ACCEPT_SECONDS);
	MUST(p->sock >= 0, "no connection to the peer");
	for (uint32_t i = 0; i < p->n; i++)
		mine[i] = p->qp[i]->qp_num;
	exchange(p->sock, &me, &peer, sizeof(me));
	MUST(peer.n == p->n, "the peer has another number of QPs");
	exchange(p->sock, mine, theirs, p->n * 4);
	for (uint32_t i = 0; i < p->n; i++) {
		attr = attr_of(p, peer.gid, theirs[i]);
		MUST(!reset_to_rts(p->qp[i], &attr), "RTS");
	}
	p->remote_addr = peer.addr;
	p->rkey = peer.rkey;
	exchange(p->sock, &done, &done, 1);
	free(mine);
	free(theirs);
}

void pair_loopback(struct pair *p)
{
	struct ibv_qp_attr attr, reset = { .qp_state = IBV_QPS_RESET };

	for (uint32_t i = 0; i < p->n; i++) {
		MUST(!ibv_modify_qp(p->qp[i], &reset, IBV_QP_STATE), "RESET");
		attr = attr_of(p, p->gid, p->qp[i]->qp_num);
		MUST(!reset_to_rts(p->qp[i], &attr), "RTS");
	}
}

void pair_post(struct pair *p, uint32_t i, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
	       uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = i,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { remote, rkey },
	};

	MUST(!ibv_post_send(p->qp[i], &wr, &bad), "post");
}
