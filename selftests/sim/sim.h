/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Deterministic simulation of hosts that communicate through the transport engine.
 *
 *   plan.c        derives hosts, connections, faults and operations from a seed
 *   host.c        memory, keys, CQs, engines and their rounds
 *   memory.c      memory that is not mapped
 *   net.c         the network: time, faults, checks of every packet sent
 *   udp.c         hosts whose packets pass through UDP sockets, and their kernel
 *   qp.c          rings, QPs of each type, connection setup
 *   client.c      a program: posts the planned operations and polls
 *   verify.c      checks of completions, packets and memory
 *   unreliable.c  UC, UD and multicast: destinations, and checks of the messages that arrive
 *   srq.c         shared receive queues, also for XRC
 *   script.c      deliberate errors and state changes, closing of connections
 *   main.c        seeds and the loop over virtual time
 *
 * To add an operation: plan_opcode() in plan.c plans it, prepare() in client.c allocates its
 * memory, qp_post_send() in qp.c makes its WQE, send_succeeded() and recv_succeeded() in verify.c
 * check its effect. To add a QP type: choose_type(), add_queues() and mask_for().
 *
 * All memory is compared with a shadow copy: every byte that no operation may have changed must be
 * unchanged.
 */
#ifndef SIM_H
#define SIM_H

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/faults/faults.h"
#include "daemon/transport/memory/ending.h"
#include "daemon/transport/transport.h"
#include "daemon/transport/wire/icrc.h"
#include "rng.h"
#include "selftests/lib/flights.h"

#define NEVER UINT64_MAX
#define USEC 1000ull
#define MSEC 1000000ull
#define SEC 1000000000ull

#define MAX_HOSTS 3
#define MAX_ENGINES 2
#define MAX_CONNS 16
#define MAX_MRS 8
#define MAX_SEGS 6
#define MAX_PIECES XR_MAX_SGE
#define MAX_COUNTERS 4
#define SCRATCH_WORDS 32
#define RESERVED_SIZE (64u << 10)
#define MAX_RESERVED 4 /* connections with dedicated regions */
#define MAX_SRQS 4     /* per host, half of them for XRC */
#define XRC_DOMAIN 7
#define MAX_GROUPS 2 /* multicast groups */
#define QKEY 0x1234567
/* Size of receives that are not posted for a known message; maximum length of SENDs to such QPs */
#define RECV_ROOM 4096

struct world;
struct sim_io;
struct sim_qp;
struct sim_udp;

/* ---- hosts --------------------------------------------------------------- */

/* A range of a host's memory that is used by a posted operation */
struct claim {
	uint32_t off, len;
	bool exclusive;
	bool frozen; /* the key was removed: the contents must not change any more */
	bool lost;   /* the operation failed: the contents are undefined */
	const void *owner;
};

struct sim_mr {
	struct xt_key *key;
	struct xt_mem mem;
	struct xt_mem_seg seg[MAX_SEGS];
	uint32_t off, len; /* in the host's memory */
	uint32_t value;	   /* of the key, also after its removal */
	bool reserved;	   /* for one connection */
	bool hung;	   /* accesses never end */
	bool failing;	   /* some accesses fail */
	bool ending;	   /* has no key; writes that have started go on */
};

/* A word for atomics of all QPs */
struct counter {
	uint32_t off;
	bool swaps;
	uint64_t initial;
	uint64_t guess; /* likely current value, used as compare operand */
	struct atomic_result {
		uint64_t old, compare, operand;
		bool known; /* false: failed, so it may or may not have been executed */
	} * result;
	unsigned count, room;
};

struct sim_cq {
	struct xt_cq cq;
	struct host *host;
	struct xr_queue *queue;
	uint32_t depth;
	uint32_t consumer;
	uint32_t seen;	/* producer when the program was last woken */
	bool events;	/* polled after events, as with a completion channel */
	bool late_arm;	/* of these: armed last, however many completions are left */
	bool solicited; /* armed for solicited completions only, polled at any time */
	bool event;	/* received since the CQ was armed */
	bool event_due; /* expected since the CQ was armed */
};

