// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sockets by which clients pin their private memory themselves */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "objects.h"

/*
 * Who holds a packet socket may send whatever it likes. This one is made in a job's thread, whose
 * network namespace is empty, and reaches nothing.
 */
struct pin_job {
	struct xd_client_job job;
	int fd;
};

static void pin_run(struct xd_client_job *job)
{
	struct pin_job *j = container_of(job, struct pin_job, job);

	j->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (j->fd < 0)
		j->fd = -errno;
}

static void pin_done(struct xd_client_job *job)
{
	struct pin_job *j = container_of(job, struct pin_job, job);
	struct xd_reply *rep = xd_reply_get(job->client);
	struct xd_client *c = job->client;
	int err = j->fd < 0 ? j->fd : 0;

	if (err || c->ending) {
		if (!err)
			close(j->fd);
		xd_fds_put(c->server, 1);
	} else {
		c->pin_fd = j->fd;
		xd_reply_fd(rep, j->fd, true);
	}
	free(j);
	xd_reply_send(c, err, rep);
}

int xd_do_pin_socket(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct pin_job *j;

	if (!xd_jobs_isolated(c->server->jobs))
		return -EOPNOTSUPP;
	/* one that was not used makes room */
	if (c->pin_fd >= 0) {
		close(c->pin_fd);
		xd_fds_put(c->server, 1);
		c->pin_fd = -1;
	}
	if (!xd_fds_take(c->server, 1))
		return -EMFILE;
	j = calloc(1, sizeof(*j));
	if (!j) {
		xd_fds_put(c->server, 1);
		return -ENOMEM;
	}
	j->job.run = pin_run;
	j->job.done = pin_done;
	xd_client_add_job(c, &j->job);
	return XD_LATER;
}
