// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/log_program.h"
#include "daemon/base/loop.h"
#include "load.h"

/* ---- start ----------------------------------------------------------------------- */

static void link_client(struct xd_clients *cs, struct xd_client *c)
{
	c->next = cs->first;
	c->pprev = &cs->first;
	if (c->next)
		c->next->pprev = &c->next;
	cs->first = c;
	cs->count++;
	c->id = ++cs->last_id;
}

static void unlink_client(struct xd_client *c)
{
	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	c->clients->count--;
}

static void client_refuse(struct xd_client *c, int fd, int err)
{
	const struct xd_log_program program = { c->identity.pid, c->identity.uid, c->identity.comm,
						0 };
	const char *why = c->connection.why;

	xd_log_about(&program);
	xd_log(XD_WARN, "pid %d of uid %u was refused: %s", c->identity.pid, c->identity.uid,
	       *why ? why : strerror(-err));
	xd_log_about(NULL);
	xd_connection_refuse(fd, err, why);
}

static void log_client(const struct xd_client *c, const char *what)
{
	const struct xd_log_program program = { c->identity.pid, c->identity.uid, c->identity.comm,
						0 };

	xd_log_about(&program);
	xd_log(XD_DEBUG, "client %u (%s, pid %d, uid %u) %s", c->id, c->identity.comm,
	       c->identity.pid, c->identity.uid, what);
	xd_log_about(NULL);
}

static int open_parts(struct xd_client *c, int fd)
{
	int err;

	xd_identity_open(&c->identity, fd);
	err = xd_user_join(c);
	if (!err)
		err = c->clients->ops->open(c);
	if (err)
		client_refuse(c, fd, err);
	else
		err = xd_connection_open(c, fd, xd_client_end);
	return err;
}

static void close_ticket(int ticket)
{
	if (ticket >= 0)
		close(ticket);
}

void xd_client_close_process(struct xd_client *c)
{
	xd_identity_forget_process(&c->identity);
	close_ticket(c->ticket);
	c->ticket = -1;
}

struct xd_client *xd_client_new(struct xd_clients *cs, int fd, int ticket)
{
	struct xd_client *c = calloc(1, sizeof(*c));

	if (!c) {
		xd_connection_refuse(fd, -ENOMEM, "");
		close_ticket(ticket);
		return NULL;
	}
	c->ticket = ticket;
	c->created = xd_now();
	c->clients = cs;
	c->dev = cs->dev;
	xd_client_jobs_init(&c->jobs);
	xd_walk_init_client(c);
	if (open_parts(c, fd)) {
		if (c->objects)
			cs->ops->close(c);
		xd_user_leave(c);
		xd_identity_close(&c->identity);
		close_ticket(ticket);
		free(c);
		return NULL;
	}
	link_client(cs, c);
	log_client(c, "connects");
	return c;
}

/* Objects of a client whose memory is worth being returned to the kernel */
#define LARGE 4096

/* ---- end ------------------------------------------------------------------------- */

static void client_close_run(struct xd_client_job *job)
{
	struct xd_client *c = job->client;

	xd_connection_close(c);
	c->clients->ops->close(c);
	xd_shm_close(c);
}

static void client_close_done(struct xd_client_job *job)
{
	struct xd_client *c = job->client;
	struct xd_clients *cs = c->clients;
	bool large;

	/* tells the program that nothing accesses its memory any more */
	xd_client_events_close(c);
	xd_handles_free(c);
	unlink_client(c);
	xd_user_uncharge(c, (struct xd_bytes){ .memory = c->shm.charged + c->charged });
	xd_user_leave(c);
	xd_identity_close(&c->identity);
	close_ticket(c->ticket);
	large = c->handles.freed >= LARGE;
	free(c);
	if (large)
		xd_clients_trim(cs);
}

static void client_do_nothing(struct xd_client_job *job)
{
}

/*
 * Frees some of the objects, then queues itself behind the jobs that freeing them added. Other
 * clients are served between two such steps.
 */
static void end_step(struct xd_client_job *job)
{
	struct xd_client *c = job->client;

	if (!xd_handles_free_objects(c) || !xd_doorbells_raise_late(c)) {
		c->end.job = (struct xd_client_job){ .run = client_do_nothing, .done = end_step };
	} else {
		xd_doorbells_close(c);
		c->end.job = (struct xd_client_job){ .run = client_close_run,
						     .done = client_close_done };
	}
	/* after the QPs were freed, which need no memory any more; a job may wait for it */
	c->clients->ops->end(c);
	xd_client_add_job(c, &c->end.job);
	xd_load_charge_lap(c);
}

/* Before its objects are freed, so that the event precedes those of its objects. */
static void publish_end(struct xd_client *c)
{
	struct json *j = NULL;

	xd_monitor_close(c);
	if (c->connection.hello && !c->connection.observer)
		j = xd_publish_begin(c->clients, "client_left");
	if (!j)
		return;
	xd_publish_client(j, c);
	xd_publish(c->clients);
}

void xd_client_end(struct xd_client *c)
{
	if (c->ending)
		return;
	log_client(c, "ends");
	c->ending = true;
	xd_walk_end_client(c);
	publish_end(c);
	xd_connection_shutdown(c);
	/* ends the wait of a job for a helper that the program blocks */
	if (c->ticket >= 0)
		shutdown(c->ticket, SHUT_RDWR);
	c->end.job.client = c;
	end_step(&c->end.job);
}
