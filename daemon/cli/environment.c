// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The variables by which a program gets the provider, for `run` and `env`. The provider is looked
 * for in the folder of this command (build tree), in ../lib/xroce from there (installed), then in
 * /usr/local/lib/xroce and /usr/lib/xroce.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "environment.h"
#include "provider/control/path.h"
#include "provider/control/visible.h"

#define PROGRAMS "programs" /* folder of the programs that `xroce run` adds to PATH */

static const char *const places[] = {
	"%s/" CLI_LIBRARY,
	"%s/../lib/xroce/" CLI_LIBRARY,
	"/usr/local/lib/xroce/" CLI_LIBRARY,
	"/usr/lib/xroce/" CLI_LIBRARY,
};

void cli_own_folder(char path[PATH_MAX])
{
	const char *executed = (const char *)getauxval(AT_EXECFN);
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[n > 0 ? n : 0] = 0;
	/* without /proc, the executed one */
	if (n <= 0 && (!executed || !realpath(executed, path)))
		*path = 0;
	if (strrchr(path, '/'))
		*strrchr(path, '/') = 0;
}

bool cli_find_library(char path[PATH_MAX])
{
	char self[PATH_MAX], place[2 * PATH_MAX];
	size_t i;

	cli_own_folder(self);
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(place, sizeof(place), places[i], self);
		if (realpath(place, path) && !access(path, R_OK))
			return true;
	}
	return false;
}

/* ---- the list ------------------------------------------------------------------- */

/* Takes the value, which was allocated. */
static int environment_set(struct cli_environment *e, const char *name, char *value)
{
	if (!value)
		return cli_error("out of memory");
	e->variable[e->count].name = name;
	e->variable[e->count++].value = value;
	return CLI_OK;
}

void cli_environment_free(struct cli_environment *e)
{
	while (e->count)
		free(e->variable[--e->count].value);
}

static const char *environment_inherited(const struct cli_program *p, const char *name)
{
	const char *value = p->inherits ? getenv(name) : NULL;

	return value ? value : "";
}

/*
 * Puts our `rdma` before that of iproute2 in PATH. It is in a folder beside the library. A program
 * without PATH looks for no program by its name.
 */
static int environment_set_path(struct cli_environment *e, const struct cli_program *p,
				const char *library)
{
	const char *old = environment_inherited(p, "PATH");
	char *folder = NULL, *all = NULL;
	int status = CLI_OK;
	size_t n;

	if (asprintf(&folder, "%.*s/" PROGRAMS, (int)(strrchr(library, '/') - library), library) <
	    0)
		return cli_error("out of memory");
	n = strlen(folder);
	if (*old && !(!strncmp(old, folder, n) && (!old[n] || old[n] == ':')) &&
	    !strchr(folder, ':') && !access(folder, X_OK))
		status = environment_set(e, "PATH",
					 asprintf(&all, "%s:%s", folder, old) < 0 ? NULL : all);
	free(folder);
	return status;
}

/*
 * Appends the provider to LD_PRELOAD, since tools in it (sanitizers, tracers) must come first.
 * ld.so splits the value at colons and spaces, without quoting.
 */
static int set_preload(struct cli_environment *e, const struct cli_program *p, const char *library)
{
	const char *old = environment_inherited(p, "LD_PRELOAD");
	char *all = NULL;

	if (strpbrk(library, ": "))
		return cli_error("%s: cannot preload a path with colons or spaces", library);
	if (strstr(old, library))
		return environment_set(e, "LD_PRELOAD", strdup(old));
	if (asprintf(&all, "%s%s%s", old, *old ? ":" : "", library) < 0)
		all = NULL;
	return environment_set(e, "LD_PRELOAD", all);
}

/* Checks that the device exists: otherwise the program would just find no device. */
static int environment_add_device(struct cli *cli, char **list, const char *device)
{
	struct cli_client c;
	char *longer;
	int err = cli_client_open(&c, cli, device);

	cli_client_close(&c);
	if (err)
		return cli_client_explain(&c, cli->command->name, err);
	if (asprintf(&longer, "%s%s%s", *list ? *list : "", *list ? "," : "", device) < 0)
		return cli_error("out of memory");
	free(*list);
	*list = longer;
	return CLI_OK;
}

