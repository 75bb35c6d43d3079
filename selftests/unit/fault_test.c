// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fault injection: texts of rules, which packets they select, when they apply, and corruption. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "daemon/faults/faults.h"
#include "daemon/faults/fields.h"
#include "daemon/faults/text/text.h"
#include "daemon/transport/wire/icrc.h"
#include "selftests/lib/pcap.h"
#include "selftests/lib/tap.h"

#define DRAWS 200000

/* A packet without headers, of QP 5 */
static uint8_t zeros[1000];
static const struct xt_frame plain = {
	.seg[0] = { zeros, 1000 },
	.nseg = 1,
	.len = 1000,
	.meta.qpn = 5,
};

/* Rules in force from a text, which must be right */
static struct xd_faults *faults(const char *text)
{
	struct xd_faults *f = xd_faults_new();
	static struct xd_fault_list list;
	char why[XR_WHY_MAX] = "";

	if (xd_fault_parse(text, (uint32_t)strlen(text), &list, why, sizeof(why)))
		TAP_OK(0, "'%s' is right: %s", text, why);
	xd_faults_set(f, NULL, list.seed, list.rule, list.n);
	return f;
}

static struct xd_fault_action sent(struct xd_faults *f, const struct xt_frame *what, uint64_t now)
{
	return xd_faults_next(f, &(struct xd_fault_packet){
					 .direction = XD_FAULT_TX,
					 .frame = what,
					 .now = now,
					 .rules = UINT64_MAX,
				 });
}

/* Draws at the time 0. */
static struct xd_fault_action next(struct xd_faults *f)
{
	return sent(f, &plain, 0);
}

static bool near(unsigned got, double want)
{
	return got > want * .9 - 20 && got < want * 1.1 + 20;
}

static void test_rates(void)
{
	struct xd_faults *f = faults("drop prob 1%; dup prob 0.02; corrupt prob 5e-3\n"
				     "reorder prob 5%; delay 1ms prob 10%; seed 7");
	unsigned dropped = 0, duplicated = 0, corrupted = 0, delayed = 0, reordered = 0, wrong = 0,
		 i;

	for (i = 0; i < DRAWS; i++) {
		struct xd_fault_action action = next(f);

		dropped += !action.copies;
		duplicated += action.copies == 2;
		corrupted += !!action.flips;
		delayed += action.delay_ns[0] >= 1000000;
		reordered += action.delay_ns[0] % 1000000 != 0;
		wrong += action.copies > 2 || action.flips > 3 ||
			 (!action.copies && action.flips) || action.delay_ns[0] > 1050000 ||
			 action.hit != (action.copies != 1 || action.flips || action.delay_ns[0]);
	}
	TAP_OK(near(dropped, DRAWS * .01), "1 %% dropped: %u", dropped);
	TAP_OK(near(duplicated, DRAWS * .02), "2 %% duplicated: %u", duplicated);
	TAP_OK(near(corrupted, DRAWS * .005), "0.5 %% corrupted: %u", corrupted);
	TAP_OK(near(delayed, DRAWS * .1), "10 %% delayed: %u", delayed);
	TAP_OK(near(reordered, DRAWS * .05), "5 %% reordered: %u", reordered);
	TAP_OK(!wrong, "no action is invalid or contradictory");
	xd_faults_free(f);
}

static void test_rare(void)
{
	struct xd_faults *f = faults("drop prob 1e-6");
	unsigned dropped = 0;

	for (unsigned i = 0; i < 20000000; i++)
		dropped += !next(f).copies;
	TAP_OK(dropped >= 5 && dropped <= 45, "one in a million dropped: %u of 20 million",
	       dropped);
	xd_faults_free(f);
}

