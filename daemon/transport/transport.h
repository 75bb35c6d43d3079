/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The transport engine: queue pairs, connections and datagrams. Received frames are passed in as
 * arrays, frames to be sent are passed to callbacks. Time is an argument. Memory is accessed
 * through memory.h, work requests and completions are in rings. The engine has no sockets, clocks,
 * maps or files, so all its hosts (host.h) drive the same code. Only memory.c takes a mutex
 * (emulated atomics); CQs and SRQs that several engines use take a spin lock.
 *
 * An engine belongs to one worker, and callers hold that worker's lock: the worker in its round, or
 * the control thread while the worker is paused. Several engines share the tables in struct
 * xt_shared, which one thread changes while they run; what it removes is freed after a grace period
 * (daemon/datapath/grace.h). Work requests and packets change keys as well, see key_changed() and
 * quiesce_keys() in host.h.
 *
 * A round of the worker:
 *     xt_qp_doorbell() for each QP whose doorbell was rung
 *     xt_engine_rx() with a batch of received frames
 *     xt_engine_run() sends, runs timers and returns when it must be called again
 *
 * Time: nanoseconds of a monotonic clock. Errors: negative errno. Rules: IBTA vol. 1 chapter 9
 * (transport), 10 (QP states), 11 (verbs).
 */
#ifndef XT_TRANSPORT_H
#define XT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/control.h>
#include <xroce/opcode.h>
#include <xroce/reason.h>
#include <xroce/ring.h>
#include <xroce/tables.h>
#include <xroce/wire.h>

#include "host.h"
#include "daemon/transport/scheduling/flow.h"
#include "daemon/transport/memory/keys.h"
#include "daemon/transport/base/list.h"
#include "daemon/transport/memory/memory.h"
#include "daemon/transport/scheduling/timer.h"

#define XT_NEVER UINT64_MAX

/* Largest number of outstanding READs and atomics of a QP, as requester and as responder */
#define XT_MAX_RD_ATOMIC 128
/* A QP that accepts more than this as responder allocates more memory when it is modified. */
#define XT_FEW_RD_ATOMIC 16

struct xt_engine;
struct xt_qp;
struct xt_cq;
struct xt_srq;
struct xt_path;

/* ---- numbers ----------------------------------------------------------------- */

/*
 * Allocates QPNs and SRQ numbers: 24 bits, a slot and a generation that changes with each reuse, so
 * that late packets for a destroyed QP find none, in a random order (permute.h). 0 and 1 (QPNs of
 * SMI and GSI) and 0xffffff (multicast) are not allocated.
 *
 * One thread adds and deletes numbers, others may look them up meanwhile. A grace period
 * (daemon/datapath/grace.h) must pass after a number was deleted, before the item is freed or
 * another number is added.
 */
struct xt_numbers;
#define XT_MAX_MODULUS 512 /* twice the most workers or slots */
struct xt_numbers *xt_numbers_new(uint32_t max, uint64_t seed);
void xt_numbers_free(struct xt_numbers *t);
/* Allocates memory, so that the next number that is added needs none. Returns 0 or -ENOMEM. */
int xt_numbers_prepare(struct xt_numbers *t);
/*
 * The number is `rest` modulo `modulus`, which is at most XT_MAX_MODULUS; 0: any. Returns false if
 * there is no free slot with such a number, or no memory.
 */
bool xt_numbers_add_of(struct xt_numbers *t, void *item, uint32_t modulus, uint32_t rest,
		       uint32_t *slot, uint32_t *number);
static inline bool xt_numbers_add(struct xt_numbers *t, void *item, uint32_t *slot,
				  uint32_t *number)
{
	return xt_numbers_add_of(t, item, 0, 0, slot, number);
}
/* Allocates the number XR_GSI_QPN. Returns false if it is in use, or as xt_numbers_add(). */
bool xt_numbers_add_gsi(struct xt_numbers *t, void *item, uint32_t *slot);
void xt_numbers_del(struct xt_numbers *t, uint32_t number);
void *xt_numbers_get(struct xt_numbers *t, uint32_t number); /* or NULL */

/* Tables of one device */
struct xt_shared {
	struct xt_keys *keys;
	struct xt_numbers *qps;	  /* struct xt_qp, by QPN */
	struct xt_numbers *srqs;  /* struct xt_srq that have a number; NULL: no XRC */
	struct xt_groups *groups; /* by GID; NULL: there are none */
	/* QPs of all engines in states in which they receive; atomic */
	struct xt_receivers {
		uint32_t reliable, unreliable;
	} receivers;
};

