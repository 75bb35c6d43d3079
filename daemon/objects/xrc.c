// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/programs.h"
#include "daemon/clients/request.h"
#include "daemon/datapath/xdp.h"
#include "objects.h"
#include "qp.h"

/* ---- domains --------------------------------------------------------------------- */

static struct xd_xrc_domain *find_domain(struct xd_objects *o, const struct stat *st)
{
	struct xd_xrc_domain *d = o->xrc_files;

	while (d && (d->dev != st->st_dev || d->inode != st->st_ino))
		d = d->next;
	return d;
}

static void link_file(struct xd_objects *o, struct xd_xrc_domain *d, const struct stat *st)
{
	d->dev = st->st_dev;
	d->inode = st->st_ino;
	d->next = o->xrc_files;
	d->pprev = &o->xrc_files;
	if (d->next)
		d->next->pprev = &d->next;
	o->xrc_files = d;
}

static void unlink_file(struct xd_xrc_domain *d)
{
	*d->pprev = d->next;
	if (d->next)
		d->next->pprev = d->pprev;
}

/* Takes the file, if fd is not -1. */
static struct xd_xrc_domain *new_domain(struct xd_objects *o, int fd, const struct stat *st)
{
	struct xd_xrc_domain *d = calloc(1, sizeof(*d));

	if (!d || xd_table_add(&o->xrc_domains, d, &d->number)) {
		free(d);
		return NULL;
	}
	d->fd = fd;
	if (fd >= 0)
		link_file(o, d, st);
	return d;
}

static void put_domain(struct xd_client *c, struct xd_xrc_domain *d)
{
	if (--d->refs)
		return;
	xd_table_del(&xd_objects_of(c)->xrc_domains, d->number);
	if (d->fd >= 0) {
		unlink_file(d);
		xd_client_close_fds(c, &d->fd, 1);
	}
	free(d);
}

/* Each handle counts for the file, so that every user of a shared domain pays for it. */
static uint32_t files_of(const struct xd_xrc_domain *d)
{
	return d->fd >= 0 ? 1 : 0;
}

static int add_xrcd(struct xd_client *c, struct xd_xrc_domain *d, struct xd_reply *rep)
{
	struct xd_xrcd *xrcd = calloc(1, sizeof(*xrcd));
	int err = xrcd ? xd_user_take_fds(c, files_of(d)) : -ENOMEM;

	if (!err) {
		err = xd_object_add(c, &xrcd->obj, XD_XRCD);
		if (err)
			xd_user_put_fds(c, files_of(d));
	}
	if (err) {
		free(xrcd);
		return err;
	}
	xrcd->domain = d;
	XD_REPLY(rep, xr_handle_rep)->handle = xrcd->obj.handle;
	return 0;
}

/* Sets *fd to -1 if the domain took it. */
static int open_domain(struct xd_client *c, int *fd, uint32_t flags, const struct stat *st,
		       struct xd_reply *rep)
{
	struct xd_xrc_domain *d = *fd >= 0 ? find_domain(xd_objects_of(c), st) : NULL;
	int err;

