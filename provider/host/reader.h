/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The thread that takes completion events, such as the event loop of a server: it answers them one
 * after the other, each in a channel of its own. As long as there are more events, its calls leave
 * their work to a later one: what they post then leaves together, and they do not receive. The last
 * event sends what was left; a tick of the progress thread does, if none is taken. If packets wake
 * the thread, its first poll after an event receives nothing either: it would be woken.
 */
#ifndef XP_HOST_READER_H
#define XP_HOST_READER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* All are atomic. Several threads that take events make guesses worse. */
struct xp_reader {
	uint32_t unread;    /* events that were raised, not taken, and are expected to be */
	pthread_t thread;   /* that took the last one */
	uint64_t taken_at;  /* when; 0: never */
	bool polled;	    /* since then */
	pthread_t receiver; /* a packet wakes it to receive, and to take events; 0: there is none */
	uint64_t woken_at;  /* when one woke it last */
	bool slow;	    /* it works for long between two events */
	uint32_t leaves;    /* calls that may leave their work, until the next event */
	bool woken;	    /* a packet would wake the thread, so that its next poll may leave it */
	bool left;	    /* one that posted did */
};

/* An event is raised, and n of them are dropped. */
void xp_reader_raised(struct xp_reader *r);
void xp_reader_dropped(struct xp_reader *r, uint32_t n);
/* This thread takes one. Returns true if what was left is to be sent now. */
bool xp_reader_took(struct xp_reader *r, uint64_t now);
/* Returns false if no thread leaves its work now. */
static inline bool xp_reader_may_leave(const struct xp_reader *r)
{
	return __atomic_load_n(&r->leaves, __ATOMIC_RELAXED);
}
/* Returns true if this thread, which polls, leaves its work. */
bool xp_reader_leaves_poll(struct xp_reader *r);
/* Returns false if packets do not wake a thread that took an event. */
static inline bool xp_reader_may_be_woken(const struct xp_reader *r)
{
	return __atomic_load_n(&r->woken, __ATOMIC_RELAXED);
}
/* Returns true, once after an event, if this thread polls and has nothing to send: it is woken. */
bool xp_reader_is_woken(struct xp_reader *r, uint64_t now);
/* The same if it posts. Ticks send that at the latest. */
bool xp_reader_leaves_post(struct xp_reader *r, uint64_t now);
/* All that was posted is sent. late: by the progress thread, some time later */
void xp_reader_sends(struct xp_reader *r, bool late);
/* Some thread receives. */
void xp_reader_polls(struct xp_reader *r);
/* This thread receives when a packet wakes it, or takes events of the channel that one wakes. */
void xp_reader_receives(struct xp_reader *r, uint64_t now);
/* Returns true if a thread that receives afterwards took an event at most `ns` ago. */
bool xp_reader_takes(const struct xp_reader *r, uint64_t now, uint64_t ns);
/*
 * Returns true if a thread takes events, and waits for more, but packets do not wake it: they make
 * a channel readable that nobody looks at.
 */
bool xp_reader_sleeps(const struct xp_reader *r, uint64_t now);

#endif /* XP_HOST_READER_H */
