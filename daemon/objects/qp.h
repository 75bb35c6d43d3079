/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Queue pairs. */
#ifndef XD_QP_H
#define XD_QP_H

#include "daemon/clients/client.h"
#include "daemon/netdev/net.h"

struct json;
struct xd_cq;
struct xd_pd;
struct xd_resolve;
struct xd_srq;
struct xd_target;
struct xd_xrcd;
struct xr_view_failure;
struct xt_failure;
struct xt_qp;

#define XD_QP_NAKS 12 /* kinds of NAKs, sent and received */

struct xd_qp {
	struct xd_object obj;
	uint32_t type, qpn, slot, worker;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t sq_sig_all;
	bool gsi;	  /* queue pair 1 */
	bool ending;	  /* RESET, ERR: when the state changed, writes were being executed */
	struct xd_pd *pd; /* NULL: XRC_RECV, which has no CQs either */
	struct xd_cq *send_cq, *recv_cq; /* recv_cq NULL: XRC_SEND */
	struct xd_srq *srq;		 /* NULL: none */
	struct xd_xrcd *xrcd;		 /* XRC_RECV only */
	struct xd_target *target;	 /* XRC_RECV: this is one handle of it */
	struct xd_qp *next_handle, **pprev_handle;
	struct xd_piece sq, rq;
	struct xd_event_source async;
	struct xt_qp *xt;
	struct xd_gid_hold gid;	    /* of the address vector; unused with a target */
	struct xd_resolve *resolve; /* of a new path after the network changed */
	uint32_t attached;	    /* number of multicast groups that it is attached to */

	/* as last reported to the readers of `xroce monitor` */
	struct xd_qp_known {
		uint64_t at; /* time, ns; 0: never */
		uint32_t state;
		uint64_t naks[XD_QP_NAKS], timeouts;
	} known;
};

/* Windows of a QP that are unbound in one pause. Each takes an update of a BPF map. */
#define XD_UNBIND_AT_ONCE 32

extern const struct xd_kind_ops xd_qp_ops;

/* qp_show.c: show() of the kind, and with all that is known of the QP */
void xd_qp_show(struct json *j, struct xd_object *obj);
void xd_qp_show_detail(struct json *j, struct xd_object *obj);
const char *xd_qp_type_name(const struct xd_qp *qp);
const char *xd_qp_state_name(uint32_t state);
const char *xd_qp_type_of(uint32_t type); /* XR_QPT_* */
/* show_view() of the kind; an error in a record of a view */
void xd_qp_show_view(struct json *j, const void *record, const struct xd_client *c, bool detail);
void xd_view_failure(const struct xr_view_failure *r, struct xt_failure *f);
/* Describe why a QP failed; the status is empty if the reason has none. */
const char *xd_qp_failure_reason(const struct xt_failure *f);
const char *xd_qp_failure_status(const struct xt_failure *f);
/* Adds the reason, the status if the reason has one, and the vendor error. */
void xd_show_failure_cause(struct json *j, const struct xt_failure *f);
/* Adds the last error, if there was one. qpn: the QP that caused it, 0: not shown */
void xd_show_failure(struct json *j, const struct xt_failure *f, uint32_t qpn);

/* ---- qp_monitor.c: events for the readers of `xroce monitor`. No worker is paused. ---- */

void xd_qp_publish_created(struct xd_qp *qp);
/* Publishes what has changed since the last call. */
void xd_qp_publish_changes(struct xd_qp *qp);
/* The same, and that the QP is destroyed. */
void xd_qp_publish_destroyed(struct xd_qp *qp);
/* Logs why a QP has failed that was removed from its engine, if it has. */
void xd_qp_log_failure(const struct xd_qp *qp);
/* The same for some QPs of a client, after *handle. Returns true if none is left. */
bool xd_qps_publish(const struct xd_client *c, uint32_t *handle);

/* ---- qp_traffic.c: what the QPs of each program have sent and received ---------------- */

/* The QP was removed from its engine, and will be freed. */
void xd_qp_retire(const struct xd_qp *qp);
/* Sums it for all QPs that exist, in `live` of the programs. No worker is paused. */
void xd_qps_sum_traffic(struct xd_clients *cs);

/* UC and UD: work requests complete without a response of the peer. */
static inline bool xd_qp_unreliable(const struct xd_qp *qp)
{
	return qp->type == XR_QPT_UC || qp->type == XR_QPT_UD;
}

/*
 * Tells the QP that sends to another one over loopback, which was stopped, what was received of its
 * messages; sender: xt_loopback_sender() before, may be NULL.
 */
void xd_qp_tell_sender(struct xd_device *dev, struct xt_qp *sender, const struct xt_qp *xt);
/*
 * Makes a QP that was removed from its engine unreachable. No worker uses it, or its queues, when
 * this returns.
 */
void xd_qp_withdraw(struct xd_device *dev, struct xt_qp *xt);
/* Frees a QP in any state, also one that was not completely created. */
void xd_qp_free(struct xd_qp *qp);
/*
 * unload() of the kind: unbinds windows of a QP. Unbinding one takes a system call, and a QP may
 * have a million, so workers run in between. The QP binds no windows until RESET.
 */
bool xd_qp_unbind_windows(struct xd_object *obj);
/*
 * qp_modify.c: resolves the next hop again and sets the path MTU, after the addresses or the link
 * of the interface changed.
 */
void xd_qp_refresh(struct xd_object *obj);

#endif /* XD_QP_H */
