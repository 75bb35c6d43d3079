// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The CM engine with 100 000 connections: memory, timers and tables stay consistent and fast. */
#include <time.h>

#include "daemon/cm/table.h"
#include "daemon/base/heap.h"
#include "cm_hosts.h"

#define IDS 100000

/* ---- tables and timers ----------------------------------------------------------- */

static void test_table(void)
{
	static struct xc_node nodes[IDS];
	struct xc_table t;
	unsigned found = 0;

	xc_table_init(&t);
	for (unsigned i = 0; i < IDS; i++)
		xc_table_add(&t, &nodes[i], xc_hash(7, i / 2));
	for (unsigned i = 0; i < IDS; i += 2) {
		struct xc_node *n = xc_table_first(&t, xc_hash(7, i / 2));

		found += n && xc_table_next(n) && !xc_table_next(xc_table_next(n));
	}
	TAP_OK(found == IDS / 2, "a table finds all nodes with a hash");
	TAP_OK(t.size >= IDS && t.size < 4 * IDS, "it has grown with them");
	for (unsigned i = 0; i < IDS; i += 2)
		xc_table_del(&t, &nodes[i]);
	xc_table_del(&t, &nodes[0]);
	found = 0;
	for (unsigned i = 1; i < IDS; i += 2) {
		struct xc_node *n = xc_table_first(&t, xc_hash(7, i / 2));

		found += n == &nodes[i] && !xc_table_next(n);
	}
	TAP_OK(found == IDS / 2 && t.count == IDS / 2, "and forgets those that were removed");
	xc_table_free(&t);
}

static void test_timers(void)
{
	static struct xd_heap_node timers[1000];
	struct xd_heap t = { 0 };
	struct xd_heap_node *first;
	uint64_t seed = 1, last = 0;
	unsigned set = 0, expired = 0;
	bool ordered = true;

	xd_heap_reserve(&t, 1000);
	for (unsigned i = 0; i < 100000; i++) {
		struct xd_heap_node *timer;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		timer = &timers[(seed >> 33) % 1000];
		if (seed >> 62) {
			set += !timer->slot;
			xd_heap_set(&t, timer, seed >> 40);
		} else {
			set -= timer->slot != 0;
			xd_heap_clear(&t, timer);
		}
	}
	TAP_OK(t.count == set, "timers that are set and cleared");
	while ((first = xd_heap_first(&t))) {
		ordered = ordered && first->when >= last;
		last = first->when;
		xd_heap_clear(&t, first);
		expired++;
	}
	TAP_OK(ordered && expired == set, "expire in order");
	xd_heap_free(&t);
}

/* ---- connections ------------------------------------------------------------------- */

static struct xc_id *active[IDS], *passive[IDS];

static struct c_host *large_host(uint32_t ip, uint64_t guid)
{
	static uint64_t seeds;
	struct xc_config config = {
		.guid = guid,
		.mra_timeout = 24,
		.max_ids = IDS + 10,
		.max_half_open = IDS,
		.max_source_half_open = IDS,
	};
	struct c_host *h = calloc(1, sizeof(*h));

	xr_gid_set_ipv4(&h->gid, htobe32(ip));
	h->seed = ++seeds;
	h->cm = xc_new(&config, &c_ops, h);
	return h;
}

/* Delivers all MADs; c_host records too few events for this test. */
static void settle(struct c_host *a)
{
	c_settle(a);
	a->events = a->peer->events = 0;
}

static void connect_all(struct c_host *a)
{
	struct xc_req req = c_req(a);
	struct xc_rep rep = c_rep();

	for (unsigned i = 0; i < IDS; i++) {
		req.qpn = 2 + i;
		rep.qpn = 2 + IDS + i;
		if (xc_connect(a->cm, &req, NULL, &active[i]))
			abort();
		c_settle(a);
		passive[i] = c_last(a->peer)->id;
		a->peer->events = 0;
		if (xc_accept(passive[i], &rep))
			abort();
		settle(a);
	}
}

static void establish_all(struct c_host *a)
{
	for (unsigned i = 0; i < IDS; i++) {
		xc_establish(active[i], NULL);
		settle(a);
	}
}

static void disconnect_all(struct c_host *a)
{
	for (unsigned i = 0; i < IDS; i++) {
		xc_disconnect(active[i], NULL);
		settle(a);
		xc_reply_disconnect(passive[i], NULL);
		settle(a);
	}
}

static void destroy_all(struct c_host *a)
{
	for (unsigned i = 0; i < IDS; i++) {
		xc_destroy(active[i]);
		xc_destroy(passive[i]);
	}
	c_now += 10 * C_SECOND;
	xc_run(a->cm);
	xc_run(a->peer->cm);
}

static void test_connections(void)
{
	struct c_host *a = large_host(0x0a090001, 1), *b = large_host(0x0a090002, 2);
	clock_t start = clock();
	struct xc_id *id = NULL;
	unsigned listed = 0;

	a->peer = b;
	b->peer = a;
	connect_all(a);
	TAP_OK(xc_gauges(b->cm).half_open == IDS && xc_gauges(b->cm).sources == 1,
	       "%u half-open connections", IDS);
	establish_all(a);
	TAP_OK(xc_counters(b->cm)->established == IDS, "all are established");
	while ((id = xc_next(b->cm, id)))
		listed++;
	TAP_OK(listed == IDS, "all are listed");
	disconnect_all(a);
	destroy_all(a);
	TAP_OK(!xc_gauges(a->cm).ids && !xc_gauges(b->cm).ids, "none is left at the end");
	printf("# %.1f us of CPU time for a connection, both sides\n",
	       (double)(clock() - start) / CLOCKS_PER_SEC * 1e6 / IDS);
	c_free(a);
	c_free(b);
}

int main(void)
{
	test_table();
	test_timers();
	test_connections();
	return tap_end();
}
