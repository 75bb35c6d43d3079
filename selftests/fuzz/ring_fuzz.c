// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The transport engine with a hostile client, which writes arbitrary values to its rings at any
 * time. Memory of others must not change and must not be sent, and the work of another client must
 * complete.
 *
 * Input: steps, each an action byte followed by the values that the action reads; see step().
 */
#include "world.h"

#define HOSTILE_QPS (QP_FAR + 1)

/* Writes to any word of the ring headers, also to those that only the daemon should write. */
static void poke_index(struct queue *queue, struct stream *in)
{
	uint8_t how = input_u8(in);
	uint32_t *word = how & 2   ? &queue->ring->word
			 : how & 1 ? &queue->ring->consumer
				   : &queue->ring->producer;

	if (how & 4)
		*word = input_u32(in);
	else
		*word += (uint32_t)(int8_t)input_u8(in);
	if (how & 8) {
		queue->ring->depth = input_u32(in);
		queue->ring->stride = input_u32(in);
		queue->ring->entries_off = input_u32(in);
	}
}

static void poke_entry(struct queue *queue, struct stream *in)
{
	uint32_t size = queue->depth * queue->stride, off = input_u16(in) % size;
	uint32_t len = input_u8(in);

	input_bytes(in, queue->entries + off, len < size - off ? len : size - off);
}

static void poke_cq(struct world *w, struct stream *in)
{
	struct xr_queue *ring = w->cq[0].ring;
	struct queue view = {
		.ring = ring,
		.entries = (uint8_t *)(ring + 1),
		.depth = w->cq[0].depth,
		.stride = sizeof(struct xr_cqe),
	};

	if (input_u8(in) & 1)
		poke_index(&view, in);
	else
		poke_entry(&view, in);
}

static struct xr_sge any_sge(struct stream *in, const struct world *w)
{
	uint8_t how = input_u8(in);
	const struct region *r = &w->region[(how & 0xf) % REG_TOTAL];
	struct xr_sge sge = { .lkey = r->key };

	if (how & 0x20)
		return world_changing_sge(w, how & 0xf, in);
	sge.addr = r->va + (uint64_t)(int16_t)input_u16(in);
	sge.length = input_u16(in);
	if (how & 0x80)
		sge.lkey = input_u32(in);
	if (how & 0x40)
		sge.length = input_u32(in);
	return sge;
}

/* Builds a valid work request and then changes fields as the input demands. */
static void add_send(struct world *w, struct fuzz_qp *q, struct stream *in)
{
	struct xr_sge target = any_sge(in, w), sge[MAX_SGES];
	uint8_t how = input_u8(in);
	struct xr_send_wqe wqe = {
		.opcode = how & 7,
		.flags = input_u8(in),
		.num_sge = (how >> 3) % (MAX_SGES + 1),
		.rkey = target.lkey,
		.remote_addr = target.addr,
	};

	if (how & 0x80) {
		wqe.opcode = input_u8(in);
		wqe.num_sge = input_u16(in);
		wqe.inline_len = input_u32(in);
	} else if (wqe.opcode == XR_WR_LOCAL_INV) {
		world_add_key_work(w, &wqe, in);
	} else if (wqe.flags & XR_SEND_INLINE) {
		wqe.inline_len = input_u8(in) % (MAX_INLINE + 1);
	}
	if (q->type == XR_QPT_UD || q->type == XR_QPT_XRC_SEND)
		qp_add_destination(q, &wqe, input_u8(in));
	for (unsigned i = 0; i < MAX_SGES; i++)
		sge[i] = any_sge(in, w);
	qp_post_send(q, &wqe, sge, sizeof(sge));
}

static void add_recv(struct world *w, struct fuzz_qp *q, struct stream *in)
{
	uint32_t n = input_u8(in) % (MAX_SGES + 1);
	struct xr_sge sge[MAX_SGES];

	for (unsigned i = 0; i < n; i++)
		sge[i] = any_sge(in, w);
	qp_post_recv(q, n, sge);
}

static void deliver(struct world *w, unsigned max)
{
	uint32_t len;
	uint8_t *data;

	while (max-- && (data = world_take(w, &len))) {
		world_rx(w, data, len);
		free(data);
	}
}

static void revive(struct fuzz_qp *q, uint8_t how)
{
	if (how & 0x10)
		qp_remake(q, how >> 5 & (KIND_COUNT - 1), how & 1);
	qp_bring_up(q, XR_QPS_RTS);
}

/*
 * Picks a queue of the QP or its SRQ. An XRC initiator has one queue, an XRC target only the SRQ.
 */
static struct queue *pick_queue(struct fuzz_qp *q, bool receive)
{
	struct fuzz_srq *s = qp_srq(q);

	if (q->sq.ring && !(receive && (s || q->rq.ring)))
		return &q->sq;
	return s ? &s->queue : &q->rq;
}

static void step(struct world *w, struct stream *in)
{
	uint8_t action = input_u8(in);
	struct fuzz_qp *q = &w->qp[(action >> 4) % HOSTILE_QPS];
	struct queue *queue = pick_queue(q, input_u8(in) & 1);

	switch (action & 0xf) {
	case 0 ... 1:
		poke_index(queue, in);
		break;
	case 2 ... 3:
		poke_entry(queue, in);
		break;
	case 4:
		poke_cq(w, in);
		break;
	case 5 ... 8:
		if (q->sq.ring)
			add_send(w, q, in);
		break;
	case 9 ... 10:
		add_recv(w, q, in);
		break;
	case 11:
		xt_qp_doorbell(q->qp, w->now);
		break;
	case 12:
		deliver(w, MAX_QUEUED);
		break;
	case 13:
		world_advance(w, (uint64_t)input_u8(in) << 16);
		break;
	case 14:
		revive(q, input_u8(in));
		if (action & 0x80)
			world_resize(w, 16u << (action >> 4 & 7));
		break;
	case 15:
		world_poll(w);
		break;
	}
	world_run(w);
}

/* The good client sends, writes and reads; all its work must succeed. */
static void check_good(struct world *w)
{
	struct fuzz_qp *a = &w->qp[QP_GOOD_A], *b = &w->qp[QP_GOOD_B];
	struct xr_sge from = world_sge(w, REG_GOOD, 0, 700), to = world_sge(w, REG_GOOD, 1000, 700);
	struct xr_send_wqe wqe = { .opcode = XR_WR_SEND, .flags = XR_SEND_SIGNALED, .num_sge = 1 };
	unsigned before = w->good_ok;

	for (uint32_t i = 0; i < from.length; i++)
		w->region[REG_GOOD].bytes[i] = (uint8_t)(i + before);
	qp_post_recv(b, 1, &to);
	qp_post_send(a, &wqe, &from, sizeof(from));
	for (int i = 0; i < 20 && w->good_ok < before + 2; i++) {
		world_advance(w, 2000000);
		deliver(w, MAX_QUEUED);
		world_run(w);
		world_poll(w);
	}
	MUST(w->good_ok == before + 2);
	MUST(!memcmp(w->region[REG_GOOD].bytes, w->region[REG_GOOD].bytes + 1000, 700));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream in = { data, size };
	static struct world w;

	world_open(&w, false);
	for (int i = 0; i < 200 && !input_end(&in); i++)
		step(&w, &in);
	check_good(&w);
	world_close(&w);
	return 0;
}
