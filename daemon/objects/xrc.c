// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <xroce/view.h>

#include "daemon/base/json.h"
#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "objects.h"

static struct xd_xrc_domain *find_domain(struct xd_objects *o, const struct stat *st)
{
	struct xd_xrc_domain *d = o->xrc_files;

	while (d && (d->dev != st->st_dev || d->inode != st->st_ino))
		d = d->next;
	return d;
}

static void xrc_link_file(struct xd_objects *o, struct xd_xrc_domain *d, const struct stat *st)
{
	d->dev = st->st_dev;
	d->inode = st->st_ino;
	d->next = o->xrc_files;
	d->pprev = &o->xrc_files;
	if (d->next)
		d->next->pprev = &d->next;
	o->xrc_files = d;
}

static void xrc_unlink_file(struct xd_xrc_domain *d)
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
		xrc_link_file(o, d, st);
	return d;
}

static void put_domain(struct xd_client *c, struct xd_xrc_domain *d)
{
	if (--d->refs)
		return;
	xd_table_del(&xd_objects_of(c)->xrc_domains, d->number);
	if (d->fd >= 0) {
		xrc_unlink_file(d);
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

	/* cached attributes of the kernel: a request to the file system may hang */
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
	json_text(j, "path", "daemon");
}

/* A direct program shares its domains with nobody. */
static void show_xrcd_view(struct json *j, const void *record, const struct xd_client *c,
			   bool detail)
{
	const struct xr_view_xrcd *r = record;

	(void)detail;
	json_number(j, "xrcd", r->xrcd);
	json_number(j, "client", c->id);
	json_number(j, "domain", r->domain);
	json_number(j, "opened", 1);
	json_boolean(j, "file", false);
	json_number(j, "inode", 0);
	json_text(j, "path", "direct");
}

/* XRC domains have the limits of PDs. */
const struct xd_kind_ops xd_xrcd_ops = {
	.name = "xrcds",
	.list = XR_SHOW_XRCDS,
	.show = show_xrcd,
	.show_view = show_xrcd_view,
	.free = free_xrcd,
	.client_limit = offsetof(struct xd_options, client_max_pd),
	.user_limit = offsetof(struct xd_options, user_max_pd),
	.device_limit = offsetof(struct xd_options, max_pd),
	.bytes = sizeof(struct xd_xrcd) + sizeof(struct xd_xrc_domain),
};
