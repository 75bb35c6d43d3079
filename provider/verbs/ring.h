/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The provider's side of the rings and doorbells of <xroce/ring.h>, which specifies the memory
 * order.
 */
#ifndef XP_RING_H
#define XP_RING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xroce/bits.h>
#include <xroce/ring.h>

/* ---- send and receive queues: the provider produces ---------------------------- */

/*
 * Indices run freely modulo 2^32. head is written under the ring's lock by the thread that posts,
 * tail under the CQ's lock by the thread that polls. Entries [tail, head) are posted and their
 * completion has not been polled. wr_id keeps the WR ids, for completions that the provider itself
 * must generate when the daemon is gone.
 */
struct xp_ring {
	struct xr_queue *queue;
	uint8_t *entries;
	uint64_t *wr_id;
	uint32_t mask, stride;
	uint32_t limit; /* entries that may be outstanding, at most mask + 1 */
	uint32_t head, tail;
};

/*
 * Reads the geometry of a queue that the daemon created, before other threads know it. Returns
 * -EPROTO if the queue does not have this layout.
 */
static inline int xp_ring_geometry(const struct xr_queue *q, uint64_t length, uint32_t min_stride,
				   uint32_t *mask, uint32_t *stride)
{
	if (length < sizeof(*q) || q->magic != XR_QUEUE_MAGIC || !xr_is_pow2(q->depth) ||
	    q->stride < min_stride || q->entries_off < sizeof(*q) || q->entries_off > length ||
	    (uint64_t)q->depth * q->stride > length - q->entries_off)
		return -EPROTO;
	*mask = q->depth - 1;
	*stride = q->stride;
	return 0;
}

/* The functions from here to xp_ring_publish() need the ring's lock. */

/* Returns the number of entries that may be posted. */
static inline uint32_t xp_ring_room(const struct xp_ring *r)
{
	return r->limit - (r->head - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE));
}

/* Returns the entry that the next xp_ring_push() adds. */
static inline void *xp_ring_next(const struct xp_ring *r)
{
	return r->entries + (size_t)(r->head & r->mask) * r->stride;
}

/* Adds an entry. The daemon does not see it before xp_ring_publish(). */
static inline void xp_ring_push(struct xp_ring *r, uint64_t wr_id)
{
	r->wr_id[r->head & r->mask] = wr_id;
	__atomic_store_n(&r->head, r->head + 1, __ATOMIC_RELEASE);
}

/* Returns the n-th entry after head, to be added by xp_ring_push_staged(). */
static inline void *xp_ring_stage(struct xp_ring *r, uint32_t n, uint64_t wr_id)
{
	uint32_t slot = (r->head + n) & r->mask;

	r->wr_id[slot] = wr_id;
	return r->entries + (size_t)slot * r->stride;
}

/* Adds n staged entries. */
static inline void xp_ring_push_staged(struct xp_ring *r, uint32_t n)
{
	__atomic_store_n(&r->head, r->head + n, __ATOMIC_RELEASE);
}

/* Makes the entries before head visible to the daemon. */
static inline void xp_ring_publish(struct xp_ring *r)
{
	__atomic_store_n(&r->queue->producer, r->head, __ATOMIC_RELEASE);
}

/* Retires entry `index` and all before it. Returns their number. Needs the CQ's lock. */
static inline uint32_t xp_ring_retire(struct xp_ring *r, uint32_t index)
{
	uint32_t done = index - r->tail + 1;

	if (!done || done > __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) - r->tail)
		return 0;
	__atomic_store_n(&r->tail, r->tail + done, __ATOMIC_RELEASE);
	return done;
}

/* Returns the number of outstanding entries. */
static inline uint32_t xp_ring_outstanding(const struct xp_ring *r)
{
	return __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) -
	       __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
}

/* Returns the number of posted entries that the daemon has not executed yet. */
static inline uint32_t xp_ring_left(const struct xp_ring *r)
{
	return __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) -
	       __atomic_load_n(&r->queue->consumer, __ATOMIC_ACQUIRE);
}

/* Removes the oldest outstanding entry. Returns false if there is none. Needs the CQ's lock. */
static inline bool xp_ring_pop(struct xp_ring *r, uint64_t *wr_id)
{
	if (r->tail == __atomic_load_n(&r->head, __ATOMIC_ACQUIRE))
		return false;
	*wr_id = r->wr_id[r->tail & r->mask];
	__atomic_store_n(&r->tail, r->tail + 1, __ATOMIC_RELEASE);
	return true;
}

/* Restarts at index 0 after the QP moved to RESET. Needs the ring's lock and the CQ's lock. */
static inline void xp_ring_reset(struct xp_ring *r)
{
	__atomic_store_n(&r->head, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&r->tail, 0, __ATOMIC_RELEASE);
}

/*
 * Returns true if the daemon has moved the QP to ERR, in which case it may have drained the queue
 * before the last xp_ring_publish().
 */
static inline bool xp_ring_in_error(const struct xp_ring *r, uint32_t error_state)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&r->queue->word, __ATOMIC_RELAXED) == error_state;
}

/*
 * Like xp_ring_room(), for an SRQ. Its receives complete in any order, and an entry is free as soon
 * as the daemon has consumed it.
 */
static inline uint32_t xp_ring_room_shared(const struct xp_ring *r)
{
	return r->limit - (r->head - __atomic_load_n(&r->queue->consumer, __ATOMIC_ACQUIRE));
}

/* Returns the number of entries of an SRQ that the daemon has not consumed. Needs no lock. */
static inline uint32_t xp_ring_posted_shared(const struct xp_ring *r)
{
	uint32_t consumer = __atomic_load_n(&r->queue->consumer, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) - consumer;
}

/* ---- completion queues: the provider consumes ---------------------------------- */

/* All functions but xp_cq_arm() and xp_cq_armed() need the CQ's lock. */
struct xp_cq_ring {
	struct xr_queue *queue;
	uint8_t *entries;
	uint32_t mask, stride;
	uint32_t consumer;
};

/* QPN of a completion whose QP was destroyed or reset: it is skipped. Real QPNs have 24 bits. */
#define XP_NO_QPN 0xffffffffu

/*
 * Returns the number of completions to be polled. A CQ that ignores overruns may have been
 * overwritten; then the oldest completions are lost.
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

/* Lets the daemon overwrite the entries before r->consumer. */
static inline void xp_cq_release(struct xp_cq_ring *r)
{
	__atomic_store_n(&r->queue->consumer, r->consumer, __ATOMIC_RELEASE);
}

/*
 * Arms the CQ. Completions that xp_cq_ready() returns afterwards may have been added before, so the
 * daemon raises no event for them unless it is asked to; it raises one for later completions.
 */
static inline void xp_cq_arm(struct xr_queue *q, uint32_t bits)
{
	__atomic_fetch_or(&q->word, bits, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline bool xp_cq_armed(const struct xr_queue *q)
{
	return __atomic_load_n(&q->word, __ATOMIC_RELAXED);
}

/* ---- doorbells ----------------------------------------------------------------- */

/*
 * Rings the doorbell of a slot, after xp_ring_publish(). Any thread. Returns true if the worker
 * sleeps; then the caller must write to its eventfd.
 *
 * The fetch_or of bits2 is the full fence between the store of `producer` and all later accesses.
 * It is done even if the bit is set, because the worker may have just cleared it.
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
