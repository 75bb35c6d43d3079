// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Ringing and scanning doorbells as include/xroce/ring.h describes them. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/datapath/doorbells.h"
#include "selftests/lib/tap.h"

#define RINGS 200000

static uint32_t rung[XR_DB_SLOTS]; /* how often ring() was called for a slot */

/* The scan does not dereference QPs: the pointers encode slot numbers. */
static struct xt_qp *qp_of(uint32_t slot)
{
	return (struct xt_qp *)(uintptr_t)(slot + 1);
}

static bool posted = true; /* a ring comes with a new work request */

static bool on_ring(struct xt_qp *qp, void *arg)
{
	rung[(uintptr_t)qp - 1]++;
	return posted;
}

static void set_bit(__u64 *word, uint32_t bit, bool *was_clear)
{
	uint64_t mask = 1ull << bit % 64;

	*was_clear = !(__atomic_fetch_or(word, mask, __ATOMIC_SEQ_CST) & mask);
}

/* The client's side */
static void ring(struct xr_doorbell *db, uint32_t slot)
{
	bool clear;

	set_bit(&db->bits2[slot / 64], slot, &clear);
	if (!clear)
		return;
	set_bit(&db->bits1[slot / 4096], slot / 64, &clear);
	if (clear)
		set_bit(&db->bits0, slot / 4096, &clear);
}

static void list_new(struct xd_doorbell_list *l)
{
	memset(rung, 0, sizeof(rung));
	posted = true;
	xd_doorbells_init(l, epoll_create1(0));
}

static void doorbell_new(struct xd_doorbell_list *l, struct xd_doorbell *d, uint32_t slots)
{
	memset(d, 0, sizeof(*d));
	d->shared = aligned_alloc(64, sizeof(*d->shared));
	memset(d->shared, 0, sizeof(*d->shared));
	d->eventfd = eventfd(0, EFD_NONBLOCK);
	d->slots = slots;
	d->qp = calloc(slots + 1, sizeof(*d->qp));
	for (uint32_t i = 0; i < slots; i++)
		d->qp[i] = qp_of(i);
	if (slots && xd_doorbell_watch(l, d))
		abort();
}

static void doorbell_free(struct xd_doorbell_list *l, struct xd_doorbell *d)
{
	xd_doorbell_unwatch(l, d);
	close(d->eventfd);
	free(d->shared);
	free(d->qp);
}

/* Writes to the eventfd, as a client does that has rung an armed doorbell. */
static void notify(struct xd_doorbell *d)
{
	if (eventfd_write(d->eventfd, 1))
		abort();
}

static void ring_and_notify(struct xd_doorbell *d, uint32_t slot)
{
	ring(d->shared, slot);
	if (__atomic_load_n(&d->shared->sleeping, __ATOMIC_SEQ_CST))
		notify(d);
}

/* Returns how often ring() was called in all scans until nothing is left to scan. */
static unsigned int scan_all(struct xd_doorbell_list *l, uint64_t now)
{
	unsigned int n = 0;

	memset(rung, 0, sizeof(rung));
	xd_doorbells_collect(l);
	while (xd_doorbells_scan(l, now, on_ring, NULL))
		;
	for (uint32_t i = 0; i < XR_DB_SLOTS; i++)
		n += rung[i];
	return n;
}

static void test_scan(void)
{
	static const uint32_t some[] = { 0, 1, 63, 64, 4095, 4096, 70000, XR_DB_SLOTS - 1 };
	const unsigned int n = sizeof(some) / sizeof(some[0]);
	struct xd_doorbell_list l;
	struct xd_doorbell d;
	unsigned int found;

	list_new(&l);
	doorbell_new(&l, &d, XR_DB_SLOTS);
	TAP_OK(!scan_all(&l, 0), "a scan without rings finds nothing");
	for (unsigned int i = 0; i < n; i++)
		ring_and_notify(&d, some[i]);
	ring(d.shared, some[0]);
	found = scan_all(&l, 0);
	for (unsigned int i = 0; i < n; i++)
		found -= rung[some[i]] == 1;
	TAP_OK(!found, "each slot that rang is found once, at the edges of all levels");
	TAP_OK(!scan_all(&l, 0), "the next scan finds nothing");
	doorbell_free(&l, &d);
	close(l.epoll);
}

