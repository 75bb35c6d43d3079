/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of `xroce capture`:
 *
 *   capture.c         options, the loop
 *   capture_filter.c  words of the filter
 *   capture_rings.c   the rings that the daemon writes, and the order of packets
 *   capture_direct.c  the rings that direct programs write
 *   capture_ring.c    the indices of a ring
 *   capture_check.c   checks of what direct programs have written
 *   capture_output.c  the file
 *   capture_print.c   packets as lines of text
 *   pcapng.c          blocks of pcapng
 */
#ifndef XROCE_CAPTURE_CLI_H
#define XROCE_CAPTURE_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli.h"
#include "pcapng.h"

/* capture_filter.c */

/* Parses the words of a filter. Prints an error and returns CLI_USAGE if one is wrong. */
int capture_filter(const struct cli *cli, char **words, int n, struct xr_capture_filter *f);

/* capture_rings.c */

#define CAPTURE_MARKS 8
#define CAPTURE_DIRECT_MAX 128
struct capture_direct;
struct capture_reader {
	struct xr_capture_ring *shared;
	uint8_t *data;
	uint32_t size;
	uint64_t consumer, published;
	uint64_t producer;	       /* as last read */
	uint64_t mark[CAPTURE_MARKS];  /* producer at marked[] */
	struct capture_direct *direct; /* NULL: the daemon writes the ring */
};

struct capture_rings {
	void *memory; /* NULL: not mapped */
	size_t length;
	uint32_t rings, directs; /* of the daemon; of direct programs, behind these */
	struct capture_reader reader[XR_MAX_WORKERS + 1 + CAPTURE_DIRECT_MAX];
	struct capture_reader *last; /* whose blocks were returned last; NULL: none */
	uint64_t last_len;
	uint64_t clock;			/* time of packets - CLOCK_MONOTONIC, ns */
	uint64_t marked[CAPTURE_MARKS]; /* as times of packets */
	uint32_t marks;			/* made so far */
	uint64_t written;		/* time of the youngest packet that was returned */
	bool overwrite;
	uint32_t reports; /* of direct contexts that were read */
	struct {
		uint64_t packets, lost, events[XR_CAPTURE_EVENTS];
	} ended; /* of rings of direct programs that are not read any more */
};

/* Blocks of packets, one behind the other */
struct capture_run {
	const uint8_t *blocks; /* NULL: none */
	size_t len;
};

/* Starts the capture. Returns 0 or -errno. Call capture_rings_close() after an error, too. */
int capture_rings_open(struct capture_rings *r, struct cli_client *c,
		       const struct xr_capture_req *req);
/* The same with memory that the caller keeps. Returns -EPROTO if it is too short for the rings. */
int capture_rings_attach(struct capture_rings *r, const struct xr_capture_rep *rep, void *memory);
void capture_rings_close(struct capture_rings *r);
/* Goes to the oldest packets of rings that were overwritten, after their end. */
void capture_rings_rewind(struct capture_rings *r);
/*
 * Notes which packets are in the rings now (CLOCK_MONOTONIC). Returns the last such time, as a time
 * of packets, of which no older packet can come any more; 0: none yet; UINT64_MAX: a ring is half
 * full.
 */
uint64_t capture_rings_mark(struct capture_rings *r, uint64_t monotonic);
/*
 * Returns the oldest packets of all rings, none after `until`: a result of capture_rings_mark(),
 * or UINT64_MAX for all packets. `one`: only one packet. They are valid until the next call.
 * Returns -EPROTO if a ring is damaged.
 */
int capture_rings_next(struct capture_rings *r, uint64_t until, bool one, struct capture_run *run);
/* Returns the sums over all rings. */
uint64_t capture_rings_matched(const struct capture_rings *r);
uint64_t capture_rings_lost(const struct capture_rings *r);
uint64_t capture_rings_event(const struct capture_rings *r, enum xr_capture_event event);
/* capture_ring.c */

/* Returns the end of the blocks that are behind one another from the consumer index on. */
uint64_t capture_ring_end(struct capture_reader *d);

/* capture_direct.c */

struct capture_direct {
	uint32_t context; /* the number of its client */
	int pid;
	uint32_t capture; /* number of the capture in the ring */
	bool began;	  /* the program has prepared the ring */
	bool gone;	  /* the context has ended */
	bool damaged;
	void *memory; /* NULL: it is not of this file */
	size_t length;
	uint8_t *copy; /* of blocks, checked; no program changes them */
	size_t copied, used;
	uint64_t time;		/* of the last packet */
	uint64_t packets, lost; /* that were copied; that the program says it has lost */
	uint64_t events[XR_CAPTURE_EVENTS];
};

/*
 * Reads the reports of direct contexts, if there are new ones, and maps their rings. Prints which
 * contexts are not captured. Returns 0 or the error of a request.
 */
int capture_direct_update(struct capture_rings *r, struct cli_client *c);
/* Waits shortly for programs that are just writing, after END_CAPTURE. */
void capture_direct_await_end(const struct capture_rings *r);
/* Adds a ring in memory that the caller keeps. Returns NULL if there is no room or memory. */
struct capture_direct *capture_direct_attach(struct capture_rings *r, void *memory, uint32_t size,
					     uint32_t capture);
/* Sets *run to blocks of a ring, without any if there are none or if it is damaged. */
void capture_direct_look(const struct capture_rings *r, struct capture_reader *d,
			 struct capture_run *run);
/* Copies all packets of a ring that was overwritten. */
void capture_direct_rewind(const struct capture_rings *r, struct capture_reader *d);
/* Reads the numbers of events, and of lost packets. */
void capture_direct_count(struct capture_rings *r);
void capture_direct_close(struct capture_rings *r);

/* capture_check.c */

/*
 * Checks blocks that a program may have written as it likes: they have the options that the daemon
 * writes, with text of ASCII, and get times that do not decrease, up to `now`. Returns the length
 * of the valid ones at the start. *packets: their number
 */
size_t capture_check(uint8_t *blocks, size_t len, uint64_t *time, uint64_t now, uint64_t *packets);

/* capture_output.c */

#define CAPTURE_BUFFER (64u << 10)
struct capture_output {
	const char *path; /* NULL: lines of text on the standard output */
	int fd;		  /* -1: not open */
	int err;	  /* -errno of the first failure */
	size_t used;	  /* of the buffer */
	uint8_t buffer[CAPTURE_BUFFER];
};

/* Prints an error and returns CLI_FAILED if the file cannot be opened. */
int capture_output_open(struct capture_output *o);
/* Writes pcapng. `share`: lets other threads run in between. */
void capture_output_write(struct capture_output *o, const uint8_t *bytes, size_t len, bool share);
/* Everything written so far becomes visible. */
void capture_output_flush(struct capture_output *o);
/* Prints an error and returns CLI_FAILED if something could not be written. */
int capture_output_close(struct capture_output *o);

/* capture_print.c */

void capture_print(FILE *f, const uint8_t *block);

#endif /* XROCE_CAPTURE_CLI_H */
