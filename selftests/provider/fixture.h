/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the provider's tests share: a fake daemon, an open device, objects made with one call. */
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

/* A daemon and our device, open; ends the program where that fails. */
void setup(struct fixture *f);
/* Only the device, where the daemon was started anew */
struct ibv_context *open_fake(void);
void teardown(struct fixture *f);

/* An RC QP in the given state on these CQs, 8 entries each way, 2 elements, 64 bytes inline */
struct ibv_qp *make_qp(struct fixture *f, struct ibv_cq *send, struct ibv_cq *recv,
		       enum ibv_qp_state state);
int to_state(struct ibv_qp *qp, enum ibv_qp_state state);
int post_send(struct ibv_qp *qp, uint64_t wr_id, unsigned int n);
int post_recv(struct ibv_qp *qp, uint64_t wr_id, unsigned int n);
/* Polls until n came or nothing comes for a second. */
int poll_n(struct ibv_cq *cq, struct ibv_wc *wc, int n);

#endif /* FIXTURE_H */
