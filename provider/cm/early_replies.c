// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/cm/early_replies.h"

#include <stdlib.h>
#include <string.h>

void xp_cm_early_replies_drop(struct xp_cm_early_replies *a)
{
	free(a->bytes);
	*a = (struct xp_cm_early_replies){ .bytes = NULL };
}

void xp_cm_early_replies_set(struct xp_cm_early_replies *a, const void *bytes, size_t len)
{
	xp_cm_early_replies_drop(a);
	a->bytes = len ? malloc(len) : NULL;
	if (!a->bytes)
		return;
	memcpy(a->bytes, bytes, len);
	a->len = len;
}

/* Returns the argument that selects the reply. */
static uint32_t argument(const struct xp_cm_command *c)
{
	return c->cmd == RDMA_USER_CM_CMD_QUERY ? c->u.query.option : c->u.init_qp_attr.qp_state;
}

/* Returns the reply of the next early reply, and its head. NULL: there are no more. */
static const uint8_t *next_early_reply(const struct xp_cm_early_replies *a, size_t *at,
				       struct xr_cm_early_reply *head)
{
	const uint8_t *reply;

	if (a->len - *at < sizeof(*head))
		return NULL;
	memcpy(head, a->bytes + *at, sizeof(*head));
	*at += sizeof(*head);
	if (head->length > a->len - *at)
		return NULL;
	reply = a->bytes + *at;
	*at += head->length;
	return reply;
}

bool xp_cm_early_replies_path(const struct xp_cm_early_replies *a, struct xr_cm_path *path)
{
	struct xr_cm_early_reply head;
	const uint8_t *reply;
	size_t at = 0;

	while ((reply = next_early_reply(a, &at, &head))) {
		if (head.cmd != XR_CM_PATH || head.length < sizeof(*path))
			continue;
		memcpy(path, reply, sizeof(*path));
		return true;
	}
	return false;
}

size_t xp_cm_early_replies_find(const struct xp_cm_early_replies *a, const struct xp_cm_command *c,
				void *rep, size_t room)
{
	struct xr_cm_early_reply head;
	const uint8_t *reply;
	size_t at = 0;

	while ((reply = next_early_reply(a, &at, &head))) {
		if (head.cmd != c->cmd || head.argument != argument(c))
			continue;
		if (head.length > room)
			return 0;
		memcpy(rep, reply, head.length);
		return head.length;
	}
	return 0;
}
