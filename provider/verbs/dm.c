// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Device memory: memory of the daemon that is mapped into the program. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "provider/base/debug.h"
#include "provider/base/fail.h"
#include "provider/verbs/child.h"
#include "provider/verbs/dm.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/request.h"

/* Alignment of offsets and lengths, as with devices whose memory is behind a bus */
#define COPY_UNIT 4

struct xp_dm {
	struct ibv_dm ibdm;
	struct xp_context *ctx; /* of this process: child.h */
	uint8_t *base;
	uint64_t length;
	bool imported; /* has a mapping of its own; the daemon has no object for it */
};

static struct xp_dm *xp_dm(struct ibv_dm *ibdm)
{
	return (struct xp_dm *)ibdm;
}

static int check_copy(const struct xp_dm *dm, uint64_t off, size_t length)
{
	if (off > dm->length || length > dm->length - off || off % COPY_UNIT || length % COPY_UNIT)
		return -xp_refuse("ibv_memcpy_to_dm/from_dm", EINVAL,
				  "offset %llu, length %zu; both multiples of %u, in %llu bytes",
				  (unsigned long long)off, length, COPY_UNIT,
				  (unsigned long long)dm->length);
	return xp_health(dm->ctx) == XP_HEALTHY ? 0 : EIO;
}

static int dm_copy_to(struct ibv_dm *ibdm, uint64_t off, const void *from, size_t length)
{
	struct xp_dm *dm = xp_dm(ibdm);
	int err = check_copy(dm, off, length);

	if (!err)
		memcpy(dm->base + off, from, length);
	return err;
}

static int copy_from(void *to, struct ibv_dm *ibdm, uint64_t off, size_t length)
{
	struct xp_dm *dm = xp_dm(ibdm);
	int err = check_copy(dm, off, length);

	if (!err)
		memcpy(to, dm->base + off, length);
	return err;
}

static struct ibv_dm *dm_fill(struct xp_dm *dm, uint32_t handle)
{
	dm->ibdm.context = dm->ctx->shown;
	dm->ibdm.memcpy_to_dm = dm_copy_to;
	dm->ibdm.memcpy_from_dm = copy_from;
	dm->ibdm.handle = handle;
	return &dm->ibdm;
}

struct ibv_dm *xp_alloc_dm(struct ibv_context *ibctx, struct ibv_alloc_dm_attr *attr)
{
	struct xr_alloc_dm_req req = { .length = attr->length, .log_align = attr->log_align_req };
	struct xr_alloc_dm_rep rep;
	struct xp_piece piece = { .ref = &rep.memory };
	struct xp_call call = {
		.type = XR_MSG_ALLOC_DM,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	struct xp_dm *dm;
	int err;

	if (attr->comp_mask)
		return xp_null(xp_refuse("ibv_alloc_dm", EINVAL, "comp_mask 0x%x, must be 0",
					 attr->comp_mask));
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return xp_null(xp_refuse_memory("ibv_alloc_dm"));
	dm->ctx = xp_ctx(xp_process_context(ibctx));
	err = xp_call_map(dm->ctx, &call, &piece, 1);
	if (err) {
		free(dm);
		return xp_null(err);
	}
	dm->base = piece.ptr;
	dm->length = attr->length;
	return dm_fill(dm, rep.handle);
}

/* Maps device memory of another process, which is part of a file. */
static int map_import(struct xp_dm *dm, const struct xr_shm_ref *ref, int fd)
{
	struct stat st;

	/* Access beyond the end of a file that is shorter than its mapping raises SIGBUS. */
	if (fstat(fd, &st) || !ref->length || ref->offset > ref->chunk_size ||
	    ref->length > ref->chunk_size - ref->offset || (uint64_t)st.st_size < ref->chunk_size)
		return -EPROTO;
	dm->base = mmap(NULL, ref->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			(off_t)ref->offset);
	dm->length = ref->length;
	return dm->base == MAP_FAILED ? -errno : 0;
}

struct ibv_dm *xp_import_dm(struct ibv_context *ibctx, uint32_t handle)
{
	struct xr_handle_req req = { .handle = handle };
	struct xp_dm *dm = calloc(1, sizeof(*dm));
	struct xr_import_dm_rep rep;
	int fd = -1, err;
	struct xp_call call = {
		.type = XR_MSG_IMPORT_DM,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_room = 1,
	};

	if (!dm)
		return xp_null(xp_refuse_memory("ibv_import_dm"));
	dm->ctx = xp_ctx(xp_process_context(ibctx));
	err = xp_call(dm->ctx, &call);
	if (!err)
		err = call.rep_nfds ? map_import(dm, &rep.memory, fd) : -EPROTO;
	xp_close_fds(&fd, call.rep_nfds);
	if (err) {
		free(dm);
		return xp_null(err);
	}
	dm->imported = true;
	return dm_fill(dm, handle);
}

void xp_unimport_dm(struct ibv_dm *ibdm)
{
	struct xp_dm *dm = xp_dm(ibdm);

	if (!dm->imported)
		return;
	munmap(dm->base, dm->length);
	free(dm);
}

int xp_free_dm(struct ibv_dm *ibdm)
{
	int err;

	if (xp_dm(ibdm)->imported) {
		xp_unimport_dm(ibdm);
		return 0;
	}
	err = xp_release(xp_dm(ibdm)->ctx, XR_MSG_FREE_DM, ibdm->handle, NULL);
	if (!err)
		free(ibdm);
	return -err;
}

struct ibv_mr *xp_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm, uint64_t off, size_t length,
			    unsigned int access)
{
	struct xr_mr_segment seg = {
		.kind = XR_SEG_DM,
		.fd_index = ibdm->handle,
		.offset = off,
		.length = length,
	};

	if (!(access & IBV_ACCESS_ZERO_BASED) || !xp_is_of(ibdm, xp_dm, xp_own_pd(ibpd)->ctx))
		return xp_null(xp_refuse("ibv_reg_dm_mr", EINVAL,
					 "access 0x%x needs IBV_ACCESS_ZERO_BASED; dm and pd need "
					 "the same context",
					 access));
	if (xp_dm(ibdm)->imported)
		return xp_null(xp_refuse("ibv_reg_dm_mr", EOPNOTSUPP,
					 "imported device memory belongs to another process"));
	return xp_reg_segment(ibpd, &seg, -1, 0, access);
}
