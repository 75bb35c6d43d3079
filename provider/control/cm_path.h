/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Paths to peers that a daemon has told with events of rdma_cm (XR_CM_PATH). The QP of a connection
 * enters RTR right after the event, and needs no request for its path then. Any thread.
 */
#ifndef XP_CM_PATH_H
#define XP_CM_PATH_H

#include <stdbool.h>

#include <xroce/control.h>

/* socket: control socket of the daemon */
void xp_cm_path_tell(const char *socket, const struct xr_cm_path *path);
/* Returns true if the daemon has told the path a short time ago. */
bool xp_cm_path_find(const char *socket, const struct xr_ah_attr *attr,
		     struct xr_resolve_ah_rep *rep);

#endif /* XP_CM_PATH_H */
