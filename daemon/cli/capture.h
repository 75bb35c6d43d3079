/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of `xroce capture`:
 *
 *   capture.c         options, the loop
 *   capture_filter.c  words of the filter
 *   capture_rings.c   the rings that the daemon writes
 *   capture_history.c the last blocks, until an event
 *   capture_print.c   packets as lines of text, and the comments of packets
 *   capture_options.c options of packets in pcapng
 *   pcapng.c          packets as blocks of pcapng
 */
#ifndef XROCE_CAPTURE_CLI_H
#define XROCE_CAPTURE_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli.h"
#include "pcapng.h"

#define CAPTURE_PACKET_MAX 8192 /* more than a packet can have */

/* capture_filter.c */

/* Parses the words of a filter. Prints an error and returns CLI_USAGE if one is wrong. */
int capture_filter(const struct cli *cli, char **words, int n, struct xr_capture_filter *f);
/* Returns the name of a verdict, and the text that explains it. */
const char *capture_verdict(uint32_t reason, const char **text);

/* capture_rings.c */

struct capture_rings {
	void *memory; /* NULL: not mapped */
	size_t length;
	uint8_t *data;
	uint32_t rings, size;
	struct capture_reader {
		struct xr_capture_ring *shared;
		uint64_t consumer, published;
		uint64_t producer;		      /* as last read */
		const struct xr_capture_record *next; /* NULL: none is read yet */
	} reader[XR_MAX_WORKERS + 1], *last; /* whose packet was returned last; NULL: none */
	uint64_t clock;			     /* CLOCK_REALTIME - CLOCK_MONOTONIC, ns */
};

/* Starts the capture. Returns 0 or -errno. Call capture_rings_close() after an error, too. */
int capture_rings_open(struct capture_rings *r, struct cli_client *c,
		       const struct xr_capture_req *req);
void capture_rings_close(struct capture_rings *r);
/*
 * Returns the oldest packet of all rings, or NULL if there is none that was captured before `until`
 * (CLOCK_MONOTONIC). It is valid until the next call. Returns -EPROTO if a ring is damaged.
 */
int capture_rings_next(struct capture_rings *r, uint64_t until,
		       const struct xr_capture_record **record);
/* Returns the time until which packets of all rings can be put in order; see capture_rings_next. */
uint64_t capture_rings_until(const struct capture_rings *r);
/* Returns the sums over all rings. */
uint64_t capture_rings_matched(const struct capture_rings *r);
uint64_t capture_rings_lost(const struct capture_rings *r);
uint64_t capture_rings_event(const struct capture_rings *r, enum xr_capture_event event);

/* capture_history.c */

struct capture_history {
	uint8_t *bytes; /* NULL: not open */
	size_t size;
	size_t start, used; /* place of the oldest block, bytes of all blocks */
};

/* size: 1 MiB or more, which is much more than a block has. Returns false without memory. */
bool capture_history_open(struct capture_history *h, size_t size);
void capture_history_close(struct capture_history *h);
/* Adds a block in place of the oldest ones. */
void capture_history_add(struct capture_history *h, const uint8_t *block, size_t len);
/* Writes all blocks, the oldest first, and removes them. Returns false on an error of the file. */
bool capture_history_write(struct capture_history *h, FILE *f);

/* capture_print.c */

void capture_print(FILE *f, const struct xr_capture_record *r, uint64_t time);
/* Writes the comment of a packet; returns its length. */
size_t capture_comment(const struct xr_capture_record *r, char comment[PCAPNG_TEXT_MAX]);

/* capture_options.c */

/* Returns the options of a packet and sets their length. Valid until the next call. */
const uint8_t *capture_options(const struct xr_capture_record *r, size_t *len);

#endif /* XROCE_CAPTURE_CLI_H */
