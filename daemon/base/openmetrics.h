/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes metrics in the OpenMetrics text format 1.0. All names get the prefix "xroce_", all samples
 * the label "device".
 */
#ifndef XD_OPENMETRICS_H
#define XD_OPENMETRICS_H

#include <stdint.h>
#include <stdio.h>

struct xd_histogram;

struct openmetrics {
	FILE *f;
	const char *device;
	const char *family; /* of the next samples; its memory is the caller's */
	const char *suffix; /* of their names */
};

#define OM_COUNTER "counter"
#define OM_GAUGE "gauge"
#define OM_HISTOGRAM "histogram"

/* Begins a family. The unit is the last part of the name, if that is a unit. */
void om_family(struct openmetrics *m, const char *name, const char *type, const char *help);

/* A sample: om_begin(), its labels, and one of the values. */
void om_begin(struct openmetrics *m);
/* Samples of a histogram: instead of om_begin(), with the part of the name: "_bucket", ... */
void om_begin_part(struct openmetrics *m, const char *part);
void om_label(struct openmetrics *m, const char *name, const char *value);
void om_label_number(struct openmetrics *m, const char *name, uint64_t value);
void om_label_seconds(struct openmetrics *m, const char *name, uint64_t ns);
void om_value(struct openmetrics *m, uint64_t value);
void om_seconds(struct openmetrics *m, uint64_t ns);

/* Family and sample without further labels */
void om_single(struct openmetrics *m, const char *name, const char *type, uint64_t value,
	       const char *help);
/* All samples of a histogram of times in ns */
void om_histogram(struct openmetrics *m, const struct xd_histogram *h);
/* Ends the text. */
void om_end(struct openmetrics *m);

#endif /* XD_OPENMETRICS_H */
