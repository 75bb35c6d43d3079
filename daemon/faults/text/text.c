// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"

#define DROP (1u << XD_FAULT_DROP)
#define DUPLICATE (1u << XD_FAULT_DUPLICATE)
#define DELAY (1u << XD_FAULT_DELAY)
#define CORRUPT (1u << XD_FAULT_CORRUPT)
#define INJECT (1u << XD_FAULT_INJECT)
#define VERB (1u << XD_FAULT_VERB)
#define ALL UINT32_MAX
#define LASTING (1u << XD_FAULT_PORT | 1u << XD_FAULT_GID)
#define EVENT (1u << XD_FAULT_EVENT)
#define PACKETS (ALL & ~(VERB | LASTING | EVENT))

static const struct keyword {
	const char *name;
	uint32_t kinds; /* bit by enum xd_fault_kind: those that allow it */
	xd_fault_set *set;
} keywords[] = {
	{ "rx", PACKETS, xd_fault_set_rx },
	{ "tx", PACKETS, xd_fault_set_tx },
	{ "mads", PACKETS, xd_fault_set_mads },
	{ "qp", PACKETS, xd_fault_set_qp },
	{ "peer", PACKETS, xd_fault_set_peer },
	{ "opcode", PACKETS, xd_fault_set_opcode },
	{ "queue", PACKETS, xd_fault_set_queue },
	{ "pid", ALL, xd_fault_set_pid },
	{ "uid", ALL, xd_fault_set_uid },
	{ "command", ALL, xd_fault_set_command },
	{ "prob", ALL, xd_fault_set_prob },
	{ "burst", ALL, xd_fault_set_burst },
	{ "after", ALL, xd_fault_set_after },
	{ "every", ALL, xd_fault_set_every },
	{ "times", ALL, xd_fault_set_times },
	{ "period", ALL, xd_fault_set_period },
	{ "length", ALL & ~EVENT, xd_fault_set_length },
	{ "jitter", DELAY | DUPLICATE | VERB, xd_fault_set_jitter },
	{ "late", DUPLICATE, xd_fault_set_late },
	{ "bits", CORRUPT, xd_fault_set_bits },
	{ "field", CORRUPT, xd_fault_set_field },
	{ "icrc", CORRUPT, xd_fault_set_icrc },
	{ "timer", INJECT, xd_fault_set_timer },
	{ "status", INJECT, xd_fault_set_status },
};
_Static_assert(sizeof(keywords) / sizeof(keywords[0]) <= 32, "a bit for each keyword");

/* The first word of a rule. set, which may be NULL, parses the words that must follow. */
static const struct {
	const char *name;
	enum xd_fault_kind kind;
	xd_fault_set *set;
} kinds[] = {
	{ "drop", XD_FAULT_DROP, NULL },
	{ "dup", XD_FAULT_DUPLICATE, NULL },
	{ "delay", XD_FAULT_DELAY, xd_fault_delay },
	{ "reorder", XD_FAULT_DELAY, xd_fault_reorder },
	{ "rate", XD_FAULT_RATE, xd_fault_rate },
	{ "corrupt", XD_FAULT_CORRUPT, NULL },
	{ "nak", XD_FAULT_INJECT, xd_fault_nak },
	{ "rnr", XD_FAULT_INJECT, xd_fault_rnr },
	{ "event", XD_FAULT_INJECT, xd_fault_event },
	{ "qp-error", XD_FAULT_INJECT, xd_fault_qp_error },
	{ "cq-error", XD_FAULT_INJECT, xd_fault_cq_error },
	{ "fail", XD_FAULT_VERB, xd_fault_fail },
	{ "slow", XD_FAULT_VERB, xd_fault_slow },
	{ "port-down", XD_FAULT_PORT, NULL },
	{ "gid-gone", XD_FAULT_GID, xd_fault_gid },
};

static bool parse_kind(struct xd_words *w, const char *name, struct xd_fault_rule *r)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, name))
			continue;
		r->kind = kinds[i].kind;
		w->what = kinds[i].name;
		return !kinds[i].set || kinds[i].set(w, r);
	}
	snprintf(w->why, w->size, "there is no fault '%.40s'", name);
	return false;
}

/* Only opcodes may be repeated. i: index of the keyword */
static bool is_repeated(struct xd_words *w, size_t i)
{
	bool repeated = w->given >> i & 1 && keywords[i].set != xd_fault_set_opcode;

	w->given |= 1u << i;
	if (repeated)
		snprintf(w->why, w->size, "'%s' may not be repeated", keywords[i].name);
	return repeated;
}

static bool parse_keyword(struct xd_words *w, const char *name, struct xd_fault_rule *r)
{
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
		if (strcmp(keywords[i].name, name) || !(keywords[i].kinds >> r->kind & 1))
			continue;
		w->what = name;
		if (is_repeated(w, i))
			return false;
		return keywords[i].set(w, r);
	}
	snprintf(w->why, w->size, "this fault has no keyword '%.40s'", name);
	return false;
}

