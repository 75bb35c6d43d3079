// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packet capture: filters, options of packets, rings from the writer to the reader. */
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/options.h"
#include "daemon/cli/capture.h"
#include "selftests/lib/tap.h"

#define RING XR_CAPTURE_RING_MIN
#define RINGS 2
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
static struct capture_rings reader;

/* capture_rings_open() is not tested here. */
int cli_client_call(struct cli_client *c, struct xp_call *call)
{
	return -ENOSYS;
}

static struct xr_capture_ring *ring(uint32_t i)
{
	return (struct xr_capture_ring *)memory + i;
}

static uint8_t *ring_data(uint32_t i)
{
	return memory + xd_capture_data(RINGS) + (size_t)i * RING;
}

static void start(uint32_t snap_len, uint32_t flags)
{
	struct xr_capture_req req = { .ring_size = RING, .snap_len = snap_len, .flags = flags };
	struct xr_capture_rep rep = {
		.rings = RINGS,
		.ring_size = RING,
		.data = xd_capture_data(RINGS),
		.memory.length = xd_capture_bytes(RINGS, RING),
	};

	xd_capture_close(capture);
	free(memory);
	memory = calloc(1, xd_capture_bytes(RINGS, RING));
	capture = memory ? xd_capture_new(&req, RINGS, memory) : NULL;
	if (!capture)
		abort();
	for (uint32_t i = 0; i < RINGS; i++)
		capture->tap[i].clock = 0;
	if (capture_rings_attach(&reader, &rep, memory))
		abort();
}

static void put_to(uint32_t i, uint64_t time)
{
	struct xd_packet p = { .frame = &frame, .type = XR_CAPTURE_RX, .queue = 3, .time = time };

	xd_tap_put(&capture->tap[i], &p);
}

static void put(uint64_t time)
{
	put_to(1, time);
}

/* Reads the next packet as the command does. Returns false if there is none. */
static bool get(struct pcapng_packet *p)
{
	struct capture_run run;

	if (capture_rings_next(&reader, UINT64_MAX, true, &run) || !run.blocks)
		return false;
	pcapng_read(run.blocks, p);
	return pcapng_block(run.blocks, run.len) == run.len;
}

static bool comment_is(const struct pcapng_packet *p, const char *text)
{
	return p->comment_len == strlen(text) && !memcmp(p->comment, text, p->comment_len);
}

static void test_record(void)
{
	struct pcapng_packet p = { 0 };

	start(0, 0);
	make_frame(XR_OP_ACK, 9, 1001);
	frame.meta.reason = XR_KEY_PD;
	put(77);
	TAP_OK(get(&p) && p.time == 77 && p.flags == XR_PCAPNG_IN && p.xdp_action == XDP_REDIRECT,
	       "a packet has its time, direction and XDP action");
	TAP_OK(comment_is(&p, "QP 9, queue 3, verdict KEY_PD: R_Key belongs to another protection "
			      "domain"),
	       "its comment has QP, queue and verdict: %.*s", (int)p.comment_len, p.comment);
	TAP_OK(p.captured == 1001 && p.original == 1001 && !memcmp(p.bytes, bytes, 1001),
	       "all bytes of all segments are captured");
	TAP_OK(!memcmp(p.bytes + 1001, "\0\0\0", 3), "zeros are behind it");
	start(128, 0);
	put(1);
	TAP_OK(get(&p) && p.captured == 128 && p.original == 1001 && !memcmp(p.bytes, bytes, 128),
	       "no more than the snap length is captured");
	TAP_OK(!get(&p), "there is one packet");
}

static void test_wrap(void)
{
	struct pcapng_packet p;
	uint32_t good = 0, len;

	start(0, 0);
	for (uint32_t i = 0; i < 5000; i++) {
		len = 101 + i * 37 % 4000;
		make_frame(XR_OP_ACK, i, len);
		put(i);
		good += get(&p) && p.time == i && p.captured == len && !memcmp(p.bytes, bytes, len);
	}
	TAP_OK(good == 5000, "packets of any length pass through the ring unchanged: %u", good);
	TAP_OK(ring(1)->matched == 5000 && !ring(1)->lost, "all are counted, none is lost");
}