struct sim_engine {
	struct world *w;
	struct host *host;
	struct xt_engine *engine;
	uint64_t wake;
	struct sim_udp *udp; /* NULL: packets pass through an AF_XDP socket */
	struct frame *inbox, **inbox_tail;
	unsigned inbox_len;
	unsigned tx_room;
	bool in_round, locked;
	struct xt_mem_pool pool; /* staging memory */
	uint32_t staged;	 /* bytes in use */
	uint64_t room_at;	 /* next xt_mem_io_room() */
	unsigned granted;	 /* allocations that do not fail at random */
	unsigned idle_rounds;
	struct sim_qp **rung;
	unsigned rung_count;
};

struct host {
	struct world *w;
	unsigned index;
	uint8_t *mem, *shadow;
	uint32_t size;
	struct sim_mr mr[MAX_MRS + 2 * MAX_RESERVED];
	unsigned mrs;
	struct claim *claims;
	unsigned claim_count, claim_room;
	struct counter counter[MAX_COUNTERS];
	unsigned counters;
	struct xt_shared shared;
	struct xr_psn_entry *psns;
	struct sim_engine engine[MAX_ENGINES];
	unsigned engines;
	struct sim_cq *cq[4 * MAX_CONNS + 3];
	unsigned cqs;
	struct sim_cq *common_cq;
	struct xt_ahs *ahs;  /* one per PD, IP version, and host or group */
	struct sim_srq *srq; /* MAX_SRQS */
	unsigned srqs;
	struct sim_cq *xrc_cq[2]; /* CQs of XRC SRQs */
	uint32_t reserved_off;	  /* offset of the next dedicated region */
	uint64_t link_free;
	bool cut;	    /* disconnected from the network */
	bool sockets;	    /* packets pass through UDP sockets */
	uint64_t datagrams; /* that UDP sockets have received */
};

/* ---- operations ---------------------------------------------------------- */

struct piece {
	uint32_t mr;
	uint32_t off; /* in the host's memory */
	uint32_t len;
};

enum breakage {
	BREAK_NONE,
	/* unreliable types: the message is dropped */
	BREAK_QKEY,
	BREAK_TOO_LONG,
	/* refused by the responder */
	BREAK_SRQN,
	BREAK_RKEY_INDEX,
	BREAK_RKEY_VARIANT,
	BREAK_RKEY_PD,
	BREAK_RKEY_ACCESS,
	BREAK_RANGE_LOW,
	BREAK_RANGE_HIGH,
	BREAK_RANGE_WRAP,
	BREAK_ALIGN,
	BREAK_RECV_SMALL,
	BREAK_RECV_LKEY,
	BREAK_RNR,
	/* refused by the requester */
	BREAK_LKEY,
	BREAK_LKEY_RANGE,
	BREAK_LKEY_ACCESS,
	BREAK_LKEY_PD,
	BREAK_OPCODE,
	BREAK_SGE_COUNT,
	BREAK_COUNT
};

enum op_state { OP_PLANNED, OP_POSTED, OP_DONE, OP_FAILED, OP_ABORTED };

struct sim_op {
	uint8_t opcode; /* enum xr_wr_opcode */
	uint8_t flags;
	uint8_t state;	/* enum op_state */
	uint8_t broken; /* enum breakage */
	bool takes_recv;
	bool received; /* the peer's receive completed */
	bool chained;  /* sends the data of the preceding READ, with a fence */
	bool scratch;  /* accesses the scratch words of the QP, in program order */
	bool flush_mr; /* FLUSH of a whole region */
	uint8_t nsge;
	uint32_t len;
	__be32 imm;
	struct piece sge[MAX_PIECES];
	struct piece remote;
	uint32_t rkey; /* as posted, i.e. including the error of a broken operation */
	uint64_t raddr;
	struct sim_srq *srq; /* XRC: the destination */
	struct sim_qp *to;   /* unreliable: destination, or one of a group; NULL: not chosen */
	uint32_t ah, remote_qpn, group; /* UD. group: 0: unicast, else multicast group + 1 */
	/* unreliable, one bit per QP: destinations, QPs that must receive it, QPs that did */
	uint32_t targets, expected, got;
	bool promised; /* unreliable: counted in sim_qp.promised of its destinations */
	struct counter *counter;
	uint64_t compare, operand;
	uint8_t *data;	      /* contents of the message */
	uint32_t word, words; /* scratch */
};

struct sim_recv {
	uint8_t state; /* enum op_state */
	uint8_t broken;
	uint8_t nsge;
	uint32_t len;
	struct piece sge[MAX_PIECES];
	struct sim_op *op; /* the peer's operation that must complete it; NULL: none or unknown */
};

