/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory shared with a client, for rings and doorbells: memfds of 2 MiB or more, sealed
 * against any change of size, that hold pieces of whole pages. A client maps each chunk
 * once; chunks stay until it goes, what is freed in them loses its pages and is used again.
 */
#ifndef XD_SHM_H
#define XD_SHM_H

#include <stdint.h>

#include <xroce/control.h>

struct xd_client;
struct xd_chunk;
struct xd_reply;

struct xd_shm {
	struct xd_chunk **chunk;
	uint32_t chunks;
	uint64_t charged; /* bytes of the user's quota */
};

struct xd_piece {
	void *ptr; /* NULL: none */
	struct xd_chunk *chunk;
	uint32_t page, pages;
	uint64_t length; /* as wanted */
};

/* Zeroed. -EDQUOT: the user's quota; -ENOMEM. */
int xd_shm_alloc(struct xd_client *c, uint64_t length, struct xd_piece *piece);
/* The same in chunks that hold nothing else, since others may map them. -EMFILE. */
int xd_shm_alloc_dm(struct xd_client *c, uint64_t length, struct xd_piece *piece);
void xd_shm_free(struct xd_client *c, struct xd_piece *piece); /* clears *piece */
/* Tells the client; the first piece of a chunk brings its fd. */
void xd_shm_ref(const struct xd_piece *piece, struct xr_shm_ref *ref, struct xd_reply *rep);
/* Tells another client where a piece of xd_shm_alloc_dm() lies, always with its fd. */
void xd_shm_export(const struct xd_piece *piece, struct xr_shm_ref *ref, struct xd_reply *rep);
/* Unmaps all chunks. In a job. c->shm.charged stays as it is. */
void xd_shm_close(struct xd_client *c);

#endif /* XD_SHM_H */
