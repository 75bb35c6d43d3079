// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Prints JSON as text: an object as lines of name and value, a list of objects as a table. Nothing
 * here depends on what a daemon shows (docs/show.md), except that rows of counters have their
 * number in "packets" or "value", and rows with a state have it in "state" or "cm_state".
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

#define INDENT 2

/* Replaces all but printable ASCII: names of programs and users may contain escape sequences. */
static void clean(char *s)
{
	for (; *s; s++)
		if (!isprint((unsigned char)*s))
			*s = '?';
}

void cli_print_field(const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return;
	clean(copy);
	fputs(copy, stdout);
	free(copy);
}

static char *join(const json_t *list);

/* Formats one value on one line; the caller frees it. */
static char *scalar(const json_t *v)
{
	char *s = NULL;

	switch (v ? json_typeof(v) : JSON_NULL) {
	case JSON_STRING:
		s = strdup(json_string_value(v));
		break;
	case JSON_INTEGER:
		if (asprintf(&s, "%" JSON_INTEGER_FORMAT, json_integer_value(v)) < 0)
			s = NULL;
		break;
	case JSON_REAL:
		if (asprintf(&s, "%.0f", json_real_value(v)) < 0)
			s = NULL;
		break;
	case JSON_TRUE:
		s = strdup("yes");
		break;
	case JSON_FALSE:
		s = strdup("no");
		break;
	case JSON_ARRAY:
		s = join(v);
		break;
	case JSON_OBJECT:
		s = json_dumps(v, JSON_COMPACT);
		break;
	case JSON_NULL:
		s = strdup("-");
		break;
	}
	if (!s)
		abort(); /* out of memory for a few bytes */
	clean(s);
	return s;
}

static char *join(const json_t *list)
{
	char *all = strdup(""), *one, *longer;
	size_t i;
	json_t *v;

	json_array_foreach((json_t *)list, i, v)
	{
		one = scalar(v);
		if (!all || asprintf(&longer, "%s%s%s", all, i ? ", " : "", one) < 0)
			abort();
		free(all);
		free(one);
		all = longer;
	}
	return all;
}

static bool is_table(const json_t *v)
{
	return json_is_array(v) && json_is_object(json_array_get(v, 0));
}

static bool is_zero_row(const json_t *row)
{
	const json_t *n = json_object_get(row, "packets");

	if (!n)
		n = json_object_get(row, "value");
	return json_is_number(n) && json_number_value(n) == 0;
}

/* ---- tables --------------------------------------------------------------------- */

static void print_cell(const char *text, int width, bool right, bool last)
{
	if (right)
		printf("%*s", width, text);
	else
		printf("%-*s", last ? 0 : width, text);
	fputs(last ? "\n" : "  ", stdout);
}

static int column_width(const json_t *table, const char *name, bool *number)
{
	size_t width = strlen(name), i;
	json_t *row;
	char *text;

	*number = true;
	json_array_foreach((json_t *)table, i, row)
	{
		const json_t *v = json_object_get(row, name);

		if (!json_is_number(v))
			*number = false;
		text = scalar(v);
		if (strlen(text) > width)
			width = strlen(text);
		free(text);
	}
	return (int)width;
}

struct column {
	const char *name;
	int width;
	bool number;
};

static void print_rows(const json_t *table, const struct column *col, size_t cols, int indent)
{
	size_t i, c;
	json_t *row;
	char *text;

	json_array_foreach((json_t *)table, i, row)
	{
		printf("%*s", indent, "");
		for (c = 0; c < cols; c++) {
			text = scalar(json_object_get(row, col[c].name));
			print_cell(text, col[c].width, col[c].number, c + 1 == cols);
			free(text);
		}
	}
}

static void print_table(const json_t *table, int indent)
{
	json_t *first = json_array_get(table, 0);
	size_t c = 0, cols = json_object_size(first);
	struct column *col = calloc(cols + 1, sizeof(*col));
	const char *name;
	json_t *v;

	if (!col)
		abort();
	json_object_foreach(first, name, v)
	{
		col[c].name = name;
		col[c].width = column_width(table, name, &col[c].number);
		c++;
	}
	printf("%*s", indent, "");
	for (c = 0; c < cols; c++)
		print_cell(col[c].name, col[c].width, col[c].number, c + 1 == cols);
	print_rows(table, col, cols, indent);
	free(col);
}

/* ---- objects -------------------------------------------------------------------- */

static void print_object(const json_t *object, int indent)
{
	const char *name;
	json_t *v;
	int width = 0;
	char *text;

	json_object_foreach((json_t *)object, name,
			    v) if (!json_is_object(v) && !is_table(v) && (int)strlen(name) > width)
		width = (int)strlen(name);
	json_object_foreach((json_t *)object, name, v)
	{
		printf("%*s", indent, "");
		if (json_is_object(v)) {
			printf("%s:\n", name);
			print_object(v, indent + INDENT);
		} else if (is_table(v)) {
			printf("%s:\n", name);
			print_table(v, indent + INDENT);
		} else if (json_is_array(v) && !json_array_size(v)) {
			printf("%-*s  -\n", width, name);
		} else {
			text = scalar(v);
			printf("%-*s  %s\n", width, name, text);
			free(text);
		}
	}
}

static void drop_zero_rows(json_t *root)
{
	const char *name;
	json_t *list;
	size_t i;

	json_object_foreach(root, name,
			    list) for (i = json_array_size(list);
				       i-- > 0;) if (is_zero_row(json_array_get(list, i)))
		json_array_remove(list, i);
}

static bool is_in(const json_t *row, const char *name, const char *state)
{
	const char *s = json_string_value(json_object_get(row, name));

	return s && !strcasecmp(s, state);
}

json_t *cli_parse(const char *text)
{
	json_t *root = json_loads(text, JSON_DECODE_ANY, NULL);

	/* Integers of the library are smaller than 2^63. */
	if (!root)
		root = json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
	return root;
}

bool cli_print(const char *text, bool hide_zero)
{
	json_t *root = cli_parse(text);

	if (!root)
		return false;
	if (hide_zero)
		drop_zero_rows(root);
	if (json_is_object(root))
		print_object(root, 0);
	else if (is_table(root))
		print_table(root, 0);
	json_decref(root);
	return true;
}

char *cli_in_state(const char *text, const char *state)
{
	json_t *list = cli_parse(text);
	char *rows = NULL;
	size_t i;

	if (!list)
		return NULL;
	for (i = json_array_size(list); i-- > 0;) {
		const json_t *row = json_array_get(list, i);

		if (!is_in(row, "state", state) && !is_in(row, "cm_state", state))
			json_array_remove(list, i);
	}
	rows = json_dumps(list, JSON_INDENT(2));
	json_decref(list);
	return rows;
}
