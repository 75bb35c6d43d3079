// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/base/clock.h"
#include "provider/base/debug.h"
#include "provider/base/environment.h"
#include "provider/cm/numbers.h"
#include "provider/cm/refresh.h"
#include "provider/cm/watch.h"
#include "provider/control/runtime_dir.h"

/* Interval at which a daemon is tried again that has created its socket and does not listen yet */
#define AGAIN_NS (20 * XP_NS_PER_MS)

/* Beside what the C library needs: the deepest calls have names of files and replies of 4 KiB. */
#define STACK (128 * 1024)

struct watcher {
	int inotify;
	int directory; /* watch descriptor, or -1 */
	struct xp_environment environment;
};

/* The process that has the thread, which a child does not inherit. 0: none. Atomic */
static pid_t watching;

/* ---- the directory ---------------------------------------------------------------- */

/*
 * If the directory does not exist, its parent is watched until it does. Returns false if neither
 * can be watched, which is so, too, if the program has closed all descriptors that it found.
 */
static bool watch_directory(struct watcher *w)
{
	const uint32_t mask = IN_CREATE | IN_ATTRIB | IN_MOVED_TO | IN_DELETE_SELF | IN_ONLYDIR;
	int wd = inotify_add_watch(w->inotify, xp_runtime_dir(), mask);
	char parent[PATH_MAX], *slash;

	if (wd < 0 && errno == ENOENT) {
		snprintf(parent, sizeof(parent), "%s", xp_runtime_dir());
		slash = strrchr(parent, '/');
		if (!slash)
			return false;
		slash[slash == parent] = '\0';
		wd = inotify_add_watch(w->inotify, parent, IN_CREATE | IN_ONLYDIR);
	}
	/* The watch of the directory that is not needed any more goes. */
	if (w->directory >= 0 && wd >= 0 && wd != w->directory)
		inotify_rm_watch(w->inotify, w->directory);
	w->directory = wd;
	return wd >= 0;
}

/* Waits for a change of the directory, or for a short time, and takes the events. */
static void wait_for_change(struct watcher *w, bool short_time)
{
	static const struct timespec again = { .tv_nsec = AGAIN_NS };
	struct pollfd p = { .fd = w->inotify, .events = POLLIN };
	uint8_t events[4096];

	ppoll(&p, 1, short_time ? &again : NULL, NULL);
	while (p.revents & POLLIN && watch_directory(w) &&
	       read(w->inotify, events, sizeof(events)) > 0)
		;
}

/* ---- the thread ------------------------------------------------------------------- */

/* Returns true if a channel may find further daemons soon, also one that is not watched yet. */
static bool refresh_all(void)
{
	bool again = xp_cm_directory_is_new();
	struct xp_cm_channel *ch = NULL;

	while ((ch = xp_cm_lock_watched(ch, &again))) {
		ch->epfd = ch->watched;
		xp_cm_refresh(ch);
		again |= ch->scan_again;
		pthread_mutex_unlock(&ch->lock);
	}
	return again;
}

static void watcher_free(struct watcher *w)
{
	xp_environment_free(&w->environment);
	free(w);
}

static void *cm_watch(void *arg)
{
	struct watcher *w = arg;

	xp_environment_use(&w->environment);
	while (watch_directory(w))
		wait_for_change(w, refresh_all());
	xp_debug("rdma_cm: the runtime directory is not watched any more: %m");
	/* The descriptor may be another file now, if the program has closed it. */
	__atomic_store_n(&watching, 0, __ATOMIC_RELEASE);
	xp_environment_use(NULL);
	watcher_free(w);
	return NULL;
}

/* The thread gets no signal, so that a program which expects one to end a wait gets it. */
static int watch_start_thread(struct watcher *w)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, cm_watch, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

static int watch_start(void)
{
	struct watcher *w = calloc(1, sizeof(*w));
	int err = w ? xp_environment_copy(&w->environment) : -ENOMEM;

	if (err) {
		free(w);
		return err;
	}
	w->directory = -1;
	w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	err = w->inotify < 0 ? -errno : watch_start_thread(w);
	if (!err)
		return 0;
	if (w->inotify >= 0)
		close(w->inotify);
	watcher_free(w);
	return err;
}

void xp_cm_watch(struct xp_cm_channel *ch)
{
	pid_t self = getpid();
	int err;

	/* The program may close its own at any time. fcntl() of this library would make it one. */
	if (ch->watched < 0)
		ch->watched = (int)syscall(SYS_fcntl, ch->epfd, F_DUPFD_CLOEXEC, 0);
	if (ch->watched < 0 || __atomic_exchange_n(&watching, self, __ATOMIC_ACQUIRE) == self)
		return;
	err = watch_start();
	if (!err)
		return;
	__atomic_store_n(&watching, 0, __ATOMIC_RELAXED);
	xp_debug("rdma_cm: the runtime directory is not watched: %s", strerror(-err));
}
