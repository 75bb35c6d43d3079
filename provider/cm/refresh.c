// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/base/clock.h"
#include "provider/cm/refresh.h"
#include "provider/control/visible.h"

/*
 * A socket appears in the directory before the daemon listens on it, and several changes can have
 * the same time. So a directory that changed this recently is scanned again.
 */
#define SETTLE_NS (2 * XP_NS_PER_S)

/* Further attempts to reach a daemon that did not answer in time, until the directory changes */
#define RETRIES 3

/* ---- scan ----------------------------------------------------------------------- */

static bool is_connected(const struct xp_cm_channel *ch, const char *path)
{
	const struct xp_cm_source *s = ch->sources;

	while (s && (s->lost || strcmp(s->path, path)))
		s = s->next;
	return s;
}

static int add_daemon(struct xp_cm_channel *ch, const char *path)
{
	struct xp_cm_source *s = calloc(1, sizeof(*s));
	struct xp_cm_id *id;
	int err, events;

	if (!s)
		return -ENOMEM;
	err = xp_cm_source_connect(s, path, XR_HELLO_CM, &events);
	if (err) {
		free(s);
		return err;
	}
	xp_cm_source_add(ch, s, events);
	/* The daemon has the same file open, which therefore stays in the epoll set. */
	close(events);
	for (id = ch->ids; id; id = id->next) {
		if (id->records)
			xp_cm_id_extend(ch, id, s);
	}
	return 0;
}

/* Errors of this process come first: the program should see them rather than those of a daemon. */
static int worse(int a, int b)
{
	return a == -EMFILE || a == -ENFILE || a == -ENOMEM || !b ? a : b;
}

/* The daemon may only be slow. */
static bool is_silent(int err)
{
	return err == -ETIMEDOUT || err == -EAGAIN; /* of HELLO, of connect() */
}

static int scan(struct xp_cm_channel *ch)
{
	const char *dir = xp_runtime_dir();
	char **names = xp_sockets_list(dir), path[XP_SOCKET_PATH_MAX];
	bool silent = false;
	int err, result = 0;
	unsigned int n;

	for (n = 0; names && names[n]; n++) {
		err = xp_socket_path(path, dir, names[n]);
		if (!err && !is_connected(ch, path))
			err = add_daemon(ch, path);
		silent |= is_silent(err);
		result = err ? worse(err, result) : result;
	}
	xp_sockets_free(names);
	if (silent && ch->retries < RETRIES) {
		ch->retries++;
		ch->scan_again = true;
	}
	return result;
}

static bool must_scan(struct xp_cm_channel *ch)
{
	struct timespec now;
	struct stat st;
	bool changed, again = ch->scan_again;

	if (stat(xp_runtime_dir(), &st))
		return false;
	changed = st.st_mtim.tv_sec != ch->scanned.tv_sec ||
		  st.st_mtim.tv_nsec != ch->scanned.tv_nsec;
	if (changed)
		ch->retries = 0;
	clock_gettime(CLOCK_REALTIME, &now);
	ch->scan_again = (now.tv_sec - st.st_mtim.tv_sec) * (int64_t)XP_NS_PER_S + now.tv_nsec -
				 st.st_mtim.tv_nsec <
			 (int64_t)SETTLE_NS;
	ch->scanned = st.st_mtim;
	return changed || again;
}

int xp_cm_refresh(struct xp_cm_channel *ch)
{
	xp_cm_sources_check(ch);
	return must_scan(ch) ? scan(ch) : 0;
}

/* ---- watch ---------------------------------------------------------------------- */

/* If the directory does not exist, its parent is watched until it does. */
static void watch_directory(struct xp_cm_channel *ch)
{
	const uint32_t mask = IN_CREATE | IN_ATTRIB | IN_MOVED_TO | IN_DELETE_SELF | IN_ONLYDIR;
	char parent[PATH_MAX], *slash;
	int wd;

	wd = inotify_add_watch(ch->watch, xp_runtime_dir(), mask);
	if (wd < 0 && errno == ENOENT) {
		snprintf(parent, sizeof(parent), "%s", xp_runtime_dir());
		slash = strrchr(parent, '/');
		if (!slash)
			return;
		slash[slash == parent] = '\0';
		wd = inotify_add_watch(ch->watch, parent, IN_CREATE | IN_ONLYDIR);
	}
	/* The watch of the directory that is not needed any more goes. */
	if (wd >= 0 && wd != ch->watched_directory && ch->watched_directory)
		inotify_rm_watch(ch->watch, ch->watched_directory);
	ch->watched_directory = wd < 0 ? 0 : wd;
}

void xp_cm_watch(struct xp_cm_channel *ch)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = XP_CM_EPOLL_WATCH };

	if (ch->watch < 0) {
		ch->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		if (ch->watch < 0)
			return;
		watch_directory(ch);
		if (ch->watch_made >= 0)
			eventfd_write(ch->watch_made, 1);
	}
	if (!ch->watch_in_set && fcntl(ch->epfd, F_GETFL) & O_NONBLOCK)
		ch->watch_in_set = !epoll_ctl(ch->epfd, EPOLL_CTL_ADD, ch->watch, &ev);
}

int xp_cm_watch_fd(struct xp_cm_channel *ch)
{
	if (ch->watch >= 0)
		return ch->watch;
	if (ch->watch_made < 0)
		ch->watch_made = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return ch->watch_made;
}

void xp_cm_watch_drain(struct xp_cm_channel *ch)
{
	uint8_t events[4096];
	eventfd_t made;

	xp_cm_watch(ch);
	if (ch->watch < 0) {
		eventfd_read(ch->watch_made, &made); /* else waiting would never block again */
		return;
	}
	while (read(ch->watch, events, sizeof(events)) > 0)
		;
	watch_directory(ch);
}
