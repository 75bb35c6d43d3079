/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Buffers that the library allocates for a program: ibv_alloc_buf(), since IBVERBS_1.17. */
#ifndef XP_BUF_H
#define XP_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

struct ibv_buf;

/*
 * Returns true if a handle is of this library. The type is opaque to programs. libibverbs' own
 * starts with the address of the buffer.
 */
bool xp_is_our_buf(const struct ibv_buf *buf);

void *xp_alloc_buf(struct ibv_pd *ibpd, size_t size, struct ibv_buf **buf);
void xp_free_buf(struct ibv_buf *buf);

/* The memory is no dma-buf: returns -1 with ENODATA, as libibverbs does for such buffers. */
int xp_export_buf_dmabuf_fd(struct ibv_buf *buf);

/*
 * Checks that a range may be registered as part of the buffer. Returns 0 or -EINVAL.
 * @ibpd: must be the PD that the buffer was allocated with.
 */
int xp_buf_check(const struct ibv_buf *buf, const struct ibv_pd *ibpd, const void *addr,
		 size_t length);

#endif /* XP_BUF_H */
