// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Runs frames in all ways and compares the results. Runs the tables of rows. */
#include <stdio.h>
#include <string.h>

#include "daemon/transport/transport.h"
#include "rows.h"
#include "selftests/lib/parse.h"
#include "selftests/lib/tap.h"
#include "suites.h"

#define DOCS "docs/xdp.md"

static const char *action_name(uint32_t action)
{
	static const char *const names[] = { "ABORTED", "DROP", "PASS", "TX", "REDIRECT" };

	return action < sizeof(names) / sizeof(*names) ? names[action] : "unknown";
}

struct expected {
	enum xdp_action action;
	enum xr_reason reason;
	const struct xr_meta *meta; /* NULL: not known */
};

static bool meta_fits(const struct verdict *got, const struct expected *want)
{
	if (want->action != XDP_REDIRECT)
		return !got->has_meta;
	if (!got->has_meta || got->meta.magic != XR_META_MAGIC || got->meta.reason != want->reason)
		return false;
	return !want->meta || !memcmp(&got->meta, want->meta, sizeof(got->meta));
}

static void complain(const struct input *in, const struct verdict *got, const struct expected *want)
{
	const struct xr_meta *m = &got->meta;

	printf("# %s, %u of %u bytes linear: %s %s, wanted %s %s%s%s%s\n", in->program ?: "xroce",
	       in->linear ? in->linear : in->len, in->len, action_name(got->action),
	       reason_name(got->reason), action_name(want->action), reason_name(want->reason),
	       got->intact ? "" : ", frame changed",
	       got->reported == (want->action == XDP_DROP) ? "" : ", wrong report",
	       meta_fits(got, want) ? "" : ", wrong metadata");
	if (got->has_meta)
		printf("# metadata: magic %x reason %s ip %u at %u bth %u payload %u + %u qpn %x\n",
		       m->magic, reason_name(m->reason), m->ip_version, m->ip_off, m->bth_off,
		       m->payload_off, m->payload_len, m->qpn);
}

static bool run_once(struct fixture *f, const struct input *in, const struct expected *want)
{
	struct verdict got;
	int err = fixture_run(f, in, &got);

	if (err) {
		printf("# test run: %s\n", strerror(-err));
		return false;
	}
	if (got.action == want->action && got.reason == (int)want->reason && got.intact &&
	    got.reported == (want->action == XDP_DROP) && meta_fits(&got, want))
		return true;
	complain(in, &got, want);
	return false;
}

/* First buffers that end between headers, within headers, and directly behind the parsed headers */
static const uint32_t linear_lens[] = { 14, 17, 20, 34, 41, 47, 54, 62, 75, 90, 101, 102, 103 };

/* With all bytes, and with the fewest that its caller has to give. It has no AF_XDP socket. */
static bool run_user_space(struct fixture *f, struct input *in, const struct expected *want)
{
	bool ok;

	if (want->reason == XR_NO_SOCKET)
		return true;
	in->program = FIXTURE_USER;
	in->linear = 0;
	ok = run_once(f, in, want);
	in->linear = XR_MAX_PARSED < in->len ? XR_MAX_PARSED : in->len;
	return ok & run_once(f, in, want);
}

static bool run_all_ways(struct fixture *f, struct input *in, const struct expected *want)
{
	bool ok = run_once(f, in, want);
	unsigned i;

	in->program = "xroce_gso";
	if (fixture_gso_possible())
		ok &= run_once(f, in, want);
	in->program = "xroce_frags";
	ok &= run_once(f, in, want);
	for (i = 0; i < sizeof(linear_lens) / sizeof(*linear_lens); i++) {
		in->linear = linear_lens[i];
		if (in->linear < in->len)
			ok &= run_once(f, in, want);
	}
	return ok & run_user_space(f, in, want);
}

