/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One client. Each part has a state of its own that only its file changes:
 *
 *   identity.c     the process behind the connection, its user and groups
 *   connection.c   the socket, and the request in flight
 *   reply.c        replies
 *   refuse.c       reasons of refused requests
 *   client_jobs.c  jobs, which run one after the other
 *   handles.c      tables from handles to objects
 *   doorbells.c    doorbells
 *   events.c       completion and asynchronous events
 *   shm.c          memory shared with the client, which holds rings and doorbells
 *   load.c         processor time of requests
 *   limits.c       limits of users and of the device
 *   processes.c    charges for its gate and its movers
 *   programs.c     programs, for metrics
 *   monitor.c      events for the readers of `xroce monitor`
 *   walk.c         walks over its objects in pieces
 *   unload.c       objects that are freed in pieces
 *   client.c       start and end of a client
 */
#ifndef XD_CLIENT_H
#define XD_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "client_jobs.h"
#include "clients.h"
#include "connection.h"
#include "device.h"
#include "doorbells.h"
#include "events.h"
#include "handles.h"
#include "identity.h"
#include "limits.h"
#include "refuse.h"
#include "shm.h"
#include "walk.h"

struct xd_cm_channel;
struct xd_client_objects;
struct xd_umad;
struct xd_view;
struct xd_direct_rules;
struct xd_published;

struct xd_client {
	struct xd_clients *clients;
	struct xd_device *dev;
	struct xd_client *next, **pprev;
	uint32_t id;
	bool ending;	  /* only its jobs remain */
	uint64_t created; /* time, ns */
	struct {
		struct xd_client_job job; /* the client's last job */
	} end;

	int ticket; /* to the helper, -1: none */
	struct xd_identity identity;
	struct xd_connection connection;
	struct xd_client_jobs jobs;
	struct xd_handles handles;
	struct xd_place place[XD_WALKS];
	struct xd_doorbells doorbells;
	struct xd_client_events events;
	struct xd_shm shm;
	struct xd_user *user;
	struct xd_program *program; /* see programs.h; NULL: it had no QP yet */
	uint64_t charged;	    /* by xd_client_charge() */
	bool fault_port;	    /* a rule lets the port be down */
	uint64_t fault_gids;	    /* rules that let GIDs be gone */
	uint64_t fault_rules;	    /* that select its QPs; under the lock of faults/faults.h */
	struct xd_client_objects *objects; /* state of the level above */
	struct xd_cm_channel *cm_channel;  /* of rdma_cm; NULL: no channel */
	uint32_t slot;	      /* of UDP sockets that it has borrowed, plus 1; 0: none */
	bool slot_ended;      /* no packets arrive there any more */
	bool slot_ring;	      /* it has the use of them by its io_uring */
	struct xd_view *view; /* of the direct program; NULL: none */
	int inbox;	      /* memfd of a program with a slot (inbox.h); -1: none */
	struct xd_direct_rules *direct_rules; /* for it; NULL: it is not direct */
	struct xd_published *published; /* QPs and keys of the direct program; NULL: none yet */
	struct xd_umad *umad;		/* NULL: no file of umad */
};

/*
 * ticket: of the helper for that connection, -1: none. Takes over both sockets. Returns NULL if the
 * client was refused; the peer has got the reason.
 */
struct xd_client *xd_client_new(struct xd_clients *cs, int fd, int ticket);
/* Closes the descriptors by which the client's process and its memory can be used. */
void xd_client_close_process(struct xd_client *c);
/* Ends a client and frees its objects. The client itself is freed after its last job. */
void xd_client_end(struct xd_client *c);

#endif /* XD_CLIENT_H */
