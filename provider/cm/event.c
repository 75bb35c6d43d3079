// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "provider/base/cancel.h"
#include "provider/cm/event.h"
#include "provider/cm/numbers.h"
#include "provider/cm/early_events.h"
#include "provider/cm/watch.h"
#include "provider/control/cm_path.h"

/* enum rdma_cm_event_type of <rdma/rdma_cma.h> */
#define CONNECT_REQUEST 4
#define CONNECT_RESPONSE 5
#define DEVICE_REMOVAL 11
#define MULTICAST_JOIN 12
#define MULTICAST_ERROR 13

#define READY_MAX 16

/* ---- one event ------------------------------------------------------------------ */

/* Reply to GET_EVENT; a daemon appends early replies. */
struct reply {
	struct rdma_ucm_event_resp ev;
	uint8_t early[XP_CM_REPLY_MAX - sizeof(struct rdma_ucm_event_resp)];
};

/* Returns the part of an id that the program gets to know by this event, or NULL. */
static struct xp_cm_part *event_new_id(struct xp_cm_channel *ch, struct xp_cm_source *s,
				       const struct rdma_ucm_event_resp *ev, enum xp_cm_kind kind)
{
	struct xp_cm_id *id = xp_cm_id_new(ch, kind, ev->event == CONNECT_REQUEST ? 0 : ev->uid);
	struct xp_cm_part *p;

	if (!id)
		return NULL;
	id->committed = true;
	p = xp_cm_part_new(ch, id, s, ev->id);
	if (!p)
		xp_cm_id_free(ch, id);
	return p;
}

/*
 * Replaces the handle in an event. An unknown one is that of a new connection, or an id of another
 * process with which this one shares the channel. Returns -EAGAIN if there is no memory.
 */
static int translate(struct xp_cm_channel *ch, struct xp_cm_source *s, struct reply *reply,
		     size_t len)
{
	struct rdma_ucm_event_resp *ev = &reply->ev;
	enum xp_cm_kind kind = ev->event == MULTICAST_JOIN || ev->event == MULTICAST_ERROR
				       ? XP_CM_GROUP
				       : XP_CM_ID;
	struct xp_cm_part *p = xp_cm_part_find(ch, s, kind, ev->id);
	struct xr_cm_path path;

	if (!p)
		p = event_new_id(ch, s, ev, kind);
	if (!p)
		return -EAGAIN;
	len = len > sizeof(*ev) && !xp_cm_source_shared(s) ? len - sizeof(*ev) : 0;
	xp_cm_early_replies_set(&p->id->early_replies, reply->early, len);
	if (xp_cm_early_replies_path(&p->id->early_replies, &path))
		xp_cm_path_tell(s->path, &path);
	p->id->has_reply = ev->event == CONNECT_RESPONSE;
	if (ev->event != CONNECT_REQUEST)
		p->events++;
	ev->id = xp_cm_id_number(p->id);
	return 0;
}

/* Returns the length of an event of the source, or -EAGAIN. */
static int source_event(struct xp_cm_channel *ch, struct xp_cm_source *s, size_t room,
			struct rdma_ucm_event_resp *ev)
{
	struct xp_cm_command c = {
		.cmd = RDMA_USER_CM_CMD_GET_EVENT,
		.in = sizeof(struct rdma_ucm_get_event),
	};
	struct reply reply;
	int n, err;

	_Static_assert(sizeof(reply) == XP_CM_REPLY_MAX, "room for an early event");
	/* a reply may be shorter than the program's buffer */
	memset(&reply.ev, 0, sizeof(reply.ev));
	n = xp_cm_source_call(s, &c, &reply, s->kernel >= 0 ? room : sizeof(reply));
	if (n < 0)
		return n;
	if ((size_t)n < offsetof(struct rdma_ucm_event_resp, reserved))
		return -EPROTO;
	err = translate(ch, s, &reply, (size_t)n);
	memcpy(ev, &reply.ev, room);
	return err ? err : (int)room;
}

/* Returns the length of an event that came with the reply to a command, or -EAGAIN. */
static int early_event(struct xp_cm_channel *ch, size_t room, struct rdma_ucm_event_resp *ev)
{
	struct xp_cm_early_event *t = xp_cm_early_event_take(ch);
	struct xp_cm_source *s = t ? t->id->parts->source : NULL;
	struct reply reply = { 0 };
	int err;

	if (!t)
		return -EAGAIN;
	memcpy(&reply, t->bytes, t->len);
	err = translate(ch, s, &reply, t->len);
	free(t);
	memcpy(ev, &reply.ev, room);
	return err ? err : (int)room;
}