static void test_bursts(void)
{
	struct xd_faults *f = faults("drop burst 0.1% 10%");
	unsigned dropped = 0, bursts = 0, i;
	bool before = false, now;

	for (i = 0; i < DRAWS; i++, before = now) {
		now = !next(f).copies;
		dropped += now;
		bursts += now && !before;
	}
	TAP_OK(near(dropped, DRAWS * .1 / 10.1), "losses in bursts: %u", dropped);
	TAP_OK(near(bursts, dropped / 10.), "%u bursts of 10 packets on average", bursts);
	xd_faults_free(f);
}

/* Returns the packets of the first n that are dropped, as bits. */
static uint64_t dropped(const char *rules, unsigned n)
{
	struct xd_faults *f = faults(rules);
	uint64_t bits = 0;

	for (unsigned i = 0; i < n; i++)
		bits |= (uint64_t)!next(f).copies << i;
	xd_faults_free(f);
	return bits;
}

static void test_counts(void)
{
	struct xd_fault_hits hits;
	struct xd_faults *f = faults("drop after 2 times 1");
	uint64_t owner;

	TAP_OK(dropped("drop", 8) == 0xff, "a rule without conditions applies to each packet");
	TAP_OK(dropped("drop after 5 times 3", 20) == 0xe0, "after 5 packets, 3 times");
	TAP_OK(dropped("drop every 4", 12) == 0x111, "every fourth packet");
	TAP_OK(dropped("drop after 1 every 3 times 2", 20) == 0x12, "all of them");
	TAP_OK(dropped("drop times 1; drop times 1", 20) == 3,
	       "the second rule sees what the first left");
	for (int i = 0; i < 10; i++)
		next(f);
	TAP_OK(xd_faults_at(f, 0, &hits, &owner) && hits.seen == 10 && hits.hits == 1 &&
		       !xd_faults_at(f, 1, &hits, &owner),
	       "packets and hits are counted");
	xd_faults_free(f);
}

static void test_times(void)
{
	struct xd_faults *f = faults("drop period 10s length 200ms");
	static const struct {
		uint64_t ms;
		bool drop;
	} rows[] = {
		{ 5, true }, { 204, true }, { 205, false }, { 10004, false }, { 10005, true }
	};
	unsigned wrong = 0;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		wrong += !sent(f, &plain, rows[i].ms * 1000000).copies != rows[i].drop;
	TAP_OK(!wrong, "a period begins with the first packet");
	xd_faults_free(f);

	f = faults("rate 8mbit"); /* 1000 bytes take 1 ms */
	TAP_OK(sent(f, &plain, 5000000).delay_ns[0] == 1000000 &&
		       sent(f, &plain, 5000000).delay_ns[0] == 2000000 &&
		       sent(f, &plain, 9000000).delay_ns[0] == 1000000,
	       "packets queue for a link of limited rate");
	xd_faults_free(f);

	f = faults("dup late 3us");
	TAP_OK(next(f).delay_ns[0] == 0 && next(f).delay_ns[1] == 3000, "the second copy is late");
	xd_faults_free(f);
}

/* ---- what is selected --------------------------------------------------------------------- */

static bool hits(const char *rules, const struct xd_fault_packet *packet)
{
	struct xd_faults *f = faults(rules);
	bool hit = xd_faults_next(f, packet).hit;

	xd_faults_free(f);
	return hit;
}

