// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Rings that direct programs write, from the writer to the reader, which does not trust them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/capture.h"
#include "daemon/cli/capture.h"
#include "selftests/lib/tap.h"

#define RING (1u << 20)
#define NUMBER 5

static uint8_t daemons[8192 + XR_CAPTURE_RING_MIN]; /* a ring of the daemon, which has no packets */
static _Alignas(4096) uint8_t ring[4096 + RING];
static struct xr_capture_ring *const head = (struct xr_capture_ring *)ring;
static struct xd_capture *capture;
static struct capture_rings reader;
static struct capture_direct *direct;
static uint8_t bytes[4000];

/* Reports of contexts are not tested here. */
int cli_client_call(struct cli_client *c, struct xp_call *call)
{
	return -ENOSYS;
}

/* A program prepares the ring, and a command reads it. */
static void start(uint32_t flags)
{
	struct xr_capture_req req = { .ring_size = RING, .flags = flags };
	struct xr_capture_rep rep = {
		.rings = 1,
		.ring_size = XR_CAPTURE_RING_MIN,
		.data = 8192,
		.memory.length = sizeof(daemons),
	};

	xd_capture_close(capture);
	capture_rings_close(&reader);
	memset(ring, 0, sizeof(ring));
	capture = xd_capture_new(&req, 1, ring);
	if (!capture || capture_rings_attach(&reader, &rep, daemons))
		abort();
	capture->tap[0].clock = 0;
	reader.overwrite = flags & XR_CAPTURE_OVERWRITE;
	direct = capture_direct_attach(&reader, ring, RING, NUMBER);
	if (!direct)
		abort();
	head->capture = NUMBER;
}

static void put(uint64_t time, uint32_t len)
{
	const struct xt_frame frame = {
		.seg[0] = { bytes, len },
		.nseg = 1,
		.len = len,
		.meta = { .qpn = 77 },
	};
	struct xd_packet p = {
		.frame = &frame, .type = XR_CAPTURE_RX, .queue = XR_CAPTURE_DIRECT, .time = time
	};

	xd_tap_put(&capture->tap[0], &p);
}

static bool get(struct pcapng_packet *p)
{
	struct capture_run run;

	if (capture_rings_next(&reader, UINT64_MAX, true, &run) || !run.blocks)
		return false;
	pcapng_read(run.blocks, p);
	return pcapng_block(run.blocks, run.len) == run.len;
}

static uint32_t get_all(void)
{
	struct pcapng_packet p;
	uint32_t n = 0;

	while (get(&p))
		n++;
	return n;
}

/* ---- rings that are used as they should be ----------------------------------------------- */

static void test_packets(void)
{
	struct pcapng_packet p = { 0 };
	uint32_t good = 0, len;

	start(0);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 11);
	for (uint32_t i = 1; i <= 5000; i++) {
		len = 60 + i * 37 % 3900;
		put(i, len);
		good += get(&p) && p.time == i && p.captured == len && !memcmp(p.bytes, bytes, len);
	}
	TAP_OK(good == 5000, "packets of any length pass through the ring unchanged: %u", good);
	TAP_OK(p.comment_len == strlen("QP 77, direct, verdict OK") &&
		       !memcmp(p.comment, "QP 77, direct, verdict OK", p.comment_len),
	       "the comment has no queue");
	TAP_OK(capture_rings_matched(&reader) == 5000 && !capture_rings_lost(&reader),
	       "they are counted when they are read");
}

static void test_begin(void)
{
	start(0);
	head->capture = NUMBER - 1;
	put(1, 100);
	TAP_OK(!get_all(), "a ring is not read while it is that of another capture");
	head->consumer = 1;
	head->capture = NUMBER;
	TAP_OK(get_all() == 1 && head->reader == NUMBER,
	       "it is read when the program has prepared it, and says that it is mapped");
	TAP_OK(head->consumer == head->producer, "the indices are those of the reader");
}

static void test_lost(void)
{
	uint32_t n;

	start(0);
	for (uint32_t i = 0; i < 2000; i++)
		put(i, 1000);
	n = get_all();
	capture_direct_count(&reader);
	TAP_OK(n > 500 && n < 2000 && capture_rings_lost(&reader) == 2000 - n &&
		       capture_rings_matched(&reader) == 2000,
	       "packets that the program has lost are counted: %u of 2000 are there", n);
}

