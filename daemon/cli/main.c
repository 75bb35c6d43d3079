// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The commands: docs/man/xroce.1. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "provider/control/runtime_dir.h"

#define STATE_OPTION "  -s, --state STATE      print only what is in this state\n"
#define ROW_OPTIONS                                                                                \
	"NAME VALUE pairs keep the rows that have the value; names may be abbreviated.\n"          \
	"sort NAME sorts them: large numbers first.\n"                                             \
	"  -d, --detail           print each row as a block, with all that is known of it\n"
#define PROGRAM_OPTIONS                                                                            \
	"  -d, --device DEV       show only this xroce device; may be repeated\n"                  \
	"      --only             hide devices of the kernel\n"                                    \
	"      --path PATH        who runs the transport: daemon, direct or auto\n"
#define ROWS_ARGS "[DEV] [NAME VALUE]... [sort NAME]"

static const struct cli_command commands[] = {
	{
		"run",
		"[OPTION]... PROGRAM [ARG]...",
		"run a program that uses ibverbs",
		"The program sees the xroce devices before those of the kernel.\n" PROGRAM_OPTIONS
		"      --start[=IF]       start a daemon for you if none runs, on IF (default:\n"
		"                         lo), through UDP sockets\n"
		"      --start-idle N     that daemon ends after N seconds without programs, 0:\n"
		"                         never; default: 30\n",
		cli_run,
		0,
		false,
		NULL,
	},
	{
		"env",
		"[OPTION]...",
		"print the environment by which programs use xroce without run",
		"  eval \"$(xroce env)\"\n"
		"  xroce env --format github >>\"$GITHUB_ENV\"\n"
		"  -f, --format FORMAT    sh (default), github, systemd or "
		"docker\n" PROGRAM_OPTIONS,
		cli_env,
		0,
		false,
		NULL,
	},
	{ "list", "", "devices and their interfaces", NULL, cli_list, 0, true, NULL },
	{
		"status",
		"[DEV]",
		"device, GIDs, attach mode, workers, object counts",
		NULL,
		cli_show,
		XR_SHOW_STATUS,
		true,
		NULL,
	},
	{
		"counters",
		"[DEV]",
		"packets by verdict of the XDP program; transport counters",
		"  -a, --all          include counters that are 0\n",
		cli_show,
		XR_SHOW_COUNTERS,
		true,
		"a",
	},
	{
		"top",
		"[OPTION]... [DEV]",
		"rates of queue pairs, programs and devices, live",
		"  -d, --delay SECONDS    time between samples, from 0.1; default: 2\n"
		"  -n, --count N          end after N samples\n"
		"  -v, --view VIEW        qp (default), program or device\n"
		"  -s, --sort COLUMN      column to sort by: 1 to 6\n"
		"  -b, --batch            write lines for a file or a pipe; needs no terminal\n"
		"Keys: q quits, v changes between queue pairs, programs and devices, < and > or a\n"
		"number from 1 to 6 choose the column to sort by, r reverses the order.\n",
		cli_top,
		0,
		false,
		NULL,
	},
	{
		"monitor",
		"[DEV] [NAME VALUE]...",
		"what happens: states and errors of queue pairs, NAKs, link, clients",
		"One line for each event, until the daemon ends: QPs created, destroyed, their\n"
		"states and errors with reasons, errors of CQs and SRQs, NAKs and timeouts (the\n"
		"sum of each second), link, XDP program, GIDs, clients, hits of fault rules.\n"
		"NAME VALUE pairs keep the events that have the value, or one of several with\n"
		"commas; names may be abbreviated. Values of \"event\":\n"
		"  qp_created, qp_destroyed, qp_state, qp_error, cq_error, srq_error, nak,\n"
		"  timeout, link, xdp, gid_added, gid_removed, client_connected, client_left,\n"
		"  fault, lost\n"
		"Example: xroce monitor event qp_error,nak\n",
		cli_monitor,
		0,
		true,
		NULL,
	},
	{
		"metrics",
		"[--listen ADDRESS [--group GROUP]] [DEV]",
		"counters and gauges in the OpenMetrics format",
		"  -l, --listen ADDRESS   serve them by HTTP, GET /metrics, at IP:PORT,\n"
		"                         [IP]:PORT, the path of a unix socket, or at the sockets\n"
		"                         that the service manager passes: systemd\n"
		"  -g, --group GROUP      its members may connect to the unix socket as well\n",
		cli_metrics,
		0,
		false,
		NULL,
	},
	{ "qp", ROWS_ARGS, "queue pairs", STATE_OPTION ROW_OPTIONS, cli_show, XR_SHOW_QPS, true,
	  "ds" },
	{ "mr", ROWS_ARGS, "memory regions and their keys", STATE_OPTION ROW_OPTIONS, cli_show,
	  XR_SHOW_MRS, true, "ds" },
	{ "cq", ROWS_ARGS, "completion queues", ROW_OPTIONS, cli_show, XR_SHOW_CQS, true, "d" },
	{ "srq", ROWS_ARGS, "shared receive queues", ROW_OPTIONS, cli_show, XR_SHOW_SRQS, true,
	  "d" },
	{ "ah", ROWS_ARGS, "address handles", ROW_OPTIONS, cli_show, XR_SHOW_AHS, true, "d" },
	{ "mcast", ROWS_ARGS, "multicast groups and their queue pairs", ROW_OPTIONS, cli_show,
	  XR_SHOW_GROUPS, true, "d" },
	{ "mw", ROWS_ARGS, "memory windows", ROW_OPTIONS, cli_show, XR_SHOW_MWS, true, "d" },
	{ "dm", ROWS_ARGS, "device memory", ROW_OPTIONS, cli_show, XR_SHOW_DMS, true, "d" },
	{ "xrcd", ROWS_ARGS, "XRC domains", ROW_OPTIONS, cli_show, XR_SHOW_XRCDS, true, "d" },
	{
		"cm",
		ROWS_ARGS,
		"rdma_cm ids: listeners and connections by address",
		STATE_OPTION "  -l, --listen           the same as --state listen\n" ROW_OPTIONS,
		cli_show,
		XR_SHOW_CM_IDS,
		true,
		"dls",
	},
	{ "client", ROWS_ARGS, "clients: devices opened by programs", ROW_OPTIONS, cli_show,
	  XR_SHOW_CLIENTS, true, "d" },
	{ "limits", "[DEV]", "limits, and what each user has", NULL, cli_show, XR_SHOW_LIMITS, true,
	  NULL },
	{
		"fault",
		"DEV [WHAT... | rules RULES | load FILE | off]",
		"inject faults for tests, or show the rules and their hits",
		"All forms replace the rules that are in force.\n"
		"WHAT is any of these; N is a number of packets in 1000:\n"
		"  drop N, dup N, reorder N, corrupt N, delay N MICROSECONDS\n"
		"  seed S             the same seed and packets give the same faults\n"
		"  rx, tx             received packets only, sent packets only\n"
		"  mads               only management datagrams of rdma_cm\n"
		"RULES are separated by ';', those of a FILE also by newlines; '-' is standard\n"
		"input. A rule is a fault, the packets that it selects, and when it applies:\n"
		"  drop | dup [late T] [jitter T] | delay T [jitter T] | reorder | rate BITS |\n"
		"  corrupt [bits N | field NAME VALUE] [icrc right|wrong] |\n"
		"  nak sequence|request|access|operation|rd | rnr [timer N] |\n"
		"  qp-error [status STATUS] | cq-error | event NAME\n"
		"    [rx|tx] [qp N] [peer ADDR] [opcode NAME] [mads] [queue N]\n"
		"  fail VERB ERROR | slow VERB T [jitter T] | port-down | gid-gone ADDR\n"
		"  any of them:\n"
		"    [pid N] [uid N] [command NAME]\n"
		"    [prob P] [burst ENTER LEAVE] [after N] [every N] [times N]\n"
		"    [period T length T]\n"
		"  seed S\n"
		"docs/faults.md has the values and recipes.\n"
		"Example: xroce fault DEV rules 'drop tx qp 0x11 opcode WRITE_LAST times 3'\n",
		cli_fault,
		0,
		true,
		NULL,
	},
	{
		"capture",
		"DEV [-w FILE] [FILTER...]",
		"record the packets of a device as pcapng",
		"FILE can be -, for a pipe into tshark or Wireshark; default: a line for each\n"
		"packet.\n"
		"  -w, --write FILE   write pcapng\n"
		"  -s, --snap LEN     record at most LEN bytes of each packet\n"
		"  -c, --count N      end after N packets\n"
		"  -b, --buffer MB    buffer of each worker, or of --on; default: 32 MiB\n"
		"      --on EVENT     keep the last packets, and write them at the first EVENT:\n"
		"                     retry, nak, error or drop, or several with commas\n"
		"FILTER is any of these; packets must match one value of each kind:\n"
		"  rx, tx             received packets, sent packets\n"
		"  refused, local     those that XDP has dropped, those within the host\n"
		"  qp N, peer ADDRESS, opcode NAME, verdict NAME\n"
		"                     one or more values, with commas\n",
		cli_capture,
		0,
		false,
		NULL,
	},
	{
		"doctor",
		"[IF]",
		"what this machine permits and lacks, with remedies",
		"IF is a network interface to check as well. Nothing is changed.\n"
		"Exit status 1: something is missing that a daemon or programs need.\n",
		cli_doctor,
		0,
		true,
		NULL,
	},
	{
		"cdi",
		"",
		"CDI file: devices for containers",
		"For example: xroce cdi >/etc/cdi/xroce.json\n"
		"             podman run --device xroce/rdma=all ...\n",
		cli_cdi,
		0,
		false,
		NULL,
	},
};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

