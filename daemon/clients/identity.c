// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/peer.h"

static void read_comm(struct xd_identity *id)
{
	char path[40];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", id->pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(id->comm, sizeof(id->comm), f))
		id->comm[strcspn(id->comm, "\n")] = '\0';
	fclose(f);
}

void xd_identity_open(struct xd_identity *id, int fd)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	id->pid = cred.pid;
	id->uid = cred.uid;
	id->gid = cred.gid;
	xd_peer_groups(fd, &id->groups);
	id->is_operator = !cred.uid || cred.uid == geteuid();
	id->pidfd = xd_peer_pidfd(fd, id->pid);
	read_comm(id);
}

void xd_identity_forget_process(struct xd_identity *id)
{
	if (id->pidfd >= 0)
		close(id->pidfd);
	id->pidfd = -1;
}

void xd_identity_close(struct xd_identity *id)
{
	xd_identity_forget_process(id);
	free(id->groups.gid);
}
