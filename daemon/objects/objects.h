/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The objects that clients create, one file for each kind (pd.c, mr.c, ...), and the state shared
 * by all objects of the device or of one client.
 */
#ifndef XD_OBJECTS_H
#define XD_OBJECTS_H

#include <stdint.h>

#include <xroce/control.h>

#include "daemon/clients/client.h"
#include "client_memory.h"
#include "import.h"
#include "mcast.h"

/* In the order in which the objects of a client that ends are freed */
enum xd_kind {
	XD_CM_ID, /* of the level above */
	XD_QP = XR_KIND_QP,
	XD_AH = XR_KIND_AH,
	XD_SRQ = XR_KIND_SRQ,
	XD_XRCD = XR_KIND_XRCD,
	XD_CQ = XR_KIND_CQ,
	XD_CHANNEL = XR_KIND_CHANNEL,
	XD_MW = XR_KIND_MW,
	XD_MR = XR_KIND_MR,
	XD_DM = XR_KIND_DM,
	XD_PD = XR_KIND_PD,
	XD_KINDS = XR_KINDS
};

/* State shared by the objects of all clients */
struct xd_objects {
	struct xd_clients clients;
	const struct xd_kind_ops *kinds[XD_KINDS];
	struct xd_table pd_ids;		 /* of struct xd_pd_id, by number */
	struct xd_table xrc_domains;	 /* of struct xd_xrc_domain, by number */
	struct xd_xrc_domain *xrc_files; /* list of domains that have a file */
	struct xd_mcast mcast;
	uint32_t next_worker; /* worker of the next QP */
	struct {
		int fd; /* eventfd */
		struct xd_watch *watch;
	} absent;		    /* see absent.h */
	struct xd_rdma_cm *rdma_cm; /* state of the level above */
	struct xd_umad *umads;	    /* the same: list of open files */
	uint32_t umad_tid;	    /* of the last agent */
	/* A QP got its first packet before it was in RTS. Any thread. NULL: nothing to do */
	void (*comm_est)(struct xd_objects *o, uint32_t qpn);
	gid_t lkey_group; /* may use the reserved L_Key; XD_NO_GROUP: none */
};

/* State shared by the objects of one client */
struct xd_client_objects {
	struct xd_import import;
	struct xd_client_memory memory;
	struct xt_ahs *ahs; /* address handles as engines see them, NULL: none yet */
	uint32_t attached;  /* sum over its QPs of the multicast groups that they are attached to */
	uint64_t dm_bytes;  /* of device memory, whole pages */
	uint32_t last_qps;  /* that have sent what was posted since the client ends */
};

static inline struct xd_objects *xd_objects_of(const struct xd_client *c)
{
	return container_of(c->clients, struct xd_objects, clients);
}

/* Functions for struct xd_client_ops */
int xd_objects_open_client(struct xd_client *c);
void xd_objects_close_client(struct xd_client *c);

/*
 * Starts clients and registers the kinds of objects, with cm_id_ops for XD_CM_ID. Call
 * xd_objects_stop() after an error, too.
 */
int xd_objects_start(struct xd_objects *o, struct xd_device *dev, const struct xd_client_ops *ops,
		     const struct xd_kind_ops *cm_id_ops);
/*
 * Ends all clients. Returns false if a job hangs; then *o must not be freed, as the job may use it.
 */
bool xd_objects_stop(struct xd_objects *o);

#endif /* XD_OBJECTS_H */