/*
 * Returns the command of that name, else the first one that the name abbreviates, as ip(8) does;
 * NULL: none, with a message.
 */
static const struct cli_command *find_command(const struct cli *cli, const char *name)
{
	const struct cli_command *found = NULL;

	for (size_t i = 0; i < NCOMMANDS; i++) {
		if (!strcmp(name, commands[i].name))
			return &commands[i];
		if (!found && *name && !strncmp(name, commands[i].name, strlen(name)))
			found = &commands[i];
	}
	if (!found)
		cli_usage(cli, "unknown command '%s'", name);
	return found;
}

/* help [COMMAND] */
static int run_help(struct cli *cli, int argc, char **argv)
{
	const struct cli_command *c;

	if (argc > 2)
		return cli_usage(cli, "unexpected argument '%s'", argv[2]);
	c = argc == 2 ? find_command(cli, argv[1]) : NULL;
	if (argc == 2 && !c)
		return CLI_USAGE;
	if (c)
		cli_command_help(c);
	else
		cli_help(cli);
	return CLI_OK;
}

static int xroce(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv);

	if (first < 0)
		return -first - 1;
	if (first == argc) {
		cli_help(cli);
		return CLI_USAGE;
	}
	if (!strcmp(argv[first], "help"))
		return run_help(cli, argc - first, argv + first);
	cli->command = find_command(cli, argv[first]);
	if (!cli->command)
		return CLI_USAGE;
	if (argc - first == 2 && !strcmp(argv[first + 1], "help")) {
		cli_command_help(cli->command);
		return CLI_OK;
	}
	cli_print_init();
	return cli->command->run(cli, argc - first, argv + first);
}

int main(int argc, char **argv)
{
	const char *given = secure_getenv(CLI_RUNTIME_DIR_ENV);
	struct cli cli = {
		.commands = commands,
		.ncommands = NCOMMANDS,
		.runtime_dir = xp_runtime_dir(),
		.runtime_dir_given = given && *given,
	};
	int status;

	if (!strcmp(program_invocation_short_name, "rdma"))
		status = cli_rdma(&cli, argc, argv);
	else
		status = xroce(&cli, argc, argv);
	if (fflush(stdout) || ferror(stdout))
		return cli_error("standard output: %m");
	return status;
}
