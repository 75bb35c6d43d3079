// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Device memory: a piece of the daemon's memory that is mapped here, so that copying is copying. */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

/* As other devices have it, whose memory is behind a bus */
#define COPY_UNIT 4

struct xp_dm {
	struct ibv_dm ibdm;
	uint8_t *base;
	uint64_t length;
};

static int check_copy(const struct xp_dm *dm, uint64_t off, size_t length)
{
	if (off > dm->length || length > dm->length - off || off % COPY_UNIT ||
	    length % COPY_UNIT)
		return EINVAL;
	return xp_health(xp_ctx(dm->ibdm.context)) == XP_HEALTHY ? 0 : EIO;
}

static int copy_to(struct ibv_dm *ibdm, uint64_t off, const void *from, size_t length)
{
	struct xp_dm *dm = (struct xp_dm *)ibdm;
	int err = check_copy(dm, off, length);

	if (!err)
		memcpy(dm->base + off, from, length);
	return err;
}

static int copy_from(void *to, struct ibv_dm *ibdm, uint64_t off, size_t length)
{
	struct xp_dm *dm = (struct xp_dm *)ibdm;
	int err = check_copy(dm, off, length);

	if (!err)
		memcpy(to, dm->base + off, length);
	return err;
}

struct ibv_dm *xp_alloc_dm(struct ibv_context *ibctx, struct ibv_alloc_dm_attr *attr)
{
	struct xr_alloc_dm_req req = { .length = attr->length, .log_align = attr->log_align_req };
	struct xr_alloc_dm_rep rep;
	struct xp_piece piece = { .ref = &rep.memory };
	struct xp_call call = {
		.type = XR_MSG_ALLOC_DM, .req = &req, .req_len = sizeof(req),
		.rep = &rep, .rep_len = sizeof(rep),
	};
	struct xp_dm *dm;
	int err;

	if (attr->comp_mask)
		return xp_null(EINVAL);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return xp_null(ENOMEM);
	ibctx = xp_here(ibctx);
	err = xp_call_map(xp_ctx(ibctx), &call, &piece, 1);
	if (err) {
		free(dm);
		return xp_null(err);
	}
	dm->ibdm.context = ibctx;
	dm->ibdm.memcpy_to_dm = copy_to;
	dm->ibdm.memcpy_from_dm = copy_from;
	dm->ibdm.handle = rep.handle;
	dm->base = piece.ptr;
	dm->length = attr->length;
	return &dm->ibdm;
}

int xp_free_dm(struct ibv_dm *ibdm)
{
	int err = xp_release(xp_ctx(ibdm->context), XR_MSG_FREE_DM, ibdm->handle, NULL);

	if (!err)
		free(ibdm);
	return -err;
}

struct ibv_mr *xp_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm, uint64_t off, size_t length,
			    unsigned int access)
{
	struct xr_mr_segment seg = {
		.kind = XR_SEG_DM, .fd_index = ibdm->handle, .offset = off, .length = length,
	};

	if (!(access & IBV_ACCESS_ZERO_BASED) || ibdm->context != ibpd->context)
		return xp_null(EINVAL);
	return xp_reg_segment(ibpd, &seg, -1, 0, access);
}
