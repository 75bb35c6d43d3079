/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The transport engine: queue pairs, and all that makes connections and datagrams
 * of them. Packets in, packets out, time as an argument, memory through
 * memory.h, work and completions through rings. No socket, clock, map, file,
 * thread or lock in here: the daemon's workers, the simulation, the fuzzers and the unit
 * tests all drive this same code.
 *
 * One engine belongs to one worker. Whoever calls into an engine holds that
 * worker's lock. The tables in struct xt_shared serve several engines; they
 * change only while all engines stand still. Only what a key allows changes
 * otherwise: by work requests and packets, see key_changed() and settle() below.
 *
 * A round of the worker:
 *     xt_qp_doorbell() for each QP that rang
 *     xt_engine_rx() with a batch of received frames
 *     xt_engine_run() sends what may be sent, runs timers, says when to call again
 *
 * Time: nanoseconds of a monotonic clock. Errors: negative errno.
 * Rules: IBTA vol. 1 chapter 9 (transport), 10 (QP states), 11 (verbs).
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

#include "keys.h"
#include "memory.h"

#define XT_NEVER UINT64_MAX

/* READs and atomics of one QP that may be outstanding, as requester and as responder */
#define XT_MAX_RD_ATOMIC 16

struct xt_engine;
struct xt_qp;
struct xt_cq;
struct xt_srq;

/* ---- frames ------------------------------------------------------------------ */

#define XT_MAX_SEGS 4
/* Ethernet, two VLAN tags, IPv6, UDP, BTH and the longest extended headers */
#define XT_MAX_HEADERS (14 + 8 + 40 + 8 + 12 + 28 + 16)
#define XT_MAX_FRAME (XT_MAX_HEADERS + 4096 + 3 + XR_ICRC_LEN)

struct xt_seg {
	uint8_t *data;
	uint32_t len;
};

/* One frame, from the Ethernet header to the ICRC, in one or more pieces. */
struct xt_frame {
	struct xt_seg seg[XT_MAX_SEGS];
	uint32_t nseg;
	uint32_t len;
	struct xr_meta meta; /* received frames: as written by the XDP program */
	bool forwarded;	     /* came by xt_ops.forward: whoever gave it has seen to other engines */
	uint64_t cookie;     /* the environment's own */
};

/* ---- environment ------------------------------------------------------------- */

struct xt_ops {
	/*
	 * Room for a frame of len bytes: fills frame->seg so that the pieces add up to len and the
	 * first holds all headers. false: no room now; the engine tries again
	 * at the next xt_engine_run(). tx_put sends it; every tx_get is followed by one.
	 */
	bool (*tx_get)(void *ctx, uint32_t len, struct xt_frame *frame);
	void (*tx_put)(void *ctx, struct xt_frame *frame);

	/* An armed CQ got a completion. */
	void (*cq_event)(void *ctx, struct xt_cq *cq);
	/* type: enum ibv_event_type. One of qp, cq is set. */
	void (*async_event)(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type);
	/* The same for an SRQ. NULL where there are none. */
	void (*srq_event)(void *ctx, struct xt_srq *srq, uint32_t type);
	/* The engine changed a QP's state by itself (ERR, SQE): mirror it. */
	void (*qp_state)(void *ctx, struct xt_qp *qp);
	/*
	 * A received frame whose QP, or a member of whose group, belongs to another engine: copied,
	 * and given to that engine's xt_engine_rx() by its own worker, marked as forwarded. false:
	 * lost. NULL where there is but one engine.
	 */
	bool (*forward)(void *ctx, struct xt_engine *other, const struct xt_frame *frame);
	/*
	 * Direct way to a QP of another engine on this host: true while the
	 * caller holds that engine's lock too; false: try again at the next run.
	 * NULL where there is but one engine.
	 */
	bool (*engine_lock)(void *ctx, struct xt_engine *other);
	void (*engine_unlock)(void *ctx, struct xt_engine *other);
	/* The engine changed what a key allows: mirror it. May be NULL. */
	void (*key_changed)(void *ctx, const struct xt_key *key);
	/*
	 * Returns when no other engine can still be using a key that it looked up before. Called in
	 * a round while nothing that was looked up in this engine is in use. NULL where there is
	 * but one engine.
	 */
	void (*quiesce_keys)(void *ctx);
};

/*
 * Numbers that the wire names: 24 bits, low bits a slot, high bits a generation that changes with
 * each reuse, so a late packet for what is gone finds nothing. 0 and 1 (as QPNs: SMI, GSI) and
 * 0xffffff are never given out.
 */