static void test_slow_reader(void)
{
	struct pcapng_packet p;
	uint32_t n = 0;

	start(0, 0);
	make_frame(XR_OP_ACK, 1, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		put(i);
	while (get(&p))
		n++;
	TAP_OK(n && n < 1000 && ring(1)->lost == 1000 - n && ring(1)->matched == 1000,
	       "a full ring keeps the oldest packets and counts the lost ones: %u of 1000", n);
	put(1001);
	TAP_OK(get(&p) && p.time == 1001 && p.dropped == 1000 - n,
	       "then they are captured again, and the first one says how many were lost");
	put(1002);
	TAP_OK(get(&p) && !p.dropped, "the next one says that none was");
}

/* The neighbour of the ring is the end of the memory; AddressSanitizer finds writes behind it. */
static void test_hostile_reader(void)
{
	static const uint64_t lies[] = { 1, 7, RING, RING + 1, 1ull << 32, UINT64_MAX, 1ull << 63 };
	struct xr_capture_ring *r;
	uint32_t bad = 0;

	for (uint32_t flags = 0; flags <= XR_CAPTURE_OVERWRITE; flags++) {
		start(0, flags);
		make_frame(XR_OP_ACK, 1, 4000);
		r = ring(1);
		for (uint32_t i = 0; i < 20000; i++) {
			r->consumer = lies[i % 7] + (i % 3) * r->producer;
			memset(ring_data(1) + i % 1000, 0xff, 64);
			r->matched = r->lost = r->skip = r->oldest = UINT64_MAX;
			put(i);
			bad += capture->tap[1].producer % 4 != 0;
		}
		bad += capture->tap[1].matched != 20000;
	}
	TAP_OK(!bad, "a reader that writes anything to the ring does not mislead the daemon");
}

static void test_refused(void)
{
	struct xr_refused r = {
		.time = 5, .length = 1000, .qpn = 3, .queue = 2, .captured = 132, .reason = XR_NO_QP
	};
	struct pcapng_packet p = { 0 };

	start(0, 0);
	memset(r.bytes, 0x5a, sizeof(r.bytes));
	xd_capture_lost(capture, 4);
	xd_capture_refused(capture, &r);
	TAP_OK(get(&p) && p.xdp_action == XDP_DROP && p.original == 1000 && p.captured == 132 &&
		       !memcmp(p.bytes, r.bytes, 132) &&
		       comment_is(&p, "QP 3, queue 2, verdict NO_QP: destination QP does not "
				      "exist"),
	       "a packet that XDP has refused is recorded as far as it is known");
	TAP_OK(p.dropped == 4 && ring(1)->lost == 4, "lost ones are counted");
	TAP_OK(ring(1)->events[XR_CAPTURE_DROP] == 5, "all are drops");
	capture->filter.types = XR_CAPTURE_RX;
	xd_capture_refused(capture, &r);
	TAP_OK(!get(&p) && ring(1)->events[XR_CAPTURE_DROP] == 6,
	       "those that the filter does not select are drops, too");
}

/* ---- many packets at once -------------------------------------------------------------- */

/* Returns the number of packets in a run whose times ascend from *time on. */
static uint32_t count_run(const struct capture_run *run, uint64_t *time)
{
	struct pcapng_packet p;
	uint32_t n = 0, len;

	for (size_t at = 0; at < run->len; at += len, n++) {
		len = pcapng_block(run->blocks + at, run->len - at);
		if (!len)
			return 0;
		pcapng_read(run->blocks + at, &p);
		if (p.time < *time)
			return 0;
		*time = p.time;
	}
	return n;
}

/* Reads all packets up to a time. Returns their number, 0 if they are not in order; sets *runs. */
static uint32_t get_all(uint64_t until, uint32_t *runs)
{
	struct capture_run run;
	uint64_t time = 0;
	uint32_t n = 0, more;

	for (*runs = 0; !capture_rings_next(&reader, until, false, &run) && run.blocks; n += more) {
		more = count_run(&run, &time);
		if (!more)
			return 0;
		++*runs;
	}
	return n;
}

/* A batch of packets, each like the one before or different from it in one respect */
#define BATCH 64
static struct xt_frame batch[BATCH];

static void make_batch(uint32_t seed)
{
	for (uint32_t i = 0; i < BATCH; i++) {
		struct xt_frame *f = &batch[i];

		if (!i) {
			make_frame(XR_OP_ACK, 9, 116);
			*f = frame;
		} else {
			*f = f[-1];
		}
		f->seg[0].data = bytes + i;
		switch ((i * 7 + seed) % 11) {
		case 1:
			f->meta.qpn ^= 1;
			break;
		case 2:
			f->meta.reason ^= XR_KEY_PD;
			break;
		case 3: /* the same length, divided otherwise */
			f->seg[0].len = 160 - f->seg[0].len;
			f->seg[1].len = f->len - f->seg[0].len;
			break;
		case 4:
			f->seg[1].len += i % 3;
			f->len += i % 3;
			break;
		case 5: /* as if not all bytes had come */
			f->len++;
			break;
		case 6:
			f->seg[0].len ^= 1;
			break;
		case 7:
			f->seg[1].len ^= 1;
			break;
		}
	}
}

static void put_each(struct xd_tap *t, struct xd_packet p, uint32_t n)
{
	for (; n; n--, p.frame++)
		if (xd_capture_selects(t->filter, p.type, p.frame))
			xd_tap_put(t, &p);
}

/* The same packets, one by one and together, to two rings */
static bool batches_differ(struct xr_capture_filter filter, uint32_t flags, uint32_t snap_len)
{
	struct xd_packet p = { .frame = batch, .type = XR_CAPTURE_RX, .queue = 3 };
	bool differ = false;

	start(snap_len, flags);
	capture->filter = filter;
	capture->tap[0].all = capture->tap[1].all = !filter.qpns;
	for (uint32_t i = 0; i < 100; i++, p.time++) {
		make_batch(i);
		put_each(&capture->tap[0], p, BATCH);
		xd_tap_put_batch(&capture->tap[1], &p, BATCH);
		if (i % 9 == 0) /* there is room again */
			ring(0)->consumer = ring(1)->consumer = ring(0)->producer;
		xd_tap_prefetch(&capture->tap[1]);
		differ |= memcmp(ring(0), ring(1), sizeof(*ring(0))) != 0;
		differ |= memcmp(ring_data(0), ring_data(1), RING) != 0;
	}
	return differ || !ring(0)->matched || (!flags && !filter.qpns && !ring(0)->lost);
}

static void test_batches(void)
{
	const struct xr_capture_filter all = { 0 }, qp = { .qpns = 1, .qpn = { 9 } };

	TAP_OK(!batches_differ(all, 0, 0),
	       "packets of a batch have the same blocks as single ones");
	TAP_OK(!batches_differ(all, 0, 60), "cut ones as well");
	TAP_OK(!batches_differ(qp, 0, 0), "and those that a filter selects");
	TAP_OK(!batches_differ(all, XR_CAPTURE_OVERWRITE, 0), "and in a ring that is overwritten");
}

#define MS 1000000ull

static void test_runs(void)
{
	uint32_t n = 0, runs;

	start(0, 0);
	make_frame(XR_OP_ACK, 1, 300);
	for (uint32_t i = 0; i < 50; i++)
		put(i);
	n = get_all(UINT64_MAX, &runs);
	TAP_OK(n == 50 && runs == 1, "packets of one ring are read at once");
	for (uint32_t i = 0; i < 2000; i++) {
		put(i);
		if (i % 100 == 99)
			n += get_all(UINT64_MAX, &runs);
	}
	TAP_OK(n == 2050 && !ring(1)->lost, "also around the end of the ring: %u", n);
}

static void test_order(void)
{
	struct pcapng_packet p;
	uint32_t n, runs;

	start(0, 0);
	make_frame(XR_OP_ACK, 1, 300);
	put(100 * MS);
	TAP_OK(!capture_rings_mark(&reader, 100 * MS), "at first, older packets may come");
	put(105 * MS);
	n = get_all(capture_rings_mark(&reader, 120 * MS), &runs);
	TAP_OK(n == 1, "packets of one ring that are 20 ms old are read, younger ones are not");
	put_to(0, 103 * MS);
	put_to(0, 124 * MS);
	n = get_all(capture_rings_mark(&reader, 125 * MS), &runs);
	TAP_OK(!n, "nor are those of two rings");
	n = get_all(capture_rings_mark(&reader, 145 * MS), &runs);
	TAP_OK(n == 3 && runs == 3, "they are put in order: %u", n);
	for (uint32_t i = 0; i < 40; i++)
		put_to(i / 4 % 2, (200 + i) * MS);
	n = get_all(UINT64_MAX, &runs);
	TAP_OK(n == 40 && runs == 10, "so many at once as they are behind one another: %u", runs);
	for (uint32_t i = 0; i < 120; i++)
		put((300 + i) * MS);
	TAP_OK(capture_rings_mark(&reader, 301 * MS) == UINT64_MAX,
	       "a ring that is half full does not wait for older ones");
	for (n = 0; get(&p); n++)
		;
	TAP_OK(n == 120 && !ring(1)->lost, "one by one, if the reader wants that");
}

static void test_overwrite(void)
{
	struct capture_run run;
	struct pcapng_packet p;
	uint64_t time = 0;
	uint32_t bad = 0, runs, n;

	for (uint32_t many = 1; many < 2000; many = many * 5 / 4 + 1) {
		start(0, XR_CAPTURE_OVERWRITE);
		for (uint32_t i = 0; i < many; i++) {
			make_frame(XR_OP_ACK, 1, 101 + i * 37 % 1900);
			put(i);
			/* the next packet, of any length, is not written over the oldest ones */
			bad += ring(1)->producer - ring(1)->oldest > RING - XR_CAPTURE_PACKET_MAX;
		}
		bad += ring(1)->lost != 0;
		capture_rings_rewind(&reader);
		bad += capture_rings_next(&reader, UINT64_MAX, false, &run) || !run.blocks;
		if (run.blocks)
			pcapng_read(run.blocks, &p);
		time = p.time;
		n = count_run(&run, &time) + get_all(UINT64_MAX, &runs);
		/* the last ones, and no less than the ring without two of its four parts */
		bad += time != many - 1 && !runs;
		bad += p.time + n != many || (n != many && n * 1100 < RING / 3);
	}
	TAP_OK(!bad, "a ring that is overwritten has the last packets, the oldest first: %u", n);
	TAP_OK(n < 2000, "not all of many");
	xd_capture_close(capture);
	capture = NULL;
	TAP_OK(ring(0)->ended && ring(1)->ended, "the end of a capture is in its rings");
}

static void test_damage(void)
{
	struct xr_pcapng_packet *h = (void *)ring_data(1);
	struct capture_run run;
	uint32_t bad = 0;

	start(0, 0);
	make_frame(XR_OP_ACK, 1, 300);
	put(1);
	put(2);
	h = (void *)ring_data(1);
	for (uint32_t i = 0; i < 32; i++) {
		struct capture_rings copy = reader;

		h->length ^= 1u << i;
		bad += capture_rings_next(&copy, UINT64_MAX, true, &run) == 0 && run.len > RING;
		h->length ^= 1u << i;
		copy = reader;
		h->captured ^= 1u << i;
		bad += i > 8 && capture_rings_next(&copy, UINT64_MAX, true, &run) != -EPROTO;
		h->captured ^= 1u << i;
	}
	TAP_OK(!bad, "blocks with other lengths are noticed");
	ring(1)->producer = RING + 4;
	TAP_OK(capture_rings_next(&reader, UINT64_MAX, false, &run) == -EPROTO && !run.blocks,
	       "and so are indices out of range");
}

/* ---- options ------------------------------------------------------------------------------ */

static struct pcapng_packet options_of(enum xr_capture_type type)
{
	struct xd_packet packet = { .frame = &frame, .type = type, .queue = 3, .time = 1 };
	struct pcapng_packet p = { 0 };

	xd_tap_put(&capture->tap[1], &packet);
	if (!get(&p))
		abort();
	return p;
}

static void test_options(void)
{
	struct pcapng_packet p;

	start(0, 0);
	make_frame(XR_OP_ACK, 17, 300);
	options_of(XR_CAPTURE_RX);
	p = options_of(XR_CAPTURE_RX);
	TAP_OK(comment_is(&p, "QP 17, queue 3, verdict OK"),
	       "packets of one QP have the same options");
	frame.meta.qpn += XD_CAPTURE_KNOWN;
	p = options_of(XR_CAPTURE_RX);
	TAP_OK(comment_is(&p, "QP 273, queue 3, verdict OK"), "those of another do not");
	frame.meta.reason = XR_NO_QP;
	p = options_of(XR_CAPTURE_RX);
	TAP_OK(comment_is(&p, "QP 273, queue 3, verdict NO_QP: destination QP does not exist"),
	       "nor those with another verdict");
	frame.meta.reason = 255;
	p = options_of(XR_CAPTURE_RX);
	TAP_OK(p.comment_len > 30, "a verdict that does not exist is no danger");
	p = options_of(XR_CAPTURE_TX);
	TAP_OK(comment_is(&p, "QP 273, queue 3") && p.flags == XR_PCAPNG_OUT && p.xdp_action == -1,
	       "a packet that was sent has no verdict");
	p = options_of(XR_CAPTURE_LOCAL);
	TAP_OK(comment_is(&p, "QP 273, queue 3, within the host") && p.flags == XR_PCAPNG_OUT,
	       "one within the host says so");
}

/* The longest options must fit, whatever the verdict. */
static void test_longest(void)
{
	struct xd_capture_options o;
	struct xd_packet p = { .frame = &frame, .type = XR_CAPTURE_REFUSED, .queue = 65534 };
	uint32_t longest = 0;

	frame.meta.qpn = XR_QPN_MASK;
	for (uint32_t i = 0; i < XR_REASON_COUNT; i++) {
		frame.meta.reason = (uint8_t)i;
		xd_capture_options(&o, xd_capture_subject(&p), UINT64_MAX);
		longest = o.len > longest ? o.len : longest;
	}
	/* 52 bytes are no text */
	TAP_OK(longest > 100 && longest < 52 + XD_CAPTURE_TEXT_MAX - 4,
	       "no comment is longer than there is room for: %u bytes", longest);
}

int main(void)
{
	test_filters();
	test_record();
	test_wrap();
	test_slow_reader();
	test_hostile_reader();
	test_refused();
	test_batches();
	test_runs();
	test_order();
	test_overwrite();
	test_damage();
	test_options();
	test_longest();
	xd_capture_close(capture);
	free(memory);
	return tap_end();
}
