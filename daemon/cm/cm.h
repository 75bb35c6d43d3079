/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CM engine: connection management by MADs (IBTA vol. 1 chapter 12) for RC, UC and XRC, and
 * service ID resolution (SIDR) for UD. The engine has no sockets, clocks or files: received MADs
 * are passed in; MADs to be sent and events are passed to callbacks; time and random numbers come
 * from callbacks. The daemon, the simulation, the fuzzers and the unit tests drive the same code.
 *
 * An engine is used by one thread. Its state is a set of ids, one for each connection or SIDR
 * exchange. There is no table of listeners: an event reports each new REQ and SIDR_REQ, and the
 * user of the engine accepts, rejects or ignores it.
 *
 *   active side                               passive side
 *   xc_connect()            -- REQ -->        XC_EVENT_REQ with a new id
 *   XC_EVENT_REP            <-- REP --        xc_accept()
 *   xc_establish()          -- RTU -->        XC_EVENT_ESTABLISHED
 *
 *   xc_disconnect()         -- DREQ -->       XC_EVENT_DREQ
 *   XC_EVENT_DISCONNECTED   <-- DREP --       xc_reply_disconnect()
 *   XC_EVENT_TIMEWAIT_EXIT                    XC_EVENT_TIMEWAIT_EXIT
 *
 *   xc_sidr_request()       -- SIDR_REQ -->   XC_EVENT_SIDR_REQ with a new id
 *   XC_EVENT_SIDR_REP       <-- SIDR_REP --   xc_sidr_reply()
 *
 * The user owns the ids, and calls xc_destroy() for each, also after its exchange has ended. Every
 * function may be called by the event callback, also xc_destroy() for the id of the event.
 * Functions that return an int return 0 or a negative errno: -EINVAL if the state of the id does
 * not allow the call or a parameter is out of range.
 *
 * All numbers are in host byte order. Timeouts in messages are codes: 4.096 us * 2^code. Times are
 * nanoseconds of a monotonic clock. docs/protocol.md describes timers, duplicates and limits.
 */
#ifndef XC_CM_H
#define XC_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/gid.h>

#define XC_MAD_LEN 256
#define XC_NEVER UINT64_MAX

struct xc_cm;
struct xc_id;

/* ---- messages ---------------------------------------------------------------- */

/* In the order of their attribute IDs, which start at 0x10. X(name) */
#define XC_KINDS(X)                                                                                \
	X(REQ) X(MRA) X(REJ) X(REP) X(RTU) X(DREQ) X(DREP) X(SIDR_REQ) X(SIDR_REP) X(LAP) X(APR)

enum xc_kind {
#define XC_KIND(name) XC_##name,
	XC_KINDS(XC_KIND)
#undef XC_KIND
		XC_NUM_KINDS
};

/* Returns the name as in the specification, for example "SIDR_REQ". */
const char *xc_kind_name(enum xc_kind kind);

/* Bytes of private data in a message */
#define XC_REQ_DATA 92
#define XC_MRA_DATA 222
#define XC_REJ_DATA 148
#define XC_REP_DATA 196
#define XC_RTU_DATA 224
#define XC_DREQ_DATA 220
#define XC_DREP_DATA 224
#define XC_SIDR_REQ_DATA 216
#define XC_SIDR_REP_DATA 136

#define XC_REJ_ARI 72	    /* bytes of additional reject information */
#define XC_SIDR_REP_INFO 72 /* bytes of additional information */

/*
 * Private data. In messages to be sent: up to the length of the field, zeros follow. In received
 * messages: the whole field, valid during the event.
 */
struct xc_data {
	const void *data;
	uint8_t len;
};

/* XC_OTHER: in received messages only; the engine rejects such a REQ. */
enum xc_transport { XC_RC, XC_UC, XC_XRC, XC_OTHER };

/* The path of a MAD, and the primary path of a connection */
struct xc_path {
	struct xr_addr local, peer; /* GIDs; local is the source of MADs that are sent */
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;
};

/*
 * REQ (IBTA 12.6.5). responder_resources, initiator_depth and timeouts are as the sender of the
 * message states them: "remote" is the passive side. The requester of XRC has no responder and no
 * SRQ (IBTA A14), so its responder_resources, retry_count, rnr_retry_count and srq should be 0.
 */
