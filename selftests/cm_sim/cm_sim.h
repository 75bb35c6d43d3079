/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Deterministic simulation of hosts that connect through the CM engine (daemon/cm).
 *
 *   plan.c      derives hosts, services, programs and faults from a seed
 *   host.c      an engine with its callbacks; crash and restart of a host
 *   program.c   the user of the engine: connects, accepts, rejects, disconnects, destroys
 *   net.c       the network: faults; checks of every MAD that is sent
 *   verify.c    checks of events, messages and states
 *   memory.c    counts blocks of memory
 *   wire.h      fields of MADs, independent of the engine's encoder
 *   main.c      seeds, phases of a run, and the loop over virtual time
 *
 * An *end* is what a program has of a connection or SIDR exchange at its host: one id of the
 * engine. A *conn* is one REQ or SIDR_REQ and all ends that result from it.
 *
 * Invariants. Faults are those of the world: lost, delayed, duplicated and reordered MADs, MADs of
 * other sources, floods of REQs, hosts that crash and return with the same GUID.
 *
 *  1. Order: an end gets only events that its state permits (verify_event()), exactly one that ends
 *     it, TIMEWAIT_EXIT at most once and last, and no event after xc_destroy().
 *  2. State: after each call and event the engine's state agrees with the program's, and a call
 *     succeeds exactly in the states that permit it (call_permitted()).
 *  3. Contents: every number and every byte of private data in an event is what the program at the
 *     other end passed, for this connection and this message. Messages that the engine makes by
 *     itself have no private data.
 *  4. Agreement: when faults have ended and all timers had time to expire, no end waits for its
 *     peer, and both ends are connected or neither is, and with the same parameters. The only
 *     exception is a connection whose end was reported to the peer in vain, because every MAD that
 *     reported it was lost, or because its host crashed.
 *  5. No half-open connection stays: in the same world, disconnecting or destroying an end of such
 *     an exception ends it, and so does a new connection after a crash. After a crash, every host
 *     can connect to every other one within RECONNECT_TRIES attempts.
 *  6. Wire: messages that are repeated do not change; at most max_cm_retries + 1 are sent, not
 *     faster than the response timeout permits; a timeout is reported after that number, not
 *     earlier. A response has the transaction ID of its request.
 *  7. Limits: ids, half-open ids, and half-open ids of each source never exceed the configuration,
 *     and the gauges are right. When a flood has ended, the host accepts connections again.
 *  8. Nothing is left: when all programs have destroyed their ids, the engine has no id, no source
 *     and no timer within CLOSE_TIME, and has freed all memory.
 *  9. TIMEWAIT: it takes at least the local ACK timeout of the connection, and a late copy of the
 *     REQ does not appear as a new request in this time.
 * 10. Without faults, and with programs that respond at once, no MAD is repeated, nothing times out
 *     and every connection is established.
 *
 * In worlds that damage MADs, a MAD whose header is invalid must have no effect at all. A MAD with
 * damaged contents may end or prevent any connection, so there only 1, 2, 7 and 8 are checked.
 */
#ifndef CM_SIM_H
#define CM_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/cm.h"
#include "selftests/lib/flights.h"
#include "selftests/sim/rng.h"
#include "wire.h"

#define NEVER UINT64_MAX
#define USEC 1000ull
#define MSEC 1000000ull
#define SEC 1000000000ull

#define MAX_HOSTS 4
#define MAX_SERVICES 3 /* of a host */
#define MAX_ACTS 8     /* of an end, planned */
/* Each attempt that is rejected as stale ends one old connection of the peer. */
#define RECONNECT_TRIES 60
/* More than any exchange takes: 16 service timeouts of MRAs (17 s) and response timeouts */
#define SETTLE_TIME (1500 * SEC)
#define CLOSE_TIME (3000 * SEC)

struct world;
struct host;
struct conn;

/* ---- totals, for the report ------------------------------------------------------- */

/* X(NAME, text) */
#define TOTALS(X)                                                                                  \
	X(MADS, "MADs")                                                                            \
	X(LOST, "MADs lost")                                                                       \
	X(FOREIGN, "MADs of wrong sources or with invalid headers")                                \
	X(ESTABLISHED, "connections established at both ends")                                     \
	X(NOTIFIED, "connections established without RTU")                                         \
	X(REJECTED, "connections rejected")                                                        \
	X(STALE, "connections rejected as stale")                                                  \
	X(UNREACHABLE, "peers unreachable")                                                        \
	X(DISCONNECTED, "connections disconnected")                                                \
	X(BOTH, "connections disconnected by both ends at once")                                   \
	X(NO_DREP, "disconnections without response")                                              \
	X(SIDR, "SIDR requests with a response")                                                   \
	X(MRA, "MRAs")                                                                             \
	X(INVALID, "calls refused in the wrong state")                                             \
	X(CRASHES, "crashes of hosts")                                                             \
	X(EXCUSED, "connections half open because the peer could not be reached")                  \
	X(LIMITED, "requests dropped because of a limit")

