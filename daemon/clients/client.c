// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One connection: who it is, what takes long for it, and that all of it ends with the client. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/memory/region.h"
#include "daemon/objects/objects.h"
#include "daemon/base/options.h"
#include "client.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

#define END_OBJECTS 4096 /* freed in one go: some 10 ms */

/* ---- jobs ------------------------------------------------------------------------ */

static void run_job(struct xd_job *job)
{
	struct xd_client_job *j = container_of(job, struct xd_client_job, job);

	j->run(j);
}

static void finish_job(struct xd_job *job)
{
	struct xd_client_job *j = container_of(job, struct xd_client_job, job);
	struct xd_server *s = j->client->server;
	struct xd_client *c = j->client;
	struct xd_client_job *next = j->next;

	c->job = next;
	if (!next)
		c->job_tail = &c->job;
	j->done(j); /* the last one frees the client */
	if (next)
		xd_jobs_add(s->jobs, &next->job);
}

void xd_client_add_job(struct xd_client *c, struct xd_client_job *job)
{
	bool first = !c->job;

	job->job.run = run_job;
	job->job.done = finish_job;
	job->client = c;
	job->next = NULL;
	*c->job_tail = job;
	c->job_tail = &job->next;
	if (first)
		xd_jobs_add(c->server->jobs, &job->job);
}

void xd_client_do_job(struct xd_client *c, struct xd_client_job *job)
{
	job->client = c;
	job->run(job);
	job->done(job);
}

struct close_job {
	struct xd_client_job job;
	uint32_t n;
	int fd[];
};

static void close_run(struct xd_client_job *job)
{
	struct close_job *j = container_of(job, struct close_job, job);
	uint32_t i;

	for (i = 0; i < j->n; i++)
		close(j->fd[i]);
}

static void close_done(struct xd_client_job *job)
{
	struct xd_client *c = job->client;

	c->closing--;
	xd_client_watch(c);
	free(container_of(job, struct close_job, job));
}

void xd_client_close_fds(struct xd_client *c, const int *fds, uint32_t n)
{
	struct close_job *j;
	uint32_t i, left = 0;

	for (i = 0; i < n; i++)
		left += fds[i] >= 0;
	if (!left)
		return;
	j = malloc(sizeof(*j) + left * sizeof(*fds));
	if (!j) {
		for (i = 0; i < n; i++)
			close(fds[i]);
		return;
	}
	j->job = (struct xd_client_job){ .run = close_run, .done = close_done };
	for (i = 0, j->n = 0; i < n; i++) {
		if (fds[i] >= 0)
			j->fd[j->n++] = fds[i];
	}
	c->closing++;
	xd_client_add_job(c, &j->job);
}

/* ---- beginning and end ----------------------------------------------------------- */

static int peer_pidfd(int fd, pid_t pid)
{
	socklen_t len = sizeof(int);
	int pidfd = -1;

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		return pidfd;
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static void read_comm(struct xd_client *c)
{
	char path[40];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", c->pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(c->comm, sizeof(c->comm), f))
		c->comm[strcspn(c->comm, "\n")] = '\0';
	fclose(f);
}

static struct xd_user *user_get(struct xd_server *s, uid_t uid)
{
	struct xd_user *u = s->users;

	while (u && u->uid != uid)
		u = u->next;
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return NULL;
		u->uid = uid;
		u->next = s->users;
		s->users = u;
	}
	u->clients++;
	return u;
}

static void user_put(struct xd_server *s, struct xd_user *user)
{
	struct xd_user **pp = &s->users;

	if (!user || --user->clients)
		return;
	while (*pp != user)
		pp = &(*pp)->next;
	*pp = user->next;
	free(user);
}

int xd_user_charge(struct xd_client *c, uint64_t bytes)
{
	uint64_t max = c->dev->opt->user_max_pinned;

	if (c->user->bytes > max || bytes > max - c->user->bytes)
		return -EDQUOT;
	c->user->bytes += bytes;
	return 0;
}

void xd_user_uncharge(struct xd_client *c, uint64_t bytes)
{
	c->user->bytes -= bytes;
}

static void identify(struct xd_client *c)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	c->pid = cred.pid;
	c->uid = cred.uid;
	c->gid = cred.gid;
	xd_peer_groups(c->fd, &c->groups);
	c->operator= !cred.uid || cred.uid == geteuid();
	c->pidfd = peer_pidfd(c->fd, c->pid);
	read_comm(c);
}

static void link_client(struct xd_server *s, struct xd_client *c)
{
	c->next = s->clients;
	c->pprev = &s->clients;
	if (c->next)
		c->next->pprev = &c->next;
	s->clients = c;
	s->client_count++;
	c->id = ++s->next_client;
}

/*
 * A close() may take as long as the client likes. If others went on to come with each message behind one
 * that hangs, we would run out of descriptors.
 */
