// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The log of packets that were sent again, as a table of events: what is in it then, and what an
 * ACK says of the packets behind. A record is written PSN-END, with "!" if something that was sent
 * later is answered.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/transport/rc/sent.h"
#include "selftests/lib/tap.h"

#define BASE 0xfffffff0 /* PSNs of a QP have 32 bits, and wrap */
#define EVENTS 6

enum what { EV_END, EV_SENT, EV_READ, EV_PROBE, EV_ANSWERED, EV_ACKED };

struct event {
	enum what what;
	uint32_t psn, end;
	uint32_t next; /* first PSN that was not sent yet */
};

struct row {
	const char *name;
	struct event events[EVENTS];
	const char *left;
	uint32_t horizon; /* after ACKED */
	bool kept, dropped;
};

/* clang-format off */
#define SENT(psn, end, next) { EV_SENT, psn, end, next }
#define READ(psn, end, next) { EV_READ, psn, end, next }
#define PROBE(psn, end, next) { EV_PROBE, psn, end, next }
#define ANSWERED(psn) { EV_ANSWERED, psn, 0, 0 }
#define ACKED(psn) { EV_ACKED, psn, 0, 0 } /* all before it */

static const struct row rows[] = {
	/* the order of transmissions */
	{ .name = "a response to a packet that was sent again passes what was sent again before it",
	  .events = { SENT(40, 41, 50), READ(10, 12, 50), READ(20, 21, 50), ANSWERED(20) },
	  .left = "40-41! 10-12! 20-21" },
	{ .name = "... but not what was sent again after it",
	  .events = { READ(20, 21, 50), READ(10, 12, 50), ANSWERED(20) }, .left = "20-21 10-12" },
	{ .name = "a response to a packet that was new then passes what was sent again before it",
	  .events = { READ(10, 12, 50), READ(20, 21, 60), ANSWERED(55) }, .left = "10-12! 20-21" },
	{ .name = "the first new packet does",
	  .events = { READ(10, 12, 50), ANSWERED(50) }, .left = "10-12!" },
	{ .name = "packets that were new before say nothing",
	  .events = { READ(10, 12, 50), ANSWERED(49) }, .left = "10-12" },
	{ .name = "a part of what was sent again says nothing of the rest",
	  .events = { READ(10, 12, 50), ANSWERED(11) }, .left = "10-12" },
	{ .name = "an ACK of what was sent again passes what was sent again before it",
	  .events = { READ(30, 32, 50), SENT(20, 21, 50), READ(34, 35, 50), ACKED(30) },
	  .left = "30-32! 34-35", .horizon = 50, .kept = true },
	/* records */
	{ .name = "packets that follow each other are one record",
	  .events = { SENT(10, 11, 50), SENT(11, 12, 50), SENT(12, 13, 50) }, .left = "10-13" },
	{ .name = "a packet that was new comes between them",
	  .events = { SENT(10, 11, 50), SENT(11, 12, 51) }, .left = "10-11 11-12" },
	{ .name = "READ requests have records of their own",
	  .events = { SENT(10, 11, 50), READ(11, 13, 50), READ(13, 15, 50) },
	  .left = "10-11 11-13 13-15" },
	{ .name = "so do probes, and what follows a probe",
	  .events = { SENT(10, 11, 50), PROBE(11, 12, 50), SENT(12, 13, 50) },
	  .left = "10-11 11-12 12-13" },
	{ .name = "a record of which a part is answered is not continued",
	  .events = { SENT(10, 11, 50), SENT(11, 12, 50), ACKED(11), SENT(12, 13, 50) },
	  .left = "10-12 12-13", .horizon = 11 },
	/* what an ACK says of the packets behind */
	{ .name = "an ACK covers more than was sent again, but not all: one is lost",
	  .events = { SENT(10, 11, 50), ACKED(30) }, .left = "", .horizon = 50, .kept = true },
	{ .name = "an ACK covers just what was sent again: the next one is missing",
	  .events = { SENT(10, 11, 50), SENT(11, 12, 50), ACKED(12) }, .left = "",
	  .horizon = 50, .dropped = true },
	{ .name = "an ACK covers all that was sent before: nothing is known of the rest",
	  .events = { SENT(10, 11, 50), ACKED(50) }, .left = "", .horizon = 50 },
	{ .name = "an ACK covers a part of what was sent again: the rest may be under way",
	  .events = { SENT(10, 11, 50), SENT(11, 12, 50), ACKED(11) }, .left = "10-12",
	  .horizon = 11 },
	{ .name = "an ACK covers more than a probe: it may be to what was sent first",
	  .events = { READ(40, 41, 50), PROBE(10, 11, 50), ACKED(30) }, .left = "40-41",
	  .horizon = 30, .kept = true },
	{ .name = "an ACK covers just a probe: the next one is missing",
	  .events = { PROBE(10, 11, 50), ACKED(11) }, .left = "", .horizon = 50, .dropped = true },
	{ .name = "an ACK of two records: the later one counts",
	  .events = { SENT(10, 11, 50), SENT(20, 21, 60), ACKED(21) }, .left = "",
	  .horizon = 60, .dropped = true },
	{ .name = "nothing was sent again", .events = { ACKED(30) }, .left = "", .horizon = 30 },
};
/* clang-format on */

