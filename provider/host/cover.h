/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether threads of the program poll, so that the progress thread can leave the packets to them.
 * They do if they receive again and again, with no more than short breaks, for four fifths of the
 * time. A program that also waits for data in its memory does not: nobody would receive meanwhile.
 *
 * Time in which a thread waits for a processor counts as well. It polls when it runs; a progress
 * thread that received in its place would keep the processor from threads that wait for it.
 */
#ifndef XP_HOST_COVER_H
#define XP_HOST_COVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_cover {
	/* any thread, atomic */
	uint64_t ns;	 /* time in which threads of the program have received */
	uint64_t to;	 /* end of their last round; what came after it is not in ns */
	pid_t tid;	 /* the thread whose last break was long; 0: there was none */
	uint64_t missed; /* until then, threads polled while another one had the engine */

	/* One thread at a time: that thread, at the end of the break */
	uint64_t at;
	uint64_t cpu_ns;
	long blocked; /* times that it slept */
};

/*
 * A round of this thread from begin to end. most: a break before it, since the last round, counts
 * up to this; the rest only if the thread waited for a processor. One thread at a time.
 */
void xp_cover_add(struct xp_cover *c, uint64_t begin, uint64_t end, uint64_t most);
/*
 * A thread polls, but another one has the engine: the break counts up to now, if the last round or
 * miss was `most` ago or less.
 */
void xp_cover_miss(struct xp_cover *c, uint64_t now, uint64_t most);

/* What is known of the program, when somebody looks. */
enum xp_polls {
	XP_POLLS,
	XP_POLLS_NOT,
	XP_POLLS_UNKNOWN, /* it has not run since the last look, or only for a moment */
	XP_POLLS_WAITS,	  /* it has not had a processor since it polled, and waits for one */
};

/* State of the thread that looks */
struct xp_cover_look {
	uint64_t ns, to; /* of struct xp_cover, at the last look */
	/* Since the first look at which the program had not polled again: */
	uint64_t polled; /* time of its last poll */
	uint64_t since;	 /* time of that look */
	pid_t tid;	 /* the thread that is watched; 0: it does not wait for a processor */
	uint64_t cpu_ns; /* its processor time then */
};

/* The next look is at what follows. */
void xp_cover_start(const struct xp_cover *c, struct xp_cover_look *l);
/*
 * entered: when the thread that is in a round began it; 0: none is. polled: time of the last poll.
 * A thread that may wait for a processor is known to do so at the second look after its last poll.
 */
enum xp_polls xp_cover_look(const struct xp_cover *c, struct xp_cover_look *l, uint64_t entered,
			    uint64_t polled, uint64_t now);

#endif /* XP_HOST_COVER_H */
