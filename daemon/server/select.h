/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The selection of a SHOW request: which rows of a list are shown. */
#ifndef XD_SELECT_H
#define XD_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "daemon/base/json.h"

struct xd_client;
struct xr_list;

struct xd_select {
	struct json_watch watch; /* of the row */
	uint32_t terms;
	struct xd_term {
		const char *names; /* of members, with commas: one of them has the value */
		const char *values;
		bool holds; /* for the row so far */
	} term[XR_SHOW_SELECT_MAX];
	long begin; /* of the row in the text */
	bool comma; /* before the row */
};

/* The selection refers to the text of the request. -EINVAL: a name or a value is wrong. */
int xd_select_parse(struct xd_select *s, struct xd_client *c, const struct xr_list *list,
		    const struct xr_show_req *q);

/* Begin and end a row. A row that is not selected is removed from the text again. */
void xd_select_begin(struct xd_select *s, struct json *j);
void xd_select_end(struct xd_select *s, struct json *j);

/* Return true if no row in which the member has this value is selected. name: of n characters */
bool xd_select_excludes(const struct xd_select *s, const char *name, size_t n, uint64_t value);
bool xd_select_excludes_text(const struct xd_select *s, const char *name, const char *value);
/* Returns true if the member must have one number. */
bool xd_select_only(const struct xd_select *s, const char *name, size_t n, uint64_t *number);

#endif /* XD_SELECT_H */
