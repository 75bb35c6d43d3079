// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/cm/numbers.h"
#include "provider/cm/early_events.h"
#include "provider/cm/umad.h"

#define LEAF_SIZE (1u << XP_CM_LEAF_BITS)

struct xp_cm_channel **xp_cm_leaves[XP_CM_LEAVES];

/*
 * Numbers, references, list of channels. Never taken while the lock of a channel is held. The list
 * is sorted by address, which is the order of the locks of channels.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct xp_cm_channel *channels;
static struct xp_cm_anchor *anchors;
static pid_t owner; /* process */

static struct xp_cm_channel **cm_slot_of(unsigned int fd)
{
	struct xp_cm_channel **leaf = fd < LEAF_SIZE * XP_CM_LEAVES
					      ? xp_cm_leaves[fd >> XP_CM_LEAF_BITS]
					      : NULL;

	return leaf ? &leaf[fd & (LEAF_SIZE - 1)] : NULL;
}

/* ---- fork ----------------------------------------------------------------------- */

static void numbers_before_fork(void)
{
	struct xp_cm_channel *ch;

	pthread_mutex_lock(&lock);
	for (ch = channels; ch; ch = ch->next)
		pthread_mutex_lock(&ch->lock);
}

/* Both processes have the connections now. */
static void share(struct xp_cm_channel *ch)
{
	struct xp_cm_source *s;

	for (s = ch->sources; s; s = s->next)
		s->conn.shared = true;
}

static void numbers_in_parent(void)
{
	struct xp_cm_channel *ch;

	for (ch = channels; ch; ch = ch->next) {
		share(ch);
		pthread_mutex_unlock(&ch->lock);
	}
	pthread_mutex_unlock(&lock);
}

/* Replies and numbers of the child must differ from those that the parent is going to use. */
static void numbers_in_child(void)
{
	uint32_t seed = getpid() * 0x9e3779b1u;
	struct xp_cm_channel *ch;
	struct xp_cm_source *s;

	for (ch = channels; ch; ch = ch->next) {
		share(ch);
		xp_cm_early_event_forget(ch);
		for (s = ch->sources; s; s = s->next)
			s->conn.seq += seed;
		pthread_mutex_unlock(&ch->lock);
	}
	xp_cm_number_seed(seed >> 2);
	owner = getpid();
	pthread_mutex_unlock(&lock);
}

static void numbers_install_handlers(void)
{
	pthread_atfork(numbers_before_fork, numbers_in_parent, numbers_in_child);
	owner = getpid();
}

/* ---- anchors ---------------------------------------------------------------------- */

/*
 * epoll limits the number of ways by which a file wakes others (path_limits of the kernel's
 * fs/eventpoll.c), so a program could not add all its channels to an epoll set of its own if they
 * had one anchor.
 */
#define ANCHOR_CHANNELS 32

/* Returns an anchor for one more channel, or NULL with errno set. Needs the lock. */
static struct xp_cm_anchor *take_anchor(void)
{
	struct xp_cm_anchor *a = anchors;

	while (a && (a->fd < 0 || a->channels == ANCHOR_CHANNELS))
		a = a->next;
	if (!a) {
		a = calloc(1, sizeof(*a));
		if (!a)
			return NULL;
		a->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
		if (a->fd < 0) {
			free(a);
			return NULL;
		}
		a->next = anchors;
		anchors = a;
	}
	a->channels++;
	return a;
}

/* Needs the lock. */
static void put_anchor(struct xp_cm_anchor *a)
{
	struct xp_cm_anchor **p;

	if (--a->channels)
		return;
	for (p = &anchors; *p != a; p = &(*p)->next)
		;
	*p = a->next;
	if (a->fd >= 0)
		syscall(SYS_close, a->fd); /* close() of this library would take the lock. */
	free(a);
}

/* ---- references ------------------------------------------------------------------- */

/* Drops references. Returns true if the channel is to be freed. Needs the lock. */
static bool numbers_drop(struct xp_cm_channel *ch, unsigned int refs)
{
	struct xp_cm_channel **p;

	ch->refs -= refs;
	if (ch->refs)
		return false;
	for (p = &channels; *p != ch; p = &(*p)->next)
		;
	*p = ch->next;
	if (ch->anchor)
		put_anchor(ch->anchor);
	return true;
}

void xp_cm_put(struct xp_cm_channel *ch)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = numbers_drop(ch, 1);
	pthread_mutex_unlock(&lock);
	if (last)
		xp_cm_channel_free(ch);
}

struct xp_cm_channel *xp_cm_lock_watched(const struct xp_cm_channel *after, bool *busy)
{
	struct xp_cm_channel *ch;

	pthread_mutex_lock(&lock);
	for (ch = channels; ch; ch = ch->next) {
		if (ch <= after)
			continue;
		if (pthread_mutex_trylock(&ch->lock)) {
			*busy = true;
			continue;
		}
		if (ch->watched >= 0)
			break;
		pthread_mutex_unlock(&ch->lock);
	}
	pthread_mutex_unlock(&lock);
	return ch;
}

uint64_t xp_cm_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) ? 0 : cookie;
}

static bool is_of(const struct xp_cm_channel *ch, int fd)
{
	return ch->umad ? xp_cm_cookie(fd) == ch->umad->cookie : xp_cm_early_event_show(ch, fd);
}

struct xp_cm_channel *xp_cm_get(int fd)
{
	int errno_before = errno;
	struct xp_cm_channel **slot, *ch;
	bool valid;

