/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Selective repeat of packets that are counted from 0, and faults of packets, see floor.c */
#ifndef BENCH_FLOOR_REPEAT_H
#define BENCH_FLOOR_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW 256 /* packets without acknowledgement, as of xroce's QPs */
#define MAX_HELD 64

struct repeat_sender {
	uint64_t next;	      /* packet that was never sent */
	uint64_t acked;	      /* packets that have arrived, all before this one */
	uint64_t progress_at; /* when acked grew */
	uint64_t again_at;    /* when packet acked was sent again; 0: it was not */
	uint64_t round_trip;  /* ns from there to its ACK */
};

/*
 * Returns the number of packets to send now, at most max, and writes which. acked: the last ACK;
 * asked: it was a NAK
 */
uint32_t repeat_choose(struct repeat_sender *s, uint64_t acked, bool asked, uint32_t max,
		       uint64_t *numbers);

struct repeat_receiver {
	uint64_t expected;	    /* the first packet that is missing */
	uint64_t end;		    /* behind the last packet that has come */
	uint64_t come[WINDOW / 64]; /* a bit for each packet behind expected, by number % WINDOW */
	uint32_t ahead;		    /* packets that have come since there is this gap */
	uint64_t gap_at;	    /* when the gap was seen */
};

/* Whether the packet has come before. */
bool repeat_has(const struct repeat_receiver *r, uint64_t number);
/* Notes that it has come, and returns true if packet expected is to be asked for by a NAK. */
bool repeat_arrived(struct repeat_receiver *r, uint64_t number);

/* Of 1000 packets so many are lost, or held back for up to 50 us, as by `xroce fault`. */
struct faults {
	uint32_t drop, reorder;
	uint64_t random;
	uint32_t n;
	struct {
		uint64_t number, until;
	} held[MAX_HELD];
};

enum fate { ARRIVES, LOST, HELD };

/* Decides about a packet. One that is held is returned by faults_release() later. */
enum fate faults_decide(struct faults *f, uint64_t number);
/* Returns false if no packet is due. */
bool faults_release(struct faults *f, uint64_t *number);

#endif /* BENCH_FLOOR_REPEAT_H */
