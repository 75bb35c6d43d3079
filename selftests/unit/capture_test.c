// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packet capture: filters, rings with slow and hostile readers, and the history of --on. */
#include <stdlib.h>
#include <string.h>

#include "daemon/cli/capture.h"
#include "daemon/datapath/capture.h"
#include "selftests/lib/tap.h"

#define RING XR_CAPTURE_RING_MIN
#define IP_OFF 14
#define BTH_OFF (IP_OFF + 20 + 8)

static uint8_t bytes[4200];
static struct xt_frame frame;

/* An IPv4 packet from 192.0.2.1 to 192.0.2.2, in two segments */
static void make_frame(uint8_t opcode, uint32_t qpn, uint32_t len)
{
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	memcpy(bytes + IP_OFF + 12, "\xc0\x00\x02\x01\xc0\x00\x02\x02", 8);
	bytes[BTH_OFF] = opcode;
	frame = (struct xt_frame){
		.seg = { { bytes, 100 }, { bytes + 100, len - 100 } },
		.nseg = 2,
		.len = len,
		.meta = { .reason = XR_OK,
			  .ip_version = 4,
			  .ip_off = IP_OFF,
			  .bth_off = BTH_OFF,
			  .qpn = qpn },
	};
}

static struct xr_addr ipv4(uint8_t last)
{
	return (struct xr_addr){ .raw = { [10] = 0xff, 0xff, 0xc0, 0, 2, last } };
}

/* ---- filters --------------------------------------------------------------------------- */

static bool rx(const struct xr_capture_filter *f)
{
	return xd_capture_selects(f, XR_CAPTURE_RX, &frame);
}

static bool tx(const struct xr_capture_filter *f)
{
	return xd_capture_selects(f, XR_CAPTURE_TX, &frame);
}

static void test_filters(void)
{
	struct xr_capture_filter any = { 0 }, sent = { .types = XR_CAPTURE_TX };
	struct xr_capture_filter qp = { .qpns = 2, .qpn = { 5, 7 } };
	struct xr_capture_filter from = { .peers = 1, .peer = { ipv4(1) } };
	struct xr_capture_filter read = { .opcodes = { 1ull << XR_OP_READ_REQUEST } };
	struct xr_capture_filter range = { .reasons = 1ull << XR_KEY_RANGE };

	make_frame(XR_OP_READ_REQUEST, 7, 300);
	TAP_OK(rx(&any) && tx(&any), "an empty filter selects all packets");
	TAP_OK(!rx(&sent) && tx(&sent), "a direction");
	TAP_OK(rx(&qp) && tx(&qp), "one of two QPs");
	qp.qpn[1] = 8;
	TAP_OK(!rx(&qp), "another QP is not selected");
	TAP_OK(rx(&from) && !tx(&from), "the peer is the source of received packets");
	from.peer[0] = ipv4(2);
	TAP_OK(!rx(&from) && tx(&from), "the peer is the destination of sent packets");
	TAP_OK(rx(&read), "an opcode");
	make_frame(XR_OP_ACK, 7, 300);
	TAP_OK(!rx(&read), "another opcode is not selected");
	TAP_OK(!rx(&range) && !tx(&range), "another verdict is not selected");
	frame.meta.reason = XR_KEY_RANGE;
	TAP_OK(rx(&range) && !tx(&range), "a verdict, of received packets only");
	frame.meta.bth_off = frame.meta.ip_off = 0;
	TAP_OK(!rx(&read) && !rx(&from), "packets without known headers are not selected by them");
	frame.meta.bth_off = frame.meta.ip_off = 90;
	frame.seg[0].len = 90;
	TAP_OK(!rx(&read) && !rx(&from), "headers behind the first segment are not read");
}

/* ---- rings ----------------------------------------------------------------------------- */

static uint8_t *memory;
static struct xd_capture *capture;
static struct xr_capture_ring *ring;
static uint64_t consumer;

static void start(uint32_t snap_len)
{
	struct xr_capture_req req = { .ring_size = RING, .snap_len = snap_len };

	free(memory);
	xd_capture_free(capture);
	memory = calloc(1, xd_capture_bytes(2, RING));
	capture = memory ? xd_capture_new(&req, 2, memory) : NULL;
	if (!capture)
		abort();
	ring = (struct xr_capture_ring *)memory + 1;
	consumer = 0;
}

static void put(uint64_t time)
{
	struct xd_packet p = { .frame = &frame, .type = XR_CAPTURE_RX, .queue = 3, .time = time };

	xd_tap_put(&capture->tap[1], &p);
}