struct xt_numbers;
struct xt_numbers *xt_numbers_new(uint32_t max);
void xt_numbers_free(struct xt_numbers *t);
/* false: no slot, or no memory. */
bool xt_numbers_add(struct xt_numbers *t, void *item, uint32_t *slot, uint32_t *number);
/* The same for number XR_GSI_QPN. false: also where it is taken */
bool xt_numbers_add_gsi(struct xt_numbers *t, void *item, uint32_t *slot);
void xt_numbers_del(struct xt_numbers *t, uint32_t number);
void *xt_numbers_get(struct xt_numbers *t, uint32_t number); /* NULL: none */

/* Tables of one device */
struct xt_shared {
	struct xt_keys *keys;
	struct xt_numbers *qps;	  /* struct xt_qp, by QPN */
	struct xt_numbers *srqs;  /* struct xt_srq that have a number; NULL: no XRC */
	struct xt_groups *groups; /* by GID; NULL: there are none */
};

static inline struct xt_qp *xt_qp_by_num(struct xt_numbers *t, uint32_t qpn)
{
	return xt_numbers_get(t, qpn);
}

/*
 * Multicast groups: which QPs of type UD get a copy of what is sent to a GID. They are of any
 * engine; one that is attached must be detached before it is destroyed.
 */
struct xt_groups *xt_groups_new(void);
void xt_groups_free(struct xt_groups *t);
/* ff00::/8, or ::ffff:224.0.0.0/100 for IPv4 */
bool xt_is_group(const struct xr_addr *gid);
/* One that is not attached yet. -ENOMEM. */
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
	X(rx_malformed, "packets refused by the daemon's own check")                               \
	X(rx_no_qp, "packets for no QP")                                                           \
	X(rx_qp_state, "packets for a QP that is in error or was reset")                           \
	X(rx_forwarded, "packets handed to the worker of their QP")                                \
	X(rx_forward_lost, "packets lost because that worker was behind")                          \
	X(rx_duplicates, "duplicate requests")                                                     \
	X(rx_out_of_sequence, "requests ahead of sequence")                                        \
	X(tx_retransmits, "packets sent again")                                                    \
	X(timeouts, "local ACK timeouts")                                                          \
	X(rnr_naks_sent, "RNR NAKs sent")                                                          \
	X(rnr_naks_received, "RNR NAKs received")                                                  \
	X(seq_naks_sent, "sequence NAKs sent")                                                     \
	X(seq_naks_received, "sequence NAKs received")                                             \
	X(access_naks_sent, "remote access NAKs sent")                                             \
	X(access_naks_received, "remote access NAKs received")                                     \
	X(invalid_naks_sent, "invalid request NAKs sent")                                          \
	X(invalid_naks_received, "invalid request NAKs received")                                  \
	X(qkey_errors, "datagrams with a wrong Q_Key")                                             \
	X(no_receive, "datagrams that met no receive")                                             \
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
void xt_engine_free(struct xt_engine *e); /* all its QPs must be gone */
const struct xt_counters *xt_engine_counters(const struct xt_engine *e);

/* How much may be in flight, in packets. READ responses asked for count as well. */
struct xt_tuning {
	uint32_t window;	/* of a QP: 32..8192 */
	uint32_t engine_window; /* of all QPs; each may have 32 whatever the others have */
	uint32_t read_packets;	/* longest READ request on the wire: 1..window, at most 128 */
};
#define XT_TUNING_DEFAULT                                                                          \
	{                                                                                          \
		.window = 256, .engine_window = 2048, .read_packets = 64                           \
	}
/* -EINVAL: out of range. Connected QPs keep what they began with. */
int xt_engine_tune(struct xt_engine *e, const struct xt_tuning *tuning);

/* Received frames, in order. The engine keeps no pointer into them after it returns. */
void xt_engine_rx(struct xt_engine *e, struct xt_frame *frames, unsigned n, uint64_t now);

/*
 * Sends, times out, completes. Returns the time of the next call at the latest (XT_NEVER: when
 * something happens; `now` or less: there is more to do at once, e.g. tx_get had no room or the
 * round's budget ended).
 */
uint64_t xt_engine_run(struct xt_engine *e, uint64_t now);

/* ---- windows ------------------------------------------------------------------------ */

/* Bound or not, it allows nothing any more; the key stays allocated. All engines stand still. */
void xt_window_unbind(struct xt_shared *shared, struct xt_key *window);

/* ---- completion queues ---------------------------------------------------------- */

