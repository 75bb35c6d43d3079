// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The verdict on packets in user space: the rows of selftests/bpf, the limit on NAKs, counters,
 * reports of dropped packets, and workers beside threads that change the tables.
 *
 * `verdict_test speed` prints the processor time of a verdict.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/io/memory_tables.h"
#include "daemon/io/verdict.h"
#include "selftests/bpf/rows.h"
#include "selftests/lib/tap.h"

#define SLOTS 256
#define SECOND 1000000000ull
#define START (3600 * SECOND)

static const struct spec valid = { OP(RC(WRITE_ONLY)) },
			 forged = { OP(RC(WRITE_ONLY)), .key_xor = 1 };
static const struct spec unreliable = { OP(UC(WRITE_ONLY)), .key_xor = 1 };
static const struct spec stray = { .qp = QP_MISSING },
			 other = { .patch = { { AT_UDP, 2, 2, 53 } } };

static struct frame frame;

static struct xd_headers headers_of(const struct frame *f)
{
	return (struct xd_headers){ .bytes = f->data, .copied = f->len, .len = f->len };
}

static struct xd_tables *new_tables(uint32_t nak_rate)
{
	struct xd_tables *t;

	if (xd_memory_tables_new(SLOTS, nak_rate, &t) || !test_tables_fill(t)) {
		printf("Bail out! no tables\n");
		exit(1);
	}
	return t;
}

static struct xd_verdict *new_verdict(struct xd_tables *t, uint32_t worker)
{
	struct xd_verdict *v;

	if (xd_verdict_new(t, worker, &v)) {
		printf("Bail out! no verdict\n");
		exit(1);
	}
	return v;
}

/* Returns the reason, or -1 if it does not agree with whether the packet is taken. */
static int reason_at(struct xd_verdict *v, const struct spec *spec, uint64_t now)
{
	struct xd_headers h;
	struct xr_meta meta;
	bool taken;

	frame_build(spec, &frame);
	h = headers_of(&frame);
	taken = xd_verdict(v, &h, now, &meta);
	return taken && meta.reason != XR_OK && meta.reason < XR_PAYLOAD_MTU ? -1 : meta.reason;
}

/* ---- rows --------------------------------------------------------------------------------- */

static bool run_row(struct xd_verdict *v, const struct row *row)
{
	struct xd_headers h;
	struct xr_meta meta;
	bool taken;

	frame_build(&row->spec, &frame);
	h = headers_of(&frame);
	taken = xd_verdict(v, &h, START, &meta);
	if (taken == (row->action == REDIRECT) && meta.reason == row->reason &&
	    (!taken || (meta.bth_off == frame.bth && meta.payload_off == frame.payload &&
			meta.payload_len == frame.payload_len && meta.qpn == frame.qpn)))
		return true;
	printf("# %s: reason %u instead of %u\n", row->what, meta.reason, row->reason);
	return false;
}

static void test_rows(void)
{
	static const struct table *const tables[] = {
		&ethernet_table, &network_table, &transport_table, &qp_table,
		&psn_table,	 &key_table,	 &range_table,
	};
	struct xd_tables *t = new_tables(UINT32_MAX);
	struct xd_verdict *v = new_verdict(t, 0);

	for (unsigned i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		bool ok = true;

		for (unsigned r = 0; r < tables[i]->count; r++)
			ok &= run_row(v, &tables[i]->rows[r]);
		TAP_OK(ok, "%u rows of the table \"%s\"", tables[i]->count, tables[i]->name);
	}
	xd_verdict_free(v);
	xd_memory_tables_free(t);
}

static void test_tables(void)
{
	struct xr_qp_entry qp = test_qp_entry(QP_RC4);
	struct xr_addr addr = gid4(local4);
	struct xd_tables *t = new_tables(UINT32_MAX);
	struct xd_verdict *v = new_verdict(t, 0);
	uint32_t index = XR_KEY_INDEX(test_rkey(KEY_FULL));

	TAP_OK(reason_at(v, &valid, START) == XR_OK, "a WRITE is taken");
	TAP_OK(!xd_tables_del_key(t, index) && reason_at(v, &valid, START) == XR_KEY_INDEX,
	       "no key");
	TAP_OK(!xd_tables_del_key(t, index), "a key that does not exist is deleted");
	qp.slot = SLOTS;
	TAP_OK(!xd_tables_set_qp(t, test_qpn(QP_RC4), &qp) &&
		       reason_at(v, &valid, START) == XR_PSN_WINDOW,
	       "a slot behind the PSN table");
	qp.state = XR_QPS_ERR;
	TAP_OK(!xd_tables_set_qp(t, test_qpn(QP_RC4), &qp) &&
		       reason_at(v, &valid, START) == XR_QP_STATE,
	       "a QP in ERR");
	TAP_OK(!xd_tables_del_qp(t, test_qpn(QP_RC4)) && reason_at(v, &valid, START) == XR_NO_QP,
	       "no QP");
	TAP_OK(!xd_tables_del_addr(t, &addr) && reason_at(v, &valid, START) == XR_NOT_OUR_ADDR,
	       "no address");
	xd_verdict_free(v);
	xd_memory_tables_free(t);
}

