// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Messages by TCP, see alltoall.c */
#include "alltoall.h"
#include "stream.h"

struct peer {
	struct stream *stream;
	size_t have; /* bytes of this round's message */
};

static void *tcp_open(struct rank *r)
{
	struct peer *peers = calloc(r->n, sizeof(*peers));

	MUST(peers, "memory");
	for (uint32_t i = 0; i < r->n; i++)
		if (i != r->me)
			peers[i].stream = stream_new(r->sock[i], false);
	return peers;
}

/* Returns true if the message was received and the own one was sent. */
static bool progress(struct peer *p, uint8_t *in, size_t size)
{
	stream_push(p->stream);
	if (p->have < size)
		p->have += stream_pull(p->stream, in + p->have, size - p->have);
	MUST(!p->stream->ended, "a rank has ended");
	return p->have == size && stream_idle(p->stream);
}

static void tcp_run(void *own, struct rank *r)
{
	struct peer *peers = own;
	size_t size = r->options->size;
	uint32_t done;

	for (uint32_t i = 0; i < r->n; i++) {
		if (i == r->me)
			continue;
		peers[i].have = 0;
		stream_add(peers[i].stream, r->out[i], size);
	}
	while (true) {
		done = 1; /* this rank itself */
		for (uint32_t i = 0; i < r->n; i++)
			done += i != r->me && progress(&peers[i], r->in[i], size);
		if (done == r->n)
			return;
		rank_idle(r);
	}
}

const struct exchange exchange_by_tcp = { tcp_open, tcp_run };
