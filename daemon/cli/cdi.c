// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cdi: prints a file of the Container Device Interface (CDI, JSON), by which container runtimes
 * give devices to containers. A device has no device node: a program needs the provider
 * and the sockets of the daemons.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/*
 * The oldest version in which device names may begin with a digit: runtimes refuse files of
 * versions that they do not know, and podman 4.3 of Debian 12 does not know 0.6.0.
 */
#define CDI_VERSION "0.5.0"
#define CDI_KIND "xroce/rdma"

/* CDI permits letters, digits and "_-.:" in names, with letters or digits at both ends. */
static bool name_is_valid(const char *name)
{
	size_t n = strlen(name);

	return n && isalnum((unsigned char)name[0]) && isalnum((unsigned char)name[n - 1]) &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:") ==
		       n;
}

/* A mount that can be bound only, so that a daemon may remove and create its socket later. */
static json_t *mount_of(const char *host, const char *container)
{
	return json_pack("{s:s,s:s,s:[s,s,s,s]}", "hostPath", host, "containerPath", container,
			 "options", "ro", "nosuid", "nodev", "rbind");
}

/* The edits for every container that gets at least one device */
static json_t *common_edits(const struct cli *cli, const char *library)
{
	char *folder = strndup(library, (size_t)(strrchr(library, '/') - library));
	json_t *edits = NULL;
	char *sockets = realpath(cli->runtime_dir, NULL);

	if (folder && sockets)
		edits = json_pack("{s:[s,s],s:[o,o]}", "env",
				  "LD_PRELOAD=" CLI_CONTAINER_LIBRARIES "/" CLI_LIBRARY,
				  CLI_RUNTIME_DIR_ENV "=" XR_RUNTIME_DIR, "mounts",
				  mount_of(folder, CLI_CONTAINER_LIBRARIES),
				  mount_of(sockets, XR_RUNTIME_DIR));
	free(sockets);
	free(folder);
	return edits;
}

/* names: the devices that programs in the container see, separated by commas */
static json_t *device(const char *name, const char *names)
{
	return json_pack("{s:s,s:{s:[s++]}}", "name", name, "containerEdits", "env",
			 CLI_DEVICES_ENV, "=", names);
}

/* Returns the array of devices: each one, and `all`; NULL: no memory. */
static json_t *devices(char **names)
{
	json_t *list = json_array();
	size_t size = 1;
	char *all, **p;

	for (p = names; *p; p++)
		size += strlen(*p) + 1;
	all = calloc(1, size);
	for (p = names; all && *p; p++) {
		json_array_append_new(list, device(*p, *p));
		strcat(strcat(all, p == names ? "" : ","), *p);
	}
	if (all)
		json_array_append_new(list, device("all", all));
	free(all);
	return list;
}

static int print_spec(const struct cli *cli, const char *library, char **names)
{
	json_t *spec = json_pack("{s:s,s:s,s:o,s:o}", "cdiVersion", CDI_VERSION, "kind", CDI_KIND,
				 "devices", devices(names), "containerEdits",
				 common_edits(cli, library));
	char *text = spec ? json_dumps(spec, JSON_INDENT(2)) : NULL;

	json_decref(spec);
	if (!text)
		return cli_error("out of memory");
	puts(text);
	free(text);
	return CLI_OK;
}

int cli_cdi(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv), status = CLI_OK;
	char library[PATH_MAX], **names, **p;

	if (first < 0)
		return -first - 1;
	if (first < argc)
		return cli_usage(cli, "unexpected argument '%s'", argv[first]);
	if (!cli_find_library(library))
		return cli_error("cannot find " CLI_LIBRARY
				 ": neither next to this command nor installed");
	names = cli_devices(cli);
	if (!names)
		return CLI_FAILED;
	if (!*names)
		status = cli_error("no device: there is no socket in %s", cli->runtime_dir);
	for (p = names; *p && status == CLI_OK; p++)
		if (!name_is_valid(*p) || !strcmp(*p, "all"))
			status = cli_error("CDI does not permit the device name '%s'", *p);
	if (status == CLI_OK)
		status = print_spec(cli, library, names);
	xp_sockets_free(names);
	return status;
}
