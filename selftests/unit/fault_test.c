// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fault injection: rates, seeds, corruption of frames, and selection of MADs. */
#include <errno.h>
#include <string.h>

#include "daemon/datapath/fault.h"
#include "daemon/datapath/frame.h"
#include "selftests/lib/pcap.h"
#include "selftests/lib/tap.h"

#define DRAWS 200000

static bool near(unsigned got, unsigned per_mille)
{
	int want = DRAWS / 1000 * per_mille;

	return (int)got > want * 9 / 10 - 20 && (int)got < want * 11 / 10 + 20;
}

static void test_rates(void)
{
	struct xr_fault_config c = {
		.drop = 10,
		.duplicate = 20,
		.reorder = 50,
		.corrupt = 5,
		.delay = 100,
		.delay_us = 1000,
		.seed = 7,
	};
	unsigned dropped = 0, duplicated = 0, corrupted = 0, delayed = 0, reordered = 0, wrong = 0,
		 i;
	struct xd_fault f;

	xd_fault_init(&f, &c);
	for (i = 0; i < DRAWS; i++) {
		struct xd_fault_action action = xd_fault_next(&f);

		dropped += !action.copies;
		duplicated += action.copies == 2;
		corrupted += !!action.flips;
		delayed += action.delay_ns[0] >= 1000000;
		reordered += action.delay_ns[0] % 1000000 != 0;
		wrong += action.copies > 2 || action.flips > 3 ||
			 (!action.copies && action.flips) ||
			 action.delay_ns[0] > 1000000 + XD_REORDER_NS;
	}
	TAP_OK(near(dropped, 10), "10 per mille dropped: %u", dropped);
	TAP_OK(near(duplicated, 20), "20 per mille duplicated: %u", duplicated);
	TAP_OK(near(corrupted, 5), "5 per mille corrupted: %u", corrupted);
	TAP_OK(near(delayed, 100), "100 per mille delayed: %u", delayed);
	TAP_OK(near(reordered, 50), "50 per mille reordered: %u", reordered);
	TAP_OK(!wrong, "no action is invalid or contradictory");
}

static void test_seeds(void)
{
	struct xr_fault_config c = { .drop = 300, .corrupt = 300, .duplicate = 300, .seed = 1 };
	struct xd_fault a, b, other;
	unsigned same = 0, equal = 0, i;

	xd_fault_init(&a, &c);
	xd_fault_init(&b, &c);
	c.seed = 2;
	xd_fault_init(&other, &c);
	for (i = 0; i < 1000; i++) {
		struct xd_fault_action x = xd_fault_next(&a), y = xd_fault_next(&b);
		struct xd_fault_action z = xd_fault_next(&other);

		same += x.copies == y.copies && x.flips == y.flips && x.flip_seed == y.flip_seed;
		equal += x.copies == z.copies && x.flips == z.flips && x.flip_seed == z.flip_seed;
	}
	TAP_OK(same == 1000, "the same seed gives the same actions");
	TAP_OK(equal < 900, "another seed gives other actions");
}

static unsigned bits_differing(const uint8_t *a, const uint8_t *b, unsigned len)
{
	unsigned n = 0, i;

	for (i = 0; i < len; i++)
		n += __builtin_popcount(a[i] ^ b[i]);
	return n;
}

static void test_damage(void)
{
	uint8_t frame[200], before[200] = { 0 };
	unsigned wrong = 0, i, n;

	for (i = 0; i < 10000; i++) {
		struct xd_fault_action action = { .copies = 1, .flips = 1 + i % 3, .flip_seed = i };
		struct xt_frame f = {
			.seg = { { frame, 60 }, { frame + 60, 0 }, { frame + 60, 140 } },
			.nseg = 3,
			.len = 200,
		};

		memset(frame, 0, sizeof(frame));
		xd_fault_damage(&action, &f);
		n = bits_differing(frame, before, sizeof(frame));
		/* The same bit may be flipped twice. */
		wrong += n > action.flips || (action.flips - n) % 2 || memcmp(frame, before, 12);
	}
	TAP_OK(!wrong, "corruption flips the requested number of bits, none in the MAC addresses");
}

static void test_config(void)
{
	struct xr_fault_config c = { .drop = 1001 };
	struct xd_fault f;

	TAP_OK(xd_fault_init(&f, &c) == -EINVAL, "a drop rate above 1000 per mille is refused");
	c = (struct xr_fault_config){ .direction = 8 };
	TAP_OK(xd_fault_init(&f, &c) == -EINVAL, "an invalid direction is refused");
	c = (struct xr_fault_config){ .delay = 1000, .direction = XR_FAULT_RX };
	TAP_OK(!xd_fault_init(&f, &c) && xd_fault_on(&f, XR_FAULT_RX) &&
		       !xd_fault_on(&f, XR_FAULT_TX),
	       "faults can be limited to one direction");
	xd_fault_init(&f, NULL);
	TAP_OK(!xd_fault_on(&f, XR_FAULT_RX) && !xd_fault_on(&f, XR_FAULT_TX),
	       "without a configuration faults are off");
}

/* Returns the number of MADs in a capture. tag: the frames get a VLAN tag; split: two segments. */
static unsigned count_mads(const char *name, bool tag, uint32_t split)
{
	static const uint8_t vlan[4] = { 0x81, 0x00, 0, 5 };
	uint8_t bytes[XT_MAX_FRAME];
	uint32_t len, head = tag ? 4 : 0;
	unsigned mads = 0;
	char path[80];
	uint8_t *data;
	struct pcap p;

	snprintf(path, sizeof(path), "selftests/pcaps/%s.pcap", name);
	if (!pcap_open(&p, path))
		return 0;
	while ((data = pcap_next(&p, &len))) {
		memcpy(bytes, data, 12);
		memcpy(bytes + 12, vlan, head);
		memcpy(bytes + 12 + head, data + 12, len - 12);
		len += head;
		mads += xd_frame_is_cm_mad(&(struct xt_frame){
			.seg = { { bytes, split < len ? split : len },
				 { bytes + split, split < len ? len - split : 0 } },
			.nseg = split < len ? 2 : 1,
			.len = len,
		});
	}
	pcap_close(&p);
	return mads;
}

static void test_mads(void)
{
	unsigned n = 0;

	TAP_OK(count_mads("cm_rping", false, 2000) == 5, "MADs of a connection");
	TAP_OK(count_mads("cm_rping", true, 2000) == 5, "with a VLAN tag");
	TAP_OK(count_mads("cm_rping", false, 62) == 5, "with headers and MAD in two segments");
	TAP_OK(count_mads("cm_udaddy", false, 2000) > 1, "MADs over UD, beside other datagrams");
	n += count_mads("ud_send-v6", false, 2000) + count_mads("ud_send", false, 2000);
	n += count_mads("rc_send", false, 2000) + count_mads("rc_read-v6-tc", false, 2000);
	TAP_OK(!n, "other packets are no MADs");
}

int main(void)
{
	test_rates();
	test_seeds();
	test_damage();
	test_config();
	test_mads();
	return tap_end();
}