static void test_polling(void)
{
	const uint64_t quiet = XD_DOORBELL_QUIET_NS;
	struct xd_doorbell_list l;
	struct xd_doorbell d;

	list_new(&l);
	doorbell_new(&l, &d, 64);
	TAP_OK(d.shared->sleeping && !l.polled_count, "a new doorbell is armed and not polled");
	ring(d.shared, 5);
	TAP_OK(!scan_all(&l, 0), "a ring is not found until the eventfd was written");
	notify(&d);
	TAP_OK(scan_all(&l, 0) == 1 && !d.shared->sleeping && l.polled_count == 1,
	       "a ring with a write to the eventfd is found, and the doorbell is polled from then "
	       "on");
	ring(d.shared, 6);
	TAP_OK(scan_all(&l, quiet - 1) == 1, "a polled doorbell needs no write to the eventfd");
	scan_all(&l, 2 * quiet);
	ring(d.shared, 7);
	TAP_OK(d.shared->sleeping && scan_all(&l, 2 * quiet) == 1 && !d.shared->sleeping,
	       "a ring before a quiet doorbell was armed is found by one more scan");
	scan_all(&l, 4 * quiet);
	scan_all(&l, 4 * quiet);
	TAP_OK(d.shared->sleeping && !l.polled_count, "polling of a quiet doorbell ends");
	doorbell_free(&l, &d);
	close(l.epoll);
}

/* An event between the steps of a long scan of an armed doorbell must not be forgotten. */
static void test_event_during_scan(void)
{
	struct xd_doorbell_list l;
	struct xd_doorbell d;

	list_new(&l);
	posted = false;
	doorbell_new(&l, &d, XD_DOORBELL_STEPS * 2);
	memset(d.shared->bits2, 0xff, sizeof(d.shared->bits2));
	memset(d.shared->bits1, 0xff, sizeof(d.shared->bits1));
	d.shared->bits0 = 1;
	notify(&d);
	xd_doorbells_collect(&l);
	xd_doorbells_scan(&l, 0, on_ring, NULL);
	memset(rung, 0, sizeof(rung));
	ring_and_notify(&d, 0);
	xd_doorbells_collect(&l);
	while (l.polled_count)
		xd_doorbells_scan(&l, 0, on_ring, NULL);
	TAP_OK(rung[0] == 1, "a ring during a scan of several rounds is found");
	doorbell_free(&l, &d);
	close(l.epoll);
}

/* ---- clients that keep all bits set ---------------------------------------------------- */

#define HOSTILE 900

static struct xd_doorbell hostile[HOSTILE];

static unsigned int calls;

static bool count_calls(struct xt_qp *qp, void *arg)
{
	calls++;
	rung[(uintptr_t)qp - 1]++;
	return posted;
}

static void set_all_bits(struct xd_doorbell *d)
{
	uint32_t sleeping = d->shared->sleeping;

	memset(d->shared, 0xff, sizeof(*d->shared));
	d->shared->sleeping = sleeping;
}

static void test_hostile(void)
{
	struct xd_doorbell_list l;
	struct xd_doorbell d;

	list_new(&l);
	doorbell_new(&l, &d, 100);
	d.qp[7] = NULL;
	set_all_bits(&d);
	notify(&d);
	TAP_OK(scan_all(&l, 0) == 99 && !rung[7],
	       "with all bits set, slots without a QP are ignored");
	doorbell_free(&l, &d);
	doorbell_new(&l, &d, XR_DB_SLOTS);
	set_all_bits(&d);
	notify(&d);
	xd_doorbells_collect(&l);
	calls = 0;
	TAP_OK(xd_doorbells_scan(&l, 0, count_calls, NULL) && calls && calls < XD_DOORBELL_STEPS,
	       "one scan of a client with all slots has a limit");
	TAP_OK(scan_all(&l, 0) + calls == XR_DB_SLOTS, "the next scans find the rest");
	doorbell_free(&l, &d);
	close(l.epoll);
}

/* writes: the hostile clients write to their eventfds, too. */
static void hostile_beside_victim(uint32_t slots, bool writes, unsigned int scans, const char *name)
{
	struct xd_doorbell_list l;
	struct xd_doorbell victim;
	unsigned int most = 0, late = 0;

	list_new(&l);
	for (unsigned int i = 0; i < HOSTILE; i++)
		doorbell_new(&l, &hostile[i], slots);
	doorbell_new(&l, &victim, XR_DB_SLOTS);
	ring_and_notify(&victim, XR_DB_SLOTS - 1);
	scan_all(&l, 0);
	for (unsigned int round = 0; round < 100; round++) {
		unsigned int n = 0;

		for (unsigned int i = 0; i < HOSTILE; i++) {
			set_all_bits(&hostile[i]);
			if (writes)
				notify(&hostile[i]);
		}
		ring_and_notify(&victim, XR_DB_SLOTS - 1);
		rung[XR_DB_SLOTS - 1] = 0;
		calls = 0;
		for (; !rung[XR_DB_SLOTS - 1]; n++) {
			calls = 0;
			xd_doorbells_collect(&l);
			xd_doorbells_scan(&l, 0, count_calls, NULL);
			most = calls > most ? calls : most;
		}
		late = n > late ? n : late;
	}
	TAP_OK(late <= scans && most <= XD_DOORBELL_STEPS, "%s (%u scans, at most %u rings each)",
	       name, late, most);
	doorbell_free(&l, &victim);
	for (unsigned int i = 0; i < HOSTILE; i++)
		doorbell_free(&l, &hostile[i]);
	close(l.epoll);
}

