// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* env: prints the environment by which a program uses xroce without `run` */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"

/* ---- formats -------------------------------------------------------------------- */

/* For `eval`. Nothing is special within single quotes but these themselves. */
static int print_sh(const char *name, const char *value)
{
	printf("export %s='", name);
	for (; *value; value++) {
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	}
	puts("'");
	return CLI_OK;
}

/* For the files of GitHub Actions, in which a line may end a value only if it is no part of it */
static int print_github(const char *name, const char *value)
{
	char end[32] = "XROCE";
	unsigned int n;

	if (!strpbrk(value, "\r\n")) {
		printf("%s=%s\n", name, value);
		return CLI_OK;
	}
	for (n = 0; strstr(value, end); n++)
		snprintf(end, sizeof(end), "XROCE%u", n);
	printf("%s<<%s\n%s\n%s\n", name, end, value, end);
	return CLI_OK;
}

/* For a unit or a drop-in: systemd.syntax(7), specifiers of systemd.unit(5) */
static int print_systemd(const char *name, const char *value)
{
	printf("Environment=\"%s=", name);
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", stdout);
		else if (*value == '\r')
			fputs("\\r", stdout);
		else if (*value == '"' || *value == '\\')
			printf("\\%c", *value);
		else if (*value == '%')
			fputs("%%", stdout);
		else
			putchar(*value);
	}
	puts("\"");
	return CLI_OK;
}

/* For --env-file, which has no quotes: a value ends at the end of its line. */
static int print_docker(const char *name, const char *value)
{
	if (strpbrk(value, "\r\n"))
		return cli_error("%s: a file of --env-file cannot have a value of several lines",
				 name);
	printf("%s=%s\n", name, value);
	return CLI_OK;
}

/* ---- headings ------------------------------------------------------------------- */

static int begin_systemd(struct cli *cli)
{
	puts("[Service]");
	return CLI_OK;
}

/* Prints the command that mounts what the variables name, as a comment. */
static int begin_docker(struct cli *cli)
{
	char library[PATH_MAX];

	if (!cli_find_library(library))
		return cli_error("cannot find " CLI_LIBRARY
				 ": neither next to this command nor installed");
	*strrchr(library, '/') = 0;
	if (strpbrk(library, "\r\n") || strpbrk(cli->runtime_dir, "\r\n"))
		return CLI_OK;
	printf("# docker run --env-file FILE -v %s:" CLI_CONTAINER_LIBRARIES
	       ":ro -v %s:" XR_RUNTIME_DIR ":ro IMAGE\n",
	       *library ? library : "/", cli->runtime_dir);
	return CLI_OK;
}

/* ---- the command ---------------------------------------------------------------- */

static const struct format {
	const char *name;
	int (*begin)(struct cli *cli);
	int (*print)(const char *name, const char *value);
	bool inherits;	/* the variables are set where this command runs */
	bool container; /* paths are those of a container */
} formats[] = {
	{ "sh", NULL, print_sh, true, false },
	{ "github", NULL, print_github, true, false },
	{ "systemd", begin_systemd, print_systemd, false, false },
	{ "docker", begin_docker, print_docker, false, true },
};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static int take_format(const struct cli *cli, const char *name, const struct format **format)
{
	char all[64] = "";
	size_t i;

	for (i = 0; i < FORMATS; i++) {
		if (!strcmp(formats[i].name, name)) {
			*format = &formats[i];
			return 0;
		}
		strcat(strcat(all, *all ? ", " : ""), formats[i].name);
	}
	return -(cli_usage(cli, "format '%s' is not one of %s", name, all) + 1);
}

static int env_parse(struct cli *cli, int argc, char **argv, struct cli_program *p,
		     const struct format **format)
{
	static const struct option options[] = {
		CLI_PROGRAM_OPTIONS,
		{ "format", required_argument, NULL, 'f' },
		{ 0 },
	};
	const char *word;
	int c, end = 0;

	optind = 0;
	while (!end) {
		c = cli_next_option(cli, argc, argv, ":f:" CLI_PROGRAM_LETTERS, options, &word);
		if (c == -1)
			return optind;
		end = c == 'f' ? take_format(cli, optarg, format)
			       : cli_take_program_option(cli, p, c);
	}
	return end;
}

static int print_environment(struct cli *cli, struct cli_program *p, const struct format *f)
{
	struct cli_environment e;
	size_t i;
	int status;

	p->inherits = f->inherits;
	if (f->container) {
		p->library = CLI_CONTAINER_LIBRARIES "/" CLI_LIBRARY;
		p->runtime_dir = XR_RUNTIME_DIR;
	}
	status = cli_environment(cli, p, &e);
	if (status != CLI_OK)
		return status;
	if (f->begin)
		status = f->begin(cli);
	for (i = 0; i < e.count && status == CLI_OK; i++)
		status = f->print(e.variable[i].name, e.variable[i].value);
	cli_environment_free(&e);
	return status;
}

int cli_env(struct cli *cli, int argc, char **argv)
{
	const struct format *format = &formats[0];
	struct cli_program program = { 0 };
	int first = env_parse(cli, argc, argv, &program, &format), status;

	if (first < 0)
		status = -first - 1;
	else if (first < argc)
		status = cli_usage(cli, "unexpected argument '%s'", argv[first]);
	else
		status = print_environment(cli, &program, format);
	free(program.device);
	return status;
}