static void send(struct xt_sent_log *l, const struct event *e, uint32_t unacked)
{
	const struct xt_sent s = {
		.psn = BASE + e->psn,
		.end = BASE + e->end,
		.next = BASE + e->next,
		.read = e->what == EV_READ,
		.probe = e->what == EV_PROBE,
	};

	xt_sent_add(l, NULL, &s, unacked);
}

static void print(const struct xt_sent_log *l, char *text)
{
	const struct xt_sent *s;

	*text = '\0';
	for (uint32_t i = 0; i < l->count; i++) {
		s = &l->sent[i];
		text += sprintf(text, "%s%u-%u%s", i ? " " : "", s->psn - BASE, s->end - BASE,
				s->passed ? "!" : "");
	}
}

static void test_row(const struct row *row)
{
	struct xt_acked acked = { .horizon = BASE };
	struct xt_sent_log l = { 0 };
	uint32_t unacked = BASE;
	char left[200];

	for (const struct event *e = row->events; e->what; e++) {
		switch (e->what) {
		case EV_ANSWERED:
			xt_sent_answered(&l, BASE + e->psn);
			break;
		case EV_ACKED:
			unacked = BASE + e->psn;
			acked = xt_sent_acked(&l, unacked);
			break;
		default:
			send(&l, e, unacked);
			break;
		}
	}
	print(&l, left);
	TAP_OK(!strcmp(left, row->left), "%s: %s", row->name, left);
	if (row->horizon)
		TAP_OK(acked.horizon == BASE + row->horizon && acked.kept == row->kept &&
			       acked.dropped == row->dropped,
		       "... horizon %u%s%s", acked.horizon - BASE, acked.kept ? ", kept" : "",
		       acked.dropped ? ", dropped" : "");
}

static void test_find(void)
{
	struct xt_sent_log l = { 0 };
	struct xt_sent *s, renewed;

	send(&l, &(struct event)READ(10, 12, 50), BASE);
	send(&l, &(struct event)SENT(20, 21, 50), BASE);
	send(&l, &(struct event)PROBE(10, 12, 50), BASE);
	s = xt_sent_find(&l, BASE + 11, BASE + 12);
	TAP_OK(s && s->probe, "the latest record of a PSN is found");
	TAP_OK(!xt_sent_find(&l, BASE + 12, BASE + 20) && xt_sent_find(&l, BASE + 12, BASE + 21),
	       "a record is found by any of its PSNs, and by no other");
	renewed = *s;
	renewed.psn++;
	xt_sent_add(&l, s, &renewed, BASE);
	s = xt_sent_find(&l, BASE + 11, BASE + 12);
	TAP_OK(l.count == 3 && s && s->psn == BASE + 11,
	       "a new record of a READ request replaces the old one");
}

static void test_full(void)
{
	struct xt_sent_log l = { 0 };

	for (uint32_t i = 0; i < XT_SENT + 2; i++)
		send(&l, &(struct event)READ(2 * i, 2 * i + 1, 50), BASE);
	TAP_OK(l.count == XT_SENT && !xt_sent_find(&l, BASE, BASE + 3) &&
		       xt_sent_find(&l, BASE + 4, BASE + 5),
	       "a full log drops the oldest record");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		test_row(&rows[i]);
	test_find();
	test_full();
	return tap_end();
}
