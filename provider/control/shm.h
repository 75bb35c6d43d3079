/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared memory chunks, which the daemon creates. */
#ifndef XP_SHM_H
#define XP_SHM_H

#include <stddef.h>
#include <stdint.h>

#include <xroce/control.h>

struct xp_chunk {
	void *base; /* NULL: not mapped */
	size_t size;
};

/* The chunks of one connection. Each is mapped once and stays until the context is closed. */
struct xp_shm {
	struct xp_chunk *chunk; /* indexed by chunk id */
	unsigned int nchunks;
};

/* The descriptors of one reply */
struct xp_shm_fds {
	const int *fd;
	unsigned int n;
	unsigned int used; /* descriptors of chunks that were mapped */
};

/*
 * Stores the address of a piece in *ptr, NULL for a piece of length 0. If the piece is the first of
 * its chunk, maps the chunk with the next unused descriptor. Must be called in the order of the
 * replies, since a chunk's descriptor comes with its first piece. Returns -EPROTO if the piece is
 * not within its chunk.
 */
int xp_shm_map(struct xp_shm *shm, const struct xr_shm_ref *ref, struct xp_shm_fds *fds,
	       void **ptr);
void xp_shm_unmap_all(struct xp_shm *shm);

#endif /* XP_SHM_H */