static int set_devices(struct cli_environment *e, struct cli *cli, const struct cli_program *p)
{
	const char *given = getenv(CLI_DEVICES_ENV);
	char *list = NULL;
	size_t i;
	int status = CLI_OK;

	for (i = 0; i < p->devices && status == CLI_OK; i++)
		status = environment_add_device(cli, &list, p->device[i]);
	if (status == CLI_OK && list)
		return environment_set(e, CLI_DEVICES_ENV, list);
	free(list);
	return status == CLI_OK && given ? environment_set(e, CLI_DEVICES_ENV, strdup(given))
					 : status;
}

/* Variables that were set for this command are for the program. */
static int environment_set_list(struct cli_environment *e, const struct cli_program *p)
{
	const char *hide = p->only ? XP_HIDE_KERNEL : getenv("XROCE_HIDE");
	const char *order = getenv("XROCE_ORDER");
	const char *path = p->path ? p->path : getenv("XROCE_PATH");
	int status = CLI_OK;

	if (hide && *hide)
		status = environment_set(e, "XROCE_HIDE", strdup(hide));
	if (status == CLI_OK && order && *order)
		status = environment_set(e, "XROCE_ORDER", strdup(order));
	if (status == CLI_OK && path && *path)
		status = environment_set(e, "XROCE_PATH", strdup(path));
	return status;
}

static bool has_sockets(const char *dir)
{
	char **names = xp_sockets_list(dir);
	bool some = names && *names;

	xp_sockets_free(names);
	return some;
}

/* A directory that was not given is named if it has a device; else the program looks for one. */
static int environment_set_runtime_dir(struct cli_environment *e, struct cli *cli,
				       const struct cli_program *p)
{
	if (p->runtime_dir)
		return environment_set(e, CLI_RUNTIME_DIR_ENV, strdup(p->runtime_dir));
	if (!cli->runtime_dir_given && !has_sockets(cli->runtime_dir))
		return CLI_OK;
	return environment_set(e, CLI_RUNTIME_DIR_ENV, strdup(cli->runtime_dir));
}

int cli_environment(struct cli *cli, const struct cli_program *p, struct cli_environment *e)
{
	char library[PATH_MAX], why[256];
	int status;

	*e = (struct cli_environment){ 0 };
	if (!p->library && !cli_find_library(library))
		return cli_error("cannot find " CLI_LIBRARY
				 ": neither next to this command nor installed");
	if (p->library)
		snprintf(library, sizeof(library), "%s", p->library);
	if (!xp_settings_are_known(why, sizeof(why)))
		return cli_error("%s", why);
	if (!p->devices)
		cli_warn_without_device(cli);
	status = set_devices(e, cli, p);
	if (status == CLI_OK)
		status = environment_set_runtime_dir(e, cli, p);
	if (status == CLI_OK)
		status = environment_set_list(e, p);
	if (status == CLI_OK)
		status = environment_set_path(e, p, library);
	if (status == CLI_OK)
		status = set_preload(e, p, library);
	if (status != CLI_OK)
		cli_environment_free(e);
	return status;
}

/* ---- options -------------------------------------------------------------------- */

int cli_take_program_option(struct cli *cli, struct cli_program *p, int option)
{
	const char **more;
	enum xp_path path;

	switch (option) {
	case 'd':
		more = reallocarray(p->device, p->devices + 1, sizeof(*more));
		if (!more)
			return -(cli_error("out of memory") + 1);
		p->device = more;
		p->device[p->devices++] = optarg;
		return 0;
	case 'o':
		p->only = true;
		return 0;
	case 'p':
		p->path = optarg;
		return xp_path_of_word(optarg, &path)
			       ? 0
			       : -(cli_usage(cli, "'%s' is none of: " XP_PATH_WORDS, optarg) + 1);
	case 'r':
		cli->runtime_dir = optarg;
		cli->runtime_dir_given = true;
		return 0;
	case 'h':
		cli_command_help(cli->command);
		return -(CLI_OK + 1);
	default: /* the error is printed */
		return -(CLI_USAGE + 1);
	}
}
