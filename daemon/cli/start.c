// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * run --start: starts a daemon for this user. It is looked for in the folder of this command (build
 * tree), in ../sbin from there (installed), in PATH and in the usual folders of daemons.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "environment.h"
#include "provider/control/runtime_dir.h"

#define DAEMON "xroced"
#define LOOPBACK "lo"
#define LOCK ".start.lock" /* not the name of a device's lock file */
#define LOG "xroced.log"
#define OLD_LOG "xroced.log.old"
#define LINE_MAX_LEN 512 /* of the log, in an error */

/* A start takes some 100 ms. A busy machine may stand still for seconds. */
#define READY_S 20
#define LOOK_NS 20000000
#define HELLO_MS 2000

/* ---- daemons that run ------------------------------------------------------------ */

/* Stores the name of the device if a daemon at one of the sockets serves the interface. */
static bool start_find_device(const char *dir, const char *interface, char *device)
{
	const struct xp_timeouts timeouts = { HELLO_MS, HELLO_MS };
	char **names = xp_sockets_list(dir), **p, path[XP_SOCKET_PATH_MAX];
	struct xr_hello_rep hello;
	struct xp_conn conn;
	bool found = false;

	for (p = names; p && *p && !found; p++) {
		if (xp_socket_path(path, dir, *p) || xp_conn_observe(&conn, path, timeouts, &hello))
			continue;
		xp_conn_close(&conn);
		found = !strcmp(hello.netdev, interface);
		if (found && device)
			strcpy(device, hello.device);
	}
	xp_sockets_free(names);
	return found;
}

static bool start_serves(const char *dir, const char *interface)
{
	return interface ? start_find_device(dir, interface, NULL) : xp_runtime_dir_answers(dir);
}

/* Stores the directory of a daemon that programs of this user reach. */
static bool find_daemon(const struct cli *cli, const char *interface, char dir[XP_SOCKET_PATH_MAX])
{
	char why[128];
	unsigned int place;

	if (cli->runtime_dir_given) {
		snprintf(dir, XP_SOCKET_PATH_MAX, "%s", cli->runtime_dir);
		return start_serves(dir, interface);
	}
	for (place = 0; place < XP_DIR_PLACES; place++) {
		if (xp_runtime_place(place, dir) &&
		    (place == XP_DIR_SYSTEM || !xp_private_dir(dir, why, sizeof(why))) &&
		    start_serves(dir, interface))
			return true;
	}
	return false;
}

/* ---- the directory ---------------------------------------------------------------- */

/* Creates the directory for a daemon of this user, which nobody else can have prepared. */
static int make_private(char dir[XP_SOCKET_PATH_MAX])
{
	char why[128];

	if (!xp_runtime_place(XP_DIR_SESSION, dir) && !xp_runtime_place(XP_DIR_TMP, dir))
		return cli_error("there is no directory for a daemon of this user");
	if (mkdir(dir, 0700) && errno != EEXIST)
		return cli_error("cannot create %s: %m", dir);
	if (xp_private_dir(dir, why, sizeof(why)))
		return cli_error("cannot use %s: %s; remove it, or set " CLI_RUNTIME_DIR_ENV, dir,
				 why);
	return CLI_OK;
}

/* A directory that was named may be shared with others, as by the containers of a pod. */
static int start_make_directory(const struct cli *cli, char dir[XP_SOCKET_PATH_MAX])
{
	struct stat st;

	if (!cli->runtime_dir_given)
		return make_private(dir);
	if (strlen(cli->runtime_dir) >= XP_SOCKET_PATH_MAX)
		return cli_error("%s: the path is too long for a socket", cli->runtime_dir);
	strcpy(dir, cli->runtime_dir);
	if (mkdir(dir, 0700) && errno != EEXIST)
		return cli_error("cannot create %s: %m", dir);
	if (stat(dir, &st))
		return cli_error("cannot use %s: %m", dir);
	return S_ISDIR(st.st_mode) ? CLI_OK : cli_error("cannot use %s: it is no directory", dir);
}