/* The first packet of the capture is an RC SEND Only over IPv4. */
static void test_selection(void)
{
	struct xt_frame f = { .nseg = 1, .meta.qpn = 0x123 };
	struct xd_fault_packet p = { .queue = 3, .frame = &f, .rules = UINT64_MAX };
	char from[64], to[64], other[64];
	struct in_addr addr[2];
	struct pcap capture;
	uint8_t *data;
	uint32_t len;

	if (!pcap_open(&capture, "selftests/pcaps/rc_send.pcap") ||
	    !(data = pcap_next(&capture, &len))) {
		TAP_OK(0, "the capture is there");
		return;
	}
	f.seg[0] = (struct xt_seg){ data, len };
	f.len = len;
	memcpy(addr, data + 14 + 12, sizeof(addr));
	snprintf(from, sizeof(from), "drop peer %s", inet_ntoa(addr[0]));
	snprintf(to, sizeof(to), "drop peer %s", inet_ntoa(addr[1]));
	snprintf(other, sizeof(other), "drop peer ::%s", inet_ntoa(addr[0]));

	p.direction = XD_FAULT_RX;
	TAP_OK(hits("drop rx", &p) && !hits("drop tx", &p) && hits("drop", &p), "a direction");
	TAP_OK(hits("drop qp 0x123", &p) && !hits("drop qp 292", &p), "a QP");
	TAP_OK(hits("drop queue 3", &p) && !hits("drop queue 0", &p), "a queue");
	TAP_OK(hits("drop opcode SEND_ONLY", &p) && hits("drop opcode rc_send_only", &p) &&
		       hits("drop opcode 4", &p) && hits("drop opcode ACK opcode SEND_ONLY", &p) &&
		       !hits("drop opcode UD_SEND_ONLY", &p) && !hits("drop opcode ACK", &p),
	       "opcodes");
	TAP_OK(hits("drop opcode send", &p) && hits("drop opcode RC-Send-Only", &p) &&
		       !hits("drop opcode SEND_ONLY_IMM", &p) && !hits("drop opcode WRITE", &p) &&
		       !hits("drop opcode UC_SEND", &p),
	       "families of opcodes");
	TAP_OK(hits(from, &p) && !hits(to, &p) && !hits(other, &p),
	       "the peer of a received packet");
	p.direction = XD_FAULT_TX;
	TAP_OK(!hits(from, &p) && hits(to, &p), "the peer of a sent packet");
	TAP_OK(!hits("drop mads", &p), "no MAD");
	p.rules = 0;
	TAP_OK(!hits("drop", &p), "a program that the rule does not select");
	pcap_close(&capture);
}

/* Returns the error that a rule injects into the QP of an RC packet with an opcode. */
static struct xt_inject injected(const char *rule, uint32_t direction, uint8_t opcode)
{
	static uint8_t bytes[100] = { [12] = 8, [14] = 0x45 };
	struct xt_frame f = { .seg[0] = { bytes, 100 }, .nseg = 1, .len = 100 };
	const struct xd_fault_packet packet = { direction, 0, &f, 0, UINT64_MAX };
	struct xd_faults *list = faults(rule);
	struct xd_fault_action a;

	bytes[42] = opcode;
	a = xd_faults_next(list, &packet);
	if (a.refusal)
		a.inject = xd_faults_refusal(list, &packet);
	xd_faults_free(list);
	return a.copies == 1 ? a.inject : (struct xt_inject){ 0xff, 0xff };
}

static bool injects(const char *rule, uint32_t direction, uint8_t opcode, struct xt_inject expected)
{
	struct xt_inject got = injected(rule, direction, opcode);

	return got.kind == expected.kind && got.value == expected.value;
}

