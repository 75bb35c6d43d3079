/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the descriptors that clients' objects hold, so that the daemon keeps enough of its
 * RLIMIT_NOFILE for connections and for itself. Thread-safe.
 */
#ifndef XD_FD_QUOTA_H
#define XD_FD_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct xd_fd_quota {
	uint32_t limit;
	uint32_t used; /* atomic */
};

static inline void xd_fds_put(struct xd_fd_quota *q, uint32_t n)
{
	__atomic_sub_fetch(&q->used, n, __ATOMIC_RELAXED);
}

/* Takes all n or none; returns false if the limit would be exceeded. */
static inline bool xd_fds_take(struct xd_fd_quota *q, uint32_t n)
{
	if (__atomic_add_fetch(&q->used, n, __ATOMIC_RELAXED) <= q->limit)
		return true;
	xd_fds_put(q, n);
	return false;
}

#endif /* XD_FD_QUOTA_H */
