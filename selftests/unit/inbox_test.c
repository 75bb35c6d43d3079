// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The inbox of a direct context: what a reader makes of what writers store, whatever that is. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider/host/inbox.h"
#include "selftests/lib/tap.h"

#define RING 5u
#define MAX 16
#define RANDOM_RUNS 200000

static struct xp_inbox inbox;
static struct xr_inbox_ring *ring;
static uint8_t *bytes;
static struct xd_udp_about about[MAX];
static struct iovec data[MAX];

static void start(void)
{
	memset(&inbox, 0, sizeof(inbox));
	xp_inbox_map(&inbox, xp_inbox_new());
	if (!inbox.m) {
		printf("Bail out! no inbox\n");
		exit(1);
	}
	ring = &inbox.m->ring[RING];
	bytes = (uint8_t *)inbox.m + XR_INBOX_RINGS_OFF + RING * XR_INBOX_RING;
	inbox.m->attached = 1ull << RING;
	xp_inbox_open(&inbox);
}

static void end(void)
{
	xp_inbox_unmap(&inbox);
}

static bool behind;

static uint32_t receive_if(bool emptied)
{
	behind = false;
	return xp_inbox_receive(&inbox, emptied, about, data, MAX, &behind);
}

static uint32_t receive(void)
{
	return receive_if(false);
}

/* Stores the header of a message at a position, and publishes it with `size` bytes. */
static void put_at(uint64_t head, uint32_t len, uint64_t size)
{
	struct xr_inbox_message m = { .len = len, .size = 100, .sport = 50000, .ttl = 64 };

	memcpy(bytes + head % XR_INBOX_RING, &m, sizeof(m));
	__atomic_store_n(&ring->head, head + size, __ATOMIC_RELEASE);
	inbox.m->ready |= 1ull << RING;
}

static void set_flags(uint64_t at, uint32_t flags)
{
	((struct xr_inbox_message *)(void *)(bytes + at))->flags = flags;
}

static void set_packets(uint64_t at, uint32_t packets, uint32_t size)
{
	struct xr_inbox_message *m = (void *)(bytes + at);

	m->packets = packets;
	m->size = size;
}

static bool is_refused(void)
{
	return !receive() && ring->head & XR_INBOX_CLOSED && inbox.broken == 1ull << RING;
}

/* ---- tests -------------------------------------------------------------------------------- */

static void test_messages(void)
{
	start();
	TAP_OK(!receive(), "an empty inbox has no messages");
	put_at(0, 200, 320);
	TAP_OK(receive() == 1 && data[0].iov_len == 200 && about[0].size == 100 &&
		       about[0].sport == 50000 && about[0].ttl == 64 &&
		       (uint8_t *)data[0].iov_base == bytes + sizeof(struct xr_inbox_message),
	       "a message is received where it is");
	TAP_OK(!ring->tail, "its room is not given back while it is used");
	TAP_OK(!receive() && ring->tail == 320, "it is with the next call");
	TAP_OK(!inbox.m->ready, "a ring without messages is not ready");
	put_at(320, 64, 128);
	set_flags(320, XR_INBOX_UNSEALED);
	put_at(448, 64, 128);
	TAP_OK(receive() == 2 && about[0].unsealed && !about[1].unsealed,
	       "a message says whether its packets have an ICRC");
	put_at(576, 64, 128);
	set_flags(576, XR_INBOX_UNSEALED);
	set_packets(576, XR_INBOX_LARGE, XR_MAX_PAYLOAD);
	TAP_OK(receive() == 1 && about[0].packets == XR_INBOX_LARGE &&
		       about[0].size == XR_MAX_PAYLOAD,
	       "and how many packets a large frame stands for");
	end();

	start();
	inbox.tail[RING] = XR_INBOX_RING - 128;
	put_at(XR_INBOX_RING - 128, XR_INBOX_SKIP, 128);
	put_at(XR_INBOX_RING, 64, 128);
	TAP_OK(receive() == 1 && (uint8_t *)data[0].iov_base == bytes + 64,
	       "a message that does not fit at the end of the ring begins at its start");
	end();

	start();
	for (uint32_t i = 0; i < MAX + 3; i++)
		put_at(i * 128, 64, 128);
	TAP_OK(receive() == MAX && inbox.m->ready && receive() == 3 && !receive(),
	       "more messages than a call takes are left for the next ones");
	end();
}

static void test_behind(void)
{
	start();
	put_at(0, 64, 128);
	put_at(128, 64, 128);
	set_flags(128, XR_INBOX_AFTER_SOCKET);
	put_at(256, 64, 128);
	TAP_OK(receive() == 1 && behind && inbox.m->ready,
	       "a message that follows others in the socket is left");
	TAP_OK(!receive() && behind, "until the socket was found empty");
	TAP_OK(receive_if(true) == 2 && !behind && !receive(), "then it is received");
	end();
}

