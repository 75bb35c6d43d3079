// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Packets that arrive in any order have the effect that they have in order, also if messages write
 * to the same bytes, in which case early packets may not be placed at once (place.h).
 */
#include "daemon/transport/engine.h"
#include "made.h"

#define SEEDS 500
#define MESSAGES 16
#define MOST_PACKETS 6		 /* of a message */
#define AREA (9 * MTU)		 /* that all messages write to */
#define OTHER (BASE + (1 << 20)) /* address of the region that has the same memory */

enum { SEND, WRITE, WRITE_IMM, KINDS };

/* The only packet, or the first one, one in the middle, the last one */
static const uint8_t ops[KINDS][4] = {
	{ XR_OP_SEND_ONLY, XR_OP_SEND_FIRST, XR_OP_SEND_MIDDLE, XR_OP_SEND_LAST },
	{ XR_OP_WRITE_ONLY, XR_OP_WRITE_FIRST, XR_OP_WRITE_MIDDLE, XR_OP_WRITE_LAST },
	{ XR_OP_WRITE_ONLY_IMM, XR_OP_WRITE_FIRST, XR_OP_WRITE_MIDDLE, XR_OP_WRITE_LAST_IMM },
};

static struct made packets[MESSAGES * MOST_PACKETS];
static unsigned n_packets;
static uint8_t model[SIZE]; /* memory, if packets arrive in order */
static struct h_mr other_mr;
static uint32_t other_key;

static uint8_t op_of(unsigned kind, unsigned i, unsigned n)
{
	return ops[kind][n == 1 ? 0 : !i ? 1 : i + 1 < n ? 2 : 3];
}

static void add_message(struct h_qp *q, unsigned *seed)
{
	unsigned kind = rand_r(seed) % KINDS, n = 1 + rand_r(seed) % MOST_PACKETS;
	uint32_t last = 1 + rand_r(seed) % MTU, len = (n - 1) * MTU + last;
	uint32_t off = rand_r(seed) % (AREA - MOST_PACKETS * MTU);
	bool by_other = rand_r(seed) % 4 == 0;
	uint64_t va = (by_other ? OTHER : BASE) + off;
	uint32_t lkey = by_other ? other_key : key;

	if (rand_r(seed) % 2)
		off = off / MTU * MTU, va = (by_other ? OTHER : BASE) + off;
	if (kind != WRITE)
		h_post_recv(q, 0, va, len, lkey);
	for (unsigned i = 0; i < n; i++) {
		struct made *m = &packets[n_packets];

		*m = (struct made){
			.opcode = op_of(kind, i, n),
			.psn = (int)n_packets++,
			.payload = i + 1 < n ? MTU : last,
			.va = va,
			.len = len,
			.key_xor = lkey ^ key,
			.fill = (uint8_t)n_packets,
		};
		memset(model + off + i * MTU, m->fill, m->payload);
	}
}

/* Writes the order of arrival: a packet may be overtaken by so many others. */
static void shuffle(unsigned *order, unsigned overtaken, unsigned *seed)
{
	unsigned due[MESSAGES * MOST_PACKETS], i, j;

	for (i = 0; i < n_packets; i++) {
		/* one in eight is late */
		due[i] = i + (rand_r(seed) % 8 ? 0 : rand_r(seed) % overtaken);
		for (j = i; j && due[order[j - 1]] > due[i]; j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
}

static bool in_any_order(unsigned seed)
{
	unsigned order[MESSAGES * MOST_PACKETS], i;
	struct xt_qp_stats s;
	struct h_qp q;
	struct harness *h = begin(&q);
	bool ok;

	other_key = h_reg(h, &other_mr, memory, SIZE, OTHER);
	memset(memory, 0, sizeof(memory));
	memset(model, 0, sizeof(model));
	n_packets = 0;
	for (i = 0; i < MESSAGES; i++)
		add_message(&q, &seed);
	shuffle(order, 1 + rand_r(&seed) % 50, &seed);
	for (i = 0; i < n_packets; i++) {
		receive(&q, &packets[order[i]]);
		h->sent_count = 0;
	}
	while (xt_engine_run(h->engine, h->now) <= h->now)
		;
	xt_qp_stats(q.qp, &s);
	ok = s.rq_psn == ((PSN + n_packets) & XR_PSN_MASK) && !memcmp(memory, model, SIZE);
	end(&q);
	return ok;
}

int main(void)
{
	unsigned failed = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++)
		if (!in_any_order(seed)) {
			printf("# seed %u\n", seed);
			failed++;
		}
	TAP_OK(!failed, "%u sequences of %u messages, in another order", SEEDS, MESSAGES);
	return tap_end();
}