static void test_injections(void)
{
	const struct xt_inject none = { 0 }, access = { XT_INJECT_NAK, XR_NAK_REMOTE_ACCESS },
			       rnr = { XT_INJECT_RNR, XT_INJECT_OWN_TIMER };

	TAP_OK(injects("nak access", XD_FAULT_RX, XR_OP_WRITE_ONLY, access) &&
		       injects("nak access", XD_FAULT_TX, XR_OP_WRITE_ONLY, none) &&
		       injects("nak access", XD_FAULT_RX, XR_OP_ACK, none) &&
		       injects("nak access", XD_FAULT_RX, XR_CLASS_UC | XR_OP_WRITE_ONLY, none) &&
		       injects("nak access opcode ACK opcode READ_REQUEST", XD_FAULT_RX,
			       XR_OP_WRITE_ONLY, none),
	       "NAKs are for received requests of RC and XRC");
	TAP_OK(injects("rnr", XD_FAULT_RX, XR_OP_SEND_ONLY, rnr) &&
		       injects("rnr", XD_FAULT_RX, XR_OP_SEND_MIDDLE, none) &&
		       injects("rnr", XD_FAULT_RX, XR_OP_WRITE_ONLY, none) &&
		       injects("rnr timer 3", XD_FAULT_RX, XR_OP_WRITE_ONLY_IMM,
			       (struct xt_inject){ XT_INJECT_RNR, 3 }) &&
		       injects("rnr opcode READ_REQUEST", XD_FAULT_RX, XR_OP_READ_REQUEST, rnr),
	       "RNR NAKs are for requests that use a receive, and for those that are named");
	TAP_OK(injects("qp-error status REM_OP_ERR", XD_FAULT_TX, XR_OP_ACK,
		       (struct xt_inject){ XT_INJECT_ERROR, IBV_WC_REM_OP_ERR }) &&
		       injects("cq-error rx", XD_FAULT_RX, XR_OP_ACK,
			       (struct xt_inject){ XT_INJECT_CQ, 0 }) &&
		       injects("event path_mig", XD_FAULT_RX, XR_OP_ACK,
			       (struct xt_inject){ XT_INJECT_EVENT, IBV_EVENT_PATH_MIG }) &&
		       injects("qp-error after 1", XD_FAULT_TX, XR_OP_ACK, none),
	       "errors of QPs and CQs, and events");
}

/* Returns the hits of rules[index] after packets; a letter: a packet, 'R': which is executed */
static uint64_t hits_of(const char *rules, uint32_t index, const char *packets)
{
	static uint8_t bytes[100] = { [12] = 8, [14] = 0x45, [42] = XR_OP_WRITE_ONLY };
	struct xt_frame f = { .seg[0] = { bytes, 100 }, .nseg = 1, .len = 100 };
	const struct xd_fault_packet packet = { XD_FAULT_RX, 0, &f, 0, UINT64_MAX };
	struct xd_faults *list = faults(rules);
	struct xd_fault_hits hits = { 0 };
	uint64_t owner;

	for (; *packets; packets++)
		if (xd_faults_next(list, &packet).refusal && *packets == 'R')
			xd_faults_refusal(list, &packet);
	xd_faults_at(list, index, &hits, &owner);
	xd_faults_free(list);
	return hits.hits;
}

static void test_hits(void)
{
	TAP_OK(hits_of("nak access times 1", 0, "DD") == 0 &&
		       hits_of("nak access times 1", 0, "DRDR") == 1 &&
		       hits_of("nak access after 1", 0, "DRDR") == 1,
	       "rules of NAKs count requests that are executed");
	TAP_OK(hits_of("nak access every 2; nak request", 0, "RRR") == 2 &&
		       hits_of("nak access every 2; nak request", 1, "RRR") == 1,
	       "a request has one NAK");
	TAP_OK(hits_of("event PATH_MIG every 2; event COMM_EST", 0, "RRR") == 2 &&
		       hits_of("event PATH_MIG every 2; event COMM_EST", 1, "RRR") == 1,
	       "a packet has one error or event");
	TAP_OK(hits_of("event PATH_MIG; nak access", 0, "R") == 1 &&
		       hits_of("event PATH_MIG; nak access", 1, "R") == 1,
	       "and a NAK besides");
}

/* Returns the errors of n requests of a type, as digits: 0: none, 1: ENOMEM, 2: another one. */
static const char *verb_errors(const char *rules, uint32_t type, unsigned n)
{
	struct xd_faults *f = faults(rules);
	static char text[65];
	unsigned i;

	for (i = 0; i < n; i++) {
		int error = xd_faults_verb(f, type, UINT64_MAX, 0).error;

		text[i] = error == 0 ? '0' : error == -ENOMEM ? '1' : '2';
	}
	text[i] = 0;
	xd_faults_free(f);
	return text;
}

