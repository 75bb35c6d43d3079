// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "direct_path.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider/base/debug.h"
#include "provider/base/environment.h"
#include "provider/base/fault_signals.h"
#include "provider/base/libibverbs.h"
#include "provider/control/cm_path.h"
#include "provider/control/path.h"
#include "provider/host/host.h"
#include "provider/verbs/device.h"
#include "provider/verbs/request.h"

/* ---- the library -------------------------------------------------------------------------- */

static const struct xp_host_ops *ops;
static char load_error[PATH_MAX + 128];
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

/* It is in the folder of this library. Linked programs find this one by symbolic links. */
static bool find_library(char *path, size_t size)
{
	char self[PATH_MAX], *slash;
	Dl_info info;

	if (!dladdr(&ops, &info) || !info.dli_fname || !realpath(info.dli_fname, self))
		return false;
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	return slash && snprintf(path, size, "%s/%s", self, XP_HOST_LIBRARY) < (int)size;
}

static void direct_path_load(void)
{
	const struct xp_host_ops *found = NULL;
	char path[PATH_MAX];
	void *library;
	const char *why;

	if (!find_library(path, sizeof(path))) {
		snprintf(load_error, sizeof(load_error), "the folder of libxroce.so is not known");
		return;
	}
	library = xp_real_dlopen()(path, RTLD_NOW | RTLD_LOCAL);
	if (library)
		found = dlsym(library, XP_HOST_SYMBOL);
	if (!found) {
		why = dlerror();
		snprintf(load_error, sizeof(load_error), "%s", why ? why : path);
	} else if (strcmp(found->version, XR_VERSION)) {
		snprintf(load_error, sizeof(load_error), "%s is of version %s, libxroce.so of %s",
			 path, found->version, XR_VERSION);
	} else if (xp_fault_signals_take(found->fault)) {
		snprintf(load_error, sizeof(load_error),
			 "handlers of SIGSEGV and SIGBUS cannot be installed");
	} else {
		ops = found;
	}
}

/* ---- lending ------------------------------------------------------------------------------ */

/* Under conn_lock, as is the request that the host serves. fd: NULL: the reply has none */
static int request_fd_for_host(void *arg, uint32_t type, const void *req, size_t req_len, void *rep,
			       size_t rep_len, int *fd)
{
	struct xp_context *ctx = arg;
	struct xp_call call = {
		.type = type,
		.req = req,
		.req_len = req_len,
		.rep = rep,
		.rep_len = rep_len,
		.rep_fds = fd,
		.rep_room = fd != NULL,
	};
	int err = xp_conn_call(&ctx->conn, &call);

	return err || call.rep_nfds == call.rep_room ? err : -EPROTO;
}

static int request_for_host(void *arg, uint32_t type, const void *req, size_t req_len, void *rep,
			    size_t rep_len)
{
	const struct xp_context *ctx = arg;
	const struct xr_resolve_ah_req *q = req;

	if (type == XR_MSG_RESOLVE_AH && xp_cm_path_find(ctx->dev->path, &q->attr, rep))
		return 0;
	return request_fd_for_host(arg, type, req, req_len, rep, rep_len, NULL);
}

static int tell_for_host(void *arg, uint32_t type, const void *req, size_t req_len)
{
	struct xp_context *ctx = arg;
	struct xp_call call = { .type = type, .req = req, .req_len = req_len };

	return xp_conn_tell(&ctx->conn, &call);
}

/* fds: first those that receive and send; with a ring, one epoll set instead. */
static void set_fds(struct xp_lent *lent, const int *fds)
{
	unsigned int n = lent->ring ? 0 : lent->rep.ports;

	lent->rx = fds[0];
	for (unsigned int i = 0; i < XR_LEND_PORTS; i++)
		lent->tx[i] = i < n ? fds[1 + i] : -1;
	lent->events = fds[1 + n];
	lent->rules = fds[2 + n];
}

/* flags: XR_LEND_FASTER or 0. ring: descriptor of lent->ring, if it has one */
static int borrow(struct xp_context *ctx, struct xp_lent *lent, uint32_t flags, int ring)
{
	struct xr_lend_req req = {
		.flags = flags | (lent->ring ? XR_LEND_RING : 0),
		.ring = lent->ring ? (uint32_t)ring : 0,
	};
	int fds[XR_LEND_PORTS + 3], give[2], err;
	struct xp_call call = {
		.type = XR_MSG_LEND,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &lent->rep,
		.rep_len = sizeof(lent->rep),
		.rep_fds = fds,
		.rep_room = XR_LEND_PORTS + 3,
		.fds = give,
	};

	if (lent->view >= 0) {
		req.flags |= XR_LEND_VIEW;
		give[call.nfds++] = lent->view;
	}
	if (lent->inbox >= 0) {
		req.flags |= XR_LEND_INBOX;
		give[call.nfds++] = lent->inbox;
	}
	err = xp_conn_call(&ctx->conn, &call);
	if (!err && (lent->rep.ports > XR_LEND_PORTS ||
		     call.rep_nfds != (lent->ring ? 0 : lent->rep.ports) + 3)) {
		xp_close_fds(fds, call.rep_nfds);
		err = -EPROTO;
	}
	if (!err)
		set_fds(lent, fds);
	return err;
}