/* Reads the next record, as a client does. Returns NULL if there is none. */
static const struct xr_capture_record *get(void)
{
	const uint8_t *data = memory + xd_capture_data(2) + RING;
	const struct xr_capture_record *r;

	while (consumer != ring->producer) {
		r = (const void *)(data + consumer % RING);
		consumer += r->size;
		if (r->type != XR_CAPTURE_PAD)
			return r;
	}
	return NULL;
}

static void test_record(void)
{
	const struct xr_capture_record *r;

	start(0);
	make_frame(XR_OP_ACK, 9, 1001);
	frame.meta.reason = XR_KEY_PD;
	put(77);
	r = get();
	TAP_OK(r && r->type == XR_CAPTURE_RX && r->queue == 3 && r->time == 77 && r->qpn == 9 &&
		       r->reason == XR_KEY_PD && r->bth_off == BTH_OFF,
	       "a record has direction, queue, time, QP and verdict");
	TAP_OK(r && r->captured == 1001 && r->length == 1001 && !memcmp(r + 1, bytes, 1001),
	       "all bytes of all segments are captured");
	start(128);
	put(1);
	r = get();
	TAP_OK(r && r->captured == 128 && r->length == 1001 && !memcmp(r + 1, bytes, 128),
	       "no more than the snap length is captured");
	TAP_OK(!get(), "there is one record");
}

static void test_wrap(void)
{
	const struct xr_capture_record *r;
	uint32_t good = 0, len;

	start(0);
	for (uint32_t i = 0; i < 5000; i++) {
		len = 101 + i * 37 % 4000;
		make_frame(XR_OP_ACK, i, len);
		put(i);
		r = get();
		good += r && r->time == i && r->captured == len && !memcmp(r + 1, bytes, len);
		ring->consumer = consumer;
	}
	TAP_OK(good == 5000, "records of any length pass through the ring unchanged: %u", good);
	TAP_OK(ring->matched == 5000 && !ring->lost, "all are counted, none is lost");
}

