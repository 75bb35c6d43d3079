// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The command `rdma`, which `xroce run` puts before that of iproute2 in PATH. The real command gets
 * devices from the kernel by netlink, so it lists no xroce devices. `dev show`, `link show` and
 * `resource show` print the kernel's devices, as the real command does, and then those of xroce, in
 * the same format. For all other arguments the real command is executed.
 */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xroce/guid.h>
#include <xroce/show.h>

#include "cli.h"
#include "provider/control/visible.h"

extern char **environ;

enum { RDMA_NOT_FOUND = 127 }; /* exit status, like that of a shell */

struct rdma {
	struct cli cli;
	char **argv; /* of the real command */
	bool pretty, details;
	const char *device; /* NULL: all */
	json_t *filters;    /* names and values that rows must have */
	json_t *rows;
	int status;
};

/* ---- the real command ---------------------------------------------------------- */

/*
 * Finds the next `rdma` in PATH that is not this program. If it is another copy of this program, it
 * must not show the devices again.
 */
static bool find_real(char path[PATH_MAX])
{
	char self[PATH_MAX] = "", found[PATH_MAX];
	const char *dir = getenv("PATH");
	int n;

	if (!realpath("/proc/self/exe", self) || !dir)
		return false;
	setenv(CLI_DEVICES_ENV, "", 1);
	for (;; dir += n + 1) {
		n = (int)strcspn(dir, ":");
		snprintf(path, PATH_MAX, "%.*s/rdma", n, dir);
		if (n && realpath(path, found) && strcmp(found, self) && !access(path, X_OK))
			return true;
		if (!dir[n])
			return false;
	}
}

static int run_real(struct rdma *r)
{
	char path[PATH_MAX];

	if (!find_real(path))
		return cli_error("rdma %s: only the command of iproute2 can do that, and it is not "
				 "in PATH",
				 r->argv[1] ? r->argv[1] : "") +
		       RDMA_NOT_FOUND - CLI_FAILED;
	execv(path, r->argv);
	return cli_error("%s: %m", path);
}

/* Returns what the real command prints, to be freed, or NULL if it fails. */
static char *output_of_real(struct rdma *r)
{
	posix_spawn_file_actions_t actions;
	char path[PATH_MAX], *text = NULL;
	int out[2], status = -1, err;
	size_t size = 0;
	pid_t pid;
	FILE *f;

	if (!find_real(path) || pipe(out))
		return NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, out[0]);
	posix_spawn_file_actions_addclose(&actions, out[1]);
	/* A kernel without RDMA is no error here. */
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	err = posix_spawn(&pid, path, &actions, NULL, r->argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	f = fdopen(out[0], "r");
	if (f && getdelim(&text, &size, 0, f) < 0 && text)
		*text = 0;
	if (f)
		fclose(f);
	else
		close(out[0]);
	if (!err)
		waitpid(pid, &status, 0);
	if (err || !WIFEXITED(status) || WEXITSTATUS(status)) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- rows ---------------------------------------------------------------------- */

/* Returns a value as the text by which filters name it; valid until the next call. */
static const char *value_text(const json_t *v)
{
	static char number[24];

	if (json_is_string(v))
		return json_string_value(v);
	snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	return number;
}

/* Takes the row over. */
static void rdma_add_row(struct rdma *r, json_t *row)
{
	const char *name;
	json_t *value;

	json_object_foreach(r->filters, name, value)
	{
		if (strcmp(value_text(json_object_get(row, name)), json_string_value(value))) {
			json_decref(row);
			return;
		}
	}
	json_array_append_new(r->rows, row);
}

static json_t *new_row(const struct cli_client *c, bool port)
{
	json_t *row = json_pack("{s:I}", "ifindex", (json_int_t)c->hello.index);

	json_object_set_new(row, "ifname", json_string(c->hello.device));
	if (port)
		json_object_set_new(row, "port", json_integer(1));
	return row;
}

static int rdma_query(struct cli_client *c, uint32_t type, void *rep, size_t size)
{
	struct xp_call call = { .type = type, .rep = rep, .rep_len = size };

	return cli_client_call(c, &call);
}

static const char *const dev_caps[64] = {
	[1] = "BAD_PKEY_CNTR",	     [2] = "BAD_QKEY_CNTR",	  [7] = "CURR_QP_STATE_MOD",
	[10] = "PORT_ACTIVE_EVENT",  [11] = "SYS_IMAGE_GUID",	  [12] = "RC_RNR_NAK_GEN",
	[13] = "SRQ_RESIZE",	     [17] = "MEM_WINDOW",	  [20] = "XRC",
	[21] = "MEM_MGT_EXTENSIONS", [24] = "MEM_WINDOW_TYPE_2B",
};

static int show_dev(struct rdma *r, struct cli_client *c, const char *unused)
{
	struct xr_query_device_rep rep;
	int err = rdma_query(c, XR_MSG_QUERY_DEVICE, &rep, sizeof(rep));
	json_t *row, *caps;
	char guid[XR_GUID_TEXT];
	int i;

	if (err)
		return err;
	xr_guid_text(c->hello.guid, guid);
	rep.fw_ver[sizeof(rep.fw_ver) - 1] = 0;
	row = new_row(c, false);
	json_object_set_new(row, "node_type", json_string("ca"));
	json_object_set_new(row, "protocol", json_string("roce"));
	json_object_set_new(row, "fw", json_string(rep.fw_ver));
	json_object_set_new(row, "node_guid", json_string(guid));
	json_object_set_new(row, "sys_image_guid", json_string(guid));
	if (r->details) {
		caps = json_array();
		for (i = 0; i < 64; i++) {
			if (rep.device_cap_flags >> i & 1)
				json_array_append_new(
					caps, json_string(dev_caps[i] ? dev_caps[i] : "UNKNOWN"));
		}
		json_object_set_new(row, "caps", caps);
	}
	rdma_add_row(r, row);
	return 0;
}

static int show_link(struct rdma *r, struct cli_client *c, const char *unused)
{
	static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };
	struct xr_query_port_rep rep;
	int err = rdma_query(c, XR_MSG_QUERY_PORT, &rep, sizeof(rep));
	json_t *row;

	if (err)
		return err;
	row = new_row(c, true);
	json_object_set_new(row, "state",
			    json_string(rep.state < 5 ? states[rep.state] : "UNKNOWN"));
	json_object_set_new(row, "physical_state",
			    json_string(rep.phys_state == 5 ? "LINK_UP" : "DISABLED"));
	json_object_set_new(row, "netdev", json_string(c->hello.netdev));
	if (r->cli.json || r->details)
		json_object_set_new(row, "netdev_index", json_integer(rep.netdev_ifindex));
	rdma_add_row(r, row);
	return 0;
}