static int removal_event(struct xp_cm_channel *ch, size_t room, struct rdma_ucm_event_resp *ev)
{
	struct xp_cm_id *id = xp_cm_id_take_removal(ch);

	if (!id)
		return -EAGAIN;
	memset(ev, 0, sizeof(*ev));
	ev->uid = id->uid;
	ev->id = xp_cm_id_number(id);
	ev->event = DEVICE_REMOVAL;
	id->parts->events++;
	return room;
}

/* ---- any event ------------------------------------------------------------------ */

static struct xp_cm_source *source_by_number(const struct xp_cm_channel *ch, uint64_t number)
{
	struct xp_cm_source *s = ch->sources;

	while (s && (s->number != number || s->lost))
		s = s->next;
	return s;
}

/* Returns the length of an event, or -EAGAIN if there is none. */
static int next_event(struct xp_cm_channel *ch, size_t room, struct rdma_ucm_event_resp *ev)
{
	int i, n, ready, result;
	struct epoll_event set[READY_MAX];
	struct xp_cm_source *s;

	result = early_event(ch, room, ev);
	if (result != -EAGAIN)
		return result;
	ready = epoll_wait(ch->epfd, set, READY_MAX, 0);
	for (i = 0; i < ready; i++) {
		if (set[i].events & (EPOLLHUP | EPOLLERR))
			xp_cm_sources_check(ch);
	}
	result = removal_event(ch, room, ev);
	for (i = 0; i < ready && result < 0; i++) {
		s = source_by_number(ch, set[i].data.u64);
		n = s ? source_event(ch, s, room, ev) : -EAGAIN;
		if (n == -EIO)
			xp_cm_sources_check(ch);
		else if (n != -EAGAIN)
			result = n;
		if (result < 0 && result != -EAGAIN)
			return result;
	}
	return result;
}

/* ---- waiting -------------------------------------------------------------------- */

/* A thread causes these signals itself, and not while it waits. */
static bool is_of_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP;
}

/*
 * poll() never continues after a signal handler, but the kernel's GET_EVENT does if the handler has
 * SA_RESTART. Which handler ran is unknown, so this is true if all handlers of the program have it.
 */
static bool handlers_restart(void)
{
	struct sigaction sa;
	int sig;

	for (sig = 1; sig < NSIG; sig++) {
		if (!is_of_fault(sig) && !sigaction(sig, NULL, &sa) && sa.sa_handler != SIG_DFL &&
		    sa.sa_handler != SIG_IGN && !(sa.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

/* Returns what poll() does, or -errno. */
static int wait_on(struct pollfd *p, nfds_t count)
{
	int n = poll(p, count, -1);

	return n < 0 ? -errno : n;
}

static void event_put(void *ch)
{
	xp_cm_put(ch);
}

/*
 * Waits without the lock. A thread that is cancelled here gives up the reference of its command. If
 * another thread closes the descriptor, the wait ends with a signal only, as in the kernel, where
 * the command keeps the file open. Returns 0 or -EINTR.
 */
static int wait_for_event(struct xp_cm_channel *ch, int fd, int cancel)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n, unused;

	pthread_mutex_unlock(&ch->lock);
	pthread_cleanup_push(event_put, ch);
	xp_cancel_restore(cancel);
	n = wait_on(&p, 1);
	while (!xp_cm_is_number(ch, fd) && (n >= 0 || handlers_restart()))
		n = wait_on(NULL, 0);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
	pthread_cleanup_pop(0);
	pthread_mutex_lock(&ch->lock);
	ch->epfd = fd;
	return n < 0 ? n : 0;
}

int xp_cm_get_event(struct xp_cm_channel *ch, int fd, size_t room, struct rdma_ucm_event_resp *ev,
		    int cancel)
{
	int n, err, flags;

	if (room < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	if (ch->watched >= 0)
		xp_cm_watch(ch); /* a forked child has no thread yet */
	for (;;) {
		n = next_event(ch, room < sizeof(*ev) ? room : sizeof(*ev), ev);
		if (n != -EAGAIN)
			return n;
		flags = fcntl(fd, F_GETFL);
		if (flags >= 0 && flags & O_NONBLOCK)
			return -EAGAIN;
		err = wait_for_event(ch, fd, cancel);
		if (err && (err != -EINTR || !handlers_restart()))
			return err;
	}
}
