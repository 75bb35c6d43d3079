// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Command line, configuration file and --help are driven by one table. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xroce/bits.h>
#include <xroce/control.h>
#include <xroce/ring.h>

#include "log.h"

enum options_kind { TEXT, NUMBER, SIZE, POWER2, IO, BIND, VERDICT, ATTACH, GSO, LEVEL };

struct option_row {
	const char *name, *arg, *text;
	enum options_kind kind;
	size_t offset;
	uint64_t min, max; /* TEXT: limits of the length; max includes the terminating zero */
};

#define AT(field) offsetof(struct xd_options, field)
#define ROOM(field) sizeof(((struct xd_options *)0)->field)

static const struct option_row rows[] = {
	{ "interface", "IF", "network interface to serve (required)", TEXT, AT(interface), 1,
	  ROOM(interface) },
	{ "name", "DEV", "name of the ibverbs device (xr_<interface>)", TEXT, AT(name), 1,
	  ROOM(name) },
	{ "config", "FILE", "configuration file (" XD_CONFIG_DIR "/<interface>.conf)", TEXT,
	  AT(config), 1, ROOM(config) },
	{ "runtime-dir", "DIR", "directory of the control socket (" XR_RUNTIME_DIR ")", TEXT,
	  AT(runtime_dir), 1, ROOM(runtime_dir) },
	{ "bpffs", "DIR", "BPF file system for pinned maps (/sys/fs/bpf)", TEXT, AT(bpffs), 1,
	  ROOM(bpffs) },
	{ "user", "USER", "user that the daemon becomes if root starts it (xroce, if it exists)",
	  TEXT, AT(user), 0, ROOM(user) },
	{ "group", "GROUP", "group that may connect besides root (rdma, if it exists)", TEXT,
	  AT(group), 0, ROOM(group) },
	{ "reserved-lkey-group", "GROUP",
	  "group that may use the reserved L_Key besides root (none)", TEXT,
	  AT(reserved_lkey_group), 0, ROOM(reserved_lkey_group) },
	{ "direct-users", "USERS",
	  "users that may borrow sockets besides root, separated by commas (none)", TEXT,
	  AT(direct_users), 0, ROOM(direct_users) },
	{ "io", "WAY", "way of packets: auto, xdp or socket (auto)", IO, AT(io), 0, 0 },
	{ "bind", "MODE", "what UDP sockets belong to: auto, interface or address (auto)", BIND,
	  AT(bind), 0, 0 },
	{ "workers", "N", "threads that process packets, 0: by processors (0)", NUMBER, AT(workers),
	  0, 64 },
	{ "slots", "N", "programs that may borrow sockets, with --io socket, 0: none (64)", NUMBER,
	  AT(slots), 0, 64 },
	{ "ring-slots", "N", "of these, for other users by a restricted io_uring, 0: none (32)",
	  NUMBER, AT(ring_slots), 0, 64 },
	{ "direct-verdict", "MODE",
	  "who checks packets of direct programs first: auto, bpf or program (auto)", VERDICT,
	  AT(direct_verdict), 0, 0 },
	{ "exit-idle", "SECONDS", "end after that time without programs, 0: never (0)", NUMBER,
	  AT(exit_idle), 0, 31536000 },
	{ "attach", "MODE", "auto, zerocopy, native or generic (auto)", ATTACH, AT(attach), 0, 0 },
	{ "gso", "MODE", "send and receive GSO frames: auto or off (auto)", GSO, AT(gso), 0, 0 },
	{ "dispatcher", "PRIORITY", "attach behind the dispatcher of libxdp, 0: without (0)",
	  NUMBER, AT(dispatcher), 0, 10000 },
	{ "queues", "N", "RX queues to serve, 0: all (0)", NUMBER, AT(queues), 0, XR_MAX_WORKERS },
	{ "ring-size", "N", "frames of each AF_XDP receive ring (4096)", POWER2, AT(ring_size), 64,
	  32768 },
	{ "uc-rate", "N", "Mbit/s that UC QPs of a worker send together, 0: no limit (10000)",
	  NUMBER, AT(uc_rate), 0, 400000 },
	{ "spin-us", "N", "longest spin before a worker sleeps, 0: none (50)", NUMBER, AT(spin_us),
	  0, 1000000 },
	{ "max-clients", "N", "connections (1024)", NUMBER, AT(max_clients), 1, 65536 },
	{ "max-qp", "N", "queue pairs of the device (65536)", NUMBER, AT(max_qp), 1, 262144 },
	{ "max-cq", "N", "completion queues of the device (65536)", NUMBER, AT(max_cq), 1,
	  1048576 },
	{ "max-mr", "N", "memory regions of the device (1048576)", NUMBER, AT(max_mr), 1, 8388608 },
	{ "max-pd", "N", "protection domains of the device (65536)", NUMBER, AT(max_pd), 1,
	  1048576 },
	{ "max-ah", "N", "address handles of the device (65536)", NUMBER, AT(max_ah), 1, 1048576 },
	{ "max-srq", "N", "shared receive queues of the device (65536)", NUMBER, AT(max_srq), 1,
	  1048576 },
	{ "client-max-qp", "N", "queue pairs of one client (65536)", NUMBER, AT(client_max_qp), 1,
	  XR_DB_SLOTS },
	{ "client-max-cq", "N", "completion queues of one client (65536)", NUMBER,
	  AT(client_max_cq), 1, 1048576 },
	{ "client-max-mr", "N", "memory regions of one client (1048576)", NUMBER, AT(client_max_mr),
	  1, 8388608 },
	{ "client-max-pd", "N", "protection domains of one client (65536)", NUMBER,
	  AT(client_max_pd), 1, 1048576 },
	{ "client-max-ah", "N", "address handles of one client (65536)", NUMBER, AT(client_max_ah),
	  1, 1048576 },
	{ "client-max-srq", "N", "shared receive queues of one client (65536)", NUMBER,
	  AT(client_max_srq), 1, 1048576 },
	{ "max-cm-id", "N", "rdma_cm ids of the device (65536)", NUMBER, AT(max_cm_id), 1,
	  1048576 },
	{ "client-max-cm-id", "N", "rdma_cm ids of one channel (65536)", NUMBER,
	  AT(client_max_cm_id), 1, 1048576 },
	{ "max-cm-channels", "N", "event channels of rdma_cm (8192)", NUMBER, AT(max_cm_channels),
	  1, 262144 },
	{ "cm-backlog", "N", "connection requests that wait at one listener (1024)", NUMBER,
	  AT(cm_backlog), 1, 65536 },
	{ "cm-half-open", "N", "connection requests that programs have not accepted (16384)",
	  NUMBER, AT(cm_half_open), 1, 1048576 },
	{ "cm-peer-half-open", "N", "the same for each peer (4096)", NUMBER, AT(cm_peer_half_open),
	  1, 1048576 },
	{ "client-max-load", "PERCENT",
	  "processor time for requests of one client (an eighth of the machine's, 25 to 100)",
	  NUMBER, AT(client_max_load), 1, 10000 },
	{ "client-max-dm", "BYTES", "device memory of one client (64M)", SIZE, AT(client_max_dm), 0,
	  UINT32_MAX },
	{ "user-max-clients", "N", "connections of one user (half of --max-clients)", NUMBER,
	  AT(user_max_clients), 1, 65536 },
	{ "user-max-qp", "N", "queue pairs of one user (half of --max-qp, likewise below)", NUMBER,
	  AT(user_max_qp), 1, 262144 },
	{ "user-max-cq", "N", "completion queues of one user", NUMBER, AT(user_max_cq), 1,
	  1048576 },
	{ "user-max-mr", "N", "memory regions of one user", NUMBER, AT(user_max_mr), 1, 8388608 },
	{ "user-max-pd", "N", "protection domains of one user", NUMBER, AT(user_max_pd), 1,
	  1048576 },
	{ "user-max-ah", "N", "address handles of one user", NUMBER, AT(user_max_ah), 1, 1048576 },
	{ "user-max-srq", "N", "shared receive queues of one user", NUMBER, AT(user_max_srq), 1,
	  1048576 },
	{ "user-max-cm-id", "N", "rdma_cm ids of one user", NUMBER, AT(user_max_cm_id), 1,
	  1048576 },
	{ "user-max-cm-channels", "N", "event channels of one user", NUMBER,
	  AT(user_max_cm_channels), 1, 262144 },
	{ "user-max-files", "N", "file descriptors held for one user (a quarter of LimitNOFILE)",
	  NUMBER, AT(user_max_files), 1, INT32_MAX },
	{ "user-max-processes", "N",
	  "processes that serve programs of one user (twice --user-max-clients)", NUMBER,
	  AT(user_max_processes), 1, 1048576 },
	{ "user-max-memory", "BYTES", "memory of xroced for one user (a quarter of RAM)", SIZE,
	  AT(user_max_memory), 0, UINT64_MAX },
	{ "user-max-pinned", "BYTES", "memory that one user may register; K, M, G, T (half of RAM)",
	  SIZE, AT(user_max_pinned), 0, UINT64_MAX },
	{ "nak-rate", "N", "packets per second and CPU that may require a NAK (10000)", NUMBER,
	  AT(nak_rate), 1, 100000000 },
	{ "fault", "RULES", "rules of fault injection, separated by ';'", TEXT, AT(fault), 0,
	  ROOM(fault) },
	{ "log-level", "LEVEL", "error, warning, notice, info or debug (info)", LEVEL,
	  AT(log_level), 0, 0 },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct word {
	const char *name;
	int value;
};
static const struct word io_words[] = {
	{ "auto", XD_IO_AUTO }, { "xdp", XD_IO_XDP }, { "socket", XD_IO_SOCKET }, { NULL, 0 }
};
static const struct word bind_words[] = { { "auto", XD_BIND_AUTO },
					  { "interface", XD_BIND_INTERFACE },
					  { "address", XD_BIND_ADDRESS },
					  { NULL, 0 } };
static const struct word verdict_words[] = { { "auto", XD_VERDICT_AUTO },
					     { "bpf", XD_VERDICT_BPF },
					     { "program", XD_VERDICT_PROGRAM },
					     { NULL, 0 } };
static const struct word attach_words[] = { { "auto", XD_ATTACH_AUTO },
					    { "zerocopy", XD_ATTACH_ZEROCOPY },
					    { "native", XD_ATTACH_NATIVE },
					    { "generic", XD_ATTACH_GENERIC },
					    { NULL, 0 } };
static const struct word gso_words[] = { { "off", XD_GSO_OFF },
					 { "auto", XD_GSO_AUTO },
					 { NULL, 0 } };
static const struct word level_words[] = { { "error", XD_ERR },	    { "warning", XD_WARN },
					   { "notice", XD_NOTICE }, { "info", XD_INFO },
					   { "debug", XD_DEBUG },   { NULL, 0 } };

/* Returns an eighth of all processors, at least a quarter of one and at most one, in per cent. */
static uint32_t default_load(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n <= 2 ? 25 : n >= 8 ? 100 : (uint32_t)n * 100 / 8;
}

/* Returns true if a user or group exists in this user namespace. map: its file below /proc */
static bool options_is_mapped(const char *map, uint32_t id)
{
	FILE *f = fopen(map, "re");
	unsigned int first, outside, count;
	bool found = !f; /* no /proc: errors are found later */

	while (!found && fscanf(f, "%u %u %u", &first, &outside, &count) == 3)
		found = id >= first && id - first < count;
	if (f)
		fclose(f);
	return found;
}

static bool can_become(const struct passwd *user)
{
	return user && !geteuid() && options_is_mapped("/proc/self/uid_map", user->pw_uid);
}

/* Root can give a file to any group, others to those of which they are members. */
static bool can_give_to(const struct group *group)
{
	gid_t own[256];
	bool member;
	int n;

	if (!group || !options_is_mapped("/proc/self/gid_map", group->gr_gid))
		return false;
	member = !geteuid() || getegid() == group->gr_gid;
	n = getgroups(sizeof(own) / sizeof(own[0]), own);
	for (int i = 0; i < n; i++)
		member |= own[i] == group->gr_gid;
	return member;
}

/* Returns true if this process can have the directory of daemons that root starts. */
static bool owns_system_dir(void)
{
	return !access(XR_RUNTIME_DIR, W_OK) ||
	       (access(XR_RUNTIME_DIR, F_OK) && !access("/run", W_OK));
}

/*
 * The directory of a user's own daemons, where programs of the user look, too:
 * provider/control/runtime_dir.h
 */
static void options_set_runtime_dir(struct xd_options *o)
{
	const char *session = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	o->private_dir = !owns_system_dir();
	if (!o->private_dir)
		snprintf(o->runtime_dir, sizeof(o->runtime_dir), XR_RUNTIME_DIR);
	else if (session && *session == '/' && !stat(session, &st) && st.st_uid == geteuid())
		snprintf(o->runtime_dir, sizeof(o->runtime_dir), "%s/xroce", session);
	else
		snprintf(o->runtime_dir, sizeof(o->runtime_dir), "/tmp/xroce-%u", geteuid());
}

static void options_set_defaults(struct xd_options *o)
{
	memset(o, 0, sizeof(*o));
	strcpy(o->bpffs, "/sys/fs/bpf");
	if (can_become(getpwnam("xroce")))
		strcpy(o->user, "xroce");
	if (can_give_to(getgrnam("rdma")))
		strcpy(o->group, "rdma");
	o->ring_size = 4096;
	o->uc_rate = 10000;
	o->slots = 64;
	o->ring_slots = 32;
	o->spin_us = 50;
	o->max_clients = 1024;
	o->max_qp = o->max_cq = o->max_pd = o->max_ah = o->max_srq = 65536;
	o->client_max_qp = o->client_max_cq = o->client_max_pd = o->client_max_ah = 65536;
	o->client_max_srq = 65536;
	o->max_cm_id = o->client_max_cm_id = 65536;
	o->max_cm_channels = 8192;
	o->cm_backlog = 1024;
	o->cm_half_open = 16384;
	o->cm_peer_half_open = 4096;
	o->max_mr = o->client_max_mr = 1048576;
	o->client_max_dm = 64 << 20;
	o->client_max_load = default_load();
	o->user_max_pinned = (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 *
			     (uint64_t)sysconf(_SC_PAGESIZE);
	o->user_max_memory = o->user_max_pinned / 2;
	o->nak_rate = 10000;
	o->log_level = XD_INFO;
}

/* ---- values: functions return NULL or the error as text ------------------------------- */

static const char *not_among(const struct word *words)
{
	static char text[64];
	size_t n = (size_t)snprintf(text, sizeof(text), "is not one of");

	for (; words->name && n < sizeof(text); words++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", words->name);
	return text;
}

static const char *set_word(int *at, const struct word *words, const char *value)
{
	const struct word *all = words;

	for (; words->name; words++)
		if (!strcmp(words->name, value)) {
			*at = words->value;
			return NULL;
		}
	return not_among(all);
}

static const char *options_parse_number(const char *value, bool suffix, uint64_t *n)
{
	static const char letters[] = "KMGT";
	const char *letter;
	char *end;

	if (!isdigit((unsigned char)value[0]))
		return "is not a number";
	errno = 0;
	*n = strtoull(value, &end, 0);
	if (errno)
		return "is too large";
	if (suffix && *end && (letter = strchr(letters, toupper((unsigned char)*end)))) {
		unsigned int shift = 10 * (unsigned int)(letter - letters + 1);

		if (*n > UINT64_MAX >> shift)
			return "is too large";
		*n <<= shift;
		end++;
	}
	return *end ? "is not a number" : NULL;
}

static const char *set_number(struct xd_options *o, const struct option_row *row, const char *value)
{
	static char range[64];
	uint64_t n;
	const char *wrong = options_parse_number(value, row->kind == SIZE, &n);

	if (wrong)
		return wrong;
	if (n < row->min || n > row->max) {
		snprintf(range, sizeof(range), "is not between %llu and %llu",
			 (unsigned long long)row->min, (unsigned long long)row->max);
		return range;
	}
	if (row->kind == POWER2 && n && !xr_is_pow2(n))
		return "is not a power of two";
	if (row->kind == SIZE)
		*(uint64_t *)((char *)o + row->offset) = n;
	else
		*(uint32_t *)((char *)o + row->offset) = (uint32_t)n;
	return NULL;
}

static const char *set_value(struct xd_options *o, const struct option_row *row, const char *value)
{
	char *at = (char *)o + row->offset;

	switch (row->kind) {
	case TEXT:
		if (strlen(value) < row->min)
			return "is empty";
		if (strlen(value) >= row->max)
			return "is too long";
		strcpy(at, value);
		return NULL;
	case ATTACH:
		return set_word((int *)at, attach_words, value);
	case IO:
		return set_word((int *)at, io_words, value);
	case BIND:
		return set_word((int *)at, bind_words, value);
	case VERDICT:
		return set_word((int *)at, verdict_words, value);
	case GSO:
		return set_word((int *)at, gso_words, value);
	case LEVEL:
		return set_word((int *)at, level_words, value);
	default:
		return set_number(o, row, value);
	}
}

static const struct option_row *find_row(const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

/* ---- configuration file ------------------------------------------------------------------- */

static char *options_trim(char *s)
{
	char *end;

	while (isspace((unsigned char)*s))
		s++;
	end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	return s;
}

static int options_parse_line(struct xd_options *o, const char *file, int number, char *line)
{
	const struct option_row *row;
	const char *wrong;
	char *name, *value, *eq;

	name = options_trim(line);
	if (!*name || *name == '#')
		return 0;
	eq = strchr(name, '=');
	if (!eq) {
		fprintf(stderr, "xroced: %s:%d: no '=' in \"%s\"\n", file, number, name);
		return -EINVAL;
	}
	*eq = 0;
	name = options_trim(name);
	value = options_trim(eq + 1);
	row = find_row(name);
	if (!row || row->offset == AT(config)) {
		fprintf(stderr, "xroced: %s:%d: unknown setting \"%s\"\n", file, number, name);
		return -EINVAL;
	}
	wrong = set_value(o, row, value);
	if (wrong) {
		fprintf(stderr, "xroced: %s:%d: %s: \"%s\" %s\n", file, number, name, value, wrong);
		return -EINVAL;
	}
	return 0;
}

static int parse_file(struct xd_options *o, const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int err = 0;

	if (!f) {
		fprintf(stderr, "xroced: %s: %s\n", path, strerror(errno));
		return -EINVAL;
	}
	for (int n = 1; !err && getline(&line, &room, f) >= 0; n++)
		err = options_parse_line(o, path, n, line);
	if (ferror(f)) {
		fprintf(stderr, "xroced: %s: %s\n", path, strerror(errno));
		err = -EINVAL;
	}
	free(line);
	fclose(f);
	return err;
}

/* The file of --config must exist, the interface's own file need not. */
static int options_read_file(struct xd_options *o)
{
	char path[sizeof(XD_CONFIG_DIR) + sizeof(o->interface) + sizeof("/.conf")];

	if (o->config[0])
		return parse_file(o, o->config);
	if (!o->interface[0] || strchr(o->interface, '/'))
		return 0;
	snprintf(path, sizeof(path), XD_CONFIG_DIR "/%s.conf", o->interface);
	return access(path, F_OK) ? 0 : parse_file(o, path);
}

/* ---- command line ---------------------------------------------------------------------------- */

static int help(void)
{
	printf("usage: xroced --interface IF [options]\n\n"
	       "Serves a network interface as an RDMA device, see xroced(8).\n\n");
	for (size_t i = 0; i < ROWS; i++) {
		char left[48];

		snprintf(left, sizeof(left), "--%s %s", rows[i].name, rows[i].arg);
		printf("  %-27s %s\n", left, rows[i].text);
	}
	printf("  %-27s %s\n  %-27s %s\n", "--help", "this text", "--version", "the version");
	return 1;
}

static void make_longopts(struct option *longopts)
{
	memset(longopts, 0, (ROWS + 3) * sizeof(*longopts));
	for (size_t i = 0; i < ROWS; i++)
		longopts[i] = (struct option){ rows[i].name, required_argument, NULL,
					       (int)i + 256 };
	longopts[ROWS] = (struct option){ "help", no_argument, NULL, 'h' };
	longopts[ROWS + 1] = (struct option){ "version", no_argument, NULL, 'V' };
}

/*
 * only_file: the first pass takes only the options that select the configuration file; the second
 * overrides settings of the file.
 */
static int parse_args(struct xd_options *o, int argc, char **argv, bool only_file)
{
	struct option longopts[ROWS + 3];
	int c, at;

	make_longopts(longopts);
	optind = 1;
	opterr = 0;
	while ((at = optind, c = getopt_long(argc, argv, ":hV", longopts, NULL)) != -1) {
		const struct option_row *row;
		const char *wrong;

		if (c == 'h')
			return help();
		if (c == 'V') {
			printf("xroced " XR_VERSION "\n");
			return 1;
		}
		if (c < 256) {
			if (only_file)
				continue;
			fprintf(stderr,
				c == ':' ? "xroced: %s needs a value, see xroced --help\n"
					 : "xroced: unknown option %s, see xroced --help\n",
				argv[at]);
			return -EINVAL;
		}
		row = &rows[c - 256];
		if (only_file && row->offset != AT(config) && row->offset != AT(interface))
			continue;
		wrong = set_value(o, row, optarg);
		if (wrong) {
			fprintf(stderr, "xroced: --%s: \"%s\" %s\n", row->name, optarg, wrong);
			return -EINVAL;
		}
	}
	if (!only_file && optind < argc) {
		fprintf(stderr, "xroced: unexpected argument \"%s\"\n", argv[optind]);
		return -EINVAL;
	}
	return 0;
}

/* The name becomes part of paths, log messages and tables. */
static int options_check_name(const char *option, const char *name)
{
	const char *c = name;

	while (isgraph((unsigned char)*c) && *c != '/')
		c++;
	if (!*c && name[0] != '.')
		return 0;
	fprintf(stderr, "xroced: %s: \"%s\" is not a valid name\n", option, name);
	return -EINVAL;
}

static int check_group(const char *option, const char *name)
{
	if (!name[0] || getgrnam(name))
		return 0;
	fprintf(stderr, "xroced: %s: group \"%s\" does not exist\n", option, name);
	return -EINVAL;
}

/* Looks a user up by name, or by number, as chown(1) does. */
static bool find_user(const char *name, uid_t *uid)
{
	const struct passwd *p = getpwnam(name);
	uint64_t n;

	if (!p && (options_parse_number(name, false, &n) || n >= UINT32_MAX))
		return false;
	*uid = p ? p->pw_uid : (uid_t)n;
	return true;
}

static int read_users(struct xd_options *o)
{
	char names[sizeof(o->direct_users)], *rest = names, *name;

	memcpy(names, o->direct_users, sizeof(names));
	while ((name = strsep(&rest, ","))) {
		if (!*name)
			continue;
		if (o->direct_uids == XD_DIRECT_USERS) {
			fprintf(stderr, "xroced: --direct-users: more than %d users\n",
				XD_DIRECT_USERS);
			return -EINVAL;
		}
		if (!find_user(name, &o->direct_uid[o->direct_uids++])) {
			fprintf(stderr, "xroced: --direct-users: user \"%s\" does not exist\n",
				name);
			return -EINVAL;
		}
	}
	return 0;
}

/* Checks the length limit of unix(7) here, before anything is attached. */
static int name_socket(struct xd_options *o)
{
	int n = snprintf(o->socket, sizeof(o->socket), "%s/%s" XR_SOCKET_SUFFIX, o->runtime_dir,
			 o->name);

	if ((size_t)n < sizeof(o->socket))
		return 0;
	fprintf(stderr,
		"xroced: --runtime-dir: %s/%s" XR_SOCKET_SUFFIX
		" is too long for a socket (limit: %zu)\n",
		o->runtime_dir, o->name, sizeof(o->socket) - 1);
	return -EINVAL;
}

static int options_check(struct xd_options *o)
{
	int err;

	if (!o->interface[0]) {
		fprintf(stderr, "xroced: --interface is required\n");
		return -EINVAL;
	}
	if (!o->name[0])
		snprintf(o->name, sizeof(o->name), "xr_%s", o->interface);
	if (options_check_name("--interface", o->interface) ||
	    options_check_name("--name", o->name))
		return -EINVAL;
	if (!o->runtime_dir[0])
		options_set_runtime_dir(o);
	err = check_group("--group", o->group);
	if (!err)
		err = check_group("--reserved-lkey-group", o->reserved_lkey_group);
	if (!err)
		err = read_users(o);
	return err ? err : name_socket(o);
}

/* One user gets at most half of what the device has, unless the administrator says otherwise. */
static void default_to_half(uint32_t *user, uint32_t device)
{
	if (!*user)
		*user = (device + 1) / 2;
}

static void set_user_limits(struct xd_options *o)
{
	default_to_half(&o->user_max_clients, o->max_clients);
	default_to_half(&o->user_max_qp, o->max_qp);
	default_to_half(&o->user_max_cq, o->max_cq);
	default_to_half(&o->user_max_mr, o->max_mr);
	default_to_half(&o->user_max_pd, o->max_pd);
	default_to_half(&o->user_max_ah, o->max_ah);
	default_to_half(&o->user_max_srq, o->max_srq);
	default_to_half(&o->user_max_cm_id, o->max_cm_id);
	default_to_half(&o->user_max_cm_channels, o->max_cm_channels);
	if (!o->user_max_processes) /* a gate and a mover for each program */
		o->user_max_processes = 2 * o->user_max_clients;
}

const char *xd_option_name(size_t offset)
{
	size_t i = 0;

	while (i < ROWS - 1 && rows[i].offset != offset)
		i++;
	return rows[i].name;
}

int xd_options_parse(struct xd_options *o, int argc, char **argv)
{
	int err;

	options_set_defaults(o);
	err = parse_args(o, argc, argv, true);
	if (!err)
		err = options_read_file(o);
	if (!err)
		err = parse_args(o, argc, argv, false);
	set_user_limits(o);
	return err ? err : options_check(o);
}
