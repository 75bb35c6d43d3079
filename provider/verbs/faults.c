// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/verbs/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider/base/debug.h"
#include "provider/verbs/device.h"
#include "provider/verbs/request.h"

int xp_faults_set(struct xp_context *ctx, const char *rules, size_t length)
{
	struct xr_set_fault_req *req = malloc(sizeof(*req) + length);
	int err;

	if (!req)
		return xp_refuse_memory("xrocedv_set_faults");
	*req = (struct xr_set_fault_req){ .length = (uint32_t)length };
	memcpy(req->text, rules, length);
	err = xp_request(ctx, XR_MSG_SET_FAULT, req, sizeof(*req) + length, NULL, 0);
	free(req);
	return err;
}

/* Reads a file of at most XP_FAULT_RULES_MAX bytes. */
static int faults_read_rules(const char *path, char *rules, size_t *length)
{
	FILE *f = fopen(path, "re");
	int err = 0;

	if (!f)
		return -errno;
	*length = fread(rules, 1, XP_FAULT_RULES_MAX + 1, f);
	if (ferror(f))
		err = -EIO;
	else if (*length > XP_FAULT_RULES_MAX)
		err = -EFBIG;
	fclose(f);
	return err;
}

int xp_faults_load(struct xp_context *ctx)
{
	const char *path = secure_getenv("XROCE_FAULT");
	char rules[XP_FAULT_RULES_MAX + 1], why[XR_WHY_MAX + 64];
	size_t length = 0;
	int err;

	if (!path || !*path)
		return 0;
	err = faults_read_rules(path, rules, &length);
	snprintf(why, sizeof(why), "%s", strerrordesc_np(-err));
	if (!err) {
		err = xp_faults_set(ctx, rules, length);
		xp_conn_describe(&ctx->conn, ctx->dev->path, err, why, sizeof(why));
	}
	if (err)
		fprintf(stderr, "xroce: XROCE_FAULT=%s: %s\n", path, why);
	return err;
}
