// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Messages by verbs, see reply.c
 *
 * Each end of a connection has a ring, into which the peer writes by RDMA WRITE with immediate
 * data: one WRITE for all messages that are ready. The ring from which an end sends has the same
 * size, and a message has the same place in both. Immediate data has the number of messages of
 * the WRITE, and how many messages of the other direction have been taken since the last WRITE:
 * credits, which the peer needs to write there again. Every request has a reply, so credits
 * always find a WRITE that carries them.
 *
 * A WRITE has a message at least. So the ring's number of messages bounds WRITEs under way too,
 * and with them receive requests and send requests.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "rc.h"
#include "reply.h"

#define MIN_RING 32u /* messages */
#define POLL 16
#define SOCKET (1ull << 32)	 /* data of epoll: the socket of a connection, not its channel */
#define ACK_EVENTS 64		 /* at once, because it takes a lock */
#define PLACE ((1ull << 48) - 1) /* in a wr_id; above it: the connection */
#define LOOKS 1024		 /* polls without a message, after which to look at the socket */

/* Places and numbers count messages from the start of the connection. */
struct rc_connection {
	struct ibv_qp *qp;
	struct ibv_comp_channel *channel; /* with events: one for each connection, to wait for */
	struct ibv_cq *cq;		  /* of receive requests */
	uint32_t events;		  /* not yet acknowledged */
	struct rc_memory peer;
	struct message *in, *out;
	/* received; taken; as the peer knows */
	uint64_t arrived, taken, told;
	/* written; sent; the peer has taken; sent by requests that are complete */
	uint64_t written, sent, peer_taken, complete;
	uint64_t signaled; /* sent with the last request that is signaled */
	uint32_t used;	   /* receive requests that are not posted again */
};

struct rc_set {
	struct rc_device device;
	struct ibv_cq *send_cq, *recv_cq; /* recv_cq: of all connections, if polled */
	uint32_t ring, looks;
	struct message *memory;
	struct ibv_mr *mr;
	struct rc_connection connection[];
};

static struct rc_connection *rc_of(struct set *s, uint32_t i)
{
	return &((struct rc_set *)s->own)->connection[i];
}

/* ---- connect --------------------------------------------------------------------------------- */

static void verbs_open(struct set *s)
{
	struct rc_set *r = calloc(1, sizeof(*r) + s->n * sizeof(r->connection[0]));
	size_t size;

	MUST(r, "memory");
	s->own = r;
	for (r->ring = MIN_RING; r->ring < 4 * s->options->depth; r->ring *= 2)
		;
	MUST(r->ring <= UINT16_MAX, "depth");
	rc_open(&r->device, s->options->gid_index);
	size = 2ull * s->n * r->ring * MESSAGE;
	r->memory = (void *)side_memory(size);
	r->mr = rc_register(&r->device, r->memory, size);
	/* two signaled requests of each connection are under way at most */
	r->send_cq = rc_cq(&r->device, 4 * s->n, NULL);
	if (!s->options->events)
		r->recv_cq = rc_cq(&r->device, 2 * r->ring * s->n, NULL);
}

/* Payload needs no memory of a receive request. */
static void post_receives(struct ibv_qp *qp, uint32_t i, uint32_t n)
{
	struct ibv_recv_wr wr[POLL], *bad;
	uint32_t batch;

	for (; n; n -= batch) {
		batch = n < POLL ? n : POLL;
		for (uint32_t k = 0; k < batch; k++)
			wr[k] = (struct ibv_recv_wr){ .wr_id = i, .next = &wr[k + 1] };
		wr[batch - 1].next = NULL;
		MUST(!ibv_post_recv(qp, wr, &bad), "post receive requests");
	}
}

/* A completion channel that never blocks, for epoll */
static void open_channel(struct set *s, struct rc_set *r, uint32_t i)
{
	struct rc_connection *c = &r->connection[i];

	c->channel = ibv_create_comp_channel(r->device.ctx);
	MUST(c->channel, "completion channel");
	MUST(!fcntl(c->channel->fd, F_SETFL, O_NONBLOCK), "fcntl");
	c->cq = rc_cq(&r->device, 2 * r->ring, c->channel);
	MUST(!ibv_req_notify_cq(c->cq, 0), "notify");
	set_watch(s, c->channel->fd, i);
	set_watch(s, s->connection[i].sock, i | SOCKET);
}

static void verbs_connect(struct set *s, uint32_t i)
{
	struct rc_set *r = s->own;
	struct rc_connection *c = &r->connection[i];
	struct rc_queues queues = { .send_cq = r->send_cq,
				    .sends = r->ring,
				    .receives = 2 * r->ring,
				    .inline_size = MESSAGE };

	if (s->options->events)
		open_channel(s, r, i);
	else
		c->cq = r->recv_cq;
	queues.recv_cq = c->cq;
	c->in = r->memory + 2ull * i * r->ring;
	c->out = c->in + r->ring;
	c->qp = rc_create(&r->device, &queues);
	/* Twice as many as are needed: the first half is posted again together, when it is used. */
	post_receives(c->qp, i, 2 * r->ring);
	c->peer = rc_connect(&r->device, c->qp, s->connection[i].sock,
			     (struct rc_memory){ (uintptr_t)c->in, r->mr->rkey });
}

