// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Prints JSON as text: an object as lines of name and value, a list of objects as a table. The code
 * depends on few names of the JSON (docs/show.md): rows of counters have their number in "packets"
 * or "value", rows with a state have it in "state" or "cm_state".
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <xroce/show.h>

#include "cli.h"

#define INDENT 2

static bool coloured; /* states stand out on a terminal */
static bool units;    /* times and sizes have units on a terminal */
static int screen;    /* columns of the terminal; 0: no terminal */

/* Replaces all but printable ASCII: names of programs and users may contain escape sequences. */
static void print_clean(char *s)
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
	print_clean(copy);
	fputs(copy, stdout);
	free(copy);
}

static char *print_join(const json_t *list);

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
		s = print_join(v);
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
	print_clean(s);
	return s;
}

static char *print_join(const json_t *list)
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

/* ---- colours and units ------------------------------------------------------------- */

void cli_print_init(void)
{
	const char *term = getenv("TERM"), *none = getenv("NO_COLOR");

	struct winsize ws;

	units = isatty(STDOUT_FILENO);
	if (units && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws))
		screen = ws.ws_col;
	coloured = units && term && strcmp(term, "dumb") && !(none && *none);
}

#define GREEN "\033[32m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

static const char *colour_of(const char *name, const char *text)
{
	static const struct {
		const char *name, *text, *colour;
	} rows[] = {
		{ "state", "RTS", GREEN },
		{ "state", "ESTABLISHED", GREEN },
		{ "state", "ERR", RED },
		{ "state", "SQE", RED },
		{ "cm_state", "ESTABLISHED", GREEN },
		{ "state", "up", GREEN },
		{ "state", "down", RED },
		{ "state", "removed", RED },
		{ "state", "running", GREEN },
		{ "state", "ok", GREEN },
		{ "state", "missing", RED },
		{ "link", "up", GREEN },
		{ "link", "down", RED },
		{ "event", "qp_error", RED },
		{ "event", "cq_error", RED },
		{ "event", "srq_error", RED },
		{ "overrun", "yes", RED },
		{ "dead", "yes", RED },
	};

	for (size_t i = 0; coloured && name && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(name, rows[i].name) && !strcmp(text, rows[i].text))
			return rows[i].colour;
	return NULL;
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && !strcmp(name + n - m, end);
}

void cli_duration(double ns, char *text, size_t room)
{
	if (ns < 1e3)
		snprintf(text, room, "%.0f ns", ns);
	else if (ns < 1e6)
		snprintf(text, room, "%.1f us", ns / 1e3);
	else if (ns < 1e9)
		snprintf(text, room, "%.1f ms", ns / 1e6);
	else if (ns < 120e9)
		snprintf(text, room, "%.1f s", ns / 1e9);
	else if (ns < 7200e9)
		snprintf(text, room, "%.0f min", ns / 60e9);
	else
		snprintf(text, room, "%.1f h", ns / 3600e9);
}

void cli_amount(double n, char *text, size_t room)
{
	static const char prefixes[] = " kMGTPE";
	int i = 0;

	for (; n >= 999.95 && prefixes[i + 1]; i++)
		n /= 1000;
	snprintf(text, room, i ? "%.1f%c" : "%.0f", n, prefixes[i]);
}

void cli_clock(uint64_t ns, char *text, size_t room)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;
	size_t n = 0;

	if (localtime_r(&seconds, &tm))
		n = strftime(text, room, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, room - n, ".%06u", (unsigned int)(ns % 1000000000 / 1000));
}

/* Returns how much of a name is shown: the value has the unit itself if there are units. */
static int shown_length(const char *name)
{
	int n = (int)strlen(name);

	return units && (ends_with(name, "_ns") || ends_with(name, "_us")) ? n - 3 : n;
}

/* Returns true if the value is a time since 1970. */
static bool is_clock(const char *name)
{
	return !strcmp(name, "time_ns") || !strcmp(name, "created_ns");
}