/* For users who do not get the sockets themselves. */
static int borrow_by_ring(struct xp_context *ctx, struct xp_lent *lent, uint32_t flags)
{
	int fd = ops->ring(&lent->ring);

	if (fd >= 0)
		return borrow(ctx, lent, flags, fd);
	snprintf(ctx->conn.why, sizeof(ctx->conn.why),
		 "this user may not borrow sockets, and the kernel refuses an io_uring: %s "
		 "(kernel.io_uring_disabled, seccomp)",
		 strerror(-fd));
	return fd;
}

static int borrow_any(struct xp_context *ctx, struct xp_lent *lent, uint32_t flags)
{
	int err = borrow(ctx, lent, flags, -1);

	if (err == -EPERM)
		err = borrow_by_ring(ctx, lent, flags);
	if (!err)
		return 0;
	ops->free_ring(lent->ring);
	if (lent->view >= 0)
		close(lent->view);
	if (lent->inbox >= 0)
		close(lent->inbox);
	return err;
}

/* Returns an error, and its reason in the connection's text. */
static int direct_path_open_host(struct xp_context *ctx, uint32_t flags, bool *by_ring)
{
	struct xp_host_env env = {
		.attr = &ctx->attr,
		.vectors = ctx->workers,
		.control = ctx->conn.fd,
		.request = request_for_host,
		.request_fd = request_fd_for_host,
		.tell = tell_for_host,
		.arg = ctx,
		.why = ctx->conn.why,
		.debug = xp_debug,
	};
	int err;

	pthread_once(&load_once, direct_path_load);
	if (!ops) {
		snprintf(ctx->conn.why, sizeof(ctx->conn.why), "%.*s",
			 (int)sizeof(ctx->conn.why) - 1, load_error);
		return -EOPNOTSUPP;
	}
	env.lent.view = ops->view();
	if (env.lent.view < 0)
		xp_debug("%s: the daemon sees nothing of the transport: %s", ctx->dev->ibdev.name,
			 strerror(-env.lent.view));
	env.lent.inbox = ops->inbox();
	if (env.lent.inbox < 0)
		xp_debug("%s: programs of this host send by the kernel only: %s",
			 ctx->dev->ibdev.name, strerror(-env.lent.inbox));
	err = borrow_any(ctx, &env.lent, flags);
	*by_ring = !err && env.lent.ring;
	if (!err)
		err = ops->open(&env, &ctx->host);
	if (err)
		return err;
	ctx->host_ops = ops;
	ctx->doorbells = ops->doorbell(ctx->host);
	return 0;
}

/* ---- contexts ----------------------------------------------------------------------------- */

static enum xp_path chosen_path(void)
{
	const char *word = xp_environment(XP_PATH);
	enum xp_path path;

	if (!xp_path_of_word(word, &path))
		xp_debug("XROCE_PATH is '%s', none of: " XP_PATH_WORDS, word);
	return path;
}

int xp_direct_path_open(struct xp_context *ctx)
{
	enum xp_path path = chosen_path();
	bool by_ring = false;
	const char *why;
	int err;

	if (path == XP_PATH_DAEMON)
		return 0;
	err = direct_path_open_host(ctx, path == XP_PATH_AUTO ? XR_LEND_FASTER : 0, &by_ring);
	if (!err) {
		xp_debug("%s: direct: the transport runs in this process, %s", ctx->dev->ibdev.name,
			 by_ring ? "by a restricted io_uring" : "on sockets of its own");
		return 0;
	}
	why = ctx->conn.why[0] ? ctx->conn.why : strerror(-err);
	if (path == XP_PATH_DIRECT)
		return xp_refuse("ibv_open_device", err, "XROCE_PATH is direct: %s", why);
	xp_debug("%s: by the daemon: %s", ctx->dev->ibdev.name, why);
	return 0;
}

void xp_direct_path_close(struct xp_context *ctx)
{
	if (ctx->host)
		ctx->host_ops->close(ctx->host, xp_health(ctx) == XP_FORKED);
	ctx->host = NULL;
}
