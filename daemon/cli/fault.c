// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* fault: fault injection */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define DELAY_MAX_US 10000000u
#define RULES_MAX 32768 /* bytes of a text of rules */

/* ---- short form: packets in 1000 ---------------------------------------------------------- */

static const char *const kinds[] = { "drop", "dup", "reorder", "corrupt", "delay" };

/* Options that apply to all faults of a command line */
struct settings {
	uint64_t seed;
	bool rx, tx, mads;
};

static bool fault_number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 0);
	return !errno && !*end && *value <= max;
}

static bool is_kind(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i], word))
			return true;
	return false;
}

/*
 * Writes the rule of a fault; rules NULL: only parses it. Returns the number of words that it has,
 * 0 if the first word is not a fault, -1 if a value is missing or wrong.
 */
static int fault_put_kind(FILE *rules, const struct settings *s, char **word, int words)
{
	bool delay = !strcmp(word[0], "delay");
	uint64_t n, us = 0;

	if (!is_kind(word[0]))
		return 0;
	if (words < 2 || !fault_number(word[1], 1000, &n) ||
	    (delay && (words < 3 || !fault_number(word[2], DELAY_MAX_US, &us))))
		return -1;
	if (!rules)
		return delay ? 3 : 2;
	fputs(word[0], rules);
	if (delay)
		fprintf(rules, " %lluus", (unsigned long long)us);
	fprintf(rules, " prob %llu.%llu%%%s%s%s\n", (unsigned long long)n / 10,
		(unsigned long long)n % 10, s->rx ? " rx" : "", s->tx ? " tx" : "",
		s->mads ? " mads" : "");
	return delay ? 3 : 2;
}

/* As fault_put_kind(), for seed, rx, tx and mads. */
static int take_setting(struct settings *s, char **word, int words)
{
	if (!strcmp(word[0], "seed"))
		return words > 1 && fault_number(word[1], INT64_MAX, &s->seed) ? 2 : -1;
	if (!strcmp(word[0], "rx"))
		s->rx = true;
	else if (!strcmp(word[0], "tx"))
		s->tx = true;
	else if (!strcmp(word[0], "mads"))
		s->mads = true;
	else
		return 0;
	return 1;
}

static int fault_wrong_word(const struct cli *cli, const char *word, int used)
{
	if (!used)
		return cli_usage(cli, "unknown fault '%s'", word);
	return cli_usage(cli, "'%s' needs %s", word,
			 !strcmp(word, "seed")	  ? "a number"
			 : !strcmp(word, "delay") ? "two numbers: packets in 1000, and microseconds"
						  : "a number from 0 to 1000");
}

/* Two passes: settings can follow the faults for which they are valid. */
static int put_short(struct cli *cli, FILE *rules, int words, char **word)
{
	struct settings s = { 0 };
	int used = 1;

	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			fprintf(rules, "seed %llu\n", (unsigned long long)s.seed);
		for (int i = 0; i < words && used > 0; i += used) {
			used = fault_put_kind(pass ? rules : NULL, &s, word + i, words - i);
			if (!used)
				used = take_setting(&s, word + i, words - i);
			if (used <= 0)
				fault_wrong_word(cli, word[i], used);
		}
	}
	return used > 0 ? CLI_OK : CLI_USAGE;
}

/* ---- rules -------------------------------------------------------------------------------- */

static int put_words(FILE *rules, int words, char **word)
{
	for (int i = 0; i < words; i++)
		fprintf(rules, "%s ", word[i]);
	return CLI_OK;
}

static int put_file(FILE *rules, const char *path)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
	char buf[4096];
	size_t n;
	int failed;

	if (!f)
		return cli_error("%s: %m", path);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0 && ftell(rules) <= RULES_MAX)
		fwrite(buf, 1, n, rules);
	failed = ferror(f);
	if (f != stdin)
		fclose(f);
	return failed ? cli_error("%s: cannot be read", path) : CLI_OK;
}

static int put_rules(struct cli *cli, FILE *rules, int words, char **word)
{
	if (!strcmp(word[0], "off"))
		return words == 1 ? CLI_OK : cli_usage(cli, "unexpected argument '%s'", word[1]);
	if (!strcmp(word[0], "rules"))
		return words > 1 ? put_words(rules, words - 1, word + 1)
				 : cli_usage(cli, "RULES are missing");
	if (!strcmp(word[0], "load"))
		return words == 2 ? put_file(rules, word[1])
				  : cli_usage(cli, "'load' needs one file");
	return put_short(cli, rules, words, word);
}

/* Returns the text of the rules that the words describe; *status: the exit status. */
static char *fault_read_rules(struct cli *cli, int words, char **word, int *status)
{
	char *text = NULL;
	size_t length;
	FILE *rules = open_memstream(&text, &length);

	if (!rules) {
		*status = cli_error("no memory");
		return NULL;
	}
	*status = put_rules(cli, rules, words, word);
	if (fclose(rules) && *status == CLI_OK)
		*status = cli_error("no memory");
	if (*status == CLI_OK && length > RULES_MAX)
		*status = cli_error("the rules have more than %d bytes", RULES_MAX);
	return text;
}

/* ---- the command -------------------------------------------------------------------------- */

/* Prints the member "faults" of a SHOW status reply. */
static int print_faults(const struct cli *cli, const char *status)
{
	json_t *root = cli_parse(status), *faults = json_object_get(root, "faults");
	bool found = faults;

	if (found) {
		cli_print_reply(cli, cli->json ? faults : json_object_get(faults, "rules"));
		cli_end_json(cli);
	}
	json_decref(root);
	return found ? CLI_OK : cli_error("the status of the daemon does not contain the faults");
}

int cli_fault(struct cli *cli, int argc, char **argv)
{
	int first = cli_options(cli, argc, argv), status = CLI_OK, err;
	char *rules = NULL, *text = NULL;
	struct cli_client c;

	if (first < 0)
		return -first - 1;
	if (first == argc)
		return cli_usage(cli, "DEV is missing");
	if (argc - first > 1)
		rules = fault_read_rules(cli, argc - first - 1, argv + first + 1, &status);
	if (status != CLI_OK) {
		free(rules);
		return status;
	}
	err = cli_client_open(&c, cli, argv[first]);
	if (!err)
		err = rules ? cli_client_set_fault(&c, rules)
			    : cli_client_show(&c, XR_SHOW_STATUS, NULL, &text);
	cli_client_close(&c);
	status = cli_client_explain(&c, "fault", err);
	if (text)
		status = print_faults(cli, text);
	free(rules);
	free(text);
	return status;
}
