// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Commands and data by verbs, see block.c
 *
 * DEPTH is the credit of the initiator: it never has more commands under way. So the target posts
 * as many receive requests, and each one again before it responds; the initiator likewise for
 * responses, before it sends the slot's next command.
 */
#include "block.h"
#include "rc.h"

#define POLL 16
#define LOOKS 1024 /* polls without a completion, after which to look at the socket */

/* One CQ for both queues: completions of receive requests are told by their opcode. */
struct end {
	struct rc_device device;
	struct ibv_cq *cq;
	struct rc_queue_pair qp;
	struct ibv_mr *data, *messages;
};

static void open_end(struct end *e, const struct options *o, void *data, size_t data_len,
		     void *messages, size_t message_len)
{
	/* A command takes two send requests of the target, some of which complete later. */
	struct rc_queues queues = { .sends = 4 * o->depth + 8,
				    .receives = o->depth,
				    .inline_size = sizeof(struct command) };

	rc_open(&e->device, o->gid_index);
	e->cq = queues.send_cq = queues.recv_cq = rc_cq(&e->device, queues.sends + queues.receives,
							NULL);
	e->qp = (struct rc_queue_pair){ .qp = rc_create(&e->device, &queues),
					.size = queues.sends };
	e->data = rc_register(&e->device, data, data_len);
	e->messages = rc_register(&e->device, messages, o->depth * message_len);
	for (uint32_t i = 0; i < o->depth; i++)
		rc_receive(&e->qp, i,
			   rc_sge((uint8_t *)messages + i * message_len, message_len, e->messages));
	rc_flush(&e->qp);
}

/* Adds a SEND whose data is copied when it is posted. */
static void send_inline(struct end *e, const void *data, size_t len)
{
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE };

	rc_send(&e->qp, &wr, rc_sge(data, len, NULL), 0);
}

/* ---- slots that wait for room in the send queue ---------------------------------------------- */

struct waiting {
	uint32_t slot[64], first, n;
};

static void add(struct waiting *w, uint32_t slot)
{
	w->slot[(w->first + w->n++) % 64] = slot;
}

static uint32_t take_first(struct waiting *w)
{
	uint32_t slot = w->slot[w->first];

	w->first = (w->first + 1) % 64;
	w->n--;
	return slot;
}

/* ---- initiator ------------------------------------------------------------------------------- */

static void send_command(struct initiator *it, struct end *e, uint32_t slot)
{
	struct command *c = next_command(it, slot);

	if (!c)
		return;
	c->rkey = e->data->rkey;
	send_inline(e, c, sizeof(*c));
}

static void take_response(struct initiator *it, struct end *e, struct response *responses,
			  uint64_t i, struct waiting *idle)
{
	struct response r = responses[i];

	rc_receive(&e->qp, i, rc_sge(&responses[i], sizeof(r), e->messages));
	command_done(it, &r);
	add(idle, r.slot);
}

void initiate_by_verbs(struct initiator *it, int sock)
{
	const struct options *o = it->options;
	struct response *responses = (void *)side_memory(o->depth * sizeof(*responses));
	struct waiting idle = { 0 };
	struct ibv_wc wc[POLL];
	uint32_t looks = 0;
	struct end e;
	int n;

	open_end(&e, o, it->buffers, (size_t)o->depth * o->size, responses, sizeof(*responses));
	rc_connect(&e.device, e.qp.qp, sock, (struct rc_memory){ 0 });
	for (uint32_t slot = 0; slot < o->depth; slot++)
		add(&idle, slot);
	meter_start(&it->meter, o->seconds);
	while (it->busy || idle.n) {
		while (idle.n && rc_room(&e.qp))
			send_command(it, &e, take_first(&idle));
		rc_flush(&e.qp);
		n = rc_poll(e.cq, POLL, wc);
		for (int i = 0; i < n; i++)
			if (wc[i].opcode == IBV_WC_RECV)
				take_response(it, &e, responses, wc[i].wr_id, &idle);
			else
				rc_complete(&e.qp, &wc[i]);
		if (!n && !(++looks % LOOKS))
			MUST(!side_closed(sock), "the target has ended");
	}
}

/* ---- target ---------------------------------------------------------------------------------- */

struct command_slot {
	struct command command;
	struct response response;
	bool fetched; /* the data of a written block is there */
};

struct serving {
	struct target *target;
	struct end end;
	struct command *received; /* of each receive request */
	struct command_slot slot[64];
	struct waiting ready;
};

static struct ibv_sge place_of(struct serving *s, const struct command *c)
{
	return rc_sge(command_place(s->target, c), c->length, s->end.data);
}

/* Fetches the data of a written block. The request is signaled: the response follows then. */
static void fetch(struct serving *s, const struct command *c)
{
	const struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { c->addr, c->rkey },
	};

	rc_send(&s->end.qp, &wr, place_of(s, c), c->slot + 1);
}

/* The data of a block that is read arrives before the response, which is sent behind it. */
static void respond(struct serving *s, struct command_slot *slot)
{
	const struct command *c = &slot->command;
	const struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { c->addr, c->rkey },
	};

	if (c->operation == READ_BLOCK)
		rc_send(&s->end.qp, &wr, place_of(s, c), 0);
	slot->response = response_to(c);
	send_inline(&s->end, &slot->response, sizeof(slot->response));
}

static void work(struct serving *s, struct command_slot *slot)
{
	if (slot->command.operation == WRITE_BLOCK && !slot->fetched)
		fetch(s, &slot->command);
	else
		respond(s, slot);
}

static void take_completion(struct serving *s, const struct ibv_wc *wc)
{
	struct command *c;
	uint32_t tag;

	if (wc->opcode == IBV_WC_RECV) {
		c = &s->received[wc->wr_id];
		command_place(s->target, c); /* checks it */
		s->slot[c->slot] = (struct command_slot){ .command = *c };
		add(&s->ready, c->slot);
		rc_receive(&s->end.qp, wc->wr_id, rc_sge(c, sizeof(*c), s->end.messages));
		return;
	}
	tag = rc_complete(&s->end.qp, wc);
	if (!tag)
		return;
	s->slot[tag - 1].fetched = true;
	check_written(s->target, &s->slot[tag - 1].command);
	add(&s->ready, tag - 1);
}

void serve_by_verbs(struct target *t, int sock)
{
	struct serving *s = calloc(1, sizeof(*s));
	struct ibv_wc wc[POLL];
	uint32_t looks = 0;
	int n;

	MUST(s, "memory");
	s->target = t;
	s->received = (void *)side_memory(t->options->depth * sizeof(*s->received));
	open_end(&s->end, t->options, t->disk, DISK, s->received, sizeof(*s->received));
	rc_connect(&s->end.device, s->end.qp.qp, sock, (struct rc_memory){ 0 });
	while (looks < LOOKS || !side_closed(sock)) {
		looks = looks < LOOKS ? looks : 0;
		n = rc_poll(s->end.cq, POLL, wc);
		for (int i = 0; i < n; i++)
			take_completion(s, &wc[i]);
		while (s->ready.n && rc_room(&s->end.qp) >= 2)
			work(s, &s->slot[take_first(&s->ready)]);
		rc_flush(&s->end.qp);
		looks = n ? 0 : looks + 1;
	}
	free(s);
}
