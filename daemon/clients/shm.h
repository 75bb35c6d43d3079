/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory shared with a client for rings, doorbells and device memory. A chunk is a memfd of 2 MiB
 * or more, sealed against any change of size, which holds pieces of whole pages. The client maps
 * each chunk once. Chunks exist until the client ends; freed pieces of them are used again.
 */
#ifndef XD_SHM_H
#define XD_SHM_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "client_jobs.h"

struct xd_client;
struct xd_chunk;
struct xd_freed;
struct xd_reply;

struct xd_shm {
	struct xd_chunk **chunk;
	uint32_t chunks;
	uint64_t charged; /* bytes of struct xd_bytes.memory */

	struct xd_freed *freed; /* pieces whose pages are to be returned; atomic */
	struct xd_client_job punch;
	bool punching;		  /* the job waits or runs */
	struct xd_freed *punched; /* pieces that it took */
};

struct xd_piece {
	void *ptr; /* NULL: none */
	struct xd_chunk *chunk;
	uint32_t page, pages;
	uint64_t length; /* bytes that were requested */
};

/* Allocates zeroed memory. -EDQUOT: the user's quota; -ENOMEM. */
int xd_shm_alloc(struct xd_client *c, uint64_t length, struct xd_piece *piece);
/* As xd_shm_alloc(), in chunks for device memory only, which other clients may map. -EMFILE. */
int xd_shm_alloc_dm(struct xd_client *c, uint64_t length, struct xd_piece *piece);
void xd_shm_free(struct xd_client *c, struct xd_piece *piece); /* clears *piece */
/* Describes a piece in a reply. The first piece of a chunk adds the chunk's descriptor. */
void xd_shm_ref(const struct xd_piece *piece, struct xr_shm_ref *ref, struct xd_reply *rep);
/* Describes a piece of xd_shm_alloc_dm() in a reply to another client, always with a descriptor. */
void xd_shm_export(const struct xd_piece *piece, struct xr_shm_ref *ref, struct xd_reply *rep);
/* Unmaps all chunks. For a job. c->shm.charged keeps its value. */
void xd_shm_close(struct xd_client *c);

#endif /* XD_SHM_H */
