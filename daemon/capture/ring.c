// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Writes packets to a ring, as blocks of pcapng. */
#include <string.h>

#include "capture.h"
#include "options.h"

/* ---- ring ---------------------------------------------------------------------------------- */

static void ring_count(__u64 *shared, uint64_t value)
{
	__atomic_store_n(shared, value, __ATOMIC_RELAXED);
}

/* The daemon has written what the indices and numbers tell. */
static void ring_publish(struct xd_tap *t)
{
	ring_count(&t->shared->matched, t->matched);
	ring_count(&t->shared->lost, t->lost);
	__atomic_store_n(&t->shared->producer, t->producer, __ATOMIC_RELEASE);
}

/*
 * The blocks of a ring that is overwritten have no limits that the writer could find without a look
 * at them, so it notes where the first one of each chunk begins. The last block in a chunk can
 * reach into the next one, also a block that is not complete because the daemon was killed. The
 * oldest blocks are those of the chunk behind that.
 */
static void note_chunk(struct xd_tap *t, uint64_t before)
{
	uint64_t chunk = t->producer >> t->chunk_shift;
	uint32_t mask = (t->size >> t->chunk_shift) - 1;

	if (chunk == before >> t->chunk_shift)
		return;
	t->mark[chunk & mask] = t->producer;
	ring_count(&t->shared->oldest, t->mark[(chunk + 2) & mask]);
}

static inline void ring_advance(struct xd_tap *t, uint32_t bytes)
{
	uint64_t before = t->producer;

	t->producer += bytes;
	if (t->overwrite)
		note_chunk(t, before);
}

static inline bool ring_has_room(const struct xd_tap *t, uint32_t size)
{
	uint64_t used = t->producer - t->consumer;

	return t->overwrite || (used <= t->size && t->size - used >= size);
}

/* Returns the place for a block, or NULL if there is no room. */
static inline uint8_t *ring_reserve(struct xd_tap *t, uint32_t size)
{
	uint32_t at = t->producer & (t->size - 1), rest = t->size - at;
	uint32_t need = rest < size ? rest + size : size;

	if (!ring_has_room(t, need)) {
		t->consumer = __atomic_load_n(&t->shared->consumer, __ATOMIC_ACQUIRE);
		if (!ring_has_room(t, need))
			return NULL;
	}
	if (rest >= size)
		return t->data + at;
	ring_count(&t->shared->skip, t->producer);
	ring_advance(t, rest);
	return t->data;
}

/*
 * The reader's processor, or none, has the lines of later blocks in its cache. A processor waits
 * for few lines at a time, so to fetch those of a batch takes longer than to fill them. They are
 * requested before the batch comes, when the worker has nothing else to do for most of the time.
 */
#define AHEAD 16384u /* more than a batch of short packets */
#define AT_ONCE 128u
#define LINE 64u

void xd_tap_prefetch(struct xd_tap *t)
{
	if (t->requested < t->producer)
		t->requested = t->producer & ~(uint64_t)(LINE - 1);
	for (uint32_t i = 0; i < AT_ONCE && t->requested < t->producer + AHEAD; i++) {
		__builtin_prefetch(t->data + (t->requested & (t->size - 1)), 1);
		t->requested += LINE;
	}
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* Returns the number of bytes that can be copied: refused packets are not complete. */
static inline uint32_t ring_bytes_of(const struct xt_frame *f)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->nseg; i++)
		n += f->seg[i].len;
	return n;
}

/* Longer runs are left to memcpy(). */
#define INLINE_MAX 192u

/*
 * Copies a run of bytes. Most have some dozen, for which a call takes longer than the copy. The
 * last ones are copied together with some in front of them.
 */
static inline void ring_copy_run(uint8_t *to, const uint8_t *from, uint32_t n)
{
	if (n < 8 || n > INLINE_MAX) {
		memcpy(to, from, n);
		return;
	}
	if (n < 16) {
		memcpy(to, from, 8);
		memcpy(to + n - 8, from + n - 8, 8);
		return;
	}
	for (uint32_t i = 0; i + 16 < n; i += 16)
		memcpy(to + i, from + i, 16);
	memcpy(to + n - 16, from + n - 16, 16);
}

static inline void ring_copy(uint8_t *to, const struct xt_frame *f, uint32_t len)
{
	for (uint32_t i = 0, n; len && i < f->nseg; i++, len -= n, to += n) {
		n = f->seg[i].len < len ? f->seg[i].len : len;
		ring_copy_run(to, f->seg[i].data, n);
	}
}

/* Stores what depends on the lengths. */
static void set_lengths(struct xd_capture_options *o, uint32_t captured, uint32_t original)
{
	const uint32_t length = xr_pcapng_packet_len(captured, o->len);

	o->head = (struct xr_pcapng_packet){
		.type = XR_PCAPNG_PACKET,
		.length = length,
		.captured = captured,
		.original = original,
	};
	memcpy(o->bytes + o->len, &length, sizeof(length));
}

