// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every opcode of opcode.h, as a valid packet and with one defect. The expected result follows from
 * the class and the flags of the opcode, so that new opcodes are tested without changes here.
 */
#include <stdio.h>

#include "rows.h"
#include "selftests/lib/tap.h"
#include "suites.h"

/* ---- valid packets --------------------------------------------------------------- */

/* All 256 opcodes over IPv4 and IPv6: known ones pass all checks, the others are refused. */
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

/* ---- packets with one defect ----------------------------------------------------- */

static bool is_reliable(uint8_t opcode)
{
	uint8_t class = opcode & XR_CLASS_MASK;

	return class == XR_CLASS_RC || class == XR_CLASS_XRC;
}

static bool is_datagram(uint8_t opcode)
{
	return (opcode & XR_CLASS_MASK) == XR_CLASS_UD;
}

/* CNPs are accepted for QPs of all types. */
static enum xr_reason of_other_type(uint8_t opcode)
{
	return opcode == XR_OPCODE_CNP ? XR_OK : XR_QP_TYPE;
}

static enum xr_reason of_other_source(uint8_t opcode)
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

static enum xr_reason of_missing_key(uint8_t opcode)
{
	uint16_t flags = opcode_flags(opcode);

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

static const struct defect {
	const char *what;
	struct spec spec;
	enum xr_reason (*reason)(uint8_t opcode);
} defects[] = {
	{ "to a QP of another type", { .qp = QP_UC4 }, of_other_type },
	{ "to a QP that does not exist", { .qp = QP_MISSING }, of_missing_qp },
	{ "from another address than the peer's", { SOURCE4(0x0a090003) }, of_other_source },
	{ "with the P_Key of another partition", { .pkey_xor = 1 }, of_partition },
	{ "to a multicast group", { GROUP_QPN(XR_MULTICAST_QPN) }, of_group },
	{ "with an R_Key that does not exist", { .key = KEY_MISSING }, of_missing_key },
	{ "with a PSN outside of the PSN window", { .psn_off = 3 << 21 }, of_psn },
	{ "with another Q_Key", { .qkey_xor = 1 }, of_qkey },
};

/* Packets with action ANSWER are dropped on unreliable transports. */
static enum xdp_action action_of(uint8_t opcode, enum xr_reason reason)
{
	if (reason == XR_OK || (reason == XR_KEY_INDEX && is_reliable(opcode)))
		return XDP_REDIRECT;
	return XDP_DROP;
}

static bool run_defect(struct fixture *f, const struct defect *defect, uint8_t opcode)
{
	static struct frame frame;
	enum xr_reason reason = defect->reason(opcode);
	struct spec spec = defect->spec;

	spec.opcode_set = true;
	spec.opcode = opcode;
	if (spec.qp == QP_UC4 && (opcode & XR_CLASS_MASK) == XR_CLASS_UC)
		spec.qp = QP_RC4;
	frame_build(&spec, &frame);
	if (run_frame(f, &frame, action_of(opcode, reason), reason))
		return true;
	printf("# opcode 0x%02x %s\n", opcode, defect->what);
	return false;
}

static void test_defect(struct fixture *f, const struct defect *defect)
{
	unsigned opcode, refused = 0;
	bool ok = true;

	for (opcode = 0; opcode < 256; opcode++) {
		if (!opcode_flags(opcode))
			continue;
		ok &= run_defect(f, defect, opcode);
		refused += defect->reason(opcode) != XR_OK;
	}
	TAP_OK(ok && refused, "every opcode %s: %u refused", defect->what, refused);
}

void test_opcodes(struct fixture *f)
{
	unsigned i;

	test_known(f);
	for (i = 0; i < sizeof(defects) / sizeof(*defects); i++)
		test_defect(f, &defects[i]);
}