static void test_many_hostile(void)
{
	hostile_beside_victim(64, false, 1,
			      "clients that set all bits but do not write to their eventfds delay "
			      "no other client");
	hostile_beside_victim(0, true, 1,
			      "nor do clients without QPs that also write to their eventfds");
	hostile_beside_victim(64, true, HOSTILE / XD_DOORBELL_COLLECT + 1,
			      "clients that post in all QPs get one turn each");
}

static bool wakes(const struct xd_doorbell_list *l)
{
	struct pollfd p = { .fd = l->epoll, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static void test_watch(void)
{
	struct xd_doorbell_list l;
	struct xd_doorbell d;

	list_new(&l);
	doorbell_new(&l, &d, 64);
	notify(&d);
	TAP_OK(wakes(&l), "a client with QPs can wake the worker");
	xd_doorbell_unwatch(&l, &d);
	notify(&d);
	TAP_OK(!wakes(&l) && !d.shared->sleeping && !xd_doorbells_unpolled(&l),
	       "a client whose QPs were destroyed cannot, and need not write to its eventfd");
	ring(d.shared, 3);
	if (xd_doorbell_watch(&l, &d))
		abort();
	TAP_OK(scan_all(&l, 0) == 1, "a ring before the first QP is found when that exists");
	doorbell_free(&l, &d);
	close(l.epoll);
}

static void test_sleep(void)
{
	struct xd_doorbell_list l;
	struct xd_doorbell d;

	list_new(&l);
	doorbell_new(&l, &d, 64);
	ring_and_notify(&d, 1);
	scan_all(&l, 0);
	TAP_OK(xd_doorbells_arm(&l) && d.shared->sleeping,
	       "arming without rings allows to sleep and sets the flag");
	xd_doorbells_disarm(&l, 10 * XD_DOORBELL_QUIET_NS);
	TAP_OK(!d.shared->sleeping, "disarming clears the flag");
	scan_all(&l, 10 * XD_DOORBELL_QUIET_NS);
	TAP_OK(!d.shared->sleeping, "the time of the sleep does not count as quiet");
	ring(d.shared, 5);
	TAP_OK(!xd_doorbells_arm(&l), "arming after a ring does not allow to sleep");
	xd_doorbells_disarm(&l, 0);
	doorbell_free(&l, &d);
	close(l.epoll);
}

/* ---- a client that rings while the worker scans ---------------------------------------- */

struct ringer {
	struct xd_doorbell *db;
	uint64_t posted[256]; /* stands for the producer indices of rings */
	bool done;
};

static struct ringer ringer;
static uint64_t seen[256];

static void *ring_many(void *arg)
{
	uint32_t x = 1;

	for (int i = 0; i < RINGS; i++) {
		uint32_t slot;

		x = x * 1664525 + 1013904223;
		slot = x >> 24;
		__atomic_add_fetch(&ringer.posted[slot], 1, __ATOMIC_RELEASE);
		ring_and_notify(ringer.db, slot * 1000);
	}
	__atomic_store_n(&ringer.done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool on_posted(struct xt_qp *qp, void *arg)
{
	uint32_t slot = (uint32_t)((uintptr_t)qp - 1) / 1000;

	uint64_t before = seen[slot];

	seen[slot] = __atomic_load_n(&ringer.posted[slot], __ATOMIC_ACQUIRE);
	return seen[slot] != before;
}

/* Time advances with each scan, so the doorbell is armed and polled in turn. */
static void test_race(void)
{
	struct xd_doorbell_list l;
	struct xd_doorbell d;
	uint64_t now = 0;
	pthread_t thread;
	bool done;

	list_new(&l);
	doorbell_new(&l, &d, XR_DB_SLOTS);
	ringer.db = &d;
	pthread_create(&thread, NULL, ring_many, NULL);
	do {
		done = __atomic_load_n(&ringer.done, __ATOMIC_ACQUIRE);
		now += XD_DOORBELL_QUIET_NS / 4;
		xd_doorbells_collect(&l);
		while (xd_doorbells_scan(&l, now, on_posted, NULL))
			;
	} while (!done);
	pthread_join(thread, NULL);
	TAP_OK(!memcmp(seen, ringer.posted, sizeof(seen)), "none of %d rings during scans is lost",
	       RINGS);
	doorbell_free(&l, &d);
	close(l.epoll);
}

int main(void)
{
	test_scan();
	test_polling();
	test_event_during_scan();
	test_hostile();
	test_many_hostile();
	test_watch();
	test_sleep();
	test_race();
	return tap_end();
}
