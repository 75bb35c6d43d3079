// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "execute.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/memory_file.h"
#include "daemon/base/peer.h"

/* ---- the peer -------------------------------------------------------------------- */

void xd_helper_peer_open(struct xd_helper_peer *p, int connection)
{
	struct ucred cred = { .uid = (uid_t)-1, .gid = (gid_t)-1 };
	socklen_t len = sizeof(cred);

	getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	p->pid = cred.pid;
	p->uid = cred.uid;
	p->gid = cred.gid;
	p->pidfd = xd_peer_pidfd(connection, cred.pid);
	xd_peer_groups(connection, &p->groups);
}

void xd_helper_peer_close(struct xd_helper_peer *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p->groups.gid);
}

/* ---- files of shared mappings ---------------------------------------------------- */

static bool may_access(const struct stat *st, const struct xd_helper_peer *p, bool write)
{
	mode_t need = write ? 06 : 04;

	if (!p->uid)
		return true;
	if (st->st_uid == p->uid)
		need <<= 6;
	else if (xd_in_groups(st->st_gid, p->gid, &p->groups))
		need <<= 3;
	return (st->st_mode & need) == need;
}

/*
 * Checks a file that was found through a mapping. If the process executed another program
 * meanwhile, or the daemon lies about the mapping, this may be another file. may_access() protects
 * that file: the program must be allowed to open it. Returns the mode to open it with, or -errno.
 *
 * The file system may be one that never answers. A thread that hangs there would outlive SIGKILL,
 * with the locks that the helper holds.
 */
static int check_mapped(const struct xd_helper_peer *p, const struct xd_helper_request *r, int fd)
{
	struct xd_memory_file f;
	int err = xd_memory_file_check_mapped(fd, p->pid, &f);

	if (err)
		return err;
	if (f.st.st_dev != r->dev || f.st.st_ino != r->inode || !may_access(&f.st, p, r->write) ||
	    xd_process_ended(p->pidfd))
		return -EACCES;
	/* The daemon cannot guard mappings of files that were opened read-only (mapping.c). */
	return may_access(&f.st, p, true) ? O_RDWR : O_RDONLY;
}

/* Opens the file with O_PATH and checks it: opening a device could have side effects. */
static int open_mapped(const struct xd_helper_peer *p, const struct xd_helper_request *r)
{
	int path_fd, fd, mode;
	char path[80];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", p->pid,
		 (unsigned long long)r->start, (unsigned long long)r->end);
	path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;
	mode = check_mapped(p, r, path_fd);
	if (mode < 0) {
		close(path_fd);
		return mode;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, mode | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(path_fd);
	return fd;
}

int xd_helper_execute(const struct xd_helper_peer *p, const struct xd_helper_request *r)
{
	return r->op == XD_HELPER_OPEN_MAPPED ? open_mapped(p, r) : -EINVAL;
}
