/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tests of rdma_verify and their helpers. Both programs run the same tests at the same time. The
 * active side (v->host is set) posts requests, the passive side (v->host is NULL) is their target.
 * A test, like most helpers, returns true on success; otherwise the first fail() has stored the
 * message.
 */
#ifndef RDMA_VERIFY_H
#define RDMA_VERIFY_H

#include "verbs_util.h"

#define BUF_SIZE (8u << 20) /* unless -b says otherwise */
#define MIN_SIZE (1u << 20)
#define GUARD 4096u /* bytes before and after a target that must not change */
#define DEPTH 64u
#define MAX_SGE 16
#define MAX_INLINE 128u
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct peer { /* exchanged before each test */
	uint32_t qpn, psn, rkey, reserved;
	uint64_t addr, length;
	union ibv_gid gid;
};

struct verify {
	const char *host, *dev_name, *hook;
	int gid_index, mtu, port, rounds, sock;
	uint8_t timeout, retry_cnt, rnr_retry; /* of the next QP */
	bool no_events;
	uint32_t size; /* of the region */
	uint64_t rng;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct peer me, peer;
	uint8_t *buf;	   /* the registered memory */
	uint8_t *want;	   /* its expected content */
	const char *error; /* message of the first failure, or NULL */
	char text[256];
};

struct test {
	const char *name;
	bool (*run)(struct verify *v);
	const char *text;
};

/* Each list ends with an entry without a name. */
extern const struct test verify_data[], verify_connections[], verify_refusals[];

/* Stores the message unless there is one already. Always returns false. */
__attribute__((format(printf, 2, 3))) bool fail(struct verify *v, const char *fmt, ...);

/* Returns the next random number, the same on both sides. */
uint64_t rnd(struct verify *v);
/* Returns how long to wait for an event or completion, in seconds. */
int wait_seconds(void);

/* The buffer must have the expected content. */
bool same(struct verify *v, const char *what);

/* Exchanges @len bytes with the other side. */
bool xfer(struct verify *v, void *out, const void *in, size_t len);

/* Waits until the other side calls it as well. */
bool barrier(struct verify *v);

/* Creates a QP and a region, with this access, on each side and connects them. */
bool connect_qp(struct verify *v, int access);
/* Connects the existing QPs, which are in RESET. */
bool bring_up(struct verify *v);
void disconnect_qp(struct verify *v);

bool post(struct verify *v, struct ibv_send_wr *wr);
bool post_recv(struct verify *v, struct ibv_sge *sge, int n, uint64_t id);
/* Waits for the next completion. */
bool next_wc(struct verify *v, struct ibv_wc *wc);
/* Waits for the next completion, which must be a success of this opcode. */
bool good_wc(struct verify *v, struct ibv_wc *wc, enum ibv_wc_opcode opcode);

/*
 * Runs v->rounds transfers of one operation. @len: their length, or UINT32_MAX for random lengths.
 * Both sides call it.
 */
bool run_transfers(struct verify *v, enum ibv_wr_opcode opcode, uint32_t len);

/* Fills the buffer with its initial pattern, which differs between the sides. */
void fill_buffer(struct verify *v);

#endif /* RDMA_VERIFY_H */