static inline struct xt_qp *xt_qp_by_num(struct xt_numbers *t, uint32_t qpn)
{
	return xt_numbers_get(t, qpn);
}

/*
 * Multicast groups: UD QPs, of any engine, that receive the datagrams sent to a GID. A QP must be
 * detached before it is destroyed. One thread changes the table, engines may use it meanwhile. A
 * grace period (daemon/datapath/grace.h) must pass after each change: then no engine uses what it
 * has replaced, which the next xt_group_attach() frees.
 */
struct xt_groups *xt_groups_new(void);
void xt_groups_free(struct xt_groups *t);
/* ff00::/8, or ::ffff:224.0.0.0/100 for IPv4 */
bool xt_is_group(const struct xr_addr *gid);
/* Attaches a QP that is not attached to the group yet. Returns 0 or -ENOMEM. */
int xt_group_attach(struct xt_groups *t, const struct xr_addr *gid, struct xt_qp *qp);
void xt_group_detach(struct xt_groups *t, const struct xr_addr *gid, const struct xt_qp *qp);
bool xt_group_has(struct xt_groups *t, const struct xr_addr *gid, const struct xt_qp *qp);

/* Per engine, monotonic; X(field, "text") */
#define XT_COUNTERS(X)                                                                             \
	X(rx_packets, "packets received")                                                          \
	X(rx_bytes, "bytes received")                                                              \
	X(tx_packets, "packets sent")                                                              \
	X(tx_bytes, "bytes sent")                                                                  \
	X(rx_icrc_errors, "packets with a wrong ICRC")                                             \
	X(rx_udp_checksum_errors, "packets with a wrong UDP checksum")                             \
	X(rx_malformed, "packets refused by the daemon's own check")                               \
	X(rx_no_qp, "packets for no QP")                                                           \
	X(rx_qp_state, "packets for a QP that is in error or was reset")                           \
	X(rx_forwarded, "packets forwarded to the worker of their QP")                             \
	X(rx_forward_lost, "packets lost because the inbox of that worker was full")               \
	X(rx_duplicates, "duplicate requests")                                                     \
	X(rx_out_of_sequence, "requests ahead of sequence")                                        \
	X(rx_early, "packets kept until earlier ones arrive")                                      \
	X(tx_retransmits, "request packets sent again, probes as well")                            \
	X(tx_probes, "of these, the oldest packet because a response was overdue")                 \
	X(timeouts, "local ACK timeouts")                                                          \
	X(rnr_naks_sent, "RNR NAKs sent")                                                          \
	X(rnr_naks_received, "RNR NAKs received")                                                  \
	X(seq_naks_sent, "sequence NAKs sent")                                                     \
	X(seq_naks_received, "sequence NAKs received")                                             \
	X(access_naks_sent, "remote access NAKs sent")                                             \
	X(access_naks_received, "remote access NAKs received")                                     \
	X(invalid_naks_sent, "invalid request NAKs sent")                                          \
	X(invalid_naks_received, "invalid request NAKs received")                                  \
	X(operational_naks_sent, "remote operational error NAKs sent")                             \
	X(operational_naks_received, "remote operational error NAKs received")                     \
	X(rd_naks_sent, "invalid RD request NAKs sent")                                            \
	X(rd_naks_received, "invalid RD request NAKs received")                                    \
	X(qkey_errors, "datagrams with a wrong Q_Key")                                             \
	X(no_receive, "datagrams without a posted receive")                                        \
	X(rx_held_lost, "packets lost that could neither be executed yet nor kept")                \
	X(unreliable_drops, "packets of unreliable messages lost in part, refused or too long")    \
	X(cnps_received, "congestion notifications received")                                      \
	X(loopback_operations, "operations performed over loopback")                               \
	X(completions, "completions")                                                              \
	X(completion_errors, "completions with an error")

struct xt_counters {
#define X(field, text) uint64_t field;
	XT_COUNTERS(X)
#undef X
};

