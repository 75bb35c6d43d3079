// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "groups.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "log.h"

void xd_peer_groups(int fd, struct xd_groups *groups)
{
	socklen_t len = 0;

	*groups = (struct xd_groups){ 0 };
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) || errno != ERANGE)
		return;
	groups->gid = malloc(len);
	if (groups->gid && !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups->gid, &len))
		groups->count = len / sizeof(*groups->gid);
}

bool xd_in_groups(gid_t gid, gid_t own, const struct xd_groups *groups)
{
	bool found = gid == own;
	uint32_t i;

	for (i = 0; i < groups->count && !found; i++)
		found = groups->gid[i] == gid;
	return found;
}

int xd_group_by_name(const char *name, gid_t *gid)
{
	struct group *g;

	*gid = XD_NO_GROUP;
	if (!*name)
		return 0;
	g = getgrnam(name);
	if (!g) {
		xd_log(XD_ERR, "group '%s' does not exist", name);
		return -ENOENT;
	}
	*gid = g->gr_gid;
	return 0;
}