/* ---- limit on NAKs ------------------------------------------------------------------------ */

static int naks_at(struct xd_verdict *v, uint64_t now)
{
	int n = 0;

	for (int i = 0; i < 6; i++)
		n += reason_at(v, &forged, now) == XR_KEY_VARIANT;
	return n;
}

static void test_limit(void)
{
	struct xd_tables *t = new_tables(3);
	struct xd_verdict *v = new_verdict(t, 0), *second = new_verdict(t, 1);
	uint64_t now = START;

	TAP_OK(naks_at(v, now) == 3, "3 NAKs per second: the bucket is full at first");
	TAP_OK(reason_at(v, &forged, now) == XR_RATE_LIMIT, "an empty bucket allows no NAK");
	TAP_OK(reason_at(v, &valid, now) == XR_OK && reason_at(v, &stray, now) == XR_NO_QP &&
		       reason_at(v, &unreliable, now) == XR_KEY_VARIANT,
	       "other packets need no token");
	TAP_OK(naks_at(second, now) == 3, "another worker has a bucket of its own");
	now += SECOND * 4 / 10;
	TAP_OK(naks_at(v, now) == 1, "0.4 s add one token");
	now += 3600 * SECOND;
	TAP_OK(naks_at(v, now) == 3, "an hour adds the tokens of one second");
	xd_verdict_free(second);
	xd_verdict_free(v);
	xd_memory_tables_free(t);
	t = new_tables(0);
	v = new_verdict(t, 0);
	TAP_OK(naks_at(v, now) == 0 && reason_at(v, &valid, now) == XR_OK, "nak_rate 0: no NAKs");
	xd_verdict_free(v);
	xd_memory_tables_free(t);
}

/* ---- counters ----------------------------------------------------------------------------- */

static bool counted(struct xd_tables *t, enum xr_reason reason, uint64_t packets, uint64_t bytes)
{
	struct xr_stat stat;

	return !xd_tables_stat(t, reason, &stat) && stat.packets == packets && stat.bytes == bytes;
}

static void test_counters(void)
{
	struct xd_tables *t = new_tables(UINT32_MAX);
	struct xd_verdict *v[3] = { new_verdict(t, 0), new_verdict(t, 1), new_verdict(t, 2) };
	uint32_t len;

	for (int i = 0; i < 3; i++) {
		reason_at(v[i], &valid, START);
		reason_at(v[i], &stray, START);
		reason_at(v[i], &stray, START);
	}
	len = frame.len;
	TAP_OK(counted(t, XR_NO_QP, 6, 6ull * len),
	       "packets and bytes of all workers are added up");
	xd_verdict_free(v[1]);
	xd_verdict_free(v[2]);
	v[1] = new_verdict(t, 1);
	reason_at(v[1], &stray, START);
	TAP_OK(counted(t, XR_NO_QP, 7, 7ull * len), "those of workers that are no more stay");
	reason_at(v[0], &other, START);
	TAP_OK(counted(t, XR_NOT_ROCE_PORT, 1, frame.len) && counted(t, XR_RATE_LIMIT, 0, 0),
	       "each packet is counted under one reason");
	xd_verdict_free(v[0]);
	xd_verdict_free(v[1]);
	xd_memory_tables_free(t);
}

/* ---- reports ------------------------------------------------------------------------------ */

struct reports {
	struct xr_refused last;
	uint32_t n;
	bool ordered;
};

static void on_refused(void *arg, const struct xr_refused *r)
{
	struct reports *reports = arg;

	reports->ordered &= !reports->n || r->time >= reports->last.time;
	reports->last = *r;
	reports->n++;
}