static void test_verbs(void)
{
	const char rules[] = "fail reg_mr ENOMEM after 1 every 2 times 2; slow create_qp 5ms;"
			     "fail any EAGAIN after 6";
	struct xd_faults *f =
		faults("drop; fail reg_mr EIO; slow any 1ms; slow any 1ms jitter 1us");
	struct xd_fault_verb v = xd_faults_verb(f, XR_MSG_CREATE_QP, UINT64_MAX, 0);

	TAP_OK(!strcmp(verb_errors(rules, XR_MSG_REG_MR, 10), "0101000022"),
	       "a rule counts the requests that those before it let pass");
	TAP_OK(!strcmp(verb_errors(rules, XR_MSG_CREATE_QP, 8), "00000022"), "any verb");
	TAP_OK(!v.error && v.delay_ns > 2000000 && v.delay_ns <= 2001000, "delays add up");
	v = xd_faults_verb(f, XR_MSG_REG_MR, 0, 0);
	TAP_OK(!v.error && !v.delay_ns, "rules of other programs");
	TAP_OK(!strcmp(verb_errors("fail reg_mr ENOMEM prob 50%; seed 3", XR_MSG_REG_MR, 40),
		       verb_errors("fail reg_mr ENOMEM prob 50%; seed 3", XR_MSG_REG_MR, 40)),
	       "the same seed gives the same errors");
	xd_faults_free(f);
	f = faults("fail any EIO");
	TAP_OK(!xd_faults_on(f, XD_FAULT_RX | XD_FAULT_TX), "no packet is looked at");
	xd_faults_free(f);
}

/* Returns whether a packet is lost after the rules have been brought to this time. */
static bool lost_at(struct xd_faults *f, uint64_t ms)
{
	struct xd_fault_turns turns;

	xd_faults_tick(f, ms * 1000000, &turns);
	return !sent(f, &plain, ms * 1000000).copies;
}

static void test_port(void)
{
	struct xd_faults *f = faults("port-down period 1s length 100ms after 1 times 2");
	struct xd_fault_hits hits;
	struct xd_fault_turns turns;
	uint64_t owner;

	TAP_OK(xd_faults_tick(f, 1000000, &turns) == 1001000000 && !turns.raised &&
		       turns.changed == 1,
	       "the first turn begins with the rule, the next one is due after the period");
	TAP_OK(!lost_at(f, 50) && lost_at(f, 1001) && lost_at(f, 1100) && !lost_at(f, 1101) &&
		       lost_at(f, 2050) && !lost_at(f, 3050),
	       "packets are lost while the port is down, the second and third time");
	TAP_OK(xd_faults_at(f, 0, &hits, &owner) && hits.seen == 4 && hits.hits == 2,
	       "turns are counted");
	xd_faults_free(f);
	f = faults("port-down");
	TAP_OK(lost_at(f, 1) && lost_at(f, 100000) && xd_faults_active(f, XD_FAULT_PORT) == 1,
	       "without a time the port stays down");
	xd_faults_free(f);
	f = faults("port-down length 5ms");
	TAP_OK(lost_at(f, 1) && !lost_at(f, 7) && !lost_at(f, 100000), "once");
	xd_faults_free(f);
}

static void test_gids(void)
{
	struct xd_faults *f = faults("gid-gone 10.1.2.3; gid-gone fd00::1 length 1ms");
	struct xr_addr gid, other;
	struct xd_fault_turns turns;

	xr_gid_set_ipv4(&gid, htonl(0x0a010203));
	xr_gid_set_ipv4(&other, htonl(0x0a010204));
	xd_faults_tick(f, 1, &turns);
	TAP_OK(xd_faults_active(f, XD_FAULT_GID) == 3 && xd_faults_hide(f, 3, &gid) &&
		       !xd_faults_hide(f, 2, &gid) && !xd_faults_hide(f, 3, &other),
	       "a GID is gone for the programs that the rule selects");
	xd_faults_tick(f, 2000000, &turns);
	TAP_OK(xd_faults_active(f, XD_FAULT_GID) == 1, "and comes back");
	TAP_OK(sent(f, &plain, 0).copies == 1, "packets of other addresses are not lost");
	xd_faults_free(f);
}

