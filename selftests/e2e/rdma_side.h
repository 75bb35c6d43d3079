/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two ordinary ibverbs programs with one RC queue pair between them. One of them decides what
 * happens; the other, its partner, does what it is asked to and answers how that went. So a test
 * is one function on one side:
 *
 *   decides   side_open, side_meet(NULL)   then ask() and its own work requests, ask(ASK_END)
 *   partner   side_open, side_meet(host)   then side_serve()
 *
 * A result is 0 for good, a completion's status (positive) or a negative errno: of posting, or
 * ETIMEDOUT where no completion came.
 */
#ifndef RDMA_SIDE_H
#define RDMA_SIDE_H

#include "rdma_steps.h"

#define SIDE_BUF (4u << 20) /* bytes of the partner's own buffer, and of ours */
#define SIDE_DEPTH 64u
#define SIDE_SGE 32
#define SIDE_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define SIDE_HUGE (1u << 31)	/* bytes of the longest message there is */
#define SIDE_WINDOW (64u << 20) /* ... which repeats itself after so many */
#define SEND_PIECE 2048u	/* a message of ASK_SEND: so many bytes from every */
#define SEND_STRIDE 5003u	/* so many of the partner's buffer */

enum side_ask {
	ASK_FILL,     /* the partner's buffer with a pattern */
	ASK_HOLDS,    /* does it hold that pattern? */
	ASK_WRITE,    /* from it to our memory */
	ASK_READ,     /* our memory into it */
	ASK_SEND,     /* len pieces of it as one message */
	ASK_SEND_INV, /* len pieces of it as one message that invalidates our rkey */
	ASK_HUGE,     /* WRITE of SIDE_HUGE bytes, stamp_pages() in each window */
	ASK_CONNECT,  /* reset the queue pair and connect again */
	ASK_END,
};

struct side_request {
	uint32_t what, len, seed, rkey;
	uint64_t addr;
};

struct side_hello { /* what the two tell each other at each connection */
	uint32_t qpn, psn, rkey, mtu;
	uint64_t addr;
	union ibv_gid gid;
};

struct side {
	int sock, gid_index;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of buf */
	uint8_t *buf;
	struct side_hello me, peer;
};

/* Both print what went wrong. dev: NULL for the first; host: NULL waits for the partner */
bool side_open(struct side *s, const char *dev, int gid_index);
bool side_meet(struct side *s, const char *host, int port);
void side_close(struct side *s);
bool side_serve(struct side *s);

int ask(struct side *s, const struct side_request *request);
int side_reconnect(struct side *s);

int side_completion(struct side *s, struct ibv_wc *wc);
int side_rdma(struct side *s, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t addr,
	      uint32_t rkey);
/* Of several pieces, with the partner's buffer */
int side_rdma_list(struct side *s, enum ibv_wr_opcode opcode, struct ibv_sge *sge, int n);

void *anonymous(size_t len);

/* Huge memory is not compared byte by byte: each page of a window begins and ends with its number. */
void stamp_pages(uint8_t *p, size_t len);
size_t wrong_stamps(const uint8_t *p, size_t len);

#endif /* RDMA_SIDE_H */
