// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * run: runs a program with the provider preloaded. The provider is looked for in the folder of this
 * command (build tree), in ../lib/xroce from there (installed), then in /usr/local/lib/xroce and
 * /usr/lib/xroce.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cli.h"

#define PROGRAMS "programs" /* folder of the programs that `xroce run` adds to PATH */
enum { RUN_CANNOT = 126, RUN_NOT_FOUND = 127 }; /* exit status, like env(1) */

static const char *const places[] = {
	"%s/" CLI_LIBRARY,
	"%s/../lib/xroce/" CLI_LIBRARY,
	"/usr/local/lib/xroce/" CLI_LIBRARY,
	"/usr/lib/xroce/" CLI_LIBRARY,
};

/* Stores the path of this command, without /proc the executed one, or "" if it is unknown. */
static void own_path(char path[PATH_MAX])
{
	const char *executed = (const char *)getauxval(AT_EXECFN);
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[n > 0 ? n : 0] = 0;
	if (n <= 0 && (!executed || !realpath(executed, path)))
		*path = 0;
}

bool cli_find_library(char path[PATH_MAX])
{
	char self[PATH_MAX], place[2 * PATH_MAX];
	size_t i;

	own_path(self);
	if (strrchr(self, '/'))
		*strrchr(self, '/') = 0;
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(place, sizeof(place), places[i], self);
		if (realpath(place, path) && !access(path, R_OK))
			return true;
	}
	return false;
}

/*
 * Puts our `rdma` before that of iproute2 in PATH. It is in a folder beside the library. A program
 * without PATH looks for no program by its name.
 */
static int set_path(const char *library)
{
	const char *old = getenv("PATH");
	char *folder = NULL, *all = NULL;
	int status = CLI_OK;
	size_t n;

	if (asprintf(&folder, "%.*s/" PROGRAMS, (int)(strrchr(library, '/') - library), library) <
	    0)
		return cli_error("out of memory");
	n = strlen(folder);
	if (old && *old && !(!strncmp(old, folder, n) && (!old[n] || old[n] == ':')) &&
	    !strchr(folder, ':') && !access(folder, X_OK)) {
		if (asprintf(&all, "%s:%s", folder, old) < 0)
			status = cli_error("out of memory");
		else
			setenv("PATH", all, 1);
		free(all);
	}
	free(folder);
	return status;
}

/*
 * Appends the provider to LD_PRELOAD, since tools in it (sanitizers, tracers) must come first.
 * ld.so splits the value at colons and spaces, without quoting.
 */
static int set_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *all = NULL;

	if (strpbrk(library, ": "))
		return cli_error("%s: cannot preload a path with colons or spaces", library);
	if (old && strstr(old, library))
		return CLI_OK;
	if (asprintf(&all, "%s%s%s", old ? old : "", old && *old ? ":" : "", library) < 0)
		return cli_error("out of memory");
	setenv("LD_PRELOAD", all, 1);
	free(all);
	return CLI_OK;
}

/* Checks that the device exists: otherwise the program would just find no device. */
static int add_device(struct cli *cli, char **list, const char *device)
{
	struct cli_client c;
	char *longer;
	int err = cli_client_open(&c, cli, device);

	cli_client_close(&c);
	if (err)
		return cli_client_explain(&c, "run", err);
	if (asprintf(&longer, "%s%s%s", *list ? *list : "", *list ? "," : "", device) < 0)
		return cli_error("out of memory");
	free(*list);
	*list = longer;
	return CLI_OK;
}

static int parse(struct cli *cli, int argc, char **argv, char ***devices)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "runtime-dir", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	size_t n = 0;
	const char *word;
	int c;

	*devices = calloc((size_t)argc + 1, sizeof(**devices));
	if (!*devices)
		return -(cli_error("out of memory") + 1);
	optind = 0;
	for (;;) {
		c = cli_next_option(cli, argc, argv, "+:d:r:h", options, &word);
		switch (c) {
		case -1:
			return optind;
		case 'd':
			(*devices)[n++] = optarg;
			break;
		case 'r':
			cli->runtime_dir = optarg;
			break;
		case 'h':
			cli_command_help(cli->command);
			return -(CLI_OK + 1);
		default:
			return -(CLI_USAGE + 1);
		}
	}
}

static bool may_connect(const struct cli *cli, const char *device)
{
	char path[XP_SOCKET_PATH_MAX];

	return xp_socket_path(path, cli->runtime_dir, device) || !access(path, W_OK) ||
	       errno != EACCES;
}

/* Only a warning, since the program may not need a device. */
static void warn_without_device(const struct cli *cli)
{
	char **names = cli_devices(cli), **p = names;
	char path[XP_SOCKET_PATH_MAX], who[128];

	while (p && *p && !may_connect(cli, *p))
		p++;
	if (p && p == names && !*p) {
		cli_error("no device: there is no socket in %s", cli->runtime_dir);
	} else if (p && !*p) {
		xp_socket_path(path, cli->runtime_dir, names[0]);
		xp_socket_access(path, who, sizeof(who));
		cli_error("you may not connect to any device in %s: %s", cli->runtime_dir, who);
	}
	xp_sockets_free(names);
}

static int set_environment(struct cli *cli, char **devices)
{
	char library[PATH_MAX], *list = NULL;
	int status = CLI_OK;

	if (!cli_find_library(library))
		return cli_error("cannot find " CLI_LIBRARY
				 ": neither next to this command nor installed");
	if (!*devices)
		warn_without_device(cli);
	for (; *devices && status == CLI_OK; devices++)
		status = add_device(cli, &list, *devices);
	if (status == CLI_OK && list)
		setenv(CLI_DEVICES_ENV, list, 1);
	free(list);
	if (status == CLI_OK)
		setenv(CLI_RUNTIME_DIR_ENV, cli->runtime_dir, 1);
	if (status == CLI_OK)
		status = set_path(library);
	return status == CLI_OK ? set_preload(library) : status;
}

int cli_run(struct cli *cli, int argc, char **argv)
{
	char **devices = NULL;
	int first = parse(cli, argc, argv, &devices);
	int status;

	if (first < 0)
		status = -first - 1;
	else if (first == argc)
		status = cli_usage(cli, "PROGRAM is missing");
	else
		status = set_environment(cli, devices);
	free(devices);
	if (first < 0 || status != CLI_OK)
		return status;
	execvp(argv[first], argv + first);
	status = errno == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT;
	cli_error("%s: %m", argv[first]);
	return status;
}
