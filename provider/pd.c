// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Protection domains. */
#include <stdlib.h>

#include "provider.h"

struct ibv_pd *xp_alloc_pd(struct ibv_context *ibctx)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));
	struct xr_handle_rep rep;
	int err;

	if (!pd)
		return xp_null(ENOMEM);
	err = xp_request(xp_ctx(ibctx), XR_MSG_ALLOC_PD, NULL, 0, &rep, sizeof(rep));
	if (err) {
		free(pd);
		return xp_null(err);
	}
	pd->context = ibctx;
	pd->handle = rep.handle;
	return pd;
}

int xp_dealloc_pd(struct ibv_pd *pd)
{
	int err = xp_release(xp_ctx(pd->context), XR_MSG_DEALLOC_PD, pd->handle, NULL);

	if (err)
		return -err;
	free(pd);
	return 0;
}
