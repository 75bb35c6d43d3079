// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Injected faults of verbs: requests that fail, or that take long. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/clients/load.h"
#include "daemon/datapath/worker.h"
#include "daemon/faults/faults.h"
#include "server.h"

/* A request that waits before it is executed */
struct postponed {
	struct xd_client *client;
	struct xd_timer *timer;
	xd_handler handler;
	int error; /* that is injected; 0: none */
	struct xd_request req;
	int fds[XR_MSG_MAX_FDS];
	uint64_t body[];
};

static void postponed_free(struct postponed *p)
{
	xd_timer_free(p->timer);
	free(p);
}

static int fault_verbs_fail(struct xd_client *c, int error)
{
	return xd_refuse(c, error, "an injected fault, see docs/faults.md");
}

static void on_time(void *arg)
{
	struct postponed *p = arg;
	struct xd_client *c = p->client;

	xd_request_wake(c);
	if (p->error) {
		xd_client_close_fds(c, p->fds, p->req.nfds);
		xd_reply_send(c, fault_verbs_fail(c, p->error), NULL);
	} else {
		xd_request_execute(c, &p->req, p->handler);
	}
	postponed_free(p);
	xd_load_charge_lap(c);
}

static void fault_verbs_cancel(struct xd_client *c)
{
	struct postponed *p = c->connection.waiting;

	xd_client_close_fds(c, p->fds, p->req.nfds);
	postponed_free(p);
}

/* Takes over the descriptors. Returns XD_LATER or -ENOMEM. */
static int postpone(struct xd_client *c, struct xd_request *req, uint32_t size,
		    const struct postponed *how, uint64_t delay)
{
	const uint32_t length = req->length > size ? req->length : size;
	struct postponed *p = malloc(sizeof(*p) + length);

	if (!p)
		return -ENOMEM;
	*p = *how;
	p->client = c;
	p->timer = xd_timer_new(c->dev->loop, on_time, p);
	if (!p->timer) {
		free(p);
		return -ENOMEM;
	}
	memcpy(p->body, req->body, length);
	memcpy(p->fds, req->fds, req->nfds * sizeof(*req->fds));
	p->req = *req;
	p->req.body = p->body;
	p->req.fds = p->fds;
	for (uint32_t i = 0; i < req->nfds; i++)
		req->fds[i] = -1;
	xd_request_wait(c, fault_verbs_cancel, p);
	xd_timer_arm(p->timer, delay);
	return XD_LATER;
}

int xd_fault_request(struct xd_client *c, struct xd_request *req, uint32_t size, xd_handler handler)
{
	struct xd_faults *f = xd_workers_faults(c->dev->workers);
	struct xd_fault_verb v = xd_faults_verb(f, req->type, c->fault_rules, xd_now());
	struct postponed how = { .handler = handler, .error = v.error };

	if (v.delay_ns)
		return postpone(c, req, size, &how, v.delay_ns);
	return v.error ? fault_verbs_fail(c, v.error) : 0;
}
