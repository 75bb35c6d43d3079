/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The direct host: it runs the transport engine in the program, for the objects of one context, on
 * sockets that the daemon lends (XR_MSG_LEND). libxroce-direct.so contains it with all that it
 * needs; libxroce.so loads that library when a context is to be direct, so programs that use none
 * get no further library.
 *
 * A context passes its requests (control.h) to call(), which replies to those about objects as the
 * daemon would. Rings are memory of the program. Any thread that posts or polls runs a round of the
 * engine, if no other thread runs one now; a progress thread does what is left.
 */
#ifndef XP_HOST_H
#define XP_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/control.h>

#include "provider/control/connection.h"

struct xp_host;
struct xp_channel_object;
struct xp_ring;

/* What the daemon has lent. xp_host_ops.open() takes the descriptors, also if it fails. */
struct xp_lent {
	struct xr_lend_rep rep;
	struct xp_ring *ring; /* the sockets are in it; NULL: they are rx and tx[] */
	int rx; /* receives; with a ring, becomes readable if the socket that receives is */
	int tx[XR_LEND_PORTS]; /* with a ring: -1 */
	int events;	       /* the daemon's end of the socket of asynchronous events */
	int view;	       /* of view(); -1: the daemon has none */
	int inbox;	       /* of inbox(); -1: no other context has it */
	int rules;	       /* struct xr_direct_page; -1: none */
};

/* What the host uses of the context */
struct xp_host_env {
	struct xp_lent lent;
	const struct xr_query_device_rep *attr;
	unsigned int vectors; /* completion vectors */
	int control;	      /* the connection to the daemon, to see that it hangs up */
	/* Sends a request to the daemon; for use in call() and open() only. */
	int (*request)(void *arg, uint32_t type, const void *req, size_t req_len, void *rep,
		       size_t rep_len);
	/* Sends one without waiting for the reply, which nobody needs. */
	int (*tell)(void *arg, uint32_t type, const void *req, size_t req_len);
	/* The same as request() for one whose reply has a descriptor, which *fd becomes */
	int (*request_fd)(void *arg, uint32_t type, const void *req, size_t req_len, void *rep,
			  size_t rep_len, int *fd);
	void *arg;
	char *why; /* XR_WHY_MAX bytes: explanation of an error of call() and open() */
	void (*debug)(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
};

struct xp_host_ops {
	const char *version; /* XR_VERSION: both libraries are of one build */
	/* Returns a descriptor for LEND, by which the daemon sees the context, or -errno. */
	int (*view)(void);
	/* Makes a ring, to be used with XR_LEND_RING. Returns its descriptor, or -errno. */
	int (*ring)(struct xp_ring **ring);
	void (*free_ring)(struct xp_ring *ring); /* that open() did not get; NULL allowed */
	/* The same, by which other contexts of the host send to this one */
	int (*inbox)(void);
	int (*open)(const struct xp_host_env *env, struct xp_host **host);
	/* forked: this is a child process, which has a copy of the host without its thread */
	void (*close)(struct xp_host *h, bool forked);
	/* To be called once in a child process: it gives up its copies of the parent's sockets. */
	void (*in_child)(struct xp_host *h);
	/* Doorbells for the QPs of the context, see ring.h. `sleeping` is always 0. */
	struct xr_doorbell *(*doorbell)(struct xp_host *h);
	/* Returns true if call() replies to requests of the type. */
	bool (*serves)(uint32_t type);
	/* As xp_conn_call(). A struct xr_shm_ref in the reply has the address as its offset. */
	int (*call)(struct xp_host *h, struct xp_call *call);
	/* A doorbell was rung: sends, unless another thread will. Any thread, also in a signal. */
	void (*kick)(struct xp_host *h);
	/*
	 * A CQ is empty: receives. Returns false if it did not, since another thread has the
	 * engine, or waits for it to make a request, since the program has events to take first, or
	 * since a packet wakes it; else there may be completions now. As kick().
	 */
	bool (*poll)(struct xp_host *h);
	/*
	 * The same for a channel that has no event. If there is one after it, the caller takes it.
	 * watches: threads wait until packets() is readable, for a channel of the context, and have
	 * a little time for the round of another thread; true if there was a whole one. woken: they
	 * do so for this channel
	 */
	bool (*poll_channel)(struct xp_host *h, struct xp_channel_object *ch, bool watches,
			     bool woken);
	/*
	 * Returns the number of times that any thread has received packets. It grows after they
	 * have left packets(), and before the events that they cause.
	 */
	uint64_t (*received)(const struct xp_host *h);
	/*
	 * A CQ has no more events: the program destroys it, but the daemon has ended, so it stays.
	 * As call()
	 */
	void (*forget_cq)(struct xp_host *h, uint32_t handle);
	/* Returns a completion channel that call() has created. As call() */
	struct xp_channel_object *(*channel)(struct xp_host *h, uint32_t handle);
	/*
	 * Takes an event of a channel, and calls taken() before the CQ of the event can be
	 * destroyed. cookie: of the CQ. Returns 0, -EAGAIN if there is none, or -ENODATA if there
	 * will be none, as the daemon has ended.
	 */
	int (*take_event)(struct xp_host *h, struct xp_channel_object *ch,
			  void (*taken)(uint64_t cookie), uint64_t *cookie);
	/*
	 * The same, but runs rounds until there is one. A cancellation point. Returns 0, -ENODATA,
	 * or -EINTR.
	 */
	int (*wait_event)(struct xp_host *h, struct xp_channel_object *ch,
			  void (*taken)(uint64_t cookie), uint64_t *cookie);
	/* Returns the socket of packets, which becomes readable when a round would receive. */
	int (*packets)(const struct xp_host *h);
	/*
	 * Returns true if threads take events, but nobody has looked at the channel for which
	 * packets() is waited for: packets do not wake them.
	 */
	bool (*sleeps)(const struct xp_host *h);
	/* This thread looks at that channel. */
	void (*woken)(struct xp_host *h);
	/*
	 * To be called by handlers of SIGSEGV and SIGBUS, which must not block them. Does not
	 * return if the engine made the access.
	 */
	void (*fault)(const void *addr);
};

#define XP_HOST_LIBRARY "libxroce-direct.so"
#define XP_HOST_SYMBOL "xp_host_ops"
extern const struct xp_host_ops xp_host_ops;

#endif /* XP_HOST_H */