/* ---- queue pairs --------------------------------------------------------- */

struct ring {
	struct xr_queue *queue; /* NULL: none */
	uint32_t depth, stride, producer;
};

struct sim_srq {
	struct host *host;
	unsigned id; /* differs from all QP ids */
	uint32_t pd, max_sge, slot;
	struct ring ring;
	struct xt_srq xt;
	struct sim_cq *cq; /* XRC only; NULL: completions go to the CQ of the QP */
	struct sim_recv *recvs;
	unsigned room, next, base; /* base: receive at index 0 of the ring */
	unsigned waiting;	   /* posted and not polled */
	unsigned lost;		   /* QPs that ended and may have used a receive */
	uint32_t limit;		   /* limit that is armed; 0: not armed */
	uint32_t taken_at_arm;	   /* consumer index when the limit was armed */
};

struct sim_qp {
	struct conn *conn;
	struct world *w;
	struct host *host;
	struct sim_engine *engine;
	struct xt_qp *qp; /* NULL: destroyed */
	uint32_t type;	  /* enum xr_qp_type */
	uint32_t qpn, id, pd;
	struct sim_qp *peer;
	struct sim_cq *scq, *rcq;
	struct ring sq, rq;
	struct sim_srq *srq; /* instead of rq; NULL: none */
	uint32_t max_send_sge, max_recv_sge, max_inline;
	bool sig_all;
	struct xt_path path;
	uint32_t sq_psn;
	uint8_t rd_atomic;
	bool rung;

	struct sim_op *ops;
	unsigned op_count; /* planned */
	unsigned op_next;  /* next to be posted */
	unsigned op_head;  /* oldest one not known to be complete */
	unsigned op_base;  /* operation at index 0 of the ring */
	unsigned since_signal;
	struct sim_recv *recvs;
	unsigned recv_room, recv_next, recv_head, recv_base;
	unsigned recv_cursor; /* peer's operation that the next receive is for */
	unsigned recv_match;  /* SRQ: peer's operation before which all messages were received */
	unsigned extra_recvs;
	/* unreliable */
	uint32_t groups;   /* multicast, one bit per group */
	unsigned promised; /* messages sent to this QP that need a receive */
	bool overdrawn;	   /* messages were sent to this QP without a receive for them */
	/* by sender and group: index after the latest message received */
	unsigned received_upto[2 * MAX_CONNS][1 + MAX_GROUPS];
	unsigned waited; /* steps in which it waited for receives of its peers */
	bool in_sqe;

	uint64_t step;		 /* time of the program's next step */
	unsigned starved;	 /* consecutive steps without free memory */
	bool sq_error, rq_error; /* an error completion was polled */
	bool in_error;		 /* in ERR */
	bool ready;		 /* has reached RTS: may post sends */
	bool drained;
	bool quiet;	      /* drained: must not send requests */
	uint32_t rate, burst; /* kbit/s, 0: no limit; bytes */
	double tokens;	      /* bytes that the rate limit allows now */
	uint64_t tokens_at;
	unsigned async[32];    /* events, by type */
	uint32_t scratch_off;  /* in the peer's memory */
	struct xt_key *window; /* memory window that its operations bind and invalidate */
};

enum script {
	SCRIPT_NONE,
	SCRIPT_BREAK, /* one operation is invalid */
	SCRIPT_CUT,   /* one host is disconnected */
	SCRIPT_ERR,   /* a program moves its QP to ERR */
	SCRIPT_RESET, /* both QPs are reset with packets in flight, and connected again */
	SCRIPT_DESTROY,
	SCRIPT_SQD,
	SCRIPT_DEREG,
	SCRIPT_FAULT, /* the memory of a region breaks */
	SCRIPT_HANG,  /* accesses to a region never end from now on */
	SCRIPT_COUNT
};

enum conn_phase { CONN_RUNNING, CONN_CLOSING, CONN_CLOSED };