struct xc_req {
	struct xc_path path; /* received: local is the receiver */
	uint64_t service_id;
	uint64_t guid;	       /* of the sender; xc_connect() sets it */
	uint8_t transport;     /* enum xc_transport */
	uint32_t qpn, qkey;    /* of the sender */
	uint32_t starting_psn; /* the first PSN that the sender expects to receive */
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_response_timeout, local_response_timeout;
	uint8_t max_cm_retries;
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout; /* local ACK timeout of the primary path */
	uint8_t mtu;	     /* enum ibv_mtu */
	uint8_t rate;
	uint16_t pkey;
	bool flow_control, srq;
	uint32_t vendor_id, ece_options; /* enhanced connection establishment; 0: none */
	struct xc_data data;
};

/*
 * REP (IBTA 12.6.8). The target of XRC has no requester and receives through SRQs, so its
 * initiator_depth and flow_control should be 0, and srq true.
 */
struct xc_rep {
	uint64_t guid; /* of the sender; xc_accept() sets it */
	uint32_t qpn;  /* of the sender. XRC: of the target QP */
	uint32_t eecn; /* field for the QPN of XRC; the engine copies it from and to qpn */
	uint32_t qkey;
	uint32_t starting_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t target_ack_delay;
	uint8_t failover; /* 0: accepted, 1: not supported, 2: rejected */
	uint8_t rnr_retry_count;
	bool flow_control, srq;
	uint32_t vendor_id, ece_options;
	struct xc_data data;
};

/* The message that an MRA or REJ refers to */
enum xc_message { XC_MESSAGE_REQ, XC_MESSAGE_REP, XC_MESSAGE_OTHER };

/* REJ (IBTA 12.6.7) */
struct xc_rej {
	uint8_t message; /* enum xc_message; xc_reject() sets it */
	uint16_t reason; /* enum xc_reason */
	struct xc_data ari;
	struct xc_data data;
};

/* MRA (IBTA 12.6.6) */
struct xc_mra {
	uint8_t message; /* enum xc_message */
	uint8_t service_timeout;
	struct xc_data data;
};

/* DREQ (IBTA 12.6.10) */
struct xc_dreq {
	uint32_t qpn; /* of the receiver */
	struct xc_data data;
};

/* RTU and DREP (IBTA 12.6.9, 12.6.11) */
struct xc_plain {
	struct xc_data data;
};

/* SIDR_REQ (IBTA 12.11.1); its request ID is local_id of struct xc_msg */
struct xc_sidr_req {
	uint64_t service_id;
	uint16_t pkey;
	struct xc_data data;
};

enum xc_sidr_status {
	XC_SIDR_OK,
	XC_SIDR_UNSUPPORTED, /* no listener */
	XC_SIDR_REJECTED,
	XC_SIDR_NO_QP,
	XC_SIDR_REDIRECT,
	XC_SIDR_VERSION, /* class version not supported */
};

/* SIDR_REP (IBTA 12.11.2); its request ID is remote_id of struct xc_msg */
struct xc_sidr_rep {
	uint8_t status; /* enum xc_sidr_status */
	uint32_t qpn, qkey;
	uint64_t service_id;
	uint32_t vendor_id, ece_options;
	struct xc_data info;
	struct xc_data data;
};

/* LAP (IBTA 12.8.1): alternate paths are not supported, so only the QPN is decoded. */
struct xc_lap {
	uint32_t qpn; /* of the receiver */
};

struct xc_apr {
	uint8_t status; /* 1: invalid communication ID, 2: not supported, ... (IBTA 12.8.2) */
	struct xc_data info;
};

struct xc_msg {
	enum xc_kind kind;
	uint64_t tid;
	uint32_t local_id, remote_id; /* communication IDs of the sender and of the receiver */
	union {
		struct xc_req req;
		struct xc_rep rep;
		struct xc_rej rej;
		struct xc_mra mra;
		struct xc_plain rtu, drep;
		struct xc_dreq dreq;
		struct xc_sidr_req sidr_req;
		struct xc_sidr_rep sidr_rep;
		struct xc_lap lap;
		struct xc_apr apr;
	};
};

