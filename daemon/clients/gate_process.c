// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The process of a gate. It may hang in any descriptor of its client: nobody else waits for it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/base/fd_message.h"
#include "gate.h"
#include "gate_message.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

/* Returns true if the daemon may own and close the descriptor. */
static bool is_safe(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct statfs fs;

	if (flags >= 0 && flags & O_PATH)
		return true;
	/* files of tmpfs and hugetlbfs only have seals */
	if (fcntl(fd, F_GET_SEALS) >= 0)
		return true;
	return !fstatfs(fd, &fs) && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == DMA_BUF_MAGIC);
}

/* Returns a descriptor that is passed instead; the caller closes both. */
static int safe_copy(int fd)
{
	char path[40];
	int copy;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = open(path, O_PATH | O_CLOEXEC);
	return copy >= 0 ? copy : open("/", O_PATH | O_CLOEXEC);
}

static bool gate_process_pass(int daemon, const struct xd_gate_message *m, const int *fds,
			      uint32_t n)
{
	size_t length = m->length > 0 ? (size_t)m->length : 0;

	if (length > XR_MSG_MAX)
		length = XR_MSG_MAX;
	return !xd_message_send(daemon, m, sizeof(m->length) + length, fds, n, 0);
}

/* Receives a request. Returns the number of its descriptors. */
static uint32_t gate_process_take(int client, struct xd_gate_message *m, int fds[XR_MSG_MAX_FDS])
{
	struct xd_message_room room = {
		.data = m->data,
		.len = sizeof(m->data),
		.fds = fds,
		.n = XR_MSG_MAX_FDS,
	};
	int err = xd_message_receive_any(client, &room, MSG_DONTWAIT);

	if (!err)
		m->length = (int32_t)room.len;
	else if (err == -EMFILE || err == -EPROTO)
		/* Without its descriptors the request is made malformed, so that it is refused. */
		m->length = sizeof(struct xr_msg) - 1;
	else
		m->length = err == -EPIPE ? 0 : err;
	return room.n;
}

static bool pass_request(int client, int daemon)
{
	static struct xd_gate_message m;
	int fds[XR_MSG_MAX_FDS], passed[XR_MSG_MAX_FDS];
	uint32_t n = gate_process_take(client, &m, fds), i;
	bool ok;

	for (i = 0; i < n; i++)
		passed[i] = is_safe(fds[i]) ? fds[i] : safe_copy(fds[i]);
	ok = gate_process_pass(daemon, &m, passed, n);
	for (i = 0; i < n; i++)
		if (passed[i] != fds[i])
			close(passed[i]);
	xd_fds_close(fds, n);
	return ok;
}

void xd_gate_main(const int *fds, uint32_t n)
{
	char command;

	while (n == 2 && recv(fds[1], &command, 1, 0) == 1 && pass_request(fds[0], fds[1]))
		;
}
