/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's own structures. Who does what:
 *
 *   engine.c     frames to QPs, whose turn it is
 *   numbers.c    tables of QPs and SRQs
 *   qp.c         creation, errors and flushing
 *   modify.c     QP states and attributes
 *   sq.c         work requests: from the ring, checked, to their completion
 *   requester.c  requests to packets, timeouts, retries
 *   response.c   what comes back: ACKs, NAKs, READ data
 *   responder.c  requests of the peer
 *   answers.c    what it gets for them: ACKs, NAKs, READ data, and the same once more
 *   unreliable.c UC and UD, either side
 *   ah.c         address handles
 *   group.c      multicast groups
 *   rq.c         receive work requests
 *   srq.c        the same, shared by several QPs
 *   local.c      the direct way between two QPs of this host
 *   build.c      packets
 *   copy.c       payload from and to memory, with its keys checked
 *   binding.c    work requests and packets that change keys
 *   pace.c       rates that clients set
 *   timer.c, cq.c
 *
 * Sequence numbers are kept 32 bits wide and free-running, so that a 2^31 byte
 * message at PMTU 256 (2^23 packets) still compares right; the wire sees the low 24 bits.
 */
#ifndef XT_INTERNAL_H
#define XT_INTERNAL_H

#include <infiniband/verbs.h>
#include <string.h>

#include "transport.h"
#include "wire.h"

#define XT_MAX_RD_ATOMIC 16
/* Ethernet, a VLAN tag, IPv6, UDP, BTH */
#define XT_TEMPLATE_LEN (14 + 4 + 40 + 8 + 12)
/* XRCETH and atomic: the longest extended headers that are sent */
#define XT_MAX_EXT 32

/* A peer that is asked so often acknowledges something of each window that is full. */
#define XT_ACK_EVERY 16
/* Packets that a QP may have in flight, whatever the others have */
#define XT_MIN_WINDOW 32
/* Packets, or 4 KiB of the direct way, for one QP before it is the next one's turn */
#define XT_QP_BUDGET 32
/* The same for a round */
#define XT_ROUND_BUDGET 256
/* Bytes that the direct way moves at a time; a multiple of every path MTU */
#define XT_LOOPBACK_MAX (128u << 10)
/* A QP that hears nothing for so long no longer counts as one that loads the network. */
#define XT_STALL_NS 1000000000ull

/* ---- work requests --------------------------------------------------------------- */

/* LOCAL: changes keys and sends nothing. READ and behind: answered by more than an ACK. */
enum xt_wr_kind {
	XT_KIND_NONE,
	XT_KIND_SEND,
	XT_KIND_WRITE,
	XT_KIND_LOCAL,
	XT_KIND_READ,
	XT_KIND_ATOMIC,
	XT_KIND_ATOMIC_WRITE,
};

/* Why a work request cannot succeed */
struct xt_wc_error {
	uint32_t status; /* enum ibv_wc_status */
	uint32_t verr;
};

/* A send work request, copied from the ring once and checked */
struct xt_swqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add;
			uint64_t swap;
		};
		struct {
			uint32_t mw_rkey, new_rkey, mr_lkey, access;
		} bind;
		struct {
			uint32_t key, access, pages;
			uint8_t list, page_shift;
		} reg;
	};
	uint64_t bind_len;
	uint32_t rkey;
	uint32_t srqn; /* XRC */
	uint32_t length;
	uint32_t psn;  /* its first */
	uint32_t npsn; /* 1 at least, but for XT_KIND_LOCAL: 0 */
	uint32_t ssn;  /* number of its (last) message, IBTA 9.7.7.2 */
	uint32_t ah;   /* UD: handle */
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint32_t rd_before; /* index behind the latest READ or atomic before it, for fences */
	union {
		__be32 imm;
		uint32_t inv_rkey;
	};
	uint8_t opcode; /* enum xr_wr_opcode */
	uint8_t kind;	/* enum xt_wr_kind */
	uint8_t flags;	/* XR_SEND_* */
	uint8_t num_sge;
	bool done;		  /* XT_KIND_LOCAL: took effect, must not again after a retry */
	struct xt_wc_error error; /* status 0: none; else what it ends with, once the oldest */
};

/* Bytes in process-local memory, for one packet */
struct xt_payload {
	uint32_t n;
	uint32_t len;
	struct xt_seg seg[XR_MAX_SGE];
};

