/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Three QPs and a region, for tests of WRs that change keys: memory windows (binding_test.c) and
 * fast registration (fast_test.c). Each test runs over the wire and by loopback.
 */
#ifndef BINDING_H
#define BINDING_H

#include "harness.h"

#define BASE 0x300000
#define SIZE 65536
#define FROM 1000 /* most tests bind the window [FROM, FROM + LEN) */
#define LEN 2000
#define QPS 3

/* QP 0 binds windows to its region; QP 1 is its peer; QP 2 is another local QP. */
struct world {
	struct harness *h;
	struct h_qp q[QPS];
	struct h_mr mr;
	struct xt_key *window;
	uint32_t lkey;
	unsigned drop; /* drop the frame of this number, counted from 1; 0: none */
};

#define RW (XR_ACCESS_REMOTE_READ | XR_ACCESS_REMOTE_WRITE)

extern uint8_t memory[SIZE]; /* the region, at address BASE */
extern bool over_wire;

const char *path_name(void);
void begin(struct world *w);
void end(struct world *w);
void make_window(struct world *w, bool type_2);
/* Rings all doorbells and runs the engine until it is idle. */
void run_until_idle(struct world *w);

/* Post a signalled WR to QP @q. */
struct xr_send_wqe *post_bind(struct world *w, unsigned q, uint64_t wr_id, uint32_t variant,
			      uint64_t from, uint64_t len, uint32_t access);
struct xr_send_wqe *post_rdma(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
			      uint64_t addr, uint32_t len, uint32_t rkey);
struct xr_send_wqe *post_inv(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
			     uint32_t rkey);
/* Polls one completion. Returns its status, or -1 if there is none or its wr_id differs. */
int status_of(struct world *w, uint64_t wr_id, struct xr_cqe *cqe);

/* QP 0 binds the window, or QP 1 accesses @addr by @rkey. Return the status of the completion. */
int do_bind(struct world *w, uint32_t variant, uint64_t from, uint64_t len, uint32_t access);
int do_rdma(struct world *w, uint8_t opcode, uint64_t addr, uint32_t len, uint32_t rkey);
/* True if the data of do_rdma() is at @off. */
bool moved(uint32_t off, uint32_t len);

#endif /* BINDING_H */
