// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Filters and order of the rows of a list: pairs of the name of a member and a value. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

#define SORT "sort"

/* Returns the only member that a word abbreviates; NULL: none, or several. */
static const char *member(const json_t *row, const char *word)
{
	const char *name, *found = NULL;
	json_t *v;

	if (json_object_get(row, word))
		return word;
	json_object_foreach((json_t *)row, name, v)
	{
		if (strncmp(name, word, strlen(word)))
			continue;
		if (found)
			return NULL;
		found = name;
	}
	return found;
}

static bool equals(const json_t *v, const char *word)
{
	unsigned long long n;
	char *end;

	if (json_is_string(v))
		return !strcasecmp(json_string_value(v), word);
	if (json_is_boolean(v))
		return !strcmp(word, json_is_true(v) ? "yes" : "no");
	errno = 0;
	n = strtoull(word, &end, 0);
	return json_is_integer(v) && end != word && !*end && !errno && *word != '-' &&
	       (unsigned long long)json_integer_value(v) == n;
}

static int no_member(const struct cli *cli, const json_t *row, const char *word)
{
	char names[512] = "";
	const char *name;
	size_t n = 0;
	json_t *v;

	json_object_foreach((json_t *)row, name, v)
	{
		if (n < sizeof(names) && !json_is_object(v))
			n += (size_t)snprintf(names + n, sizeof(names) - n, " %s", name);
	}
	return cli_usage(cli, "'%s' is not one of%s, or not unique", word, names);
}

static int keep(const struct cli *cli, json_t *list, const char *word, const char *value)
{
	const char *name;
	size_t i;

	if (!json_array_size(list))
		return CLI_OK;
	name = member(json_array_get(list, 0), word);
	if (!name)
		return no_member(cli, json_array_get(list, 0), word);
	for (i = json_array_size(list); i-- > 0;)
		if (!equals(json_object_get(json_array_get(list, i), name), value))
			json_array_remove(list, i);
	return CLI_OK;
}

/* ---- order ----------------------------------------------------------------------- */

static const char *sort_name; /* of compare(), which takes no argument */

/* Large numbers first, texts in the order of the alphabet */
static int compare(const void *a, const void *b)
{
	const json_t *x = json_object_get(*(json_t *const *)a, sort_name);
	const json_t *y = json_object_get(*(json_t *const *)b, sort_name);

	if (json_is_string(x) && json_is_string(y))
		return strcmp(json_string_value(x), json_string_value(y));
	return (json_number_value(x) < json_number_value(y)) -
	       (json_number_value(x) > json_number_value(y));
}

static int sort(const struct cli *cli, json_t *list, const char *word)
{
	size_t n = json_array_size(list), i;
	json_t **rows;

	if (!n)
		return CLI_OK;
	sort_name = member(json_array_get(list, 0), word);
	if (!sort_name)
		return no_member(cli, json_array_get(list, 0), word);
	rows = calloc(n, sizeof(json_t *));
	if (!rows)
		return cli_error("out of memory");
	for (i = 0; i < n; i++)
		rows[i] = json_incref(json_array_get(list, i));
	qsort(rows, n, sizeof(json_t *), compare);
	for (i = 0; i < n; i++)
		json_array_set_new(list, i, rows[i]);
	free(rows);
	return CLI_OK;
}

int cli_filter(const struct cli *cli, json_t *list)
{
	int status = CLI_OK, i;

	for (i = 0; status == CLI_OK && i + 1 < cli->filters; i += 2)
		if (strcmp(cli->filter[i], SORT))
			status = keep(cli, list, cli->filter[i], cli->filter[i + 1]);
	for (i = 0; status == CLI_OK && i + 1 < cli->filters; i += 2)
		if (!strcmp(cli->filter[i], SORT))
			status = sort(cli, list, cli->filter[i + 1]);
	return status;
}

bool cli_matches(const struct cli *cli, const json_t *row)
{
	char values[256], *value, *save = NULL;
	const json_t *v;
	bool found;

	for (int i = 0; i + 1 < cli->filters; i += 2) {
		v = json_object_get(row, cli->filter[i]);
		found = v && equals(v, cli->filter[i + 1]);
		snprintf(values, sizeof(values), "%s", cli->filter[i + 1]);
		for (value = strtok_r(values, ",", &save); v && value && !found;
		     value = strtok_r(NULL, ",", &save))
			found = equals(v, value);
		if (!found)
			return false;
	}
	return true;
}
