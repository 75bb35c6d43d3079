/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* State of rdma_cm, shared by the files of this folder. */
#ifndef XD_CM_ID_H
#define XD_CM_ID_H

#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/clients/reply.h"
#include "daemon/cm/cm.h"
#include "daemon/cm/table.h"
#include "daemon/faults/mads.h"
#include "daemon/netdev/net.h"
#include "daemon/transport/base/list.h"
#include "address.h"
#include "rdma_cm.h"

#define XD_CM_PORT_SPACES 4

struct xd_cm_comm_est;
struct xd_dreqs;
struct xd_cm_event;
struct xd_cm_port;
struct xd_cm_join;
struct xd_resolve;
struct xd_timer;

/* State of the device */
struct xd_rdma_cm {
	struct xd_objects *objects;
	struct xd_device *dev;
	struct xc_cm *engine;
	struct xd_dreqs *dreqs; /* of the helper; NULL: in tests, and at the end */
	struct xd_timer *timer; /* of the engine */
	struct xd_cm_comm_est *comm_est;
	struct xd_table ids;	/* struct xd_cm_id, by number */
	struct xd_table joins;	/* struct xd_cm_join, by number */
	struct xc_table by_qpn; /* ids, by the QP that their program has named last for them */
	struct xd_cm_port *ports[XD_CM_PORT_SPACES][UINT16_MAX + 1]; /* NULL: free */
	uint16_t first_port, last_port; /* range for binds without a port */
	uint16_t unprivileged_port;	/* lower ports are reserved for operators */
	uint16_t last_taken;		/* port of the last bind without a port */
	struct xd_cm_id *starting;	/* its first MAD is being sent; NULL: none */
	uint64_t armed;			/* time of the timer, XC_NEVER: not armed */
};

/* The kernel's enum rdma_cm_state */
enum xd_cm_state {
	XD_CM_IDLE,
	XD_CM_BOUND,
	XD_CM_ADDR_QUERY,
	XD_CM_ADDR_RESOLVED,
	XD_CM_ROUTE_QUERY,
	XD_CM_ROUTE_RESOLVED,
	XD_CM_CONNECT,
	XD_CM_DISCONNECT,
	XD_CM_LISTEN,
};

/* Primary path; as struct sa_path_rec of the kernel */
struct xd_cm_path {
	struct xc_path gids;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t rate;
	uint8_t life_time; /* packet life time, 4.096 us * 2^n */
	uint16_t pkey;
};

/* Attributes of the id's QP that the peer and the program have agreed on */
struct xd_cm_qp {
	uint32_t number; /* of the program's QP, 0: unknown */
	uint32_t qkey;	 /* 0: not set */
	uint32_t rq_psn; /* starting PSN that the peer uses, chosen here */
	uint32_t sq_psn; /* starting PSN that the peer expects */
	uint32_t remote;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	uint8_t timeout;
	bool srq;
};

struct xd_cm_id {
	struct xd_object obj;
	struct xd_rdma_cm *cm;
	uint32_t number;
	uint64_t uid; /* of the program; 0: request of a peer that was not accepted yet */
	uint16_t ps;  /* enum rdma_ucm_port_space */
	uint8_t qp_type;
	enum xd_cm_state state;
	bool device; /* the id is bound to this device: addresses or a peer's request selected it */
	union xd_cm_addr src, dst;

	/* options */
	uint8_t tos, ack_timeout;
	bool ack_timeout_set, reuse, afonly, afonly_set;

	/* the port in the port table */
	struct xd_cm_port *port;
	struct xt_list owner; /* in the list of the port's owners */

	/* RESOLVE_ADDR */
	struct xd_resolve *resolve;
	struct xd_timer *timer;
	int resolve_err;

	bool address_lost; /* reported by ADDR_CHANGE */
	struct xd_cm_path path;
	struct xd_gid_hold gid; /* of the device's address, which attributes name by its index */
	uint32_t paths;		/* 0: no route, 1 */

	struct xc_id *conn;	    /* NULL: none */
	struct xd_fault_mad faults; /* for MADs of the connection or listener */
	bool holds_gsi;
	struct xd_cm_qp qp;
	struct xc_node by_qpn;
	struct rdma_ucm_ece ece;

	struct xt_list queued;		   /* its events in the channel's queue, in this order */
	struct xd_cm_event *request_event; /* reports the id, and is queued; NULL: none */
	int32_t backlog;		   /* of a listener: requests that may still be queued */
	uint32_t events_queued, events_reported;
	struct xt_list joins;
	uint32_t join_count;

