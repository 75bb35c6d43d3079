/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ranks of an all-to-all exchange, see alltoall.c */
#ifndef BENCH_ALLTOALL_H
#define BENCH_ALLTOALL_H

#include "side.h"

#define MAX_RANKS 16

struct rank {
	const struct options *options;
	uint32_t me, n;
	bool yields;
	int sock[MAX_RANKS];
	/* a message for each rank, and one from each; those of this rank itself are not used */
	uint8_t *out[MAX_RANKS], *in[MAX_RANKS];
	uint8_t *memory; /* with all of them */
	size_t memory_len;
};

/* How messages pass */
struct exchange {
	void *(*open)(struct rank *r);
	/*
	 * Sends a message to each other rank and receives one from each. When it returns, messages
	 * may be changed.
	 */
	void (*run)(void *own, struct rank *r);
};

extern const struct exchange exchange_by_verbs, exchange_by_tcp;

/* Called when there is nothing to do */
void rank_idle(struct rank *r);

#endif /* BENCH_ALLTOALL_H */
