/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The direct host, for the files of this folder. */
#ifndef XP_HOST_INTERNAL_H
#define XP_HOST_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/io/io.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/transport.h"
#include "captures.h"
#include "cover.h"
#include "faults.h"
#include "host.h"
#include "inbox.h"
#include "objects.h"
#include "page.h"
#include "reader.h"
#include "view.h"

/* QPs of one context. A slot has 2^17 QPNs, so each place has 8 of them in turn. */
#define XP_HOST_QPS 16384

/*
 * A program that waits for a message in its memory answers it within this time. If it usually does,
 * the ACK waits for the answer: it leaves with it, and completes the request of the peer when the
 * answer is there as well. So both ends of a ping-pong receive in their own threads, which poll for
 * completions, and no other thread has to wake up. An interrupt and two switches of threads take
 * 60 us and more in virtual machines; an ACK that leaves alone then makes the peer poll no more.
 */
#define XP_ANSWER_NS 200000u
#define XP_ANSWERS_MAX 4

/* A thread of the program that receives again within this time leaves nothing to others. */
#define XP_COVER_NS 20000u
/* The same for one that a packet wakes */
#define XP_WATCH_NS 500000u

/* What the progress thread does now */
enum xp_progress {
	XP_WATCHES, /* it receives, as no thread of the program polls */
	XP_TICKS,   /* threads of the program poll, and it only looks now and then */
};

/* What the daemon permits (XR_MSG_CLAIM), by kind */
struct xp_claims {
	uint32_t n[XR_CLAIMS];
	uint32_t spare[XR_CLAIMS]; /* that are kept beyond those in use */
};

struct xp_host {
	struct xp_host_env env;
	struct xd_socket *socket;
	struct xp_ring *ring; /* of the socket, which owns it; NULL: it has descriptors */
	bool closes;	      /* no more requests to the daemon */
	struct xd_tables *tables;
	struct xt_shared shared;
	struct xt_ahs *ahs;
	struct xt_mem reserved_lkey; /* all memory of the program */
	struct xt_mem_seg reserved_lkey_seg[2];
	struct xt_mem *reserved_lkey_mem; /* NULL: the reserved L_Key is refused */
	struct xp_objects objects;	  /* of requests, which the context serializes */
	struct xp_claims claims;	  /* the same */
	struct xp_publish *publish;	  /* likewise; NULL: the kernel does not check packets */
	struct xr_doorbell *doorbell;
	struct xt_qp *qp_of_slot[XP_HOST_QPS];
	uint32_t next_slot; /* where the search for a free one begins */
	uint32_t next_pd, next_xrcd;
	uint64_t dm_bytes;	 /* of device memory */
	uint32_t max_mtu;	 /* of the port, bytes, as it was when the daemon was asked last */
	struct xp_group *groups; /* to which QPs are attached */
	uint32_t n_groups, attached;
	uint32_t ifindex; /* of the device's interface */

	/* The engine and all below belong to the thread that has the lock. */
	pthread_mutex_t lock;
	struct xt_engine *engine;
	struct xt_flow flow; /* of all QPs */
	uint64_t now;
	struct xp_channel_object *channels;
	struct xp_channel_object *takes; /* the thread takes an event of it next; NULL: of none */
	struct xp_view view;
	struct xp_page page;
	struct xp_faults faults;
	struct xp_captures captures;
	struct xp_nearby nearby;	 /* contexts of the same host */
	struct xp_event_source *blocked; /* events for which their socket had no room */
	bool refused;			 /* packets were received, none of them for the engine */
	struct xp_host *next_host;	 /* of those that are open */
	int process;			 /* that has opened it */
	bool held;			 /* packets wait for those that the program sends next */
	uint32_t answers;      /* messages that the program answered of late, 0..XP_ANSWERS_MAX */
	uint64_t held_at;      /* since when */
	uint64_t received_at;  /* time when packets were received last; 0: answered */
	uint64_t answer_ns;    /* after which the program has answered of late, on average */
	uint64_t moved_before; /* bytes that were sent and received by the last poll with posts */
	struct xt_frame frames[XD_BATCH];