int xd_client_watch(struct xd_client *c)
{
	if (c->ending)
		return 0;
	return xd_watch_set(c->watch, c->busy || c->closing ? 0 : EPOLLIN);
}

static void on_socket(void *arg, uint32_t events)
{
	struct xd_client *c = arg;

	if (events & EPOLLIN && !c->busy)
		xd_client_receive(c);
	else if (events & (EPOLLHUP | EPOLLERR))
		xd_client_end(c);
}

static void on_exit_of_process(void *arg, uint32_t events)
{
	xd_client_end(arg);
}

struct xd_client *xd_client_new(struct xd_server *s, int fd)
{
	struct xd_client *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->server = s;
	c->dev = s->dev;
	c->fd = fd;
	c->orphan_fd = -1;
	c->job_tail = &c->job;
	identify(c);
	c->user = user_get(s, c->uid);
	c->watch = c->user ? xd_watch_add(s->dev->loop, fd, EPOLLIN, on_socket, c) : NULL;
	if (c->watch && c->pidfd >= 0)
		c->pid_watch = xd_watch_add(s->dev->loop, c->pidfd, EPOLLIN, on_exit_of_process, c);
	if (!c->watch || (c->pidfd >= 0 && !c->pid_watch)) {
		xd_watch_del(c->watch);
		user_put(s, c->user);
		free(c->groups.gid);
		if (c->pidfd >= 0)
			close(c->pidfd);
		close(fd);
		free(c);
		return NULL;
	}
	link_client(s, c);
	return c;
}

static void free_object(enum xd_kind kind, void *o)
{
	switch (kind) {
	case XD_QP:
		xd_qp_free(o);
		break;
	case XD_AH:
		xd_ah_free(o);
		break;
	case XD_SRQ:
		xd_srq_free(o);
		break;
	case XD_XRCD:
		xd_xrcd_free(o);
		break;
	case XD_CQ:
		xd_cq_free(o);
		break;
	case XD_CHANNEL:
		xd_channel_free(o);
		break;
	case XD_MW:
		xd_mw_free(o);
		break;
	case XD_MR:
		xd_mr_free(o);
		break;
	case XD_DM:
		xd_dm_free(o);
		break;
	case XD_PD:
		xd_pd_free(o);
		break;
	case XD_KINDS:
		break;
	}
}

/* By kind, so that nothing is gone that something else still needs. false: there is more. */
static bool free_objects(struct xd_client *c)
{
	uint32_t n = 0;
	void *o;

	for (; c->end.kind < XD_KINDS; c->end.kind++, c->end.handle = 0) {
		while ((o = xd_table_next(&c->table[c->end.kind], &c->end.handle))) {
			free_object(c->end.kind, o);
			if (++n == END_OBJECTS)
				return false;
		}
	}
	return true;
}

/* The socket may hold descriptors that were never received, which closing it closes. */
static void last_run(struct xd_client_job *job)
{
	struct xd_client *c = job->client;

	close(c->fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->orphan_fd >= 0)
		close(c->orphan_fd);
	xd_proc_put(c->proc);
	xd_mem_free(c->own_mem);
	xd_mem_free(c->orphan);
	xd_shm_end(c);
	/* What many small objects were is not given back by itself. */
	if (c->end.large)
		malloc_trim(0);
}

static void last_done(struct xd_client_job *job)
{
	struct xd_client *c = job->client;
	uint64_t charged = c->shm.charged;
	enum xd_kind kind;

	for (kind = 0; kind < XD_KINDS; kind++)
		xd_table_free(&c->table[kind]);
	xt_ahs_free(c->ahs);
	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	c->server->client_count--;
	xd_user_uncharge(c, charged);
	user_put(c->server, c->user);
	free(c->groups.gid);
	free(c);
}

static void nothing_to_run(struct xd_client_job *job)
{
}

/*
 * Other clients are served between one lot of objects and the next: each ends with a job, behind those that
 * it made.
 */
static void end_objects(struct xd_client_job *job)
{
	struct xd_client *c = job->client;

	if (!free_objects(c)) {
		c->end.large = true;
		c->last = (struct xd_client_job){ .run = nothing_to_run, .done = end_objects };
	} else {
		xd_doorbells_close(c);
		xd_pipe_close(&c->events);
		c->last = (struct xd_client_job){ .run = last_run, .done = last_done };
	}
	xd_client_add_job(c, &c->last);
}

void xd_client_end(struct xd_client *c)
{
	if (c->ending)
		return;
	xd_log(XD_DEBUG, "client %u (%s, pid %d) leaves", c->id, c->comm, c->pid);
	c->ending = true;
	xd_watch_del(c->watch);
	xd_watch_del(c->pid_watch);
	if (c->cancel)
		c->cancel(c);
	shutdown(c->fd, SHUT_RDWR);
	c->last.client = c;
	end_objects(&c->last);
}
