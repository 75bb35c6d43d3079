/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Common to the provider's tests: a fake daemon, an open device, creation of QPs. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

struct fixture {
	char dir[64];
	struct fake daemon;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

/* Starts a fake daemon and opens its device. Exits on failure. */
void setup(struct fixture *f);
/* Opens the device of a daemon that was started again. */
struct ibv_context *open_fake(void);
void teardown(struct fixture *f);

/* Creates an RC QP in the given state: 8 entries each way, 2 elements, 64 bytes inline. */
struct ibv_qp *make_qp(struct fixture *f, struct ibv_cq *send, struct ibv_cq *recv,
		       enum ibv_qp_state state);
int to_state(struct ibv_qp *qp, enum ibv_qp_state state);
int post_send(struct ibv_qp *qp, uint64_t wr_id, unsigned int n);
int post_recv(struct ibv_qp *qp, uint64_t wr_id, unsigned int n);
/* Polls until there are n completions or none has come for a second. */
int poll_n(struct ibv_cq *cq, struct ibv_wc *wc, int n);

#endif /* FIXTURE_H */
