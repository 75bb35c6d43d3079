// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

/* What a check is needed for */
enum {
	FOR_DAEMONS = 1, /* for each way of a daemon */
	FOR_XDP = 2,
	FOR_SOCKETS = 4,
	FOR_PROGRAMS = 8,
};

static const struct check {
	const char *name;
	doctor_check *run;
	unsigned int needed; /* 0: a daemon and programs work without it */
	bool of_interface;   /* run only if an interface is named */
	const char *remedy;  /* if it is missing or limited and the check has no better one */
} checks[] = {
	{ "kernel", doctor_kernel, FOR_DAEMONS, false, "use Linux 6.1 or newer on x86-64" },
	{ "capabilities", doctor_capabilities, FOR_XDP, false,
	  "run xroced as root for XDP; without them, it uses sockets" },
	{ "bpf", doctor_bpf, FOR_XDP, false,
	  "run xroced as root for XDP; without BPF, it uses sockets" },
	{ "af_xdp", doctor_af_xdp, FOR_XDP, false,
	  "a kernel with CONFIG_XDP_SOCKETS; without, xroced uses sockets" },
	{ "udp", doctor_udp, FOR_SOCKETS, false, "use Linux 5.0 or newer" },
	{ "port 4791", doctor_port, FOR_SOCKETS, false,
	  "end what has the port, or use another network namespace" },
	{ "buffers", doctor_buffers, 0, false, "sysctl -w net.core.rmem_max=8388608" },
	{ "interface", doctor_interface, FOR_DAEMONS, true, NULL },
	{ "xdp", doctor_xdp, 0, true, NULL },
	{ "memfd", doctor_memfd, FOR_DAEMONS | FOR_PROGRAMS, false,
	  "a kernel with CONFIG_MEMFD_CREATE, and a container that permits memfd_create()" },
	{ "userfaultfd", doctor_userfaultfd, 0, false,
	  "sysctl -w vm.unprivileged_userfaultfd=1; without, access to memory costs more" },
	{ "landlock", doctor_landlock, 0, false,
	  "a kernel with CONFIG_SECURITY_LANDLOCK; without, the daemon is less confined" },
	{ "seccomp", doctor_seccomp, 0, false,
	  "a kernel with CONFIG_SECCOMP_FILTER; without, the daemon is less confined" },
	{ "user namespaces", doctor_user_namespaces, 0, false,
	  "sysctl -w user.max_user_namespaces=10000; only needed to try hosts without root" },
	{ "memlock", doctor_memlock, 0, false,
	  "ulimit -l unlimited, or LimitMEMLOCK=infinity; needed for XDP" },
	{ "open files", doctor_files, 0, false, "ulimit -Hn 65536, or LimitNOFILE=65536" },
	{ "directory", doctor_directory, FOR_DAEMONS, false, "set XROCE_RUNTIME_DIR" },
	{ "daemons", doctor_daemons, 0, false, NULL },
	{ "glibc", doctor_glibc, FOR_PROGRAMS, false,
	  "build xroce for this system, or use a newer image" },
	{ "libibverbs", doctor_libibverbs, FOR_PROGRAMS, false,
	  "install it: apt install libibverbs1, or dnf install libibverbs" },
	{ "provider", doctor_provider, FOR_PROGRAMS, false, "install xroce" },
};

#define CHECKS (sizeof(checks) / sizeof(checks[0]))

/* ---- output --------------------------------------------------------------------- */

static const char *const states[] = {
	[DOCTOR_OK] = "ok",
	[DOCTOR_LIMITED] = "limited",
	[DOCTOR_MISSING] = "missing",
	[DOCTOR_UNKNOWN] = "unknown",
};

static json_t *text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *row_of(const struct check *c, const struct doctor_finding *f)
{
	return json_pack("{s:s,s:s,s:s,s:o}", "check", c->name, "state", states[f->state], "found",
			 f->found, "remedy", text_or_null(f->remedy));
}

static const char *doctor_member(const json_t *row, const char *name)
{
	const char *text = json_string_value(json_object_get(row, name));

	return text ? text : "";
}

static int width_of(const json_t *rows, const char *name)
{
	size_t width = 0, i;
	json_t *row;

	json_array_foreach((json_t *)rows, i, row)
	{
		if (strlen(doctor_member(row, name)) > width)
			width = strlen(doctor_member(row, name));
	}
	return (int)width;
}

/* A line for each check; cli_print_reply() would divide rows that are wider than the terminal. */
static void print_rows(const json_t *rows)
{
	int name = width_of(rows, "check"), state = width_of(rows, "state");
	json_t *row;
	size_t i;

	json_array_foreach((json_t *)rows, i, row)
	{
		printf("%-*s  ", name, doctor_member(row, "check"));
		cli_print_value("state", json_object_get(row, "state"));
		printf("%*s  ", state - (int)strlen(doctor_member(row, "state")), "");
		cli_print_field(doctor_member(row, "found"));
		if (*doctor_member(row, "remedy")) {
			fputs("; remedy: ", stdout);
			cli_print_field(doctor_member(row, "remedy"));
		}
		putchar('\n');
	}
	printf("%-*s  ", name, "way");
}

/* ---- the command ---------------------------------------------------------------- */

/* Runs all checks. Returns what the missing ones are needed for. */
static unsigned int doctor_examine(struct doctor *d, json_t *rows)
{
	unsigned int missing = 0;

	for (size_t i = 0; i < CHECKS; i++) {
		struct doctor_finding f = { DOCTOR_UNKNOWN, "", "" };

		if (checks[i].of_interface && !d->interface)
			continue;
		checks[i].run(d, &f);
		if (f.state != DOCTOR_OK && f.state != DOCTOR_UNKNOWN && !*f.remedy &&
		    checks[i].remedy)
			doctor_remedy(&f, "%s", checks[i].remedy);
		if (f.state == DOCTOR_MISSING)
			missing |= checks[i].needed;
		if (json_array_append_new(rows, row_of(&checks[i], &f)))
			abort(); /* out of memory for a few bytes */
	}
	return missing;
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
	struct doctor d = { .cli = cli, .root = "" };
	int first = cli_options(cli, argc, argv);
	json_t *rows, *all;
	unsigned int missing;
	const char *name;
	char why[256];
	bool xdp;

	if (first < 0)
		return -first - 1;
	if (argc - first > 1)
		return cli_usage(cli, "unexpected argument '%s'", argv[first + 1]);
	d.interface = first < argc ? argv[first] : NULL;
	if (d.interface)
		xd_way_read(&d.facts, d.interface);
	rows = json_array();
	missing = doctor_examine(&d, rows);
	xdp = xd_way_is_xdp(&d.facts, why, sizeof(why));
	name = xdp ? "xdp" : "socket";
	missing &= FOR_DAEMONS | FOR_PROGRAMS | (xdp ? FOR_XDP : FOR_SOCKETS);
	all = json_pack("{s:o,s:s,s:s,s:b,s:b}", "checks", rows, "way", name, "why", why, "daemon",
			!(missing & ~FOR_PROGRAMS), "programs", !(missing & FOR_PROGRAMS));
	if (!all)
		return cli_error("out of memory");
	if (cli->json) {
		cli_print_reply(cli, all);
		cli_end_json(cli);
	} else {
		print_rows(rows);
		printf("%s: %s\n", name, why);
	}
	json_decref(all);
	return missing ? CLI_FAILED : CLI_OK;
}