/* REJ reasons (IBTA 12.6.7.2). X(number, name, text) */
/* clang-format off */
#define XC_REASONS(X)                                                                              \
	X(1, NO_QP, "no QP available")                                                             \
	X(2, NO_EEC, "no EE context available")                                                    \
	X(3, NO_RESOURCES, "no resources")                                                         \
	X(4, TIMEOUT, "timeout")                                                                   \
	X(5, UNSUPPORTED, "unsupported request")                                                   \
	X(6, COMM_ID, "invalid communication ID")                                                  \
	X(7, COMM_INSTANCE, "invalid communication instance")                                      \
	X(8, SERVICE_ID, "invalid service ID")                                                     \
	X(9, TRANSPORT, "invalid transport service type")                                          \
	X(10, STALE, "stale connection")                                                           \
	X(11, RDC, "RDC does not exist")                                                           \
	X(12, GID, "primary remote GID rejected")                                                  \
	X(13, LID, "primary remote LID rejected")                                                  \
	X(14, SL, "invalid primary SL")                                                            \
	X(15, TRAFFIC_CLASS, "invalid primary traffic class")                                      \
	X(16, HOP_LIMIT, "invalid primary hop limit")                                              \
	X(17, RATE, "invalid primary packet rate")                                                 \
	X(18, ALT_GID, "alternate remote GID rejected")                                            \
	X(19, ALT_LID, "alternate remote LID rejected")                                            \
	X(20, ALT_SL, "invalid alternate SL")                                                      \
	X(21, ALT_TRAFFIC_CLASS, "invalid alternate traffic class")                                \
	X(22, ALT_HOP_LIMIT, "invalid alternate hop limit")                                        \
	X(23, ALT_RATE, "invalid alternate packet rate")                                           \
	X(24, CM_REDIRECT, "port and CM redirection")                                              \
	X(25, REDIRECT, "port redirection")                                                        \
	X(26, MTU, "invalid path MTU")                                                             \
	X(27, RESPONDER_RESOURCES, "insufficient responder resources")                             \
	X(28, CONSUMER, "consumer reject")                                                         \
	X(29, RNR_RETRY, "RNR retry count rejected")                                               \
	X(30, DUPLICATE_COMM_ID, "duplicate local communication ID")                               \
	X(31, CLASS_VERSION, "invalid class version")                                              \
	X(32, FLOW_LABEL, "invalid primary flow label")                                            \
	X(33, ALT_FLOW_LABEL, "invalid alternate flow label")                                      \
	X(35, VENDOR, "vendor option not supported")
/* clang-format on */

enum xc_reason {
#define XC_REASON(number, name, text) XC_REJ_##name = number,
	XC_REASONS(XC_REASON)
#undef XC_REASON
		XC_NUM_REASONS
};

/* Returns the text of a reason, or NULL if the number is not assigned. */
const char *xc_reason_text(unsigned reason);

/* ---- RDMA IP CM ---------------------------------------------------------------- */

/*
 * The RDMA IP CM service (IBTA annex A11): service IDs that contain an RDMA port space and a port,
 * and a header at the start of the private data of REQ and SIDR_REQ that contains addresses.
 */
#define XC_IP_HEADER_LEN 36

static inline uint64_t xc_ip_service_id(uint16_t port_space, uint16_t port)
{
	return (uint64_t)port_space << 16 | port;
}

struct xc_ip_header {
	uint8_t ip_version;	 /* 4 or 6 */
	uint16_t src_port;	 /* host byte order */
	struct xr_addr src, dst; /* IPv4: in IPv4-mapped form */
};

/* Writes XC_IP_HEADER_LEN bytes. */
void xc_ip_header_put(uint8_t *p, const struct xc_ip_header *h);
/* Reads XC_IP_HEADER_LEN bytes. Returns false if version or IP version are not supported. */
bool xc_ip_header_get(const uint8_t *p, struct xc_ip_header *h);

/* ---- engine -------------------------------------------------------------------- */

enum xc_event_type {
	XC_EVENT_REQ,		/* new id; call xc_accept(), xc_reject() or xc_ignore() */
	XC_EVENT_REP,		/* call xc_establish() or xc_reject() */
	XC_EVENT_ESTABLISHED,	/* RTU; no message after xc_notify_established() */
	XC_EVENT_REJECTED,	/* REJ; the exchange ended */
	XC_EVENT_UNREACHABLE,	/* no response to REQ, REP or SIDR_REQ; status is -ETIMEDOUT */
	XC_EVENT_DREQ,		/* call xc_reply_disconnect(), unless both sides sent a DREQ */
	XC_EVENT_DISCONNECTED,	/* DREP; no message and -ETIMEDOUT if the peer did not respond */
	XC_EVENT_TIMEWAIT_EXIT, /* the last event of a connection that was established */
	XC_EVENT_SIDR_REQ,	/* new id; call xc_sidr_reply() or xc_ignore() */
	XC_EVENT_SIDR_REP,	/* any status; the exchange ended */
};

