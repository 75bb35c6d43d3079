// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Event sockets. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "provider/base/cancel.h"
#include "provider/verbs/event_socket.h"

#define ALL UINT32_MAX /* all records of the cookie, however many */

struct xp_event_socket *xp_event_socket_new(int fd, size_t record)
{
	struct xp_event_socket *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->fd = fd;
	s->record = record;
	pthread_rwlock_init(&s->reading, NULL);
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void xp_event_socket_free(struct xp_event_socket *s)
{
	if (!s)
		return;
	close(s->fd);
	pthread_rwlock_destroy(&s->reading);
	pthread_mutex_destroy(&s->lock);
	free(s->stale);
	free(s);
}

void xp_event_socket_wait(const struct xp_event_socket *s, int ms)
{
	struct pollfd p = { .fd = s ? s->fd : -1, .events = POLLRDHUP };
	int cancel;

	if (!s)
		return;
	cancel = xp_cancel_off();
	poll(&p, 1, ms);
	xp_cancel_restore(cancel);
}

/* Counts a record that was read. Returns true if it is stale. Needs s->lock. */
static bool count_stale(struct xp_event_socket *s, uint64_t cookie)
{
	unsigned int i;

	for (i = 0; i < s->nstale && s->stale[i].cookie != cookie; i++)
		;
	if (i == s->nstale)
		return false;
	if (s->stale[i].left != ALL && !--s->stale[i].left)
		s->stale[i] = s->stale[--s->nstale];
	return true;
}

static bool event_socket_is_stale(const struct xp_event_socket *s, uint64_t cookie)
{
	unsigned int i;

	for (i = 0; i < s->nstale; i++) {
		if (s->stale[i].cookie == cookie)
			return true;
	}
	return false;
}

/* Reads the cookie of the record at the head without removing it. Needs s->lock. */
static bool peek(struct xp_event_socket *s, uint64_t *cookie)
{
	uint8_t record[XP_EVENT_RECORD_MAX];

	if (recv(s->fd, record, s->record, MSG_PEEK | MSG_DONTWAIT) != (ssize_t)s->record)
		return false;
	memcpy(cookie, record, sizeof(*cookie));
	return true;
}

/*
 * Removes stale records from the head. If another thread is inside read(), that thread will drop
 * them.
 */
static void drop_stale_head(struct xp_event_socket *s)
{
	uint8_t record[XP_EVENT_RECORD_MAX];
	uint64_t cookie;
	int cancel;

	if (!s->nstale || pthread_rwlock_trywrlock(&s->reading))
		return;
	cancel = xp_cancel_off();
	pthread_mutex_lock(&s->lock);
	while (s->nstale && peek(s, &cookie) && event_socket_is_stale(s, cookie)) {
		if (read(s->fd, record, s->record) != (ssize_t)s->record)
			break;
		count_stale(s, cookie);
	}
	pthread_mutex_unlock(&s->lock);
	pthread_rwlock_unlock(&s->reading);
	xp_cancel_restore(cancel);
}

void xp_event_forget(struct xp_event_socket *s, uint64_t cookie, uint32_t written,
		     const uint32_t *read)
{
	struct xp_stale *stale;
	uint32_t left;

	pthread_mutex_lock(&s->lock);
	left = written == ALL ? ALL : written - *read;
	if (left && s->nstale == s->room) {
		stale = realloc(s->stale, (s->room * 2 + 8) * sizeof(*stale));
		if (stale) {
			s->stale = stale;
			s->room = s->room * 2 + 8;
		}
	}
	if (left && s->nstale < s->room)
		s->stale[s->nstale++] = (struct xp_stale){ cookie, left };
	pthread_mutex_unlock(&s->lock);
	drop_stale_head(s);
}

static void done_reading(void *s)
{
	pthread_rwlock_unlock(&((struct xp_event_socket *)s)->reading);
}

/* Programs may cancel a thread that waits here. */
static ssize_t read_record(struct xp_event_socket *s, void *record)
{
	ssize_t n;

	pthread_rwlock_rdlock(&s->reading);
	pthread_cleanup_push(done_reading, s);
	n = read(s->fd, record, s->record);
	pthread_cleanup_pop(1);
	return n;
}

int xp_event_read(struct xp_event_socket *s, void *record, uint32_t *(*counter)(const void *record))
{
	uint32_t *count;
	uint64_t cookie;
	bool stale;
	ssize_t n;

	do {
		n = read_record(s, record);
		if (n != (ssize_t)s->record)
			return n < 0 ? -errno : -ENODATA;
		memcpy(&cookie, record, sizeof(cookie));
		pthread_mutex_lock(&s->lock);
		stale = count_stale(s, cookie);
		count = stale ? NULL : counter(record);
		if (count)
			++*count;
		pthread_mutex_unlock(&s->lock);
	} while (stale);
	drop_stale_head(s);
	return 0;
}
