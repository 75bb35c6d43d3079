// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Options, help and error messages. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

int cli_error(const char *fmt, ...)
{
	va_list ap;

	fputs("xroce: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return CLI_FAILED;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
	const struct cli_command *c = cli->command;
	va_list ap;

	fputs("xroce: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (c)
		fprintf(stderr, "\nusage: xroce %s%s%s\n", c->name, *c->args ? " " : "", c->args);
	else
		fputs("\nsee xroce --help\n", stderr);
	return CLI_USAGE;
}

/* c: NULL: all commands */
static void help_options(const struct cli_command *c)
{
	puts("\nOptions:");
	if (!c || c->json)
		puts("  -j, --json             print JSON\n"
		     "  -p, --pretty           with -j: print line breaks");
	puts("  -r, --runtime-dir DIR  directory of the daemons' sockets (default: " XR_RUNTIME_DIR
	     ",\n"
	     "                         or that of a daemon of your own)");
	puts("  -h, --help             print help; after a command, for that command");
	if (!c)
		puts("  -V, --version          print the version");
}

void cli_help(const struct cli *cli)
{
	const struct cli_command *c = cli->commands;
	size_t i;

	printf("usage: xroce [OPTION]... COMMAND [ARG]...\n"
	       "       xroce COMMAND help\n\n");
	for (i = 0; i < cli->ncommands; i++)
		printf("  %-10s %s\n", c[i].name, c[i].summary);
	help_options(NULL);
}

void cli_command_help(const struct cli_command *c)
{
	printf("usage: xroce %s%s%s\n\n%s\n", c->name, *c->args ? " " : "", c->args, c->summary);
	if (c->details)
		fputs(c->details, stdout);
	cli_names_help(c);
	help_options(c);
}

/*
 * Returns the option at or after index `at`. getopt_long() moves arguments behind an option only
 * when it reaches the next option, so arguments may precede the option that it has just parsed.
 */
static const char *option_from(char **argv, int at)
{
	while (argv[at][0] != '-' || !argv[at][1])
		at++;
	return argv[at];
}

static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "pretty", no_argument, NULL, 'p' },
	{ "all", no_argument, NULL, 'a' },
	{ "detail", no_argument, NULL, 'd' },
	{ "listen", no_argument, NULL, 'l' },
	{ "state", required_argument, NULL, 's' },
	{ "runtime-dir", required_argument, NULL, 'r' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

/* Stores an option. Returns false if it is none that has a field of struct cli. */
static bool options_store(struct cli *cli, int option)
{
	switch (option) {
	case 'j':
		cli->json = true;
		return true;
	case 'p':
		cli->pretty = true;
		return true;
	case 'd':
		cli->detail = true;
		return true;
	case 'a':
		cli->all = true;
		return true;
	case 'l':
		cli->state = "listen";
		return true;
	case 's':
		cli->state = optarg;
		return true;
	case 'r':
		cli->runtime_dir = optarg;
		cli->runtime_dir_given = true;
		return true;
	default:
		return false;
	}
}

int cli_next_option(const struct cli *cli, int argc, char **argv, const char *letters,
		    const struct option *known, const char **word)
{
	int at = optind ? optind : 1, option;

	opterr = 0;
	option = getopt_long(argc, argv, letters, known, NULL);
	if (option == -1)
		return -1;
	*word = option_from(argv, at);
	if (option == ':')
		cli_usage(cli, "option '%s' needs a value", *word);
	else if (option == '?')
		cli_usage(cli, "unknown option '%s'", *word);
	return option == ':' ? '?' : option;
}

/* Processes any other option, which finishes the command. Returns the exit status. */
static int options_finish(const struct cli *cli, int option)
{
	switch (option) {
	case 'h':
		if (cli->command)
			cli_command_help(cli->command);
		else
			cli_help(cli);
		return CLI_OK;
	case 'V':
		puts("xroce " XR_VERSION);
		return CLI_OK;
	default: /* the error is printed */
		return CLI_USAGE;
	}
}

/* Options that some commands have only; the others would ignore them. */
static bool has_option(const struct cli_command *c, int option)
{
	return !strchr("adls", option) || (c->options && strchr(c->options, option));
}

int cli_options(struct cli *cli, int argc, char **argv)
{
	/* Before the command is known, stop at the first argument. */
	const char *known = cli->command ? ":jpadlr:s:hV" : "+:jpr:hV";
	const char *word;
	int option;

	optind = 0; /* reinitializes getopt_long(): the last call may have had other options */
	do {
		option = cli_next_option(cli, argc, argv, known, options, &word);
		if (option == -1)
			return optind;
		if (cli->command && !has_option(cli->command, option))
			return -(cli_usage(cli, "'%s' has no option '%s'", cli->command->name,
					   word) +
				 1);
	} while (options_store(cli, option));
	return -(options_finish(cli, option) + 1);
}

int cli_parse_own(struct cli *cli, int argc, char **argv, const struct cli_own_options *own)
{
	const char *word;
	int option, status;

	optind = 0;
	while ((option = cli_next_option(cli, argc, argv, own->letters, own->known, &word)) != -1) {
		if (strchr("h?", option))
			return -(options_finish(cli, option) + 1);
		if (strchr("rjp", option)) {
			options_store(cli, option);
			continue;
		}
		status = own->set(cli, own->arg, option, optarg);
		if (status != CLI_OK)
			return -(status + 1);
	}
	return optind;
}
