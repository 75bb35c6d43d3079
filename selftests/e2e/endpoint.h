/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two verbs programs connected by one RC QP and a TCP connection. One of them, the driver, runs the
 * tests. The other, its partner, executes the requests of the driver and returns their results. A
 * test is therefore one function in one program.
 *
 *   driver    ep_open(), ep_connect(NULL), then ep_call() and its own work requests, EP_END last
 *   partner   ep_open(), ep_connect(host), then ep_serve()
 *
 * A result is 0 for success, a positive completion status, or a negative errno: from posting, or
 * -ETIMEDOUT if no completion arrived.
 */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include "verbs_util.h"

#define EP_BUF_SIZE (4u << 20) /* bytes of each endpoint's buffer */
#define EP_DEPTH 64u
#define EP_SGE 32
#define EP_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define EP_HUGE (1u << 31)	   /* bytes of the longest message that IBTA allows */
#define EP_HUGE_PERIOD (64u << 20) /* bytes after which the content of that message repeats */
#define SEND_SGE_LEN 2048u	   /* EP_SEND: bytes of each SGE */
#define SEND_STRIDE 5003u /* EP_SEND: bytes from one SGE to the next in the partner's buffer */

enum ep_op {
	EP_FILL,       /* Fill the partner's buffer with a pattern. */
	EP_CHECK,      /* Compare the partner's buffer with a pattern. */
	EP_WRITE,      /* RDMA WRITE from the partner's buffer to addr. */
	EP_READ,       /* RDMA READ from addr into the partner's buffer. */
	EP_SEND,       /* SEND with len SGEs in the partner's buffer. */
	EP_SEND_INV,   /* The same as SEND with Invalidate of rkey. */
	EP_WRITE_HUGE, /* RDMA WRITE of EP_HUGE bytes, filled by stamp_pages(). */
	EP_RECONNECT,  /* Reset the QP and connect it again. */
	EP_END,
};

struct ep_request {
	uint32_t op, len, seed, rkey;
	uint64_t addr;
};

struct ep_info { /* exchanged by the programs on each connection */
	uint32_t qpn, psn, rkey, mtu;
	uint64_t addr;
	union ibv_gid gid;
};

struct endpoint {
	int sock, gid_index;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of buf */
	uint8_t *buf;
	struct ep_info me, peer;
};

/*
 * Opens the device called @dev, or the first one if @dev is NULL, and creates all objects. Prints
 * errors.
 */
bool ep_open(struct endpoint *ep, const char *dev, int gid_index);
/* Connects to the other program, or waits for it if @host is NULL. Prints errors. */
bool ep_connect(struct endpoint *ep, const char *host, int port);
void ep_close(struct endpoint *ep);

/* Partner: executes requests until EP_END. Returns false if the connection ends before that. */
bool ep_serve(struct endpoint *ep);

/* Driver: has the partner execute a request and returns its result. */
int ep_call(struct endpoint *ep, const struct ep_request *request);
/* Driver: resets and reconnects both QPs. */
int ep_reconnect(struct endpoint *ep);

/* Waits for the next completion. */
int ep_completion(struct endpoint *ep, struct ibv_wc *wc);
/* Posts an RDMA WRITE or READ and waits for its completion. */
int ep_rdma(struct endpoint *ep, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t addr,
	    uint32_t rkey);
/* Like ep_rdma(), with @n SGEs and the partner's buffer as remote memory. */
int ep_rdma_list(struct endpoint *ep, enum ibv_wr_opcode opcode, struct ibv_sge *sge, int n);

/* Maps private anonymous memory. Returns NULL on failure. */
void *map_anonymous(size_t len);

/*
 * Huge memory is not compared byte by byte. stamp_pages() writes a number to the start and the end
 * of each page, which repeats after EP_HUGE_PERIOD; wrong_stamps() returns the number of pages
 * without theirs.
 */
void stamp_pages(uint8_t *p, size_t len);
size_t wrong_stamps(const uint8_t *p, size_t len);

#endif /* ENDPOINT_H */
