/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* User groups, which decide who may connect and which files a client may open. */
#ifndef XD_GROUPS_H
#define XD_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define XD_NO_GROUP ((gid_t)-1)

/* Supplementary groups of a process */
struct xd_groups {
	gid_t *gid;
	uint32_t count;
};

/* Reads the groups of a socket's peer; an empty list on error. The caller frees groups->gid. */
void xd_peer_groups(int fd, struct xd_groups *groups);
/* Returns true if gid is the primary group `own` or in the list. */
bool xd_in_groups(gid_t gid, gid_t own, const struct xd_groups *groups);
/* Looks up a group. An empty name gives XD_NO_GROUP; -ENOENT is logged. */
int xd_group_by_name(const char *name, gid_t *gid);

#endif /* XD_GROUPS_H */
