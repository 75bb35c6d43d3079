// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fake daemon: files of umad. A MAD is sent back to the program that has sent it. */
#include "fake_internal.h"

#include <errno.h>
#include <rdma/ib_user_mad.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct xr_umad_register_req last; /* agent */
static uint32_t agents;

void umad_hello(struct client *c, const struct message *m, struct xr_hello_rep *rep)
{
	int p[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p))
		die("socketpair");
	c->pipe = p[1];
	agents = 0;
	reply_fds(c, m, rep, sizeof(*rep), p, 1);
	close(p[0]);
}

void umad_register(struct client *c, const struct message *m)
{
	struct xr_umad_agent rep = { .id = agents++ };

	memcpy(&last, m->body, sizeof(last));
	reply(c, m, last.mgmt_class == FAKE_REFUSED_CLASS ? -EBUSY : 0, &rep, sizeof(rep));
}

void umad_unregister(struct client *c, const struct message *m)
{
	const struct xr_umad_agent *req = (const void *)m->body;

	reply(c, m, req->id < agents ? 0 : -EINVAL, NULL, 0);
}

/* The MAD has the registration of the last agent from its data on. */
void umad_send(struct client *c, const struct message *m)
{
	struct {
		struct ib_user_mad_hdr hdr;
		uint8_t mad[256];
	} p;
	size_t len = sizeof(p);

	memcpy(&p, m->body, sizeof(p));
	if (p.hdr.sl == FAKE_TIMEOUT_SL) {
		p.hdr.status = ETIMEDOUT;
		len = sizeof(p.hdr) + 24;
	}
	memcpy(p.mad + 64, &last, sizeof(last));
	send(c->pipe, &p, len, MSG_NOSIGNAL);
	reply(c, m, 0, NULL, 0);
}
