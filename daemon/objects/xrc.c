// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* XRC: domains, which processes share through a file, and target QPs, which belong to a domain. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/datapath/xdp.h"
#include "objects.h"

/* ---- domains --------------------------------------------------------------------- */

static struct xd_xrc_domain *find_domain(struct xd_server *s, const struct stat *st)
{
	struct xd_xrc_domain *d = s->xrc_files;

	while (d && (d->dev != st->st_dev || d->inode != st->st_ino))
		d = d->next;
	return d;
}

static void link_file(struct xd_server *s, struct xd_xrc_domain *d, const struct stat *st)
{
	d->dev = st->st_dev;
	d->inode = st->st_ino;
	d->next = s->xrc_files;
	d->pprev = &s->xrc_files;
	if (d->next)
		d->next->pprev = &d->next;
	s->xrc_files = d;
}

static void unlink_file(struct xd_xrc_domain *d)
{
	*d->pprev = d->next;
	if (d->next)
		d->next->pprev = d->pprev;
}

/* The file, if there is one, is the domain's from then on. */
static struct xd_xrc_domain *new_domain(struct xd_server *s, int fd, const struct stat *st)
{
	struct xd_xrc_domain *d = calloc(1, sizeof(*d));

	if (!d || xd_table_add(&s->xrc_domains, d, &d->number)) {
		free(d);
		return NULL;
	}
	d->fd = fd;
	if (fd >= 0)
		link_file(s, d, st);
	return d;
}

static void put_domain(struct xd_client *c, struct xd_xrc_domain *d)
{
	if (--d->refs)
		return;
	xd_table_del(&c->server->xrc_domains, d->number);
	if (d->fd >= 0) {
		unlink_file(d);
		xd_client_close_fds(c, &d->fd, 1);
		xd_fds_put(&c->server->fds, 1);
	}
	free(d);
}

static int add_xrcd(struct xd_client *c, struct xd_xrc_domain *d, struct xd_reply *rep)
{
	struct xd_xrcd *xrcd = calloc(1, sizeof(*xrcd));
	int err = xrcd ? xd_object_add(c, &xrcd->obj, XD_XRCD) : -ENOMEM;

	if (err) {
		free(xrcd);
		return err;
	}
	xrcd->domain = d;
	XD_REPLY(rep, xr_handle_rep)->handle = xrcd->obj.handle;
	return 0;
}

/* *fd is -1 afterwards where the domain has it. */
static int open_domain(struct xd_client *c, int *fd, uint32_t flags, const struct stat *st,
		       struct xd_reply *rep)
{
	struct xd_xrc_domain *d = *fd >= 0 ? find_domain(c->server, st) : NULL;
	int err;

	if (d && flags & XR_XRCDF_EXCL)
		return -EINVAL;
	if (!d && *fd >= 0 && !(flags & XR_XRCDF_CREAT))
		return -EAGAIN;
	if (!d) {
		if (*fd >= 0 && !xd_fds_take(&c->server->fds, 1))
			return -EMFILE;
		d = new_domain(c->server, *fd, st);
		if (!d && *fd >= 0)
			xd_fds_put(&c->server->fds, 1);
		if (!d)
			return -ENOMEM;
		*fd = -1;
	}
	d->refs++;
	err = add_xrcd(c, d, rep);
	if (err)
		put_domain(c, d);
	return err;
}

/* To look at a client's file may take as long as it likes. */
struct open_job {
	struct xd_client_job job;
	int fd;
	uint32_t flags;
	int err;
	struct stat st;
};

static void open_run(struct xd_client_job *job)
{
	struct open_job *o = container_of(job, struct open_job, job);

	o->err = fstat(o->fd, &o->st) ? -errno : 0;
}

static void open_done(struct xd_client_job *job)
{
	struct open_job *o = container_of(job, struct open_job, job);
	struct xd_client *c = job->client;
	struct xd_reply *rep = xd_reply_get(c);
	int err = o->err;

	if (c->ending) {
		c->orphan_fd = o->fd;
		free(o);
		return;
	}
	if (!err)
		err = open_domain(c, &o->fd, o->flags, &o->st, rep);
	xd_client_close_fds(c, &o->fd, 1);
	free(o);
	xd_reply_send(c, err, rep);
}

int xd_do_open_xrcd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_open_xrcd_req *q = req->body;
	struct open_job *o;
	int none = -1;

	if (q->flags & ~(uint32_t)(XR_XRCDF_FD | XR_XRCDF_CREAT | XR_XRCDF_EXCL) ||
	    req->nfds != (q->flags & XR_XRCDF_FD ? 1 : 0))
		return -EINVAL;
	if (!req->nfds)
		return open_domain(c, &none, q->flags, NULL, rep);
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->job = (struct xd_client_job){ .run = open_run, .done = open_done };
	o->fd = req->fds[0];
	o->flags = q->flags;
	req->fds[0] = -1;
	xd_client_add_job(c, &o->job);
	return XD_LATER;
}

