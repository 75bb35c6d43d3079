/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A network between QPs of a harness. It loses, duplicates, damages, swaps and delays frames. */
#ifndef SIM_LOSSY_H
#define SIM_LOSSY_H

#include "rng.h"
#include "selftests/unit/harness.h"

#define LOSSY_POOL 4096

struct lossy {
	unsigned drop, dup, corrupt, shuffle, delay; /* percent */
	struct late {
		struct h_frame *frame;
		uint64_t when;
	} pool[LOSSY_POOL];
	unsigned pooled;
};

/* Sets the rates. A quarter of the networks is perfect. */
static inline void lossy_plan(struct lossy *n, struct rng *rng)
{
	if (!rng_chance(rng, 75))
		return;
	n->drop = (unsigned)rng_below(rng, 10);
	n->dup = rng_below(rng, 2) ? (unsigned)rng_below(rng, 30) : 0;
	n->shuffle = rng_below(rng, 2) ? (unsigned)rng_below(rng, 10) : 0;
	n->delay = rng_below(rng, 2) ? (unsigned)rng_below(rng, 10) : 0;
	n->corrupt = (unsigned)rng_below(rng, 4);
}

static inline bool lossy_loses(const struct lossy *n)
{
	return n->drop || n->corrupt || n->delay || n->shuffle;
}

static inline void lossy_add(struct lossy *n, struct rng *rng, const struct harness *h,
			     const struct h_frame *frame)
{
	struct h_frame *f;

	if (n->pooled == LOSSY_POOL)
		return;
	f = malloc(sizeof(*f));
	*f = *frame;
	/* The ICRC does not cover the Ethernet header. */
	if (rng_chance(rng, n->corrupt))
		f->data[14 + rng_below(rng, f->len - 14)] ^= 1 << rng_below(rng, 8);
	n->pool[n->pooled++] = (struct late){
		f,
		h->now + (rng_chance(rng, n->delay) ? rng_below(rng, 3000000) : 0),
	};
}

/* Takes what the engine has sent. */
static inline void lossy_collect(struct lossy *n, struct rng *rng, struct harness *h)
{
	for (unsigned i = 0; i < h->sent_count; i++) {
		unsigned copies = !rng_chance(rng, n->drop);

		copies += rng_chance(rng, n->dup);
		while (copies--)
			lossy_add(n, rng, h, &h->sent[i]);
	}
	h->sent_count = 0;
}

/* Delivers the frames that are due, and calls @received after each. */
static inline void lossy_deliver(struct lossy *n, struct rng *rng, struct harness *h,
				 void (*received)(void *arg), void *arg)
{
	unsigned count = n->pooled, i, j, kept = 0;

	for (i = 0; i < count; i++) {
		if (rng_chance(rng, n->shuffle)) {
			struct late l = n->pool[i];

			j = i + (unsigned)rng_below(rng, count - i);
			n->pool[i] = n->pool[j];
			n->pool[j] = l;
		}
		if (n->pool[i].when > h->now) {
			n->pool[kept++] = n->pool[i];
			continue;
		}
		h_receive(h, n->pool[i].frame->data, n->pool[i].frame->len);
		free(n->pool[i].frame);
		received(arg);
	}
	n->pooled = kept;
}

static inline void lossy_free(struct lossy *n)
{
	while (n->pooled)
		free(n->pool[--n->pooled].frame);
}

#endif /* SIM_LOSSY_H */
