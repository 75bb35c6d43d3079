/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The provider's side of the shared queues and doorbells of <xroce/ring.h>,
 * where the memory order is laid down. Plain C, no verbs: tests use it too.
 */
#ifndef XP_RING_H
#define XP_RING_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <xroce/ring.h>

/* ---- a light lock -------------------------------------------------------------- */

/*
 * Posting and polling are a few hundred instructions: waiting for the futex
 * would cost more than they do. Gives the core away soon, since on a small
 * machine the holder may not be running.
 */
struct xp_lock {
	int held;
	bool unneeded; /* the program promised that one thread at a time comes here */
};

static inline void xp_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline void xp_lock(struct xp_lock *l)
{
	unsigned int spins = 0;

	if (l->unneeded)
		return;
	while (__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&l->held, __ATOMIC_RELAXED)) {
			if (++spins % 64 == 0)
				sched_yield();
			else
				xp_relax();
		}
	}
}

static inline void xp_unlock(struct xp_lock *l)
{
	if (l->unneeded)
		return;
	__atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
}

/* ---- send and receive queues: we produce --------------------------------------- */

/*
 * head and tail run freely. The poster owns head (under the ring's lock), the
 * poller owns tail (under the CQ's lock): entries [tail, head) are posted and
 * not yet known to be done. wr_id keeps what the program gave, for completions that have to be made
 * up when the daemon is gone.
 */
struct xp_ring {
	struct xr_queue *queue;
	uint8_t *entries;
	uint64_t *wr_id;
	uint32_t mask, stride;
	uint32_t limit; /* how many may be outstanding, up to mask + 1 */
	uint32_t head, tail;
};

/* No lock: nobody else knows the ring yet. -EPROTO: not a queue of this layout. */
static inline int xp_ring_geometry(const struct xr_queue *q, uint64_t length, uint32_t min_stride,
				   uint32_t *mask, uint32_t *stride)
{
	if (length < sizeof(*q) || q->magic != XR_QUEUE_MAGIC || !q->depth ||
	    (q->depth & (q->depth - 1)) || q->stride < min_stride || q->entries_off < sizeof(*q) ||
	    q->entries_off > length || (uint64_t)q->depth * q->stride > length - q->entries_off)
		return -EPROTO;
	*mask = q->depth - 1;
	*stride = q->stride;
	return 0;
}

/* Poster, under the ring's lock. */
static inline uint32_t xp_ring_room(const struct xp_ring *r)
{
	return r->limit - (r->head - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE));
}

/* Poster, under the ring's lock: the entry that xp_ring_push() adds next. */
static inline void *xp_ring_next(const struct xp_ring *r)
{
	return r->entries + (size_t)(r->head & r->mask) * r->stride;
}

/* Poster, under the ring's lock. The daemon does not see it before xp_ring_publish(). */
static inline void xp_ring_push(struct xp_ring *r, uint64_t wr_id)
{
	r->wr_id[r->head & r->mask] = wr_id;
	__atomic_store_n(&r->head, r->head + 1, __ATOMIC_RELEASE);
}

/* Poster, under the ring's lock: the n-th entry beyond those pushed, to be pushed with them later. */
static inline void *xp_ring_stage(struct xp_ring *r, uint32_t n, uint64_t wr_id)
{
	uint32_t slot = (r->head + n) & r->mask;

	r->wr_id[slot] = wr_id;
	return r->entries + (size_t)slot * r->stride;
}

/* Poster, under the ring's lock: pushes n staged entries. */
static inline void xp_ring_push_staged(struct xp_ring *r, uint32_t n)
{
	__atomic_store_n(&r->head, r->head + n, __ATOMIC_RELEASE);
}

/* Poster, under the ring's lock: entries before the index. */
static inline void xp_ring_publish(struct xp_ring *r)
{
	__atomic_store_n(&r->queue->producer, r->head, __ATOMIC_RELEASE);
}

/* Poller, under the CQ's lock: entry `index` completed, and with it all before it. */
static inline void xp_ring_retire(struct xp_ring *r, uint32_t index)
{
	uint32_t done = index - r->tail + 1;

	if (done && done <= __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) - r->tail)
		__atomic_store_n(&r->tail, r->tail + done, __ATOMIC_RELEASE);
}

