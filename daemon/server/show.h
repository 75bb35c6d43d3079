/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of SHOW that are in files of their own, and what they share. */
#ifndef XD_SHOW_H
#define XD_SHOW_H

#include <stdint.h>

#include "daemon/base/json.h"

struct xc_cm;
struct xd_gsi;

/* Writes a counter as an element of a list; what: its description. */
static inline void xd_show_counter(struct json *j, const char *name, uint64_t value,
				   const char *what)
{
	json_begin(j, NULL, '{');
	json_text(j, "name", name);
	json_number(j, "value", value);
	json_text(j, "text", what);
	json_end(j, '}');
}

/* show_cm.c: the member "cm" of counters and status. engine, gsi: may be NULL. */
void xd_show_cm_counters(struct json *j, const struct xc_cm *engine, const struct xd_gsi *gsi);
void xd_show_cm_status(struct json *j, const struct xc_cm *engine, const struct xd_gsi *gsi);

#endif /* XD_SHOW_H */
