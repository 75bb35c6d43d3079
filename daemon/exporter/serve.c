// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "serve.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"

static void serve_on_signal(void *loop, uint32_t events)
{
	xd_loop_stop(loop);
}

/* The signals that end the service */
static void end_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
}

void xd_serve_block_signals(void)
{
	sigset_t set;

	end_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Returns a descriptor that reports them, or -errno. */
static int open_signals(void)
{
	sigset_t set;
	int fd;

	end_signals(&set);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static int serve_run(struct xd_loop *loop, int signals)
{
	struct xd_watch *watch = xd_watch_add(loop, signals, EPOLLIN, serve_on_signal, loop);
	int err = watch ? xd_loop_run(loop) : -ENOMEM;

	xd_watch_del(watch);
	return err;
}

int xd_serve_metrics(const int *fds, uint32_t n, const char *path, xd_scrape_collect *collect,
		     void *arg)
{
	struct xd_loop *loop = xd_loop_new();
	struct xd_scrape *s = loop ? xd_scrape_new(loop, collect, arg) : NULL;
	int err = s ? 0 : -ENOMEM, signals = -1;
	uint32_t i;

	for (i = 0; !err && i < n; i++)
		err = xd_scrape_add(s, fds[i]);
	if (!err) {
		signals = open_signals();
		err = signals < 0 ? signals : serve_run(loop, signals);
	}
	/* First: somebody else may listen there as soon as the socket is closed. */
	if (path)
		unlink(path);
	for (; i < n; i++)
		close(fds[i]);
	if (signals >= 0)
		close(signals);
	xd_scrape_free(s);
	xd_loop_free(loop);
	return err;
}
