// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * metrics: text in the OpenMetrics format. The samples of a family must be together, so the texts
 * of several daemons are merged family by family.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define FAMILY "# TYPE "
#define END "# EOF\n"

/* The text of one daemon. Families that were printed are overwritten by empty strings. */
struct text {
	char *data;
	char **family; /* each begins with its FAMILY line */
	size_t families;
};

/* Replaces the line feed before each family by a zero. Returns false without memory. */
static bool split(struct text *t)
{
	char *at, *end = strstr(t->data, END);
	size_t n = 0;

	if (end)
		*end = 0;
	for (at = t->data; (at = strstr(at, FAMILY)); at += strlen(FAMILY))
		n++;
	t->family = calloc(n + 1, sizeof(*t->family));
	if (!t->family)
		return false;
	for (at = t->data; (at = strstr(at, FAMILY)); at += strlen(FAMILY)) {
		t->family[t->families++] = at;
		if (at > t->data)
			at[-1] = 0;
	}
	return true;
}

/* Two families are the same if their first lines are. */
static bool same(const char *a, const char *b)
{
	size_t n = strcspn(a, "\n");

	return n && strcspn(b, "\n") == n && !memcmp(a, b, n);
}

static const char *samples_of(const char *family)
{
	while (*family == '#') {
		family += strcspn(family, "\n");
		family += *family == '\n';
	}
	return family;
}

static void put(const char *text)
{
	size_t n = strlen(text);

	fputs(text, stdout);
	if (n && text[n - 1] != '\n')
		putchar('\n');
}

/* Prints a family of the first text, and its samples of the others. */
static void print_family(const char *family, struct text *others, size_t n)
{
	put(family);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < others[i].families; k++) {
			if (!same(family, others[i].family[k]))
				continue;
			put(samples_of(others[i].family[k]));
			others[i].family[k] = "";
		}
	}
}

static void print_merged(struct text *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < text[i].families; k++)
			if (*text[i].family[k])
				print_family(text[i].family[k], text + i + 1, n - i - 1);
	fputs(END, stdout);
}

static int fetch(const struct cli *cli, const char *device, struct text *t)
{
	struct cli_client c;
	int err = cli_client_open(&c, cli, device);

	if (!err)
		err = cli_client_show(&c, XR_SHOW_METRICS, NULL, &t->data);
	cli_client_close(&c);
	err = cli_client_explain(&c, cli->command->name, err);
	if (err == CLI_OK && !split(t))
		return cli_error("out of memory");
	return err;
}

static int print_devices(const struct cli *cli, char **names)
{
	size_t n = 0, got = 0, i;
	int status = CLI_OK;
	struct text *text;

	while (names[n])
		n++;
	text = calloc(n + 1, sizeof(*text));
	if (!text)
		return cli_error("out of memory");
	for (i = 0; i < n; i++) {
		if (fetch(cli, names[i], &text[got]) == CLI_OK)
			got++;
		else
			status = CLI_FAILED;
	}
	if (got)
		print_merged(text, got);
	for (i = 0; i < n; i++) {
		free(text[i].family);
		free(text[i].data);
	}
	free(text);
	return status;
}

int cli_metrics(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv), status;
	char **names, *one[] = { NULL, NULL };

	if (first < 0)
		return -first - 1;
	if (argc - first > 1)
		return cli_usage(cli, "unexpected argument '%s'", argv[first + 1]);
	if (cli->json)
		return cli_usage(cli, "metrics are text; 'counters' and 'status' have JSON");
	if (first < argc) {
		one[0] = argv[first];
		return print_devices(cli, one);
	}
	names = cli_devices(cli);
	if (!names)
		return CLI_FAILED;
	status = *names ? print_devices(cli, names)
			: cli_error("no device: there is no socket in %s", cli->runtime_dir);
	xp_sockets_free(names);
	return status;
}
