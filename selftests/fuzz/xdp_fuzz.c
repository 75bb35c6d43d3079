// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Compares the builds of the checks: the XDP programs under BPF_PROG_TEST_RUN, user space, and the
 * parser alone. All must refuse a frame for the same reason, and find the same offsets in a valid
 * one.
 *
 * Input: one byte, then the frame. Bit 0 splits the frame into two buffers; bit 1 leaves the IPv4
 * header checksum of an untagged frame as it is.
 */
#include <sched.h>
#include <string.h>

#include "daemon/transport/transport.h"
#include "input.h"
#include "selftests/bpf/fixture.h"
#include "selftests/lib/ipv4.h"
#include "selftests/lib/parse.h"

#define FIRST_BUFFER 256
/* Lengths that BPF_PROG_TEST_RUN accepts */
#define FRAME_LEN_MIN 14
#define FRAME_LEN_MAX 4300

static struct fixture fixture;

/* Each new reason counts as coverage. */
__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t met[XR_REASON_COUNT];

static void start(void)
{
	static bool started;

	if (started)
		return;
	started = true;
	MUST(!unshare(CLONE_NEWNET));
	MUST(fixture_open(&fixture, UINT32_MAX));
}

static bool same_meta(const struct xr_meta *a, const struct xr_meta *b)
{
	return a->ip_version == b->ip_version && a->ip_off == b->ip_off &&
	       a->bth_off == b->bth_off && a->payload_off == b->payload_off &&
	       a->payload_len == b->payload_len && a->qpn == b->qpn;
}

static void compare(const struct verdict *v, const struct verdict *user, enum xr_reason parsed,
		    const struct xr_meta *meta)
{
	MUST(v->reason >= 0 && v->reason < XR_REASON_COUNT);
	MUST(v->intact);
	MUST(v->reason == user->reason && v->action == user->action);
	MUST(v->has_meta == user->has_meta && v->reported == user->reported);
	if (v->reason == XR_NOT_OUR_ADDR)
		MUST(parsed == XR_OK || parsed > XR_NOT_OUR_ADDR);
	else
		MUST((int)parsed == (is_parser_reason(v->reason) ? v->reason : XR_OK));
	if (!v->has_meta)
		return;
	MUST(parsed == XR_OK);
	MUST(v->meta.magic == XR_META_MAGIC && v->meta.reason == v->reason);
	MUST(same_meta(&v->meta, meta));
	MUST(!memcmp(&v->meta, &user->meta, sizeof(v->meta)));
}

static const char *const programs[] = { "xroce", "xroce_frags", "xroce_gso" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream in = { data, size };
	static uint8_t bytes[FRAME_LEN_MAX];
	uint8_t how = input_u8(&in);
	uint32_t len;
	struct verdict v, user;
	struct xt_frame frame;
	enum xr_reason parsed;
	struct input run;

	start();
	if (in.left < FRAME_LEN_MIN || in.left > FRAME_LEN_MAX)
		return 0;
	len = (uint32_t)in.left;
	input_bytes(&in, bytes, len);
	if (!(how & 2))
		ipv4_seal_frame(bytes, len);
	frame = (struct xt_frame){ .nseg = 1, .len = len, .seg = { { bytes, len } } };
	parsed = parse_frame(&frame);
	run = (struct input){ .data = bytes, .len = len };
	if (how & 1 && len > FIRST_BUFFER)
		run.linear = FIRST_BUFFER;
	run.program = FIXTURE_USER;
	MUST(!fixture_run(&fixture, &run, &user));
	/* the first program takes linear frames only */
	for (unsigned p = run.linear || len > 3000; p < sizeof(programs) / sizeof(*programs); p++) {
		run.program = programs[p];
		MUST(!fixture_run(&fixture, &run, &v));
		met[v.reason] = 1;
		compare(&v, &user, parsed, &frame.meta);
	}
	return 0;
}