struct xt_engine *xt_engine_new(const struct xt_ops *ops, void *ctx, struct xt_shared *shared);
void xt_engine_free(struct xt_engine *e); /* all its QPs must have been destroyed */
/* Shows packets that loopback replaces to ops->show(), up to len bytes of each; 0: none. */
void xt_engine_show(struct xt_engine *e, uint32_t len);
/* Returns the ctx of xt_engine_new(). */
void *xt_engine_ctx(const struct xt_engine *e);
const struct xt_counters *xt_engine_counters(const struct xt_engine *e);
void xt_counters_add(struct xt_counters *sum, const struct xt_counters *c);
/* NAKs of all kinds, sent and received */
static inline uint64_t xt_counters_naks(const struct xt_counters *c)
{
	return c->rnr_naks_sent + c->rnr_naks_received + c->seq_naks_sent + c->seq_naks_received +
	       c->access_naks_sent + c->access_naks_received + c->invalid_naks_sent +
	       c->invalid_naks_received + c->operational_naks_sent + c->operational_naks_received +
	       c->rd_naks_sent + c->rd_naks_received;
}

/* Limits on packets in flight. Requested READ responses count as well. */
struct xt_tuning {
	uint32_t window;	/* of a QP: 32..8192 */
	uint32_t short_window;	/* of a QP with a path MTU up to 1024: window..8192; 0: window */
	uint32_t first_window;	/* of a new QP, it doubles with each round trip; 0: window */
	uint32_t engine_window; /* divided among the flows that have packets in flight */
	uint32_t read_packets;	/* longest READ request on the wire: 1..window, at most 128 */
	uint32_t uc_rate;	/* of the UC QPs together, kbit/s: 0 (no limit)..XT_MAX_RATE */
	/*
	 * The QPNs of the engine are `qpn_rest` modulo `qpn_modulus`, so that packets can be
	 * steered to it; 0: any.
	 */
	uint32_t qpn_modulus, qpn_rest;
	/*
	 * Other hosts of the engine have the same addresses: datagrams of the device to itself are
	 * sent as packets if no engine of this host has the QPN.
	 */
	bool shares_addresses;
	/* UDP source ports of its packets, host order, which stay valid; n_ports 0: any */
	const uint16_t *ports;
	uint32_t n_ports;
	/*
	 * QPs without a flow label to one slot of the peer (struct xr_slot_entry) have one port:
	 * the kernel takes their packets in one message. Those to other slots have others, as far
	 * as there are enough: the peer's kernel may join packets from one port (UDP GRO), and
	 * gives them all to the socket of the first one.
	 */
	bool port_by_slot;
};
#define XT_TUNING_DEFAULT                                                                          \
	{                                                                                          \
		.window = 256, .short_window = 512, .first_window = 32, .engine_window = 2048,     \
		.read_packets = 64, .uc_rate = 10000000                                            \
	}
/* Returns -EINVAL for values out of range. Connected QPs keep their limits. */
int xt_engine_tune(struct xt_engine *e, const struct xt_tuning *tuning);

/* Returns true if several clients have sent or received in the last few milliseconds. */
bool xt_engine_competes(const struct xt_engine *e);
/* Returns true if that is so, or packets were lost. Rounds should be short then. */
bool xt_engine_short_rounds(const struct xt_engine *e);
struct xt_flow;
/*
 * Returns when a client other than that of a flow has sent or received last, in ns; 0: none has.
 * For any thread; a result during a change may be that before it.
 */
uint64_t xt_engine_others_at(const struct xt_engine *e, const struct xt_flow *f);

/* Processes received frames in order. The engine keeps no pointers to them. */
void xt_engine_rx(struct xt_engine *e, struct xt_frame *frames, unsigned n, uint64_t now);

/*
 * Sends packets, handles timeouts and completes work requests. Returns the time at which it must be
 * called again at the latest. XT_NEVER: only after a doorbell or a received frame. `now` or
 * earlier: at once, e.g. because tx_get had no room or the budget of the round was used up.
 */
uint64_t xt_engine_run(struct xt_engine *e, uint64_t now);
/* Returns when xt_engine_run() must be called at the latest, like xt_engine_run(). */
uint64_t xt_engine_next(struct xt_engine *e);

/* ---- windows ------------------------------------------------------------------------ */

/*
 * Unbinds a window if it is bound; its key stays reserved. No engine may look it up, and the engine
 * of its QP does not run.
 */
void xt_window_unbind(struct xt_shared *shared, struct xt_key *window);

/* ---- completion queues ---------------------------------------------------------- */

/* Why a QP, a CQ or an SRQ has failed */
enum xt_cause {
	XT_CAUSE_NONE,
	XT_CAUSE_PROGRAM,    /* it was moved to ERR */
	XT_CAUSE_REQUEST,    /* a work request failed: status, vendor error */
	XT_CAUSE_RECEIVE,    /* a receive failed: the same */
	XT_CAUSE_REFUSED,    /* a request of the peer was refused: enum xr_nak */
	XT_CAUSE_RING,	     /* indices in a ring of the program are invalid */
	XT_CAUSE_COMPLETION, /* a completion was lost: CQ overrun */
	XT_CAUSE_SRQ,	     /* the SRQ is in error */
	XT_CAUSE_INJECTED,   /* for a test, see struct xt_inject */
	XT_CAUSES
};