/* Formats a number with a unit if its name is that of a time or a size. */
static char *with_unit(char *text, const char *name, const json_t *v)
{
	char amount[32];

	if (!units || !json_is_number(v))
		return text;
	if (is_clock(name)) {
		cli_clock((uint64_t)json_integer_value(v), amount, sizeof(amount));
	} else if (ends_with(name, "_ns")) {
		cli_duration(json_number_value(v), amount, sizeof(amount));
	} else if (ends_with(name, "_us")) {
		cli_duration(json_number_value(v) * 1000, amount, sizeof(amount));
	} else if ((ends_with(name, "_bytes") || !strcmp(name, "bytes")) &&
		   json_number_value(v) >= 1000) {
		cli_amount(json_number_value(v), amount, sizeof(amount) - 1);
		strcat(amount, "B");
	} else {
		return text;
	}
	free(text);
	text = strdup(amount);
	if (!text)
		abort();
	return text;
}

static char *member_text(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	return with_unit(scalar(v), name, v);
}

void cli_print_value(const char *name, const json_t *v)
{
	char *text = scalar(v);
	const char *quote = *text && !strchr(text, ' ') ? "" : "\"";
	const char *colour = colour_of(name, text);

	printf("%s%s%s%s%s", colour ? colour : "", quote, text, quote, colour ? PLAIN : "");
	free(text);
}

/* ---- tables --------------------------------------------------------------------- */

static void print_padded(const char *text, int width, const char *colour)
{
	printf("%s%*s%s", colour ? colour : "", width, text, colour ? PLAIN : "");
}

/* Returns the width as in struct print_column. Numbers are aligned right. */
static int column_width(const json_t *table, const char *name)
{
	size_t width = (size_t)shown_length(name), i;
	bool number = true;
	json_t *row;
	char *text;

	json_array_foreach((json_t *)table, i, row)
	{
		const json_t *v = json_object_get(row, name);

		if (!json_is_number(v))
			number = false;
		text = member_text(row, name);
		if (strlen(text) > width)
			width = strlen(text);
		free(text);
	}
	return number ? (int)width : -(int)width;
}

struct print_column {
	const char *name;
	int width; /* negative: aligned left */
	bool last; /* of its line */
};

/* Prints spaces in front of a line of a row. */
static void begin_line(int indent, bool continues)
{
	printf("%*s", indent + (continues ? 2 * INDENT : 0), "");
}

/* A row of a table that is wider than the terminal continues on further lines. */
static void print_divide(struct print_column *col, size_t cols, int indent)
{
	int at = indent;

	for (size_t c = 0; c < cols; c++) {
		at += abs(col[c].width);
		if (c && screen && at > screen) {
			col[c - 1].last = true;
			at = indent + 2 * INDENT + abs(col[c].width);
		}
		at += 2;
		col[c].last = c + 1 == cols;
	}
}

static void print_headings(const struct print_column *col, size_t cols, int indent)
{
	for (size_t c = 0; c < cols; c++) {
		int width = col[c].last && col[c].width < 0 ? 0 : col[c].width;

		if (!c || col[c - 1].last)
			begin_line(indent, c);
		printf("%*.*s%s", width, shown_length(col[c].name), col[c].name,
		       col[c].last ? "\n" : "  ");
	}
}

static void cli_print_row(const json_t *row, const struct print_column *col, size_t cols,
			  int indent)
{
	for (size_t c = 0; c < cols; c++) {
		int width = col[c].last && col[c].width < 0 ? 0 : col[c].width;
		char *text = member_text(row, col[c].name);

		if (!c || col[c - 1].last)
			begin_line(indent, c);
		print_padded(text, width, colour_of(col[c].name, text));
		fputs(col[c].last ? "\n" : "  ", stdout);
		free(text);
	}
}