/* Gets a list or an object of a daemon (docs/show.md). */
static int rdma_fetch(struct cli_client *c, uint32_t what, const struct cli_selection *selection,
		      json_t **reply)
{
	char *text = NULL;
	int err = cli_client_show(c, what, selection, &text);

	*reply = err ? NULL : cli_parse(text);
	free(text);
	return err ? err : *reply ? 0 : -EPROTO;
}

/* Counts the rows of a list that only operators may see. This command is not counted. */
static void add_count(json_t *row, const char *name, struct cli_client *c, uint32_t what)
{
	json_t *list, *one;
	json_int_t n = 0;
	size_t i;

	if (rdma_fetch(c, what, NULL, &list))
		return;
	json_array_foreach(list, i, one) n += !json_is_true(json_object_get(one, "observer"));
	json_object_set_new(row, name, json_integer(n));
	json_decref(list);
}

static int show_summary(struct rdma *r, struct cli_client *c, const char *unused)
{
	json_t *status, *objects, *row;
	int err = rdma_fetch(c, XR_SHOW_STATUS, NULL, &status);

	if (err)
		return err;
	objects = json_object_get(status, "objects");
	row = new_row(c, false);
	json_object_set(row, "pd", json_object_get(objects, "pds"));
	json_object_set(row, "cq", json_object_get(objects, "cqs"));
	json_object_set(row, "qp", json_object_get(objects, "qps"));
	add_count(row, "cm_id", c, XR_SHOW_CM_IDS);
	json_object_set(row, "mr", json_object_get(objects, "mrs"));
	add_count(row, "ctx", c, XR_SHOW_CLIENTS);
	json_object_set(row, "srq", json_object_get(objects, "srqs"));
	rdma_add_row(r, row);
	json_decref(status);
	return 0;
}

/* A kind of resource: the list of the daemon, and the names in it, in pairs of theirs and ours */
static const struct kind {
	const char *name;
	uint32_t what;
	bool port;
	const char *fields[12];
} kinds[] = {
	{ "qp",
	  XR_SHOW_QPS,
	  true,
	  { "lqpn", "qpn", "rqpn", "dest_qpn", "type", "type", "state", "state" } },
	{ "cm_id",
	  XR_SHOW_CM_IDS,
	  true,
	  { "lqpn", "qpn", "state", "state", "ps", "port_space", "src-addr", "address", "dst-addr",
	    "peer" } },
	{ "cq", XR_SHOW_CQS, false, { "cqn", "cq", "cqe", "depth" } },
	{ "mr", XR_SHOW_MRS, false, { "mrn", "lkey", "mrlen", "length", "pdn", "pd" } },
	{ "srq", XR_SHOW_SRQS, false, { "srqn", "srq", "type", "type", "pdn", "pd", "cqn", "cq" } },
	{ "ctx", XR_SHOW_CLIENTS, false, { "ctxn", "client" } },
};

