/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The steps that every ibverbs program of these tests takes: open a device, bring a queue pair up, wait
 * for a completion, meet another program, fill memory with a pattern and look for it.
 *
 * What a step returns says whether it went well, errno why not; a program that gives up at the first thing
 * that goes wrong says so by MUST.
 */
#ifndef RDMA_STEPS_H
#define RDMA_STEPS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(cond, what)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s: line %d: %s (%s)\n", program_invocation_short_name,   \
				__LINE__, what, strerror(errno));                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* name: NULL for the first device that there is. NULL where it is not there or cannot be opened */
struct ibv_context *open_device(const char *name);

/* An address of our own; all zero where the table has none at this index */
union ibv_gid own_gid(struct ibv_context *ctx, int gid_index);

/*
 * All that the three steps below ask for, with values that suit most tests: path MTU 1024, PSNs 0, 8 READs
 * and atomics at a time either way, 7 retries, RNR retries without end, no remote access. What a test wants
 * otherwise it changes before the step.
 */
struct ibv_qp_attr rc_attr(int gid_index, union ibv_gid dgid, uint32_t dest_qpn);

/* From RESET, or from the state before; 0 or -1, of RC and of what has its attributes (XRC) */
int to_init(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
int to_rtr(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
int to_rts(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
int reset_to_rts(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
/* ... of UD */
int ud_reset_to_rts(struct ibv_qp *qp, uint32_t qkey);

/* Local ACK timeout, 4.096 us * 2^n: 67 ms, or 1 s on an emulated processor (XR_SLOW) */
uint8_t ack_timeout(void);

/* 1, 0 where none came for so long, or what ibv_poll_cq() says */
int next_completion(struct ibv_cq *cq, struct ibv_wc *wc, double seconds);

/* A TCP connection between the two programs; connecting waits for the other to listen. -1: none */
int tcp_connect(const char *host, int port);
int tcp_accept(int port, int seconds);

/* Byte i of a pattern depends on all of i; `from`: which byte of the pattern p begins with. */
void pattern(void *p, size_t len, uint32_t seed, size_t from);
bool holds(const void *p, size_t len, uint32_t seed, size_t from);

double now(void); /* seconds, on a clock that nobody sets */

#endif /* RDMA_STEPS_H */
