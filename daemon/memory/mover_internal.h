/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* State that the files of movers share: mover.c, mover_io.c, mover_staging.c, mover_maps.c. */
#ifndef XD_MOVER_INTERNAL_H
#define XD_MOVER_INTERNAL_H

#include <pthread.h>

#include "mover.h"
#include "mover_area.h"

#define NO_PIECE UINT16_MAX

enum piece_state { PIECE_FREE, PIECE_NEW, PIECE_SUBMITTED, PIECE_DROPPED, PIECE_DONE };

/* An access and its piece of staging. Index: of the piece; the large ones come first. */
struct piece {
	struct xt_mem_io io;
	struct channel *channel; /* that it was allocated for */
	uint32_t at;		 /* in the ring, if submitted */
	uint16_t next;		 /* free piece */
	uint8_t state;
};

/*
 * What a submitted access is for, until it has ended. Other threads read it while workers change
 * it: what they read of an access that has not ended is right, the rest does not matter.
 */
struct use {
	const struct xt_mem *mem;	    /* atomic, stored last; NULL: none */
	const struct xt_integrity *through; /* atomic */
	uint32_t mark;			    /* atomic */
};

/* State of one worker for one mover; under the lock of the worker unless noted */
struct channel {
	struct xd_mover *mover;
	struct xd_move_ring *ring;
	struct xt_mem_pool pool;
	uint32_t worker;
	uint32_t submitted, collected; /* atomic stores, for xd_mover_state() */
	uint64_t since; /* atomic stores: last result, or submission to an empty ring */
	uint64_t look;	/* time to check whether the mover still runs */
	bool waiting;	/* for staging */
	bool unwoken;	/* the mover must be woken at the end of the round */
	bool room;	/* atomic: there may be staging again */
	struct channel *next, **pprev; /* of the worker, if there is something to collect */
	uint16_t piece[XD_MOVER_RING]; /* of the accesses in the ring */
};

struct xd_mover {
	struct xd_movers *all;
	uint32_t refs; /* atomic: owner, allocated pieces, listed channels */
	bool ended;    /* atomic */
	int pidfd, sock;
	struct xd_killed *process; /* takes the pidfd at the end; NULL: it is closed */
	pthread_mutex_t list_lock; /* from a request for mappings to its last reply */
	pid_t pid;
	struct xd_mover_area *area;
	size_t area_size;
	uint8_t *staging;
	int lock; /* of the lists of free pieces */
	uint16_t free_large, free_small;
	uint32_t starving; /* atomic: channels that wait for staging */
	struct piece piece[XD_STAGING_PIECES];
	struct use use[XD_STAGING_PIECES];
	uint32_t marks;	       /* atomic: accesses that were submitted */
	struct xd_mover *next; /* to be freed */
	struct channel channel[];
};

struct worker {
	struct xd_mover_worker worker;
	bool in_round;
	bool news; /* a channel was added to the list since the begin of the round */
	struct channel *first;
};

struct xd_movers {
	struct xd_spawner *spawner;
	pthread_mutex_t lock;
	struct xd_mover *unused; /* freed later, as unmapping takes time that no worker has */
	uint32_t workers;
	struct worker worker[];
};

void xd_mover_ref(struct xd_mover *m);
/* By a worker */
void xd_mover_unref(struct xd_mover *m);
void xd_mover_wake_worker(struct xd_movers *ms, uint32_t worker);

/* ---- mover_staging.c ------------------------------------------------------------------ */

/* Returns a piece that has room for len bytes, or NO_PIECE. */
uint16_t xd_staging_take(struct xd_mover *m, uint32_t len);
/* Releases a piece that was given to a channel, and its reference. */
void xd_staging_put(struct piece *p);
/* Returns the memory of a piece. */
uint8_t *xd_staging_data(struct xd_mover *m, uint32_t i);

#endif /* XD_MOVER_INTERNAL_H */
