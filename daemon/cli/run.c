// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* run: runs a program with the provider preloaded */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"

#define START_ENV "XROCE_START"
#define START_IDLE "30"
enum { RUN_CANNOT = 126, RUN_NOT_FOUND = 127 }; /* exit status, like env(1) */

struct daemon_cli_run {
	struct cli_program program;
	bool start;
	const char *interface; /* for start; NULL: any */
	const char *idle;      /* for start */
};

/* ---- options -------------------------------------------------------------------- */

/* XROCE_START: 1 or the interface, as the value of --start; 0 or nothing: do not start */
static void take_variable(struct daemon_cli_run *r)
{
	const char *value = getenv(START_ENV);

	r->start = value && *value && strcmp(value, "0");
	r->interface = r->start && strcmp(value, "1") ? value : NULL;
	r->idle = START_IDLE;
}

static int run_parse(struct cli *cli, int argc, char **argv, struct daemon_cli_run *r)
{
	static const struct option options[] = {
		CLI_PROGRAM_OPTIONS,
		{ "start", optional_argument, NULL, 's' },
		{ "start-idle", required_argument, NULL, 'i' },
		{ 0 },
	};
	const char *word;
	int c, end = 0;

	take_variable(r);
	optind = 0;
	while (!end) {
		c = cli_next_option(cli, argc, argv, "+:" CLI_PROGRAM_LETTERS, options, &word);
		switch (c) {
		case -1:
			return optind;
		case 's':
			r->start = true;
			r->interface = optarg && *optarg ? optarg : NULL;
			break;
		case 'i':
			r->idle = optarg;
			if (!*optarg || strspn(optarg, "0123456789") != strlen(optarg))
				end = -(cli_usage(cli, "'%s' is not a number of seconds", optarg) +
					1);
			break;
		default:
			end = cli_take_program_option(cli, &r->program, c);
			break;
		}
	}
	return end;
}

/* ---- the command ---------------------------------------------------------------- */

static int set_environment(struct cli *cli, const struct daemon_cli_run *r)
{
	struct cli_environment e;
	int status = r->start ? cli_start(cli, r->interface, r->idle) : CLI_OK;
	size_t i;

	if (status == CLI_OK)
		status = cli_environment(cli, &r->program, &e);
	if (status != CLI_OK)
		return status;
	for (i = 0; i < e.count; i++)
		setenv(e.variable[i].name, e.variable[i].value, 1);
	cli_environment_free(&e);
	return CLI_OK;
}

int cli_run(struct cli *cli, int argc, char **argv)
{
	struct daemon_cli_run r = { .program.inherits = true };
	int first = run_parse(cli, argc, argv, &r);
	int status;

	if (first < 0)
		status = -first - 1;
	else if (first == argc)
		status = cli_usage(cli, "PROGRAM is missing");
	else
		status = set_environment(cli, &r);
	free(r.program.device);
	if (first < 0 || status != CLI_OK)
		return status;
	execvp(argv[first], argv + first);
	status = errno == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT;
	cli_error("%s: %m", argv[first]);
	return status;
}
