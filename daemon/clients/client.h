/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients: connections, requests and replies. The server's parts know each other by this header:
 *
 *   server.c        socket, who may connect, broadcasts
 *   client.c        one connection: who it is, its jobs, its end
 *   request.c       datagrams to requests, and replies
 *   query.c         HELLO, device, port, addresses
 *   show.c          what operators see: everything as JSON, for the xroce command
 *   handles.c       handles to objects
 *   shm.c           chunks of memory shared with the client, of which rings are pieces
 *   client_bells.c  its doorbells
 *   events.c        completion and asynchronous events
 *   jobs.c          what takes long, in threads beside the control thread
 *
 * Objects are in daemon/objects, the bytes of memory regions in daemon/memory.
 *
 * A request comes with the descriptors that the client sent. They may be anything, so the control
 * thread does not touch them, not even to close them: a job does (jobs.h).
 */
#ifndef XD_CLIENT_H
#define XD_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <xroce/control.h>

#include "daemon/datapath/worker.h"
#include "device.h"
#include "events.h"
#include "handles.h"
#include "daemon/base/fd_quota.h"
#include "daemon/base/groups.h"
#include "daemon/base/jobs.h"
#include "shm.h"

/* ---- requests and replies -------------------------------------------------------- */

struct xd_request {
	uint32_t type;
	uint32_t seq;
	void *body;	 /* 8-byte aligned; fields of its type that the client did not send are 0 */
	uint32_t length; /* as received */
	int *fds;	 /* a handler that takes one leaves -1 */
	uint32_t nfds;
};

#define XD_REPLY_MAX                                                                               \
	(sizeof(struct xr_query_gids_rep) + XR_GID_TABLE_LEN * sizeof(struct xr_gid_entry))

struct xd_reply {
	uint8_t body[XD_REPLY_MAX] __attribute__((aligned(8)));
	uint32_t length;
	int fd[XR_MSG_MAX_FDS];
	bool keep[XR_MSG_MAX_FDS]; /* stays open here after it was sent */
	uint32_t nfds;
};

/* The body, all zero */
#define XD_REPLY(rep, type) ((struct type *)xd_reply_body(rep, sizeof(struct type)))
void *xd_reply_body(struct xd_reply *rep, uint32_t length);
void xd_reply_fd(struct xd_reply *rep, int fd, bool keep);

/* 0, -errno, or XD_LATER: xd_reply_send() follows. */
#define XD_LATER 1
typedef int (*xd_handler)(struct xd_client *c, struct xd_request *req, struct xd_reply *rep);
#define X(NAME, name, body, flags)                                                                 \
	int xd_do_##name(struct xd_client *c, struct xd_request *req, struct xd_reply *rep);
XR_MESSAGES(X)
#undef X

/* ---- the server ------------------------------------------------------------------ */

/* What all processes of a user have together */
struct xd_user {
	uid_t uid;
	uint32_t clients;
	uint64_t bytes; /* registered and shared */
	struct xd_user *next;
};

struct xd_group;

struct xd_server {
	struct xd_device *dev;
	int listen_fd;
	int spare_fd; /* given up for a moment when there are no others */
	struct xd_watch *watch;
	const char *bound; /* the socket's path; NULL: not yet */
	gid_t group;	   /* may connect; XD_NO_GROUP: none */
	gid_t lkey_group;  /* may use the reserved L_Key; likewise */
	int uffd_dev;	   /* /dev/userfaultfd, -1: none */
	struct xd_client *clients;
	uint32_t client_count, next_client;
	uint32_t next_worker; /* of the next QP */
	uint32_t objects[XD_KINDS];
	struct xd_group *groups; /* multicast, that QPs are attached to */
	uint32_t group_count;
	struct xd_table pd_ids;		 /* numbers of PDs: places here */
	struct xd_table xrc_domains;	 /* those of XRC, likewise */
	struct xd_xrc_domain *xrc_files; /* those that have a file */
	struct xd_user *users;
	struct xd_jobs *jobs;
	struct xd_blocked blocked;
	struct xd_fd_quota fds; /* descriptors that objects hold */
	struct xr_fault_config fault;
};

/*
 * xd_server_start() without the socket: what tests and fuzzers need. xd_server_stop() also after
 * an error.
 */
int xd_server_open(struct xd_device *dev, struct xd_server **server);

/* Bytes against the user's quota: -EDQUOT. */
int xd_user_charge(struct xd_client *c, uint64_t bytes);
void xd_user_uncharge(struct xd_client *c, uint64_t bytes);

/* ---- one client ------------------------------------------------------------------ */

