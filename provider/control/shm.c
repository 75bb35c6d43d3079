// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Chunks of shared memory that the daemon makes: each is mapped once, until the context closes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "provider/provider.h"

#define MAX_CHUNKS 65536

static int map_chunk(struct xp_shm *shm, const struct xr_shm_ref *ref, int fd)
{
	unsigned int want = shm->nchunks ? shm->nchunks : 16;
	struct xp_chunk *chunk;
	struct stat st;
	void *base;

	/* A file shorter than its mapping would be a SIGBUS later on. */
	if (fstat(fd, &st) || ref->chunk >= MAX_CHUNKS || !ref->chunk_size ||
	    (uint64_t)st.st_size < ref->chunk_size)
		return -EPROTO;
	while (want <= ref->chunk)
		want *= 2;
	if (want > shm->nchunks) {
		chunk = realloc(shm->chunk, want * sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		memset(chunk + shm->nchunks, 0, (want - shm->nchunks) * sizeof(*chunk));
		shm->chunk = chunk;
		shm->nchunks = want;
	}
	base = mmap(NULL, ref->chunk_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	/* An id may come again after the daemon gave up the chunk that had it. */
	if (shm->chunk[ref->chunk].base)
		munmap(shm->chunk[ref->chunk].base, shm->chunk[ref->chunk].size);
	shm->chunk[ref->chunk] = (struct xp_chunk){ base, ref->chunk_size };
	return 0;
}

int xp_shm_map(struct xp_shm *shm, const struct xr_shm_ref *ref, const int *fds, unsigned int nfds,
	       unsigned int *used, void **ptr)
{
	const struct xp_chunk *c;
	int err;

	*ptr = NULL;
	if (!ref->length)
		return 0;
	if (ref->new_chunk) {
		if (*used >= nfds)
			return -EPROTO;
		err = map_chunk(shm, ref, fds[(*used)++]);
		if (err)
			return err;
	}
	if (ref->chunk >= shm->nchunks)
		return -EPROTO;
	c = &shm->chunk[ref->chunk];
	if (!c->base || ref->offset > c->size || ref->length > c->size - ref->offset)
		return -EPROTO;
	*ptr = (uint8_t *)c->base + ref->offset;
	return 0;
}

void xp_shm_unmap_all(struct xp_shm *shm)
{
	unsigned int i;

	for (i = 0; i < shm->nchunks; i++) {
		if (shm->chunk[i].base)
			munmap(shm->chunk[i].base, shm->chunk[i].size);
	}
	free(shm->chunk);
	*shm = (struct xp_shm){ 0 };
}