static struct reports take(struct xd_tables *t, uint32_t most, uint64_t *lost)
{
	struct reports r = { .ordered = true };

	*lost = xd_tables_refused(t, most, on_refused, &r);
	return r;
}

static void test_report(struct xd_tables *t, struct xd_verdict *v)
{
	struct xr_refused *last;
	struct reports r;
	uint64_t lost;

	reason_at(v, &stray, START);
	TAP_OK(!take(t, 10, &lost).n && !lost, "no reports unless they are on");
	xd_tables_report_refused(t, true);
	reason_at(v, &other, START);
	reason_at(v, &forged, START);
	TAP_OK(!take(t, 10, &lost).n, "no reports of packets that are taken, or not ours");
	reason_at(v, &stray, START);
	r = take(t, 10, &lost);
	last = &r.last;
	TAP_OK(r.n == 1 && last->reason == XR_NO_QP && last->time == START && last->queue == 5 &&
		       last->length == frame.len && last->qpn == frame.qpn &&
		       last->ip_off == frame.ip && last->bth_off == frame.bth &&
		       last->ip_version == 4 && last->captured == frame.len &&
		       !memcmp(last->bytes, frame.data, frame.len),
	       "a report of a dropped packet");
}

static void test_many_reports(struct xd_tables *t, struct xd_verdict *a, struct xd_verdict *b)
{
	const uint32_t many = 10000;
	uint64_t lost, again;
	struct reports r;
	uint32_t n = 0;

	for (uint32_t i = 0; i < many; i++)
		reason_at(i % 3 ? a : b, &stray, START + i);
	r = take(t, 100, &lost);
	n = r.n;
	TAP_OK(n == 100 && r.ordered && r.last.time == START + 99 && lost > 0 && lost < many,
	       "no more reports than asked for, the oldest first");
	r = take(t, UINT32_MAX, &again);
	TAP_OK(!again && r.ordered && n + r.n + lost == many,
	       "each packet is reported or counted as lost, once");
	xd_tables_report_refused(t, false);
	reason_at(a, &stray, START);
	TAP_OK(!take(t, 10, &lost).n && !lost, "no reports after they are off");
}

static void test_reports(void)
{
	struct xd_tables *t = new_tables(UINT32_MAX);
	struct xd_verdict *v = new_verdict(t, 5), *w = new_verdict(t, 6);

	test_report(t, v);
	test_many_reports(t, v, w);
	xd_verdict_free(v);
	xd_verdict_free(w);
	xd_memory_tables_free(t);
}

/* ---- threads ------------------------------------------------------------------------------ */

#define WORKERS 3
#define ROUNDS 200
#define MANY 500 /* entries that come and go */

struct world {
	struct xd_tables *t;
	bool stop;
	uint64_t packets[WORKERS];
	bool failed[WORKERS], shrunk;
	uint64_t reported;
};

struct worker {
	struct world *world;
	uint32_t number;
};

/* Packets whose entries stay, over IPv4 and IPv6. Then a packet whose QP comes and goes. */
static bool check_some(struct xd_verdict *v, struct frame *f, uint32_t i)
{
	const struct spec v6 = { OP(RC(SEND_ONLY)), .v6 = true };
	struct xd_headers h;
	struct xr_meta meta;
	bool ok;

	frame_build(&valid, f);
	h = headers_of(f);
	ok = xd_verdict(v, &h, START + i, &meta);
	frame_build(&v6, f);
	h = headers_of(f);
	ok &= xd_verdict(v, &h, START + i, &meta);
	frame_build(&valid, f);
	h = headers_of(f);
	f->data[f->bth + 6] = (uint8_t)(i % MANY >> 8);
	f->data[f->bth + 7] = (uint8_t)(i % MANY);
	f->data[f->bth + 5] = 1;
	return ok & (xd_verdict(v, &h, START + i, &meta) || meta.reason == XR_NO_QP);
}

static void *work(void *arg)
{
	const struct worker *me = arg;
	struct world *w = me->world;
	struct xd_verdict *v = new_verdict(w->t, me->number);
	struct frame *f = malloc(sizeof(*f));
	uint32_t i;

	for (i = 0; !__atomic_load_n(&w->stop, __ATOMIC_RELAXED); i++)
		w->failed[me->number] |= !check_some(v, f, i);
	w->packets[me->number] = 3 * (uint64_t)i;
	free(f);
	xd_verdict_free(v);
	return NULL;
}

