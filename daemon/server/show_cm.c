// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counters of connection management: MADs by kind, REJ by reason, and QP 1. */
#include <stdio.h>

#include "daemon/cm/cm.h"
#include "daemon/gsi/gsi.h"
#include "show.h"

/* Counters of struct xc_counters for each kind of MAD: member, text */
#define KIND_COUNTERS(X)                                                                           \
	X(sent, "sent, including retries")                                                         \
	X(retried, "sent again")                                                                   \
	X(received, "received")                                                                    \
	X(duplicates, "received again")                                                            \
	X(unexpected, "received for no connection, or in a wrong state")

static void show_cm_put_kind(struct json *j, const struct xc_counters *c, enum xc_kind kind)
{
	char name[48], text[96];

#define X(field, what)                                                                             \
	snprintf(name, sizeof(name), "%s_%s", xc_kind_name(kind), #field);                         \
	snprintf(text, sizeof(text), "%s %s", xc_kind_name(kind), what);                           \
	xd_show_counter(j, name, c->field[kind], text);
	KIND_COUNTERS(X)
#undef X
}

static void put_reason(struct json *j, const char *direction, const char *reason, uint64_t value,
		       const char *what)
{
	char name[48], text[96];

	snprintf(name, sizeof(name), "REJ_%s_%s", direction, reason);
	snprintf(text, sizeof(text), "REJ %s: %s", direction, what);
	xd_show_counter(j, name, value, text);
}

static void show_cm_put_reasons(struct json *j, const char *direction, const uint64_t *count)
{
	put_reason(j, direction, "OTHER", count[0], "other reasons");
#define X(number, reason, text) put_reason(j, direction, #reason, count[number], text);
	XC_REASONS(X)
#undef X
}

static void put_engine(struct json *j, const struct xc_counters *c)
{
	for (unsigned int kind = 0; kind < XC_NUM_KINDS; kind++)
		show_cm_put_kind(j, c, kind);
	show_cm_put_reasons(j, "sent", c->rej_sent);
	show_cm_put_reasons(j, "received", c->rej_received);
	xd_show_counter(j, "malformed", c->malformed, "MADs with invalid fields");
	xd_show_counter(j, "limited", c->limited, "requests dropped because of a limit");
	xd_show_counter(j, "established", c->established, "connections that were established");
	xd_show_counter(j, "timeouts", c->timeouts, "exchanges without a response");
}

void xd_show_cm_counters(struct json *j, const struct xc_cm *engine, const struct xd_gsi *gsi)
{
	const struct xd_gsi_counters *g = gsi ? xd_gsi_counters(gsi) : NULL;

	json_begin(j, "cm", '[');
#define X(field, text)                                                                             \
	if (g)                                                                                     \
		xd_show_counter(j, #field, g->field, text);
	XD_GSI_COUNTERS(X)
#undef X
	if (engine)
		put_engine(j, xc_counters(engine));
	json_end(j, ']');
}

void xd_show_cm_status(struct json *j, const struct xc_cm *engine, const struct xd_gsi *gsi)
{
	const struct xc_gauges gauges = engine ? xc_gauges(engine) : (struct xc_gauges){ 0 };

	json_begin(j, "cm", '{');
	json_boolean(j, "gsi_lent", xd_gsi_lent(gsi));
	json_number(j, "exchanges", gauges.ids);
	json_number(j, "half_open", gauges.half_open);
	json_number(j, "half_open_peers", gauges.sources);
	json_end(j, '}');
}
