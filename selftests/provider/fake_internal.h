/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Internal structures of the fake daemon.
 *
 *   fake.c         commands of tests, and its process
 *   fake_serve.c   messages and requests of the control protocol
 *   fake_queues.c  CQs, QPs, SRQs, XRC
 *   fake_umad.c    files of umad
 */
#ifndef FAKE_INTERNAL_H
#define FAKE_INTERNAL_H

#include <infiniband/verbs.h>
#include <xroce/control.h>
#include <xroce/ring.h>

#include "fake.h"

#define CHUNK_SIZE (64u << 20)
#define MAX_OBJECTS 4096
#define MAX_CLIENTS 16
#define DEPTH_MAX 4096

enum kind { FREE, PD, MR, MW, CHANNEL, CQ, QP, AH, SRQ, XRCD };

struct object {
	enum kind kind;
	struct client *client;
	/* MR */
	struct xr_mr_segment *segment;
	uint8_t **map;
	unsigned int segments;
	/* CHANNEL */
	int pipe;
	/* CQ */
	struct xr_queue *ring;
	uint32_t depth, producer, channel, cq_flags, comp_written, async_written;
	uint32_t moderate_count, moderate_period;
	uint64_t cookie;
	/* QP; an SRQ uses the rq_ fields */
	struct xr_queue *sq, *rq; /* NULL: none */
	uint32_t sq_depth, rq_depth, sq_stride, rq_stride, sq_done, rq_done;
	uint32_t send_cq, recv_cq, slot, state, limit;
	/* XRC */
	uint32_t domain, number; /* number: of an SRQ */
	bool of_file;
	/* UD: number of multicast groups it is attached to; the last one */
	uint32_t groups;
	struct xr_addr group;
	uint32_t burst;
	struct xr_create_qp_req init;
	struct xr_qp_attr attr;
	/* MR for fast registration */
	uint64_t *lists;
	uint32_t max_pages;
};

struct client {
	int fd, pipe, wake, mem;
	uint8_t *chunk;
	uint64_t used;
	struct xr_doorbell *doorbell;
};

extern struct object objects[MAX_OBJECTS]; /* indexed by handle */
extern struct client clients[MAX_CLIENTS];
extern unsigned int async_total, slow_ms;

struct message {
	struct xr_msg head;
	uint8_t body[XR_MSG_MAX];
	int fds[XR_MSG_MAX_FDS];
	unsigned int nfds;
};

__attribute__((noreturn)) void die(const char *what);

/* fake_serve.c */
/* Returns NULL if the client has no such handle. */
struct object *object(struct client *c, enum kind kind, uint32_t handle);
uint32_t new_object(struct client *c, enum kind kind);
void free_object(struct object *o);
bool receive(int fd, struct message *m);
/* Sends a reply: the body if status is 0. reply_fds() sends a successful one with descriptors. */
void reply(const struct client *c, const struct message *to, int status, const void *body,
	   size_t len);
void reply_fds(const struct client *c, const struct message *to, const void *body, size_t len,
	       const int *fds, unsigned int nfds);
/* Allocates memory that is shared with the client. */
struct xr_shm_ref carve(struct client *c, uint64_t length, void **ptr);
void serve(struct client *c, const struct message *m);

/* fake_queues.c */
void create_cq(struct client *c, const struct message *m);
void resize_cq(struct client *c, const struct message *m);
void modify_cq(struct client *c, const struct message *m);
void check_cq(struct client *c, const struct message *m);
void create_qp(struct client *c, const struct message *m);
void open_qp(struct client *c, const struct message *m);
void modify_qp(struct client *c, const struct message *m);
void query_qp(struct client *c, const struct message *m);
void create_srq(struct client *c, const struct message *m);
void modify_srq(struct client *c, const struct message *m);
void query_srq(struct client *c, const struct message *m);
void open_xrcd(struct client *c, const struct message *m);
void attach_mcast(struct client *c, const struct message *m);
void detach_mcast(struct client *c, const struct message *m);
/* Completes the oldest entry of the receive or send queue. Returns 0 if there is none. */
uint32_t complete_one(struct object *qp, bool recv, uint32_t status, bool solicited);
/* The same with a receive of an SRQ, for an XRC target. */
uint32_t complete_xrc(struct object *target, struct object *srq, uint32_t status);

/* fake_umad.c */
void umad_hello(struct client *c, const struct message *m, struct xr_hello_rep *rep);
void umad_register(struct client *c, const struct message *m);
void umad_unregister(struct client *c, const struct message *m);
void umad_send(struct client *c, const struct message *m);

#endif /* FAKE_INTERNAL_H */