int xd_do_close_xrcd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_xrcd *xrcd = xd_object_get(c, XD_XRCD, q->handle);

	if (!xrcd)
		return -ENOENT;
	if (xrcd->obj.refs)
		return -EBUSY;
	xd_xrcd_free(xrcd);
	return 0;
}

void xd_xrcd_free(struct xd_xrcd *xrcd)
{
	put_domain(xrcd->obj.client, xrcd->domain);
	xd_object_del(&xrcd->obj);
	free(xrcd);
}

/* ---- target QPs ------------------------------------------------------------------ */

static struct xd_target *new_target(struct xd_client *c, uint32_t domain)
{
	struct xd_target *t = calloc(1, sizeof(*t));
	struct xt_qp_init init = {
		.type = XR_QPT_XRC_RECV,
		.xrcd = domain,
		.psns = xd_xdp_psns(c->dev->xdp),
		.owner = t,
	};
	int err;

	if (!t)
		return NULL;
	t->domain = domain;
	t->worker = c->server->next_worker++ % xd_workers_count(c->dev->workers);
	xd_workers_pause(c->dev->workers);
	err = xt_qp_create(xd_worker_engine(c->dev->workers, t->worker), &init, &t->xt);
	xd_workers_resume(c->dev->workers);
	if (err) {
		free(t);
		return NULL;
	}
	t->qpn = xt_qp_info(t->xt)->qpn;
	return t;
}

static void join(struct xd_qp *qp, struct xd_target *t)
{
	struct xd_device *dev = qp->obj.client->dev;

	xd_workers_pause(dev->workers);
	qp->next_handle = t->handles;
	qp->pprev_handle = &t->handles;
	if (qp->next_handle)
		qp->next_handle->pprev_handle = &qp->next_handle;
	t->handles = qp;
	xd_workers_resume(dev->workers);
	qp->target = t;
	qp->xt = t->xt;
	qp->qpn = t->qpn;
	qp->worker = t->worker;
}

void xd_target_leave(struct xd_qp *qp)
{
	struct xd_device *dev = qp->obj.client->dev;
	struct xd_target *t = qp->target;

	xd_workers_pause(dev->workers);
	*qp->pprev_handle = qp->next_handle;
	if (qp->next_handle)
		qp->next_handle->pprev_handle = qp->pprev_handle;
	if (!t->handles)
		xt_qp_destroy(t->xt);
	xd_workers_resume(dev->workers);
	qp->xt = NULL;
	qp->target = NULL;
	if (t->handles)
		return;
	xd_xdp_qp_del(dev->xdp, t->qpn);
	free(t);
}

/* t: NULL makes a new one. */
static int add_handle(struct xd_client *c, struct xd_xrcd *xrcd, struct xd_target *t,
		      uint64_t cookie, struct xd_reply *rep)
{
	struct xd_qp *qp = calloc(1, sizeof(*qp));
	int err = qp ? xd_object_add(c, &qp->obj, XD_QP) : -ENOMEM;

	if (err) {
		free(qp);
		return err;
	}
	qp->type = XR_QPT_XRC_RECV;
	qp->async = (struct xd_source){ .pipe = &c->events, .cookie = cookie };
	qp->xrcd = xrcd;
	xrcd->obj.refs++;
	if (!t)
		t = new_target(c, xrcd->domain->number);
	if (!t) {
		xd_qp_free(qp);
		return -ENOMEM;
	}
	join(qp, t);
	xd_qp_reply(qp, rep);
	return 0;
}

int xd_target_create(struct xd_client *c, const struct xr_create_qp_req *q, struct xd_reply *rep)
{
	struct xd_xrcd *xrcd = xd_object_get(c, XD_XRCD, q->xrcd);

	return xrcd ? add_handle(c, xrcd, NULL, q->cookie, rep) : -ENOENT;
}

int xd_do_open_qp(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_open_qp_req *q = req->body;
	struct xd_xrcd *xrcd = xd_object_get(c, XD_XRCD, q->xrcd);
	const struct xt_qp *qp = xt_qp_by_num(c->dev->shared.qps, q->qpn);
	struct xd_target *t;

	if (!xrcd)
		return -ENOENT;
	if (!qp || xt_qp_info(qp)->type != XR_QPT_XRC_RECV)
		return -EINVAL;
	t = xt_qp_info(qp)->owner;
	if (t->domain != xrcd->domain->number)
		return -EINVAL;
	return add_handle(c, xrcd, t, q->cookie, rep);
}
