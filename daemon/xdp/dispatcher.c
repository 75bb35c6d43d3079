// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "dispatcher.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "daemon/base/log.h"
#include "daemon/base/process.h"

#define END_MS 2000    /* that xd_dispatcher_stop() waits */
#define SETTLE_MS 1000 /* from a message about an interface until the program is looked for */

struct xd_dispatcher {
	struct xd_process process;
	struct xdp_program *program; /* NULL: not attached */
};

/*
 * The program to remove: a message from the daemon to the process, which replies with one byte when
 * somebody else has removed it.
 */
struct target {
	uint32_t ifindex, id, mode;
};

static int to_log(enum libxdp_print_level level, const char *fmt, va_list ap)
{
	if (level == LIBXDP_WARN)
		xd_log_library(fmt, ap);
	return 0;
}

/* ---- the process ------------------------------------------------------------------------ */

static void dispatcher_detach(const struct target *t)
{
	struct xdp_multiprog *all = xdp_multiprog__get_from_ifindex((int)t->ifindex);
	struct xdp_program *p = NULL;

	if (libxdp_get_error(all))
		return;
	while ((p = xdp_multiprog__next_prog(p, all)))
		if (xdp_program__id(p) == t->id)
			break;
	if (p)
		xdp_program__detach(p, (int)t->ifindex, (enum xdp_attach_mode)t->mode, 0);
	xdp_multiprog__close(all);
}

/* Whether a dispatcher on the interface calls the program; also if there is no interface */
static bool dispatcher_is_attached(const struct target *t)
{
	struct xdp_multiprog *all;
	struct xdp_program *p = NULL;
	char name[IF_NAMESIZE];

	if (!if_indextoname(t->ifindex, name))
		return true;
	all = xdp_multiprog__get_from_ifindex((int)t->ifindex);
	if (libxdp_get_error(all))
		return false;
	while ((p = xdp_multiprog__next_prog(p, all)))
		if (xdp_program__id(p) == t->id)
			break;
	xdp_multiprog__close(all);
	return p;
}

/* A socket that gets a message when an interface has changed, its XDP program as well; or -1 */
static int open_link_socket(void)
{
	struct sockaddr_nl group = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&group, sizeof(group))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void discard_messages(int fd)
{
	char start[64];

	while (recv(fd, start, sizeof(start), MSG_DONTWAIT) > 0)
		;
}

/* Waits for the end of the daemon. Reports it if somebody else removes the program before. */
static void dispatcher_watch(int sock, const struct target *t)
{
	struct pollfd fds[] = { { sock, POLLIN, 0 }, { open_link_socket(), POLLIN, 0 } };
	bool attached = true;
	int n, ms = SETTLE_MS;

	for (;;) {
		/* Programs come and go in several steps, and messages are many at times. */
		fds[1].events = ms < 0 ? POLLIN : 0;
		n = poll(fds, 2, ms);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || fds[0].revents)
			return;
		discard_messages(fds[1].fd);
		ms = n ? SETTLE_MS : -1;
		if (!n && attached && !dispatcher_is_attached(t)) {
			attached = false;
			send(sock, "", 1, MSG_NOSIGNAL);
		}
	}
}

/* Waits for the program to remove, and then for the end of the daemon. */
static int detacher_main(int sock)
{
	struct target t;
	sigset_t ended;

	/* Instead of being killed, when the daemon ends */
	sigemptyset(&ended);
	sigaddset(&ended, SIGUSR1);
	sigprocmask(SIG_BLOCK, &ended, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	if (recv(sock, &t, sizeof(t), 0) != sizeof(t))
		return 0;
	dispatcher_watch(sock, &t);
	dispatcher_detach(&t);
	return 0;
}

/* ---- the daemon --------------------------------------------------------------------------- */

void xd_dispatcher_init(const char *bpffs)
{
	libxdp_set_print(to_log);
	setenv(XDP_BPFFS_ENVVAR, bpffs, 1);
}

int xd_dispatcher_start(struct xd_dispatcher **out)
{
	struct xd_dispatcher *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	err = xd_process_start(&d->process, "xroced-detach", detacher_main);
	if (err)
		free(d);
	else
		*out = d;
	return err;
}

/* The sockets of all queues are bound, so a program of this name belongs to no living daemon. */
static void dispatcher_remove_stale(const char *name, unsigned int ifindex)
{
	struct xdp_multiprog *all = xdp_multiprog__get_from_ifindex((int)ifindex);
	struct xdp_program *p = NULL;
	struct target t = { .ifindex = ifindex };

	if (libxdp_get_error(all))
		return;
	while ((p = xdp_multiprog__next_prog(p, all)))
		if (!strcmp(xdp_program__name(p), name))
			break;
	if (p) {
		t.id = xdp_program__id(p);
		t.mode = xdp_multiprog__attach_mode(all);
	}
	xdp_multiprog__close(all);
	if (t.id)
		dispatcher_detach(&t);
}

/* libxdp attaches a program alone if the kernel does not permit its dispatcher. */
static bool is_alone(unsigned int ifindex)
{
	struct xdp_multiprog *all = xdp_multiprog__get_from_ifindex((int)ifindex);
	bool alone;

	if (libxdp_get_error(all))
		return false;
	alone = xdp_multiprog__is_legacy(all);
	xdp_multiprog__close(all);
	return alone;
}

int xd_dispatcher_attach(struct xd_dispatcher *d, const struct xd_dispatched *what,
			 unsigned int ifindex, bool generic)
{
	DECLARE_LIBXDP_OPTS(xdp_program_opts, opts, .obj = what->obj, .prog_name = what->program);
	struct target t = { ifindex, 0, generic ? XDP_MODE_SKB : XDP_MODE_NATIVE };
	int err;

	dispatcher_remove_stale(what->program, ifindex);
	if (!d->program)
		d->program = xdp_program__create(&opts);
	err = (int)libxdp_get_error(d->program);
	if (err) {
		d->program = NULL;
		return err;
	}
	xdp_program__set_run_prio(d->program, what->priority);
	err = xdp_program__attach(d->program, (int)ifindex, (enum xdp_attach_mode)t.mode, 0);
	if (err)
		return err;
	if (is_alone(ifindex)) {
		xdp_program__detach(d->program, (int)ifindex, (enum xdp_attach_mode)t.mode, 0);
		xd_log(XD_ERR,
		       "--dispatcher: the kernel refuses the dispatcher of libxdp, which needs "
		       "BTF and programs of type BPF_PROG_TYPE_EXT");
		return -EOPNOTSUPP;
	}
	t.id = xdp_program__id(d->program);
	return send(d->process.sock, &t, sizeof(t), MSG_NOSIGNAL) == sizeof(t) ? 0 : -errno;
}

/* The message stays in the socket. */
bool xd_dispatcher_is_attached(const struct xd_dispatcher *d)
{
	char removed;

	return recv(d->process.sock, &removed, 1, MSG_DONTWAIT | MSG_PEEK) != 1;
}

void xd_dispatcher_stop(struct xd_dispatcher *d)
{
	if (!d)
		return;
	xd_process_end(&d->process, END_MS);
	if (d->program)
		xdp_program__close(d->program);
	free(d);
}