struct xt_failure {
	uint64_t at;	/* engine's clock */
	uint8_t cause;	/* enum xt_cause */
	uint8_t status; /* enum ibv_wc_status; REFUSED: enum xr_nak */
	uint32_t verr;
};

/* Returns the cause that users see: for an injected error not what it looks like to the peer. */
static inline enum xt_cause xt_failure_cause(const struct xt_failure *f)
{
	return f->verr == XR_VERR_INJECTED ? XT_CAUSE_INJECTED : (enum xt_cause)f->cause;
}

/* The last asynchronous error of a CQ or an SRQ. Any thread may read the fields (atomic). */
struct xt_queue_error {
	uint64_t at; /* engine's clock; 0: none. Stored last */
	uint32_t cause;
	uint32_t qpn; /* QP that met it */
};

struct xt_cq {
	struct xr_queue *queue; /* shared with the client */
	uint8_t *entries;
	uint32_t depth;	     /* private copy */
	uint32_t producer;   /* private */
	bool overrun;	     /* an entry was lost: no more are added */
	bool ignore_overrun; /* overwrites the oldest entries instead */
	bool locked;	     /* several engines use it: take the spin lock */
	int lock;
	void *owner;	   /* the daemon's object; NULL: of the daemon's own QP 1 */
	uint32_t consumer; /* index of the client, as last read */

	/* for tools */
	uint64_t completions;	   /* that were added */
	uint32_t errors;	   /* completions with an error, lost ones included */
	uint32_t lost;		   /* completions for which there was no room, and those after it */
	uint64_t events;	   /* atomic */
	struct xt_failure failure; /* the last one that is not a consequence of another */
	uint32_t failed_qpn;	   /* QP of that completion */
	struct xt_queue_error error; /* IBV_EVENT_CQ_ERR */

	/* an event that waits for the turn of the client whose QP caused it; under the lock */
	struct xt_list late_link;
	uint32_t late;		   /* XR_ARM_* that the event is for; 0: none waits */
	struct xt_engine *late_in; /* the engine of that QP */

	/*
	 * Index behind the last completion that was solicited or failed. After 2^32 others it is
	 * taken for an unpolled one, and an event is raised too much.
	 */
	uint32_t solicited;

	/* see xt_cq_moderate(); the fields from `held` on under the lock */
	struct xt_moderation {
		uint32_t count; /* 0: none; atomic */
		uint64_t period;
		uint32_t held;		  /* completions of the event that is held */
		uint32_t wanted;	  /* XR_ARM_* that this event is for */
		uint64_t raise_at;	  /* when it is due */
		struct xt_engine *engine; /* has the timer set; NULL: none has */
		struct xt_timer timer;
	} moderation;
};

void xt_cq_init(struct xt_cq *cq, struct xr_queue *queue, uint32_t depth);
/*
 * Adds a completion of a QP of the flow, and notifies if the CQ is armed. On an overrun the CQ
 * becomes unusable: raises IBV_EVENT_CQ_ERR once and returns -ENOSPC; the caller must move the QP
 * to ERR.
 */
int xt_cq_push(struct xt_flow *f, struct xt_cq *cq, const struct xr_cqe *cqe, bool solicited);
/*
 * Raises IBV_EVENT_CQ_ERR for a test. `fails`: makes the CQ unusable as well, as an overrun does,
 * and has no effect if it is unusable; the caller must move the QP to ERR.
 */
void xt_cq_inject(struct xt_flow *f, struct xt_cq *cq, uint32_t qpn, bool fails);
/* Raises one event that waited for the turn of the flow. Returns false if there is none. */
bool xt_cq_raise_late(struct xt_flow *f);
/*
 * The client may have armed the CQ while it held completions: raises an event if one that was not
 * polled is of the kind that the CQ is armed for. xt_qp_doorbell() does so for the CQs of the QP.
 */
void xt_cq_check_armed(struct xt_flow *f, struct xt_cq *cq, uint64_t now);
/*
 * Moderation: the event of an armed CQ is held until `count` completions were added since it was
 * armed, or until the period has passed since the first of them. Only completions that it is armed
 * for count. A count of 0 or 1 and a period of 0 both turn moderation off. Engines may run
 * meanwhile, but a change takes steps:
 *
 *   xt_cq_moderation_reserve()   once for a CQ, in every engine
 *   xt_cq_moderate_off()         and a grace period: no engine holds more events
 *   xt_cq_raise_waiting()        for the event that one may hold
 *   xt_cq_moderate()
 */
