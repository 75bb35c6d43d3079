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
/* Writes an object for each QP of each group. */
void xd_mcast_show(struct json *j, const struct xd_objects *o);
/* Adds the fields of a row of a direct program, as show_view() of a kind. */
void xd_mcast_show_view(struct json *j, const void *record, const struct xd_client *c, bool detail);

#endif /* XD_MCAST_H */
