/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the descriptors that are held for clients, so that the daemon keeps enough of its
 * RLIMIT_NOFILE for others and for itself. Quotas form a tree: what one takes, its parents take as
 * well. Thread-safe.
 */
#ifndef XD_FD_QUOTA_H
#define XD_FD_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xd_fd_quota {
	const char *name; /* of the limit, for messages */
	uint32_t limit;
	uint32_t used;		    /* atomic */
	struct xd_fd_quota *parent; /* NULL: none */
};

/* Returns the first quota without room for n more, NULL if all have room. */
static inline const struct xd_fd_quota *xd_fds_full(const struct xd_fd_quota *q, uint32_t n)
{
	while (q && __atomic_load_n(&q->used, __ATOMIC_RELAXED) + n <= q->limit)
		q = q->parent;
	return q;
}

static inline void xd_fds_put(struct xd_fd_quota *q, uint32_t n)
{
	for (; q; q = q->parent)
		__atomic_sub_fetch(&q->used, n, __ATOMIC_RELAXED);
}

/* Takes all n or none; returns false if more than the limit would be in use. */
static inline bool xd_fds_take(struct xd_fd_quota *q, uint32_t n)
{
	struct xd_fd_quota *at;
	bool fits = true;

	for (at = q; at; at = at->parent)
		fits &= __atomic_add_fetch(&at->used, n, __ATOMIC_RELAXED) <= at->limit;
	if (!fits)
		xd_fds_put(q, n);
	return fits;
}

#endif /* XD_FD_QUOTA_H */