	/* for tools */
	uint64_t events; /* that were raised */
	struct xd_cm_failure {
		uint64_t at;   /* of xd_now(); 0: there was none */
		uint32_t type; /* enum xd_cm_event_type */
		int status;    /* of that event */
	} failure;	       /* the last one */
};

static inline struct xd_rdma_cm *xd_rdma_cm_of(const struct xd_client *c)
{
	return xd_objects_of(c)->rdma_cm;
}

/* ---- id.c ----------------------------------------------------------------------- */

/* Creates an id of a channel. Errors as of xd_object_add(). */
int xd_cm_id_new(struct xd_client *c, uint16_t ps, uint8_t qp_type, struct xd_cm_id **out);
/* unload() of the kind: ends what an id waits for, and frees events, requests and joins. */
bool xd_cm_id_unload(struct xd_object *obj);
/*
 * Frees an id and its events, and ends its connection. Returns the number of its events that the
 * program has read.
 */
uint32_t xd_cm_id_destroy(struct xd_cm_id *id);
/*
 * refresh() of the kind: an id whose address is gone, or hidden by a fault, gets ADDR_CHANGE; one
 * that has waited for its port looks for its next hop.
 */
void xd_cm_id_refresh(struct xd_object *obj);
/* Finds an id of a channel. -ENOENT: no such id; -EINVAL: it belongs to another channel. */
int xd_cm_id_get(struct xd_client *c, uint32_t number, struct xd_cm_id **out);
int xd_cm_id_set_option(struct xd_cm_id *id, uint32_t level, uint32_t name, const void *value,
			uint32_t length);
/*
 * Moves an id and its events to a channel, which may be its own. Errors as of xd_object_add().
 * *events_reported: events of the id that the program has read.
 */
int xd_cm_id_migrate(struct xd_cm_id *id, struct xd_client *to, uint32_t *events_reported);
/* Sets the QP of the id's program. Another id with this QP is not found by it any more. */
void xd_cm_id_set_qp(struct xd_cm_id *id, uint32_t number);
/* Finds the id whose program has this QP. NULL: none. */
struct xd_cm_id *xd_cm_id_by_qpn(const struct xd_rdma_cm *cm, uint32_t number);
/* Takes QP 1 for the id until its end. -EBUSY: a program has it. */
int xd_cm_id_hold_gsi(struct xd_cm_id *id);
/* Ends the connection of an id. */
void xd_cm_conn_destroy(struct xd_cm_id *id);

/* ---- orphans.c ------------------------------------------------------------------ */

/*
 * Ends a connection in the background, if it has to tell its peer. The user of the client is
 * charged meanwhile.
 */
void xd_cm_orphan(struct xd_client *c, struct xc_id *conn);
/* orphan_gone() of the engine; payer: struct xd_user */
void xd_cm_orphan_gone(void *ctx, void *payer);
/* Returns -EDQUOT if the client's user has too many ids and such connections for another id. */
int xd_cm_check_orphans(struct xd_client *c);

/* ---- id_qp.c -------------------------------------------------------------------- */

/*
 * Sets the QP of an id. A program may name only QPs of its own user: other programs would get its
 * connections. -EINVAL.
 */
int xd_cm_take_qp(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param);
/* The connection ends: sends what was posted to its QP before, ahead of the MAD. */
void xd_cm_send_posted(struct xd_cm_id *id);

/* ---- faults.c ------------------------------------------------------------------- */

/* From now on, the faults of the id's program apply to the MADs of its connection. */
void xd_cm_faults_connection(struct xd_cm_id *id, uint32_t comm_id);
void xd_cm_faults_request(struct xd_cm_id *id); /* the same for the request of a peer */
void xd_cm_faults_listener(struct xd_cm_id *id);
void xd_cm_faults_move(struct xd_cm_id *id); /* the id belongs to another channel now */
void xd_cm_faults_end(struct xd_cm_id *id);  /* also if there were none */

/* ---- timer.c -------------------------------------------------------------------- */

int xd_cm_timer_start(struct xd_rdma_cm *cm); /* -ENOMEM */
/* Sets the timer of the engine. To be called after the engine was used. */
void xd_rdma_cm_arm(struct xd_rdma_cm *cm);

/* ---- channel.c ------------------------------------------------------------------ */

struct xd_cm_channel {
	uint8_t token[XR_TOKEN_LEN];
	struct xt_list events;
	int fd; /* a timer, which expires at once if there are events */
};

