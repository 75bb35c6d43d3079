// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* metrics: prints them once, or serves them by HTTP. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int print_once(const struct cli *cli, const char *device)
{
	char *text = NULL, *line, *rest;
	size_t length;
	FILE *problems = open_memstream(&text, &length);
	int got = problems ? cli_collect_metrics(cli, device, stdout, problems) : -ENOMEM;

	if ((problems && fclose(problems)) || got < 0) {
		free(text);
		return cli_error("out of memory");
	}
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		cli_error("%s", line);
	free(text);
	return length ? CLI_FAILED : CLI_OK;
}

struct metrics_choice {
	const char *address, *group; /* NULL: not given */
};

static int metrics_set_option(struct cli *cli, void *arg, int option, char *value)
{
	struct metrics_choice *choice = arg;

	if (option == 'l')
		choice->address = value;
	else
		choice->group = value;
	return CLI_OK;
}

/* Returns the index of the first argument, or -(exit status + 1). */
static int metrics_parse(struct cli *cli, struct metrics_choice *choice, int argc, char **argv)
{
	static const struct option options[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "group", required_argument, NULL, 'g' },
		{ "runtime-dir", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const struct cli_own_options own = { ":l:g:r:jph", options, metrics_set_option, choice };

	return cli_parse_own(cli, argc, argv, &own);
}

int cli_metrics(struct cli *cli, int argc, char **argv)
{
	struct metrics_choice choice = { 0 };
	int first = metrics_parse(cli, &choice, argc, argv);

	if (first < 0)
		return -first - 1;
	if (argc - first > 1)
		return cli_usage(cli, "unexpected argument '%s'", argv[first + 1]);
	if (cli->json || cli->pretty)
		return cli_usage(cli, "metrics are text; 'counters' and 'status' have JSON");
	if (choice.group && !choice.address)
		return cli_usage(cli, "--group is for a unix socket, see --listen");
	/* argv ends with NULL. */
	return choice.address ? cli_serve_metrics(cli, choice.address, choice.group, argv[first])
			      : print_once(cli, argv[first]);
}