/* Jobs of one client run one after the other. done() is also called for a client that is ending. */
struct xd_client_job {
	struct xd_job job;
	struct xd_client *client;
	void (*run)(struct xd_client_job *job);
	void (*done)(struct xd_client_job *job); /* frees it */
	struct xd_client_job *next;
};

struct xd_mem;
struct xd_proc;

struct xd_client {
	struct xd_server *server;
	struct xd_device *dev;
	struct xd_client *next, **pprev;
	uint32_t id;
	int fd;
	int pidfd; /* -1: the kernel has none for us */
	struct xd_watch *watch, *pid_watch;
	pid_t pid;
	uid_t uid;
	gid_t gid;
	struct xd_groups groups;
	char comm[16];
	bool hello, observer, operator;
	uint8_t token[XR_TOKEN_LEN]; /* who shows it may import what is ours; zeros: an observer */
	uint32_t exporter;	     /* id of the client whose token this one showed, 0: none */
	bool ending;		     /* waits for its jobs only */

	uint32_t closing; /* jobs that close descriptors of its: none are taken meanwhile */

	/* the request under way */
	bool busy;
	uint32_t type, seq;
	void (*cancel)(struct xd_client *c); /* what waits for something other than a job */
	void *waiting;			     /* its state */

	struct xd_table table[XD_KINDS];
	uint32_t attached;  /* of its QPs to multicast groups */
	struct xt_ahs *ahs; /* its address handles, as engines see them; NULL: none yet */
	struct xd_user *user;
	struct xd_shm shm;
	uint64_t dm_bytes; /* of device memory, whole pages */
	struct xd_piece doorbells;
	struct xd_doorbell bell[XD_MAX_WORKERS];
	uint32_t bells;
	struct xd_pipe events;
	struct xd_source port_events;
	struct xd_proc *proc;	/* its memory (memory/tiers.h), NULL: not sent yet */
	struct xd_mem *own_mem; /* all of it, NULL: no reserved L_Key */
	struct xt_mem *own;	/* the same as engines see it */

	struct xd_mem *orphan; /* a region that was being made when the client went */
	int orphan_fd;	       /* of a domain that was being opened when the client went */

	struct xd_client_job *job, **job_tail; /* the first one runs */
	struct xd_client_job last;
	struct {
		enum xd_kind kind; /* how far its objects are freed */
		uint32_t handle;
		bool large; /* more of them than are freed in one go */
	} end;
};

/* From accept() or socketpair(). The socket is the client's from now on, also on error. */
struct xd_client *xd_client_new(struct xd_server *s, int fd);
/* Releases everything; what a job still holds goes when it is done. */
void xd_client_end(struct xd_client *c);

/* Its next request may come, or must wait. */
int xd_client_watch(struct xd_client *c);
/* Its socket is readable, and no request is under way. */
void xd_client_receive(struct xd_client *c);

/*
 * One datagram, as received; also an entry for tests and fuzzers. The descriptors are taken over. The
 * client may be ended by this.
 */
void xd_client_feed(struct xd_client *c, const void *data, size_t len, const int *fds,
		    uint32_t nfds);

/* The answer to a request whose handler said XD_LATER. rep: NULL where there is none. */
void xd_reply_send(struct xd_client *c, int err, struct xd_reply *rep);
/* An empty reply to be filled for it */
struct xd_reply *xd_reply_get(struct xd_client *c);

void xd_client_add_job(struct xd_client *c, struct xd_client_job *job);
/* The same at once, in this thread: for what takes no time and touches no descriptor of a client. */
void xd_client_do_job(struct xd_client *c, struct xd_client_job *job);
/* Closes descriptors of a client in a job. Until then nothing more is taken from it. */
void xd_client_close_fds(struct xd_client *c, const int *fds, uint32_t n);

/* ---- import (import.c) ----------------------------------------------------------- */

/* A token of its own; and with XR_HELLO_IMPORT whose objects it may import. -ENOENT. */
int xd_import_hello(struct xd_client *c, const struct xd_request *req);

/* ---- doorbells (client_bells.c) -------------------------------------------------- */

/* One struct xr_doorbell for each worker, and the eventfds that wake them */
int xd_doorbells_open(struct xd_client *c);
void xd_doorbells_close(struct xd_client *c);
/* A free slot at one worker: bell->qp[*slot] is NULL. -ENOSPC, -ENOMEM. */
int xd_doorbell_reserve(struct xd_device *dev, struct xd_doorbell *bell, uint32_t *slot);

/* ---- the port (query.c) ---------------------------------------------------------- */

uint32_t xd_port_mtu(const struct xd_device *dev); /* path MTU that it can carry, bytes */

#endif /* XD_CLIENT_H */
