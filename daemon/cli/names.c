// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The members of rows and events that a filter can name. The rows of a reply have them as well, but
 * an empty list has none, and help has no reply. docs/show.md and docs/monitor.md describe them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/show.h>

#include "cli.h"

/* Events are no list of the daemon. */
static const struct xr_list events = {
	.names = "device event qpn# type from state peer dest_qpn# reason status vendor_err# "
		 "direction nak count# cq# srq# index# gid kind rule hits# client# pid# uid# comm",
	.details = "",
};

static const struct xr_list *list_of(const struct cli_command *c)
{
	return strcmp(c->name, "monitor") ? xr_list_of(c->what) : &events;
}

static json_t *value_of(enum xr_member_type type)
{
	switch (type) {
	case XR_NUMBER:
		return json_integer(0);
	case XR_BOOLEAN:
		return json_false();
	case XR_OBJECT:
		return json_object();
	default:
		return json_string("");
	}
}

static void add_names(json_t *row, const char *names)
{
	const char *name;
	char text[64];
	size_t n;
	json_t *v;

	while ((name = xr_next_member(&names, &n))) {
		snprintf(text, sizeof(text), "%.*s", (int)n, name);
		v = value_of(xr_type_of_member(name, n));
		if (!v || json_object_set_new(row, text, v))
			abort(); /* out of memory for a few bytes */
	}
}

const json_t *cli_template(const struct cli *cli)
{
	const struct xr_list *list = list_of(cli->command);
	static json_t *row;

	if (row || !list)
		return row;
	row = json_object();
	add_names(row, list->names);
	if (cli->detail)
		add_names(row, list->details);
	return row;
}

static void print_names(const char *heading, const char *names)
{
	int at = printf("%s", heading);
	const char *name;
	size_t n;

	while ((name = xr_next_member(&names, &n))) {
		if (at + 1 + (int)n > 79)
			at = printf("\n ") - 1;
		at += printf(" %.*s", (int)n, name);
	}
	putchar('\n');
}

void cli_names_help(const struct cli_command *c)
{
	const struct xr_list *list = list_of(c);

	if (!list)
		return;
	print_names("NAME is one of:", list->names);
	if (*list->details)
		print_names("and with -d:", list->details);
}