enum total {
#define X(NAME, text) TOTAL_##NAME,
	TOTALS(X)
#undef X
		TOTAL_COUNT
};

struct totals {
	uint64_t count[TOTAL_COUNT];
};

/* ---- ends and connections --------------------------------------------------------- */

struct blob {
	uint8_t bytes[XC_MAD_LEN];
	uint8_t len;
};

enum end_state {
	END_CONNECTING, /* REQ sent */
	END_REQUESTED,	/* REQ received */
	END_ACCEPTED,	/* REP sent */
	END_REPLIED,	/* REP received */
	END_UP,
	END_CLOSING, /* DREQ sent */
	END_ASKED,   /* DREQ received, a response is due */
	END_TIMEWAIT,
	END_LINGERING, /* REJ sent after a REP, which the peer may have accepted */
	END_SIDR_SENT,
	END_SIDR_RECEIVED,
	END_OVER, /* the exchange has ended, the id exists */
	END_GONE, /* the id was destroyed, or the host crashed */
	END_STATES
};

enum act {
	ACT_ACCEPT,
	ACT_REJECT,
	ACT_MRA,
	ACT_ESTABLISH,
	ACT_NOTIFY,
	ACT_DISCONNECT,
	ACT_REPLY,
	ACT_SIDR_REPLY,
	ACT_IGNORE,
	ACT_DESTROY,
	ACT_COUNT
};

/* The messages of one kind that an end has sent */
struct sent {
	struct blob data; /* private data that the program passed */
	unsigned count;
	uint64_t at;
	uint8_t mad[XC_MAD_LEN];
};

struct end {
	struct end *next;    /* of the host, the newest first */
	struct end *sibling; /* of the same conn */
	struct world *w;
	struct host *host;
	unsigned life;	   /* of the host */
	struct conn *conn; /* NULL: the request is forged */
	struct end *peer;
	struct xc_id *id;
	uint32_t comm_id;
	enum end_state state;
	bool active;
	bool was_up;
	bool over;	  /* an event has reported the end */
	bool timed_out;	  /* this event was a timeout */
	uint64_t patient; /* until when the end has to wait, because it has got an MRA */
	bool told;	  /* a MAD that reports the end of the connection has reached the peer */
	uint64_t timewait_at;
	uint64_t left_up_at; /* XRC target: when xc_destroy() left its connection as it was */
	struct {
		uint64_t when;
		enum act act;
	} plan[MAX_ACTS];
	struct sent sent[XC_NUM_KINDS];
	struct xc_req req; /* sent by the active end */
	struct xc_sidr_param sidr;
	struct xc_rep rep; /* sent by the passive end */
	struct xc_rej rej; /* sent */
	struct xc_sidr_rep sidr_rep;
	struct blob info; /* sent: additional information of REJ or SIDR_REP */
};

struct conn {
	struct conn *next;
	unsigned number;
	struct host *from, *to;
	bool sidr;
	bool probe;   /* must succeed */
	bool retried; /* by another conn, because it was rejected as stale */
	unsigned tries;
	unsigned arrivals; /* of copies of the request */
	bool crashed;	   /* a host of it has crashed since */
	bool ignored;	   /* a program ignored or destroyed a request */
	struct end *ends;
	struct end *active;
	struct end *passive; /* the last one */
	uint64_t tid;
};

/* ---- hosts ------------------------------------------------------------------------ */

struct service {
	uint64_t id;
	bool sidr;
	unsigned backlog, pending;
};

struct host {
	struct world *w;
	unsigned index;
	struct xc_cm *cm; /* NULL: crashed */
	struct xc_config config;
	struct xr_addr gid;
	unsigned life;	/* changes with each crash */
	unsigned peers; /* that may be connected, by the engine's callbacks */
	struct rng random;
	uint32_t first_qpn, next_qpn;
	struct service service[MAX_SERVICES];
	unsigned services;
	struct end *ends; /* live ones */
	struct end *gone;
	uint64_t crash_at, restart_at;
	uint64_t late; /* maximum delay of the host's timers */
	uint64_t run_at;
	bool in_call;		/* events are not expected */
	unsigned receiving;	/* attribute of the MAD that is being received */
	struct end *connecting; /* within xc_connect() */
};

