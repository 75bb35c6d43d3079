/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The thread that takes completion events, such as the event loop of a server: it answers them one
 * after the other, each in a channel of its own. As long as there are more events, its calls leave
 * their work to a later one: what they post then leaves together, and they do not receive. When it
 * has taken the last one, it receives before it sleeps.
 *
 * Several threads that take events make wrong guesses more frequent, and nothing worse.
 */
#ifndef XP_HOST_READER_H
#define XP_HOST_READER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* All are atomic. */
struct xp_reader {
	uint32_t unread;   /* events that were raised and not taken */
	pthread_t thread;  /* that took the last one */
	uint64_t taken_at; /* when; 0: never */
	bool polled;	   /* since then */
	bool slow;	   /* it works for long between two events */
	uint32_t leaves;   /* calls that may leave their work, until the next event */
	bool left;	   /* one that posted did */
	bool took_last;	   /* then there was no event any more */
	uint32_t answers;  /* times in succession that it posted after the last one as well */
};

/* An event is raised, and n of them are dropped. */
void xp_reader_raised(struct xp_reader *r);
void xp_reader_dropped(struct xp_reader *r, uint32_t n);
/* This thread takes one. Returns true if what was left is to be sent now. */
bool xp_reader_took(struct xp_reader *r, uint64_t now);
/* Returns true if this call leaves its work. posts: or else it polls */
bool xp_reader_leaves(struct xp_reader *r, bool posts);
/* A call posts, and leaves nothing. Returns true if it answers the last event. */
bool xp_reader_posts(struct xp_reader *r);
/* All that was posted is sent. */
void xp_reader_sends(struct xp_reader *r);
/* Some thread receives. */
void xp_reader_polls(struct xp_reader *r);
/* Returns true if a thread took an event at most `ns` ago. */
bool xp_reader_takes(const struct xp_reader *r, uint64_t now, uint64_t ns);

#endif /* XP_HOST_READER_H */