	if (d && flags & XR_XRCDF_EXCL)
		return xd_refuse(c, -EINVAL, "O_EXCL, and the file has an XRC domain already");
	if (!d && *fd >= 0 && !(flags & XR_XRCDF_CREAT))
		return xd_refuse(c, -EAGAIN, "the file has no XRC domain; oflags lacks O_CREAT");
	if (!d) {
		d = new_domain(xd_objects_of(c), *fd, st);
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

	struct statx st;

	/* as the kernel knows the file, without asking its file system, which may hang */
	if (statx(o->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st)) {
		o->err = -errno;
		return;
	}
	o->st.st_dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	o->st.st_ino = st.stx_ino;
}

static void open_done(struct xd_client_job *job)
{
	struct open_job *o = container_of(job, struct open_job, job);
	struct xd_client *c = job->client;
	struct xd_reply *rep = xd_reply_start();
	int err = o->err;

	if (!err && !c->ending)
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
		return xd_refuse(c, -EINVAL, "flags 0x%x with %u descriptors", q->flags, req->nfds);
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

static void free_xrcd(struct xd_object *obj)
{
	struct xd_xrcd *xrcd = container_of(obj, struct xd_xrcd, obj);

	xd_user_put_fds(obj->client, files_of(xrcd->domain));
	put_domain(obj->client, xrcd->domain);
	xd_object_del(obj);
	free(xrcd);
}

int xd_do_close_xrcd(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_handle_req *q = req->body;
	struct xd_xrcd *xrcd = xd_object_get(c, XD_XRCD, q->handle);

	if (!xrcd)
		return -ENOENT;
	if (xrcd->obj.refs)
		return xd_refuse(c, -EBUSY, "%u QPs and SRQs use the XRC domain", xrcd->obj.refs);
	free_xrcd(&xrcd->obj);
	return 0;
}

static void show_xrcd(struct json *j, struct xd_object *obj)
{
	const struct xd_xrc_domain *d = container_of(obj, struct xd_xrcd, obj)->domain;

	json_number(j, "xrcd", obj->handle);
	json_number(j, "client", obj->client->id);
	json_number(j, "domain", d->number);
	json_number(j, "opened", d->refs);
	json_boolean(j, "file", d->fd >= 0);
	json_number(j, "inode", d->fd >= 0 ? d->inode : 0);
}

/* XRC domains have the limits of PDs. */
const struct xd_kind_ops xd_xrcd_ops = {
	.name = "xrcds",
	.list = XR_SHOW_XRCDS,
	.show = show_xrcd,
	.free = free_xrcd,
	.client_limit = offsetof(struct xd_options, client_max_pd),
	.user_limit = offsetof(struct xd_options, user_max_pd),
	.device_limit = offsetof(struct xd_options, max_pd),
	.bytes = sizeof(struct xd_xrcd) + sizeof(struct xd_xrc_domain),
};

/* ---- target QPs ------------------------------------------------------------------ */

static struct xt_qp_init target_init(struct xd_client *c, uint32_t domain)
{
	return (struct xt_qp_init){
		.type = XR_QPT_XRC_RECV,
		.xrcd = domain,
		.psns = xd_xdp_psns(c->dev->xdp),
	};
}

static struct xd_target *new_target(struct xd_client *c, uint32_t domain)
{
	struct xd_target *t = calloc(1, sizeof(*t));
	struct xt_qp_init init = target_init(c, domain);
	int err;

	if (!t)
		return NULL;
	init.owner = t;
	t->domain = domain;
	t->worker = xd_objects_of(c)->next_worker++ % xd_workers_count(c->dev->workers);
	init.flow = xd_client_flow(c, t->worker);
	err = xt_qp_new(xd_worker_engine(c->dev->workers, t->worker), &init, &t->xt);
	if (!err) {
		xd_workers_pause(c->dev->workers);
		err = xt_qp_add(t->xt, &init);
		xd_workers_resume(c->dev->workers);
	}
	if (err) {
		if (t->xt)
			xt_qp_free(t->xt);
		free(t);
		return NULL;
	}
	t->qpn = xt_qp_info(t->xt)->qpn;
	t->program = xd_program_of(c);
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
	if (t->handles)
		xt_qp_set_flow(t->xt, xd_client_flow(t->handles->obj.client, t->worker));
	else
		xt_qp_remove(t->xt);
	xd_workers_resume(dev->workers);
	if (!t->handles) {
		xd_qp_retire(qp);
		xd_qp_log_failure(qp);
	}
	qp->xt = NULL;
	qp->target = NULL;
	if (t->handles)
		return;
	xt_qp_free(t->xt);
	xd_xdp_qp_del(dev->xdp, t->qpn);
	free(t);
}

/* Creates a handle of target QP t, or of a new one if t is NULL. */
static int add_handle(struct xd_client *c, struct xd_xrcd *xrcd, struct xd_target *t,
		      uint64_t cookie, struct xd_reply *rep)
{
	struct xt_qp_init init = target_init(c, xrcd->domain->number);
	struct xd_qp *qp = calloc(1, sizeof(*qp));
	int err = qp ? xd_object_add(c, &qp->obj, XD_QP) : -ENOMEM;

	/* Each handle counts for the target QP, so that every user of it pays. */
	if (!err)
		err = xd_object_charge(&qp->obj, xt_qp_bytes(&init));
	if (err) {
		if (qp)
			xd_object_del(&qp->obj);
		free(qp);
		return err;
	}
	qp->type = XR_QPT_XRC_RECV;
	qp->async = (struct xd_event_source){ .socket = &c->events.async, .cookie = cookie };
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
	xd_qp_publish_created(qp);
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
		return xd_refuse(c, -EINVAL, "QPN 0x%x is no XRC target QP", q->qpn);
	t = xt_qp_info(qp)->owner;
	if (t->domain != xrcd->domain->number)
		return xd_refuse(c, -EINVAL, "QPN 0x%x has another XRC domain", q->qpn);
	return add_handle(c, xrcd, t, q->cookie, rep);
}
