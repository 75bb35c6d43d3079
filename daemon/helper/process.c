// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The helper's process: start and end */
#include "process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/name_lock.h"
#include "daemon/base/options.h"
#include "daemon/base/privileges.h"
#include "daemon/base/seccomp.h"
#include "disconnect.h"
#include "helper.h"
#include "serve.h"

#define END_MS 2000 /* that xd_helper_stop() waits */

/* Set before the fork: the daemon cannot change what is removed at the end. */
static char lock[XD_LOCK_PATH], pins[512];
static const char *ifname;
static struct xd_places places = { .lock = lock, .pins = pins };
static const struct xd_dreqs *dreqs;

static int helper_main(int sock)
{
	struct xd_serving s;
	sigset_t ended;

	sigemptyset(&ended);
	sigaddset(&ended, SIGUSR1);
	sigprocmask(SIG_BLOCK, &ended, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	if (xd_serving_open(&s, sock, ifname) || xd_privileges_drop(XD_ROLE_HELPER))
		return 1;
	xd_seccomp_enter(XD_ROLE_HELPER); /* the daemon logs a failure of its own call */
	while (xd_serving_step(&s, -1))
		;
	xd_serving_clean_up(&s, &places);
	/* Nobody has to wait for the rest: not xd_helper_stop(), nor the next daemon. */
	close(sock);
	xd_disconnect_all(s.disconnect, dreqs);
	return 0;
}

int xd_helper_start(const struct xd_options *opt, struct xd_helper **out)
{
	struct xd_helper *h = calloc(1, sizeof(*h));
	int err = -ENOMEM;

	if (!h)
		return err;
	h->dreqs = xd_dreqs_new(2 * opt->max_cm_id);
	if (!h->dreqs) {
		free(h);
		return err;
	}
	dreqs = h->dreqs;
	ifname = opt->interface;
	places.socket = opt->socket;
	xd_name_lock_path(opt->runtime_dir, opt->name, lock);
	snprintf(pins, sizeof(pins), "%s/xroce/%s", opt->bpffs, opt->name);
	err = xd_process_start(&h->process, "xroced-helper", helper_main);
	if (err) {
		xd_dreqs_free(h->dreqs);
		free(h);
		return err;
	}
	*out = h;
	return 0;
}

int xd_helper_fd(const struct xd_helper *h)
{
	return h->process.sock;
}

struct xd_dreqs *xd_helper_dreqs(const struct xd_helper *h)
{
	return h->dreqs;
}

/* Waits until the helper has closed its end, which is not yet the end of its process. */
void xd_helper_stop(struct xd_helper *h)
{
	struct pollfd cleaned_up = { .events = POLLRDHUP };

	if (!h)
		return;
	cleaned_up.fd = h->process.sock;
	shutdown(h->process.sock, SHUT_WR);
	poll(&cleaned_up, 1, END_MS);
	xd_process_close(&h->process);
	free(h);
}