static void print_table(const json_t *table, int indent)
{
	json_t *first = json_array_get(table, 0);
	size_t c = 0, cols = json_object_size(first);
	struct print_column *col = calloc(cols + 1, sizeof(*col));
	const char *name;
	json_t *v;
	size_t i;

	if (!col)
		abort();
	json_object_foreach(first, name, v)
	{
		col[c].name = name;
		col[c].width = column_width(table, name);
		c++;
	}
	print_divide(col, cols, indent);
	print_headings(col, cols, indent);
	json_array_foreach((json_t *)table, i, v) cli_print_row(v, col, cols, indent);
	free(col);
}

/* ---- objects -------------------------------------------------------------------- */

static bool print_is_empty(const json_t *v)
{
	return json_is_array(v) && !json_array_size(v);
}

/* Returns the width of the names of values that are on the same line. */
static int names_width(const json_t *object)
{
	const char *name;
	int width = 0;
	json_t *v;

	json_object_foreach((json_t *)object, name, v)
	{
		if (!json_is_object(v) && !is_table(v) && !print_is_empty(v) &&
		    shown_length(name) > width)
			width = shown_length(name);
	}
	return width;
}

static void print_object(const json_t *object, int indent)
{
	int width = names_width(object);
	const char *name;
	json_t *v;
	char *text;

	json_object_foreach((json_t *)object, name, v)
	{
		if (print_is_empty(v))
			continue;
		printf("%*s", indent, "");
		if (json_is_object(v)) {
			printf("%s:\n", name);
			print_object(v, indent + INDENT);
		} else if (is_table(v)) {
			printf("%s:\n", name);
			print_table(v, indent + INDENT);
		} else {
			text = member_text(object, name);
			printf("%-*.*s  ", width, shown_length(name), name);
			print_padded(text, 0, colour_of(name, text));
			putchar('\n');
			free(text);
		}
	}
}

static void drop_zero_rows(json_t *root)
{
	const char *name;
	json_t *list;
	size_t i;

	json_object_foreach(root, name, list)
	{
		/* from the end, as removing a row changes the indices of those behind it */
		for (i = json_array_size(list); i-- > 0;)
			if (is_zero_row(json_array_get(list, i)))
				json_array_remove(list, i);
	}
}

static bool is_in(const json_t *row, const char *name, const char *state)
{
	const char *s = json_string_value(json_object_get(row, name));

	return s && xr_text_matches(s, state);
}

json_t *cli_parse(const char *text)
{
	json_t *root = json_loads(text, JSON_DECODE_ANY, NULL);

	/* Integers of the library are smaller than 2^63. */
	if (!root)
		root = json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
	return root;
}

static void cli_print_json(const json_t *root)
{
	if (json_is_object(root))
		print_object(root, 0);
	else if (is_table(root))
		print_table(root, 0);
}

bool cli_print(const char *text, bool hide_zero)
{
	json_t *root = cli_parse(text);

	if (!root)
		return false;
	if (hide_zero)
		drop_zero_rows(root);
	cli_print_json(root);
	json_decref(root);
	return true;
}

/* Each row as an object */
static void print_blocks(const json_t *list)
{
	size_t i;
	json_t *row;

	json_array_foreach((json_t *)list, i, row)
	{
		if (i)
			putchar('\n');
		print_object(row, 0);
	}
}

void cli_end_json(const struct cli *cli)
{
	if (cli->json)
		putchar('\n');
}

void cli_print_reply(const struct cli *cli, const json_t *root)
{
	if (cli->json)
		json_dumpf(root, stdout, cli->pretty ? JSON_INDENT(2) : JSON_COMPACT);
	else if (cli->detail && json_is_array(root))
		print_blocks(root);
	else
		cli_print_json(root);
}

void cli_in_state(json_t *list, const char *state)
{
	for (size_t i = json_array_size(list); i-- > 0;) {
		const json_t *row = json_array_get(list, i);

		if (!is_in(row, "state", state) && !is_in(row, "cm_state", state))
			json_array_remove(list, i);
	}
}
