// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Shared memory chunks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "provider/control/shm.h"

#define MAX_CHUNKS 65536

static int shm_grow(struct xp_shm *shm, uint32_t id)
{
	unsigned int want = shm->nchunks ? shm->nchunks : 16;
	struct xp_chunk *chunk;

	while (want <= id)
		want *= 2;
	if (want == shm->nchunks)
		return 0;
	chunk = realloc(shm->chunk, want * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	memset(chunk + shm->nchunks, 0, (want - shm->nchunks) * sizeof(*chunk));
	shm->chunk = chunk;
	shm->nchunks = want;
	return 0;
}

static int control_map_chunk(struct xp_shm *shm, const struct xr_shm_ref *ref, int fd)
{
	struct stat st;
	void *base;
	int err;

	/* Access beyond the end of a file that is shorter than its mapping raises SIGBUS. */
	if (fstat(fd, &st) || ref->chunk >= MAX_CHUNKS || !ref->chunk_size ||
	    (uint64_t)st.st_size < ref->chunk_size)
		return -EPROTO;
	err = shm_grow(shm, ref->chunk);
	if (err)
		return err;
	base = mmap(NULL, ref->chunk_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	/* The daemon reuses the ids of chunks that it has freed. */
	if (shm->chunk[ref->chunk].base)
		munmap(shm->chunk[ref->chunk].base, shm->chunk[ref->chunk].size);
	shm->chunk[ref->chunk] = (struct xp_chunk){ base, ref->chunk_size };
	return 0;
}

int xp_shm_map(struct xp_shm *shm, const struct xr_shm_ref *ref, struct xp_shm_fds *fds, void **ptr)
{
	const struct xp_chunk *c;
	int err;

	*ptr = NULL;
	if (!ref->length)
		return 0;
	if (ref->new_chunk) {
		if (fds->used >= fds->n)
			return -EPROTO;
		err = control_map_chunk(shm, ref, fds->fd[fds->used++]);
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