static void test_slow_reader(void)
{
	const struct xr_capture_record *r;
	uint32_t n = 0;

	start(0);
	make_frame(XR_OP_ACK, 1, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		put(i);
	while (get())
		n++;
	TAP_OK(n && n < 1000 && ring->lost == 1000 - n && ring->matched == 1000,
	       "a full ring keeps the oldest packets and counts the lost ones: %u of 1000", n);
	put(1000);
	TAP_OK(!get(), "packets are lost until the reader has read some");
	ring->consumer = consumer;
	put(1001);
	r = get();
	TAP_OK(r && r->time == 1001 && r->lost == 1001 - n,
	       "then they are captured again, and the first one says how many were lost");
	put(1002);
	r = get();
	TAP_OK(r && !r->lost, "the next one says that none was");
}

/* The neighbour of the ring is the end of the memory; AddressSanitizer finds writes behind it. */
static void test_hostile_reader(void)
{
	static const uint64_t lies[] = { 1, 7, RING, RING + 1, 1ull << 32, UINT64_MAX, 1ull << 63 };
	uint32_t bad = 0;

	start(0);
	make_frame(XR_OP_ACK, 1, 4000);
	for (uint32_t i = 0; i < 20000; i++) {
		ring->consumer = lies[i % 7] + (i % 3) * ring->producer;
		memset(memory + xd_capture_data(2) + RING + i % 1000, 0xff, 64);
		ring->matched = ring->lost = UINT64_MAX;
		put(i);
		bad += capture->tap[1].producer % 8 != 0;
	}
	TAP_OK(!bad, "a reader that writes anything to the ring does not mislead the daemon");
	TAP_OK(capture->tap[1].matched == 20000, "the daemon's counters are its own");
}

static void test_refused(void)
{
	struct xr_refused r = {
		.time = 5, .length = 1000, .qpn = 3, .queue = 2, .captured = 132, .reason = XR_NO_QP
	};
	const struct xr_capture_record *got;

	start(0);
	memset(r.bytes, 0x5a, sizeof(r.bytes));
	xd_capture_lost(capture, 4);
	xd_capture_refused(capture, &r);
	got = get();
	TAP_OK(got && got->type == XR_CAPTURE_REFUSED && got->reason == XR_NO_QP &&
		       got->length == 1000 && got->captured == 132 && got->qpn == 3 &&
		       got->queue == 2 && !memcmp(got + 1, r.bytes, 132),
	       "a packet that XDP has refused is recorded as far as it is known");
	TAP_OK(got && got->lost == 4 && ring->lost == 4, "lost ones are counted");
	TAP_OK(ring->events[XR_CAPTURE_DROP] == 5, "all are drops");
	capture->filter.types = XR_CAPTURE_RX;
	xd_capture_refused(capture, &r);
	TAP_OK(!get() && ring->events[XR_CAPTURE_DROP] == 6,
	       "those that the filter does not select are drops, too");
}

/* ---- history --------------------------------------------------------------------------- */

static void test_history(void)
{
	struct capture_history h;
	uint8_t block[3000] = { 0 };
	char *text = NULL;
	size_t len = 0, kept;
	FILE *f = open_memstream(&text, &len);
	uint32_t first, last;

	if (!f || !capture_history_open(&h, 1u << 20))
		abort();
	for (uint32_t i = 0; i < 5000; i++) {
		memcpy(block, &i, sizeof(i));
		capture_history_add(&h, block, sizeof(block));
	}
	TAP_OK(capture_history_write(&h, f), "the history is written");
	fclose(f);
	kept = len / sizeof(block);
	memcpy(&first, text, sizeof(first));
	memcpy(&last, text + len - sizeof(block), sizeof(last));
	TAP_OK(kept * sizeof(block) == len && len > (1u << 20) - 2 * sizeof(block) &&
		       len <= 1u << 20 && last == 4999 && first == 5000 - kept,
	       "it has the last blocks that fit, the oldest first: %u to %u", first, last);
	free(text);
	capture_history_close(&h);
}

/* ---- blocks of pcapng -------------------------------------------------------------------- */

/* True if the options of a packet begin with this comment, and have so many bytes. */
static bool has_options(const struct xr_capture_record *r, const char *text, size_t more)
{
	size_t len, text_len = strlen(text);
	const uint8_t *o = capture_options(r, &len);

	return o[0] == 1 && o[2] == text_len && !memcmp(o + 4, text, text_len) &&
	       len == 4 + ((text_len + 3) & ~3u) + more;
}

/* Options of 8 bytes for direction and queue, 16 for the verdict, 4 for the end */
#define OTHERS (8 + 8 + 16 + 4)

static void test_options(void)
{
	struct xr_capture_record r = { .type = XR_CAPTURE_RX, .queue = 3, .qpn = 17 };
	bool twice;

	twice = has_options(&r, "QP 17, queue 3, verdict OK", OTHERS) &&
		has_options(&r, "QP 17, queue 3, verdict OK", OTHERS);
	TAP_OK(twice, "packets of one QP have the same options");
	r.qpn += 64;
	TAP_OK(has_options(&r, "QP 81, queue 3, verdict OK", OTHERS), "those of another do not");
	r.queue = 4;
	TAP_OK(has_options(&r, "QP 81, queue 4, verdict OK", OTHERS), "nor those of another queue");
	r.reason = XR_NO_QP;
	TAP_OK(has_options(&r, "QP 81, queue 4, verdict NO_QP: destination QP does not exist",
			   OTHERS),
	       "nor those with another verdict");
	r.reason = XR_OK;
	r.lost = 5;
	TAP_OK(has_options(&r, "QP 81, queue 4, verdict OK", OTHERS + 12),
	       "one behind lost packets says how many");
	r.lost = 0;
	TAP_OK(has_options(&r, "QP 81, queue 4, verdict OK", OTHERS), "the next one does not");
	r.type = XR_CAPTURE_TX;
	TAP_OK(has_options(&r, "QP 81, queue 4", OTHERS - 16),
	       "a packet that was sent has no verdict");
}

static void test_block(void)
{
	const uint32_t want[] = { 6, 44, 0, 1, 2, 5, 9, 0x04030201, 5, 0xdddddddd, 44 };
	uint8_t block[64];
	const struct pcapng_packet p = {
		.time = 1ull << 32 | 2,
		.captured = 5,
		.length = 9,
		.bytes = (const uint8_t *)"\1\2\3\4\5",
		.options = (const uint8_t *)"\xdd\xdd\xdd\xdd",
		.options_len = 4,
	};

	memset(block, 0xff, sizeof(block));
	TAP_OK(pcapng_packet(block, &p) == sizeof(want) && !memcmp(block, want, sizeof(want)),
	       "the block of a packet has its length at both ends, and zeros behind its bytes");
}

int main(void)
{
	test_filters();
	test_record();
	test_wrap();
	test_slow_reader();
	test_hostile_reader();
	test_refused();
	test_history();
	test_options();
	test_block();
	free(memory);
	xd_capture_free(capture);
	return tap_end();
}
