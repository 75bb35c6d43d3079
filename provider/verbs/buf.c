// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Buffers that the library allocates for a program. They are ordinary memory: the daemon adopts it
 * when it is registered, and needs neither a dma-buf nor memory outside a confidential guest.
 */
#include "provider/verbs/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"

static const char tag;

struct xp_buf {
	const void *tag; /* &tag */
	uint8_t *addr;
	size_t size;
	struct ibv_pd *ibpd;
};

bool xp_is_our_buf(const struct ibv_buf *buf)
{
	return ((const struct xp_buf *)buf)->tag == &tag;
}

/* Starts at a page, as the function of libibverbs promises. Size 0 takes a page, as malloc(). */
void *xp_alloc_buf(struct ibv_pd *ibpd, size_t size, struct ibv_buf **buf)
{
	struct xp_buf *b = malloc(sizeof(*b));

	if (!b)
		return xp_null(xp_refuse_memory("ibv_alloc_buf"));
	b->addr = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (b->addr == MAP_FAILED) {
		free(b);
		return xp_null(xp_refuse("ibv_alloc_buf", errno, "mmap() of %zu bytes", size));
	}
	b->tag = &tag;
	b->size = size;
	b->ibpd = ibpd;
	*buf = (struct ibv_buf *)b;
	return b->addr;
}

void xp_free_buf(struct ibv_buf *buf)
{
	struct xp_buf *b = (struct xp_buf *)buf;

	munmap(b->addr, b->size ? b->size : 1);
	free(b);
}

int xp_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	return xp_fail(xp_refuse("ibv_export_buf_dmabuf_fd", ENODATA,
				 "buffers of ibv_alloc_buf are ordinary memory, no dma-buf"));
}

int xp_buf_check(const struct ibv_buf *buf, const struct ibv_pd *ibpd, const void *addr,
		 size_t length)
{
	const struct xp_buf *b = (const struct xp_buf *)buf;
	uintptr_t off = (uintptr_t)addr - (uintptr_t)b->addr;

	if (!xp_is_our_buf(buf) || b->ibpd != ibpd)
		return xp_refuse("ibv_reg_buf_mr", EINVAL,
				 "buf was allocated with another PD than that of the region");
	if (off > b->size || length > b->size - off)
		return xp_refuse("ibv_reg_buf_mr", EINVAL,
				 "%zu bytes at %p exceed the buffer, %zu bytes at %p", length, addr,
				 b->size, (void *)b->addr);
	return 0;
}