static int open_in(const char *dir, const char *name, int flags)
{
	char path[XP_SOCKET_PATH_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		cli_error("cannot open %s: %m", path);
	return fd;
}

/* Of the two logs that remain, one is that of the last daemon before. */
static int open_log(const char *dir)
{
	char log[XP_SOCKET_PATH_MAX + 32], old[XP_SOCKET_PATH_MAX + 32];

	snprintf(log, sizeof(log), "%s/" LOG, dir);
	snprintf(old, sizeof(old), "%s/" OLD_LOG, dir);
	if (rename(log, old) && errno != ENOENT) {
		cli_error("cannot rename %s: %m", log);
		return -1;
	}
	return open_in(dir, LOG, O_WRONLY | O_APPEND | O_EXCL);
}

/* ---- the daemon ------------------------------------------------------------------- */

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

static bool is_in_path(char path[PATH_MAX])
{
	const char *p = getenv("PATH");
	size_t n;

	for (; p && *p; p += n + (p[n] == ':')) {
		n = strcspn(p, ":");
		/* An empty entry is the working directory, which is no place for a daemon. */
		snprintf(path, PATH_MAX, "%.*s/" DAEMON, (int)n, p);
		if (n && is_program(path))
			return true;
	}
	return false;
}

static bool find_program(char path[PATH_MAX])
{
	static const char *const places[] = {
		"%s/" DAEMON,	     "%s/../sbin/" DAEMON,  NULL, "/usr/local/sbin/" DAEMON,
		"/usr/sbin/" DAEMON, "/usr/libexec/" DAEMON
	};
	char self[PATH_MAX], place[2 * PATH_MAX];
	size_t i;

	cli_own_folder(self);
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!places[i]) {
			if (is_in_path(path))
				return true;
			continue;
		}
		snprintf(place, sizeof(place), places[i], self);
		if (is_program(place) && realpath(place, path))
			return true;
	}
	return false;
}

struct start {
	char program[PATH_MAX];
	char dir[XP_SOCKET_PATH_MAX];
	const char *interface, *idle;
	int log;
	char device[XR_DEVICE_NAME_MAX + 1]; /* of the daemon, once it is ready */
};

/* In the child. A daemon that an ordinary user starts cannot give its socket to a group. */
static void start_execute(const struct start *s)
{
	char *arguments[] = { (char *)DAEMON,	    (char *)"--interface",
			      (char *)s->interface, (char *)"--runtime-dir",
			      (char *)s->dir,	    (char *)"--io",
			      (char *)"socket",	    (char *)"--exit-idle",
			      (char *)s->idle,	    (char *)"--group",
			      (char *)"",	    NULL };
	int null = open("/dev/null", O_RDONLY);

	/* They are meant for this process: the provider, and what systemd tells a service. */
	unsetenv("LD_PRELOAD");
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	setsid();
	if (chdir("/") || dup2(null, STDIN_FILENO) < 0 || dup2(s->log, STDOUT_FILENO) < 0 ||
	    dup2(s->log, STDERR_FILENO) < 0)
		_exit(CLI_FAILED);
	/* What the caller has open, a pipe for example, must not remain open with the daemon. */
	close_range(STDERR_FILENO + 1, ~0U, 0);
	execv(s->program, arguments);
	dprintf(STDERR_FILENO, "%s: %m\n", s->program);
	_exit(CLI_FAILED);
}

/*
 * Returns a descriptor of the daemon's process, or -1. It is no child of this process, which
 * becomes the program: that would find a child that it did not start.
 */
static int launch(const struct start *s, pid_t *pid)
{
	pid_t child, between;
	int ends[2], fd = -1;

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	between = fork();
	if (!between) {
		child = fork();
		if (!child)
			start_execute(s);
		_exit(write(ends[1], &child, sizeof(child)) != sizeof(child));
	}
	close(ends[1]);
	*pid = -1;
	if (between > 0 && read(ends[0], pid, sizeof(*pid)) == sizeof(*pid) && *pid > 0)
		fd = (int)syscall(SYS_pidfd_open, *pid, 0);
	close(ends[0]);
	if (between > 0)
		waitpid(between, NULL, 0);
	return fd;
}