static void test_closed(void)
{
	start();
	TAP_OK(!(ring->head & XR_INBOX_CLOSED) && inbox.m->ring[RING + 1].head == XR_INBOX_CLOSED,
	       "only rings with a writer are opened");
	put_at(0, 64, 128);
	xp_inbox_close(&inbox);
	TAP_OK(ring->head == (XR_INBOX_CLOSED | 128) && receive() == 1,
	       "what was written before a ring is closed is received");
	xp_inbox_open(&inbox);
	TAP_OK(ring->head == 128, "and it is opened again");
	end();
}

static void test_refusals(void)
{
	static const struct {
		const char *name;
		uint32_t len;
		uint64_t size;
	} rows[] = {
		{ "that has no bytes", 0, 64 },
		{ "that is longer than a datagram", 65536, 65664 },
		{ "that is longer than what was written", 129, 192 },
		{ "whose length wraps around", 0xfffffff0u, 64 },
		{ "and a head that is not aligned", 64, 100 },
		{ "and a head beyond the ring", 64, XR_INBOX_RING + 64 },
		{ "and a head before the tail", 64, (uint64_t)-64 & ~XR_INBOX_CLOSED },
		{ "that only skips, beyond what was written", XR_INBOX_SKIP, 64 },
	};

	static const struct {
		const char *name;
		uint32_t flags, packets, size;
	} large[] = {
		{ "of 16 packets", XR_INBOX_UNSEALED, XR_INBOX_LARGE + 1, 4 },
		{ "of longer packets", XR_INBOX_UNSEALED, 2, XR_MAX_PAYLOAD + 1 },
		{ "with an ICRC", 0, 2, 4 },
	};

	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start();
		put_at(0, rows[i].len, rows[i].size);
		TAP_OK(is_refused(), "a ring with a message %s is closed for good", rows[i].name);
		xp_inbox_open(&inbox);
		TAP_OK(ring->head & XR_INBOX_CLOSED && !receive(), "and is not opened again");
		end();
	}
	start();
	put_at(0, 64 * 100 + 1, 6528);
	TAP_OK(is_refused(), "so is one with a message of 65 packets");
	end();
	start();
	put_at(0, 64 * 100, 6464);
	TAP_OK(receive() == 1, "but not one of 64");
	end();
	start();
	inbox.tail[RING] = XR_INBOX_RING - 128;
	put_at(XR_INBOX_RING - 128, 100, 192);
	TAP_OK(is_refused(), "so is one with a message across its end");
	end();
	for (uint32_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
		start();
		put_at(0, 64, 128);
		set_flags(0, large[i].flags);
		set_packets(0, large[i].packets, large[i].size);
		TAP_OK(is_refused(), "so is one with a large frame %s", large[i].name);
		end();
	}
}

static uint64_t state = 1;

static uint64_t random64(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static bool is_inside(const struct iovec *v)
{
	const uint8_t *p = v->iov_base, *first = (uint8_t *)inbox.m + XR_INBOX_RINGS_OFF;

	return v->iov_len && p >= first && p + v->iov_len <= (uint8_t *)inbox.m + XR_INBOX_SIZE;
}

/* All words that a writer can reach have values that are random, often nearly right. */
static void scribble(void)
{
	static const uint64_t words[] = { 0,
					  64,
					  100,
					  128,
					  65535,
					  65536,
					  XR_INBOX_RING,
					  XR_INBOX_SKIP,
					  XR_INBOX_CLOSED,
					  UINT64_MAX };
	const uint32_t n = sizeof(words) / sizeof(words[0]);
	uint32_t i = (uint32_t)(random64() % XR_INBOX_RINGS);
	struct xr_inbox_ring *r = &inbox.m->ring[i];
	uint8_t *p = (uint8_t *)inbox.m + XR_INBOX_RINGS_OFF + (size_t)i * XR_INBOX_RING;

	r->head = words[random64() % n] + words[random64() % n] + (random64() & 0xc0);
	r->tail = random64();
	p += inbox.tail[i] % XR_INBOX_RING;
	*(uint32_t *)(void *)p = (uint32_t)(words[random64() % n] + (random64() & 3));
	inbox.m->ready |= 1ull << i | random64() % 3;
	inbox.m->attached = random64();
}

static void test_random(void)
{
	bool ok = true;
	uint64_t got = 0;

	start();
	for (uint32_t i = 0; i < RANDOM_RUNS && ok; i++) {
		uint32_t n;

		scribble();
		xp_inbox_open(&inbox);
		n = receive();
		got += n;
		ok = n <= MAX;
		for (uint32_t k = 0; k < n; k++)
			ok &= is_inside(&data[k]);
		if (!(i & 63))
			inbox.broken = 0; /* other writers */
	}
	TAP_OK(ok && got, "messages of random memory are inside of it");
	end();
}

int main(void)
{
	test_messages();
	test_behind();
	test_closed();
	test_refusals();
	test_random();
	return tap_end();
}
