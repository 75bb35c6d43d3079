// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Collects metrics from daemons: text in the OpenMetrics format. The samples of a family must be
 * together, so the texts of several daemons are merged family by family.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "provider/base/clock.h"

#define FAMILY "# TYPE "
#define END "# EOF\n"

/* The text of one daemon. Families that were printed are overwritten by empty strings. */
struct metrics_collect_text {
	char *data;
	char **family; /* each begins with its FAMILY line */
	size_t families;
};

/* Replaces the line feed before each family by a zero. Returns false without memory. */
static bool metrics_collect_split(struct metrics_collect_text *t)
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
static bool metrics_collect_same(const char *a, const char *b)
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

static void metrics_collect_put(FILE *out, const char *text)
{
	size_t n = strlen(text);

	fputs(text, out);
	if (n && text[n - 1] != '\n')
		fputc('\n', out);
}

/* Writes a family of the first text, and its samples of the others. */
static void write_family(FILE *out, const char *family, struct metrics_collect_text *others,
			 size_t n)
{
	metrics_collect_put(out, family);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < others[i].families; k++) {
			if (!metrics_collect_same(family, others[i].family[k]))
				continue;
			metrics_collect_put(out, samples_of(others[i].family[k]));
			others[i].family[k] = "";
		}
	}
}

static void write_merged(FILE *out, struct metrics_collect_text *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < text[i].families; k++)
			if (*text[i].family[k])
				write_family(out, text[i].family[k], text + i + 1, n - i - 1);
	fputs(END, out);
}

/* Gives each of n daemons an equal part of the time that is left. */
static void limit_time(struct cli *cli, size_t n)
{
	uint64_t now = xp_clock();

	if (cli->deadline_ns)
		cli->deadline_ns = now + (cli->deadline_ns > now ? cli->deadline_ns - now : 0) / n;
}

/* Returns false if there is none: then writes the reason to `problems`. */
static bool metrics_collect_fetch(const struct cli *cli, const char *device,
				  struct metrics_collect_text *t, FILE *problems)
{
	struct cli_client c;
	char why[512];
	int err = cli_client_open(&c, cli, device);

	*t = (struct metrics_collect_text){ 0 };
	if (!err)
		err = cli_client_show(&c, XR_SHOW_METRICS, NULL, &t->data);
	cli_client_close(&c);
	if (!err && metrics_collect_split(t))
		return true;
	free(t->data);
	cli_client_describe(&c, cli->command->name, err ? err : -ENOMEM, why, sizeof(why));
	fprintf(problems, "%s\n", why);
	return false;
}

static int collect_all(const struct cli *cli, char **names, FILE *out, FILE *problems)
{
	size_t n = 0, got = 0, i;
	struct metrics_collect_text *text;

	while (names[n])
		n++;
	text = calloc(n + 1, sizeof(*text));
	if (!text)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct cli limited = *cli;

		limit_time(&limited, n - i);
		got += metrics_collect_fetch(&limited, names[i], &text[got], problems);
	}
	if (got)
		write_merged(out, text, got);
	for (i = 0; i < got; i++) {
		free(text[i].family);
		free(text[i].data);
	}
	free(text);
	return (int)got;
}

int cli_collect_metrics(const struct cli *cli, const char *device, FILE *out, FILE *problems)
{
	char **names, *one[] = { (char *)device, NULL };
	int got;

	if (device)
		return collect_all(cli, one, out, problems);
	names = xp_sockets_list(cli->runtime_dir);
	if (!names) {
		fprintf(problems, "%s: %m\n", cli->runtime_dir);
		return 0;
	}
	if (!*names)
		fprintf(problems, "no device: there is no socket in %s\n", cli->runtime_dir);
	got = collect_all(cli, names, out, problems);
	xp_sockets_free(names);
	return got;
}
