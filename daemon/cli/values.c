// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The words that a member of the rows of a command can have, to refuse filters with others */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

static const struct {
	const char *command, *name, *words; /* words: separated by commas */
} values[] = {
	{ "qp", "state", "RESET,INIT,RTR,RTS,SQD,SQE,ERR" },
	{ "qp", "type", "RC,UC,UD,GSI,XRC_SEND,XRC_RECV" },
	{ "mr", "state", "free,valid,invalid" },
	{ "mr", "tier", "shared,adopted,private,device,null,pieces" },
	{ "srq", "type", "basic,XRC" },
	{ "monitor", "event",
	  "qp_created,qp_destroyed,qp_state,qp_error,cq_error,srq_error,nak,timeout,link,xdp,"
	  "gid_added,gid_removed,client_connected,client_left,fault,lost" },
	{ "monitor", "type", "RC,UC,UD,GSI,XRC_SEND,XRC_RECV" },
	{ "monitor", "from", "RESET,INIT,RTR,RTS,SQD,SQE,ERR" },
	{ "monitor", "state", "RESET,INIT,RTR,RTS,SQD,SQE,ERR,up,down,removed" },
	{ "monitor", "direction", "sent,received" },
	{ "monitor", "nak",
	  "RNR,PSN sequence,remote access,invalid request,remote operational,invalid RD request" },
	{ "monitor", "kind", "verbs,rdma_cm,umad" },
	{ "cm", "port_space", "tcp,udp,ipoib,ib" },
	{ "cm", "state",
	  "idle,bound,address query,address resolved,route query,route resolved,connect,disconnect,"
	  "listen" },
	{ "cm", "cm_state",
	  "IDLE,REQ_SENT,MRA_REQ_RCVD,REQ_RCVD,MRA_REQ_SENT,REP_SENT,MRA_REP_RCVD,REP_RCVD,"
	  "MRA_REP_SENT,ESTABLISHED,DREQ_SENT,DREQ_RCVD,TIMEWAIT,SIDR_REQ_SENT,SIDR_REQ_RCVD" },
};

/* Returns NULL if the member may have any value. */
static const char *words_of(const struct cli *cli, const char *name)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (!strcmp(values[i].command, cli->command->name) && !strcmp(values[i].name, name))
			return values[i].words;
	return NULL;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);
	const char *p;

	for (p = words; p; p = strchr(p, ','), p += p != NULL)
		if (!strncasecmp(p, word, n) && (!p[n] || p[n] == ','))
			return true;
	return false;
}

/* Returns the first word that is not one of the others; the caller frees it. NULL: none */
static char *values_wrong_word(const char *wanted, const char *words, const char *more)
{
	char *copy = strdup(wanted), *word, *save = NULL, *wrong;

	if (!copy)
		abort(); /* out of memory for a few bytes */
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
		if (!has_word(words, word) && !(more && has_word(more, word)))
			break;
	wrong = word ? strdup(word) : NULL;
	free(copy);
	return wrong;
}

static int values_check(const struct cli *cli, const char *name, const char *wanted,
			const char *more)
{
	const char *words = words_of(cli, name);
	char *wrong = words ? values_wrong_word(wanted, words, more) : NULL;

	if (!wrong)
		return CLI_OK;
	cli_usage(cli, "%s: '%s' is not one of %s%s%s", name, wrong, words, more ? "," : "",
		  more ? more : "");
	free(wrong);
	return CLI_USAGE;
}

int cli_check_words(const struct cli *cli, const char *name, const char *wanted)
{
	return values_check(cli, name, wanted, NULL);
}

int cli_check_state(const struct cli *cli)
{
	return values_check(cli, "state", cli->state, words_of(cli, "cm_state"));
}
