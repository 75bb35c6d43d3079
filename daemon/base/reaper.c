// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reaper.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop.h"

struct xd_reaper {
	struct xd_loop *loop;
	pthread_mutex_t lock;
	struct xd_killed *added;   /* by any thread */
	struct xd_killed *waiting; /* for memory to be watched */
	struct xd_killed *watched;
	int eventfd;
	struct xd_watch *watch;
	struct xd_timer *retry; /* armed while there are any in `waiting` */
};

#define RETRY_NS 1000000000ull /* rare: the kernel has no memory for a descriptor of epoll */

static void unlink_from_list(struct xd_killed *k)
{
	*k->pprev = k->next;
	if (k->next)
		k->next->pprev = k->pprev;
}

static void link_to(struct xd_killed **list, struct xd_killed *k)
{
	k->next = *list;
	k->pprev = list;
	if (k->next)
		k->next->pprev = &k->next;
	*list = k;
}

static void reaper_end(struct xd_killed *k)
{
	unlink_from_list(k);
	xd_watch_del(k->watch);
	if (k->pidfd >= 0)
		close(k->pidfd);
	k->ended(k);
}

static void on_end(void *arg, uint32_t events)
{
	reaper_end(arg);
}

static void take_added(struct xd_reaper *r)
{
	struct xd_killed *k, *next;

	pthread_mutex_lock(&r->lock);
	k = r->added;
	r->added = NULL;
	pthread_mutex_unlock(&r->lock);
	for (; k; k = next) {
		next = k->next;
		link_to(&r->waiting, k);
	}
}

static void watch_waiting(void *arg)
{
	struct xd_reaper *r = arg;
	struct xd_killed *k, *next;

	for (k = r->waiting; k; k = next) {
		next = k->next;
		if (k->pidfd < 0) {
			reaper_end(k);
			continue;
		}
		k->watch = xd_watch_add(r->loop, k->pidfd, EPOLLIN, on_end, k);
		if (!k->watch)
			continue;
		unlink_from_list(k);
		link_to(&r->watched, k);
	}
	if (r->waiting)
		xd_timer_arm(r->retry, RETRY_NS);
}

static void on_added(void *arg, uint32_t events)
{
	struct xd_reaper *r = arg;
	eventfd_t n;

	eventfd_read(r->eventfd, &n);
	take_added(r);
	watch_waiting(r);
}

struct xd_reaper *xd_reaper_new(struct xd_loop *loop)
{
	struct xd_reaper *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->loop = loop;
	pthread_mutex_init(&r->lock, NULL);
	r->retry = xd_timer_new(loop, watch_waiting, r);
	r->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->eventfd >= 0)
		r->watch = xd_watch_add(loop, r->eventfd, EPOLLIN, on_added, r);
	if (r->retry && r->watch)
		return r;
	xd_reaper_free(r);
	return NULL;
}

void xd_reaper_free(struct xd_reaper *r)
{
	if (!r)
		return;
	take_added(r);
	while (r->waiting)
		reaper_end(r->waiting);
	while (r->watched)
		reaper_end(r->watched);
	xd_timer_free(r->retry);
	xd_watch_del(r->watch);
	if (r->eventfd >= 0)
		close(r->eventfd);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void xd_reaper_add(struct xd_killed *k, int pidfd)
{
	struct xd_reaper *r = k->reaper;

	k->pidfd = pidfd;
	k->watch = NULL;
	pthread_mutex_lock(&r->lock);
	k->next = r->added;
	r->added = k;
	pthread_mutex_unlock(&r->lock);
	eventfd_write(r->eventfd, 1); /* full: a wake-up is pending */
}
