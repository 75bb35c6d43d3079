/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Event sockets: read ends of sockets to which the daemon writes events. An event is a record of
 * fixed size that begins with a cookie, the address of the provider's object. Unmodified programs
 * poll the descriptor and may make it non-blocking, so a record may be left in the socket only if
 * it can be delivered.
 *
 * A destroyed object may leave records behind. They cannot be removed from the middle of a socket.
 * So they are counted (the daemon reports how many it wrote) and dropped when they come to the
 * head: a readable socket always has a live event first. They cannot be confused with events of a
 * later object at the same address, which come after them.
 *
 * End of file means that the daemon is gone.
 */
#ifndef XP_EVENT_SOCKET_H
#define XP_EVENT_SOCKET_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Records of a destroyed object in the socket */
struct xp_stale {
	uint64_t cookie;
	uint32_t left;
};

struct xp_event_socket {
	int fd;
	size_t record; /* bytes, at most XP_EVENT_RECORD_MAX */
	pthread_rwlock_t
		reading;      /* shared: inside read(); exclusive: while the head is inspected */
	pthread_mutex_t lock; /* the list of stale records; counts of events read */
	struct xp_stale *stale;
	unsigned int nstale, room;
};

#define XP_EVENT_RECORD_MAX 16

/* Takes ownership of fd. Returns NULL if out of memory. */
struct xp_event_socket *xp_event_socket_new(int fd, size_t record);
void xp_event_socket_free(struct xp_event_socket *s);
/* Waits until the daemon has closed its end, for a limited time. s NULL: returns at once. */
void xp_event_socket_wait(const struct xp_event_socket *s, int ms);

/*
 * Reads the next record of a live object. Blocks if the descriptor does; a cancellation point.
 * Returns -ENODATA if the daemon is gone.
 * @counter: returns the count of events read of the record's object, or NULL; called with s->lock
 * held.
 */
int xp_event_read(struct xp_event_socket *s, void *record,
		  uint32_t *(*counter)(const void *record));

/*
 * Drops the remaining events of an object that was destroyed. *read does not change afterwards.
 * @written: records that the daemon wrote, or UINT32_MAX if unknown.
 * @read: count of those that were read.
 */
void xp_event_forget(struct xp_event_socket *s, uint64_t cookie, uint32_t written,
		     const uint32_t *read);

#endif /* XP_EVENT_SOCKET_H */
