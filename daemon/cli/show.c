// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* list, and the commands that print one reply of a daemon */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xroce/guid.h>
#include <xroce/show.h>

#include "cli.h"

/* ---- list ------------------------------------------------------------------------- */

static json_t *show_describe(const struct cli *cli, const char *name)
{
	struct cli_client c;
	int err = cli_client_open(&c, cli, name);
	char guid[XR_GUID_TEXT];
	json_t *row;

	if (err) {
		row = json_pack("{s:s,s:n,s:n,s:n,s:s}", "device", name, "interface", "guid",
				"workers", "state", strerror(-err));
	} else {
		xr_guid_text(c.hello.guid, guid);
		row = json_pack("{s:s,s:s,s:s,s:i,s:s}", "device", c.hello.device, "interface",
				c.hello.netdev, "guid", guid, "workers", (int)c.hello.workers,
				"state", "running");
	}
	cli_client_close(&c);
	return row;
}

int cli_list(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv);
	char **names, **p;
	json_t *list;

	if (first < 0)
		return -first - 1;
	if (first < argc)
		return cli_usage(cli, "unexpected argument '%s'", argv[first]);
	names = cli_devices(cli);
	if (!names)
		return CLI_FAILED;
	list = json_array();
	for (p = names; *p; p++)
		json_array_append_new(list, show_describe(cli, *p));
	xp_sockets_free(names);
	cli_print_reply(cli, list);
	cli_end_json(cli);
	json_decref(list);
	return CLI_OK;
}

/* ---- SHOW -------------------------------------------------------------------------- */

static uint32_t what_of(const struct cli *cli)
{
	const struct xr_list *list = cli->detail ? xr_list_of(cli->command->what) : NULL;

	return list && list->details_what ? list->details_what : cli->command->what;
}

static int show_fetch(const struct cli *cli, const char *device, char **text)
{
	struct cli_selection selection = { .length = 0 };
	struct cli_client c;
	int err = cli_client_open(&c, cli, device);

	cli_select_filters(cli, &selection);
	if (!err)
		err = cli_client_show(&c, what_of(cli), &selection, text);
	cli_client_close(&c);
	return cli_client_explain(&c, cli->command->name, err);
}

/* Returns false if the text is not JSON. */
static bool print_text(const struct cli *cli, const char *text)
{
	if (!cli->json)
		return cli_print(text, cli->command->what == XR_SHOW_COUNTERS && !cli->all);
	fputs(text, stdout); /* main() reports an error of standard output */
	return true;
}

/* Replies that need no change are printed as they are: they may have millions of rows. */
static int print_reply(const struct cli *cli, const char *device, const char *text)
{
	bool changed = cli->filters || cli->state || (cli->json ? cli->pretty : cli->detail);
	json_t *root = changed ? cli_parse(text) : NULL;
	int status = CLI_OK;
	bool ok = changed ? root != NULL : print_text(cli, text);

	if (root && cli->state)
		cli_in_state(root, cli->state);
	if (root && cli->filters)
		status = cli_filter(cli, root);
	if (root && status == CLI_OK)
		cli_print_reply(cli, root);
	json_decref(root);
	return ok ? status : cli_error("%s: the reply of the daemon is not JSON", device);
}

static int show_one(const struct cli *cli, const char *device)
{
	char *text = NULL;
	int status = show_fetch(cli, device, &text);

	if (status == CLI_OK)
		status = print_reply(cli, device, text);
	if (status == CLI_OK)
		cli_end_json(cli);
	free(text);
	return status;
}

/* Prints the heading of a device's reply if there are several devices. */
static void show_print_name(const struct cli *cli, const char *device, bool first)
{
	if (cli->json) {
		json_t *name = json_string(device);

		fputs(first ? "" : ", ", stdout);
		json_dumpf(name, stdout, JSON_ENCODE_ANY);
		json_decref(name);
	} else {
		fputs(first ? "" : "\n", stdout);
		cli_print_field(device);
	}
	fputs(cli->json ? ": " : ":\n", stdout);
}

/* JSON is always an object with a member for each device, even if there is only one. */
static int show_all(const struct cli *cli)
{
	char **names = cli_devices(cli), **p, *text;
	int status = CLI_OK, one;
	bool any = false;

	if (!names)
		return CLI_FAILED;
	if (cli->json)
		fputs("{", stdout);
	for (p = names; *p; p++) {
		text = NULL;
		one = show_fetch(cli, *p, &text);
		if (one == CLI_OK) {
			if (cli->json || (names[1] && strcmp(text, "[]")))
				show_print_name(cli, *p, !any);
			any = true;
			one = print_reply(cli, *p, text);
		}
		if (one != CLI_OK)
			status = one;
		free(text);
	}
	if (cli->json)
		puts("}");
	else if (!*names)
		status = cli_error("no device: there is no socket in %s", cli->runtime_dir);
	xp_sockets_free(names);
	return status;
}

static bool has_rows(uint32_t what)
{
	return xr_list_of(what);
}

/* Returns true if DEV precedes the filters. They are pairs, so then there is an odd number. */
static bool begins_with_device(const struct cli *cli, int argc, const char *word)
{
	char path[XP_SOCKET_PATH_MAX];
	bool device = !xp_socket_path(path, cli->runtime_dir, word) && !access(path, F_OK);
	bool member = !strcmp(word, "sort") || json_object_get(cli_template(cli), word);

	return device == member ? argc % 2 : device;
}

/* "dev" and "help" are keywords as in ip(8). */
int cli_take_filters(struct cli *cli, int argc, char **argv, char **device)
{
	*device = NULL;
	if (argc > 1 && !strcmp(argv[0], "dev")) {
		*device = argv[1];
		argc -= 2;
		argv += 2;
	} else if (argc && begins_with_device(cli, argc, argv[0])) {
		*device = argv[0];
		argc--;
		argv++;
	}
	if (argc % 2)
		return cli_usage(cli, "'%s' has no value", argv[argc - 1]);
	/* The member has the name of /proc/PID/comm. */
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], "command") && (i % 2 == 0 || !strcmp(argv[i - 1], "sort")))
			argv[i] = "comm";
	cli->filter = argv;
	cli->filters = argc;
	return CLI_OK;
}

int cli_show(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv), status;
	char *device;

	if (first < 0)
		return -first - 1;
	if (argc - first == 2 && !has_rows(cli->command->what))
		return cli_usage(cli, "unexpected argument '%s'", argv[first + 1]);
	status = cli_take_filters(cli, argc - first, argv + first, &device);
	if (status != CLI_OK)
		return status;
	if (cli->filters && !has_rows(cli->command->what))
		return cli_usage(cli, "unexpected argument '%s'", cli->filter[0]);
	status = cli->state ? cli_check_state(cli) : CLI_OK;
	if (status == CLI_OK)
		status = cli_check_filters(cli);
	if (status != CLI_OK)
		return status;
	return device ? show_one(cli, device) : show_all(cli);
}
