/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of SHOW that are in files of their own, and what they share. */
#ifndef XD_SHOW_H
#define XD_SHOW_H

#include <stdint.h>

#include "daemon/base/json.h"

struct xc_cm;
struct xd_client;
struct xd_clients;
struct xd_gsi;
struct xd_user;
struct xr_show_req;

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

/*
 * show_list.c: writes the rows of a list that the request selects, from its place on. *next: the
 * place of the next piece; 0: there are no more rows. -EINVAL: the selection is not valid; -EFBIG:
 * the list is too long for a client that does not ask for pieces
 */
int xd_show_list(struct json *j, struct xd_client *c, const struct xr_show_req *q, uint64_t *next);
/* Returns how many bytes of memory the programs of a user have registered. */
uint64_t xd_registered(const struct xd_clients *cs, const struct xd_user *u);

/* show_cm.c: the member "cm" of counters and status. engine, gsi: may be NULL. */
void xd_show_cm_counters(struct json *j, const struct xc_cm *engine, const struct xd_gsi *gsi);
void xd_show_cm_status(struct json *j, const struct xc_cm *engine, const struct xd_gsi *gsi);

#endif /* XD_SHOW_H */
