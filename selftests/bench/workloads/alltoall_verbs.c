// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Messages by verbs, see alltoall.c, as MPI libraries send them: small ones are copied, sent to the
 * next receive request, and copied again. Of large ones, the sender tells the place; the receiver
 * reads them into their place, and tells when it is done.
 *
 * A rank ends its round when the peer's message has arrived, so it is at most one round ahead of
 * a peer: no more than four SENDs of a peer are not yet taken, which RECEIVES exceeds.
 */
#include <arpa/inet.h>

#include "alltoall.h"
#include "rc.h"

#define EAGER 8192u /* bytes of the longest message that is copied */
#define INLINE 64u  /* a place fits as well */
#define RECEIVES 8u
#define SENDS 16u
#define IN_ROUND 4u /* send requests of a peer in a round, at most */
#define POLL 16

enum kind {
	MESSAGE, /* the message itself */
	PLACE,	 /* the message is at this place */
	DONE,	 /* the message has been read from there */
};

struct peer {
	struct rc_queue_pair qp;
	uint8_t *slots; /* SENDS to send from, then RECEIVES */
	uint32_t next_slot;
	bool received, read; /* in this round: the peer's message; the own one by the peer */
	int early;	     /* receive slot with what belongs to the next round, or -1 */
	enum kind early_kind;
};

struct ranks {
	struct rc_device device;
	struct ibv_cq *cq;
	struct ibv_mr *slots, *messages;
	uint32_t slot_size;
	struct peer peer[MAX_RANKS];
};

static uint8_t *receive_slot(const struct ranks *v, const struct peer *p, uint32_t slot)
{
	return p->slots + (SENDS + slot) * v->slot_size;
}

static void add_receive(struct ranks *v, uint32_t i, uint32_t slot)
{
	struct peer *p = &v->peer[i];

	rc_receive(&p->qp, (uint64_t)i << 32 | slot,
		   rc_sge(receive_slot(v, p, slot), v->slot_size, v->slots));
}

static void open_peer(struct ranks *v, struct rank *r, uint32_t i)
{
	struct rc_queues queues = { .send_cq = v->cq,
				    .recv_cq = v->cq,
				    .sends = SENDS,
				    .receives = RECEIVES,
				    .inline_size = INLINE };
	struct peer *p = &v->peer[i];

	p->qp = (struct rc_queue_pair){ .qp = rc_create(&v->device, &queues), .size = SENDS };
	p->received = true; /* as after a round: a message that comes now belongs to the next one */
	p->early = -1;
	for (uint32_t slot = 0; slot < RECEIVES; slot++)
		add_receive(v, i, slot);
	rc_flush(&p->qp);
	rc_connect(&v->device, p->qp.qp, r->sock[i], (struct rc_memory){ 0 });
}

static void *verbs_open(struct rank *r)
{
	struct ranks *v = calloc(1, sizeof(*v));
	size_t len, each;
	uint8_t *slots;

	MUST(v, "memory");
	v->slot_size = r->options->size > EAGER || r->options->size < INLINE ? INLINE
									     : r->options->size;
	each = (size_t)(SENDS + RECEIVES) * v->slot_size;
	len = r->n * each;
	slots = side_memory(len);
	rc_open(&v->device, r->options->gid_index);
	v->cq = rc_cq(&v->device, r->n * (SENDS + RECEIVES), NULL);
	v->slots = rc_register(&v->device, slots, len);
	v->messages = rc_register(&v->device, r->memory, r->memory_len);
	for (uint32_t i = 0; i < r->n; i++)
		v->peer[i].slots = slots + i * each;
	/* in the order in which the ranks have connected: lower ranks first */
	for (uint32_t i = 0; i < r->n; i++)
		if (i != r->me)
			open_peer(v, r, i);
	return v;
}

/* ---- send ------------------------------------------------------------------------------------ */