/* ---- parts of a QP ---- */

struct xt_requester {
	/* indices into the SQ, free-running: retired <= cur <= loaded <= producer */
	uint32_t retired;  /* oldest without completion */
	uint32_t cur;	   /* the one that `next` belongs to */
	uint32_t loaded;   /* first one not copied from the ring */
	uint32_t producer; /* as last read */

	/* unacked <= next <= max */
	uint32_t unacked;  /* oldest PSN not acknowledged */
	uint32_t next;	   /* PSN to be sent next; goes back for retries */
	uint32_t max;	   /* one beyond the highest ever sent */
	uint32_t load_psn; /* of the next work request */

	uint32_t ssn;		/* of the latest message */
	uint32_t lsn;		/* last message that the peer has a receive for */
	uint32_t rd_inflight;	/* READ and atomic requests in [unacked, next) */
	uint32_t rd_last;	/* index behind the latest READ or atomic */
	uint32_t window;	/* packets in flight allowed now */
	uint32_t since_ackreq;	/* packets since the last one that will be answered */
	uint32_t ackreq_psn;	/* PSN of that one */
	uint32_t nak_retry_psn; /* PSN of the last retry that no timeout caused */
	bool nak_retried;
	bool credits; /* lsn is valid */
	uint8_t retry_left;
	uint8_t rnr_left;
	uint8_t wait;	      /* enum xt_wait */
	uint8_t read_packets; /* longest READ on the wire */
};

enum xt_wait {
	XT_WAIT_NONE,
	XT_WAIT_ACK,	     /* packets are in flight */
	XT_WAIT_RNR,	     /* told to wait */
	XT_WAIT_UNREACHABLE, /* direct way: nobody there */
};

/* A READ or atomic of the peer, kept for duplicates of it */
struct xt_rd {
	uint64_t va;
	uint64_t value; /* atomics: what was there before */
	uint32_t rkey;
	uint32_t pd;
	uint32_t len;
	uint32_t psn;
	uint32_t npsn;
	uint8_t kind;
};

enum xt_ack_due {
	XT_ACK_DUE_NONE,
	XT_ACK_DUE_ACK,
	XT_ACK_DUE_SEQ_NAK,
	XT_ACK_DUE_RNR_NAK,
	XT_ACK_DUE_NAK, /* the last words of a QP that is in ERR */
};

struct xt_responder {
	uint32_t epsn; /* expected */
	uint32_t seen; /* one beyond the highest that came out of sequence */
	uint32_t msn;
	uint32_t unacked; /* packets accepted since the last answer */
	uint8_t kind;	  /* enum xt_wr_kind of the message being received */
	uint8_t ack_due;  /* enum xt_ack_due, to be sent after the READ responses */
	uint8_t nak_code; /* XT_ACK_DUE_NAK: enum xr_nak */
	bool nak_sent;	  /* nothing more to say about this gap */
	uint32_t nak_psn; /* XT_ACK_DUE_NAK */
	bool comm_est;	  /* the event was raised */
	uint32_t pd;	  /* of the request being served: the QP's, or its SRQ's */
	uint32_t srqn;	  /* XRC: that it names */

	/* message being received */
	uint32_t length; /* WRITE: as announced */
	uint32_t done;	 /* bytes */
	uint32_t rkey;
	uint64_t va;

	/* READs and atomics: entries [rd_tail - rd_kept, rd_tail), answers due from rd_cur on */
	uint32_t rd_tail, rd_kept, rd_cur;
	uint32_t rd_fresh; /* first one that was never answered in full; rd_cur may go back */
	uint32_t rd_pos;   /* next packet of rd_cur */
	uint32_t rd_start; /* packet at which this answer to rd_cur begins */
	struct xt_rd rd[XT_MAX_RD_ATOMIC];
};

struct xt_receive {
	uint32_t consumer; /* oldest without completion; of an SRQ: the one that was taken */
	uint32_t producer; /* as last read; not used with an SRQ */
	bool taken;	   /* `consumer` was copied: the fields below are valid */
	uint32_t pd;	   /* that its L_Keys must be of */
	uint32_t srqn;	   /* XRC: of the SRQ that it was taken from */
	uint32_t num_sge;
	uint64_t wr_id;
	uint64_t length;
};

