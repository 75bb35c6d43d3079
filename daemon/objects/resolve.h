/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests that wait until the next hop to an address is resolved. */
#ifndef XD_RESOLVE_H
#define XD_RESOLVE_H

#include "daemon/clients/client.h"
#include "daemon/clients/reply.h"
#include "daemon/transport/transport.h"

/* Continues a request once the path is known. Returns the status of the reply. */
typedef int (*xd_resolved_fn)(struct xd_client *c, const void *request, const struct xt_path *path,
			      struct xd_reply *rep);

/*
 * Resolves the next hop of a request, which is copied. Returns -EINVAL for an address that the
 * daemon cannot use, -ENOMEM, or XD_LATER, which the caller's handler returns: then() completes the
 * request.
 */
int xd_after_resolve(struct xd_client *c, const struct xr_ah_attr *attr, const void *request,
		     size_t length, xd_resolved_fn then);

/* Returns true if a rule of fault injection hides a GID of the device from the client. */
bool xd_gid_is_gone(const struct xd_client *c, const struct xr_addr *gid);

/*
 * Returns the path that is used to a QP, if it may be one of this device:
 *
 * - a direct program has it: by packets, which the kernel passes to the program's socket;
 * - while rules of fault injection select packets of both ends: by frames, so that there are some;
 * - else without packets.
 *
 * dest_qpn: 0 for an address handle, with which the transport decides for each datagram whether a
 * direct program gets it.
 */
struct xt_path xd_path_to_qp(const struct xd_client *c, const struct xt_path *path,
			     uint32_t dest_qpn);

#endif /* XD_RESOLVE_H */
