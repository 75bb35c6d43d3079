/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XRC domains, which processes share through a file, and target QPs, which belong to an XRC domain.
 */
#ifndef XD_XRC_H
#define XD_XRC_H

#include "daemon/clients/client.h"
#include "daemon/clients/reply.h"

struct xd_program;
struct xd_qp;
struct xt_qp;

/* An XRC domain, of a file or of one handle alone */
struct xd_xrc_domain {
	uint32_t number; /* never 0 */
	uint32_t refs;	 /* handles */
	int fd;		 /* keeps the inode from being reused; -1: no file */
	uint64_t dev, inode;
	struct xd_xrc_domain *next, **pprev; /* in the list of domains with a file */
};

/* A client's handle of an XRC domain */
struct xd_xrcd {
	struct xd_object obj;
	struct xd_xrc_domain *domain;
};

/* A target QP. It belongs to its XRC domain, and each client that opened it has a struct xd_qp. */
struct xd_target {
	struct xt_qp *xt;
	uint32_t domain, qpn, worker;
	struct xd_program *program; /* that created it */
	struct xd_qp *handles;	    /* by next_handle; changed while workers are paused */
};

extern const struct xd_kind_ops xd_xrcd_ops;

/* Creates a target QP and its first handle. */
int xd_target_create(struct xd_client *c, const struct xr_create_qp_req *q, struct xd_reply *rep);
/* Removes a handle. The target QP is destroyed with its last handle. */
void xd_target_leave(struct xd_qp *qp);

#endif /* XD_XRC_H */