/* A rate limit at work, in ns of the engine's clock; the rate itself is an attribute. */
struct xt_pace {
	uint64_t paid_until;
	uint64_t ahead; /* how far that may be ahead of now */
};

/* ---- queue pairs ---------------------------------------------------------------------- */

struct xt_list {
	struct xt_list *next, *prev;
};

struct xt_template {
	uint8_t bytes[XT_TEMPLATE_LEN];
	uint8_t len;
	uint8_t ip_off, bth_off;
	uint8_t ip_version;
	uint32_t ip_sum; /* of the constant 16-bit words of an IPv4 header */
};

struct xt_ah {
	bool used;
	bool group; /* the destination is a multicast group */
	uint32_t pd;
	struct xt_path path;
	struct xt_template tmpl; /* but for destination QPN and source port */
};

/* A QP's timer of one kind */
struct xt_timer {
	uint64_t deadline; /* XT_NEVER: not set */
	uint32_t slot;	   /* in the heap; XT_NO_TIMER: none */
};

struct xt_qp {
	struct xt_qp_info info;
	struct xt_engine *engine;

	struct xt_requester req;
	struct xt_receive rq;
	struct xt_responder resp;
	struct xr_qp_attr attr; /* as the client set them */
	struct xt_path path;
	struct xt_pace pace;
	uint32_t mtu; /* bytes of payload; UD: the port's MTU */
	uint8_t mtu_shift;
	bool ring_bad;	  /* corrupt ring indices: the rings are never read again */
	bool drained;	  /* SQD: IBV_EVENT_SQ_DRAINED was raised */
	uint32_t windows; /* first of the type 2 windows bound to the QP, a key index; 0: none */

	struct xt_list active_link; /* in engine->active or ->capped */
	struct xt_list ack_link;    /* in engine->acks_due */
	struct xt_timer retry_timer, rate_timer;
	uint64_t ack_deadline;
	uint32_t charged; /* packets counted in engine->inflight */
	bool stalled;
	bool capped; /* `turn` is in engine->capped */
	uint16_t ip_id;

	struct xt_cq *send_cq, *recv_cq;
	struct xt_srq *srq; /* then there is no rq_ring; XRC finds one for each message */
	uint32_t xrcd;	    /* XRC_RECV */
	uint8_t class;	    /* XR_CLASS_* of the packets that it sends */
	struct xr_queue *sq_ring, *rq_ring;
	struct xt_swqe *swqe;	 /* sq_depth, while the SQ may send */
	struct xr_sge *swqe_sge; /* sq_depth * max_send_sge */
	struct xr_sge *rq_sge;	 /* max_recv_sge */
	uint32_t sq_depth, rq_depth, sq_stride, rq_stride;
	uint32_t max_send_sge, max_recv_sge, max_inline;
	bool sq_sig_all;
	struct xt_mem *const *reserved_lkey_mem; /* xt_qp_init */
	const struct xt_ahs *ahs;		 /* UD */
	struct xr_psn_entry *psn;
	struct xt_template tmpl; /* UD: none, each address handle has one */
};

#define XT_NO_TIMER UINT32_MAX

struct xt_heap_entry {
	uint64_t when;
	struct xt_qp *qp;
	struct xt_timer *alarm; /* which of the QP's */
};

/* Of 4 children each */
struct xt_heap {
	struct xt_heap_entry *timers;
	uint32_t count, room;
};

struct xt_engine {
	const struct xt_ops *ops;
	void *ctx;
	struct xt_shared *shared;
	uint64_t now;
	struct xt_list active;	 /* QPs that may have something to send */
	struct xt_list capped;	 /* QPs that would send, were it not for tuning.engine_window */
	struct xt_list acks_due; /* QPs that owe an ACK or NAK */
	uint32_t inflight;	 /* request packets not acknowledged, of all QPs */
	bool tx_full;
	struct xt_tuning tuning;
	struct xt_heap retry_timers, rate_timers;
	uint32_t qp_count;
	struct xt_counters counters;
	uint8_t bounce[4096]; /* payload that cannot be reached by pointer */
};