/* Sends a copy. There is room: see begin_round(). A slot is used again after SENDS requests. */
static void send_copy(struct ranks *v, uint32_t i, const void *data, uint32_t len, enum kind kind)
{
	struct peer *p = &v->peer[i];
	uint8_t *slot = p->slots + p->next_slot++ % SENDS * v->slot_size;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(kind) };

	memcpy(slot, data, len);
	if (len <= INLINE)
		wr.send_flags = IBV_SEND_INLINE;
	rc_send(&p->qp, &wr, rc_sge(slot, len, v->slots), i << 1);
	rc_flush(&p->qp);
}

static void send_message(struct ranks *v, struct rank *r, uint32_t i)
{
	struct rc_memory place = { (uintptr_t)r->out[i], v->messages->rkey };

	if (r->options->size <= EAGER)
		send_copy(v, i, r->out[i], r->options->size, MESSAGE);
	else
		send_copy(v, i, &place, sizeof(place), PLACE);
}

static void read_message(struct ranks *v, struct rank *r, uint32_t i, const void *told)
{
	struct rc_memory place;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED };

	memcpy(&place, told, sizeof(place));
	wr.wr.rdma.remote_addr = place.addr;
	wr.wr.rdma.rkey = place.rkey;
	rc_send(&v->peer[i].qp, &wr, rc_sge(r->in[i], r->options->size, v->messages), i << 1 | 1);
	rc_flush(&v->peer[i].qp);
}

/* ---- receive --------------------------------------------------------------------------------- */

static void take_received(struct ranks *v, struct rank *r, uint32_t i, uint32_t slot,
			  enum kind kind)
{
	struct peer *p = &v->peer[i];
	const uint8_t *data = receive_slot(v, p, slot);

	if (kind == MESSAGE) {
		memcpy(r->in[i], data, r->options->size);
		p->received = true;
	} else if (kind == PLACE) {
		read_message(v, r, i, data);
	} else {
		p->read = true;
	}
	add_receive(v, i, slot);
}

static void take_completion(struct ranks *v, struct rank *r, const struct ibv_wc *wc)
{
	uint32_t i = (uint32_t)(wc->wr_id >> 32), slot = (uint32_t)wc->wr_id;
	enum kind kind = ntohl(wc->imm_data);
	struct peer *p;

	if (wc->opcode & IBV_WC_RECV) {
		p = &v->peer[i];
		/* The peer has begun the next round, the program has not. */
		if (kind != DONE && p->received) {
			MUST(p->early < 0, "a rank is two rounds ahead");
			p->early = (int)slot;
			p->early_kind = kind;
			return;
		}
		take_received(v, r, i, slot, kind);
		return;
	}
	p = &v->peer[i >> 1];
	rc_complete(&p->qp, wc);
	/* that of a READ, whose bit of the tag is set */
	if (!(i & 1))
		return;
	p->received = true;
	send_copy(v, i >> 1, "", 1, DONE);
}

static bool progress(struct ranks *v, struct rank *r)
{
	struct ibv_wc wc[POLL];
	int n = rc_poll(v->cq, POLL, wc);

	for (int k = 0; k < n; k++)
		take_completion(v, r, &wc[k]);
	if (!n)
		rank_idle(r);
	return n;
}

/* Ends the round with a peer when its message is here, and the own one with it. */
static bool is_done(const struct ranks *v, const struct rank *r, uint32_t i)
{
	return v->peer[i].received && (r->options->size <= EAGER || v->peer[i].read);
}

static void begin_round(struct ranks *v, struct rank *r, uint32_t i)
{
	struct peer *p = &v->peer[i];
	int early;

	while (rc_room(&p->qp) < IN_ROUND)
		progress(v, r);
	p->received = p->read = false;
	send_message(v, r, i);
	early = p->early;
	p->early = -1;
	if (early >= 0)
		take_received(v, r, i, (uint32_t)early, p->early_kind);
}

static void verbs_run(void *own, struct rank *r)
{
	struct ranks *v = own;

	for (uint32_t i = 0; i < r->n; i++)
		if (i != r->me)
			begin_round(v, r, i);
	for (uint32_t i = 0; i < r->n; i++)
		while (i != r->me && !is_done(v, r, i))
			progress(v, r);
}

const struct exchange exchange_by_verbs = { verbs_open, verbs_run };
