// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Filters and order of the rows of a list: pairs of the name of a member and a value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/show.h>

#include "cli.h"

#define SORT "sort"

/* ---- names ----------------------------------------------------------------------- */

/* Returns the number of members that a word abbreviates, and one of them. */
static size_t candidates(const json_t *row, const char *word, const char **one)
{
	const char *name;
	size_t n = 0;
	json_t *v;

	json_object_foreach((json_t *)row, name, v)
	{
		if (!strncmp(name, word, strlen(word))) {
			*one = name;
			n++;
		}
	}
	return n;
}

/* Lists the members that a word abbreviates, or all of them if it abbreviates none. */
static int no_member(const struct cli *cli, const json_t *row, const char *word)
{
	const char *name, *one;
	bool all = !candidates(row, word, &one);
	char names[1024] = "";
	size_t n = 0;
	json_t *v;

	json_object_foreach((json_t *)row, name, v)
	{
		if (n < sizeof(names) && !json_is_object(v) &&
		    (all || !strncmp(name, word, strlen(word))))
			n += (size_t)snprintf(names + n, sizeof(names) - n, " %s", name);
	}
	return cli_usage(cli, "'%s' is not %s%s", word, all ? "one of" : "unique:", names);
}

/* Stores the only member that a word is or abbreviates. Returns the exit status. */
static int filter_member(const struct cli *cli, const json_t *row, const char *word,
			 const char **name)
{
	*name = word;
	if (json_object_get(row, word) || candidates(row, word, name) == 1)
		return CLI_OK;
	return no_member(cli, row, word);
}

/* ---- values ---------------------------------------------------------------------- */

static bool has_value(const json_t *v, const char *words)
{
	if (json_is_string(v))
		return xr_text_matches(json_string_value(v), words);
	if (json_is_boolean(v))
		return xr_boolean_matches(json_is_true(v), words);
	return json_is_integer(v) && xr_number_matches((uint64_t)json_integer_value(v), words);
}

static enum xr_member_type filter_type_of(const json_t *v)
{
	return json_is_boolean(v) ? XR_BOOLEAN : json_is_number(v) ? XR_NUMBER : XR_TEXT;
}

/* v: of any row; the values of a member have the same type in all */
static int check_value(const struct cli *cli, const char *name, const json_t *v, const char *words)
{
	size_t n;

	if (json_is_object(v) || json_is_array(v))
		return cli_usage(cli, "'%s' has several values", name);
	if (!xr_wrong_word(filter_type_of(v), words, &n))
		return CLI_OK;
	return cli_usage(cli, "%s: '%s' is %s", name, words,
			 json_is_boolean(v) ? "neither 'yes' nor 'no'" : "no number");
}

bool cli_matches(const struct cli *cli, const json_t *row)
{
	for (int i = 0; i + 1 < cli->filters; i += 2)
		if (!has_value(json_object_get(row, cli->filter[i]), cli->filter[i + 1]))
			return false;
	return true;
}

/* ---- order ----------------------------------------------------------------------- */

static const char *sort_name; /* of filter_compare(), which takes no argument */

/* Large numbers first, texts in the order of the alphabet */
static int filter_compare(const void *a, const void *b)
{
	const json_t *x = json_object_get(*(json_t *const *)a, sort_name);
	const json_t *y = json_object_get(*(json_t *const *)b, sort_name);

	if (json_is_string(x) && json_is_string(y))
		return strcmp(json_string_value(x), json_string_value(y));
	return (json_number_value(x) < json_number_value(y)) -
	       (json_number_value(x) > json_number_value(y));
}

/* ---- lists ----------------------------------------------------------------------- */

/*
 * The filters with complete names, in `all`; those of "sort" are in `sort`. Both are borrowed from
 * `row`, a row of the list. Returns the exit status.
 */
static int filter_complete(const struct cli *cli, const json_t *row, struct cli *all,
			   const char **sort)
{
	const char *name;
	int status;

	for (int i = 0; i + 1 < cli->filters; i += 2) {
		bool sorts = !strcmp(cli->filter[i], SORT);

		status = filter_member(cli, row, cli->filter[i + sorts], &name);
		if (status == CLI_OK && !sorts)
			status = cli_check_words(cli, name, cli->filter[i + 1]);
		if (status == CLI_OK)
			status = check_value(cli, name, json_object_get(row, name),
					     sorts ? "" : cli->filter[i + 1]);
		if (status != CLI_OK)
			return status;
		if (sorts) {
			*sort = name;
			continue;
		}
		all->filter[all->filters++] = (char *)name;
		all->filter[all->filters++] = cli->filter[i + 1];
	}
	return CLI_OK;
}

int cli_check_filters(const struct cli *cli)
{
	char **filter = calloc((size_t)cli->filters + 1, sizeof(*filter));
	struct cli all = { .filter = filter };
	const char *sort;
	int status = filter ? filter_complete(cli, cli_template(cli), &all, &sort)
			    : cli_error("out of memory");

	free(filter);
	return status;
}

int cli_complete_filters(struct cli *cli)
{
	struct cli all = { .filter = cli->filter };
	const char *sort = NULL;
	int status = filter_complete(cli, cli_template(cli), &all, &sort);

	return status == CLI_OK && sort ? cli_usage(cli, "events have no order") : status;
}

void cli_select(struct cli_selection *s, const char *names, const char *values)
{
	size_t n = strlen(names) + 1, m = strlen(values) + 1;

	if (s->pairs == XR_SHOW_SELECT_MAX || n + m > sizeof(s->text) - s->length)
		return;
	memcpy(s->text + s->length, names, n);
	memcpy(s->text + s->length + n, values, m);
	s->length += n + m;
	s->pairs++;
}

void cli_select_filters(const struct cli *cli, struct cli_selection *s)
{
	const json_t *row = cli_template(cli);
	const char *name;

	for (int i = 0; i + 1 < cli->filters; i += 2)
		if (strcmp(cli->filter[i], SORT) &&
		    filter_member(cli, row, cli->filter[i], &name) == CLI_OK)
			cli_select(s, name, cli->filter[i + 1]);
	if (cli->state)
		cli_select(s, json_object_get(row, "cm_state") ? "state,cm_state" : "state",
			   cli->state);
}

/* Stores the rows that have the values. Returns their number. */
static size_t filter_keep(const struct cli *all, const json_t *list, json_t **rows)
{
	size_t n = 0, i;
	json_t *row;

	json_array_foreach((json_t *)list, i, row)
	{
		if (cli_matches(all, row))
			rows[n++] = json_incref(row);
	}
	return n;
}

int cli_filter(const struct cli *cli, json_t *list)
{
	char **filter = calloc((size_t)cli->filters + 1, sizeof(*filter));
	json_t **rows = calloc(json_array_size(list) + 1, sizeof(json_t *));
	json_t *first = json_incref(json_array_get(list, 0));
	struct cli all = { .filter = filter };
	const char *sort = NULL;
	int status = CLI_OK;
	size_t n = 0, i;

	if (!filter || !rows)
		status = cli_error("out of memory");
	else if (first)
		status = filter_complete(cli, first, &all, &sort);
	if (status == CLI_OK && first) {
		n = filter_keep(&all, list, rows);
		sort_name = sort;
		if (sort)
			qsort(rows, n, sizeof(json_t *), filter_compare);
		json_array_clear(list);
		for (i = 0; i < n; i++)
			json_array_append_new(list, rows[i]);
	}
	json_decref(first);
	free(filter);
	free(rows);
	return status;
}
