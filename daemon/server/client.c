// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One connection: datagrams become requests, handlers answer, and all of it ends with the
 * client.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/memory/tiers.h"
#include "daemon/objects/objects.h"
#include "daemon/options.h"
#include "client.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77		/* since Linux 6.5 */
#endif

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* ---- what each message needs ----------------------------------------------------- */

#define FOR_OBSERVERS 1		/* owns nothing, so an observer may ask */
#define TAKES_FDS 2
#define FOR_OPERATORS 4

struct op {
	xd_handler handler;
};
static const struct op ops[XR_MSG_COUNT] = {
#define X(NAME, name) [XR_MSG_##NAME] = { xd_do_##name },
	XR_MESSAGES(X)
#undef X
};

struct rule {
	uint32_t length;	/* of the body, at least */
	uint32_t flags;
};
static const struct rule rules[XR_MSG_COUNT] = {
	[XR_MSG_HELLO] = { offsetof(struct xr_hello_req, token), FOR_OBSERVERS },
	[XR_MSG_QUERY_DEVICE] = { 0, FOR_OBSERVERS },
	[XR_MSG_QUERY_PORT] = { 0, FOR_OBSERVERS },
	[XR_MSG_QUERY_GIDS] = { 0, FOR_OBSERVERS },
	[XR_MSG_DEALLOC_PD] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_REG_MR] = { sizeof(struct xr_reg_mr_req), TAKES_FDS },
	[XR_MSG_REREG_MR] = { sizeof(struct xr_rereg_mr_req), TAKES_FDS },
	[XR_MSG_DEREG_MR] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_DESTROY_CHANNEL] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_CQ] = { .length = sizeof(struct xr_create_cq_req) },
	[XR_MSG_RESIZE_CQ] = { .length = sizeof(struct xr_resize_cq_req) },
	[XR_MSG_DESTROY_CQ] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_QP] = { .length = sizeof(struct xr_create_qp_req) },
	[XR_MSG_MODIFY_QP] = { .length = offsetof(struct xr_modify_qp_req, max_burst) },
	[XR_MSG_QUERY_QP] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_DESTROY_QP] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_AH] = { .length = sizeof(struct xr_create_ah_req) },
	[XR_MSG_DESTROY_AH] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_CREATE_SRQ] = { .length = sizeof(struct xr_create_srq_req) },
	[XR_MSG_MODIFY_SRQ] = { .length = sizeof(struct xr_modify_srq_req) },
	[XR_MSG_QUERY_SRQ] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_DESTROY_SRQ] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_ALLOC_MW] = { .length = sizeof(struct xr_alloc_mw_req) },
	[XR_MSG_ALLOC_FAST_MR] = { .length = sizeof(struct xr_alloc_fast_mr_req) },
	[XR_MSG_DEALLOC_MW] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_OPEN_XRCD] = { sizeof(struct xr_open_xrcd_req), TAKES_FDS },
	[XR_MSG_CLOSE_XRCD] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_OPEN_QP] = { .length = sizeof(struct xr_open_qp_req) },
	[XR_MSG_SHOW] = { sizeof(struct xr_show_req), FOR_OBSERVERS },
	[XR_MSG_ADVISE_MR] = { .length = sizeof(struct xr_advise_mr_req) },
	[XR_MSG_ALLOC_DM] = { .length = sizeof(struct xr_alloc_dm_req) },
	[XR_MSG_FREE_DM] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_IMPORT_PD] = { .length = sizeof(struct xr_handle_req) },
	[XR_MSG_IMPORT_MR] = { .length = sizeof(struct xr_import_mr_req) },
	[XR_MSG_SET_FAULT] = { sizeof(struct xr_fault_config), FOR_OBSERVERS | FOR_OPERATORS },
	[XR_MSG_RESOLVE_AH] = { .length = sizeof(struct xr_resolve_ah_req) },
	[XR_MSG_ATTACH_MCAST] = { .length = sizeof(struct xr_mcast_req) },
	[XR_MSG_DETACH_MCAST] = { .length = sizeof(struct xr_mcast_req) },
};