static void on_report(void *arg, const struct xr_refused *r)
{
	struct world *w = arg;

	w->reported += r->reason == XR_NO_QP;
}

static uint64_t all_packets(struct xd_tables *t)
{
	struct xr_stat stat;
	uint64_t n = 0;

	for (int i = 0; i < XR_REASON_COUNT; i++) {
		xd_tables_stat(t, i, &stat);
		n += stat.packets;
	}
	return n;
}

/* As the control thread does: objects come and go; those that packets name change. */
static void change_tables(struct world *w)
{
	struct xr_key_entry key = test_key_entry(KEY_FULL);
	struct xr_qp_entry qp = test_qp_entry(QP_RC4);
	uint64_t before = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < MANY; i++) {
			key.length += 8;
			__atomic_store_n(&w->t->psns[qp.slot].unacked, i, __ATOMIC_RELAXED);
			xd_tables_set_qp(w->t, 0x10000 + i, &qp);
			xd_tables_set_key(w->t, i, &key);
			xd_tables_set_key(w->t, XR_KEY_INDEX(test_rkey(KEY_FULL)), &key);
			if (i % 16 == 0)
				xd_tables_set_qp(w->t, test_qpn(QP_RC4), &qp);
		}
		for (uint32_t i = 0; i < MANY; i++) {
			xd_tables_del_qp(w->t, 0x10000 + i);
			xd_tables_del_key(w->t, i);
		}
		xd_tables_report_refused(w->t, round % 4 < 2);
		w->reported += xd_tables_refused(w->t, UINT32_MAX, on_report, w);
		w->shrunk |= all_packets(w->t) < before;
		before = all_packets(w->t);
	}
}

static void test_threads(void)
{
	struct world w = { .t = new_tables(UINT32_MAX) };
	struct worker worker[WORKERS];
	pthread_t thread[WORKERS];
	bool failed = false;
	uint64_t n = 0;

	for (uint32_t i = 0; i < WORKERS; i++) {
		worker[i] = (struct worker){ &w, i };
		pthread_create(&thread[i], NULL, work, &worker[i]);
	}
	change_tables(&w);
	__atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < WORKERS; i++) {
		pthread_join(thread[i], NULL);
		failed |= w.failed[i];
		n += w.packets[i];
	}
	printf("# %llu packets, %llu reports\n", (unsigned long long)n,
	       (unsigned long long)w.reported);
	TAP_OK(!failed, "workers beside a thread that changes the tables: every verdict is right");
	TAP_OK(!w.shrunk && all_packets(w.t) == n, "every packet is counted once");
	xd_memory_tables_free(w.t);
}

/* ---- by hand ------------------------------------------------------------------------------ */

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

/* Prints the time of the fastest of many runs: the machine may be busy. */
static void show_speed(const char *what, struct xd_verdict *v, const struct spec *spec)
{
	const uint32_t n = 10000;
	uint64_t begun, ns, best = UINT64_MAX;
	struct xd_headers h;
	struct xr_meta meta;

	frame_build(spec, &frame);
	h = headers_of(&frame);
	for (int run = 0; run < 2000; run++) {
		begun = cpu_ns();
		for (uint32_t i = 0; i < n; i++)
			xd_verdict(v, &h, START, &meta);
		ns = cpu_ns() - begun;
		best = ns < best ? ns : best;
	}
	printf("%-32s %6.1f ns, reason %u\n", what, (double)best / n, meta.reason);
}

static int measure(void)
{
	const struct spec middle = { OP(RC(WRITE_MIDDLE)) },
			  v6 = { OP(RC(WRITE_ONLY)), .v6 = true };
	const struct spec send = { OP(RC(SEND_ONLY)), .payload = 8 };
	struct xd_tables *t = new_tables(UINT32_MAX);
	struct xd_verdict *v = new_verdict(t, 0);

	show_speed("WRITE, one packet", v, &valid);
	show_speed("WRITE, a middle packet", v, &middle);
	show_speed("WRITE, IPv6", v, &v6);
	show_speed("SEND of 8 bytes", v, &send);
	show_speed("QP does not exist", v, &stray);
	xd_verdict_free(v);
	xd_memory_tables_free(t);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "speed"))
		return measure();
	test_rows();
	test_tables();
	test_limit();
	test_counters();
	test_reports();
	test_threads();
	return tap_end();
}