int xt_cq_moderation_reserve(struct xt_engine *e); /* -ENOMEM */
void xt_cq_moderation_release(struct xt_engine *e);
void xt_cq_moderate_off(struct xt_cq *cq);
void xt_cq_moderate(struct xt_cq *cq, uint32_t count, uint32_t period_us);
/*
 * Returns the engine in which an event of the CQ waits, for the turn of a client or for the end of
 * a period; NULL: none does. The engine may raise the event meanwhile.
 */
struct xt_engine *xt_cq_waits_in(struct xt_cq *cq);
/* Raises such an event now, or drops it. The engine's worker is paused. */
void xt_cq_raise_waiting(struct xt_engine *e, struct xt_cq *cq);
void xt_cq_drop_waiting(struct xt_engine *e, struct xt_cq *cq);
/*
 * Moves the entries that the client has not polled to a new ring. Copying can take long (many
 * megabytes), so no engine may use the CQ for xt_cq_move_begin() and xt_cq_move_end() only: the
 * worker of the only one is paused, or the caller has the lock of several. Returns -EINVAL if the
 * entries do not fit, -EAGAIN if many more were added meanwhile: call xt_cq_move_copy() again. Then
 * a grace period must pass before the old ring is freed, and xt_cq_check_armed() must follow: an
 * engine may have added a completion, and looked for the arming of the CQ in the old ring.
 */
struct xt_cq_move {
	const uint8_t *from;
	struct xr_queue *to;
	uint32_t from_depth, depth;
	uint32_t first;	    /* index in the old ring that becomes entry 0 of the new one */
	uint32_t next, end; /* to be copied */
};
int xt_cq_move_begin(const struct xt_cq *cq, struct xr_queue *to, uint32_t depth,
		     struct xt_cq_move *m);
void xt_cq_move_copy(struct xt_cq_move *m); /* engines may run; the CQ may be destroyed */
int xt_cq_move_end(struct xt_cq *cq, struct xt_cq_move *m);

/* ---- shared receive queues -------------------------------------------------------- */

/*
 * QPs of any engine take one receive for each message (IBTA 10.2.9). A taken entry is copied and
 * its slot is free at once. If the indices are corrupt, IBV_EVENT_SRQ_ERR is raised once, and QPs
 * that need a receive go to ERR.
 */
struct xt_srq {
	struct xr_queue *queue; /* shared with the client */
	uint32_t depth;		/* private copies */
	uint32_t max_sge;
	uint32_t pd; /* PD of the L_Keys in its entries; the PD of the QP is not used */
	uint32_t consumer, producer;
	uint32_t limit; /* event if fewer entries are left; 0: not armed */
	bool dead;
	bool locked; /* several engines use it: take the spin lock */
	int lock;
	/* XRC (IBTA annex A14) */
	uint32_t number; /* in XRCETH and xt_shared.srqs; 0: none */
	uint32_t xrcd;	 /* XRC domain of the QPs that may use it */
	struct xt_cq *cq;
	void *owner; /* the daemon's object */

	/* for tools */
	uint64_t taken;		     /* receives that messages took */
	uint64_t missed;	     /* times that a message found no receive */
	struct xt_queue_error error; /* IBV_EVENT_SRQ_ERR */
};

/* depth: a power of two; the entries' stride is xr_recv_stride(max_sge) */
void xt_srq_init(struct xt_srq *srq, struct xr_queue *queue, uint32_t depth, uint32_t max_sge,
		 uint32_t pd);
/*
 * Arms IBV_EVENT_SRQ_LIMIT_REACHED, which is raised once if fewer entries than limit are left; 0
 * disarms. Returns true if fewer are left already: the caller raises the event. No engine may use
 * the SRQ meanwhile: the worker of the only one is paused, or the caller has the lock of several.
 */
bool xt_srq_arm(struct xt_srq *srq, uint32_t limit);
/*
 * Moves the entries that were not taken to a new ring. Copying can take long (many megabytes), so
 * no engine may use the SRQ (as above) for the beginning and the end only. Returns -EINVAL if the
 * entries do not fit, or if the client posted receives meanwhile.
 */