struct xc_event {
	enum xc_event_type type;
	int status; /* 0 or negative errno */
	const struct xc_msg
		*msg; /* the MAD that caused the event, valid during the callback; NULL: none */
};

struct xc_info;

#define XC_NO_NUMBER UINT32_MAX

struct xc_ops {
	/* Sends a MAD from QP 1 to QP 1, or loses it. Must not call functions of the engine. */
	void (*send)(void *ctx, const struct xc_path *path, const uint8_t mad[XC_MAD_LEN]);
	/* A new id has no owner yet: see xc_set_owner(). */
	void (*event)(void *ctx, struct xc_id *id, const struct xc_event *event);
	uint64_t (*now)(void *ctx);
	/* Fills a buffer with unpredictable bytes. */
	void (*random)(void *ctx, void *buf, size_t len);
	/*
	 * Optional. From now on the peer may believe that the connection is established, and needs
	 * a DREQ with this transaction ID if this side ends without sending one. Must not call
	 * functions of the engine. Returns a number. It is called again, with this number (at first
	 * XC_NO_NUMBER), when the state of the connection changes, and peer_gone() when the peer
	 * knows of the end.
	 */
	uint32_t (*peer_connected)(void *ctx, const struct xc_info *info, uint64_t dreq_tid,
				   uint32_t number);
	void (*peer_gone)(void *ctx, uint32_t number);
	/* Optional. The end of what xc_destroy_for() has begun. Must not call the engine. */
	void (*orphan_gone)(void *ctx, void *payer);
};

/* Memory of an id, at most */
#define XC_ID_BYTES 1024

struct xc_config {
	uint64_t guid;	     /* of the device */
	uint8_t mra_timeout; /* service timeout of MRAs that respond to duplicates, see xc_mra() */
	uint32_t max_ids;    /* of both sides, with those that were destroyed but not yet freed */
	uint32_t max_half_open;	       /* passive ids that are not established */
	uint32_t max_source_half_open; /* the same for each GID of a peer */
};

/* Returns NULL if there is no memory. */
struct xc_cm *xc_new(const struct xc_config *config, const struct xc_ops *ops, void *ctx);
/* Frees all ids without sending anything or calling event(). */
void xc_free(struct xc_cm *cm);

/*
 * Processes a received datagram of QP 1. path.local is the destination. Returns false if it is no
 * CM MAD: other class, or other length than XC_MAD_LEN.
 */
bool xc_receive(struct xc_cm *cm, const struct xc_path *path, const uint8_t *mad, size_t len);

/* Executes the timers that have expired. */
void xc_run(struct xc_cm *cm);
/* Executes one of them. Returns false if there is none. */
bool xc_run_one(struct xc_cm *cm);
/* Returns the time at which xc_run() must be called, XC_NEVER if there is no timer. */
uint64_t xc_deadline(const struct xc_cm *cm);

/* ---- ids: connections ---------------------------------------------------------- */

enum xc_state {
	XC_IDLE, /* the exchange ended, or was never started */
	XC_REQ_SENT,
	XC_MRA_REQ_RCVD,
	XC_REQ_RCVD,
	XC_MRA_REQ_SENT,
	XC_REP_SENT,
	XC_MRA_REP_RCVD,
	XC_REP_RCVD,
	XC_MRA_REP_SENT,
	XC_ESTABLISHED,
	XC_DREQ_SENT,
	XC_DREQ_RCVD,
	XC_TIMEWAIT,
	XC_SIDR_REQ_SENT,
	XC_SIDR_REQ_RCVD,
	XC_NUM_STATES
};

const char *xc_state_name(enum xc_state state);

struct xc_info {
	enum xc_state state;
	bool active;
	bool sidr;
	bool orphan; /* destroyed by the user; the engine ends the exchange and frees the id */
	uint8_t transport;
	uint32_t local_id, remote_id; /* communication IDs; SIDR: request ID; 0: unknown */
	uint32_t local_qpn, remote_qpn;
	uint64_t service_id;
	uint64_t remote_guid;	/* 0: unknown */
	struct xc_path path;	/* of MADs */
	uint32_t sent, retried; /* MADs; sent includes those that were retried */
	void *owner;
};