static int refuse(const struct xd_client *c, uint32_t type, uint32_t length, uint32_t nfds)
{
	const struct rule *rule;

	if (!type || type >= XR_MSG_COUNT)
		return -EOPNOTSUPP;
	rule = &rules[type];
	if (c->hello == (type == XR_MSG_HELLO))
		return -EPROTO;
	if (length < rule->length || (nfds && !(rule->flags & TAKES_FDS)))
		return -EINVAL;
	if ((c->observer && !(rule->flags & FOR_OBSERVERS)) ||
	    (!c->operator && rule->flags & FOR_OPERATORS))
		return -EPERM;
	return 0;
}

/* ---- replies --------------------------------------------------------------------- */

/* The control thread makes one reply at a time. */
static struct xd_reply the_reply;

struct xd_reply *xd_client_reply(struct xd_client *c)
{
	the_reply.length = 0;
	the_reply.nfds = 0;
	return &the_reply;
}

void *xd_reply_body(struct xd_reply *rep, uint32_t length)
{
	memset(rep->body, 0, length);
	rep->length = length;
	return rep->body;
}

void xd_reply_fd(struct xd_reply *rep, int fd, bool keep)
{
	rep->fd[rep->nfds] = fd;
	rep->keep[rep->nfds++] = keep;
}

static int send_reply(struct xd_client *c, int err, struct xd_reply *rep)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct xr_msg head = { .type = c->type, .status = err, .seq = c->seq };
	struct iovec iov[2] = { { &head, sizeof(head) }, { NULL, 0 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct cmsghdr *cmsg;

	if (!err && rep) {
		head.length = rep->length;
		iov[1] = (struct iovec){ rep->body, rep->length };
	}
	if (!err && rep && rep->nfds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(rep->nfds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(rep->nfds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), rep->fd, rep->nfds * sizeof(int));
	}
	return sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void xd_client_answer(struct xd_client *c, int err, struct xd_reply *rep)
{
	uint32_t i;
	int failed;

	if (c->ending || !c->busy)
		return;
	failed = send_reply(c, err, rep);
	for (i = 0; rep && i < rep->nfds; i++) {
		if (!rep->keep[i])
			close(rep->fd[i]);
	}
	if (rep)
		rep->nfds = 0;
	c->busy = false;
	/* One that reads no answers, or is gone */
	if (failed || xd_watch_set(c->watch, EPOLLIN))
		xd_client_end(c);
}

/* ---- requests -------------------------------------------------------------------- */

static int handle(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	int err = refuse(c, req->type, req->length, req->nfds);

	return err ? err : ops[req->type].handler(c, req, rep);
}

/* Bytes of the fixed part of the longest request */
#define REQUEST_MAX 512
_Static_assert(sizeof(struct xr_modify_qp_req) <= REQUEST_MAX &&
	       sizeof(struct xr_rereg_mr_req) <= REQUEST_MAX &&
	       sizeof(struct xr_create_qp_req) <= REQUEST_MAX, "requests");

/* 0: a request, also one that is refused; -EINVAL: too malformed to tell. */
static int parse(const void *data, size_t len, struct xd_request *req)
{
	struct xr_msg head = { 0 };

	memcpy(&head, data, len < sizeof(head) ? len : sizeof(head));
	req->type = head.type;
	req->seq = head.seq;
	if (len < sizeof(head) || len > XR_MSG_MAX || head.length != len - sizeof(head))
		return -EINVAL;
	req->length = head.length;
	return 0;
}

void xd_client_feed(struct xd_client *c, const void *data, size_t len, const int *fds,
		    uint32_t nfds)
{
	static uint8_t body[XR_MSG_MAX + REQUEST_MAX] __attribute__((aligned(8)));
	struct xd_request req = { .body = body, .nfds = nfds };
	int own[XR_MSG_MAX_FDS], err;
	struct xd_reply *rep;

	if (nfds)
		memcpy(own, fds, nfds * sizeof(*fds));
	req.fds = own;
	if (c->ending || c->busy) {
		xd_client_close_fds(c, own, nfds);
		return;
	}
	c->busy = true;
	rep = xd_client_reply(c);
	err = parse(data, len, &req);
	c->type = req.type;
	c->seq = req.seq;
	if (!err) {
		memcpy(body, (const uint8_t *)data + sizeof(struct xr_msg), req.length);
		/* fields that an older client does not know */
		memset(body + req.length, 0, REQUEST_MAX);
		err = handle(c, &req, rep);
	}
	/* before the answer: it may be the client's end */
	xd_client_close_fds(c, own, nfds);
	if (err != XD_LATER)
		xd_client_answer(c, err, rep);
	else if (c->busy && !c->ending)
		xd_watch_set(c->watch, 0);
}

static uint32_t received_fds(struct msghdr *msg, int fds[XR_MSG_MAX_FDS])
{
	struct cmsghdr *cmsg;
	uint32_t n = 0, i, count;
	int fd;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count && n < XR_MSG_MAX_FDS; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			fds[n++] = fd;
		}
	}
	return n;
}

