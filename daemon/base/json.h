/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes JSON text. Functions take the name of a member, or NULL for an element of a list. */
#ifndef XD_JSON_H
#define XD_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <xroce/tables.h>

/* Sees the members of an object while it is written, but not those of objects within it. */
struct json_watch {
	void (*text)(struct json_watch *w, const char *name, const char *s);
	void (*number)(struct json_watch *w, const char *name, uint64_t n);
	void (*boolean)(struct json_watch *w, const char *name, bool b);
	uint32_t depth; /* of brackets; 0 before the object is opened */
};

struct json {
	FILE *f;
	bool comma;		  /* the next value needs a comma before it */
	struct json_watch *watch; /* NULL: none */
};

/* Opens an object or a list ('{' or '['), and closes it ('}' or ']'). */
void json_begin(struct json *j, const char *name, char bracket);
void json_end(struct json *j, char bracket);

void json_text(struct json *j, const char *name, const char *s);
void json_no_value(struct json *j, const char *name);
void json_number(struct json *j, const char *name, uint64_t n);
/* Writes a number as a string in hexadecimal: exact also above the 53 bits of many JSON parsers. */
void json_hex(struct json *j, const char *name, uint64_t n);
void json_boolean(struct json *j, const char *name, bool b);
/* Writes a GID as IP address; IPv4-mapped ones in dotted form. */
void json_address(struct json *j, const char *name, const struct xr_addr *a);
void json_mac(struct json *j, const char *name, const uint8_t mac[6]);

#endif /* XD_JSON_H */
