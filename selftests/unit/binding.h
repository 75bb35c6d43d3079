/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Three queue pairs and memory, for tests of what changes keys: windows (binding_test.c) and regions of fast
 * registration (fast_test.c). Each runs over the wire and the direct way.
 */
#ifndef BINDING_H
#define BINDING_H

#include "harness.h"

#define BASE 0x300000
#define SIZE 65536
#define FROM 1000 /* the window that most tests bind: [FROM, FROM + LEN) */
#define LEN 2000
#define QPS 3

/* QP 0 owns the memory and binds; QP 1 is its peer; QP 2 is another one of the owner. */
struct world {
	struct harness *h;
	struct h_qp q[QPS];
	struct h_mr mr;
	struct xt_key *window;
	uint32_t lkey;
	unsigned drop; /* this frame from now on is lost; 0: none */
};

#define RW (XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE)

extern uint8_t memory[SIZE]; /* the region, from BASE on */
extern bool over_wire;

const char *way(void); /* in words */
void begin(struct world *w);
void end(struct world *w);
void make_window(struct world *w, bool type_2);
/* Runs until nothing is left to do. */
void settle(struct world *w);

/* Work requests of QP number q, signalled */
struct xr_send_wqe *post_bind(struct world *w, unsigned q, uint64_t wr_id, uint32_t variant,
			      uint64_t from, uint64_t len, uint32_t access);
struct xr_send_wqe *post_rdma(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
			      uint64_t addr, uint32_t len, uint32_t rkey);
struct xr_send_wqe *post_inv(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
			     uint32_t rkey);
/* The next completion, by number; its status, or -1. */
int status_of(struct world *w, uint64_t wr_id, struct xr_cqe *cqe);

/* The owner binds its window, the peer uses a key: the completion's status. */
int do_bind(struct world *w, uint32_t variant, uint64_t from, uint64_t len, uint32_t access);
int do_rdma(struct world *w, uint8_t opcode, uint64_t addr, uint32_t len, uint32_t rkey);
/* What it moved is there. */
bool moved(uint32_t off, uint32_t len);

#endif /* BINDING_H */