struct xt_srq_move {
	struct xr_queue *to;
	uint32_t depth;
	uint32_t first, end; /* indices in the old ring; `first` becomes entry 0 of the new one */
};
int xt_srq_move_begin(struct xt_srq *srq, struct xr_queue *to, uint32_t depth,
		      struct xt_srq_move *m);
void xt_srq_move_copy(const struct xt_srq *srq, const struct xt_srq_move *m); /* engines may run */
int xt_srq_move_end(struct xt_srq *srq, const struct xt_srq_move *m);

/* ---- paths ----------------------------------------------------------------------- */

/*
 * The path of a QP, resolved by the daemon from struct xr_ah_attr. Addresses in network byte order.
 */
struct xt_path {
	bool loopback;	    /* the destination GID is one of this device */
	bool self;	    /* so it is, or a group's, and the device itself receives the frames */
	uint8_t ip_version; /* 4 or 6 */
	uint8_t smac[6], dmac[6];
	uint16_t vlan; /* 0: untagged */
	struct xr_addr sgid, dgid;
	uint32_t flow_label;
	uint8_t hop_limit; /* never 0 */
	uint8_t traffic_class;
	uint16_t udp_sport; /* host order; 0: from flow label or QPNs */
};

/*
 * The address handles of one client, which the work requests of its UD QPs name. One thread changes
 * the table, engines may use it meanwhile. A grace period (daemon/datapath/grace.h) must pass after
 * a handle was deleted or replaced, before the next change, which frees the old one.
 */
struct xt_ahs;
struct xt_ahs *xt_ahs_new(void);
void xt_ahs_free(struct xt_ahs *t); /* after all QPs that use it */
/* Adds a handle or replaces its path. Returns 0 or -ENOMEM. */
int xt_ahs_set(struct xt_ahs *t, uint32_t handle, uint32_t pd, const struct xt_path *path);
void xt_ahs_del(struct xt_ahs *t, uint32_t handle);
/* Returns NULL for an unknown handle. */
const struct xt_path *xt_ahs_path(const struct xt_ahs *t, uint32_t handle);

/* ---- queue pairs ------------------------------------------------------------------- */

struct xt_qp_init {
	uint32_t type; /* enum xr_qp_type, else -EOPNOTSUPP */
	uint32_t pd;   /* XRC_RECV: none; the PD of the SRQ that a request names is used */
	uint32_t xrcd; /* XRC_RECV: XRC domain of its SRQs */
	struct xt_cq *send_cq, *recv_cq; /* XRC_SEND: no recv_cq; XRC_RECV: none */
	struct xr_queue *sq, *rq;      /* rq: NULL with an SRQ and for XRC; sq: NULL for XRC_RECV */
	struct xt_srq *srq;	       /* NULL: none; must outlive the QP */
	uint32_t sq_depth, rq_depth;   /* powers of two */
	uint32_t sq_stride, rq_stride; /* bytes */
	uint32_t max_send_sge, max_recv_sge, max_inline;
	bool sq_sig_all;
	/*
	 * The memory that the reserved L_Key names in work requests of the QP and its SRQ; offsets
	 * in it are addresses. *reserved_lkey_mem may be NULL until it is set; atomic.
	 */
	struct xt_mem *const *reserved_lkey_mem; /* NULL: the reserved L_Key is refused */
	bool gsi;				 /* UD: create QP1 (XR_GSI_QPN) */
	const struct xt_ahs *ahs;		 /* UD */
	struct xr_psn_entry *psns;		 /* array by slot, updated by the engine */
	void *owner;				 /* the daemon's object, for events */
	struct xt_flow *flow;			 /* of its client; NULL: the engine's own */
};

/* Identity and state of a QP, as callers may read them. */
struct xt_qp_info {
	uint32_t qpn, slot, type, pd, state;
	void *owner;
	struct xt_engine *engine;
};

/*
 * Counters of one QP since it was created. The names that XT_COUNTERS has, too, mean the same. The
 * QP's worker increments them without lock, in memory beside what it uses for each packet.
 */
#define XT_QP_COUNTERS(X)                                                                          \
	X(tx_packets)                                                                              \
	X(tx_bytes)    /* whole frames; over loopback: payload */                                  \
	X(tx_messages) /* work requests that completed with success */                             \
	X(rx_packets)                                                                              \
	X(rx_bytes)                                                                                \
	X(rx_messages)                                                                             \
	X(tx_retransmits)                                                                          \
	X(tx_probes)                                                                               \
	X(timeouts)                                                                                \
	X(rnr_naks_sent)                                                                           \
	X(rnr_naks_received)                                                                       \
	X(seq_naks_sent)                                                                           \
	X(seq_naks_received)                                                                       \
	X(access_naks_sent)                                                                        \
	X(access_naks_received)                                                                    \
	X(invalid_naks_sent)                                                                       \
	X(invalid_naks_received)                                                                   \
	X(operational_naks_sent)                                                                   \
	X(operational_naks_received)                                                               \
	X(rd_naks_sent)                                                                            \
	X(rd_naks_received)                                                                        \
	X(rx_duplicates)                                                                           \
	X(rx_out_of_sequence)                                                                      \
	X(rx_early)                                                                                \
	X(rx_held_lost)

