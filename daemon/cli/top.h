/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of `xroce top`:
 *
 *   top.c        options, keys, the screen
 *   top_rates.c  samples of the counters, rates, rows of a view
 */
#ifndef XROCE_TOP_H
#define XROCE_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "cli.h"

enum view { BY_QP, BY_PROGRAM, BY_DEVICE, VIEWS };
enum column { TX_BYTES, RX_BYTES, TX_MESSAGES, RX_MESSAGES, RETRANSMITS, RTT, COLUMNS };

struct row {
	char device[24], name[24], state[8];
	uint64_t pid;
	double cpu;		    /* seconds of the workers of its device */
	uint64_t key[2];	    /* device and QPN; the same in two samples */
	double total[COLUMNS];	    /* counters; RTT: ns */
	double rate[COLUMNS], load; /* load: workers of the device, in processors */
	uint32_t qps;
};

struct sample {
	struct row *row;
	size_t rows, room;
	double at, cpu; /* seconds; cpu: of all workers */
};

struct top {
	struct cli *cli;
	const char *device; /* NULL: all */
	enum view view;
	enum column sort;
	bool reverse, batch;
	double interval; /* seconds */
	uint64_t count;	 /* samples to show after the first one; 0: no limit */
	struct sample before, now;
	char message[160];
	struct termios saved;
	bool terminal;
};

/* Returns the time of CLOCK_MONOTONIC, the clock of samples, in seconds. */
double top_seconds(void);
/*
 * Takes a sample of the selected devices, and sets its rates. Sets t->message if a device has no
 * values. Returns false if the devices cannot be listed.
 */
bool top_take_sample(struct top *t);
/* Returns a copy of the rows, grouped and sorted as selected, or NULL. The caller frees it. */
struct row *top_rows(const struct top *t, size_t *n);
void top_free_samples(struct top *t);

#endif /* XROCE_TOP_H */