/* Numbers of librdmacm's enum rdma_cm_event_type */
enum xd_cm_event_type {
	XD_CM_EVENT_ADDR_RESOLVED,
	XD_CM_EVENT_ADDR_ERROR,
	XD_CM_EVENT_ROUTE_RESOLVED,
	XD_CM_EVENT_ROUTE_ERROR,
	XD_CM_EVENT_CONNECT_REQUEST,
	XD_CM_EVENT_CONNECT_RESPONSE,
	XD_CM_EVENT_CONNECT_ERROR,
	XD_CM_EVENT_UNREACHABLE,
	XD_CM_EVENT_REJECTED,
	XD_CM_EVENT_ESTABLISHED,
	XD_CM_EVENT_DISCONNECTED,
	XD_CM_EVENT_DEVICE_REMOVAL,
	XD_CM_EVENT_MULTICAST_JOIN,
	XD_CM_EVENT_MULTICAST_ERROR,
	XD_CM_EVENT_ADDR_CHANGE,
	XD_CM_EVENT_TIMEWAIT_EXIT,
	XD_CM_EVENT_USER = 18,
	XD_CM_EVENT_INTERNAL,
};

struct xd_cm_event {
	struct xt_list in_channel; /* first */
	struct xt_list in_id;
	struct rdma_ucm_event_resp body;
	struct xd_cm_id *id;	  /* to which it counts */
	struct xd_cm_id *request; /* id of a connection request, whose request_event this is */
	struct xd_cm_join *join;  /* whose event this is, or NULL */
};

/*
 * Queues an event, and takes it over. An event of an id that the program has not accepted yet is
 * discarded.
 */
void xd_cm_event_add(struct xd_cm_event *ev);
/* Allocates an event of an id without parameters. NULL: no memory, or the user's limit. */
struct xd_cm_event *xd_cm_event_new(struct xd_cm_id *id, uint32_t type, int status);
void xd_cm_event_free(struct xd_cm_event *ev);
/* Allocates and queues an event. Without memory it is lost. */
void xd_cm_event_raise(struct xd_cm_id *id, uint32_t type, int status);
/* Fill an event's parameters. skip: bytes of private data to leave out */
void xd_cm_event_set_req(struct xd_cm_event *ev, const struct xc_req *req);
void xd_cm_event_set_data(struct xd_cm_event *ev, uint8_t qp_type, const struct xc_data *data,
			  uint32_t skip);
/*
 * Discards a queued event of an id, or that by which it was reported. If it reports a request, that
 * is stored in *request: the program does not know it. Returns false if there is none.
 */
bool xd_cm_event_discard_next(struct xd_cm_id *id, struct xd_cm_id **request);
/* Takes an event out of the queue, and frees it. */
void xd_cm_event_discard(struct xd_cm_event *ev);
/* Moves the queued events of an id to another channel of the same user. */
void xd_cm_events_move(struct xd_cm_id *id, struct xd_cm_channel *from, struct xd_cm_channel *to);
/* Finds the channel of the same user that has a token. NULL: none. */
struct xd_client *xd_cm_channel_by_token(struct xd_client *c, const uint8_t *token);
/* Takes the first event out of the queue. NULL: there is none. */
struct xd_cm_event *xd_cm_channel_take_event(struct xd_cm_channel *ch);
/* Returns true if the next event is one of the id. */
bool xd_cm_channel_next_is(const struct xd_cm_channel *ch, const struct xd_cm_id *id);

/* ---- port.c --------------------------------------------------------------------- */

void xd_cm_ports_init(struct xd_rdma_cm *cm);
/*
 * Binds the port of id->src, or any port if it is 0, which is then stored there. -EADDRINUSE,
 * -EADDRNOTAVAIL, -EACCES, -EPROTONOSUPPORT (AF_IB: service ID does not match the port space).
 */
int xd_cm_port_bind(struct xd_cm_id *id);
void xd_cm_port_release(struct xd_cm_id *id); /* no effect without a port */
/* Ends the right to share the port. -EADDRINUSE, -EADDRNOTAVAIL: it is shared now. */
int xd_cm_port_listen(struct xd_cm_id *id);
uint64_t xd_cm_port_service_id(const struct xd_cm_id *id); /* of an id with a port */
/* Sets id->reuse: whether others with this option may share the port. */
void xd_cm_port_set_reuse(struct xd_cm_id *id, bool reuse);
/*
 * Returns the next owner of a port that does not let others share it, as all listeners. prev NULL:
 * the first one. NULL: there is none.
 */
