/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* JSON text, written from left to right. name NULL: an element of a list. */
#ifndef XD_JSON_H
#define XD_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <xroce/tables.h>

struct json {
	FILE *f;
	bool comma; /* something stands before, at this level */
};

/* An object or a list, by its brackets */
void json_begin(struct json *j, const char *name, char bracket);
void json_end(struct json *j, char bracket);

void json_text(struct json *j, const char *name, const char *s);
void json_number(struct json *j, const char *name, uint64_t n);
/* Addresses in memory as people write them, and beyond the integers that JSON readers keep exact */
void json_hex(struct json *j, const char *name, uint64_t n);
void json_boolean(struct json *j, const char *name, bool b);
/* A GID as an IP address, IPv4 in dotted form */
void json_address(struct json *j, const char *name, const struct xr_addr *a);

#endif /* XD_JSON_H */
