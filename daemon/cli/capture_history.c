// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The last blocks of a capture, in a ring of bytes. A block is preceded by its length. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "capture.h"

bool capture_history_open(struct capture_history *h, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*h = (struct capture_history){ .size = size };
	if (p == MAP_FAILED)
		return false;
	h->bytes = p;
	return true;
}

void capture_history_close(struct capture_history *h)
{
	if (h->bytes)
		munmap(h->bytes, h->size);
	h->bytes = NULL;
}

/* Returns the place of bytes that lie @at bytes behind another place; blocks may wrap. */
static size_t behind(const struct capture_history *h, size_t place, size_t at)
{
	return at < h->size - place ? place + at : at - (h->size - place);
}

static void get(const struct capture_history *h, size_t at, void *to, size_t len)
{
	size_t off = behind(h, h->start, at), part = h->size - off < len ? h->size - off : len;

	memcpy(to, h->bytes + off, part);
	memcpy((uint8_t *)to + part, h->bytes, len - part);
}

static void put(struct capture_history *h, const void *from, size_t len)
{
	size_t off = behind(h, h->start, h->used), part = h->size - off < len ? h->size - off : len;

	memcpy(h->bytes + off, from, part);
	memcpy(h->bytes, (const uint8_t *)from + part, len - part);
	h->used += len;
}

static uint32_t first_length(const struct capture_history *h)
{
	uint32_t len;

	get(h, 0, &len, sizeof(len));
	return len;
}

static void remove_first(struct capture_history *h)
{
	size_t len = sizeof(uint32_t) + first_length(h);

	h->start = behind(h, h->start, len);
	h->used -= len;
}

void capture_history_add(struct capture_history *h, const uint8_t *block, size_t len)
{
	uint32_t length = (uint32_t)len;

	while (h->used && h->size - h->used < len + sizeof(length))
		remove_first(h);
	put(h, &length, sizeof(length));
	put(h, block, len);
}

bool capture_history_write(struct capture_history *h, FILE *f)
{
	uint8_t block[PCAPNG_BLOCK_MAX + CAPTURE_PACKET_MAX];
	uint32_t len;

	for (; h->used; remove_first(h)) {
		len = first_length(h);
		get(h, sizeof(len), block, len);
		if (fwrite(block, 1, len, f) != len)
			return false;
	}
	return true;
}
