/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A TCP connection that never blocks, for programs that poll. Failures end the program. */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

#include <sys/uio.h>

#include "side.h"

#define STREAM_PIECES 256
#define STREAM_SPILL 16384

struct stream {
	int sock;
	bool ended; /* by the peer */
	bool spills;
	/* what is still to be sent, oldest first */
	struct iovec piece[STREAM_PIECES];
	uint32_t first, pieces;
	/* if it spills: what was received beyond what was asked for */
	uint32_t spill_begin, spill_end;
	uint8_t spill[STREAM_SPILL];
};

/* spills: may receive more than is asked for, and keep it */
struct stream *stream_new(int sock, bool spills);
/* Adds to what is to be sent. It must stay as it is until stream_idle(). */
void stream_add(struct stream *s, const void *data, size_t len);
/* Sends what the kernel takes. */
void stream_push(struct stream *s);
/* Receives up to len bytes of what has arrived, and returns their number. */
size_t stream_pull(struct stream *s, void *to, size_t len);

static inline bool stream_idle(const struct stream *s)
{
	return !s->pieces;
}

#endif /* BENCH_STREAM_H */
