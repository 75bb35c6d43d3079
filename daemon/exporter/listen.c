// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 16
#define NO_GROUP ((gid_t)-1)
#define FIRST_PASSED 3 /* SD_LISTEN_FDS_START */

union listen_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/* ---- addresses ------------------------------------------------------------------- */

static int parse_port(const char *text, uint16_t *port)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || !n || n > UINT16_MAX)
		return -EINVAL;
	*port = htons((uint16_t)n);
	return 0;
}

/* Returns the length of the socket address, or -EINVAL. */
static int parse_inet(const char *text, union listen_address *a)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	char host[INET6_ADDRSTRLEN];

	if (n >= 2 && text[0] == '[' && text[n - 1] == ']' && n - 2 < sizeof(host)) {
		snprintf(host, sizeof(host), "%.*s", (int)n - 2, text + 1);
		a->in6.sin6_family = AF_INET6;
		if (inet_pton(AF_INET6, host, &a->in6.sin6_addr) == 1 &&
		    !parse_port(colon + 1, &a->in6.sin6_port))
			return sizeof(a->in6);
	} else if (n && n < sizeof(host)) {
		snprintf(host, sizeof(host), "%.*s", (int)n, text);
		a->in.sin_family = AF_INET;
		if (inet_pton(AF_INET, host, &a->in.sin_addr) == 1 &&
		    !parse_port(colon + 1, &a->in.sin_port))
			return sizeof(a->in);
	}
	return -EINVAL;
}

static int listen_parse(const char *text, union listen_address *a)
{
	memset(a, 0, sizeof(*a));
	if (text[0] != '/')
		return parse_inet(text, a);
	if (strlen(text) >= sizeof(a->un.sun_path))
		return -ENAMETOOLONG;
	a->un.sun_family = AF_UNIX;
	strcpy(a->un.sun_path, text);
	return sizeof(a->un);
}

/* Removes a socket that nobody listens on, which a process has left that was killed. */
static void listen_remove_stale(const struct sockaddr_un *un)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd >= 0 && !lstat(un->sun_path, &st) && S_ISSOCK(st.st_mode) &&
	    connect(fd, (const struct sockaddr *)un, sizeof(*un)) && errno == ECONNREFUSED)
		unlink(un->sun_path);
	if (fd >= 0)
		close(fd);
}

static int bind_unix(int fd, const struct sockaddr_un *un, gid_t group)
{
	mode_t old = umask(0177);
	int err;

	listen_remove_stale(un);
	err = bind(fd, (const struct sockaddr *)un, sizeof(*un)) ? -errno : 0;
	umask(old);
	if (!err && group != NO_GROUP &&
	    (chown(un->sun_path, (uid_t)-1, group) || chmod(un->sun_path, 0660))) {
		err = -errno;
		unlink(un->sun_path);
	}
	return err;
}

static int bind_inet(int fd, const union listen_address *a, socklen_t length)
{
	int on = 1;

	/* Connections of the last server may still be in TIME-WAIT. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return bind(fd, &a->sa, length) ? -errno : 0;
}

static int listen_on(const union listen_address *a, socklen_t length, gid_t group)
{
	int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	err = a->sa.sa_family == AF_UNIX ? bind_unix(fd, &a->un, group) : bind_inet(fd, a, length);
	if (!err && listen(fd, BACKLOG)) {
		err = -errno;
		if (a->sa.sa_family == AF_UNIX)
			unlink(a->un.sun_path);
	}
	if (!err)
		return fd;
	close(fd);
	return err;
}

int xd_listen_at(const char *address, gid_t group)
{
	union listen_address a;
	int length = listen_parse(address, &a);

	return length < 0 ? length : listen_on(&a, (socklen_t)length, group);
}

/* ---- sockets of the service manager ---------------------------------------------- */

/* Reads a number of the environment. Returns 0 if there is no such variable, -EINVAL. */
static int read_number(const char *name, unsigned long *number)
{
	const char *text = secure_getenv(name);
	char *end;

	*number = 0;
	if (!text)
		return 0;
	*number = strtoul(text, &end, 10);
	return *text < '0' || *text > '9' || *end || *number > INT_MAX ? -EINVAL : 0;
}

static int socket_option(int fd, int option)
{
	socklen_t length = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, option, &value, &length) ? -1 : value;
}

static int take_passed(int fd)
{
	int family = socket_option(fd, SO_DOMAIN), flags = fcntl(fd, F_GETFL);

	if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
		return -ENOTSOCK;
	if (socket_option(fd, SO_TYPE) != SOCK_STREAM || socket_option(fd, SO_ACCEPTCONN) != 1)
		return -ENOTSOCK;
	return fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC) ? -errno
											: 0;
}

int xd_listen_passed(int *fds, uint32_t room)
{
	unsigned long pid, n;
	int err = read_number("LISTEN_PID", &pid), bad = read_number("LISTEN_FDS", &n);

	err = err ? err : bad;
	/* The variables may be of the process that has started this one. */
	if (!err && pid != (unsigned long)getpid())
		n = 0;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (!err && n > room)
		err = -E2BIG;
	for (unsigned long i = 0; !err && i < n; i++) {
		fds[i] = FIRST_PASSED + (int)i;
		err = take_passed(fds[i]);
	}
	return err ? err : (int)n;
}
