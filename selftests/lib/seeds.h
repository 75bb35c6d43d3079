/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The main function of a simulation whose runs each have a seed:
 *
 *     PROGRAM [-n runs] [-s first seed] [-f failures to stop at] [-v]
 *
 * -v prints what happens in each run. Seeds are run and reported in blocks.
 */
#ifndef XR_TEST_SEEDS_H
#define XR_TEST_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

struct seeds {
	unsigned long runs, max_failures; /* defaults of -n and -f */
	unsigned long block;		  /* seeds that are reported together */
	/* Runs a seed, adds to the totals. Prints a failure and returns false. */
	bool (*run)(uint64_t seed, bool verbose);
	/*
	 * Reports the totals of a block without failures. `whole`: it has all of its seeds, so each
	 * kind of event must have happened in it.
	 */
	void (*report)(uint64_t first, uint64_t last, bool whole);
	void *totals; /* zero at the start of each block */
	size_t totals_size;
};

/* Returns the number of failures, of which there are at most `most`. */
static inline unsigned long run_block(const struct seeds *s, uint64_t first, unsigned long n,
				      bool verbose, unsigned long most)
{
	uint64_t last = first + n - 1;
	unsigned long failures = 0;

	memset(s->totals, 0, s->totals_size);
	for (unsigned long i = 0; i < n && failures < most; i++)
		failures += !s->run(first + i, verbose);
	if (failures)
		TAP_OK(false, "seeds %llu to %llu", (unsigned long long)first,
		       (unsigned long long)last);
	else
		s->report(first, last, n == s->block);
	return failures;
}

/* Returns the exit status of the program. */
static inline int run_seeds(struct seeds s, int argc, char **argv)
{
	unsigned long n, failures = 0;
	bool verbose = false;
	uint64_t seed = 1;
	int opt;

	while ((opt = getopt(argc, argv, "n:s:f:v")) != -1) {
		if (opt == 'n') {
			s.runs = strtoul(optarg, NULL, 0);
		} else if (opt == 's') {
			seed = strtoull(optarg, NULL, 0);
		} else if (opt == 'f') {
			s.max_failures = strtoul(optarg, NULL, 0);
		} else if (opt == 'v') {
			verbose = true;
		} else {
			fprintf(stderr,
				"usage: %s [-n runs] [-s first seed] [-f failures to stop at] "
				"[-v]\n",
				argv[0]);
			return 2;
		}
	}
	for (; s.runs && failures < s.max_failures; s.runs -= n, seed += n) {
		n = s.runs < s.block ? s.runs : s.block;
		failures += run_block(&s, seed, n, verbose, s.max_failures - failures);
	}
	return tap_end();
}

#endif /* XR_TEST_SEEDS_H */