static inline int32_t xt_diff(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static inline void xt_list_init(struct xt_list *l)
{
	l->next = l->prev = l;
}

static inline bool xt_list_empty(const struct xt_list *l)
{
	return l->next == l;
}

static inline void xt_list_add_tail(struct xt_list *head, struct xt_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void xt_list_del(struct xt_list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	xt_list_init(l);
}

static inline bool xt_may_send(const struct xt_qp *qp)
{
	return qp->info.state == XR_QPS_RTS || qp->info.state == XR_QPS_SQD;
}

static inline bool xt_may_receive(const struct xt_qp *qp)
{
	return qp->info.state >= XR_QPS_RTR && qp->info.state <= XR_QPS_SQE;
}

/* Nothing comes back: a work request is done when it was sent. */
static inline bool xt_unreliable(const struct xt_qp *qp)
{
	return qp->info.type == XR_QPT_UC || qp->info.type == XR_QPT_UD;
}

static inline uint8_t *xt_ring_entry(struct xr_queue *ring, uint32_t index, uint32_t depth,
				     uint32_t stride)
{
	return (uint8_t *)(ring + 1) + (size_t)(index & (depth - 1)) * stride;
}

/* ring.h: a producer's index neither goes back nor runs too far ahead. */
static inline bool xt_ring_sane(uint32_t now, uint32_t before, uint32_t consumer, uint32_t depth)
{
	return now - consumer <= depth && now - consumer >= before - consumer;
}

/* CQs and SRQs that engines of several workers use: held for a few instructions. */
static inline void xt_spin_lock(int *lock)
{
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(lock, __ATOMIC_RELAXED))
			__builtin_ia32_pause();
}

static inline void xt_spin_unlock(int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static inline struct xt_swqe *xt_swqe(struct xt_qp *qp, uint32_t index)
{
	return &qp->swqe[index & (qp->sq_depth - 1)];
}

static inline struct xr_sge *xt_swqe_sge(struct xt_qp *qp, uint32_t index)
{
	return &qp->swqe_sge[(size_t)(index & (qp->sq_depth - 1)) * qp->max_send_sge];
}

/* ---- engine.c ---- */

void xt_activate(struct xt_qp *qp);
void xt_schedule_response(struct xt_qp *qp);
void xt_event(struct xt_qp *qp, uint32_t type);
/* Receive queues are chosen by a hash, so a packet may meet another worker than its QP's. */
void xt_forward(struct xt_engine *e, struct xt_engine *other, const struct xt_frame *frame);

/* ---- timer.c ---- */

/* Room for one more QP; to be called before the QP exists. */
int xt_timer_reserve(struct xt_engine *e);
void xt_timer_set_retry(struct xt_qp *qp, uint64_t deadline);
void xt_timer_set_rate(struct xt_qp *qp, uint64_t deadline);
void xt_timer_remove(struct xt_qp *qp); /* both */
/* A QP whose deadline has passed, its timer cleared; NULL: none. */
struct xt_qp *xt_timer_expired_retry(struct xt_engine *e, uint64_t now);
struct xt_qp *xt_timer_expired_rate(struct xt_engine *e, uint64_t now);
uint64_t xt_timer_next(struct xt_engine *e);

/* ---- pace.c ---- */

/* The rate limit, an attribute, was set. burst: bytes, 0: ours to choose */
void xt_pace_set(struct xt_qp *qp, uint32_t burst);
bool xt_pace_limited_open(struct xt_qp *qp);
void xt_pace_limited_spend(struct xt_qp *qp, uint32_t bytes);
bool xt_pace_limited_last(const struct xt_qp *qp, uint32_t bytes);

/* May a packet of the send queue go out now? false: the QP becomes active when it may. */
static inline bool xt_pace_open(struct xt_qp *qp)
{
	return !qp->attr.rate_limit || xt_pace_limited_open(qp);
}

/* Frames of so many bytes in all went out. */
static inline void xt_pace_spend(struct xt_qp *qp, uint32_t bytes)
{
	if (qp->attr.rate_limit)
		xt_pace_limited_spend(qp, bytes);
}

/* True where after a frame of that length there will be a wait. */
static inline bool xt_pace_last(const struct xt_qp *qp, uint32_t bytes)
{
	return qp->attr.rate_limit && xt_pace_limited_last(qp, bytes);
}

static inline uint32_t xt_frame_len(const struct xt_template *t, uint32_t ext_and_payload)
{
	return t->len + ((ext_and_payload + 3) & ~3u) + XR_ICRC_LEN;
}

/* ---- qp.c ---- */

/* -> ERR, flushing both queues; own: not by the client's wish */
void xt_qp_error(struct xt_qp *qp, bool own);
/* Unreliable types: -> SQE, flushing the send queue; receiving goes on (IBTA 10.3.1). */
void xt_qp_sq_error(struct xt_qp *qp);
/* Corrupt ring: ERR and IBV_EVENT_QP_FATAL */
void xt_qp_fatal(struct xt_qp *qp);
/* A completion was lost with its CQ: the same, a work queue catastrophe of IBTA 11.6.3.2 */
void xt_qp_completion_lost(struct xt_qp *qp);
void xt_qp_store_state(struct xt_qp *qp, uint32_t state);
/* Off the lists, no timer, nothing in flight, no answer owed */
void xt_qp_stop(struct xt_qp *qp);
void xt_qp_store_psns(struct xt_qp *qp);

/* ---- sq.c ---- */

/* Reads the producer index. false: corrupt, and the QP is in ERR now. */
bool xt_sq_poll(struct xt_qp *qp);
/* The work request to be sent from now, NULL: none. */
struct xt_swqe *xt_sq_current(struct xt_qp *qp);
/* The one behind the current one, in RTS. */
struct xt_swqe *xt_sq_following(struct xt_qp *qp);
/* Completes the oldest work request, and local ones behind it that are done. false: in ERR now. */
bool xt_sq_retire(struct xt_qp *qp);
/* Completes the oldest with an error, flushes everything that the QP's type wants flushed. */
void xt_sq_fail(struct xt_qp *qp, struct xt_wc_error error);
void xt_sq_flush(struct xt_qp *qp);
static inline bool xt_has_imm(const struct xt_swqe *w)
{
	return w->opcode == XR_WR_SEND_WITH_IMM || w->opcode == XR_WR_RDMA_WRITE_WITH_IMM;
}
/* Private copies, needed from RTS on */
int xt_sq_alloc(struct xt_qp *qp);
void xt_sq_free(struct xt_qp *qp);

/* ---- rq.c ---- */

enum xt_take { XT_TAKE_OK, XT_TAKE_EMPTY, XT_TAKE_BAD };
/* Makes sure that the oldest receive is copied. XT_TAKE_BAD sets *error. */
enum xt_take xt_rq_take(struct xt_qp *qp, struct xt_wc_error *error);
/* Receives that are posted, as known */
uint32_t xt_rq_credits(struct xt_qp *qp);
/* Completes the taken receive. false: the QP is in ERR now. */
bool xt_rq_complete(struct xt_qp *qp, const struct xr_cqe *what, bool solicited);
void xt_rq_flush(struct xt_qp *qp);
/* Copies an entry that may have up to max_sge elements. XT_TAKE_BAD sets *error. */
enum xt_take xt_rq_copy(struct xt_qp *qp, const uint8_t *slot, uint32_t max_sge,
			struct xt_wc_error *error);

/* ---- srq.c ---- */

/*
 * The SRQ that the request being served is for, or, of XRC, the one with this number: NULL where
 * there is none in the QP's xrcd.
 */
struct xt_srq *xt_srq_of(const struct xt_qp *qp, uint32_t number);
/* Takes the next receive of the QP's SRQ; its slot is free at once. As xt_rq_take(). */
enum xt_take xt_srq_take(struct xt_qp *qp, struct xt_wc_error *error);

/* ---- binding.c ---- */

/* Performs a work request of XT_KIND_LOCAL. false: w->error says why not, and nothing changed. */
bool xt_key_wr_execute(struct xt_qp *qp, struct xt_swqe *w);
/* The peer's SEND with Invalidate: XR_OK, or why the key cannot be invalidated by it. */
enum xr_reason xt_invalidate_remote(struct xt_qp *qp, uint32_t rkey);

/* ---- copy.c ---- */

/* Bytes from somewhere, to be put into memory: of a frame or a buffer, or a local peer's request */
struct xt_source {
	const struct xt_seg *seg;
	struct xt_qp *qp; /* seg NULL: this QP's work request at index */
	uint32_t index;
	uint64_t off;
};

/* Which side a copy failed on */
enum xt_side { XT_SIDE_NONE, XT_SIDE_SOURCE, XT_SIDE_TARGET };

/* Readable bytes [off, off + len) of a send work request */
bool xt_gather(struct xt_qp *qp, uint32_t index, uint32_t off, uint32_t len, struct xt_payload *out,
	       struct xt_wc_error *error);
/* Readable bytes of a region, via e->bounce where there is no pointer */
int xt_gather_mem(struct xt_engine *e, struct xt_mem *mem, uint64_t off, uint32_t len,
		  struct xt_payload *out);
/* Checks the keys of a whole work request's SGL. */
bool xt_check_sges(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint32_t access,
		   struct xt_wc_error *error);
/* Puts len bytes at offset off of an SGL; *error tells of the side that is returned. */
enum xt_side xt_scatter(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint64_t off,
			const struct xt_source *src, uint32_t len, struct xt_wc_error *error);
/* The same with the SGL of the taken receive */
enum xt_side xt_scatter_receive(struct xt_qp *qp, uint64_t off, const struct xt_source *src,
				uint32_t len, struct xt_wc_error *error);
/* Puts len bytes at offset off of a region. */
enum xt_side xt_put(struct xt_mem *mem, uint64_t off, const struct xt_source *src, uint32_t len,
		    struct xt_wc_error *error);
/* From a region to an SGL, the direct way of a READ */
enum xt_side xt_scatter_mem(struct xt_qp *qp, const struct xr_sge *sge, uint32_t n, uint64_t off,
			    struct xt_mem *mem, uint64_t mem_off, uint32_t len,
			    struct xt_wc_error *error);

/* ---- build.c ---- */

/* A packet to be sent */
struct xt_packet {
	uint8_t opcode;
	bool solicited, ackreq;
	uint32_t psn;
	const struct xt_ah *ah; /* UD: where to; NULL: to the QP's peer */
	uint32_t dqpn;		/* UD */
	uint32_t ext_len;
	uint8_t ext[XT_MAX_EXT];
	struct xt_payload payload;
};

/* By hand: payload.seg is long. */
static inline void xt_packet_init(struct xt_packet *p, uint8_t opcode, uint32_t psn)
{
	p->opcode = opcode;
	p->solicited = p->ackreq = false;
	p->psn = psn;
	p->ah = NULL;
	p->ext_len = 0;
	p->payload.n = p->payload.len = 0;
}

void xt_template_build(struct xt_template *t, const struct xt_path *path, uint32_t dqpn,
		       uint32_t udp_sport);
/* Constant for a flow, as multipath wants it: of the flow label (IBTA A17), else of both QPNs */
uint16_t xt_source_port(const struct xt_path *path, uint32_t qpn, uint32_t dqpn);
/*
 * The 40 bytes that stand before a received datagram (IBTA A17.4.5.2): the IPv6 header, or 20 zeros
 * and the IPv4 header. Of a frame, and as it would be of one sent with len bytes of payload.
 */
void xt_grh_of_frame(const struct xt_frame *frame, uint8_t grh[XR_GRH_LEN]);
void xt_grh_of_packet(struct xt_qp *qp, const struct xt_packet *p, uint8_t grh[XR_GRH_LEN]);
/* false: no room, try again in the next round */
bool xt_send(struct xt_qp *qp, const struct xt_packet *p);

static inline void xt_ext_reth(struct xt_packet *p, uint64_t va, uint32_t rkey, uint32_t len)
{
	struct xr_reth reth = { htobe64(va), htobe32(rkey), htobe32(len) };

	memcpy(p->ext + p->ext_len, &reth, sizeof(reth));
	p->ext_len += sizeof(reth);
}

static inline void xt_ext_xrceth(struct xt_packet *p, uint32_t srqn)
{
	struct xr_xrceth eth = { htobe32(srqn & XR_QPN_MASK) };

	memcpy(p->ext + p->ext_len, &eth, sizeof(eth));
	p->ext_len += sizeof(eth);
}

static inline void xt_ext_aeth(struct xt_packet *p, uint32_t syndrome, uint32_t msn)
{
	__be32 aeth = htobe32(syndrome << 24 | (msn & XR_PSN_MASK));

	memcpy(p->ext + p->ext_len, &aeth, sizeof(aeth));
	p->ext_len += sizeof(aeth);
}

static inline void xt_ext_ieth(struct xt_packet *p, uint32_t rkey)
{
	__be32 ieth = htobe32(rkey);

	memcpy(p->ext + p->ext_len, &ieth, sizeof(ieth));
	p->ext_len += sizeof(ieth);
}

/* ---- received packets ---- */

struct xt_rx {
	const struct xt_frame *frame;
	const uint8_t *ext; /* extended headers, as many as the opcode has */
	uint8_t opcode;
	uint16_t flags; /* XR_OPF_* | XR_EXT_* */
	bool solicited, ackreq;
	uint32_t psn; /* 24 bits */
	uint32_t len; /* payload */
};

/* ---- requester.c ---- */

void xt_req_reset(struct xt_qp *qp);
/* Sends up to budget packets; what it cost. More to do: the QP stays active. */
uint32_t xt_req_run(struct xt_qp *qp, uint32_t budget, bool *more);
void xt_req_timeout(struct xt_qp *qp);
/* Timer and in-flight count as unacked and next are now */
void xt_req_update(struct xt_qp *qp, bool progress);
/* Goes back to the oldest PSN not acknowledged. */
void xt_req_go_back(struct xt_qp *qp);
/*
 * What would have asked for an ACK of the last message sent will not be sent: sends that message's last packet again.
 * false: the answer to it is under way.
 */
bool xt_req_resend_ackreq(struct xt_qp *qp);
/* One retry less. false: there was none left, and the QP is in ERR. */
bool xt_req_retry(struct xt_qp *qp);
/* SQD: raises the event when all that was begun has ended. */
void xt_req_check_drained(struct xt_qp *qp);
/* READ: packets of the wire request that starts at a PSN */
uint32_t xt_req_read_span(const struct xt_qp *qp, const struct xt_swqe *w, uint32_t psn);
/*
 * The current work request, of XT_KIND_LOCAL, takes effect. true: look at the queue again; false: it
 * must wait, or the QP is in ERR.
 */
bool xt_req_run_local(struct xt_qp *qp, struct xt_swqe *w);
/* SEND or WRITE: the opcode of its first, last, only or a middle packet */
uint8_t xt_data_opcode(const struct xt_swqe *w, bool first, bool last);
/* The next packet of a SEND or WRITE. false: w->error. */
bool xt_req_build_data(struct xt_qp *qp, struct xt_swqe *w, struct xt_packet *p);
/* Waits for the local ACK timeout, as after a loss. */
void xt_req_arm_ack_timer(struct xt_qp *qp);

/* ---- response.c ---- */

extern const uint16_t xt_credits[XR_AETH_CREDITS_INVALID];

void xt_completer_rx(struct xt_qp *qp, const struct xt_rx *rx);
/* Moves unacked to psn, or to the first missing READ or atomic response. false: that, or ERR. */
bool xt_req_acked(struct xt_qp *qp, uint32_t psn);
void xt_req_progress(struct xt_qp *qp, uint32_t packets);
bool xt_req_store_atomic(struct xt_qp *qp, const struct xt_swqe *w, uint64_t value,
			 struct xt_wc_error *error);
void xt_req_rnr(struct xt_qp *qp, uint32_t code);
void xt_req_nak(struct xt_qp *qp, uint32_t code);

/* ---- responder.c ---- */

/* One packet of a request, or a larger piece on the direct way */
struct xt_request {
	uint8_t op;	/* enum xr_op */
	uint16_t flags; /* XR_OPF_* | XR_EXT_* */
	bool solicited;
	uint32_t psn;
	uint32_t len;	  /* payload */
	uint32_t full;	  /* what a FIRST or MIDDLE must have */
	uint32_t packets; /* PSNs that it stands for */
	uint32_t srqn;	  /* XRCETH */
	uint64_t va;
	uint32_t rkey;
	uint32_t total; /* RETH */
	uint64_t compare, swap_add;
	__be32 imm;
	uint32_t inv_rkey;
	struct xt_source src;
};

enum xt_outcome {
	XT_ACCEPTED,
	XT_RNR,
	XT_REFUSED,	 /* NAK code in *code; the QP is in ERR */
	XT_SOURCE_ERROR, /* direct way: the requester's own memory */
};

void xt_resp_reset(struct xt_qp *qp);
void xt_responder_rx(struct xt_qp *qp, const struct xt_rx *rx);
/* A request with the expected PSN; epsn and msn move. */
enum xt_outcome xt_resp_request(struct xt_qp *qp, const struct xt_request *rq, uint32_t *code,
				struct xt_wc_error *error);
/*
 * Whatever request it is, of XRC the SRQ that it names must be there: its PD counts from now on.
 * Returns -1, or the NAK code.
 */
int xt_resp_select_srq(struct xt_qp *qp, uint32_t srqn);
/* Checks remote access to responder's memory. Returns -1, or the NAK code. */
int xt_resp_check(struct xt_qp *qp, uint32_t access, uint64_t va, uint32_t rkey, uint64_t len,
		  struct xt_mem **mem, uint64_t *off);
/* ERR, with the event that the standard wants for a NAK code */
void xt_resp_refuse(struct xt_qp *qp, uint32_t nak);
/* First packet of the peer */
void xt_resp_established(struct xt_qp *qp);
int xt_resp_atomic(struct xt_qp *qp, const struct xt_request *rq, uint64_t *old);
/*
 * IBTA annex A19: 8 bytes at once. ACCEPTED, REFUSED with *code, SOURCE_FAULT with *error; no state
 * changes.
 */
enum xt_outcome xt_resp_atomic_write(struct xt_qp *qp, const struct xt_request *rq, uint32_t *code,
				     struct xt_wc_error *error);
/* UC: a message begins, with whatever PSN it has; one not ended is lost (IBTA 9.8.2.2). */
void xt_resp_begin_message(struct xt_qp *qp, uint32_t psn);
/* UC: the rest of the message being received is dropped. */
void xt_resp_drop_message(struct xt_qp *qp);
void xt_resp_parse(const struct xt_qp *qp, const struct xt_rx *rx, struct xt_request *rq);

/* ---- answers.c ---- */

/* A fresh entry, NULL where the peer has more outstanding than was agreed (IBTA 9.7.4.1.2). */
struct xt_rd *xt_rd_new(struct xt_qp *qp);
/* It has been filled in. */
void xt_rd_added(struct xt_qp *qp);
/* A request that came before, as the packet psn of then; epsn and msn stay. */
void xt_resp_duplicate(struct xt_qp *qp, const struct xt_request *rq, enum xt_wr_kind kind,
		       uint32_t psn);
void xt_resp_schedule(struct xt_qp *qp, enum xt_ack_due due);
void xt_resp_schedule_ack(struct xt_qp *qp);
/* Sends READ responses and the answer due. */
uint32_t xt_resp_run(struct xt_qp *qp, uint32_t budget, bool *more);

/* ---- unreliable.c ---- */

uint32_t xt_uc_run(struct xt_qp *qp, uint32_t budget, bool *more);
void xt_uc_rx(struct xt_qp *qp, const struct xt_rx *rx);
uint32_t xt_ud_run(struct xt_qp *qp, uint32_t budget, bool *more);
void xt_ud_rx(struct xt_qp *qp, const struct xt_rx *rx);
/* A packet to a multicast group, to each member */
void xt_ud_rx_group(struct xt_engine *e, const struct xt_rx *rx);

/* ---- group.c ---- */

struct xt_group {
	struct xr_addr gid;
	struct xt_qp **member; /* those of an engine stand together */
	uint32_t members;
	struct xt_group *next; /* of the same hash */
};

/* NULL: nobody is attached to it. */
const struct xt_group *xt_group_find(struct xt_groups *t, const struct xr_addr *gid);
/* The first member of its engine: once for each engine */
static inline bool xt_group_first_of_engine(const struct xt_group *g, uint32_t i)
{
	return !i || g->member[i]->engine != g->member[i - 1]->engine;
}

/* ---- ah.c ---- */

/* NULL: no such handle. */
const struct xt_ah *xt_ah_get(const struct xt_ahs *t, uint32_t handle);

/* ---- local.c ---- */

/* true: the lock of another engine is held, if it is another. false: not now. */
bool xt_engine_enter(struct xt_engine *e, struct xt_engine *other);
void xt_engine_leave(struct xt_engine *e, struct xt_engine *other);

uint32_t xt_loopback_run(struct xt_qp *qp, uint32_t budget, bool *more);

#endif /* XT_INTERNAL_H */