	if (!xp_cm_is_marked(fd) || getpid() != owner)
		return NULL;
	pthread_mutex_lock(&lock);
	slot = cm_slot_of(fd);
	ch = *slot;
	if (ch)
		ch->refs++;
	valid = ch && is_of(ch, fd);
	pthread_mutex_unlock(&lock);
	if (ch && !valid) {
		xp_cm_number_remove(ch, fd);
		xp_cm_put(ch);
	}
	errno = errno_before;
	return valid ? ch : NULL;
}

bool xp_cm_is_number(struct xp_cm_channel *ch, int fd)
{
	struct xp_cm_channel *now = xp_cm_get(fd);

	if (now)
		xp_cm_put(now);
	return now == ch;
}

void xp_cm_lock_both(struct xp_cm_channel *a, struct xp_cm_channel *b)
{
	pthread_mutex_lock(a < b ? &a->lock : &b->lock);
	if (a != b)
		pthread_mutex_lock(a < b ? &b->lock : &a->lock);
}

/* ---- numbers ---------------------------------------------------------------------- */

/* Returns NULL if there is no memory, or the number is too large. Needs the lock. */
static struct xp_cm_channel **make_slot(unsigned int fd)
{
	struct xp_cm_channel **leaf;

	if (fd < LEAF_SIZE * XP_CM_LEAVES && !xp_cm_leaves[fd >> XP_CM_LEAF_BITS]) {
		leaf = calloc(LEAF_SIZE, sizeof(struct xp_cm_channel *));
		__atomic_store_n(&xp_cm_leaves[fd >> XP_CM_LEAF_BITS], leaf, __ATOMIC_RELEASE);
	}
	return cm_slot_of(fd);
}

/* Returns the channel that had the number and is to be freed, or NULL. Needs the lock. */
static struct xp_cm_channel *set_slot(struct xp_cm_channel **slot, struct xp_cm_channel *ch)
{
	struct xp_cm_channel *before = *slot;

	if (ch)
		ch->refs++;
	__atomic_store_n(slot, ch, __ATOMIC_RELAXED);
	return before && numbers_drop(before, 1) ? before : NULL;
}

/* Returns 0 or -errno. Needs the lock. */
static int add_anchor(struct xp_cm_channel *ch, int fd)
{
	struct epoll_event ev = { .data.u64 = XP_CM_EPOLL_ANCHOR };

	ch->anchor = take_anchor();
	return !ch->anchor || epoll_ctl(fd, EPOLL_CTL_ADD, ch->anchor->fd, &ev) ? -errno : 0;
}

int xp_cm_number_new(struct xp_cm_channel *ch, int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct xp_cm_channel **slot, **p, *gone = NULL;
	int err;

	pthread_once(&once, numbers_install_handlers);
	pthread_mutex_lock(&lock);
	err = ch->umad ? 0 : add_anchor(ch, fd);
	slot = err ? NULL : make_slot(fd);
	if (slot) {
		for (p = &channels; *p && *p < ch; p = &(*p)->next)
			;
		ch->next = *p;
		*p = ch;
		gone = set_slot(slot, ch);
	} else {
		err = err ? err : -ENOMEM;
		if (ch->anchor)
			put_anchor(ch->anchor);
	}
	pthread_mutex_unlock(&lock);
	if (gone)
		xp_cm_channel_free(gone);
	return err;
}

void xp_cm_number_add(struct xp_cm_channel *ch, int fd)
{
	struct xp_cm_channel **slot, *gone = NULL;

	pthread_mutex_lock(&lock);
	slot = make_slot(fd);
	if (slot)
		gone = set_slot(slot, ch);
	pthread_mutex_unlock(&lock);
	if (gone)
		xp_cm_channel_free(gone);
}

void xp_cm_number_remove(struct xp_cm_channel *ch, int fd)
{
	struct xp_cm_channel **slot, *gone = NULL;

	pthread_mutex_lock(&lock);
	slot = cm_slot_of(fd);
	if (*slot == ch)
		gone = set_slot(slot, NULL);
	pthread_mutex_unlock(&lock);
	if (gone)
		xp_cm_channel_free(gone);
}

void xp_cm_numbers_remove(unsigned int first, unsigned int last)
{
	struct xp_cm_anchor *a;
	struct xp_cm_channel *ch;
	unsigned int leaf, fd;

	if (getpid() != owner) /* also a process without channels */
		return;
	for (leaf = first >> XP_CM_LEAF_BITS; leaf < XP_CM_LEAVES; leaf++) {
		if (leaf > last >> XP_CM_LEAF_BITS)
			break;
		if (!__atomic_load_n(&xp_cm_leaves[leaf], __ATOMIC_ACQUIRE))
			continue;
		for (fd = leaf << XP_CM_LEAF_BITS; fd < (leaf + 1) << XP_CM_LEAF_BITS; fd++) {
			ch = fd >= first && fd <= last ? xp_cm_get(fd) : NULL;
			if (!ch)
				continue;
			xp_cm_number_remove(ch, fd);
			xp_cm_put(ch);
		}
	}
	pthread_mutex_lock(&lock);
	/* The caller is going to close the anchors of other channels, which end with them. */
	for (a = anchors; a; a = a->next) {
		if (a->fd >= 0 && (unsigned int)a->fd >= first && (unsigned int)a->fd <= last)
			a->fd = -1;
	}
	pthread_mutex_unlock(&lock);
}