struct xt_qp_counters {
#define X(field) uint64_t field;
	XT_QP_COUNTERS(X)
#undef X
};

/* Round-trip times: bucket 0: below 2^11 ns; i: below 2^(11 + i) ns; the last: all longer ones */
#define XT_RTT_FIRST_BITS 11
#define XT_RTT_BUCKETS 20

/* State and counters of a QP, for tools. PSNs have 24 bits. */
struct xt_qp_stats {
	struct xt_qp_counters counters;
	struct xt_failure failure; /* the last one */
	uint32_t rtt[XT_RTT_BUCKETS];
	uint32_t rtt_least, rtt_usual; /* ns; 0: unknown */
	uint32_t sq_psn, unacked_psn, rq_psn;
	uint32_t window, in_flight;    /* packets; in_flight: sent and not acknowledged */
	uint32_t sq_posted, rq_posted; /* work requests that have not completed */
	uint8_t retries_left, rnr_retries_left;
	uint8_t wait; /* 0: none, 1: for an ACK, 2: after an RNR NAK, 3: for a peer on this host */
};
void xt_qp_stats(const struct xt_qp *qp, struct xt_qp_stats *stats);

/* Sums for several QPs: counters and round-trip times */
struct xt_traffic {
	struct xt_qp_counters counters;
	uint64_t rtt[XT_RTT_BUCKETS], rtt_sum; /* rtt_sum: ns */
};
/* The QP's worker is paused, or the QP was removed from its engine. */
void xt_qp_add_traffic(const struct xt_qp *qp, struct xt_traffic *sum);
void xt_traffic_add(struct xt_traffic *sum, const struct xt_traffic *t);

/* Returns the bytes that a QP allocates, its private copies of WRs included. */
uint64_t xt_qp_bytes(const struct xt_qp_init *init);
/*
 * Creation and destruction in steps. Only xt_qp_add() and xt_qp_remove() take the place of the
 * engine, so its worker is paused for them. xt_qp_free() follows a failed xt_qp_add(). To destroy:
 *
 *   xt_qp_remove()               stops the QP and leaves it in RESET: it sends and receives nothing
 *   xt_loopback_peer_stopped()   tells xt_loopback_sender(), if there is one, in its engine
 *   xt_qp_withdraw()             makes the QP unreachable for engines that look it up
 *   a grace period               then no engine has a pointer to it (daemon/datapath/grace.h)
 *   xt_qp_free()
 */
int xt_qp_new(struct xt_engine *e, const struct xt_qp_init *init, struct xt_qp **qp);
int xt_qp_add(struct xt_qp *qp, const struct xt_qp_init *init);
void xt_qp_remove(struct xt_qp *qp);
void xt_qp_withdraw(struct xt_qp *qp);
void xt_qp_free(struct xt_qp *qp);
/* Returns the QP that sends to this one over loopback, in whatever engine; NULL: there is none. */
struct xt_qp *xt_loopback_sender(const struct xt_qp *peer);
/*
 * The peer was removed, or moved to RESET: the messages that it has received are done, as if an ACK
 * had followed them. The sender's worker is paused.
 */
void xt_loopback_peer_stopped(struct xt_qp *sender, const struct xt_qp *peer, uint64_t now);
/*
 * Returns true if a write to the QP's memory that it has given up, for it was stopped, is still
 * being executed. Also between xt_qp_remove() and xt_qp_free(). Its worker is paused.
 */
bool xt_qp_ending(struct xt_qp *qp);
/* Forgets such writes. Before xt_qp_free(); its worker is paused. */
void xt_qp_forget(struct xt_qp *qp);
/* All steps at once, for hosts without engines that run meanwhile */
int xt_qp_create(struct xt_engine *e, const struct xt_qp_init *init, struct xt_qp **qp);
void xt_qp_destroy(struct xt_qp *qp); /* NULL allowed */
const struct xt_qp_info *xt_qp_info(const struct xt_qp *qp);
/* Fills in the QP's entry for the BPF map. */
void xt_qp_entry(const struct xt_qp *qp, struct xr_qp_entry *entry);

