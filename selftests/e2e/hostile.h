/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A client of the daemon that wants no good: hostile.c has the ways in which it misbehaves,
 * hostile_client.c what it takes to speak to the daemon at all. Nothing in here checks much:
 * what matters is how the daemon fares.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/control.h>
#include <xroce/ring.h>

#define MAX_CHUNKS 64
#define QP_WRS 64
#define QP_SGES 4
#define CQ_ENTRIES 256

/* ---- chance ------------------------------------------------------------------------- */

extern uint64_t chance_state;
uint64_t chance(void);
static inline uint32_t below(uint32_t n)
{
	return n ? (uint32_t)(chance() % n) : 0;
}
static inline bool one_in(uint32_t n)
{
	return !below(n);
}
void scribble(void *to, size_t len);
/* A file descriptor of some kind, -1 where that one cannot be made here */
int any_fd(void);

/* ---- a connection -------------------------------------------------------------------- */

struct chunk {
	uint8_t *base;
	uint64_t size;
	int fd;
};

struct conn {
	int fd;
	uint32_t seq;
	uint32_t workers;
	int eventfd;
	struct xr_doorbell *bell;
	struct chunk chunk[MAX_CHUNKS];
	int got_fd[XR_MSG_MAX_FDS];
	uint32_t got_fds;
};

struct qp {
	uint32_t handle, qpn, slot;
	struct xr_queue *sq, *rq;  /* rq: of its SRQ, if it has one */
	uint32_t sq_size, rq_size; /* bytes, with the queue's header */
	uint32_t sq_stride, rq_stride;
};

/* The daemon's socket, named once */
extern const char *daemon_path;

bool conn_open(struct conn *c);
/* Without a HELLO; -1: nobody there */
int conn_connect(void);
void conn_close(struct conn *c);
/* Any datagram; fds are closed. false: the daemon has hung up. */
bool conn_send(struct conn *c, const void *data, size_t len, int *fds, uint32_t nfds);
/* The status of the reply, 1: none came. */
int conn_reply(struct conn *c, void *rep, size_t room);
int conn_call(struct conn *c, uint32_t type, const void *req, size_t len, int *fds, uint32_t nfds,
	      void *rep, size_t room);

uint32_t make_pd(struct conn *c);
uint32_t make_cq(struct conn *c, uint32_t depth, struct xr_queue **ring);
struct srq {
	uint32_t handle; /* 0: none */
	struct xr_queue *ring;
	uint32_t size, stride;
};
bool make_srq(struct conn *c, uint32_t pd, struct srq *srq);
/* srq: NULL, or what it takes its receives from */
bool make_qp(struct conn *c, uint32_t pd, uint32_t cq, const struct srq *srq, struct qp *qp);
/* The key of memory of this process, 0: none. shared: a whole mapping, of a file's beginning */
uint32_t make_mr(struct conn *c, uint32_t pd, void *addr, uint64_t length, bool shared);
/* To a QP of the device itself (self) or of nobody behind that GID: RTS */
bool connect_qp(struct conn *c, const struct qp *qp, const struct xr_addr *gid, uint32_t gid_index,
		uint32_t dest_qpn);
bool first_gid(struct conn *c, struct xr_addr *gid, uint32_t *index);
void ring_doorbell(struct conn *c, const struct qp *qp);

#endif /* HOSTILE_H */
