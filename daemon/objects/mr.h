/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory regions, those for fast registration (fast_mr.c) included. */
#ifndef XD_MR_H
#define XD_MR_H

#include "daemon/clients/client.h"
#include "ending.h"

struct json;
struct xr_view_refused;
struct xd_dm;
struct xd_mem;
struct xd_pd;
struct xt_key;

struct xd_mr {
	struct xd_object obj;
	uint32_t access;
	uint64_t addr, length, iova;
	struct xd_bytes charged;
	struct xd_pd *pd;
	struct xd_dm *dm; /* device memory of the region, or NULL */
	struct xt_key *key;
	struct xd_mem *mem;
	struct xd_client_job unmap; /* waits until engines do not use the key; unmaps the memory */
	uint64_t grace;		    /* when the key was withdrawn, see daemon/datapath/grace.h */
	bool reply;		    /* a DEREG_MR waits for the unmap: reply then */
	struct xd_ending ending;    /* of accesses that are under way, before the unmap */
	struct xd_piece lists;	    /* fast regions: page lists */
};

extern const struct xd_kind_ops xd_mr_ops;

/*
 * Frees a key that was withdrawn, after the grace period: a worker that uses it in its round may
 * change it, and update its entry in XDP's map.
 */
void xd_key_free(struct xd_client *c, struct xt_key *key);
/* Returns the R_Key, 0 if peers cannot use the region. */
uint32_t xd_mr_rkey(const struct xd_mr *mr);

/* Returns the region or window (XD_MR, XD_MW) whose L_Key or R_Key shows as `number`, or NULL. */
struct xd_object *xd_find_key(const struct xd_clients *cs, uint32_t number, uint32_t kind);

/* Writes access rights (XR_ACCESS_*) as letters. */
void xd_show_access(struct json *j, uint32_t access);
/* Uses of a key that were refused, and the last of them */
void xd_take_refused(const struct xt_key *key, struct xr_view_refused *r);
void xd_show_refused(struct json *j, const struct xr_view_refused *r);

#endif /* XD_MR_H */