/*
 * Modifies a QP (IBTA 11.2.5.2). Returns -EINVAL if the transition, the attribute mask or a value
 * is not allowed. path: required if mask has IBV_QP_AV. max_mtu: path MTU of the port in bytes,
 * also the limit of a datagram. RESET empties both rings (indices become 0), ERR flushes them.
 * Returns -EAGAIN if too much is left to flush before a QP in SQE can move to RTS: try again.
 */
int xt_qp_modify(struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask,
		 const struct xt_path *path, uint32_t max_mtu, uint64_t now);
/* Rate limits of QPs (IBV_QP_RATE_LIMIT), in kbit/s of whole frames; 0: none */
#define XT_MIN_RATE 1
#define XT_MAX_RATE 400000000u
/* Sets the burst of a rate limit in bytes of whole frames; 0: the engine's default. */
void xt_qp_set_burst(struct xt_qp *qp, uint32_t burst);
/*
 * Allocates what xt_qp_modify() would allocate. The engine may run meanwhile. Returns 0 or -ENOMEM.
 */
int xt_qp_prepare(struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask);
/* Returns the bytes that it allocates in addition to xt_qp_bytes(). */
uint64_t xt_qp_more_bytes(const struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask);
/* Explains why attributes are refused: field, value, and what would be right. */
struct xt_why {
	char text[200];
};
#define XT_WHY_NO_GRH "ah_attr.is_global is 0; RoCE needs a GRH with grh.dgid and grh.sgid_index"

/*
 * Checks state and mask as xt_qp_modify() does, and changes nothing. Sets *why on error, unless it
 * is NULL.
 */
int xt_qp_modify_check(const struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask,
		       struct xt_why *why);
void xt_qp_query(const struct xt_qp *qp, struct xr_qp_attr *attr);
/* Replaces the path, e.g. after the next hop's MAC address changed. */
void xt_qp_set_path(struct xt_qp *qp, const struct xt_path *path);
const struct xt_path *xt_qp_path(const struct xt_qp *qp);
/* UD: sets the path MTU of the port after it changed, a power of two. */
void xt_qp_set_mtu(struct xt_qp *qp, uint32_t mtu);

/*
 * Injects an error, other than a NAK, because of a packet that was received or sent. Not called by
 * callbacks of the engine. xt_engine_run() must follow.
 */
void xt_qp_inject(struct xt_qp *qp, struct xt_inject what, bool received);

/* Moves the QP to the flow of another client, which must belong to the same engine. */
void xt_qp_set_flow(struct xt_qp *qp, struct xt_flow *flow);

/*
 * Unbinds up to @most type 2 windows that are bound to the QP, and returns true if any remain.
 * Destroy and RESET unbind all of them; callers that pause its worker should unbind in batches
 * first, and refuse new windows before, until RESET.
 */
bool xt_qp_unbind(struct xt_qp *qp, uint32_t most);
void xt_qp_refuse_windows(struct xt_qp *qp);

/*
 * The client stored new producer indices, or armed a CQ of the QP that holds completions. Returns
 * true if there are new work requests.
 */
bool xt_qp_doorbell(struct xt_qp *qp, uint64_t now);
/*
 * Sends posted work requests at once, so that those that need no response complete. Schedules the
 * QP at most @visits times, with XT_QP_BUDGET each time, and returns the number that is left: the
 * worker is paused, so callers limit the visits of a pause. xt_engine_run() must follow.
 */
uint32_t xt_qp_catch_up(struct xt_qp *qp, uint64_t now, uint32_t visits);
/*
 * What was posted to the send queue at some time, and the end of the window then. A QP that is to
 * leave RTS, or to be destroyed, sends that much before, as hardware does when its doorbell rings.
 */
struct xt_send_mark {
	uint32_t wr; /* index behind the last work request */
	uint32_t psn;
};
/* As xt_qp_catch_up() or xt_qp_doorbell() have found it. */
void xt_qp_mark(const struct xt_qp *qp, struct xt_send_mark *m);
/*
 * Returns true while the QP has more of that to send, and waits for no response of its peer: its
 * turn comes, or its payload is being read. UC and UD: also for its rate limit, up to the end of
 * all these work requests.
 */
bool xt_qp_sends(const struct xt_qp *qp, const struct xt_send_mark *m);

#endif /* XT_TRANSPORT_H */
