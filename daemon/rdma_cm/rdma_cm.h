/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rdma_cm: channels, ids, ports, addresses and events, and the commands of librdmacm. The layer has
 * the role of the kernel's ucma and cma; the CM engine (daemon/cm) has that of the kernel's ib_cm.
 *
 *   command.c         decodes requests and calls the functions of the other files
 *   channel.c         channels, and their queues of events
 *   id.c              creation and end of ids, options, migration
 *   id_show.c         JSON output of ids
 *   rdma_cm.c         the state of the device
 *   timer.c           the timer of the CM engine
 *   address.c         socket addresses
 *   port.c            port spaces
 *   resolve.c         bind, resolution of addresses and routes
 *   listen.c          listeners, and requests of peers
 *   connect.c         connections, events of the CM engine
 *   faults.c          programs whose injected faults apply to MADs
 *   early_replies.c   replies that an event carries to the commands that follow it
 *   query.c           addresses, paths and QP attributes of an id
 *   multicast.c       joins
 *   comm_est.c        connections that a packet of the QP establishes
 *
 * Control thread only.
 */
#ifndef XD_RDMA_CM_H
#define XD_RDMA_CM_H

#include <stdint.h>

#include "daemon/objects/objects.h"

struct xc_cm;
struct xd_rdma_cm;

/* The kind of object XD_CM_ID */
extern const struct xd_kind_ops xd_cm_id_ops;

/* Sets objects->rdma_cm. -ENOMEM. */
int xd_rdma_cm_new(struct xd_objects *objects);
void xd_rdma_cm_free(struct xd_rdma_cm *cm); /* when there are no clients; NULL allowed */

/*
 * Disconnects and rejects all connections, while the workers still run. The ids stay, without
 * connections.
 */
void xd_rdma_cm_disconnect(struct xd_rdma_cm *cm);

/* Makes the client a channel, with a new token. Adds its event descriptor to the reply. */
int xd_cm_channel_hello(struct xd_client *c, uint8_t token[XR_TOKEN_LEN], struct xd_reply *rep);
/* Frees c->cm_channel, when the client has no ids. NULL allowed. In a job: may block. */
void xd_cm_channel_close(struct xd_client *c);

/* Returns the CM engine, for its counters. */
const struct xc_cm *xd_rdma_cm_engine(const struct xd_rdma_cm *cm);

#endif /* XD_RDMA_CM_H */
