// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "provider/base/cancel.h"
#include "provider/base/fail.h"
#include "provider/cm/cm.h"
#include "provider/cm/command.h"
#include "provider/cm/refresh.h"
#include "provider/cm/umad.h"

/* Device number of the kernel's device file, if it has rdma_cm */
#define DEVICE_NUMBER "/sys/class/misc/rdma_cm/dev"

/* ---- open ----------------------------------------------------------------------- */

/* The channel owns the descriptor from now on. */
static int add_kernel(struct xp_cm_channel *ch, int fd)
{
	struct xp_cm_source *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->kernel = fd;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	xp_cm_source_add(ch, s, fd);
	return 0;
}

static int make_epoll_set(int flags)
{
	int fd = epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);

	if (fd >= 0 && flags & O_NONBLOCK)
		fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/*
 * Returns -ENOENT if there is no daemon, or the error of a daemon that refuses the channel. If the
 * kernel has rdma_cm, the commands connect to a daemon that does not answer now.
 */
static int connect_daemons(struct xp_cm_channel *ch, bool kernel)
{
	int err = xp_cm_refresh(ch);

	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		return err;
	if (ch->sources || (kernel && ch->retries))
		return 0;
	return err && err != -ECONNREFUSED && err != -ENODEV ? err : -ENOENT;
}

static int cm_open_channel(int kernel, int flags)
{
	struct xp_cm_channel *ch = xp_cm_channel_new();
	int err, fd;

	if (!ch)
		return -ENOMEM;
	fd = make_epoll_set(flags);
	ch->epfd = fd;
	err = fd < 0 ? fd : connect_daemons(ch, kernel >= 0);
	if (!err)
		err = xp_cm_number_new(ch, fd);
	if (err) {
		xp_cm_channel_free(ch);
	} else if (kernel >= 0) {
		err = add_kernel(ch, kernel);
		if (err)
			xp_cm_number_remove(ch, fd);
	}
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

int xp_cm_open(int kernel, int flags)
{
	int errno_kernel = errno, cancel = xp_cancel_off(), fd;

	fd = cm_open_channel(kernel, flags);
	xp_cancel_restore(cancel);
	if (fd >= 0) {
		errno = errno_kernel;
		return fd;
	}
	if (kernel >= 0)
		return kernel;
	return xp_fail(fd == -ENOENT ? errno_kernel : fd);
}

/* ---- calls on descriptors --------------------------------------------------------- */

bool xp_cm_write(int fd, const void *data, size_t len, ssize_t *result)
{
	struct xp_cm_channel *ch = xp_cm_get(fd);
	int cancel, err;

	if (!ch)
		return false;
	cancel = xp_cancel_off();
	err = ch->umad ? xp_umad_write(ch, data, len) : xp_cm_execute(ch, fd, data, len, cancel);
	xp_cm_put(ch);
	*result = err ? xp_fail(err) : (ssize_t)len;
	xp_cancel_restore(cancel);
	return true;
}

static dev_t device_number(void)
{
	FILE *f = fopen(DEVICE_NUMBER, "re");
	unsigned int major, minor;
	dev_t dev = 0;

	if (f && fscanf(f, "%u:%u", &major, &minor) == 2)
		dev = makedev(major, minor);
	if (f)
		fclose(f);
	return dev;
}

bool xp_cm_fstat(int fd, struct stat *st)
{
	struct xp_cm_channel *ch = xp_cm_get(fd);

	if (!ch)
		return false;
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFCHR | (ch->umad ? XP_UMAD_MODE : 0666);
	st->st_nlink = 1;
	st->st_blksize = 4096;
	st->st_rdev = ch->umad ? ch->umad->rdev : device_number();
	xp_cm_put(ch);
	return true;
}

void xp_cm_closing(int fd)
{
	int cancel = xp_cancel_off();
	struct xp_cm_channel *ch = xp_cm_get(fd);

	if (ch) {
		xp_cm_number_remove(ch, fd);
		xp_cm_put(ch);
	}
	xp_cancel_restore(cancel);
}

void xp_cm_closing_range(unsigned int first, unsigned int last)
{
	int cancel = xp_cancel_off();

	xp_cm_numbers_remove(first, last);
	xp_cancel_restore(cancel);
}

void xp_cm_duplicated(int old, int fd)
{
	struct xp_cm_channel *ch = xp_cm_get(old);

	if (!ch) {
		/* If fd was a channel before, it is found out now that it is none any more. */
		ch = xp_cm_get(fd);
	} else if (old != fd) {
		xp_cm_number_add(ch, fd);
	}
	if (ch)
		xp_cm_put(ch);
}
