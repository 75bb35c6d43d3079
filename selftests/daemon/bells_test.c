// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Doorbells as include/xroce/ring.h tells both sides to ring and scan them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/datapath/doorbells.h"
#include "selftests/lib/tap.h"

#define RINGS 200000

static uint32_t rung[XR_DB_SLOTS]; /* how often ring() was called for a slot */

/* The scan does not look into QPs: a number in place of a pointer will do. */
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

static void bell_new(struct xd_doorbell *bell, uint32_t slots)
{
	memset(bell, 0, sizeof(*bell));
	memset(rung, 0, sizeof(rung));
	bell->db = aligned_alloc(64, sizeof(*bell->db));
	memset(bell->db, 0, sizeof(*bell->db));
	bell->slots = slots;
	bell->qp = calloc(slots, sizeof(*bell->qp));
	for (uint32_t i = 0; i < slots; i++)
		bell->qp[i] = qp_of(i);
}

static void bell_free(struct xd_doorbell *bell)
{
	free(bell->db);
	free(bell->qp);
}

static void test_scan(void)
{
	static const uint32_t some[] = { 0, 1, 63, 64, 4095, 4096, 70000, XR_DB_SLOTS - 1 };
	const unsigned int n = sizeof(some) / sizeof(some[0]);
	struct xd_doorbell bell;
	unsigned int found;

	bell_new(&bell, XR_DB_SLOTS);
	TAP_OK(!xd_doorbell_scan(&bell, on_ring, NULL), "nothing rang");
	for (unsigned int i = 0; i < n; i++)
		ring(bell.db, some[i]);
	ring(bell.db, some[0]);
	found = xd_doorbell_scan(&bell, on_ring, NULL);
	for (unsigned int i = 0; i < n; i++)
		found -= rung[some[i]] == 1;
	TAP_OK(!found, "every slot that rang is found once, on each level's edges");
	TAP_OK(!xd_doorbell_scan(&bell, on_ring, NULL), "and then it is quiet");
	bell_free(&bell);
}

static void test_hostile(void)
{
	struct xd_doorbell bell;

	bell_new(&bell, 100);
	bell.qp[7] = NULL;
	memset(bell.db, 0xff, sizeof(*bell.db));
	TAP_OK(xd_doorbell_scan(&bell, on_ring, NULL) == 99 && !rung[7],
	       "all bits set: only slots with a QP count");
	TAP_OK(!xd_doorbell_scan(&bell, on_ring, NULL), "and all bits are taken");
	bell_free(&bell);
}

static void test_sleep(void)
{
	struct xd_doorbell bell;

	bell_new(&bell, 64);
	TAP_OK(xd_doorbell_arm(&bell) && bell.db->sleeping, "quiet: may sleep, and says so");
	xd_doorbell_disarm(&bell);
	TAP_OK(!bell.db->sleeping, "awake again");
	ring(bell.db, 5);
	TAP_OK(!xd_doorbell_arm(&bell), "rang before: may not");
	xd_doorbell_disarm(&bell);
	bell_free(&bell);
}

/* ---- a client that rings while the worker scans ---------------------------------------- */

struct ringer {
	struct xr_doorbell *db;
	uint64_t posted[256]; /* what producer indices are to real doorbells */
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
	struct xd_doorbell bell;
	pthread_t thread;
	bool done;

	bell_new(&bell, XR_DB_SLOTS);
	ringer.db = bell.db;
	pthread_create(&thread, NULL, ring_many, NULL);
	do {
		done = __atomic_load_n(&ringer.done, __ATOMIC_ACQUIRE);
		xd_doorbell_scan(&bell, on_posted, NULL);
	} while (!done);
	pthread_join(thread, NULL);
	TAP_OK(!memcmp(seen, ringer.posted, sizeof(seen)), "%d rings during scans: none is lost",
	       RINGS);
	bell_free(&bell);
}

int main(void)
{
	test_scan();
	test_hostile();
	test_sleep();
	test_race();
	return tap_end();
}