/* The control thread of the daemon begins and ends the turns of faults of time. */
static bool has_long_turns(struct xd_words *w, const struct xd_fault_rule *r)
{
	const struct xd_fault_when *when = &r->when;

	if (r->kind < XD_FAULT_PORT || ((!when->period || when->period >= XD_FAULT_TICK_NS) &&
					(!when->length || when->length >= XD_FAULT_TICK_NS)))
		return true;
	snprintf(w->why, w->size,
		 "'period' and 'length' of this fault need a time of at least %u ms",
		 (unsigned)(XD_FAULT_TICK_NS / 1000000));
	return false;
}

/* Checks fields that depend on each other. */
static bool is_consistent(struct xd_words *w, struct xd_fault_rule *r)
{
	if (!has_long_turns(w, r))
		return false;
	if (r->kind == XD_FAULT_EVENT || (r->kind >= XD_FAULT_PORT && !r->when.period))
		return true;
	if (!r->when.period != !r->when.length) {
		snprintf(w->why, w->size, "'period' and 'length' need each other");
		return false;
	}
	return (r->inject.kind != XT_INJECT_NAK && r->inject.kind != XT_INJECT_RNR) ||
	       xd_fault_select_requests(w, r);
}

static bool parse_rule(struct xd_words *w, const char *first, struct xd_fault_rule *r)
{
	const char *word;

	*r = (struct xd_fault_rule){
		.match = {
			.direction = XD_FAULT_RX | XD_FAULT_TX,
			.qpn = XD_FAULT_ANY,
			.queue = XD_FAULT_ANY,
			.pid = XD_FAULT_ANY,
			.uid = XD_FAULT_ANY,
		},
		.when = { .every = 1, .probability = XD_FAULT_CERTAIN },
	};
	w->given = 0;
	if (!parse_kind(w, first, r))
		return false;
	while ((word = xd_words_next(w)))
		if (!parse_keyword(w, word, r))
			return false;
	return is_consistent(w, r);
}

/* Copies a line for `xroce fault`, with single blanks. */
static void keep_text(struct xd_fault_rule *r, const char *line)
{
	size_t at = 0;

	for (; *line; line += strcspn(line, XD_WORDS_SPACES)) {
		size_t len;

		line += strspn(line, XD_WORDS_SPACES);
		len = strcspn(line, XD_WORDS_SPACES);
		if (!len)
			break;
		at += (size_t)snprintf(r->text + at, sizeof(r->text) - at, "%s%.*s", at ? " " : "",
				       (int)len, line);
	}
}

/* Parses a rule, a seed or nothing. line: at most XD_FAULT_TEXT - 1 characters */
static bool parse_words(struct xd_words *w, char *line, struct xd_fault_list *list)
{
	char copy[XD_FAULT_TEXT];
	const char *first;

	strcpy(copy, line);
	first = strtok_r(line, XD_WORDS_SPACES, &w->rest);
	if (!first)
		return true;
	if (!strcmp(first, "seed")) {
		w->what = first;
		if (!xd_words_number(w, 0, INT64_MAX, &list->seed))
			return false;
		first = xd_words_next(w);
		if (first)
			snprintf(w->why, w->size, "what follows 'seed N' must be separated by ';'");
		return !first;
	}
	if (list->n == XD_FAULT_RULES) {
		snprintf(w->why, w->size, "there are more than %u rules", XD_FAULT_RULES);
		return false;
	}
	if (!parse_rule(w, first, &list->rule[list->n]))
		return false;
	keep_text(&list->rule[list->n++], copy);
	return true;
}

/* Returns the first of a character, or the end. */
static const char *text_find(const char *text, const char *end, char c)
{
	const char *at = memchr(text, c, (size_t)(end - text));

	return at ? at : end;
}

/* Parses the rules of a line, which are separated by ';'. */
static bool text_parse_line(struct xd_words *w, const char *text, const char *end,
			    struct xd_fault_list *list)
{
	char copy[XD_FAULT_TEXT];
	const char *rule_end;
	size_t len;

	end = text_find(text, end, '#');
	for (; text < end; text = rule_end + 1) {
		rule_end = text_find(text, end, ';');
		len = (size_t)(rule_end - text);
		if (len >= sizeof(copy) || memchr(text, 0, len)) {
			snprintf(w->why, w->size, "a rule has at most %zu characters, and no NUL",
				 sizeof(copy) - 1);
			return false;
		}
		memcpy(copy, text, len);
		copy[len] = 0;
		if (!parse_words(w, copy, list))
			return false;
	}
	return true;
}

int xd_fault_parse(const char *text, uint32_t length, struct xd_fault_list *list, char *why,
		   uint32_t size)
{
	const char *end = text + length, *line_end;
	char reason[XR_WHY_MAX - 32];
	struct xd_words w = { .why = reason, .size = sizeof(reason) };

	list->n = 0;
	list->seed = 0;
	for (unsigned number = 1; text < end; number++, text = line_end + 1) {
		line_end = text_find(text, end, '\n');
		if (text_parse_line(&w, text, line_end, list))
			continue;
		snprintf(why, size, "line %u: %s", number, reason);
		return -EINVAL;
	}
	return 0;
}
