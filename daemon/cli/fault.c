// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* fault: fault injection */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define DELAY_MAX_US 10000000u

static const struct kind {
	const char *name;
	size_t field; /* offset in struct xr_fault_config; packets in 1000 */
} kinds[] = {
	{ "drop", offsetof(struct xr_fault_config, drop) },
	{ "dup", offsetof(struct xr_fault_config, duplicate) },
	{ "reorder", offsetof(struct xr_fault_config, reorder) },
	{ "corrupt", offsetof(struct xr_fault_config, corrupt) },
	{ "delay", offsetof(struct xr_fault_config, delay) },
};

static bool number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 0);
	return !errno && !*end && *value <= max;
}

static const struct kind *find_kind(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(name, kinds[i].name))
			return &kinds[i];
	return NULL;
}

/*
 * Parses a kind of fault. Returns the number of words that it has, 0 if the first word is not a
 * kind, -1 if a value is missing or wrong.
 */
static int parse_kind(struct xr_fault_config *f, char **word, int words)
{
	const struct kind *k = find_kind(word[0]);
	uint64_t n;

	if (!k)
		return 0;
	if (words < 2 || !number(word[1], 1000, &n))
		return -1;
	*(uint32_t *)((char *)f + k->field) = (uint32_t)n;
	if (strcmp(k->name, "delay"))
		return 2;
	if (words < 3 || !number(word[2], DELAY_MAX_US, &n))
		return -1;
	f->delay_us = (uint32_t)n;
	return 3;
}

/* As parse_kind(), for seed, rx, tx and mads. */
static int parse_setting(struct xr_fault_config *f, char **word, int words)
{
	uint64_t n;

	if (!strcmp(word[0], "rx"))
		f->direction |= XR_FAULT_RX;
	else if (!strcmp(word[0], "tx"))
		f->direction |= XR_FAULT_TX;
	else if (!strcmp(word[0], "mads"))
		f->direction |= XR_FAULT_MADS;
	else if (strcmp(word[0], "seed"))
		return 0;
	else if (words < 2 || !number(word[1], INT64_MAX, &n))
		return -1;
	else
		f->seed = n;
	return !strcmp(word[0], "seed") ? 2 : 1;
}

static int parse(struct cli *cli, struct xr_fault_config *f, int words, char **word)
{
	int used;

	memset(f, 0, sizeof(*f));
	if (words == 1 && !strcmp(word[0], "off"))
		return CLI_OK;
	for (; words > 0; word += used, words -= used) {
		used = parse_kind(f, word, words);
		if (!used)
			used = parse_setting(f, word, words);
		if (!used)
			return cli_usage(cli, "unknown fault '%s'", word[0]);
		if (used < 0)
			return cli_usage(cli, "'%s' needs %s", word[0],
					 !strcmp(word[0], "seed") ? "a number"
					 : !strcmp(word[0], "delay")
						 ? "two numbers: packets in 1000, and microseconds"
						 : "a number from 0 to 1000");
	}
	return CLI_OK;
}

/* Prints the member "fault" of a SHOW status reply. */
static int print_fault(const struct cli *cli, const char *status)
{
	json_t *root = cli_parse(status);
	char *text = json_dumps(json_object_get(root, "fault"), JSON_INDENT(2));

	if (text && cli->json)
		puts(text);
	else if (text)
		cli_print(text, false);
	free(text);
	json_decref(root);
	return text ? CLI_OK
		    : cli_error("the status of the daemon does not contain the fault setting");
}

int cli_fault(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv);
	struct xr_fault_config config;
	struct cli_client c;
	char *text = NULL;
	int err, status;

	if (first < 0)
		return -first - 1;
	if (first == argc)
		return cli_usage(cli, "DEV is missing");
	status = parse(cli, &config, argc - first - 1, argv + first + 1);
	if (status != CLI_OK)
		return status;
	err = cli_client_open(&c, cli, argv[first]);
	if (!err && argc - first > 1)
		err = cli_client_set_fault(&c, &config);
	else if (!err)
		err = cli_client_show(&c, XR_SHOW_STATUS, &text);
	cli_client_close(&c);
	status = cli_client_explain(&c, "fault", err);
	if (text)
		status = print_fault(cli, text);
	free(text);
	return status;
}
