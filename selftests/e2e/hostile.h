/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A hostile client of the daemon: hostile.c has the kinds of misbehaviour, hostile_client.c the
 * control protocol. Errors are mostly ignored: only the daemon's behaviour matters.
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

/* ---- random numbers ----------------------------------------------------------------- */

extern uint64_t rnd_state;
uint64_t rnd(void);
static inline uint32_t below(uint32_t n)
{
	return n ? (uint32_t)(rnd() % n) : 0;
}
static inline bool one_in(uint32_t n)
{
	return !below(n);
}
void randomize(void *to, size_t len);
/* Returns a new file descriptor of a random kind, or -1. */
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
	struct xr_doorbell *doorbell;
	struct chunk chunk[MAX_CHUNKS];
	int got_fd[XR_MSG_MAX_FDS];
	uint32_t got_fds;
};

struct qp {
	uint32_t handle, qpn, slot;
	struct xr_queue *sq, *rq;  /* rq is that of the SRQ if there is one */
	uint32_t sq_size, rq_size; /* bytes, including struct xr_queue */
	uint32_t sq_stride, rq_stride;
};

/* Path of the daemon's socket */
extern const char *daemon_path;

/* Connects and exchanges HELLO. */
bool conn_open(struct conn *c);
/* Connects without a HELLO. Returns the socket, or -1. */
int conn_connect(void);
void conn_close(struct conn *c);
/* Sends any datagram and closes the fds. Returns false if the daemon has closed the connection. */
bool conn_send(struct conn *c, const void *data, size_t len, int *fds, uint32_t nfds);
/* Returns the status of the reply, or 1 if there is none. */
int conn_reply(struct conn *c, void *rep, size_t room);
/* Sends a request. Returns like conn_reply(). */
int conn_call(struct conn *c, uint32_t type, const void *req, size_t len, int *fds, uint32_t nfds,
	      void *rep, size_t room);

uint32_t make_pd(struct conn *c);
uint32_t make_cq(struct conn *c, uint32_t depth, struct xr_queue **ring);
struct srq {
	uint32_t handle;
	struct xr_queue *ring;
	uint32_t size, stride;
};
bool make_srq(struct conn *c, uint32_t pd, struct srq *srq);
/* @srq: NULL, or the SRQ of the QP */
bool make_qp(struct conn *c, uint32_t pd, uint32_t cq, const struct srq *srq, struct qp *qp);
/* shared: the memory is a whole mapping, from the start of a file */
struct new_mr {
	uint32_t pd;
	void *addr;
	uint64_t length;
	bool shared;
};
/* Registers memory; fds: of the files mem and maps. Returns like conn_reply(). */
int send_mr(struct conn *c, const struct new_mr *mr, int fds[2], uint32_t *key);
/* Registers memory of this process. Returns its key, or 0. @shared: see struct new_mr */
uint32_t make_mr(struct conn *c, uint32_t pd, void *addr, uint64_t length, bool shared);
/* Moves the QP to RTS. The peer may be another QP of this device, or may not exist. */
bool connect_qp(struct conn *c, const struct qp *qp, const struct xr_addr *gid, uint32_t gid_index,
		uint32_t dest_qpn);
bool first_gid(struct conn *c, struct xr_addr *gid, uint32_t *index);
void ring_doorbell(struct conn *c, const struct qp *qp);

#endif /* HOSTILE_H */
