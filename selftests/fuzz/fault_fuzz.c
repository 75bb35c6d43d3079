// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rules of fault injection. Input: the text of rules up to a NUL, then a frame to which they are
 * applied, as a received and as a sent one.
 */
#include "daemon/faults/faults.h"
#include "daemon/faults/text/text.h"
#include "input.h"

static void check(const struct xd_fault_rule *r)
{
	MUST(r->when.every && r->when.probability <= XD_FAULT_CERTAIN);
	MUST(r->when.enter <= XD_FAULT_CERTAIN && r->when.leave <= XD_FAULT_CERTAIN);
	MUST(r->kind >= XD_FAULT_PORT || !r->when.period == !r->when.length);
	MUST(r->bits <= UINT8_MAX && (r->kind != XD_FAULT_VERB || r->verbs));
	MUST(r->kind != XD_FAULT_RATE || r->rate);
	MUST((r->kind == XD_FAULT_INJECT) == (r->inject.kind != XT_INJECT_NONE));
	MUST(r->inject.kind != XT_INJECT_RNR || r->inject.value <= XT_INJECT_OWN_TIMER);
	MUST(memchr(r->text, 0, sizeof(r->text)) && r->text[0]);
}

static void apply(struct xd_faults *f, uint32_t direction, uint8_t *data, size_t size)
{
	struct xt_frame frame = {
		.seg = { { data, (uint32_t)size / 2 },
			 { data + size / 2, (uint32_t)(size - size / 2) } },
		.nseg = 2,
		.len = (uint32_t)size,
		.meta.qpn = 17,
	};
	struct xd_fault_packet packet = {
		.direction = direction,
		.frame = &frame,
		.rules = UINT64_MAX,
	};
	struct xd_fault_turns turns;
	struct xd_fault_action a;

	for (uint64_t now = 1; now < 4000000; now += 1000001) {
		MUST(xd_faults_tick(f, now, &turns) > now);
		xd_faults_verb(f, XR_MSG_REG_MR, UINT64_MAX, now);
		packet.now = now;
		a = xd_faults_next(f, &packet);
		MUST(direction == XD_FAULT_RX || !a.refusal);
		if (a.refusal)
			xd_faults_refusal(f, &packet);
		MUST(a.copies <= 2 && (a.hit || (a.copies == 1 && !a.flips && !a.delay_ns[0])));
		if (a.flips || a.field.width)
			xd_fault_damage(&a, &frame);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct xd_fault_list list;
	const uint8_t *end = memchr(data, 0, size);
	size_t length = end ? (size_t)(end - data) : size;
	uint8_t *frame = malloc(size - length + 1);
	struct xd_faults *f = xd_faults_new();
	char why[XR_WHY_MAX] = "";

	MUST(f && frame);
	memcpy(frame, data + length, size - length);
	if (xd_fault_parse((const char *)data, (uint32_t)length, &list, why, sizeof(why))) {
		MUST(why[0] && memchr(why, 0, sizeof(why)));
	} else {
		MUST(list.n <= XD_FAULT_RULES);
		for (uint32_t i = 0; i < list.n; i++)
			check(&list.rule[i]);
		xd_faults_set(f, NULL, list.seed, list.rule, list.n);
		apply(f, XD_FAULT_RX, frame, size - length);
		apply(f, XD_FAULT_TX, frame, size - length);
	}
	xd_faults_free(f);
	free(frame);
	return 0;
}
