// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Filters of `xroce capture` */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xroce/gid.h>
#include <xroce/opcode_names.h>
#include <xroce/reason.h>
#include <xroce/wire.h>

#include "capture.h"

/* ---- names --------------------------------------------------------------------------- */

static const struct {
	const char *name, *text;
	enum xr_action action;
} verdicts[XR_REASON_COUNT] = {
#define X(name, action, text) { #name, text, XR_ACT_##action },
	XR_REASONS(X)
#undef X
};

/* Compares without case; '-' is the same as '_'. */
static bool capture_filter_same(const char *full, const char *name)
{
	for (; *name; name++, full++)
		if (toupper((unsigned char)*name) != *full && !(*name == '-' && *full == '_'))
			return false;
	return !*full;
}

/* ---- values -------------------------------------------------------------------------- */

static bool capture_filter_number(const char *word, uint32_t max, uint32_t *value)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*word))
		return false;
	errno = 0;
	n = strtoull(word, &end, 0);
	*value = (uint32_t)n;
	return !errno && !*end && n <= max;
}

static bool capture_filter_add_qp(struct xr_capture_filter *f, const char *word)
{
	return capture_filter_number(word, XR_QPN_MASK, &f->qpn[f->qpns++]);
}

static bool capture_filter_add_peer(struct xr_capture_filter *f, const char *word)
{
	struct in_addr v4;
	struct xr_addr *peer;

	peer = &f->peer[f->peers++];
	if (inet_pton(AF_INET, word, &v4) != 1)
		return inet_pton(AF_INET6, word, peer->raw) == 1;
	xr_gid_set_ipv4(peer, v4.s_addr);
	return true;
}

static bool add_opcode(struct xr_capture_filter *f, const char *word)
{
	return xr_opcodes_add(f->opcodes, word);
}

/* Verdicts of packets that XDP leaves to the kernel are never captured. */
static bool capture_filter_add_verdict(struct xr_capture_filter *f, const char *word)
{
	for (uint32_t i = 0; i < XR_REASON_COUNT; i++) {
		if (capture_filter_same(verdicts[i].name, word) &&
		    verdicts[i].action != XR_ACT_PASS) {
			f->reasons |= 1ull << i;
			return true;
		}
	}
	return false;
}

static const struct kind {
	const char *name;
	bool (*add)(struct xr_capture_filter *f, const char *word);
	const char *valid;
} kinds[] = {
	{ "qp", capture_filter_add_qp, "the number of a QP, decimal or hexadecimal with 0x" },
	{ "peer", capture_filter_add_peer, "an IPv4 or IPv6 address" },
	{ "opcode", add_opcode, "a number up to 255, or an operation such as WRITE or SEND_LAST" },
	{ "verdict", capture_filter_add_verdict,
	  "a verdict of 'xroce counters' that is not passed to the kernel" },
};

/* The filter has room for this many values. */
static uint32_t capture_filter_room_for(const struct kind *k, const struct xr_capture_filter *f)
{
	if (k->add == capture_filter_add_qp)
		return XR_CAPTURE_QPNS - f->qpns;
	return k->add == capture_filter_add_peer ? XR_CAPTURE_PEERS - f->peers : 1;
}

static const struct {
	const char *name;
	uint32_t type;
} types[] = {
	{ "rx", XR_CAPTURE_RX },
	{ "tx", XR_CAPTURE_TX },
	{ "refused", XR_CAPTURE_REFUSED },
	{ "local", XR_CAPTURE_LOCAL },
};

static bool add_type(struct xr_capture_filter *f, const char *word)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!strcmp(types[i].name, word)) {
			f->types |= types[i].type;
			return true;
		}
	}
	return false;
}

static const struct kind *find_kind(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, word))
			return &kinds[i];
	return NULL;
}

/* A word may have several values, separated by commas. */
static int add_values(const struct cli *cli, const struct kind *k, char *word,
		      struct xr_capture_filter *f)
{
	char *value, *save = NULL;

	for (value = strtok_r(word, ",", &save); value; value = strtok_r(NULL, ",", &save)) {
		if (!capture_filter_room_for(k, f))
			return cli_usage(cli, "'%s' is one value of '%s' too many", value, k->name);
		if (!k->add(f, value))
			return cli_usage(cli, "'%s' is not a valid value of '%s': %s", value,
					 k->name, k->valid);
	}
	return CLI_OK;
}

int capture_filter(const struct cli *cli, char **words, int n, struct xr_capture_filter *f)
{
	const struct kind *k;
	int status = CLI_OK;

	for (int i = 0; i < n && status == CLI_OK; i++) {
		if (add_type(f, words[i]))
			continue;
		k = find_kind(words[i]);
		if (!k)
			return cli_usage(
				cli,
				"'%s' is not a word of a filter: rx, tx, refused, local, qp, peer, "
				"opcode, verdict",
				words[i]);
		if (++i == n || !*words[i])
			return cli_usage(cli, "'%s' needs a value", k->name);
		status = add_values(cli, k, words[i], f);
	}
	return status;
}
