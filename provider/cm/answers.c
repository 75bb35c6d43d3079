// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/cm/answers.h"

#include <stdlib.h>
#include <string.h>

void xp_cm_answers_drop(struct xp_cm_answers *a)
{
	free(a->bytes);
	*a = (struct xp_cm_answers){ .bytes = NULL };
}

void xp_cm_answers_set(struct xp_cm_answers *a, const void *bytes, size_t len)
{
	xp_cm_answers_drop(a);
	a->bytes = len ? malloc(len) : NULL;
	if (!a->bytes)
		return;
	memcpy(a->bytes, bytes, len);
	a->len = len;
}

/* Returns the argument that selects the answer. */
static uint32_t argument(const struct xp_cm_command *c)
{
	return c->cmd == RDMA_USER_CM_CMD_QUERY ? c->u.query.option : c->u.init_qp_attr.qp_state;
}

/* Returns the reply of the next answer, and its head. NULL: there are no more. */
static const uint8_t *next_answer(const struct xp_cm_answers *a, size_t *at,
				  struct xr_cm_answer *head)
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

bool xp_cm_answers_path(const struct xp_cm_answers *a, struct xr_cm_path *path)
{
	struct xr_cm_answer head;
	const uint8_t *reply;
	size_t at = 0;

	while ((reply = next_answer(a, &at, &head))) {
		if (head.cmd != XR_CM_PATH || head.length < sizeof(*path))
			continue;
		memcpy(path, reply, sizeof(*path));
		return true;
	}
	return false;
}

size_t xp_cm_answers_find(const struct xp_cm_answers *a, const struct xp_cm_command *c, void *rep,
			  size_t room)
{
	struct xr_cm_answer head;
	const uint8_t *reply;
	size_t at = 0;

	while ((reply = next_answer(a, &at, &head))) {
		if (head.cmd != c->cmd || head.argument != argument(c))
			continue;
		if (head.length > room)
			return 0;
		memcpy(rep, reply, head.length);
		return head.length;
	}
	return 0;
}