static void test_device_events(void)
{
	struct xd_faults *f =
		faults("drop; event DEVICE_FATAL; event LID_CHANGE period 1ms times 2");
	struct xd_fault_turns turns[4];

	for (unsigned i = 0; i < 4; i++)
		xd_faults_tick(f, 1 + i * 1000000, &turns[i]);
	TAP_OK(turns[0].raised == 6 && turns[1].raised == 4 && !turns[2].raised && !turns[3].raised,
	       "events of the device are raised once, or as often as the rule says");
	xd_faults_free(f);
}

static void test_programs(void)
{
	struct xd_faults *f = faults("drop pid 7; drop uid 1000; drop command a.out; drop");
	struct xd_fault_program p = { .client = 1, .pid = 7, .uid = 1001, .command = "b.out" };

	TAP_OK(xd_faults_by_program(f) && xd_faults_of(f, &p) == 9, "a process");
	p = (struct xd_fault_program){ .client = 1, .pid = 8, .uid = 1000, .command = "a.out" };
	TAP_OK(xd_faults_of(f, &p) == 0xe, "a user and a command");
	TAP_OK(xd_faults_of(f, NULL) == 8, "QPs of no program");
	xd_faults_free(f);
}

static void test_seeds(void)
{
	static const char rules[] = "drop prob 30%; corrupt prob 30%; dup prob 30%; seed ";
	char first[100], second[100];
	unsigned same = 0, equal = 0, i;
	struct xd_faults *a, *b, *other;

	snprintf(first, sizeof(first), "%s1", rules);
	snprintf(second, sizeof(second), "%s2", rules);
	a = faults(first);
	b = faults(first);
	other = faults(second);
	for (i = 0; i < 1000; i++) {
		struct xd_fault_action x = next(a), y = next(b), z = next(other);

		same += x.copies == y.copies && x.flips == y.flips && x.flip_seed == y.flip_seed;
		equal += x.copies == z.copies && x.flips == z.flips && x.flip_seed == z.flip_seed;
	}
	TAP_OK(same == 1000, "the same seed gives the same actions");
	TAP_OK(equal < 900, "another seed gives other actions");
	xd_faults_free(a);
	xd_faults_free(b);
	xd_faults_free(other);
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

/* Applies a rule to a packet of a capture. Returns whether its ICRC is right afterwards. */
static bool damage(const char *rules, uint8_t *data, uint32_t len)
{
	uint32_t ip = 14, bth = ip + 20 + 8;
	struct xt_frame f = {
		.seg[0] = { data, len },
		.nseg = 1,
		.len = len,
		.meta = { .magic = XR_META_MAGIC,
			  .ip_version = 4,
			  .ip_off = (uint16_t)ip,
			  .bth_off = (uint16_t)bth,
			  .payload_off = (uint16_t)(bth + XR_BTH_HLEN),
			  .payload_len = (uint16_t)(len - bth - XR_BTH_HLEN - XR_ICRC_LEN) },
	};
	struct xd_faults *list = faults(rules);
	struct xd_fault_action a = sent(list, &f, 0);

	xd_fault_damage(&a, &f);
	xd_faults_free(list);
	return xt_icrc_ok(&f);
}

static void test_fields(void)
{
	static const uint8_t psn[3] = { 0x12, 0x34, 0x56 };
	uint8_t copy[XT_MAX_FRAME], *data;
	struct pcap capture;
	uint32_t len;
	bool wrong;

	if (!pcap_open(&capture, "selftests/pcaps/rc_send.pcap") ||
	    !(data = pcap_next(&capture, &len))) {
		TAP_OK(0, "the capture is there");
		return;
	}
	memcpy(copy, data, len);
	TAP_OK(damage("corrupt field psn 0x123456 icrc right", copy, len) &&
		       !memcmp(copy + 42 + 9, psn, 3) &&
		       bits_differing(copy, data, len - 4) ==
			       bits_differing(copy + 51, data + 51, 3),
	       "a field is overwritten, and the ICRC is right");
	memcpy(copy, data, len);
	TAP_OK(!damage("corrupt field byte 12 7 icrc wrong", copy, len) && copy[42 + 12] == 7,
	       "a byte is overwritten, and the ICRC is wrong");
	memcpy(copy, data, len);
	wrong = damage("corrupt field psn 5; corrupt", copy, len);
	copy[len - 1] ^= 0x80;
	TAP_OK(!wrong && damage("delay 1s", copy, len),
	       "the ICRC of much damage is wrong by one bit, whatever the seed");
	memcpy(copy, data, len);
	TAP_OK(damage("corrupt bits 9 icrc right", copy, len) && !memcmp(copy, data, 42) &&
		       memcmp(copy + 42, data + 42, len - 46),
	       "bits behind the UDP header are flipped, and the ICRC is right");
	memcpy(copy, data, len);
	TAP_OK(damage("corrupt field byte 4000 7", copy, len) && !memcmp(copy, data, len),
	       "a field behind the end of the packet is not written");
	pcap_close(&capture);
}

/* ---- texts that are refused --------------------------------------------------------------- */

static const struct {
	const char *text, *why;
} refused_texts[] = {
	{ "drop prob 1.1", "line 1: 'prob' needs a probability from 0 to 1" },
	{ "drop prob 101%", "'prob'" },
	{ "drop prob nan", "not 'nan'" },
	{ "drop prob 1e-10", "'prob' needs 0 or a probability of at least 1e-9" },
	{ "drop qp 1 rx qp 2", "'qp' may not be repeated" },
	{ "drop rx tx", "'rx' and 'tx' exclude each other" },
	{ "drop prob -1", "not '-1'" },
	{ "drop prob", "'prob' needs" },
	{ "drop burst 1%", "'burst' needs" },
	{ "drop burst 0 1", "above 0" },
	{ "drop qp 0x1000000", "'qp' needs a number from 0 to 16777215" },
	{ "drop opcode FOO", "'opcode' needs an opcode" },
	{ "drop opcode SEND_ON", "not 'SEND_ON'" },
	{ "drop opcode RC_", "not 'RC_'" },
	{ "drop opcode RC", "not 'RC'" },
	{ "drop opcode UD_WRITE", "not 'UD_WRITE'" },
	{ "drop opcode 256", "not '256'" },
	{ "drop peer 10.0.0", "'peer' needs an IPv4 or IPv6 address" },
	{ "drop every 0", "from 1" },
	{ "drop period 1s", "'period' and 'length' need each other" },
	{ "drop period 0s length 0s", "above 0" },
	{ "drop command abcdefghijklmnop", "at most 15 characters" },
	{ "drop jitter 1us", "this fault has no keyword 'jitter'" },
	{ "delay 5", "with a unit" },
	{ "delay 11s", "at most 10s" },
	{ "rate 10", "'rate' needs a rate" },
	{ "corrupt field port 3", "'field' needs opcode" },
	{ "corrupt field psn 0x1000000", "'psn' needs" },
	{ "corrupt icrc maybe", "'right' or 'wrong'" },
	{ "\n\nlose 1", "line 3: there is no fault 'lose'" },
	{ "seed 1 drop", "separated" },
	{ "seed x", "'seed' needs a number" },
	{ "nak", "'nak' needs sequence, request, access" },
	{ "nak tx access", "not 'tx'" },
	{ "nak access tx", "only received requests of RC and XRC (rx) have NAKs" },
	{ "nak access opcode ACK", "only received requests" },
	{ "rnr timer 32", "from 0 to 31" },
	{ "qp-error timer 1", "'timer' needs 'rnr'" },
	{ "qp-error status SUCCESS", "'status' needs a status of enum ibv_wc_status" },
	{ "nak access status FATAL_ERR", "'status' needs 'qp-error'" },
	{ "event WQ_FATAL", "'event' needs an event" },
	{ "event PORT_ERR qp 3", "this fault has no keyword 'qp'" },
	{ "event PORT_ERR length 1s", "this fault has no keyword 'length'" },
	{ "port-down period 1s", "'period' and 'length' need each other" },
	{ "port-down period 2ns length 1ns", "need a time of at least 1 ms" },
	{ "port-down length 999us", "need a time of at least 1 ms" },
	{ "gid-gone 10.1.2.3 period 1s length 1us", "need a time of at least 1 ms" },
	{ "event SM_CHANGE period 1us", "need a time of at least 1 ms" },
	{ "port-down rx", "this fault has no keyword 'rx'" },
	{ "gid-gone 3", "'gid-gone' needs an IPv4 or IPv6 address" },
	{ "fail", "'fail' needs a verb such as reg_mr" },
	{ "fail show EIO", "not 'show'" },
	{ "fail reg_mr", "'fail' needs an error such as ENOMEM" },
	{ "fail reg_mr 12", "not '12'" },
	{ "fail reg_mr EIO qp 5", "this fault has no keyword 'qp'" },
	{ "slow reg_mr", "'slow' needs a time" },
	{ "cq-error bits 3", "this fault has no keyword 'bits'" },
};

static void test_refused_texts(void)
{
	static struct xd_fault_list list;
	char why[XR_WHY_MAX];

	for (size_t i = 0; i < sizeof(refused_texts) / sizeof(refused_texts[0]); i++) {
		const char *text = refused_texts[i].text;
		int err = xd_fault_parse(text, (uint32_t)strlen(text), &list, why, sizeof(why));

		TAP_OK(err == -EINVAL && strstr(why, refused_texts[i].why), "'%s': %s", text,
		       err ? why : "accepted");
	}
}

static void test_texts(void)
{
	static struct xd_fault_list list;
	char why[XR_WHY_MAX], text[XD_FAULT_RULES * 8 + 300] = "";

	TAP_OK(xd_fault_parse("drop\0", 5, &list, why, sizeof(why)) == -EINVAL, "a NUL is refused");
	memset(text, 'x', 256);
	TAP_OK(xd_fault_parse(text, 256, &list, why, sizeof(why)) == -EINVAL &&
		       strstr(why, "at most 255 characters"),
	       "a rule that is too long is refused");
	text[0] = 0;
	for (unsigned i = 0; i <= XD_FAULT_RULES; i++)
		strcat(text, "drop\n");
	TAP_OK(xd_fault_parse(text, (uint32_t)strlen(text), &list, why, sizeof(why)) == -EINVAL &&
		       strstr(why, "line 65: there are more than 64 rules"),
	       "too many rules are refused");
	strcpy(text, "# comment; drop\n\t drop  rx\t prob 1% # ;\n;;\r\n seed 0x10 ;dup");
	TAP_OK(!xd_fault_parse(text, (uint32_t)strlen(text), &list, why, sizeof(why)) &&
		       list.n == 2 && list.seed == 16 &&
		       !strcmp(list.rule[0].text, "drop rx prob 1%") &&
		       !strcmp(list.rule[1].text, "dup"),
	       "comments and blanks are left out");
}

static void test_off(void)
{
	struct xd_faults *f = faults("delay 1s rx");

	TAP_OK(xd_faults_on(f, XD_FAULT_RX) && !xd_faults_on(f, XD_FAULT_TX),
	       "faults can be limited to one direction");
	xd_faults_set(f, NULL, 0, NULL, 0);
	TAP_OK(!xd_faults_on(f, XD_FAULT_RX), "without rules faults are off");
	xd_faults_free(f);
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
	test_rare();
	test_bursts();
	test_counts();
	test_times();
	test_selection();
	test_injections();
	test_hits();
	test_verbs();
	test_port();
	test_gids();
	test_device_events();
	test_programs();
	test_seeds();
	test_damage();
	test_fields();
	test_refused_texts();
	test_texts();
	test_off();
	test_mads();
	return tap_end();
}
