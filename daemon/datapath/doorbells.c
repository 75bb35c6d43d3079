// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doorbells.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>

#define OF_LINK(l) ((struct xd_doorbell *)((char *)(l)-offsetof(struct xd_doorbell, link)))

void xd_doorbells_init(struct xd_doorbell_list *l, int epoll)
{
	*l = (struct xd_doorbell_list){ .epoll = epoll };
	xt_list_init(&l->polled);
}

/* ---- one doorbell -------------------------------------------------------------------------- */

static uint64_t doorbells_take(__u64 *word)
{
	/* most words are 0: a load does not take the cache line from the client */
	if (!__atomic_load_n(word, __ATOMIC_RELAXED))
		return 0;
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

/* Returns the bits of a word that are below n, counted from the word's first bit on. */
static uint64_t below(uint32_t n)
{
	return n >= 64 ? UINT64_MAX : (1ull << n) - 1;
}

static uint64_t take_leaf(struct xd_doorbell *d, uint32_t leaf)
{
	d->leaf = leaf;
	return doorbells_take(&d->shared->bits2[leaf]) & below(d->slots - leaf * 64);
}

static uint64_t take_middle(struct xd_doorbell *d, uint32_t i)
{
	d->middle = i;
	return doorbells_take(&d->shared->bits1[i]) & below((d->slots - i * 4096 + 63) / 64);
}

static uint64_t take_top(struct xd_doorbell *d)
{
	return doorbells_take(&d->shared->bits0) & below((d->slots + 4095) / 4096);
}

/* Returns true if bits were taken from the shared words that are not scanned yet. */
static bool unfinished(const struct xd_doorbell *d)
{
	return d->bits0 | d->bits1 | d->bits2;
}

static uint32_t next_bit(uint64_t *bits)
{
	uint32_t i = (uint32_t)__builtin_ctzll(*bits);

	*bits &= *bits - 1;
	return i;
}

/*
 * Scans in at most *steps steps, and subtracts those that were used. Returns true if QPs had new
 * work requests. Words are cleared from the top level down: a client that sets a bit below a word
 * just cleared sets the bit in that word again.
 */
static bool doorbells_scan(struct xd_doorbell *d, unsigned int *steps, xd_ring_fn ring, void *arg)
{
	bool found = false;
	uint32_t slot;

	if (!unfinished(d))
		d->bits0 = take_top(d);
	for (; *steps && unfinished(d); --*steps) {
		if (d->bits2) {
			slot = d->leaf * 64 + next_bit(&d->bits2);
			if (d->qp[slot])
				found |= ring(d->qp[slot], arg);
		} else if (d->bits1) {
			d->bits2 = take_leaf(d, d->middle * 64 + next_bit(&d->bits1));
		} else {
			d->bits1 = take_middle(d, next_bit(&d->bits0));
		}
	}
	return found;
}

static void doorbells_arm(struct xd_doorbell *d)
{
	d->armed = true;
	__atomic_store_n(&d->shared->sleeping, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void doorbells_disarm(struct xd_doorbell *d)
{
	d->armed = false;
	__atomic_store_n(&d->shared->sleeping, 0, __ATOMIC_RELAXED);
}

/* ---- polled doorbells ---------------------------------------------------------------------- */

static void begin_polling(struct xd_doorbell_list *l, struct xd_doorbell *d)
{
	if (xt_list_empty(&d->link)) {
		xt_list_add_tail(&l->polled, &d->link);
		l->polled_count++;
	} else {
		/* the scan in progress may have passed the new bit: polling must not end with it */
		doorbells_disarm(d);
	}
}

static void end_polling(struct xd_doorbell_list *l, struct xd_doorbell *d)
{
	if (xt_list_empty(&d->link))
		return;
	xt_list_del(&d->link);
	l->polled_count--;
}

int xd_doorbell_watch(struct xd_doorbell_list *l, struct xd_doorbell *d)
{
	/* edge-triggered: each write is an event, and the count is never read */
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = d };

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, d->eventfd, &ev))
		return -errno;
	xt_list_init(&d->link);
	d->watched = true;
	l->count++;
	doorbells_arm(d);
	return 0;
}

void xd_doorbell_unwatch(struct xd_doorbell_list *l, struct xd_doorbell *d)
{
	if (!d->watched)
		return;
	end_polling(l, d);
	doorbells_disarm(d);
	d->watched = false;
	l->count--;
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, d->eventfd, NULL);
}

/*
 * Decides whether the doorbell stays polled after a scan. A client that rang before the doorbell
 * was armed is found by the scan that follows, one that rang later writes to the eventfd.
 */
static void update_polling(struct xd_doorbell_list *l, struct xd_doorbell *d, uint64_t now,
			   bool found)
{
	if (found) {
		d->quiet_at = now + XD_DOORBELL_QUIET_NS;
		if (d->armed)
			doorbells_disarm(d);
	} else if (unfinished(d)) {
		return;
	} else if (d->armed) {
		end_polling(l, d);
	} else if (now >= d->quiet_at) {
		doorbells_arm(d);
	}
}

static unsigned int share_of(const struct xd_doorbell_list *l)
{
	unsigned int share = XD_DOORBELL_STEPS / l->polled_count;

	return share > XD_DOORBELL_MIN_STEPS ? share : XD_DOORBELL_MIN_STEPS;
}

bool xd_doorbells_scan(struct xd_doorbell_list *l, uint64_t now, xd_ring_fn ring, void *arg)
{
	unsigned int left = XD_DOORBELL_STEPS, share, steps, n = l->polled_count;
	bool found, work = false;
	struct xd_doorbell *d;

	if (!n)
		return false;
	for (share = share_of(l); n && left; n--) {
		d = OF_LINK(l->polled.next);
		/* the next scan begins with those that this one does not reach */
		xt_list_del(&d->link);
		xt_list_add_tail(&l->polled, &d->link);
		steps = share < left ? share : left;
		left -= steps;
		found = doorbells_scan(d, &steps, ring, arg);
		/* looking at a doorbell costs a step */
		left += steps ? steps - 1 : 0;
		work |= found || unfinished(d);
		update_polling(l, d, now, found);
	}
	return work || n;
}

bool xd_doorbells_collect(struct xd_doorbell_list *l)
{
	struct epoll_event ev[XD_DOORBELL_COLLECT];
	int n = epoll_wait(l->epoll, ev, XD_DOORBELL_COLLECT, 0);
	bool other = false;

	for (int i = 0; i < n; i++) {
		if (ev[i].data.ptr)
			begin_polling(l, ev[i].data.ptr);
		else
			other = true;
	}
	return other;
}

/* ---- sleep --------------------------------------------------------------------------------- */

bool xd_doorbells_arm(struct xd_doorbell_list *l)
{
	struct xd_doorbell *d;
	bool quiet = true;

	for (struct xt_list *i = l->polled.next; i != &l->polled; i = i->next) {
		d = OF_LINK(i);
		doorbells_arm(d);
		quiet &= !unfinished(d) && !__atomic_load_n(&d->shared->bits0, __ATOMIC_SEQ_CST);
	}
	return quiet;
}

void xd_doorbells_disarm(struct xd_doorbell_list *l, uint64_t slept)
{
	for (struct xt_list *i = l->polled.next; i != &l->polled; i = i->next) {
		doorbells_disarm(OF_LINK(i));
		OF_LINK(i)->quiet_at += slept;
	}
}