/* ---- network ---------------------------------------------------------------------- */

struct frame {
	struct flight flight;
	struct host *to;
	struct end *sender;  /* NULL: unknown, or the request was forged */
	struct xc_path path; /* at the receiver */
	bool foreign;	     /* must have no effect */
	uint8_t mad[XC_MAD_LEN];
};

struct faults {
	unsigned lose, duplicate, delay; /* per 1000 */
	uint64_t max_delay;
	unsigned foreign;   /* copies from other sources or with invalid headers, per 1000 */
	unsigned damage;    /* of contents, per 1000 */
	uint64_t flood_gap; /* between forged REQs; 0: none */
};

struct world {
	uint64_t seed;
	bool verbose;
	struct rng rng;	  /* the plan */
	struct rng sched; /* what happens during the run */
	uint64_t now, steps;
	struct host host[MAX_HOSTS];
	unsigned hosts;
	struct conn *conns;
	unsigned conn_count, planned;
	uint64_t connect_at; /* the next planned connection */
	uint64_t faults_end;
	struct faults faults;
	uint64_t latency;
	uint64_t flood_at;
	struct flights flights;
	uint64_t frame_seq;
	bool calm;    /* no faults, and programs respond at once */
	bool weak;    /* MADs are damaged: see the invariants */
	bool limited; /* the limits are low */
	bool closing; /* programs close what they have */
	bool healed;
	struct totals totals;
	long blocks; /* of memory, in use before the world */
	jmp_buf failed;
	char what[400];
};

static inline uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- main.c ---- */

/* Ends the run of this seed. */
void sim_fail(struct world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
void sim_trace(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define CHECK(w, cond, ...)                                                                        \
	do {                                                                                       \
		if (!(cond))                                                                       \
			sim_fail(w, __VA_ARGS__);                                                  \
	} while (0)
#define TRACE(w, ...)                                                                              \
	do {                                                                                       \
		if ((w)->verbose)                                                                  \
			sim_trace(w, __VA_ARGS__);                                                 \
	} while (0)

/* ---- memory.c ---- */

/* Returns the number of blocks that were allocated and not freed. */
long memory_blocks(void);

/* ---- plan.c ---- */

void plan_world(struct world *w);
void plan_free(struct world *w);
/* Ends all faults and starts crashed hosts. Programs start no new connections. */
void plan_heal(struct world *w);
/* Every host connects to every other one. */
void plan_reconnect(struct world *w);
/* Every program destroys its ids. */
void plan_close(struct world *w);

/* ---- host.c ---- */

void host_start(struct host *h);
void host_crash(struct host *h);
uint64_t host_next(const struct host *h);
void host_run(struct host *h);
/* Passes a MAD to the engine. */
void host_receive(struct host *h, const struct frame *f);
struct host *host_by_gid(struct world *w, const struct xr_addr *gid);

/* ---- program.c ---- */

extern const char *const end_names[END_STATES];
void program_connect(struct world *w, struct conn *c);
void program_event(struct host *h, struct xc_id *id, const struct xc_event *event);
struct conn *conn_new(struct world *w, struct host *from, struct host *to, bool sidr);
/* Plans an action of the program. If the state does not permit it by then, it must fail. */
void end_plan(struct end *e, enum act act, uint64_t delay);
/* Returns the newest end of the host with this communication ID, or NULL. */
struct end *end_by_comm_id(struct host *h, uint32_t comm_id);
uint64_t users_next(const struct world *w);
void users_run(struct world *w);
void ends_free(struct host *h);

/* ---- net.c ---- */

void net_send(struct host *h, const struct xc_path *path, const uint8_t *mad);
uint64_t net_next(const struct world *w);
void net_run(struct world *w);

/* ---- verify.c ---- */

/* Checks an event before the program acts on it, and changes the state of the end. */
void verify_event(struct end *e, const struct xc_event *event);
void verify_request(struct host *h, struct end *e, const struct xc_msg *msg);
/* Checks the result of a call. Returns true if it succeeded. */
bool verify_call(struct end *e, enum act act, int result);
void verify_state(struct end *e);
/* Checks a MAD that an engine sends. Returns the end that it belongs to, or NULL. */
struct end *verify_mad(struct host *h, const struct xc_path *path, const uint8_t *mad);
void verify_limits(struct world *w);
void verify_agreement(struct world *w);
void verify_reconnect(struct world *w);
void verify_end(struct world *w);

#endif /* CM_SIM_H */
