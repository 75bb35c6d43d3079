// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Ringing and scanning doorbells as include/xroce/ring.h describes them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/datapath/doorbells.h"
#include "selftests/lib/tap.h"

#define RINGS 200000

static uint32_t rung[XR_DB_SLOTS]; /* how often ring() was called for a slot */

/* The scan does not dereference QPs: the pointers encode slot numbers. */
static struct xt_qp *qp_of(uint32_t slot)
{
	return (struct xt_qp *)(uintptr_t)(slot + 1);
}

static void on_ring(struct xt_qp *qp, void *arg)
{
	rung[(uintptr_t)qp - 1]++;
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

static void doorbell_new(struct xd_doorbell *d, uint32_t slots)
{
	memset(d, 0, sizeof(*d));
	memset(rung, 0, sizeof(rung));
	d->shared = aligned_alloc(64, sizeof(*d->shared));
	memset(d->shared, 0, sizeof(*d->shared));
	d->slots = slots;
	d->qp = calloc(slots, sizeof(*d->qp));
	for (uint32_t i = 0; i < slots; i++)
		d->qp[i] = qp_of(i);
}

static void doorbell_free(struct xd_doorbell *d)
{
	free(d->shared);
	free(d->qp);
}

static void test_scan(void)
{
	static const uint32_t some[] = { 0, 1, 63, 64, 4095, 4096, 70000, XR_DB_SLOTS - 1 };
	const unsigned int n = sizeof(some) / sizeof(some[0]);
	struct xd_doorbell d;
	unsigned int found;

	doorbell_new(&d, XR_DB_SLOTS);
	TAP_OK(!xd_doorbell_scan(&d, on_ring, NULL), "a scan without rings finds nothing");
	for (unsigned int i = 0; i < n; i++)
		ring(d.shared, some[i]);
	ring(d.shared, some[0]);
	found = xd_doorbell_scan(&d, on_ring, NULL);
	for (unsigned int i = 0; i < n; i++)
		found -= rung[some[i]] == 1;
	TAP_OK(!found, "each slot that rang is found once, at the edges of all levels");
	TAP_OK(!xd_doorbell_scan(&d, on_ring, NULL), "the next scan finds nothing");
	doorbell_free(&d);
}

static void test_hostile(void)
{
	struct xd_doorbell d;

	doorbell_new(&d, 100);
	d.qp[7] = NULL;
	memset(d.shared, 0xff, sizeof(*d.shared));
	TAP_OK(xd_doorbell_scan(&d, on_ring, NULL) == 99 && !rung[7],
	       "with all bits set, slots without a QP are ignored");
	TAP_OK(!xd_doorbell_scan(&d, on_ring, NULL), "the scan has cleared all bits");
	doorbell_free(&d);
}

static void test_sleep(void)
{
	struct xd_doorbell d;

	doorbell_new(&d, 64);
	TAP_OK(xd_doorbell_arm(&d) && d.shared->sleeping,
	       "arming without rings allows to sleep and sets the flag");
	xd_doorbell_disarm(&d);
	TAP_OK(!d.shared->sleeping, "disarming clears the flag");
	ring(d.shared, 5);
	TAP_OK(!xd_doorbell_arm(&d), "arming after a ring does not allow to sleep");
	xd_doorbell_disarm(&d);
	doorbell_free(&d);
}

/* ---- a client that rings while the worker scans ---------------------------------------- */

struct ringer {
	struct xr_doorbell *db;
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
		ring(ringer.db, slot * 1000);
	}
	__atomic_store_n(&ringer.done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void on_posted(struct xt_qp *qp, void *arg)
{
	uint32_t slot = (uint32_t)((uintptr_t)qp - 1) / 1000;

	seen[slot] = __atomic_load_n(&ringer.posted[slot], __ATOMIC_ACQUIRE);
}

static void test_race(void)
{
	struct xd_doorbell d;
	pthread_t thread;
	bool done;

	doorbell_new(&d, XR_DB_SLOTS);
	ringer.db = d.shared;
	pthread_create(&thread, NULL, ring_many, NULL);
	do {
		done = __atomic_load_n(&ringer.done, __ATOMIC_ACQUIRE);
		xd_doorbell_scan(&d, on_posted, NULL);
	} while (!done);
	pthread_join(thread, NULL);
	TAP_OK(!memcmp(seen, ringer.posted, sizeof(seen)), "none of %d rings during scans is lost",
	       RINGS);
	doorbell_free(&d);
}

int main(void)
{
	test_scan();
	test_hostile();
	test_sleep();
	test_race();
	return tap_end();
}