struct xt_cq {
	struct xr_queue *queue; /* shared with the client */
	uint8_t *entries;
	uint32_t depth;	     /* private copy */
	uint32_t producer;   /* private */
	bool overrun;	     /* an entry was lost: the CQ is dead */
	bool ignore_overrun; /* the oldest entries are lost instead */
	bool locked;	     /* engines of several workers complete into it: a spin lock is taken */
	int lock;
	void *owner;	   /* the daemon's object */
	uint32_t consumer; /* the client's, as last read */
};

void xt_cq_init(struct xt_cq *cq, struct xr_queue *queue, uint32_t depth);
/*
 * Adds a completion and notifies if armed. On overrun the CQ goes dead, the async event
 * IBV_EVENT_CQ_ERR is raised once and -ENOSPC returned: the QP must go to ERR.
 */
int xt_cq_push(struct xt_engine *e, struct xt_cq *cq, const struct xr_cqe *cqe, bool solicited);
/*
 * Moves the entries that the client has not polled to a new ring. That may be many megabytes, so
 * engines stand still for the beginning and the end only. -EINVAL: they do not fit. -EAGAIN: many
 * more came meanwhile, to be copied first.
 */
struct xt_cq_move {
	const uint8_t *from;
	struct xr_queue *to;
	uint32_t from_depth, depth;
	uint32_t first;	    /* of the old ring, that becomes the new one's entry 0 */
	uint32_t next, end; /* to be copied */
};
int xt_cq_move_begin(const struct xt_cq *cq, struct xr_queue *to, uint32_t depth,
		     struct xt_cq_move *m);
void xt_cq_move_copy(struct xt_cq_move *m); /* engines may run, and the CQ may go */
int xt_cq_move_end(struct xt_cq *cq, struct xt_cq_move *m);

/* ---- shared receive queues -------------------------------------------------------- */

/*
 * QPs of any engine take from it, one receive for each message (IBTA 10.2.9). A taken entry is
 * copied and its slot is free at once. Corrupt indices: IBV_EVENT_SRQ_ERR once, and QPs that
 * want a receive go to ERR.
 */
struct xt_srq {
	struct xr_queue *queue; /* shared with the client */
	uint32_t depth;		/* private copies */
	uint32_t max_sge;
	uint32_t pd; /* L_Keys of its entries are of this one, whatever the QP's */
	uint32_t consumer, producer;
	uint32_t limit; /* armed: event when fewer are left; 0: not */
	bool dead;
	bool locked; /* engines of several workers take: a spin lock is held then */
	int lock;
	/*
	 * XRC (IBTA annex A14): what requests name it by, the xrcd of its QPs, where it completes
	 */
	uint32_t number; /* 0: none; in xt_shared.srqs while it lives */
	uint32_t xrcd;
	struct xt_cq *cq;
	void *owner; /* the daemon's object */
};

/* depth: a power of two; the entries' stride is xr_recv_stride(max_sge) */
void xt_srq_init(struct xt_srq *srq, struct xr_queue *queue, uint32_t depth, uint32_t max_sge,
		 uint32_t pd);
/* The next two: no engine runs. */
/*
 * Arms IBV_EVENT_SRQ_LIMIT_REACHED: once, as soon as fewer entries than limit are left. 0
 * disarms. True: fewer are left already, and the event is the caller's to raise.
 */
bool xt_srq_arm(struct xt_srq *srq, uint32_t limit);
/*
 * Moves the entries that nobody took to a new ring. That may be many megabytes, so engines stand
 * still for the beginning and the end only. -EINVAL: they do not fit, or the client posted
 * meanwhile.
 */
struct xt_srq_move {
	struct xr_queue *to;
	uint32_t depth;
	uint32_t first, end; /* of the old ring; `first` becomes the new one's entry 0 */
};
int xt_srq_move_begin(struct xt_srq *srq, struct xr_queue *to, uint32_t depth,
		      struct xt_srq_move *m);
void xt_srq_move_copy(const struct xt_srq *srq, const struct xt_srq_move *m); /* engines may run */
int xt_srq_move_end(struct xt_srq *srq, const struct xt_srq_move *m);

/* ---- paths ----------------------------------------------------------------------- */

/*
 * Where a QP's packets go: resolved by the daemon from struct xr_ah_attr. Addresses as on the wire.
 */
