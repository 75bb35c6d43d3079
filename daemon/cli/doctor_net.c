// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of sockets: UDP, port 4791, buffers */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xroce/wire.h>

#include "doctor.h"
#include "provider/control/runtime_dir.h"

/* The receive buffer that xroced asks for, without limit if it has CAP_NET_ADMIN */
#define WANTED_BUFFER (8 << 20)
#define SOCKETS_MAX 16 /* with the port, of which owners are looked for */

/* Since Linux 4.18 and 5.0 */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

/* ---- UDP ------------------------------------------------------------------------- */

static int try_option(int fd, int option, int value)
{
	return setsockopt(fd, IPPROTO_UDP, option, &value, sizeof(value)) ? errno : 0;
}

void doctor_udp(struct doctor *d, struct doctor_finding *f)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0) {
		doctor_found(f, DOCTOR_MISSING, "socket: %m");
		return;
	}
	err = try_option(fd, UDP_SEGMENT, 1024);
	if (!err)
		err = try_option(fd, UDP_GRO, 1);
	close(fd);
	if (err)
		doctor_found(
			f, DOCTOR_LIMITED,
			"no segmentation (UDP_SEGMENT, UDP_GRO): %s; large messages are slower",
			strerror(err));
	else
		doctor_found(f, DOCTOR_OK, "with segmentation (UDP_SEGMENT, UDP_GRO)");
}

/* ---- port 4791 ------------------------------------------------------------------- */

struct owners {
	unsigned long inode[SOCKETS_MAX];
	unsigned int uid[SOCKETS_MAX];
	unsigned int count;
	char *text;
	size_t size;
};

/* Reads the sockets with the port of /proc/net/udp or udp6, which have the same columns. */
static void read_sockets(const struct doctor *d, const char *path, unsigned int port,
			 struct owners *o)
{
	FILE *f = doctor_open(d, path);
	unsigned int local, uid;
	unsigned long inode;
	char line[512];

	while (f && o->count < SOCKETS_MAX && fgets(line, sizeof(line), f)) {
		if (sscanf(line,
			   "%*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %*x %*x:%*x %*x:%*x %*x %u %*u %lu",
			   &local, &uid, &inode) != 3 ||
		    local != port)
			continue;
		o->inode[o->count] = inode;
		o->uid[o->count++] = uid;
	}
	if (f)
		fclose(f);
}

static bool doctor_net_is_one_of(const struct owners *o, const char *link)
{
	unsigned long inode;

	if (sscanf(link, "socket:[%lu]", &inode) != 1)
		return false;
	for (unsigned int i = 0; i < o->count; i++)
		if (o->inode[i] == inode)
			return true;
	return false;
}

static bool has_socket(const struct doctor *d, const char *pid, const struct owners *o)
{
	char path[PATH_MAX], link[64];
	struct dirent *e;
	bool found = false;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/proc/%s/fd", d->root, pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		found = doctor_net_is_one_of(o, link);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void add_owner(const struct doctor *d, const char *pid, struct owners *o)
{
	char path[64], name[32] = "?";
	size_t n = strlen(o->text);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	f = doctor_open(d, path);
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
	snprintf(o->text + n, o->size - n, "%s%s (pid %s)", n ? ", " : "", name, pid);
}

static void find_processes(const struct doctor *d, struct owners *o)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/proc", d->root);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (strspn(e->d_name, "0123456789") == strlen(e->d_name) &&
		    has_socket(d, e->d_name, o))
			add_owner(d, e->d_name, o);
	}
	if (dir)
		closedir(dir);
}

/* Sockets of the kernel belong to root and to no process. */
static void name_unseen(const struct doctor *d, const struct owners *o)
{
	char module[PATH_MAX];

	snprintf(module, sizeof(module), "%s/sys/module/rdma_rxe", d->root);
	if (!o->uid[0] && !access(module, F_OK))
		snprintf(o->text, o->size, "the kernel's rdma_rxe");
	else
		snprintf(o->text, o->size, "a process of user %u that you cannot see", o->uid[0]);
}

unsigned int doctor_port_owner(const struct doctor *d, unsigned int port, char *text, size_t size)
{
	struct owners o = { .text = text, .size = size };

	*text = 0;
	read_sockets(d, "/proc/net/udp", port, &o);
	read_sockets(d, "/proc/net/udp6", port, &o);
	if (o.count)
		find_processes(d, &o);
	if (o.count && !*text)
		name_unseen(d, &o);
	return o.count;
}

/* Nobody else can use the port meanwhile, which is a few microseconds. */
static int try_bind(int family, const char *interface)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(XR_UDP_PORT) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(XR_UDP_PORT) };
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, err = 0;

	if (fd < 0)
		return errno == EAFNOSUPPORT ? 0 : errno;
	/* As xroced does: sockets of other interfaces do not matter then. */
	if (interface)
		setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface,
			   (socklen_t)strlen(interface));
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, family == AF_INET ? (void *)&four : (void *)&six,
		 family == AF_INET ? sizeof(four) : sizeof(six)))
		err = errno;
	close(fd);
	return err;
}

void doctor_port(struct doctor *d, struct doctor_finding *f)
{
	char owner[192];
	int err = try_bind(AF_INET, d->interface);

	if (!err)
		err = try_bind(AF_INET6, d->interface);
	if (!err) {
		doctor_found(f, DOCTOR_OK, "free %s%s",
			     d->interface ? "on " : "in this network namespace",
			     d->interface ? d->interface : "");
		return;
	}
	if (err != EADDRINUSE || !doctor_port_owner(d, XR_UDP_PORT, owner, sizeof(owner))) {
		doctor_found(f, DOCTOR_MISSING, "%s", strerror(err));
		return;
	}
	doctor_found(f, DOCTOR_MISSING, "in use by %s", owner);
	if (xp_runtime_dir_answers(d->cli->runtime_dir))
		f->state = DOCTOR_OK; /* programs have a daemon, and need no other one */
	else if (strstr(owner, "rdma_rxe"))
		doctor_remedy(f, "modprobe -r rdma_rxe (on newer kernels rdma link delete NAME "
				 "suffices), or --io xdp on an interface that it does not use");
	else if (!d->facts.lacks)
		doctor_remedy(f, "end what has the port, use another network namespace, or --io "
				 "xdp, which does without it");
}

/* ---- buffers ---------------------------------------------------------------------- */

/* Returns true if this user may exceed net.core.rmem_max in this network namespace. */
static bool may_force(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = WANTED_BUFFER;
	bool may = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));

	if (fd >= 0)
		close(fd);
	return may;
}

void doctor_buffers(struct doctor *d, struct doctor_finding *f)
{
	long long n;

	if (may_force())
		doctor_found(f, DOCTOR_OK, "of any size for this user");
	else if (!doctor_number(d, "/proc/sys/net/core/rmem_max", &n))
		doctor_found(f, DOCTOR_UNKNOWN,
			     "net.core.rmem_max is not shown in this network namespace");
	else if (n < WANTED_BUFFER)
		doctor_found(f, DOCTOR_LIMITED,
			     "net.core.rmem_max is %lld; sockets lose some packets while a worker "
			     "waits for a processor",
			     n);
	else
		doctor_found(f, DOCTOR_OK, "net.core.rmem_max is %lld", n);
}