/* Compares with the user-space build of the parser: same reason, same offsets. */
static bool user_space_agrees(const uint8_t *data, uint32_t len, const struct expected *want)
{
	struct xt_frame frame = { .seg = { { (uint8_t *)data, len } }, .nseg = 1, .len = len };
	enum xr_reason got = parse_frame(&frame);

	if (want->reason == XR_NOT_OUR_ADDR) /* the rest of the frame was not parsed */
		return got == XR_OK || got > XR_NOT_OUR_ADDR;
	if (got != (is_parser_reason(want->reason) ? want->reason : XR_OK)) {
		printf("# the parser in user space returns %s\n", reason_name(got));
		return false;
	}
	if (got != XR_OK || !want->meta)
		return true;
	frame.meta.reason = want->reason;
	return !memcmp(&frame.meta, want->meta, sizeof(frame.meta));
}

bool run_bytes(struct fixture *f, const uint8_t *data, uint32_t len, enum xdp_action action,
	       enum xr_reason reason, const struct xr_meta *meta)
{
	struct expected want = { action, reason, meta };
	struct input in = { .data = data, .len = len };
	bool ok = run_all_ways(f, &in, &want);

	return user_space_agrees(data, len, &want) && ok;
}

bool run_frame(struct fixture *f, const struct frame *frame, enum xdp_action action,
	       enum xr_reason reason)
{
	struct xr_meta meta = {
		.magic = XR_META_MAGIC,
		.reason = reason,
		.ip_version = frame->ip_version,
		.ip_off = frame->ip,
		.bth_off = frame->bth,
		.payload_off = frame->payload,
		.payload_len = frame->payload_len,
		.qpn = frame->qpn,
	};

	return run_bytes(f, frame->data, frame->len, action, reason, &meta);
}

/* Reasons that only the daemon counts */
static bool of_daemon(enum xr_reason reason)
{
	return reason == XR_TOO_LONG || reason == XR_GSO_PACKET || reason == XR_ICRC ||
	       reason == XR_UDP_CHECKSUM;
}

/* The others depend on the state of the fixture (delivery.c). */
static bool needs_no_row(enum xr_reason reason)
{
	return reason == XR_RATE_LIMIT || reason == XR_NO_SOCKET || reason == XR_NO_METADATA ||
	       of_daemon(reason);
}

/* ---- suites -------------------------------------------------------------------- */

static bool has_row[XR_REASON_COUNT];

static void run_table(struct fixture *f, const struct table *t)
{
	static struct frame frame;
	const struct row *row;

	for (row = t->rows; row < t->rows + t->count; row++) {
		frame_build(&row->spec, &frame);
		TAP_OK(run_frame(f, &frame, row->action, row->reason), "%s: %s: %s %s", t->name,
		       row->what, action_name(row->action), reason_name(row->reason));
		has_row[row->reason] = true;
	}
}

void test_tables(struct fixture *f)
{
	static const struct table *const tables[] = {
		&ethernet_table, &network_table, &transport_table, &qp_table,
		&psn_table,	 &key_table,	 &range_table,
	};
	unsigned i, rows = 0;
	bool all = true;

	for (i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		run_table(f, tables[i]);
		rows += tables[i]->count;
	}
	for (i = 0; i < XR_REASON_COUNT; i++) {
		if (has_row[i] || needs_no_row(i))
			continue;
		printf("# no row for %s\n", reason_name(i));
		all = false;
	}
	TAP_OK(all && rows >= 120, "%u rows cover every reason", rows);
}

void test_coverage(void)
{
	bool all = true, foreign = false;
	int i;

	for (i = 0; i < XR_REASON_COUNT; i++) {
		foreign |= of_daemon(i) && reasons_seen[i];
		if (reasons_seen[i] || of_daemon(i))
			continue;
		printf("# no frame for %s\n", reason_name(i));
		all = false;
	}
	TAP_OK(all, "every reason has occurred");
	TAP_OK(!foreign, "the program does not count the reasons of the daemon");
}

void test_docs(void)
{
	static char text[65536], quoted[64];
	FILE *file = fopen(DOCS, "r");
	bool all = true;
	int i;

	if (!TAP_OK(file, DOCS))
		return;
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	for (i = 0; i < XR_REASON_COUNT; i++) {
		snprintf(quoted, sizeof(quoted), "`%s`", reason_name(i));
		if (i == XR_OK || strstr(text, quoted))
			continue;
		printf("# not in " DOCS ": %s\n", quoted);
		all = false;
	}
	TAP_OK(all, DOCS " names every reason");
}