/* ---- receive --------------------------------------------------------------------------------- */

static void take_completion(struct set *s, const struct ibv_wc *wc)
{
	uint32_t i = (uint32_t)wc->wr_id, immediate = ntohl(wc->imm_data);
	struct rc_connection *c = rc_of(s, i);

	c->arrived += immediate & 0xffff;
	c->peer_taken += immediate >> 16;
	c->used++;
	set_ready(s, i);
}

/* Returns false if the CQ was empty. */
static bool take_completions(struct set *s, struct ibv_cq *cq)
{
	struct ibv_wc wc[POLL];
	int n, sum = 0;

	do {
		n = rc_poll(cq, POLL, wc);
		for (int k = 0; k < n; k++)
			take_completion(s, &wc[k]);
		sum += n;
	} while (n == POLL);
	return sum;
}

/* The CQ is armed before it is polled: what arrives after that raises another event. */
static void take_event(struct set *s, uint32_t i)
{
	struct rc_connection *c = rc_of(s, i);
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(c->channel, &cq, &context)) {
		MUST(errno == EAGAIN, "completion event");
		return;
	}
	if (++c->events == ACK_EVENTS) {
		ibv_ack_cq_events(cq, c->events);
		c->events = 0;
	}
	MUST(!ibv_req_notify_cq(cq, 0), "notify");
	take_completions(s, cq);
}

static void wait_for_events(struct set *s)
{
	struct epoll_event events[MAX_EVENTS];
	int n = set_events(s, events);

	for (int k = 0; k < n; k++)
		if (!(events[k].data.u64 & SOCKET))
			take_event(s, (uint32_t)events[k].data.u64);
		else if (side_closed(s->connection[(uint32_t)events[k].data.u64].sock))
			s->ended = true;
}

static void verbs_wait(struct set *s)
{
	struct rc_set *r = s->own;

	if (s->options->events)
		wait_for_events(s);
	else if (take_completions(s, r->recv_cq))
		r->looks = 0;
	else if (!(++r->looks % LOOKS))
		s->ended = side_closed(s->connection[0].sock);
}

static const struct message *verbs_next(struct set *s, uint32_t i)
{
	struct rc_set *r = s->own;
	struct rc_connection *c = &r->connection[i];

	return c->taken < c->arrived ? &c->in[c->taken % r->ring] : NULL;
}

static void verbs_take(struct set *s, uint32_t i)
{
	rc_of(s, i)->taken++;
}

/* ---- send ------------------------------------------------------------------------------------ */

/* Takes completions of send requests, of all connections. They are needed for room only. */
static void take_sent(struct rc_set *r)
{
	struct ibv_wc wc[POLL];
	int n = rc_poll(r->send_cq, POLL, wc);

	for (int k = 0; k < n; k++)
		r->connection[wc[k].wr_id >> 48].complete = wc[k].wr_id & PLACE;
}

/* Writes n messages, which are in one piece. */
static void write_messages(struct rc_set *r, struct rc_connection *c, uint64_t i, uint32_t n)
{
	uint64_t place = c->sent % r->ring;
	struct ibv_sge sge = { (uintptr_t)&c->out[place], n * MESSAGE, r->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = n == 1 ? IBV_SEND_INLINE : 0,
		.imm_data = htonl((uint32_t)(c->taken - c->told) << 16 | n),
		.wr.rdma = { c->peer.addr + place * MESSAGE, c->peer.rkey },
	};

	c->told = c->taken;
	c->sent += n;
	if (c->sent - c->signaled >= r->ring / 2) {
		wr.send_flags |= IBV_SEND_SIGNALED;
		wr.wr_id = i << 48 | c->sent;
		c->signaled = c->sent;
	}
	MUST(!ibv_post_send(c->qp, &wr, &bad), "post a send request");
}

static void verbs_flush(struct set *s, uint32_t i)
{
	struct rc_set *r = s->own;
	struct rc_connection *c = &r->connection[i];
	uint64_t n, to_end;

	/* The other half is enough for all WRITEs that the peer has credits for. */
	if (c->used >= r->ring) {
		post_receives(c->qp, i, c->used);
		c->used = 0;
	}
	while ((n = c->written - c->sent)) {
		to_end = r->ring - c->sent % r->ring;
		write_messages(r, c, i, (uint32_t)(n < to_end ? n : to_end));
	}
}

/*
 * The place of a message may be written again when the peer has taken the message before in its
 * ring, and when the request that sent that one is complete. The peer's ACK arrives for sure, so
 * this waits for it.
 */
static struct message *verbs_room(struct set *s, uint32_t i)
{
	struct rc_set *r = s->own;
	struct rc_connection *c = &r->connection[i];

	if (c->written - c->peer_taken == r->ring)
		return NULL;
	while (c->written - c->complete == r->ring) {
		verbs_flush(s, i);
		take_sent(r);
	}
	return &c->out[c->written++ % r->ring];
}

const struct way by_verbs = {
	.open = verbs_open,
	.connect = verbs_connect,
	.wait = verbs_wait,
	.next = verbs_next,
	.take = verbs_take,
	.room = verbs_room,
	.flush = verbs_flush,
};
