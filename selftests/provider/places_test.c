// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Runtime directories: which of them a program uses, and which it must not trust */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "provider/control/runtime_dir.h"

#include "../lib/tap.h"

static char top[] = "/tmp/xroce-test-XXXXXX";

static char *in(const char *name)
{
	static char path[4][256];
	static unsigned int n;
	char *p = path[n++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", top, name);
	return p;
}

/* Returns a socket that listens, or with the backlog -1 only exists. */
static int make_socket(const char *path, int backlog)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) || (backlog >= 0 && listen(fd, backlog)))
		abort();
	return fd;
}

static bool is_refused(const char *path, const char *expected)
{
	char why[128] = "";
	int err = xp_private_dir(path, why, sizeof(why));

	if (err && strstr(why, expected))
		return true;
	printf("# %s: %d, %s\n", path, err, why);
	return false;
}

static void private_directories(void)
{
	char why[128];

	mkdir(in("open"), 0700);
	chmod(in("open"), 0777);
	mkdir(in("dir"), 0700);
	TAP_OK(!xp_private_dir(in("dir"), why, sizeof(why)), "a directory of mode 0700 is private");
	TAP_OK(xp_private_dir(in("none"), why, sizeof(why)) == -ENOENT,
	       "a directory that does not exist is told apart");
	TAP_OK(!symlink(in("dir"), in("link")) && is_refused(in("link"), "symbolic link"),
	       "a symbolic link is refused");
	close(open(in("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	TAP_OK(is_refused(in("file"), "no directory"), "a file is refused");
	chmod(in("dir"), 0750);
	TAP_OK(is_refused(in("dir"), "0750, not 0700"), "a directory of others' mode is refused");
	chmod(in("dir"), 0700);
	mkdir(in("open/dir"), 0700);
	TAP_OK(is_refused(in("open/dir"), "others may rename it"),
	       "a directory that others can rename is refused");
	chmod(in("open"), 01777);
	TAP_OK(!xp_private_dir(in("open/dir"), why, sizeof(why)),
	       "in a sticky directory such as /tmp they cannot");
	if (geteuid()) {
		tap_skip("a directory of another user is refused", "needs root");
	} else {
		TAP_OK(!chown(in("open/dir"), 65534, 65534) &&
			       is_refused(in("open/dir"), "belongs to user 65534"),
		       "a directory of another user is refused");
	}
	rmdir(in("open/dir"));
	rmdir(in("open"));
	unlink(in("file"));
	unlink(in("link"));
	rmdir(in("dir"));
}

/* Places of this user; the socket in /run/xroce of a machine that runs a daemon is not touched. */
static void choice(void)
{
	char expected[XP_SOCKET_PATH_MAX], path[XP_SOCKET_PATH_MAX];
	bool busy = xp_runtime_dir_answers("/run/xroce");
	int fd;

	setenv("XROCE_RUNTIME_DIR", "/any/where", 1);
	TAP_OK(!strcmp(xp_runtime_dir(), "/any/where"), "XROCE_RUNTIME_DIR is the directory");
	setenv("XROCE_RUNTIME_DIR", "", 1);
	setenv("XDG_RUNTIME_DIR", top, 1);
	snprintf(expected, sizeof(expected), "%s/xroce", top);
	errno = 7;
	TAP_OK(!strcmp(xp_runtime_dir(), "/run/xroce") && errno == 7,
	       "without any socket, it is /run/xroce, and errno is unchanged");
	mkdir(expected, 0700);
	TAP_OK(!strcmp(xp_runtime_dir(), "/run/xroce"), "a directory without sockets is not used");
	fd = make_socket(in("xroce/xr_lo.sock"), 1);
	TAP_OK(xp_runtime_dir_answers(expected), "a daemon answers");
	chmod(expected, 0755);
	TAP_OK(!strcmp(xp_runtime_dir(), "/run/xroce"),
	       "a directory that others can read is not looked into");
	chmod(expected, 0700);
	if (busy)
		tap_skip("the directory of the session is used", "a daemon of root runs");
	else
		TAP_OK(!strcmp(xp_runtime_dir(), expected), "the directory of the session is used");
	chmod(expected, 0755);
	TAP_OK(!strcmp(xp_runtime_dir(), busy ? "/run/xroce" : expected),
	       "without any socket, what was used before stays");
	chmod(expected, 0700);
	setenv("XDG_RUNTIME_DIR", ".", 1);
	TAP_OK(!xp_runtime_place(XP_DIR_SESSION, path), "a relative XDG_RUNTIME_DIR is ignored");
	setenv("XDG_RUNTIME_DIR", top, 1);
	close(fd);
	TAP_OK(!xp_runtime_dir_answers(expected), "the socket of a killed daemon does not answer");
	unlink(in("xroce/xr_lo.sock"));
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(expected, sizeof(expected), "/tmp/xroce-%u", geteuid());
	TAP_OK(!xp_runtime_place(XP_DIR_SESSION, path) && xp_runtime_place(XP_DIR_TMP, path) &&
		       !strcmp(path, expected),
	       "without XDG_RUNTIME_DIR, the place is a directory in /tmp");
	rmdir(in("xroce"));
}

/* Of two directories with sockets, the second one's daemon runs. */
static void stale_socket(void)
{
	char dir[XP_SOCKET_PATH_MAX], socket_path[2 * XP_SOCKET_PATH_MAX], session[64];
	int stale, fd;

	snprintf(session, sizeof(session), "%s/xroce", top);
	if (!xp_runtime_place(XP_DIR_TMP, dir) || mkdir(dir, 0700) ||
	    xp_runtime_dir_answers("/run/xroce")) {
		tap_skip("a daemon that runs is preferred to a socket that was left",
			 "this user's directories are in use");
		return;
	}
	setenv("XDG_RUNTIME_DIR", top, 1);
	mkdir(session, 0700);
	snprintf(socket_path, sizeof(socket_path), "%s/xr_a.sock", session);
	stale = make_socket(socket_path, -1);
	snprintf(socket_path, sizeof(socket_path), "%s/xr_b.sock", dir);
	fd = make_socket(socket_path, 0);
	TAP_OK(!strcmp(xp_runtime_dir(), dir),
	       "a daemon that runs is preferred to a socket that was left");
	/* Nobody accepts: the second connection does not fit into the backlog. */
	TAP_OK(xp_runtime_dir_answers(dir) && xp_runtime_dir_answers(dir),
	       "a daemon with a full backlog answers, without a wait");
	close(fd);
	TAP_OK(!strcmp(xp_runtime_dir(), session), "if none runs, the first directory is used");
	close(stale);
	unlink(socket_path);
	rmdir(dir);
	unlink(in("xroce/xr_a.sock"));
	rmdir(session);
}

int main(void)
{
	if (!mkdtemp(top))
		return 1;
	unsetenv("XROCE_RUNTIME_DIR");
	private_directories();
	choice();
	stale_socket();
	rmdir(top);
	return tap_end();
}
