// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/base/clock.h"
#include "provider/cm/refresh.h"
#include "provider/control/runtime_dir.h"

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

static int refresh_scan(struct xp_cm_channel *ch)
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

static bool refresh_is_new(const struct stat *st)
{
	struct timespec now;
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = (now.tv_sec - st->st_mtim.tv_sec) * (int64_t)XP_NS_PER_S + now.tv_nsec -
	      st->st_mtim.tv_nsec;
	return age >= 0 && age < (int64_t)SETTLE_NS;
}

bool xp_cm_directory_is_new(void)
{
	struct stat st;

	return !stat(xp_runtime_dir(), &st) && refresh_is_new(&st);
}

static bool must_scan(struct xp_cm_channel *ch)
{
	struct stat st;
	bool changed, again = ch->scan_again;

	if (stat(xp_runtime_dir(), &st))
		return false;
	changed = st.st_mtim.tv_sec != ch->scanned.tv_sec ||
		  st.st_mtim.tv_nsec != ch->scanned.tv_nsec;
	if (changed)
		ch->retries = 0;
	ch->scan_again = refresh_is_new(&st);
	ch->scanned = st.st_mtim;
	return changed || again;
}

int xp_cm_refresh(struct xp_cm_channel *ch)
{
	xp_cm_sources_check(ch);
	return must_scan(ch) ? refresh_scan(ch) : 0;
}