struct conn {
	unsigned index;
	uint32_t type;	     /* of the first QP */
	struct sim_qp qp[2]; /* XRC: initiator and target */
	uint32_t mtu;
	uint8_t timeout, retry_cnt, rnr_retry, rnr_timer;
	bool local;
	uint8_t phase;	/* enum conn_phase */
	uint8_t script; /* enum script */
	uint8_t victim; /* side that the script acts on */
	uint8_t step;	/* of the script, later of closing */
	bool broken;	/* errors are expected from now on */
	uint64_t script_at;
	uint64_t close_at; /* next step of closing, or latest time to start it */
	uint64_t drain_by; /* when the send queue must be drained */
	uint64_t slow;	   /* delay of one side's transition to RTS */
	uint64_t ready_at;
	uint8_t slow_side;
	uint64_t late_recv; /* maximum delay of posting receives */
	int mr[2];	    /* region dedicated to this connection; -1: none */
	uint64_t pace;	    /* maximum time between two steps of its programs */
};

/* ---- the network --------------------------------------------------------- */

struct frame {
	struct flight flight;
	struct frame *next;
	unsigned from, to;
	bool invalid; /* corrupted or forged */
	bool damaged; /* corrupted */
	/* packets > 1: a large frame; `first` are the bytes of the first of them, with headers */
	uint32_t len, packets, first;
	struct xr_meta meta;
	uint8_t data[];
};

struct world {
	struct rng rng;	  /* the plan */
	struct rng sched; /* scheduling of programs and workers */
	uint64_t seed;
	bool verbose;
	jmp_buf failed;
	char what[512];

	uint64_t now;
	uint64_t steps;
	struct host host[MAX_HOSTS];
	unsigned hosts;
	struct conn conn[MAX_CONNS];
	unsigned conns;

	struct flights flights;
	uint64_t frame_seq;
	struct xd_faults *faults;
	uint64_t latency;
	unsigned inbox_max;
	unsigned forge; /* per mille of packets after which a forged one is sent */
	bool large;	/* hosts may send large frames to each other */
	bool xdp_checks;
	bool private_tier;
	bool async_tier;      /* accesses to memory that is not mapped take time */
	uint64_t mem_latency; /* of an access, at most; sometimes ten times as long */
	uint32_t staging;     /* bytes of each engine */
	unsigned no_staging;  /* percent of allocations that fail */
	struct sim_io *io;    /* accesses that are not finished */
	bool tight_tx;
	bool big;
	bool deep;	   /* long send queues with many READs and atomics */
	uint64_t arrivals; /* unreliable messages that had to arrive */
	uint64_t accesses, posted_pieces, packets, ops_done, errors_seen, gave_up, forged;
	/* UDP sockets: packets forwarded to their worker; with another IPv4 ID than assumed */
	uint64_t forwarded, other_ids, large_frames;
	unsigned reserved;
};

/* Reports a failure and ends the run of this seed. */
__attribute__((noreturn, format(printf, 2, 3))) void sim_fail(struct world *w, const char *fmt,
							      ...);
#define CHECK(w, cond, ...)                                                                        \
	do {                                                                                       \
		if (!(cond))                                                                       \
			sim_fail(w, __VA_ARGS__);                                                  \
	} while (0)
__attribute__((format(printf, 2, 3))) void sim_trace(struct world *w, const char *fmt, ...);
#define TRACE(w, ...)                                                                              \
	do {                                                                                       \
		if ((w)->verbose)                                                                  \
			sim_trace(w, __VA_ARGS__);                                                 \
	} while (0)

/* plan.c */
void plan_world(struct world *w);
void plan_free(struct world *w);

/* host.c */
bool world_is_lossy(const struct world *w);
/* Creates address handles to all hosts and groups; all hosts must be initialised. */
void host_add_ahs(struct host *h);
/* Returns the AH to host @place, or to group @place - MAX_HOSTS. */
uint32_t host_ah(const struct sim_qp *q, unsigned place);
/* host->sockets must be set. */
void host_init(struct world *w, struct host *h, unsigned index, uint32_t size, unsigned engines);
void host_free(struct host *h);
struct sim_mr *host_add_mr(struct host *h, uint32_t off, uint32_t len, uint32_t pd,
			   uint32_t access);
