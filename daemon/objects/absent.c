// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "absent.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/datapath/worker.h"
#include "daemon/memory/proc.h"
#include "daemon/memory/region.h"
#include "mr.h"
#include "objects.h"

/* Regions that are changed before others have their turn */
#define BATCH 1024

bool xd_client_unmapped(const struct xd_client *c)
{
	return c->objects->memory.unmapped ||
	       (!c->user->is_operator && xd_now() < c->user->unmapped_until);
}

static bool unmap_regions(struct xd_client *c, struct xd_place *at)
{
	struct xd_mr *mr;
	uint32_t n;

	for (n = 0; n < BATCH && (mr = xd_object_next(c, XD_MR, &at->handle)); n++)
		if (mr->mem && xd_mem_unmap(mr->mem))
			xd_log(XD_ERR,
			       "client %u: no memory: accesses to absent pages of region "
			       "%u fail",
			       c->id, mr->obj.handle);
	return n < BATCH;
}

static void mover_run(struct xd_client_job *job)
{
	struct xd_proc *proc = xd_client_proc(job->client);

	/* without a mover, accesses fail */
	if (proc)
		xd_proc_start_mover(proc);
}

static void mover_done(struct xd_client_job *job)
{
	xd_walk_add(job->client, XD_WALK_UNMAP);
	xd_walk_begin(job->client->clients, XD_WALK_UNMAP);
}

static void absent_unmap(struct xd_client *c)
{
	struct xd_client_memory *m = &c->objects->memory;

	if (m->unmapped)
		return;
	m->unmapped = true;
	m->mover = (struct xd_client_job){ .run = mover_run, .done = mover_done };
	xd_client_add_job(c, &m->mover);
}

/* An access to memory of the client found an absent page. */
static void found(struct xd_client *c)
{
	struct xd_client *other;

	xd_log(XD_NOTICE,
	       "client %u: memory that it registered has absent pages; its mover accesses it now",
	       c->id);
	absent_unmap(c);
	/* not later: the client can block its jobs */
	xd_walk_add(c, XD_WALK_UNMAP);
	if (c->user->is_operator)
		return;
	c->user->unmapped_until = xd_now() + XD_UNMAPPED_NS;
	for (other = c->clients->first; other; other = other->next)
		if (other->user == c->user && !other->ending)
			absent_unmap(other);
}

static void absent_on_event(void *arg, uint32_t events)
{
	struct xd_objects *o = arg;
	struct xd_client_memory *m;
	struct xd_client *c;
	eventfd_t n;

	eventfd_read(o->absent.fd, &n);
	for (c = o->clients.first; c; c = c->next) {
		m = c->ending ? NULL : &c->objects->memory;
		if (!m || m->absent_found || !__atomic_load_n(&m->absent.seen, __ATOMIC_RELAXED))
			continue;
		m->absent_found = true;
		found(c);
	}
	xd_walk_begin(&o->clients, XD_WALK_UNMAP);
}

void xd_absent_init_client(struct xd_client *c)
{
	c->objects->memory.absent.wake_fd = xd_objects_of(c)->absent.fd;
}

int xd_absent_start(struct xd_objects *o)
{
	o->clients.walk[XD_WALK_UNMAP].piece = unmap_regions;
	o->absent.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->absent.fd < 0)
		return -errno;
	o->absent.watch = xd_watch_add(o->clients.dev->loop, o->absent.fd, EPOLLIN, absent_on_event,
				       o);
	return o->absent.watch ? 0 : -ENOMEM;
}

void xd_absent_stop(struct xd_objects *o)
{
	xd_watch_del(o->absent.watch);
	if (o->absent.fd > 0)
		close(o->absent.fd);
}
