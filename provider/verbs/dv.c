// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs, <infiniband/xrocedv.h>: QP 1 and the reserved L_Key. */
#include <infiniband/xrocedv.h>

#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/verbs/device.h"
#include "provider/verbs/direct.h"
#include "provider/verbs/mr.h"
#include "provider/verbs/pd.h"
#include "provider/verbs/qp.h"
#include "provider/verbs/request.h"

XP_PUBLIC bool xrocedv_is_supported(struct ibv_device *device)
{
	return xp_is_our_device(device);
}

XP_PUBLIC struct ibv_qp *xrocedv_create_gsi_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return xp_is_ours(pd->context) ? xp_create_gsi_qp(pd, attr)
				       : xp_null(xp_refuse_foreign("xrocedv_create_gsi_qp"));
}

XP_PUBLIC int xrocedv_reserved_lkey(struct ibv_pd *pd, uint32_t *lkey)
{
	struct xr_reserved_lkey_rep rep;
	struct xp_call call = {
		.type = XR_MSG_RESERVED_LKEY,
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	int err;

	if (!xp_is_ours(pd->context))
		return -xp_refuse_foreign("xrocedv_reserved_lkey");
	err = xp_send_proc_files(pd);
	if (!err)
		err = xp_call(xp_own_pd(pd)->ctx, &call);
	if (!err)
		*lkey = rep.lkey;
	return -err;
}
