/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* QPs attached to multicast groups. */
#ifndef XD_MCAST_H
#define XD_MCAST_H

#include <stdbool.h>
#include <stdint.h>

struct json;
struct xd_client;
struct xd_group;
struct xd_objects;
struct xd_qp;
struct xr_addr;

/* Limit for one client: sum over its QPs of the groups that they are attached to */
#define XD_CLIENT_ATTACHED 128

/* Groups that may have QPs of one user; operators are exempt */
#define XD_USER_GROUPS (XR_MAX_GROUPS / 2)

/* Groups with attached QPs */
struct xd_mcast {
	struct xd_group *first;
	uint32_t count;
};

/* Detaches a QP from all groups. */
void xd_mcast_leave(struct xd_qp *qp);
/* Calls fn for each group that a QP is attached to. */
void xd_mcast_each(const struct xd_objects *o, const struct xd_qp *qp,
		   void (*fn)(void *arg, const struct xd_qp *qp, const struct xr_addr *gid),
		   void *arg);
/* Writes the fields of a row for a QP and a group. */
void xd_mcast_show(struct json *j, const struct xd_qp *qp, const struct xr_addr *gid);
/* Adds the fields of a row of a direct program, as show_view() of a kind. */
void xd_mcast_show_view(struct json *j, const void *record, const struct xd_client *c, bool detail);

#endif /* XD_MCAST_H */
