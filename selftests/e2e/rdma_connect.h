/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that connect by librdmacm many times, and at the same time. A client sends a number as
 * private data and a message of it; the server returns both inverted.
 */
#ifndef RDMA_CONNECT_H
#define RDMA_CONNECT_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "verbs_util.h"

#define WORDS 16 /* of a message */
#define MESSAGE (WORDS * sizeof(uint32_t))
/* For anything that must happen. A REQ or DREQ without a response is given up after 69 s. */
#define WAIT_MS 180000

/* Exit status of a process whose device is gone */
#define DEVICE_GONE 3

/* Ends the process unless the call succeeded, with DEVICE_GONE if that is the reason. */
#define MUST_OR_GONE(cond, what)                                                                   \
	do {                                                                                       \
		bool done = (cond);                                                                \
                                                                                                   \
		if (!done && (errno == EIO || errno == ENODEV))                                    \
			exit(DEVICE_GONE);                                                         \
		MUST(done, what);                                                                  \
	} while (0)

struct address {
	struct sockaddr_storage addr;
};

/* Ends the program on wrong arguments. */
struct address parse_address(const char *host, const char *port);

/* Returns a channel that does not block. Ends the process if there is no device. */
struct rdma_event_channel *new_channel(void);

/* Objects that the QPs of a program share */
struct shared {
	struct ibv_context *ctx; /* NULL: not created yet */
	struct ibv_pd *pd;	 /* that of librdmacm ends with its last id */
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint32_t (*message)[WORDS]; /* `slots` to receive, then as many to send */
	uint32_t slots;
};

/* Creates the objects at the device of an id, once. */
void share(struct shared *s, struct rdma_cm_id *id, uint32_t slots);
void free_shared(struct shared *s);
/* Creates the id's QP and posts a receive request. The wr_id is @slot, with SENT for a message. */
#define SENT (1ull << 63)
int make_qp(struct shared *s, struct rdma_cm_id *id, uint32_t slot, uint64_t wr_id);
int send_message(struct shared *s, struct rdma_cm_id *id, uint32_t slot, uint64_t wr_id);
uint32_t *received(struct shared *s, uint32_t slot);
uint32_t *to_send(struct shared *s, uint32_t slot);
/* Returns the next completion if there is one, else requests an event. */
bool completion(struct shared *s, struct ibv_wc *wc);

struct rdma_conn_param conn_param(const uint32_t *number);

/* Serves connections until the device is gone. @own: each connection has a channel of its own. */
void serve(struct address at, bool own);
/* Creates the id of a listener, waits for a byte from @go, and listens. Writes errno to @result. */
void listen_later(struct address at, int go, int result);

/* Counters of all clients, in memory that they share */
struct counters {
	uint64_t connected, target;
	uint64_t rejected, stale, unreachable, broken, killed, device;
	uint64_t longest_ns; /* from the first attempt that failed to the next that did not */
};

/* Connects one after the other until the target is reached. */
void connect_until(struct address to, struct counters *c);
/* Connects once. Returns whether the first attempt succeeds. */
bool connect_once(struct address to);
/* Opens and closes @n connections at once. @own: each has a channel of its own. */
void connect_many(struct address to, uint32_t n, bool own);

#endif /* RDMA_CONNECT_H */