/* Poller, under the CQ's lock: takes the oldest outstanding entry. */
static inline bool xp_ring_take(struct xp_ring *r, uint64_t *wr_id)
{
	if (r->tail == __atomic_load_n(&r->head, __ATOMIC_ACQUIRE))
		return false;
	*wr_id = r->wr_id[r->tail & r->mask];
	__atomic_store_n(&r->tail, r->tail + 1, __ATOMIC_RELEASE);
	return true;
}

/* The QP went to RESET: both sides start at 0. Under the ring's and the CQ's lock. */
static inline void xp_ring_reset(struct xp_ring *r)
{
	__atomic_store_n(&r->head, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&r->tail, 0, __ATOMIC_RELEASE);
}

/* After xp_ring_publish(): the daemon put the QP in ERR and may have drained the queue already. */
static inline bool xp_ring_in_error(const struct xp_ring *r, uint32_t error_state)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&r->queue->word, __ATOMIC_RELAXED) == error_state;
}

/* ---- shared receive queues ------------------------------------------------------ */

/*
 * Completions come in any order, and an entry is free again as soon as the daemon took it. All
 * under the ring's lock.
 */
static inline uint32_t xp_ring_room_shared(const struct xp_ring *r)
{
	return r->limit - (r->head - __atomic_load_n(&r->queue->consumer, __ATOMIC_ACQUIRE));
}

/* ---- completion queues: we consume --------------------------------------------- */

/* All under the CQ's lock. */
struct xp_cq_ring {
	struct xr_queue *queue;
	uint8_t *entries;
	uint32_t mask, stride;
	uint32_t consumer;
};

/* A completion that nobody wants any more: its QP is gone. No QPN is this large. */
#define XP_NO_QPN 0xffffffffu

/*
 * Completions that wait to be polled. A CQ that ignores overruns may have been overwritten: the
 * oldest are lost.
 */
static inline uint32_t xp_cq_ready(struct xp_cq_ring *r)
{
	uint32_t n = __atomic_load_n(&r->queue->producer, __ATOMIC_ACQUIRE) - r->consumer;

	if (n > r->mask + 1) {
		r->consumer += n - (r->mask + 1);
		n = r->mask + 1;
	}
	return n;
}

static inline struct xr_cqe *xp_cq_entry(const struct xp_cq_ring *r, uint32_t index)
{
	return (struct xr_cqe *)(r->entries + (size_t)(index & r->mask) * r->stride);
}

/* Entries before r->consumer were read: the daemon may write there again. */
static inline void xp_cq_release(struct xp_cq_ring *r)
{
	__atomic_store_n(&r->queue->consumer, r->consumer, __ATOMIC_RELEASE);
}

/* Any thread. The program polls once more afterwards, as verbs has it. */
static inline void xp_cq_arm(struct xr_queue *q, uint32_t bits)
{
	__atomic_fetch_or(&q->word, bits, __ATOMIC_SEQ_CST);
}

/* ---- doorbells ----------------------------------------------------------------- */

/*
 * Any thread, after xp_ring_publish(). True: the worker sleeps, write to its eventfd.
 * The fetch_or of the leaf is the full fence between `producer` and everything after; it is done
 * even where the bit was set, since the worker may just have taken it.
 */
static inline bool xp_doorbell_ring(struct xr_doorbell *db, uint32_t slot)
{
	uint64_t leaf = 1ull << (slot % 64);
	uint64_t branch = 1ull << (slot / 64 % 64);
	uint64_t root = 1ull << (slot / 4096);

	if (!(__atomic_fetch_or(&db->bits2[slot / 64], leaf, __ATOMIC_SEQ_CST) & leaf)) {
		__atomic_fetch_or(&db->bits1[slot / 4096], branch, __ATOMIC_SEQ_CST);
		__atomic_fetch_or(&db->bits0, root, __ATOMIC_SEQ_CST);
	}
	return __atomic_load_n(&db->sleeping, __ATOMIC_SEQ_CST);
}

#endif /* XP_RING_H */
