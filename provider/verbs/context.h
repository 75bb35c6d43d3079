/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Contexts: open devices. Each is a client of the daemon. */
#ifndef XP_CONTEXT_H
#define XP_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "provider/control/connection.h"
#include "provider/control/shm.h"

enum xp_health {
	XP_HEALTHY,
	XP_GONE,   /* the daemon is gone, and with it its objects */
	XP_FORKED, /* this is a child process; the context belongs to the parent: child.h */
};

#define XP_FORKED_TEXT "the object is of the parent process, from before fork()"

struct xp_context {
	struct ibv_context *ibctx;
	/* What programs know the context by. In a child process: the context of the parent */
	struct ibv_context *shown;
	void *block; /* the allocation that contains this struct and *ibctx */
	struct xp_device *dev;

	/* The connection */
	pthread_mutex_t conn_lock;
	struct xp_conn conn; /* under conn_lock */
	struct xp_shm shm;   /* under conn_lock */
	bool proc_fds_sent;  /* the daemon has /proc/self/mem and /proc/self/maps; atomic */
	int health;	     /* enum xp_health; atomic, never improves */
	uint64_t checked_ns; /* time of the last xp_check_health(); atomic */

	/* From HELLO */
	unsigned int workers;
	int *wake;		       /* eventfds, indexed by worker */
	struct xr_doorbell *doorbells; /* indexed by worker */
	int uffd_device;	       /* /dev/userfaultfd, or -1 */
	int token_fd;		       /* cmd_fd: token_file.h */
	struct xp_event_socket *async;
	bool fatal_delivered; /* IBV_EVENT_DEVICE_FATAL; atomic */

	struct xr_query_device_rep attr;

	/* Direct contexts (direct_path.h); NULL: requests go to the daemon */
	const struct xp_host_ops *host_ops;
	struct xp_host *host;
	struct xp_channel *wakes; /* the channel whose descriptor packets make readable; atomic */

	/* child.c */
	/*
	 * Opens a context. token: NULL, or that of a context whose objects the new one may import
	 */
	struct ibv_context *(*open)(struct ibv_device *ibdev, const uint8_t *token);
	struct xp_context *next;	   /* list of all contexts */
	struct xp_context *child, *parent; /* in a child process: its context, and vice versa */
	ino_t async_inode;		   /* in a child process: inode of the parent's socket */
};

/* A context of this library is recognized by its operations, without a table or lock. */
int xp_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc);
static inline bool xp_is_ours(const struct ibv_context *ibctx)
{
	return ibctx->ops.poll_cq == xp_poll_cq;
}

/* Bytes from struct xp_context to its struct ibv_context, set when the first one is opened */
extern ptrdiff_t xp_context_distance;

static inline struct xp_context *xp_ctx(const struct ibv_context *ibctx)
{
	return (struct xp_context *)((char *)ibctx - xp_context_distance);
}

/*
 * Returns whether an object of verbs, which may be of another library, is of this context.
 * wrap: the function that returns the object of this library
 */
#define xp_is_of(object, wrap, c) ((object)->context == (c)->shown && wrap(object)->ctx == (c))

static inline int xp_health(const struct xp_context *ctx)
{
	return __atomic_load_n(&ctx->health, __ATOMIC_ACQUIRE);
}

/* Returns why verbs fail with EIO in a context that is not healthy. */
static inline const char *xp_health_text(const struct xp_context *ctx)
{
	return xp_health(ctx) == XP_FORKED ? XP_FORKED_TEXT : "the daemon is gone";
}

struct ibv_context *xp_open_device(struct ibv_device *ibdev);

/* ibv_import_device(): fd is a token file. */
struct ibv_context *xp_import_device(int fd);

int xp_close_device(struct ibv_context *ibctx);

#endif /* XP_CONTEXT_H */