struct xd_cm_id *xd_cm_port_next_exclusive(struct xd_rdma_cm *cm, uint16_t ps, uint16_t port,
					   struct xd_cm_id *prev);

/* ---- resolve.c ------------------------------------------------------------------ */

int xd_cm_bind(struct xd_cm_id *id, const union xd_cm_addr *addr);
/*
 * src may have family 0. -ENODEV: the address or the route is not that of the device; if `last`,
 * ADDR_ERROR reports the latter.
 */
int xd_cm_resolve_addr(struct xd_cm_id *id, const union xd_cm_addr *src,
		       const union xd_cm_addr *dst, uint32_t timeout_ms, bool last);
void xd_cm_resolve_cancel(struct xd_cm_id *id);
int xd_cm_resolve_route(struct xd_cm_id *id, uint32_t timeout_ms);
int xd_cm_set_path(struct xd_cm_id *id, const void *value, uint32_t length);
/* Looks for the next hop of an id that has waited for its port, if that is up again. */
void xd_cm_resolve_again(struct xd_cm_id *id);
/* Returns the GID that a local address of an id stands for. -ENODEV: none. */
int xd_cm_local_gid(const struct xd_cm_id *id, const union xd_cm_addr *a, struct xr_addr *gid);
/* The index of a GID of the device is not given to another address while the id exists. */
void xd_cm_hold_gid(struct xd_cm_id *id, const struct xr_addr *gid);
/* Returns the path MTU of the port, as enum ibv_mtu. */
uint8_t xd_cm_port_mtu(const struct xd_rdma_cm *cm);

/* ---- listen.c ------------------------------------------------------------------- */

int xd_cm_listen(struct xd_cm_id *id, int32_t backlog);
/* A REQ or SIDR_REQ has arrived, for which the engine has created an id. */
void xd_cm_request(struct xd_rdma_cm *cm, struct xc_id *conn, const struct xc_msg *msg);

/* ---- connect.c ------------------------------------------------------------------ */

extern const struct xc_ops xd_cm_engine_ops; /* ctx: struct xd_rdma_cm */

int xd_cm_connect(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param);
/* param NULL: confirms the response of the peer */
int xd_cm_accept(struct xd_cm_id *id, const struct rdma_ucm_conn_param *param);
int xd_cm_reject(struct xd_cm_id *id, const void *data, uint8_t len, uint8_t reason);
int xd_cm_disconnect(struct xd_cm_id *id);
int xd_cm_notify(struct xd_cm_id *id, uint32_t event);

/* ---- comm_est.c ------------------------------------------------------------- */

/* Establishes connections when their QPs get packets before the RTU. */
int xd_cm_comm_est_start(struct xd_rdma_cm *cm);
void xd_cm_comm_est_stop(struct xd_rdma_cm *cm);

/* ---- query.c -------------------------------------------------------------------- */

/* These return -ENOSPC if `out` is too small. */
int xd_cm_query_route(struct xd_cm_id *id, uint32_t out, struct xd_reply *rep);
int xd_cm_query(struct xd_cm_id *id, uint32_t option, uint32_t out, struct xd_reply *rep);
int xd_cm_init_qp_attr(struct xd_cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr);
/* Sets the Q_Key of programs that do not choose one. */
void xd_cm_default_qkey(struct xd_cm_id *id);
/* Sets the address handle attributes of the id's path. */
void xd_cm_ah_attr(const struct xd_cm_id *id, struct ib_uverbs_ah_attr *ah);

/* ---- early_replies.c ------------------------------------------------------------ */

/*
 * Appends to the reply to GET_EVENT, of at most `room` bytes, what the commands that usually follow
 * this event would return for the id.
 */
void xd_cm_add_early_replies(struct xd_cm_id *id, uint32_t event, uint32_t room,
			     struct xd_reply *rep);

/* ---- multicast.c ---------------------------------------------------------------- */

struct xd_cm_join {
	struct xt_list link; /* first; in the id's joins */
	struct xd_cm_id *id;
	uint32_t number;
	uint64_t uid;
	uint32_t events_reported;
	struct xd_cm_event *event; /* that reports it, and is queued; NULL: none */
};

int xd_cm_join(struct xd_cm_id *id, uint64_t uid, const union xd_cm_addr *addr, uint16_t flags,
	       uint32_t *number);
int xd_cm_leave(struct xd_client *c, uint32_t number, uint32_t *events_reported);
bool xd_cm_join_free_next(struct xd_cm_id *id); /* false: the id has none */

#endif /* XD_CM_ID_H */
