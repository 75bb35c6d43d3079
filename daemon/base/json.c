// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>

#include <xroce/gid.h>

#include "json.h"

/* One thread writes a text: its characters need no locks, which would take most of the time. */
static void put_string(struct json *j, const char *s)
{
	putc_unlocked('"', j->f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(j->f, "\\%c", *s);
		else if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
			fprintf(j->f, "\\u%04x", (unsigned char)*s);
		else
			putc_unlocked(*s, j->f);
	}
	putc_unlocked('"', j->f);
}

static void next(struct json *j, const char *name)
{
	if (j->comma)
		putc_unlocked(',', j->f);
	j->comma = true;
	if (name) {
		put_string(j, name);
		putc_unlocked(':', j->f);
	}
}

void json_begin(struct json *j, const char *name, char bracket)
{
	next(j, name);
	putc_unlocked(bracket, j->f);
	j->comma = false;
	if (j->watch)
		j->watch->depth++;
}

void json_end(struct json *j, char bracket)
{
	putc_unlocked(bracket, j->f);
	j->comma = true;
	if (j->watch)
		j->watch->depth--;
}

static bool is_watched(const struct json *j, const char *name)
{
	return j->watch && j->watch->depth == 1 && name;
}

void json_text(struct json *j, const char *name, const char *s)
{
	next(j, name);
	put_string(j, s);
	if (is_watched(j, name))
		j->watch->text(j->watch, name, s);
}

void json_no_value(struct json *j, const char *name)
{
	next(j, name);
	fputs("null", j->f);
}

/* Parsers of JSON refuse larger numbers than those of 63 bits. */
void json_number(struct json *j, const char *name, uint64_t n)
{
	if (n > INT64_MAX)
		n = INT64_MAX;
	next(j, name);
	fprintf(j->f, "%llu", (unsigned long long)n);
	if (is_watched(j, name))
		j->watch->number(j->watch, name, n);
}

void json_hex(struct json *j, const char *name, uint64_t n)
{
	char s[20];

	snprintf(s, sizeof(s), "0x%llx", (unsigned long long)n);
	json_text(j, name, s);
}

void json_boolean(struct json *j, const char *name, bool b)
{
	next(j, name);
	fputs(b ? "true" : "false", j->f);
	if (is_watched(j, name))
		j->watch->boolean(j->watch, name, b);
}

void json_address(struct json *j, const char *name, const struct xr_addr *a)
{
	char s[INET6_ADDRSTRLEN];

	if (xr_gid_is_ipv4(a))
		inet_ntop(AF_INET, a->raw + XR_GID_IPV4_OFF, s, sizeof(s));
	else
		inet_ntop(AF_INET6, a->raw, s, sizeof(s));
	json_text(j, name, s);
}

void json_mac(struct json *j, const char *name, const uint8_t mac[6])
{
	char s[sizeof("00:00:00:00:00:00")];

	snprintf(s, sizeof(s), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
		 mac[4], mac[5]);
	json_text(j, name, s);
}
