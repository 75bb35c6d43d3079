// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Delivery of packets that were checked: sockets, metadata, the limit on NAKs. Also QP 1. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rows.h"
#include "selftests/lib/tap.h"
#include "suites.h"

static bool run_spec(struct fixture *f, const struct spec *spec, enum xdp_action action,
		     enum xr_reason reason)
{
	static struct frame frame;

	frame_build(spec, &frame);
	return run_frame(f, &frame, action, reason);
}

/* Runs one packet through one program, because each run takes a token. Returns the reason. */
static int reason_of(struct fixture *f, const struct spec *spec)
{
	static struct frame frame;
	struct input in = { .data = frame.data };
	struct verdict got;

	frame_build(spec, &frame);
	in.len = frame.len;
	return fixture_run(f, &in, &got) ? -1 : got.reason;
}

static const struct spec valid = {}, forged = { OP(RC(WRITE_ONLY)), .key_xor = 1 };
static const struct spec unreliable = { OP(UC(WRITE_ONLY)), .key_xor = 1 };
static const struct spec stray = { .qp = QP_MISSING };
static const struct spec other = { .patch = { { AT_UDP, 2, 2, 53 } } };

static void test_no_socket(struct fixture *f)
{
	fixture_plug(f, false);
	TAP_OK(run_spec(f, &valid, XDP_DROP, XR_NO_SOCKET), "no socket: a valid packet is dropped");
	TAP_OK(run_spec(f, &forged, XDP_DROP, XR_NO_SOCKET),
	       "no socket: a packet that requires a NAK is dropped");
	TAP_OK(run_spec(f, &stray, XDP_DROP, XR_NO_QP),
	       "no socket: an invalid packet is dropped for its own reason");
	TAP_OK(run_spec(f, &other, XDP_PASS, XR_NOT_ROCE_PORT),
	       "no socket: a packet for the kernel passes");
	fixture_plug(f, true);
	TAP_OK(run_spec(f, &valid, XDP_REDIRECT, XR_OK),
	       "socket added again: a valid packet is redirected");
}

static void test_foreign_metadata(struct fixture *f, const struct spec *spec,
				  enum xdp_action action, enum xr_reason reason, const char *what)
{
	static struct frame frame;
	struct input in = { .data = frame.data, .foreign_meta = 8 };
	struct verdict got = {};
	int err;

	frame_build(spec, &frame);
	in.len = frame.len;
	err = fixture_run(f, &in, &got);
	TAP_OK(!err && got.action == action && got.reason == (int)reason && got.intact,
	       "metadata of another program: %s: %s", what, reason_name(got.reason));
}

/* ---- queue pair 1 ---------------------------------------------------------------- */

#define TO_GSI QPN(XR_GSI_QPN)
static const struct spec mad = { OP(UD(SEND_ONLY)), TO_GSI, .qkey_xor = TEST_QKEY ^ XR_GSI_QKEY };
static const struct spec mad_wrong_key = { OP(UD(SEND_ONLY)), TO_GSI };
static const struct spec mad_partition = { OP(UD(SEND_ONLY)), TO_GSI, .pkey_xor = 1,
					   .qkey_xor = TEST_QKEY ^ XR_GSI_QKEY };
static const struct spec connected = { OP(RC(SEND_ONLY)), TO_GSI };

/* QP 1 is a QP like others if a program has created it. */
static void test_gsi(struct fixture *f)
{
	const struct xr_qp_entry entry = {
		.qkey = XR_GSI_QKEY,
		.pd = TEST_PD,
		.slot = 1,
		.pkey = XR_DEFAULT_PKEY,
		.path_mtu = TEST_MTU,
		.state = XR_QPS_RTS,
		.type = XR_QPT_UD,
	};
	const struct xr_psn_entry psns = { 0 };

	TAP_OK(run_spec(f, &mad, XDP_DROP, XR_NO_QP),
	       "GSI: packets are dropped if QP 1 is not created");
	TAP_OK(fixture_add_qp(f, XR_GSI_QPN, &entry, &psns) &&
		       run_spec(f, &mad, XDP_REDIRECT, XR_OK),
	       "GSI: a management datagram is redirected");
	TAP_OK(run_spec(f, &mad_wrong_key, XDP_DROP, XR_QKEY),
	       "GSI: a packet with another Q_Key is dropped");
	TAP_OK(run_spec(f, &mad_partition, XDP_DROP, XR_PKEY),
	       "GSI: a packet of another partition is dropped");
	TAP_OK(run_spec(f, &connected, XDP_DROP, XR_QP_TYPE), "GSI: an RC packet is dropped");
	TAP_OK(fixture_del_qp(f, XR_GSI_QPN) && run_spec(f, &mad, XDP_DROP, XR_NO_QP),
	       "GSI: packets are dropped after QP 1 was destroyed");
}

