// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every opcode of wire.h, by itself and with one thing wrong. What it must come to follows from its class
 * and its flags, so that an opcode added there is tested here.
 */
#include <stdio.h>

#include "rows.h"
#include "selftests/lib/tap.h"
#include "suites.h"

/* ---- by itself ------------------------------------------------------------------- */

/* Every opcode there is, IPv4 and IPv6: known ones pass all checks, others do not exist. */
static void test_known(struct fixture *f)
{
	static struct frame frame;
	unsigned opcode, known = 0;
	bool ok = true;

	for (opcode = 0; opcode < 512; opcode++) {
		struct spec spec = { OP(opcode & 0xff), .v6 = opcode >> 8 };
		bool exists = opcode_flags(spec.opcode);

		frame_build(&spec, &frame);
		known += exists;
		if (run_frame(f, &frame, exists ? XDP_REDIRECT : XDP_DROP,
			      exists ? XR_OK : XR_BAD_OPCODE))
			continue;
		printf("# opcode 0x%02x, IPv%u\n", opcode & 0xff, spec.v6 ? 6 : 4);
		ok = false;
	}
	TAP_OK(ok, "all 256 opcodes, %u of them known", known / 2);
}

/* ---- with one thing wrong -------------------------------------------------------- */

static bool is_reliable(uint8_t opcode)
{
	uint8_t class = opcode & XR_CLASS_MASK;

	return class == XR_CLASS_RC || class == XR_CLASS_XRC;
}

static bool is_datagram(uint8_t opcode)
{
	return (opcode & XR_CLASS_MASK) == XR_CLASS_UD;
}

/* Congestion notifications are for any QP, whatever number they bear. */
static enum xr_reason of_other_type(uint8_t opcode)
{
	return opcode == XR_OPCODE_CNP ? XR_OK : XR_QP_TYPE;
}

static enum xr_reason of_stranger(uint8_t opcode)
{
	return is_datagram(opcode) ? XR_OK : XR_WRONG_PEER;
}

static enum xr_reason of_partition(uint8_t opcode)
{
	return XR_PKEY;
}

static enum xr_reason of_missing_qp(uint8_t opcode)
{
	return XR_NO_QP;
}

static enum xr_reason of_group(uint8_t opcode)
{
	return is_datagram(opcode) ? XR_OK : XR_QP_TYPE;
}

/* FLUSH is not offered: the daemon refuses it whatever key it names. */
static enum xr_reason of_missing_key(uint8_t opcode)
{
	uint16_t flags = opcode_flags(opcode);

	if (flags & XR_EXT_FETH)
		return XR_OK;
	return flags & (XR_EXT_RETH | XR_EXT_ATOMICETH) ? XR_KEY_INDEX : XR_OK;
}

static enum xr_reason of_psn(uint8_t opcode)
{
	return is_reliable(opcode) && opcode != XR_OPCODE_CNP ? XR_PSN_WINDOW : XR_OK;
}

static enum xr_reason of_qkey(uint8_t opcode)
{
	return is_datagram(opcode) ? XR_QKEY : XR_OK;
}

static const struct fault {
	const char *what;
	struct spec spec;
	enum xr_reason (*reason)(uint8_t opcode);
} faults[] = {
	{ "to a QP of another type", { .qp = QP_UC4 }, of_other_type },
	{ "to no QP", { .qp = QP_MISSING }, of_missing_qp },
	{ "from a stranger", { SOURCE4(0x0a090003) }, of_stranger },
	{ "of another partition", { .pkey_xor = 1 }, of_partition },
	{ "to a group", { GROUP_QPN(XR_MULTICAST_QPN) }, of_group },
	{ "with an R_Key that is not", { .key = KEY_MISSING }, of_missing_key },
	{ "of neither an old nor a new PSN", { .psn_off = 3 << 21 }, of_psn },
	{ "with another Q_Key", { .qkey_xor = 1 }, of_qkey },
};

/* Reasons that are answered are dropped where there is nobody to answer. */
static enum xdp_action action_of(uint8_t opcode, enum xr_reason reason)
{
	if (reason == XR_OK || (reason == XR_KEY_INDEX && is_reliable(opcode)))
		return XDP_REDIRECT;
	return XDP_DROP;
}

static bool run_fault(struct fixture *f, const struct fault *fault, uint8_t opcode)
{
	static struct frame frame;
	enum xr_reason reason = fault->reason(opcode);
	struct spec spec = fault->spec;

	spec.opcode_set = true;
	spec.opcode = opcode;
	if (spec.qp == QP_UC4 && (opcode & XR_CLASS_MASK) == XR_CLASS_UC)
		spec.qp = QP_RC4;
	frame_build(&spec, &frame);
	if (run_frame(f, &frame, action_of(opcode, reason), reason))
		return true;
	printf("# opcode 0x%02x %s\n", opcode, fault->what);
	return false;
}

static void test_fault(struct fixture *f, const struct fault *fault)
{
	unsigned opcode, refused = 0;
	bool ok = true;

	for (opcode = 0; opcode < 256; opcode++) {
		if (!opcode_flags(opcode))
			continue;
		ok &= run_fault(f, fault, opcode);
		refused += fault->reason(opcode) != XR_OK;
	}
	TAP_OK(ok && refused, "each opcode %s: %u refused", fault->what, refused);
}

void test_opcodes(struct fixture *f)
{
	unsigned i;

	test_known(f);
	for (i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		test_fault(f, &faults[i]);
}