/* The information is valid until the next call of the engine. */
const struct xc_info *xc_info(const struct xc_id *id);
void xc_set_owner(struct xc_id *id, void *owner);
/* Returns the id that follows in the list of all ids, NULL at the end. prev NULL: the first one. */
struct xc_id *xc_next(const struct xc_cm *cm, const struct xc_id *prev);

/*
 * Creates an id and sends a REQ. Returns -EINVAL, -ENOMEM, or -EMFILE if there are max_ids. The
 * callback is not called before xc_connect() has returned.
 */
int xc_connect(struct xc_cm *cm, const struct xc_req *req, void *owner, struct xc_id **id);
/* Sends a REP. */
int xc_accept(struct xc_id *id, const struct xc_rep *rep);
/* Sends an RTU. */
int xc_establish(struct xc_id *id, const struct xc_data *data);
/*
 * Sends a REJ: for a REQ or REP that was received, or to give up a REQ or REP that was sent. The
 * exchange ends; XC_EVENT_TIMEWAIT_EXIT follows if a REP was sent.
 */
int xc_reject(struct xc_id *id, const struct xc_rej *rej);
/*
 * Sends an MRA: the response to a REQ or REP will take up to the service timeout. Without this call
 * the engine sends one with xc_config.mra_timeout when it receives a duplicate of the message.
 */
int xc_mra(struct xc_id *id, uint8_t service_timeout);
/*
 * The QP received a packet before the RTU (IBV_EVENT_COMM_EST). Calls event() with
 * XC_EVENT_ESTABLISHED. Returns -EISCONN if the connection is established already.
 */
int xc_notify_established(struct xc_id *id);
/* Sends a DREQ. Returns -EINVAL if the connection is not established. */
int xc_disconnect(struct xc_id *id, const struct xc_data *data);
/* Sends a DREP after XC_EVENT_DREQ. Returns -EINVAL if none is due. */
int xc_reply_disconnect(struct xc_id *id, const struct xc_data *data);

/*
 * Gives up an id; there are no more events. An exchange that has not ended is ended: REQ_SENT by
 * REJ timeout, other half-open states by REJ consumer, ESTABLISHED by DREQ (except at the target of
 * XRC, whose QP remains), DREQ_RCVD by DREP, SIDR_REQ_RCVD by SIDR_REP rejected.
 */
void xc_destroy(struct xc_id *id);
/*
 * The same for a payer, not NULL, of the room that the id takes among max_ids: orphan_gone() is
 * called when it takes none any more, which may be before this function returns. The id is freed
 * then, or as soon as others need the room.
 */
void xc_destroy_for(struct xc_id *id, void *payer);
/* Frees an id whose REQ or SIDR_REQ has got no response; the peer will send its message again. */
void xc_ignore(struct xc_id *id);

/* ---- ids: SIDR ----------------------------------------------------------------- */

struct xc_sidr_param {
	struct xc_path path;
	uint8_t response_timeout, max_cm_retries;
	struct xc_sidr_req req;
};

/* Creates an id and sends a SIDR_REQ. Errors as of xc_connect(). */
int xc_sidr_request(struct xc_cm *cm, const struct xc_sidr_param *param, void *owner,
		    struct xc_id **id);
/* Sends a SIDR_REP with the service ID of the request. The exchange ends. */
int xc_sidr_reply(struct xc_id *id, const struct xc_sidr_rep *rep);

/* ---- counters ------------------------------------------------------------------ */

struct xc_counters {
	uint64_t sent[XC_NUM_KINDS]; /* including retries */
	uint64_t retried[XC_NUM_KINDS];
	uint64_t received[XC_NUM_KINDS];
	uint64_t duplicates[XC_NUM_KINDS]; /* received again */
	uint64_t unexpected[XC_NUM_KINDS]; /* unknown id, wrong state, or other peer */
	uint64_t rej_sent[XC_NUM_REASONS]; /* by reason; 0: any other number */
	uint64_t rej_received[XC_NUM_REASONS];
	uint64_t malformed;   /* CM MADs with invalid fields */
	uint64_t limited;     /* requests dropped because of a limit, or without memory */
	uint64_t established; /* connections, both sides */
	uint64_t timeouts;    /* exchanges that ended without a response */
};

const struct xc_counters *xc_counters(const struct xc_cm *cm);

struct xc_gauges {
	uint32_t ids, half_open, sources; /* sources: peers that have half-open ids here */
};
struct xc_gauges xc_gauges(const struct xc_cm *cm);

#endif /* XC_CM_H */