/* The value in the format of iproute2: kinds and states of cm_ids in upper case */
static json_t *convert(const struct kind *k, const json_t *v)
{
	char text[64];
	size_t i;

	if (!json_is_string(v) || (k->what != XR_SHOW_CM_IDS && k->what != XR_SHOW_SRQS))
		return json_incref((json_t *)v);
	snprintf(text, sizeof(text), "%s", json_string_value(v));
	for (i = 0; text[i]; i++)
		text[i] = (char)toupper((unsigned char)text[i]);
	return json_string(text);
}

/* Returns our name of a field of theirs; NULL: none */
static const char *our_name(const struct kind *k, const char *name)
{
	for (const char *const *f = k->fields; f < k->fields + 12 && *f; f += 2)
		if (!strcmp(f[0], name))
			return f[1];
	return !strcmp(name, "pid") || !strcmp(name, "comm") ? name : NULL;
}

/* The daemon sends the rows that can pass the filters: rdma_add_row() compares exactly. */
static void select_rows(const struct rdma *r, const struct kind *k, struct cli_selection *s)
{
	const struct xr_list *list = xr_list_of(k->what);
	const char *name, *ours, *value;
	enum xr_member_type type;
	json_t *v;
	size_t n;

	json_object_foreach(r->filters, name, v)
	{
		ours = our_name(k, name);
		value = json_string_value(v);
		if (ours && xr_find_member(list->names, ours, strlen(ours), &type) &&
		    !xr_wrong_word(type, value, &n))
			cli_select(s, ours, value);
	}
}

static int show_kind(struct rdma *r, struct cli_client *c, const char *name)
{
	struct cli_selection selection = { .length = 0 };
	json_t *objects, *one, *row;
	const struct kind *k = kinds;
	const char *const *f;
	size_t i;
	int err;

	while (strcmp(k->name, name))
		k++;
	select_rows(r, k, &selection);
	err = rdma_fetch(c, k->what, &selection, &objects);
	if (err)
		return err;
	json_array_foreach(objects, i, one)
	{
		/* This command is a client itself. */
		if (json_is_true(json_object_get(one, "observer")))
			continue;
		row = new_row(c, k->port);
		for (f = k->fields; f < k->fields + 12 && *f; f += 2)
			json_object_set_new(row, f[0], convert(k, json_object_get(one, f[1])));
		json_object_set(row, "pid", json_object_get(one, "pid"));
		json_object_set(row, "comm", json_object_get(one, "comm"));
		rdma_add_row(r, row);
	}
	json_decref(objects);
	return 0;
}

/* ---- output -------------------------------------------------------------------- */

static void print_caps(const json_t *caps)
{
	const json_t *one;
	size_t i;

	printf("\n    caps: <");
	json_array_foreach((json_t *)caps, i, one)
		printf("%s%s", i ? ", " : "", json_string_value(one));
	putchar('>');
}

/* index: begin the line with the index of the device, as `dev` and the summary do */
static void rdma_print_row(json_t *row, bool index)
{
	const char *device = json_string_value(json_object_get(row, "ifname")), *name;
	json_t *value;

	if (index)
		printf("%" JSON_INTEGER_FORMAT ": %s: ",
		       json_integer_value(json_object_get(row, "ifindex")), device);
	else if (json_object_get(row, "port"))
		printf("link %s/1 ", device);
	else
		printf("dev %s ", device);
	json_object_foreach(row, name, value)
	{
		if (!strcmp(name, "ifindex") || !strcmp(name, "port") || !strcmp(name, "ifname"))
			continue;
		if (json_is_array(value)) {
			print_caps(value);
			continue;
		}
		printf("%s ", name);
		cli_print_field(value_text(value));
		putchar(' ');
	}
	putchar('\n');
}

static void print_all(struct rdma *r, bool index)
{
	char *text = r->device || xp_hides_kernel() ? NULL : output_of_real(r);
	json_t *all = r->cli.json && text ? cli_parse(text) : NULL, *row;
	size_t i;

	if (r->cli.json) {
		if (!json_is_array(all)) {
			json_decref(all);
			all = json_array();
		}
		json_array_extend(all, r->rows);
		json_dumpf(all, stdout, r->pretty ? JSON_INDENT(4) : JSON_COMPACT);
		putchar('\n');
		json_decref(all);
	} else {
		if (text)
			fputs(text, stdout);
		json_array_foreach(r->rows, i, row) rdma_print_row(row, index);
	}
	free(text);
}

