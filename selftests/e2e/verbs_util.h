/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Helpers for the verbs programs of these tests: open a device, bring a QP up, wait for a
 * completion, open a TCP connection to another program, fill memory with a pattern and check it.
 *
 * Functions report failure by their return value, with errno set. MUST() ends the program on the
 * first failure.
 */
#ifndef VERBS_UTIL_H
#define VERBS_UTIL_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/clock.h"

#define MUST(cond, what)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s: line %d: %s (%s)\n", program_invocation_short_name,   \
				__LINE__, what, strerror(errno));                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/*
 * Opens the device called @name, or the first one if @name is NULL. Returns NULL if it does not
 * exist or cannot be opened.
 */
struct ibv_context *open_device(const char *name);

/* Returns the GID with this index of port 1, or a zero GID if there is none. */
union ibv_gid own_gid(struct ibv_context *ctx, int gid_index);

/* Returns true if XROCE_PATH says that the contexts of the program are direct. */
bool is_direct(void);

/*
 * Returns all attributes that the functions below use, with values for most tests: path MTU 1024,
 * PSN 0, 8 outstanding READs and atomics in each direction, 7 retries, unlimited RNR retries, no
 * remote access. Tests change what they need before they use them.
 */
struct ibv_qp_attr rc_attr(int gid_index, union ibv_gid dgid, uint32_t dest_qpn);

/* Move an RC or XRC QP to the named state. They return 0 or -1. */
int to_init(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
int to_rtr(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
int to_rts(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
int reset_to_rts(struct ibv_qp *qp, const struct ibv_qp_attr *attr);
/* Moves a UD QP from RESET to RTS. Returns 0 or -1. */
int ud_reset_to_rts(struct ibv_qp *qp, uint32_t qkey);

/*
 * Returns the local ACK timeout (4.096 us * 2^n): 67 ms, or 1 s on an emulated processor (XR_SLOW).
 */
uint8_t ack_timeout(void);

/* Polls until a completion arrives. Returns 1, 0 after @seconds, or the error of ibv_poll_cq(). */
int next_completion(struct ibv_cq *cq, struct ibv_wc *wc, double seconds);

/*
 * A TCP connection between the two programs of a test. Both return a socket or -1. tcp_connect()
 * waits up to 10 s for the other program to listen, tcp_accept() waits @seconds for it to connect.
 */
int tcp_connect(const char *host, int port);
int tcp_accept(int port, int seconds);

/* Options of a program that runs on two hosts: -g GID-INDEX -p PORT [HOST] */
struct sides {
	int gid_index, port;
	const char *host; /* the other side, which listens; NULL: this one does */
};
/* Changes what the options set. Wrong options end the program with status 2. */
void parse_sides(int argc, char **argv, struct sides *s);
/* Returns a socket to the other side, or ends the program after @seconds. */
int connect_sides(const struct sides *s, int seconds);

/*
 * Fills @p with bytes @from to @from + @len of the pattern with that seed, or compares it with
 * them.
 */
void fill_pattern(void *p, size_t len, uint32_t seed, size_t from);
bool has_pattern(const void *p, size_t len, uint32_t seed, size_t from);

#endif /* VERBS_UTIL_H */