static void receive(struct xd_client *c)
{
	static uint8_t data[XR_MSG_MAX];
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int fds[XR_MSG_MAX_FDS];
	uint32_t nfds;
	ssize_t n;

	n = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	nfds = n < 0 ? 0 : received_fds(&msg, fds);
	if (n <= 0) {
		xd_client_close_fds(c, fds, nfds);
		xd_client_end(c);
		return;
	}
	/* Some descriptors were lost: what is left would be taken for others. */
	if (msg.msg_flags & MSG_CTRUNC) {
		xd_client_close_fds(c, fds, nfds);
		nfds = 0;
		n = n < (ssize_t)sizeof(struct xr_msg) ? n : (ssize_t)sizeof(struct xr_msg) - 1;
	}
	/* A length beyond XR_MSG_MAX is refused before the data is looked at. */
	xd_client_feed(c, data, (size_t)n, fds, nfds);
}

static void on_socket(void *arg, uint32_t events)
{
	struct xd_client *c = arg;

	if (events & EPOLLIN && !c->busy)
		receive(c);
	else if (events & (EPOLLHUP | EPOLLERR))
		xd_client_end(c);
}

static void on_exit_of_process(void *arg, uint32_t events)
{
	xd_client_end(arg);
}

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
	j->done(j);	/* the last one frees the client */
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
	c->operator = !cred.uid || cred.uid == geteuid();
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
	c->pin_fd = c->orphan_fd = -1;
	c->job_tail = &c->job;
	identify(c);
	c->user = user_get(s, c->uid);
	c->watch = c->user ? xd_watch_add(s->dev->loop, fd, EPOLLIN, on_socket, c) : NULL;
	if (c->watch && c->pidfd >= 0)
		c->pid_watch = xd_watch_add(s->dev->loop, c->pidfd, EPOLLIN,
					    on_exit_of_process, c);
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

/* By kind, so that nothing is gone that something else still needs. */
static void free_objects(struct xd_client *c)
{
	uint32_t h;
	void *o;

	for (h = 0; (o = xd_table_next(&c->table[XD_QP], &h));)
		xd_qp_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_AH], &h));)
		xd_ah_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_SRQ], &h));)
		xd_srq_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_XRCD], &h));)
		xd_xrcd_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_CQ], &h));)
		xd_cq_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_CHANNEL], &h));)
		xd_channel_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_MW], &h));)
		xd_mw_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_MR], &h));)
		xd_mr_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_DM], &h));)
		xd_dm_free(o);
	for (h = 0; (o = xd_table_next(&c->table[XD_PD], &h));)
		xd_pd_free(o);
}

/* The socket may hold descriptors that were never received, which closing it closes. */
static void last_run(struct xd_client_job *job)
{
	struct xd_client *c = job->client;

	close(c->fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->pin_fd >= 0) {
		close(c->pin_fd);
		xd_fds_put(c->server, 1);
	}
	if (c->orphan_fd >= 0)
		close(c->orphan_fd);
	xd_proc_put(c->proc);
	xd_mem_free(c->orphan);
	xd_shm_end(&c->shm);
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
	free_objects(c);
	xd_bells_close(c);
	xd_pipe_close(&c->events);
	c->last = (struct xd_client_job){ .run = last_run, .done = last_done };
	xd_client_add_job(c, &c->last);
}