void test_delivery(struct fixture *f)
{
	test_gsi(f);
	test_no_socket(f);
	test_foreign_metadata(f, &valid, XDP_DROP, XR_NO_METADATA, "valid packet");
	test_foreign_metadata(f, &other, XDP_PASS, XR_NOT_ROCE_PORT, "packet for the kernel");
}

/* ---- limit on NAKs ---------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static bool set_bucket(struct fixture *f, uint64_t age_ns, uint64_t tokens)
{
	struct xr_limiter l = { .last_ns = now_ns() - age_ns, .tokens = tokens };

	return fixture_set_limiter(f, &l);
}

static int naks_of(struct fixture *f)
{
	int i, n = 0;

	for (i = 0; i < 6; i++)
		n += reason_of(f, &forged) == XR_KEY_VARIANT;
	return n;
}

/*
 * Returns how many of six packets cause a NAK if the bucket was last filled @age_ns ago. At three
 * tokens per second the bucket gains none meanwhile; attempts that a busy machine delayed are
 * repeated.
 */
static int naks_with(struct fixture *f, uint64_t age_ns, uint64_t tokens)
{
	uint64_t begun;
	int n, tries = 0;

	do {
		begun = now_ns();
		set_bucket(f, age_ns, tokens);
		n = naks_of(f);
	} while (now_ns() - begun > 200000000 && ++tries < 100);
	return n;
}

static void test_bucket(void)
{
	struct fixture f;

	if (!TAP_OK(fixture_open(&f, 3), "3 NAKs per second: program loads"))
		return;
	TAP_OK(naks_of(&f) >= 3, "the bucket is full at first");
	TAP_OK(!naks_with(&f, 0, 0), "an empty bucket allows no NAK");
	TAP_OK(reason_of(&f, &valid) == XR_OK, "valid packets need no token");
	TAP_OK(reason_of(&f, &stray) == XR_NO_QP, "dropped packets need no token");
	TAP_OK(reason_of(&f, &unreliable) == XR_KEY_VARIANT, "unreliable packets need no token");
	set_bucket(&f, 0, 2);
	reason_of(&f, &unreliable);
	reason_of(&f, &forged);
	TAP_OK(reason_of(&f, &forged) == XR_KEY_VARIANT, "two tokens: second NAK is allowed");
	TAP_OK(naks_with(&f, 0, 2) == 2, "two tokens: third NAK is not");
	TAP_OK(naks_with(&f, 400000000, 0) == 1, "0.4 s add one token, not two");
	TAP_OK(naks_with(&f, 3600000000000ull, 0) == 3, "an hour adds the tokens of one second");
	TAP_OK(naks_with(&f, 900000000, 3) == 3, "a full bucket stays full");
	/* times 3 is little more than 2^64 */
	TAP_OK(naks_with(&f, UINT64_MAX / 3 + 1, 0) == 3,
	       "a time that overflows adds the tokens of one second");
	fixture_close(&f);
}

static void test_no_naks(void)
{
	struct fixture f;

	if (!TAP_OK(fixture_open(&f, 0), "nak_rate 0: the program loads"))
		return;
	TAP_OK(run_spec(&f, &forged, XDP_DROP, XR_RATE_LIMIT),
	       "nak_rate 0: an invalid key is dropped");
	TAP_OK(run_spec(&f, &valid, XDP_REDIRECT, XR_OK),
	       "nak_rate 0: a valid packet is redirected");
	fixture_close(&f);
}

void test_nak_rate(void)
{
	test_bucket();
	test_no_naks();
}
