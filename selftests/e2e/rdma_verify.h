/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rdma_verify's tests and what they share. Both sides run each test in step; v->host says which side this
 * is: it is the active one's. A test returns true where all went well; else the first wrong() says why.
 */
#ifndef RDMA_VERIFY_H
#define RDMA_VERIFY_H

#include "rdma_steps.h"

#define BUF_SIZE (8u << 20) /* unless -b says otherwise */
#define MIN_SIZE (1u << 20)
#define GUARD 4096u /* bytes before and after a target that must stay as they are */
#define DEPTH 64u
#define MAX_SGE 16
#define MAX_INLINE 128u
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct peer { /* what the two sides tell each other before a test */
	uint32_t qpn, psn, rkey, reserved;
	uint64_t addr, length;
	union ibv_gid gid;
};

struct verify {
	const char *host, *dev_name, *hook;
	int gid_index, mtu, port, rounds, sock;
	uint8_t timeout, retry_cnt, rnr_retry; /* of the next connection */
	bool no_events;
	uint32_t size; /* of the region */
	uint64_t rng;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct peer me, peer;
	uint8_t *buf;	 /* what work requests name */
	uint8_t *want;	 /* what it must hold */
	const char *why; /* first thing that was wrong */
	char text[256];
};

struct test {
	const char *name;
	bool (*run)(struct verify *v);
	const char *text;
};

/* Each ends with a test without a name */
extern const struct test verify_data[], verify_connections[], verify_refusals[];

/* Always false */
__attribute__((format(printf, 2, 3))) bool wrong(struct verify *v, const char *fmt, ...);

uint64_t rnd(struct verify *v);
int wait_seconds(void); /* for whatever must come */

/* Our buffer is as it should be */
bool same(struct verify *v, const char *what);

/* To the other side, and from it: what both give at the same time */
bool xfer(struct verify *v, void *out, const void *in, size_t len);

/* Both sides come here before either goes on. */
bool barrier(struct verify *v);

/* A fresh QP and region on each side; access: of the region. The same QP again, from RESET. */
bool connect_qp(struct verify *v, int access);
bool bring_up(struct verify *v);
void disconnect_qp(struct verify *v);

bool post(struct verify *v, struct ibv_send_wr *wr);
bool post_recv(struct verify *v, struct ibv_sge *sge, int n, uint64_t id);
bool next_wc(struct verify *v, struct ibv_wc *wc);
bool good_wc(struct verify *v, struct ibv_wc *wc, enum ibv_wc_opcode opcode);

/* One operation after the other, as many as v->rounds, by both sides. len: UINT32_MAX for many lengths */
bool run_transfers(struct verify *v, enum ibv_wr_opcode opcode, uint32_t len);

/* The buffer from which each side starts */
void fill_buffer(struct verify *v);

#endif /* RDMA_VERIFY_H */
