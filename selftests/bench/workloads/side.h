/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of this folder share: options, TCP sockets, and the time of operations. They
 * do the same work by verbs and by TCP, so that the two can be compared. Failures end the program.
 *
 *   -t         by TCP; by default, by RC QPs
 *   -u         by as little as a transport over UDP can do (reply only, see reply_floor.c)
 *   -e         wait for events; by default, poll
 *   -c         fill and compare all bytes; by default, a few of each message
 *   -g INDEX   GID index (0)
 *   -p PORT    TCP port (18515)
 *   -n COUNT   connections (1)
 *   -d DEPTH   operations under way at once in a connection (1)
 *   -s BYTES   size of blocks or messages (4096)
 *   -w         the blocks are written; by default, read
 *   -T SECONDS time (1) that is measured, after a fifth of it to warm up
 *
 * They print operations a second, and median and 99th percentile of their time in us.
 */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include "selftests/bench/times.h"
#include "selftests/e2e/verbs_util.h"

#define WAIT_SECONDS 30 /* for a peer */

struct options {
	bool tcp, floor, events, check, write;
	int gid_index, port;
	uint32_t connections, depth, size;
	double seconds;
	char **arguments; /* what follows the options, up to a NULL */
};

/* The program is called so: NAME [OPTION...] and these arguments. */
void parse_options(int argc, char **argv, struct options *o, const char *arguments);

/* Returns a socket that listens on all addresses. */
int side_listen(int port);
/* Both return a connected socket without Nagle's algorithm. */
int side_accept(int listener);
int side_connect(const char *host, int port);
/* Send and receive all of it. */
void side_tell(int sock, const void *data, size_t len);
void side_hear(int sock, void *data, size_t len);
/* Returns true if the peer has closed its end of a socket from which nothing else is read. */
bool side_closed(int sock);

/* ---- time of operations ---------------------------------------------------------------------- */

struct meter {
	uint64_t from, until;
	uint64_t count;
	struct times times;
};

void meter_start(struct meter *m, double seconds);
void meter_add(struct meter *m, uint64_t began, uint64_t ended);
void meter_print(struct meter *m);

/* Returns false when the time is over and an operation has been measured. */
static inline bool meter_runs(const struct meter *m, uint64_t now)
{
	return now < m->until || !m->count;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Fills all of a block with what belongs to a number, or its first and last 8 bytes. */
void stamp(uint8_t *block, size_t len, uint64_t number, bool all);
bool has_stamp(const uint8_t *block, size_t len, uint64_t number, bool all);

/* Memory at the start of a page */
uint8_t *side_memory(size_t len);

#endif /* BENCH_SIDE_H */
