/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Target QPs of XRC, which belong to an XRC domain. The requests for them are in qp_create.c. */
#ifndef XD_XRC_TARGET_H
#define XD_XRC_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/netdev/net.h"

struct xd_client;
struct xd_program;
struct xd_qp;
struct xt_qp;

/* A target QP. It belongs to its XRC domain, and each client that opened it has a struct xd_qp. */
struct xd_target {
	struct xt_qp *xt;
	uint32_t domain, qpn, worker;
	struct xd_gid_hold gid;	    /* of the address vector */
	struct xd_program *program; /* that created it */
	struct xd_qp *handles;	    /* by next_handle; changed while the worker is paused */
};

/* Memory that a target QP takes */
uint64_t xd_target_bytes(void);
/* Returns NULL if there is no memory. */
struct xd_target *xd_target_new(struct xd_client *c, uint32_t domain);
/* Adds a handle. */
void xd_target_join(struct xd_qp *qp, struct xd_target *t);
/*
 * Removes a handle. With the last one, removes the target QP from its engine and returns it; else
 * returns NULL. *ending: xt_qp_ending() of the removed QP
 */
struct xt_qp *xd_target_leave(struct xd_qp *qp, bool *ending);

#endif /* XD_XRC_TARGET_H */
