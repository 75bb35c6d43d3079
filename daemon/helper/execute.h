/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In the helper: what it does for a program. The request is not trusted. */
#ifndef XD_HELPER_EXECUTE_H
#define XD_HELPER_EXECUTE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

#include "daemon/base/groups.h"
#include "protocol.h"

/* The process and user at the other end of a connection */
struct xd_helper_peer {
	pid_t pid;
	int pidfd; /* -1: none */
	uid_t uid;
	gid_t gid;
	struct xd_groups groups;
};

void xd_helper_peer_open(struct xd_helper_peer *p, int connection);
void xd_helper_peer_close(struct xd_helper_peer *p);

/* Executes the request of a ticket. May block. Returns a descriptor or -errno. */
int xd_helper_execute(const struct xd_helper_peer *p, const struct xd_helper_request *r);

#endif /* XD_HELPER_EXECUTE_H */
