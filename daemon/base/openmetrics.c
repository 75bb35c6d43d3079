// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "openmetrics.h"

#include <string.h>

#include "histogram.h"

#define PREFIX "xroce_"
/* Buckets of histograms: times below 2^10 ns (1 us), 2^12 ns ... 2^32 ns (4 s) */
#define FIRST_BUCKET 10
#define LAST_BUCKET 32
#define BUCKET_STEP 2

static const char *unit_of(const char *name)
{
	const char *last = strrchr(name, '_');

	if (last && (!strcmp(last, "_bytes") || !strcmp(last, "_seconds")))
		return last + 1;
	return NULL;
}

static const char *suffix_of(const char *type)
{
	return strcmp(type, OM_COUNTER) ? "" : "_total";
}

void om_family(struct openmetrics *m, const char *name, const char *type, const char *help)
{
	const char *unit = unit_of(name);

	m->family = name;
	m->suffix = suffix_of(type);
	fprintf(m->f, "# TYPE " PREFIX "%s %s\n", name, type);
	if (unit)
		fprintf(m->f, "# UNIT " PREFIX "%s %s\n", name, unit);
	fprintf(m->f, "# HELP " PREFIX "%s %s.\n", name, help);
}

/* Names of programs may have any bytes. */
static void put_value(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else
			putc((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f ? '?' : *s, f);
	}
}

void om_begin_part(struct openmetrics *m, const char *part)
{
	fprintf(m->f, PREFIX "%s%s{device=\"", m->family, part);
	put_value(m->f, m->device);
	putc('"', m->f);
}

void om_begin(struct openmetrics *m)
{
	om_begin_part(m, m->suffix);
}

void om_label(struct openmetrics *m, const char *name, const char *value)
{
	fprintf(m->f, ",%s=\"", name);
	put_value(m->f, value);
	putc('"', m->f);
}

void om_label_number(struct openmetrics *m, const char *name, uint64_t value)
{
	fprintf(m->f, ",%s=\"%llu\"", name, (unsigned long long)value);
}

void om_label_seconds(struct openmetrics *m, const char *name, uint64_t ns)
{
	fprintf(m->f, ",%s=\"%llu.%09llu\"", name, (unsigned long long)(ns / 1000000000),
		(unsigned long long)(ns % 1000000000));
}

void om_value(struct openmetrics *m, uint64_t value)
{
	fprintf(m->f, "} %llu\n", (unsigned long long)value);
}

void om_seconds(struct openmetrics *m, uint64_t ns)
{
	fprintf(m->f, "} %llu.%09llu\n", (unsigned long long)(ns / 1000000000),
		(unsigned long long)(ns % 1000000000));
}

void om_single(struct openmetrics *m, const char *name, const char *type, uint64_t value,
	       const char *help)
{
	om_family(m, name, type, help);
	om_begin(m);
	om_value(m, value);
}

void om_histogram(struct openmetrics *m, const struct xd_histogram *h)
{
	for (uint32_t bits = FIRST_BUCKET; bits <= LAST_BUCKET; bits += BUCKET_STEP) {
		om_begin_part(m, "_bucket");
		om_label_seconds(m, "le", (1ull << bits) - 1);
		om_value(m, xd_histogram_below(h, bits));
	}
	om_begin_part(m, "_bucket");
	om_label(m, "le", "+Inf");
	om_value(m, h->count);
	om_begin_part(m, "_count");
	om_value(m, h->count);
	om_begin_part(m, "_sum");
	om_seconds(m, h->sum);
}

void om_end(struct openmetrics *m)
{
	fputs("# EOF\n", m->f);
}