struct xt_path {
	bool loopback;	    /* the destination GID is one of this device's own: the direct way */
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
 * Address handles of one client: the paths of datagrams by handle. QPs of type UD are created with
 * such a table and look up in it what their work requests name. It changes only while all engines
 * stand still.
 */
struct xt_ahs;
struct xt_ahs *xt_ahs_new(void);
void xt_ahs_free(struct xt_ahs *t); /* all QPs that use it must be gone */
/* A new handle, or another path for an old one. -ENOMEM. */
int xt_ahs_set(struct xt_ahs *t, uint32_t handle, uint32_t pd, const struct xt_path *path);
void xt_ahs_del(struct xt_ahs *t, uint32_t handle);
/* NULL: no such handle. */
const struct xt_path *xt_ahs_path(const struct xt_ahs *t, uint32_t handle);

/* ---- queue pairs ------------------------------------------------------------------- */

struct xt_qp_init {
	uint32_t type; /* enum xr_qp_type, else -EOPNOTSUPP */
	uint32_t pd;   /* XRC_RECV: none, each request names an SRQ, whose PD counts */
	uint32_t xrcd; /* XRC_RECV: that its SRQs must be of */
	struct xt_cq *send_cq, *recv_cq; /* XRC_SEND: no recv_cq; XRC_RECV: none */
	struct xr_queue *sq, *rq; /* rq may be NULL, and is with an SRQ and XRC; XRC_RECV: no sq */
	struct xt_srq *srq;	  /* NULL: none; must outlive the QP */
	uint32_t sq_depth, rq_depth;   /* powers of two */
	uint32_t sq_stride, rq_stride; /* bytes */
	uint32_t max_send_sge, max_recv_sge, max_inline;
	bool sq_sig_all;
	/*
	 * What the reserved L_Key stands for in its work requests, and those of its SRQ: *own, by
	 * address; NULL: nothing. May change while no engine runs.
	 */
	struct xt_mem *const *reserved_lkey_mem; /* NULL: nothing for ever */
	bool gsi;				 /* UD: as QPN XR_GSI_QPN, of which there is one */
	const struct xt_ahs *ahs;		 /* UD */
	struct xr_psn_entry *psns;		 /* array by slot, kept current by the engine */
	void *owner;				 /* the daemon's object, for events */
};

/* The only part that a later daemon would need to take a connection over. */
struct xt_qp_info {
	uint32_t qpn, slot, type, pd, state;
	void *owner;
	struct xt_engine *engine;
};

int xt_qp_create(struct xt_engine *e, const struct xt_qp_init *init, struct xt_qp **qp);
void xt_qp_destroy(struct xt_qp *qp);
const struct xt_qp_info *xt_qp_info(const struct xt_qp *qp);
/* What XDP must know now */
void xt_qp_entry(const struct xt_qp *qp, struct xr_qp_entry *entry);

/*
 * IBTA 11.2.5.2: checks the transition and the attribute mask (EINVAL), then applies. path must
 * be given when mask has IBV_QP_AV. max_mtu: bytes, what the port can carry; also a datagram.
 * -> RESET empties both rings (indices to 0). -> ERR flushes.
 */
int xt_qp_modify(struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask,
		 const struct xt_path *path, uint32_t max_mtu, uint64_t now);
/* Rate limits of QPs (IBV_QP_RATE_LIMIT), in kbit/s of whole frames; 0: none */
#define XT_MIN_RATE 1
#define XT_MAX_RATE 400000000u
/*
 * After IBV_QP_RATE_LIMIT: what may be sent at once, bytes of whole frames; 0: the engine's choice
 */
void xt_qp_set_burst(struct xt_qp *qp, uint32_t burst);
/* Checks only: what xt_qp_modify() would say to state and mask. */
int xt_qp_modify_check(const struct xt_qp *qp, const struct xr_qp_attr *attr, uint32_t mask);
void xt_qp_query(const struct xt_qp *qp, struct xr_qp_attr *attr);
/* The next hop's address changed. */
void xt_qp_set_path(struct xt_qp *qp, const struct xt_path *path);
const struct xt_path *xt_qp_path(const struct xt_qp *qp);
/* UD: the port's MTU changed, a power of two. */
void xt_qp_set_mtu(struct xt_qp *qp, uint32_t mtu);

/*
 * Frees windows of type 2 that are bound to the QP, @most of them: true: there are more. Destroying
 * and RESET do so with all; whoever lets engines stand still for that does better with a few at a
 * time first.
 */
bool xt_qp_unbind(struct xt_qp *qp, uint32_t most);

/* The client stored new producer indices. */
void xt_qp_doorbell(struct xt_qp *qp, uint64_t now);
/*
 * Does what is posted as far as it can be done now and in @visits rounds, whoever's turn it is:
 * afterwards requests that wait for no answer are complete. Returns the rounds that are left.
 * All engines stand still, so a caller bounds @visits over all its QPs; xt_engine_run() follows.
 */
uint32_t xt_qp_catch_up(struct xt_qp *qp, uint64_t now, uint32_t visits);

#endif /* XT_TRANSPORT_H */