static void test_overwrite(void)
{
	struct pcapng_packet p = { 0 };
	uint64_t next;
	uint32_t n = 1;

	start(XR_CAPTURE_OVERWRITE);
	for (uint32_t i = 1; i <= 5000; i++)
		put(i, 1000);
	capture_rings_rewind(&reader);
	if (!get(&p))
		abort();
	for (next = p.time + 1; get(&p) && p.time == next; next++)
		n++;
	TAP_OK(p.time == 5000 && n > 800, "the last packets of a ring that was overwritten: %u", n);
	TAP_OK(capture_rings_matched(&reader) == n, "these are counted");
}

/* ---- what programs could store ----------------------------------------------------------- */

static struct xr_pcapng_packet *block(void)
{
	return (struct xr_pcapng_packet *)(ring + 4096);
}

/* Returns whether a packet passes after the change. */
static bool passes(void (*change)(void), struct pcapng_packet *p)
{
	start(0);
	put(1000, 100);
	change();
	return get(p);
}

static uint8_t *options(void)
{
	return (uint8_t *)(block() + 1) + 100;
}

static void set_interface(void)
{
	block()->interface = 1;
}

static void set_captured(void)
{
	block()->captured = 96;
	block()->original = 90;
}

static void set_length(void)
{
	block()->length = 0x10000000;
}

static void set_last_length(void)
{
	((uint32_t *)block())[block()->length / 4 - 1] += 4;
}

static void set_option(void)
{
	options()[0] = 99;
}

static void set_option_length(void)
{
	options()[2] = options()[3] = 0xff;
}

static void set_flags(void)
{
	uint8_t *flags = options() + 4 + xr_pcapng_padded(options()[2]);

	flags[4] = 3;
}

static void set_no_end(void)
{
	uint32_t *last = (uint32_t *)((uint8_t *)block() + block()->length) - 2;

	*last = XR_PCAPNG_QUEUE;
}

static void set_comment(void)
{
	memcpy(options() + 4, "\033[2J\n\200", 6);
}

static void set_future(void)
{
	block()->time_high = UINT32_MAX;
}

static void test_blocks(void)
{
	static void (*const wrong[])(void) = { set_interface,	set_captured, set_length,
					       set_last_length, set_option,   set_option_length,
					       set_flags,	set_no_end };
	struct pcapng_packet p = { 0 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (passes(wrong[i], &p) || !direct->damaged)
			printf("# change %u passes\n", i);
		else
			n++;
	}
	TAP_OK(n == sizeof(wrong) / sizeof(wrong[0]), "blocks that are not valid damage the ring");
	put(1001, 100);
	TAP_OK(!get_all(), "a damaged ring is not read any more");
	TAP_OK(passes(set_comment, &p) && !memcmp(p.comment, "?[2J??", 6),
	       "text has no control characters");
	TAP_OK(passes(set_future, &p) && p.time < (uint64_t)UINT32_MAX << 32,
	       "times are not in the future");
	start(0);
	put(1000, 100);
	put(900, 100);
	TAP_OK(get(&p) && get(&p) && p.time == 1000, "times do not decrease");
}

static void test_indices(void)
{
	static const uint64_t wrong[] = { 3, 4, RING + 4, 2 * RING, UINT64_MAX - 3 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		start(0);
		head->producer = wrong[i];
		n += !get_all() && direct->damaged;
	}
	TAP_OK(n == sizeof(wrong) / sizeof(wrong[0]), "wrong indices damage the ring");
	start(0);
	head->lost = UINT64_MAX;
	capture_direct_count(&reader);
	TAP_OK(capture_rings_lost(&reader) < UINT64_MAX / 2, "the number of lost ones is limited");
}

int main(void)
{
	test_packets();
	test_begin();
	test_lost();
	test_overwrite();
	test_blocks();
	test_indices();
	xd_capture_close(capture);
	capture_rings_close(&reader);
	return tap_end();
}