	/* Any thread, atomic */
	uint64_t rounds;   /* that received, in halves: odd while one is under way */
	uint32_t wanted;   /* threads that wait for the lock to make a request */
	uint64_t entered;  /* when the thread that has the engine began; 0: none has it */
	uint64_t next;	   /* when a round is due */
	bool expects;	   /* the engine has a timer: an ACK is to come */
	uint64_t received; /* times that packets were received */
	uint64_t polled;   /* time of the last round in which a thread of the program received */
	uint32_t posts; /* calls that posted since the last poll; inexact if several threads post */
	uint32_t at_once; /* of these, the first ones that send */
	uint32_t group;	  /* then each that is a multiple of it; 0: all */
	struct xp_reader reader;
	bool sleeps;	  /* xp_reader_sleeps(), when packets came */
	uint64_t active;  /* time of the last round of a thread of the program */
	uint64_t watched; /* when a thread of the program was last about to wait for a packet */
	struct xp_cover cover;
	int progress;	   /* enum xp_progress */
	uint64_t wakes_at; /* when the progress thread wakes by itself */
	int wake_fd;
	bool stop;
	bool ended; /* the daemon has: no more rounds, so that the provider flushes all work */
	pthread_t thread;
};

/* ---- rounds.c ---- */

void xp_host_kick(struct xp_host *h);
void xp_host_woken(struct xp_host *h);
bool xp_host_poll(struct xp_host *h);
bool xp_host_poll_channel(struct xp_host *h, struct xp_channel_object *ch, bool watches,
			  bool woken);
int xp_host_wait_event(struct xp_host *h, struct xp_channel_object *ch,
		       void (*taken)(uint64_t cookie), uint64_t *cookie);
int xp_host_take_event(struct xp_host *h, struct xp_channel_object *ch,
		       void (*taken)(uint64_t cookie), uint64_t *cookie);
/*
 * The engine for a request: waits for the lock. Leaving runs what became due; leaving quietly does
 * not, as nothing did.
 */
void xp_host_enter(struct xp_host *h);
void xp_host_leave(struct xp_host *h);
void xp_host_leave_quietly(struct xp_host *h);
/* Runs a round that receives and sends all. Entered. */
void xp_host_round(struct xp_host *h);
/*
 * A round of the progress thread. Returns the packets received, -1 if another thread has the
 * engine. spins: it comes again at once; otherwise it may sleep until the socket is readable.
 * *held: ACKs wait for an answer of the program, XP_ANSWER_NS at most.
 */
int xp_host_progress_round(struct xp_host *h, bool spins, bool *held);
/* Returns true if posts wait for the next poll of the program. */
bool xp_host_has_posts(const struct xp_host *h);
/*
 * Sends what waits for the next poll of the program, if no other thread has the engine, and ACKs
 * that wait too long for an answer. Returns true if ACKs go on waiting. late: the program has left
 * it for some time
 */
bool xp_host_send_left(struct xp_host *h, bool late);
/* Sends all that waits for a later call of the program. Entered */
void xp_host_send_waiting(struct xp_host *h);

/* ---- program_exit.c ---- */

/* The host is open: if the program exits, ACKs that wait are sent, and the counters are stored. */
void xp_exit_add(struct xp_host *h);
void xp_exit_remove(struct xp_host *h);

/* ---- progress.c ---- */

int xp_progress_start(struct xp_host *h);
void xp_progress_stop(struct xp_host *h);

/* ---- wake.c ---- */

void xp_progress_wake(struct xp_host *h);
/*
 * Called after a round of another thread: wakes the progress thread if it would be late. left:
 * there is work for it
 */
void xp_progress_due(struct xp_host *h, bool left);

/* ---- engine_ops.c ---- */

extern const struct xt_ops xp_engine_ops;

/* ---- daemon_end.c ---- */

/*
 * The daemon has ended: programs read the end of all events, once they have read what was raised
 * before. That is IBV_EVENT_DEVICE_FATAL. The objects are gone, as those of a device that was
 * removed. Its sockets
 * are given back, as another daemon cannot have the port before.
 */
void xp_daemon_ended(struct xp_host *h);
/* Puts others in the place of the descriptors, which keep their numbers. */
void xp_give_back_sockets(struct xp_host *h);

/* ---- local.c ---- */

/* Memory of the program, accessed where it is */
extern const struct xt_mem_ops xp_local_ops, xp_null_ops;

/* ---- clock.c ---- */

/* CLOCK_MONOTONIC, ns */
uint64_t xp_host_clock(void);

#endif /* XP_HOST_INTERNAL_H */