/* Marks the region: its contents must not change any more. */
void host_freeze(struct host *h, const struct sim_mr *mr);
/* Removes the key. The region ends when the writes that have started have ended. */
void host_del_mr(struct host *h, struct sim_mr *mr);
void host_end_mrs(struct host *h);
struct sim_cq *host_add_cq(struct host *h, uint32_t depth);
void host_resize_cq(struct sim_cq *cq);
void host_arm(struct sim_cq *cq);
void host_moderate(struct sim_cq *cq, uint32_t count, uint32_t period_us);
uint64_t mr_va(const struct sim_mr *mr, uint32_t off);
/* Claims @len free bytes of a region with @access. Returns false if there are none now. */
bool host_claim(struct host *h, int only_mr, uint32_t pd, uint32_t len, uint32_t access,
		bool exclusive, uint32_t align, const void *owner, struct piece *out);
/* Splits @len bytes into @n pieces, some possibly empty, and claims each. */
bool host_claim_pieces(struct host *h, int only_mr, uint32_t pd, uint32_t len, unsigned n,
		       uint32_t access, bool exclusive, const void *owner, struct piece *out);
/* Adds an owner to bytes that are already claimed. */
void host_claim_too(struct host *h, const struct piece *p, const void *owner);
void host_release(struct host *h, const void *owner);
void host_lose(struct host *h, const void *owner);
void host_fill(struct host *h, uint32_t off, const uint8_t *data, uint32_t len);
void engine_wake(struct sim_engine *e, uint64_t when);
void engine_round(struct sim_engine *e);
void engine_ring(struct sim_qp *q);
void engine_deliver(struct sim_engine *e, struct frame *f);

/* memory.c */
const struct xt_mem_ops *memory_ops(const struct world *w);
uint64_t memory_next(const struct world *w);
void memory_run(struct world *w);
void memory_stop(struct world *w, const struct sim_mr *mr);
/* A write to the region has started and has not ended. */
bool memory_writing(const struct host *h, const struct sim_mr *mr);
void memory_hang(struct world *w, struct sim_mr *mr);
void memory_fail(struct sim_mr *mr);
void memory_free(struct world *w);

/* net.c */
void net_arrive(struct world *w); /* removes and delivers the first frame */
bool net_tx_get(void *ctx, uint32_t len, struct xt_frame *frame);
void net_tx_put(void *ctx, struct xt_frame *frame);
uint32_t net_large_packets(void *ctx, const struct xt_path *path, uint32_t dqpn, uint32_t want);
bool net_send_large(void *ctx, const struct xt_frame *frame);
/* Sends a frame that is complete to its destinations, and frees it. */
void net_send(struct sim_engine *e, struct frame *f);
void host_gid(const struct host *h, int version, struct xr_addr *gid);
void group_gid(unsigned group, int version, struct xr_addr *gid);
void host_mac(const struct host *h, uint8_t *mac);

/* udp.c */
void udp_open(struct sim_engine *e);
void udp_close(struct sim_engine *e);
void udp_tune(const struct sim_engine *e, struct xt_tuning *t);
bool udp_tx_get(struct sim_engine *e, uint32_t len, struct xt_frame *frame);
void udp_tx_put(struct sim_engine *e, const struct xt_frame *frame);
/* more: packets may wait for those of the next round. Returns true if some wait. */
bool udp_flush(struct sim_engine *e, bool more);
/* The kernel receives a packet. Returns why it drops it; NULL: it does not. */
const char *udp_arrive(struct host *h, struct frame *f);
/* Passes up to `most` received packets to the engine. */
void udp_receive(struct sim_engine *e, unsigned most);
bool udp_has_received(struct sim_engine *e);

/* qp.c */
void ring_new(struct ring *r, uint32_t depth, uint32_t stride);
void ring_post_recv(struct host *h, struct ring *ring, const struct sim_recv *r, uint64_t wr_id);
void qp_create(struct sim_qp *q);
void qp_destroy(struct sim_qp *q);
void qp_modify(struct sim_qp *q, uint32_t state);
void qp_set_path(struct sim_qp *q, int version, uint32_t flow_label, uint16_t vlan);
void qp_post_send(struct sim_qp *q, const struct sim_op *op, uint64_t wr_id);
void conn_connect(struct conn *c);
void conn_ready(struct conn *c);
struct sim_qp *qp_by_num(struct host *h, uint32_t qpn);

static inline bool is_xrc(const struct sim_qp *q)
{
	return q->type == XR_QPT_XRC_SEND || q->type == XR_QPT_XRC_RECV;
}

static inline bool is_unreliable(const struct sim_qp *q)
{
	return q->type == XR_QPT_UC || q->type == XR_QPT_UD;
}

