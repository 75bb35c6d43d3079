// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Direct verbs, <infiniband/xrocedv.h>: QP 1, the reserved L_Key, rules of fault injection. */
#include <string.h>

#include <infiniband/xrocedv.h>

#include "provider/base/debug.h"
#include "provider/base/export.h"
#include "provider/base/fail.h"
#include "provider/dv/common.h"
#include "provider/verbs/child.h"
#include "provider/verbs/device.h"
#include "provider/verbs/faults.h"
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

XP_PUBLIC int xrocedv_set_faults(struct ibv_context *context, const char *rules)
{
	size_t length = strlen(rules);
	struct xp_context *ctx;
	int err;

	if (!xp_is_ours(context))
		return -xp_refuse_foreign("xrocedv_set_faults");
	if (length > XP_FAULT_RULES_MAX)
		return -xp_refuse("xrocedv_set_faults", EFBIG, "%zu bytes, limit %d", length,
				  XP_FAULT_RULES_MAX);
	ctx = xp_ctx(xp_process_context(context));
	err = xp_faults_set(ctx, rules, length);
	if (err)
		xp_refuse("xrocedv_set_faults", err, "%s", ctx->conn.why);
	return -err;
}
