/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RC QPs between two programs, which exchange their numbers over TCP, or of one program with
 * itself. Failures end the program.
 */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include "selftests/e2e/verbs_util.h"

#define PAIR_MESSAGE (64u << 10)
#define PAIR_DEPTH 16u

struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t n;
	struct ibv_qp **qp;
	int gid_index;
	union ibv_gid gid;
	uint8_t *buf; /* PAIR_MESSAGE bytes, also of the peer */
	struct ibv_mr *mr;
	int sock;
	uint64_t remote_addr;
	uint32_t rkey;
};

/* Opens the first device and creates n QPs. */
void pair_open(struct pair *p, uint32_t n, int gid_index);
/* The same with QPs of the worker that a completion vector names; 0: workers take turns. */
void pair_open_at(struct pair *p, uint32_t n, int gid_index, int vector);
/* Connects all QPs to those of the peer. host NULL: waits for the peer */
void pair_connect(struct pair *p, const char *host, int port);
/* Connects each QP to itself, in any state. */
void pair_loopback(struct pair *p);
/* Posts a signaled WRITE or READ of QP i from or to local memory. */
void pair_post(struct pair *p, uint32_t i, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
	       uint64_t remote, uint32_t rkey);

#endif /* BENCH_PAIR_H */