/* ---- readiness --------------------------------------------------------------------- */

/* Prints why the daemon did not start: the last line of its log. */
static int start_explain(const struct start *s, const char *what)
{
	char log[XP_SOCKET_PATH_MAX + 32], line[LINE_MAX_LEN], last[LINE_MAX_LEN] = "";
	FILE *f;

	snprintf(log, sizeof(log), "%s/" LOG, s->dir);
	f = fopen(log, "re");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			strcpy(last, line);
	}
	if (f)
		fclose(f);
	return cli_error("%s %s: %s%s%s", s->program, what, last, *last ? "; see " : "see ", log);
}

static int wait_until_ready(struct start *s, int process)
{
	static const struct timespec look = { .tv_nsec = LOOK_NS };
	struct pollfd p = { .fd = process, .events = POLLIN };
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += READY_S;
	do {
		if (start_find_device(s->dir, s->interface, s->device))
			return CLI_OK;
		/* Without a descriptor, it has ended already. */
		if (process < 0 || ppoll(&p, 1, &look, NULL) > 0)
			return start_find_device(s->dir, s->interface, s->device)
				       ? CLI_OK
				       : start_explain(s, "has ended");
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0);
	return start_explain(s, "was not ready in time, and was stopped");
}

static void start_report(const struct start *s, pid_t pid)
{
	char idle[64] = "it does not end by itself";

	if (strspn(s->idle, "0") != strlen(s->idle))
		snprintf(idle, sizeof(idle), "it ends %s s after its last program", s->idle);
	cli_error("started " DAEMON " (pid %d): device %s on %s, %s; programs of this user only, "
		  "through UDP sockets without XDP%s; log: %s/" LOG,
		  pid, s->device, s->interface, idle,
		  strcmp(s->interface, LOOPBACK) ? ""
						 : ", none of other hosts or network namespaces",
		  s->dir);
}

static int start_service(struct start *s)
{
	int process, status;
	pid_t pid;

	s->log = open_log(s->dir);
	if (s->log < 0)
		return CLI_FAILED;
	process = launch(s, &pid);
	close(s->log);
	if (pid < 0)
		return cli_error("cannot start %s: %m", s->program);
	status = wait_until_ready(s, process);
	if (process >= 0)
		close(process);
	if (status == CLI_OK)
		start_report(s, pid);
	return status;
}

/* ---- the start --------------------------------------------------------------------- */

/* Another process may start a daemon at this time, which is found when it is ready. */
static int start_once(const struct cli *cli, struct start *s, const char *wanted)
{
	int lock = open_in(s->dir, LOCK, O_RDWR), status;
	char found[XP_SOCKET_PATH_MAX];

	if (lock < 0)
		return CLI_FAILED;
	while (flock(lock, LOCK_EX) && errno == EINTR)
		;
	if (find_daemon(cli, wanted, found)) {
		strcpy(s->dir, found);
		status = CLI_OK;
	} else {
		status = start_service(s);
	}
	close(lock);
	return status;
}

int cli_start(struct cli *cli, const char *interface, const char *idle)
{
	static struct start s; /* cli->runtime_dir refers to it */
	int status;

	s.interface = interface ? interface : LOOPBACK;
	s.idle = idle;
	if (!if_nametoindex(s.interface))
		return cli_error("start: there is no interface '%s'", s.interface);
	if (!find_daemon(cli, interface, s.dir)) {
		if (!find_program(s.program))
			return cli_error("start: cannot find " DAEMON
					 ": neither next to this command, nor in PATH, nor "
					 "installed");
		status = start_make_directory(cli, s.dir);
		if (status == CLI_OK)
			status = start_once(cli, &s, interface);
		if (status != CLI_OK)
			return status;
	}
	cli->runtime_dir = s.dir;
	cli->runtime_dir_given = true;
	return CLI_OK;
}