/* True if receives are assigned to messages when these arrive, not when the receives are posted. */
static inline bool takes_any(const struct sim_qp *q)
{
	return q->srq || q->type == XR_QPT_XRC_RECV || is_unreliable(q);
}

/* XRC uses the PD of the SRQ, not of the target. */
static inline uint32_t remote_pd(const struct sim_qp *q, const struct sim_op *op)
{
	return op->srq ? op->srq->pd : q->peer->pd;
}

/* True for WRs that change keys and send no packet. */
static inline bool is_local_op(const struct sim_op *op)
{
	return op->opcode == XR_WR_BIND_MW || op->opcode == XR_WR_LOCAL_INV;
}

/* srq.c */
#define FIRST_SRQ_ID (2 * MAX_CONNS)
void srq_plan(struct host *h);
void srq_free(struct host *h);
struct sim_srq *srq_choose(struct host *h, bool xrc);
bool srq_wants(const struct sim_srq *s);
/* Posts a random number of receives. Returns false if there is no free memory. */
bool srq_post(struct sim_srq *s);
void srq_limit_reached(struct sim_srq *s);
/* Returns the receive of a completion. */
struct sim_recv *srq_completed(struct sim_srq *s, const struct xr_cqe *cqe);
/* Counts a QP that ends without flushing a receive of the SRQ that it may have used. */
void srq_lose(struct sim_srq *s);
void srq_verify_end(struct sim_srq *s);

/* unreliable.c */
/* Chooses the destination of a message. */
void unreliable_aim(struct sim_qp *q, struct sim_op *op);
/* Returns false if the program should wait for receives of the destinations. */
bool unreliable_may_post(struct sim_qp *q, struct sim_op *op);
bool unreliable_fails_locally(const struct sim_qp *q, const struct sim_op *op);
void unreliable_sent(struct sim_qp *q, struct sim_op *op);
void unreliable_failed(struct sim_qp *q, struct sim_op *op);
void unreliable_recover(struct sim_qp *q);
/* Checks a completed receive and returns its message. */
struct sim_op *unreliable_received(struct sim_qp *q, struct sim_recv *r, const struct xr_cqe *cqe);
void unreliable_verify_end(struct sim_qp *q);

/* client.c */
bool may_post(const struct sim_qp *q);
/* @of: QP or SRQ */
#define WR_ID(of, recv, index) ((uint64_t)(of)->id << 32 | (uint64_t)(recv) << 31 | (index))
void client_step(struct sim_qp *q);
/* True if all planned operations are complete, or no more can be posted. */
bool client_idle(const struct sim_qp *q);
/* Polls up to @budget completions. Returns false if there are more. */
bool client_poll(struct sim_cq *cq, unsigned budget);
/* Releases the operation's memory, or marks its contents as undefined. */
void op_release(struct sim_qp *q, const struct sim_op *op);
void op_lose(struct sim_qp *q, const struct sim_op *op);
/*
 * Returns the peer's operation whose message is the next one to a QP with an SRQ, or NULL. @s: XRC
 * SRQ of the message; NULL: any.
 */
struct sim_op *next_message(struct sim_qp *q, const struct sim_srq *s);
/* Posts WRs to a QP in ERR, which must be flushed. */
void client_post_in_err(struct sim_qp *q);
/* Discards the posted WRs after RESET: they will not complete. */
void client_abort(struct sim_qp *q);

/* verify.c */
void verify_completion(struct sim_cq *cq, const struct xr_cqe *cqe);
/* Checks that a CQ armed for solicited completions raised an event if one was due; arms it. */
void verify_solicited(struct sim_cq *cq);
void verify_packet(struct world *w, struct host *h, struct host *dest,
		   const struct xt_frame *frame);
/* Completes unsignalled operations at the end of the queue. */
void verify_unsignalled(struct sim_qp *q);
void verify_end(struct world *w);
void atomic_done(struct sim_op *op, uint64_t old, bool known);
uint64_t scratch_tag(const struct sim_qp *q, unsigned index, uint32_t word);

/* script.c */
void script_plan(struct world *w, struct conn *c);
void script_run(struct world *w, struct conn *c);
/* Starts and continues closing a connection that is idle. */
void script_close(struct world *w, struct conn *c);
const char *script_name(unsigned script);
const char *break_name(unsigned broken);

#endif /* SIM_H */
