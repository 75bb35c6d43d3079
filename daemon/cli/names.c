// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The members of rows and events that a filter can name. The rows of a reply have them as well, but
 * an empty list has none, and help has no reply. docs/show.md and docs/monitor.md describe them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define PROGRAM " age_ns# pid# uid# comm"
#define KEY_COUNTERS                                                                               \
	"references# remote_writes# remote_write_bytes# remote_reads# remote_read_bytes# "         \
	"remote_atomics# remote_atomic_bytes# local_reads# local_read_bytes# local_writes# "       \
	"local_write_bytes# refused#"
#define NAKS(kind) kind "_naks_sent# " kind "_naks_received# "

/* The last character of a name is the type: number, boolean, object; none: text */
static const struct {
	const char *command, *names, *details;
} lists[] = {
	{ "qp",
	  "qpn# type state client# worker# peer dest_qpn# path_mtu# send_cq# recv_cq# srq# "
	  "local? path" PROGRAM,
	  "pd# sq_depth# sq_used# rq_depth# rq_used# sq_psn# unacked_psn# rq_psn# window# "
	  "in_flight# waits_for retries_left# rnr_retries_left# timeout# retry_cnt# rnr_retry# "
	  "max_rd_atomic# max_dest_rd_atomic# rate_limit_kbps# tx_packets# tx_bytes# tx_messages# "
	  "rx_packets# rx_bytes# rx_messages# tx_retransmits# tx_probes# timeouts# " NAKS("rnr")
		  NAKS("seq") NAKS("access") NAKS("invalid") NAKS("operational")
			  NAKS("rd") "rx_duplicates# rx_out_of_sequence# rx_early# rx_park_lost# "
				     "rtt{ created_ns#" },
	{ "mr", "lkey# client# pd# addr length# access state tier pinned? iova path" PROGRAM,
	  KEY_COUNTERS " created_ns#" },
	{ "cq", "cq# client# depth# used# armed? overrun? vector# path" PROGRAM,
	  "channel# references# event_count# event_period_us# completions# completion_errors# "
	  "completions_lost# events# created_ns#" },
	{ "srq",
	  "srq# client# type pd# depth# used# limit# qps# number# xrcd# cq# dead? path" PROGRAM,
	  "receives# receives_missed# created_ns#" },
	{ "ah",
	  "ah# client# pd# gid_index# peer mac vlan# hop_limit# traffic_class# flow_label# "
	  "local? path" PROGRAM,
	  "created_ns#" },
	{ "mcast", "group client# qpn# path" PROGRAM, "" },
	{ "mw", "rkey# client# pd# type# bound? mr# addr length# access qpn# path" PROGRAM,
	  "refused# created_ns#" },
	{ "dm", "dm# client# length# mrs# path" PROGRAM, "" },
	{ "xrcd", "xrcd# client# domain# opened# file? inode# path" PROGRAM, "" },
	{ "cm",
	  "id# client# port_space state cm_state address port# peer peer_port# qpn# peer_qpn# "
	  "backlog#" PROGRAM,
	  "comm_id# peer_comm_id# tos# responder_resources# initiator_depth# retry_cnt# "
	  "rnr_retry# mads_sent# mads_retried# events# events_read# created_ns#" },
	{ "client",
	  "client# pid# uid# comm age_ns# observer? direct? cm_ids# qps# ahs# srqs# xrcds# cqs# "
	  "channels# mws# mrs# dms# pds# user_bytes# delays# mover# accesses# waiting_us# ending?",
	  "" },
	{ "monitor",
	  "device event qpn# type from state peer dest_qpn# reason status vendor_err# direction "
	  "nak count# cq# srq# index# gid kind rule hits# client# pid# uid# comm",
	  "" },
};

static const size_t nlists = sizeof(lists) / sizeof(lists[0]);

static size_t index_of(const struct cli_command *c)
{
	size_t i = 0;

	while (i < nlists && strcmp(lists[i].command, c->name))
		i++;
	return i;
}

/* Returns the next name behind *p and its length without the type; NULL: none. */
static const char *next_name(const char **p, size_t *length)
{
	const char *name = *p + strspn(*p, " ");

	*length = strcspn(name, "#?{ ");
	*p = name + strcspn(name, " ");
	return *name ? name : NULL;
}

static void add_names(json_t *row, const char *names)
{
	const char *name;
	char text[64];
	size_t n;
	json_t *v;

	while ((name = next_name(&names, &n))) {
		snprintf(text, sizeof(text), "%.*s", (int)n, name);
		switch (name[n]) {
		case '#':
			v = json_integer(0);
			break;
		case '?':
			v = json_false();
			break;
		case '{':
			v = json_object();
			break;
		default:
			v = json_string("");
			break;
		}
		if (!v || json_object_set_new(row, text, v))
			abort(); /* out of memory for a few bytes */
	}
}

const json_t *cli_template(const struct cli *cli)
{
	static json_t *row;
	size_t i = index_of(cli->command);

	if (row || i == nlists)
		return row;
	row = json_object();
	add_names(row, lists[i].names);
	if (cli->detail)
		add_names(row, lists[i].details);
	return row;
}

static void print_names(const char *heading, const char *names)
{
	int at = printf("%s", heading);
	const char *name;
	size_t n;

	while ((name = next_name(&names, &n))) {
		if (at + 1 + (int)n > 79)
			at = printf("\n ") - 1;
		at += printf(" %.*s", (int)n, name);
	}
	putchar('\n');
}

void cli_names_help(const struct cli_command *c)
{
	size_t i = index_of(c);

	if (i == nlists)
		return;
	print_names("NAME is one of:", lists[i].names);
	if (*lists[i].details)
		print_names("and with -d:", lists[i].details);
}
