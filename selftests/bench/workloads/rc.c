// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rc.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MAX_READS 16
#define TIMEOUT 18 /* 1 s: the programs of both hosts share processors, which may be busy */

struct hello {
	union ibv_gid gid;
	struct rc_memory memory;
	uint32_t qpn;
};

static uint8_t min_of(int a, int b)
{
	return (uint8_t)(a < b ? a : b);
}

void rc_open(struct rc_device *d, int gid_index)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	d->ctx = open_device(NULL);
	MUST(d->ctx, "no device");
	MUST(!ibv_query_device(d->ctx, &attr) && !ibv_query_port(d->ctx, 1, &port), "query");
	d->pd = ibv_alloc_pd(d->ctx);
	MUST(d->pd, "PD");
	d->gid_index = gid_index;
	d->gid = own_gid(d->ctx, gid_index);
	d->mtu = port.active_mtu;
	d->max_reads = min_of(MAX_READS, min_of(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom));
}

struct ibv_mr *rc_register(struct rc_device *d, void *memory, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(d->pd, memory, len, ACCESS);

	MUST(mr, "MR");
	return mr;
}

struct ibv_cq *rc_cq(struct rc_device *d, uint32_t entries, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(d->ctx, (int)entries, NULL, channel, 0);

	MUST(cq, "CQ");
	return cq;
}

struct ibv_qp *rc_create(struct rc_device *d, const struct rc_queues *q)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = q->send_cq,
		.recv_cq = q->recv_cq,
		.cap = { .max_send_wr = q->sends,
			 .max_recv_wr = q->receives,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = q->inline_size },
	};
	struct ibv_qp *qp = ibv_create_qp(d->pd, &init);

	struct ibv_qp_attr attr = rc_attr(d->gid_index, d->gid, 0);

	attr.qp_access_flags = ACCESS;
	MUST(qp && !to_init(qp, &attr), "QP");
	return qp;
}

struct rc_memory rc_connect(struct rc_device *d, struct ibv_qp *qp, int sock, struct rc_memory mine)
{
	struct hello me = { d->gid, mine, qp->qp_num }, peer;
	struct ibv_qp_attr attr;
	char done = 1;

	side_tell(sock, &me, sizeof(me));
	side_hear(sock, &peer, sizeof(peer));
	attr = rc_attr(d->gid_index, peer.gid, peer.qpn);
	attr.path_mtu = d->mtu;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = d->max_reads;
	attr.timeout = TIMEOUT;
	/* These programs never send what the peer has no receive request for. */
	attr.rnr_retry = 0;
	MUST(!to_rtr(qp, &attr) && !to_rts(qp, &attr), "connect a QP");
	/* The peer may send when this end is ready to receive. */
	side_tell(sock, &done, 1);
	side_hear(sock, &done, 1);
	return peer.memory;
}

/* ---- a QP whose requests are posted together ------------------------------------------------- */

static void post_receives(struct rc_queue_pair *q)
{
	struct ibv_recv_wr *bad;

	if (!q->receives)
		return;
	q->receive[q->receives - 1].next = NULL;
	MUST(!ibv_post_recv(q->qp, q->receive, &bad), "post receive requests");
	q->receives = 0;
}

void rc_flush(struct rc_queue_pair *q)
{
	struct ibv_send_wr *bad;

	post_receives(q);
	if (!q->sends)
		return;
	q->send[q->sends - 1].next = NULL;
	MUST(!ibv_post_send(q->qp, q->send, &bad), "post send requests");
	q->sends = 0;
}

void rc_send(struct rc_queue_pair *q, const struct ibv_send_wr *wr, struct ibv_sge sge,
	     uint32_t tag)
{
	struct ibv_send_wr *to;

	if (q->sends == RC_BATCH)
		rc_flush(q);
	to = &q->send[q->sends];
	*to = *wr;
	q->send_sge[q->sends] = sge;
	to->sg_list = &q->send_sge[q->sends++];
	to->num_sge = 1;
	to->next = to + 1;
	q->used++;
	q->unsignaled++;
	if (q->unsignaled >= q->size / 2)
		to->send_flags |= IBV_SEND_SIGNALED;
	if (!(to->send_flags & IBV_SEND_SIGNALED))
		return;
	to->wr_id = (uint64_t)tag << 32 | q->unsignaled;
	q->unsignaled = 0;
}

void rc_receive(struct rc_queue_pair *q, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr *to;

	if (q->receives == RC_BATCH)
		post_receives(q);
	to = &q->receive[q->receives];
	q->receive_sge[q->receives] = sge;
	*to = (struct ibv_recv_wr){ .wr_id = wr_id,
				    .sg_list = &q->receive_sge[q->receives++],
				    .num_sge = 1,
				    .next = to + 1 };
}
