// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The inbox of a context. Writers may store anything into it at any time. */
#include "inbox.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xroce/bits.h>

#include "memfd.h"

_Static_assert(sizeof(struct xr_inbox) <= XR_INBOX_RINGS_OFF, "rings are behind the heads");
_Static_assert(XR_INBOX_LARGE == XT_LARGE_PACKETS, "as the engine makes them");
_Static_assert(sizeof(struct xr_inbox_message) == XR_INBOX_ALIGN, "messages begin aligned");

int xp_inbox_new(void)
{
	return xp_memfd_new("xroce-inbox", XR_INBOX_SIZE);
}

void xp_inbox_map(struct xp_inbox *inbox, int fd)
{
	void *p = MAP_FAILED;

	if (fd >= 0) {
		p = mmap(NULL, XR_INBOX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (p == MAP_FAILED)
		return;
	inbox->m = p;
	for (uint32_t i = 0; i < XR_INBOX_RINGS; i++)
		inbox->m->ring[i].head = XR_INBOX_CLOSED;
	inbox->m->layout = XR_INBOX_LAYOUT;
	__atomic_store_n(&inbox->m->magic, XR_INBOX_MAGIC, __ATOMIC_RELEASE);
}

void xp_inbox_unmap(struct xp_inbox *inbox)
{
	if (!inbox->m)
		return;
	xp_inbox_close(inbox);
	munmap(inbox->m, XR_INBOX_SIZE);
	inbox->m = NULL;
}

void xp_inbox_open(struct xp_inbox *inbox)
{
	__u64 rings;

	if (!inbox->m)
		return;
	rings = __atomic_load_n(&inbox->m->attached, __ATOMIC_ACQUIRE) & ~inbox->open &
		~inbox->broken;
	inbox->open |= rings;
	while (rings)
		__atomic_fetch_and(&inbox->m->ring[xr_next_bit(&rings)].head, ~XR_INBOX_CLOSED,
				   __ATOMIC_SEQ_CST);
}

void xp_inbox_close(struct xp_inbox *inbox)
{
	__u64 rings = inbox->open;

	inbox->open = 0;
	while (rings)
		__atomic_fetch_or(&inbox->m->ring[xr_next_bit(&rings)].head, XR_INBOX_CLOSED,
				  __ATOMIC_SEQ_CST);
}

/* ---- messages ----------------------------------------------------------------------------- */

/* A ring whose writer breaks the rules is read no more. */
static void inbox_refuse_ring(struct xp_inbox *inbox, uint32_t ring)
{
	inbox->broken |= 1ull << ring;
	inbox->open &= ~(1ull << ring);
	__atomic_fetch_or(&inbox->m->ring[ring].head, XR_INBOX_CLOSED, __ATOMIC_SEQ_CST);
}

/* Returns how many bytes of a ring were written and not taken. */
static uint64_t unread(const struct xp_inbox *inbox, uint32_t ring)
{
	uint64_t head = __atomic_load_n(&inbox->m->ring[ring].head, __ATOMIC_ACQUIRE);

	return (head & ~XR_INBOX_CLOSED) - inbox->tail[ring];
}

static void set_about(struct xd_udp_about *a, const struct xr_inbox_message *m)
{
	*a = (struct xd_udp_about){
		.src = m->src,
		.dst = m->dst,
		.sport = m->sport,
		.traffic_class = m->traffic_class,
		.ttl = m->ttl,
		.unsealed = m->flags & XR_INBOX_UNSEALED,
		.size = m->size,
		.packets = m->packets,
	};
}

/* Where the next message of a ring is, and the bytes from there to the end of the ring */
struct place {
	uint8_t *p;
	uint32_t to_end;
};

static struct place inbox_place_of(const struct xp_inbox *inbox, uint32_t ring)
{
	uint32_t at = (uint32_t)(inbox->tail[ring] % XR_INBOX_RING);
	uint8_t *rings = (uint8_t *)inbox->m + XR_INBOX_RINGS_OFF;

	return (struct place){ rings + (size_t)ring * XR_INBOX_RING + at, XR_INBOX_RING - at };
}

/* A UDP socket gives no message of more packets. */
static bool has_too_many(const struct xr_inbox_message *m)
{
	if (m->packets > 1)
		return m->packets > XR_INBOX_LARGE || m->size > XR_MAX_PAYLOAD ||
		       !(m->flags & XR_INBOX_UNSEALED);
	return m->size && (m->len - 1) / m->size >= XD_UDP_SEGMENTS;
}

/*
 * Returns the bytes that a message has in the ring, of `left` bytes that were written, 0 if it
 * breaks the rules.
 */
static uint64_t size_of(const struct xr_inbox_message *m, uint64_t left, uint32_t to_end)
{
	uint64_t size = sizeof(*m) +
			((uint64_t)m->len + XR_INBOX_ALIGN - 1) / XR_INBOX_ALIGN * XR_INBOX_ALIGN;

	if (m->len == XR_INBOX_SKIP)
		size = to_end;
	else if (!m->len || m->len > UINT16_MAX || size > to_end || has_too_many(m))
		return 0;
	return size <= left ? size : 0;
}

/* What is received in one call */
struct taking {
	bool emptied; /* the socket */
	struct xd_udp_about *about;
	struct iovec *data;
	uint32_t n, max;
	bool *behind;
};

/*
 * Takes the messages of a ring, of which `left` bytes were written. Returns what is left, 0 as
 * well if the writer breaks the rules.
 */
static uint64_t take_messages(struct xp_inbox *inbox, uint32_t ring, uint64_t left,
			      struct taking *t)
{
	struct xr_inbox_message m;
	struct place at;
	uint64_t size;

	for (; t->n < t->max && left; left -= size, inbox->tail[ring] += size) {
		at = inbox_place_of(inbox, ring);
		memcpy(&m, at.p, sizeof(m)); /* once: the writer may change it */
		size = size_of(&m, left, at.to_end);
		if (!size) {
			inbox_refuse_ring(inbox, ring);
			return 0;
		}
		if (m.len == XR_INBOX_SKIP)
			continue;
		if (m.flags & XR_INBOX_AFTER_SOCKET && (!t->emptied || t->n)) {
			*t->behind = true;
			return left;
		}
		set_about(&t->about[t->n], &m);
		t->data[t->n++] = (struct iovec){ at.p + sizeof(m), m.len };
	}
	return left;
}

static void receive_ring(struct xp_inbox *inbox, uint32_t ring, struct taking *t)
{
	uint64_t left = unread(inbox, ring);

	if (left > XR_INBOX_RING || left % XR_INBOX_ALIGN) {
		inbox_refuse_ring(inbox, ring);
		return;
	}
	if (take_messages(inbox, ring, left, t))
		return;
	/* The writer sets the bit after the head, if it finds it clear. */
	__atomic_fetch_and(&inbox->m->ready, ~(1ull << ring), __ATOMIC_SEQ_CST);
	if (unread(inbox, ring))
		__atomic_fetch_or(&inbox->m->ready, 1ull << ring, __ATOMIC_SEQ_CST);
}

/* Lets the writers have the room of what was received last. */
static void inbox_give_back(struct xp_inbox *inbox)
{
	while (inbox->taken) {
		uint32_t ring = xr_next_bit(&inbox->taken);

		__atomic_store_n(&inbox->m->ring[ring].tail, inbox->tail[ring], __ATOMIC_RELEASE);
	}
}

bool xp_inbox_pending(const struct xp_inbox *inbox)
{
	return inbox->m && __atomic_load_n(&inbox->m->ready, __ATOMIC_ACQUIRE) & ~inbox->broken;
}

uint32_t xp_inbox_receive(struct xp_inbox *inbox, bool emptied, struct xd_udp_about *about,
			  struct iovec *data, uint32_t max, bool *behind)
{
	struct taking t = { emptied, about, data, 0, max, behind };
	uint64_t ready;

	if (!inbox->m)
		return 0;
	inbox_give_back(inbox);
	ready = __atomic_load_n(&inbox->m->ready, __ATOMIC_ACQUIRE) & ~inbox->broken;
	while (ready && t.n < max) {
		/* the next one first, so that no ring waits for others for ever */
		uint64_t after = ready & -1ull << inbox->first;
		uint32_t ring = (uint32_t)__builtin_ctzll(after ? after : ready);

		ready &= ~(1ull << ring);
		inbox->first = (ring + 1) % XR_INBOX_RINGS;
		inbox->taken |= 1ull << ring;
		receive_ring(inbox, ring, &t);
	}
	return t.n;
}
