/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The objects of clients. */
#ifndef XD_OBJECTS_H
#define XD_OBJECTS_H

#include "daemon/clients/client.h"

/* The number of a PD, which keys and QPs refer to. Clients that import a PD share its number. */
struct xd_pd_id {
	uint32_t number; /* unique on the device */
	uint32_t refs;	 /* PDs */
};

struct xd_pd {
	struct xd_object obj;
	struct xd_pd_id *id;
};
/* Creates a PD with the given number, or with a new one if id is NULL. */
int xd_pd_new(struct xd_client *c, struct xd_pd_id *id, struct xd_pd **pd);

struct xd_dm {
	struct xd_object obj;
	uint64_t length;
	struct xd_piece piece;
};

struct xd_mr {
	struct xd_object obj;
	uint32_t access;
	uint64_t addr, length, iova;
	uint64_t charged; /* bytes of the user's quota */
	struct xd_pd *pd;
	struct xd_dm *dm; /* of which it is a part, NULL */
	struct xt_key *key;
	struct xd_mem *mem;
	struct xd_client_job unmap; /* its end */
	bool answer;		    /* to a DEREG_MR, when it is unmapped */
	struct xd_piece lists;	    /* fast regions: of pages */
};

struct xd_mw {
	struct xd_object obj;
	struct xd_pd *pd;
	struct xt_key *key; /* its entry says where the window is bound */
};

/* 0: of no use to peers */
uint32_t xd_mr_rkey(const struct xd_mr *mr);
/* Nobody may use it any more; it is given out again. */
void xd_mr_drop_key(struct xd_client *c, struct xd_mr *mr);

struct xd_channel {
	struct xd_object obj;
	struct xd_pipe pipe;
};

struct xd_cq {
	struct xd_object obj;
	uint32_t depth;
	uint32_t worker;	    /* that completes into it, XD_NOBODY, XD_MANY */
	struct xd_channel *channel; /* NULL: none */
	struct xd_piece ring;
	struct xd_source completions, async;
	struct xt_cq xt;
};
#define XD_NOBODY UINT32_MAX
#define XD_MANY (UINT32_MAX - 1)

/* A domain of XRC: one for each file that it was opened by, or for one handle alone */
struct xd_xrc_domain {
	uint32_t number; /* never 0 */
	uint32_t refs;	 /* handles */
	int fd;		 /* keeps the inode; -1: no file */
	uint64_t dev, inode;
	struct xd_xrc_domain *next, **pprev; /* of those with a file */
};

struct xd_xrcd {
	struct xd_object obj;
	struct xd_xrc_domain *domain;
};

/* A target QP of XRC: of its domain, not of a client */
struct xd_target {
	struct xt_qp *xt;
	uint32_t domain, qpn, worker;
	struct xd_qp *handles; /* by next_handle; changes while the world is stopped */
};

struct xd_srq {
	struct xd_object obj;
	uint32_t max_wr, max_sge;
	uint32_t worker; /* that takes from it, XD_NOBODY, XD_MANY */
	struct xd_pd *pd;
	struct xd_xrcd *xrcd; /* NULL: not for XRC */
	struct xd_cq *cq;     /* XRC only */
	struct xd_piece ring;
	struct xd_source async;
	struct xt_srq xt;
};

struct xd_qp {
	struct xd_object obj;
	uint32_t type, qpn, slot, worker;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t sq_sig_all;
	bool gsi;			 /* queue pair 1 */
	struct xd_pd *pd;		 /* NULL: XRC_RECV, which has no CQs either */
	struct xd_cq *send_cq, *recv_cq; /* recv_cq NULL: XRC_SEND */
	struct xd_srq *srq;		 /* NULL: none */
	struct xd_xrcd *xrcd;		 /* XRC_RECV only */
	struct xd_target *target;	 /* XRC_RECV: this is one handle of it */
	struct xd_qp *next_handle, **pprev_handle;
	struct xd_piece sq, rq;
	struct xd_source async;
	struct xt_qp *xt;
	struct xd_resolve *resolve; /* a new path, after the network changed */
	uint32_t attached;	    /* to so many multicast groups */
};

struct xd_ah {
	struct xd_object obj;
	struct xr_ah_attr attr;
	struct xd_pd *pd;
	struct xd_resolve *resolve; /* a new path, after the network changed */
};

/* Whatever state they are in; what they refer to stays. Called in the order of enum xd_kind. */
void xd_qp_free(struct xd_qp *qp);
void xd_ah_free(struct xd_ah *ah);
void xd_srq_free(struct xd_srq *srq);
void xd_xrcd_free(struct xd_xrcd *xrcd);
void xd_cq_free(struct xd_cq *cq);
void xd_channel_free(struct xd_channel *ch);
void xd_dm_free(struct xd_dm *dm);
void xd_pd_free(struct xd_pd *pd);
void xd_mw_free(struct xd_mw *mw);
/* The region is unmapped by a job, and its bytes are given back then. */
void xd_mr_free(struct xd_mr *mr);

/* XRC_RECV: a new target and its first handle */
int xd_target_create(struct xd_client *c, const struct xr_create_qp_req *q, struct xd_reply *rep);
/* This handle is no more; the last one takes the QP with it. */
void xd_target_leave(struct xd_qp *qp);
void xd_qp_reply(const struct xd_qp *qp, struct xd_reply *rep);

/* The netdev's addresses or link changed: looks for the next hop again. */
void xd_qp_refresh_path(struct xd_qp *qp);
void xd_ah_refresh_path(struct xd_ah *ah);

/*
 * A worker begins to use a CQ or an SRQ: *user becomes its number, or XD_MANY. True: several use
 * it, and must lock it. World stopped.
 */
bool xd_share(uint32_t *user, uint32_t worker);

/* Its multicast groups, one after the other */
void xd_mcast_each(const struct xd_qp *qp, void (*fn)(void *arg, const struct xr_addr *gid),
		   void *arg);
/* Detaches a QP from all multicast groups. */
void xd_mcast_leave(struct xd_qp *qp);
/* QPs of one client that may be attached to groups, each group counted */
#define XD_CLIENT_ATTACHED 128

/* A ring's first lines, as the client finds them */
void xd_queue_init(struct xr_queue *queue, uint32_t depth, uint32_t stride);

/* -EINVAL: what the daemon cannot route by */
int xd_ah_check(const struct xd_device *dev, const struct xr_ah_attr *attr);

/*
 * The handler's answer to a request whose address is to be resolved: checks the address, then
 * XD_LATER; then() ends the request with its answer once the path is there. The request is copied.
 */
typedef int (*xd_resolved_fn)(struct xd_client *c, const void *request, const struct xt_path *path,
			      struct xd_reply *rep);
int xd_after_resolve(struct xd_client *c, const struct xr_ah_attr *attr, const void *request,
		     size_t length, xd_resolved_fn then);

/* The client's table of address handles, NULL: no memory */
struct xt_ahs *xd_client_ahs(struct xd_client *c);

/* For struct xd_workers_config */
extern const struct xd_engine_events xd_engine_events;

#endif /* XD_OBJECTS_H */