/* Most packets of a QP and direction have the length of the one before. */
static inline struct xd_capture_options *options_of(struct xd_tap *t, const struct xd_packet *p,
						    uint32_t captured)
{
	const uint64_t subject = xd_capture_subject(p);
	struct xd_capture_options *o;

	o = &t->known[(p->frame->meta.qpn ^ p->type) % XD_CAPTURE_KNOWN];
	if (!o->len || o->subject != subject)
		xd_capture_options(o, subject, 0);
	if (o->head.captured != captured || o->head.original != p->frame->len || !o->head.type)
		set_lengths(o, captured, p->frame->len);
	return o;
}

/* Writes a block whose lengths are those of `o`. */
static inline void fill_block(uint8_t *at, const struct xd_capture_options *o,
			      const struct xt_frame *f, uint64_t time)
{
	struct xr_pcapng_packet *head = (struct xr_pcapng_packet *)at;
	const uint32_t captured = o->head.captured, padded = xr_pcapng_padded(captured);

	*head = o->head;
	head->time_high = time >> 32;
	head->time_low = (uint32_t)time;
	at += sizeof(*head);
	if (padded) /* zeros behind the packet, which is copied over the others */
		memset(at + padded - 4, 0, 4);
	ring_copy(at, f, captured);
	ring_copy_run(at + padded, o->bytes, o->len + 4);
}

static bool write_block(struct xd_tap *t, const struct xd_packet *p,
			const struct xd_capture_options *o)
{
	uint8_t *at = ring_reserve(t, o->head.length);

	if (!at)
		return false;
	fill_block(at, o, p->frame, p->time + t->clock);
	ring_advance(t, o->head.length);
	return true;
}

/* The first packet behind lost ones has an option more. */
static __attribute__((noinline)) bool put_behind_lost(struct xd_tap *t, const struct xd_packet *p,
						      uint32_t captured)
{
	struct xd_capture_options o;

	xd_capture_options(&o, xd_capture_subject(p), t->lost - t->lost_before);
	set_lengths(&o, captured, p->frame->len);
	if (!write_block(t, p, &o))
		return false;
	t->lost_before = t->lost;
	return true;
}

static inline uint32_t captured_of(const struct xd_tap *t, const struct xt_frame *f)
{
	const uint32_t whole = ring_bytes_of(f);

	return whole < t->snap_len ? whole : t->snap_len;
}

static void ring_put(struct xd_tap *t, const struct xd_packet *p)
{
	const uint32_t captured = captured_of(t, p->frame);
	bool done;

	if (t->lost != t->lost_before)
		done = put_behind_lost(t, p, captured);
	else
		done = write_block(t, p, options_of(t, p, captured));
	t->matched++;
	t->lost += !done;
}

void xd_tap_put(struct xd_tap *t, const struct xd_packet *p)
{
	ring_put(t, p);
	ring_publish(t);
}

/* Whether the blocks of two packets differ in the bytes of the packets only */
static inline bool alike(const struct xt_frame *f, const struct xt_frame *g)
{
	return f->meta.qpn == g->meta.qpn && f->meta.reason == g->meta.reason && f->len == g->len &&
	       f->nseg == g->nseg && f->nseg <= 2 && f->seg[0].len == g->seg[0].len &&
	       (f->nseg < 2 || f->seg[1].len == g->seg[1].len);
}

/* Returns the bytes that can be written one behind the other now. */
static uint32_t ring_room(const struct xd_tap *t)
{
	const uint64_t used = t->producer - t->consumer;
	const uint32_t rest = t->size - (t->producer & (t->size - 1));

	if (t->overwrite || (used <= t->size && t->size - used >= rest))
		return rest;
	return used <= t->size ? (uint32_t)(t->size - used) : 0;
}

/*
 * Writes those of up to n packets behind p->frame that are like it, while there is room, and
 * returns their number. The fields that packets of a stream share are looked up once.
 */
static uint32_t put_alike(struct xd_tap *t, const struct xd_packet *p, uint32_t n)
{
	const struct xd_capture_options *o = options_of(t, p, captured_of(t, p->frame));
	const uint32_t length = o->head.length, most = ring_room(t) / length;
	const uint64_t time = p->time + t->clock;
	uint8_t *at = t->data + (t->producer & (t->size - 1));
	uint32_t i;

	for (i = 0; i < n && i < most && alike(p->frame, p->frame + i + 1); i++) {
		fill_block(at, o, p->frame + i + 1, time);
		at += length;
		ring_advance(t, length);
	}
	t->matched += i;
	return i;
}

void xd_tap_put_batch(struct xd_tap *t, const struct xd_packet *first, uint32_t n)
{
	const uint64_t matched = t->matched;
	struct xd_packet p = *first;

	for (uint32_t i = 0; i < n; i++) {
		p.frame = first->frame + i;
		if (!xd_tap_selects(t, p.type, p.frame))
			continue;
		ring_put(t, &p);
		if (t->all && t->lost == t->lost_before)
			i += put_alike(t, &p, n - i - 1);
	}
	if (t->matched != matched)
		ring_publish(t);
}
