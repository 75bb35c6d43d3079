// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What checks use: the result, and files below the root */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "doctor.h"

/* Names of processes and files may be anything; JSON and terminals take text only. */
static void doctor_finding_clean(char *s)
{
	for (; *s; s++)
		if (!isprint((unsigned char)*s))
			*s = '?';
}

void doctor_found(struct doctor_finding *f, enum doctor_state state, const char *fmt, ...)
{
	va_list ap;

	f->state = state;
	va_start(ap, fmt);
	vsnprintf(f->found, sizeof(f->found), fmt, ap);
	va_end(ap);
	doctor_finding_clean(f->found);
}

void doctor_remedy(struct doctor_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->remedy, sizeof(f->remedy), fmt, ap);
	va_end(ap);
	doctor_finding_clean(f->remedy);
}

FILE *doctor_open(const struct doctor *d, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", d->root, path);
	return fopen(full, "re");
}

bool doctor_number(const struct doctor *d, const char *path, long long *n)
{
	FILE *f = doctor_open(d, path);
	bool ok = f && fscanf(f, "%lld", n) == 1;

	if (f)
		fclose(f);
	return ok;
}