/* ---- devices ------------------------------------------------------------------- */

typedef int show(struct rdma *r, struct cli_client *c, const char *kind);

/* Calls fn for each device, or the one asked for. Returns the number of devices. */
static unsigned int each_device(struct rdma *r, show *fn, const char *kind)
{
	char **names = xp_sockets_list(r->cli.runtime_dir), **p;
	struct cli_client c;
	unsigned int n = 0;
	int err;

	for (p = names; p && *p; p++) {
		if (!xp_device_is_visible(*p) || (r->device && strcmp(r->device, *p)))
			continue;
		/* A daemon that is gone or denies access has no device for this user. */
		if (!cli_client_open(&c, &r->cli, *p)) {
			n++;
			err = fn ? fn(r, &c, kind) : 0;
			if (err)
				r->status = cli_client_explain(&c, "rdma resource show", err);
		}
		cli_client_close(&c);
	}
	xp_sockets_free(names);
	return n;
}

/* Stores DEV of "DEV" or "DEV/1". Returns false if that is no link of ours. */
static bool take_device(struct rdma *r, char *arg)
{
	char *slash = strchr(arg, '/');

	if (slash && strcmp(slash, "/1"))
		return false;
	if (slash)
		*slash = 0;
	r->device = arg;
	return true;
}

/* Parses [link DEV/PORT | dev DEV] [NAME VALUE]... of `resource show KIND`. */
static bool take_filters(struct rdma *r, int argc, char **argv)
{
	for (; argc >= 2; argc -= 2, argv += 2) {
		if (!strcmp(argv[0], "link") || !strcmp(argv[0], "dev")) {
			if (!take_device(r, argv[1]))
				return false;
		} else {
			json_object_set_new(r->filters, argv[0], json_string(argv[1]));
		}
	}
	return !argc;
}

static bool is_command(const char *arg, const char *name)
{
	return *arg && !strncmp(arg, name, strlen(arg));
}

/* Finds what shows the arguments: OBJECT [show] ... Returns NULL if the real command has to. */
static show *rdma_choose(struct rdma *r, int argc, char **argv, const char **kind)
{
	show *fn;
	size_t i;

	if (!argc)
		return NULL;
	fn = is_command(argv[0], "dev")	       ? show_dev
	     : is_command(argv[0], "link")     ? show_link
	     : is_command(argv[0], "resource") ? show_summary
					       : NULL;
	argc--, argv++;
	if (fn && argc) {
		if (!is_command(argv[0], "show") && !is_command(argv[0], "list"))
			return NULL;
		argc--, argv++;
	}
	if (!fn || !argc)
		return fn;
	for (i = 0; fn == show_summary && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(argv[0], kinds[i].name)) {
			*kind = kinds[i].name;
			return take_filters(r, argc - 1, argv + 1) ? show_kind : NULL;
		}
	}
	return argc == 1 && take_device(r, argv[0]) ? fn : NULL;
}

/* Returns the index of the first argument, or -1 for options of the real command only. */
static int rdma_parse(struct rdma *r, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "details", no_argument, NULL, 'd' },
		{ "raw", no_argument, NULL, 'r' },
		{ 0 },
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "jpdr", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			r->cli.json = true;
			break;
		case 'p':
			r->pretty = true;
			break;
		case 'd':
			r->details = true;
			break;
		case 'r':
			break;
		default:
			return -1;
		}
	}
	return optind;
}

int cli_rdma(const struct cli *cli, int argc, char **argv)
{
	struct rdma r = { .cli = *cli, .filters = json_object(), .rows = json_array() };
	char **copy = calloc((size_t)argc + 1, sizeof(*copy));
	const char *kind = NULL;
	show *fn = NULL;
	int first, i;
	bool found;

	r.argv = calloc((size_t)argc + 1, sizeof(*copy));
	/* Parsing reorders and changes the arguments. */
	for (i = 0; copy && r.argv && i < argc; i++) {
		r.argv[i] = argv[i];
		copy[i] = strdup(argv[i]);
	}
	if (!i || !copy[argc - 1])
		return cli_error("out of memory");
	first = rdma_parse(&r, argc, copy);
	if (first >= 0)
		fn = rdma_choose(&r, argc - first, copy + first, &kind);
	found = fn && each_device(&r, NULL, NULL);
	if (fn && !found && r.device && xp_hides_kernel())
		return cli_error("no xroce device '%s', and XROCE_HIDE hides others", r.device);
	/* Without devices of ours, or for another one, there is nothing to add. */
	if (!fn || (!found && !xp_hides_kernel()))
		return run_real(&r);
	each_device(&r, fn, kind);
	print_all(&r, fn == show_dev || fn == show_summary);
	return r.status;
}
