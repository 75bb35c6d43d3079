/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tests with two hosts, a and b: begin() makes them, end() checks that nothing is left of them. */
#ifndef CM_PAIR_H
#define CM_PAIR_H

#include "cm_hosts.h"

static struct c_host *a, *b;

__attribute__((unused)) static void begin(void)
{
	c_new(&a, &b);
}

/* Checks that nothing is left, after the last timers have expired. */
__attribute__((unused)) static void end(const char *name)
{
	c_wait(a, 600, false);
	TAP_OK(!xc_gauges(a->cm).ids && !xc_gauges(b->cm).ids, "%s: no id is left", name);
	TAP_OK(!xc_gauges(b->cm).half_open && !xc_gauges(b->cm).sources,
	       "%s: no half-open id is counted", name);
	TAP_OK(xc_deadline(a->cm) == XC_NEVER && xc_deadline(b->cm) == XC_NEVER,
	       "%s: no timer is left", name);
	c_free(a);
	c_free(b);
}

__attribute__((unused)) static bool has_data(const struct c_event *e, const char *text,
					     unsigned len)
{
	return e->data_len == len && !memcmp(e->data, text, strlen(text)) && !e->data[strlen(text)];
}

#endif /* CM_PAIR_H */
