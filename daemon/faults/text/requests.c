// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Faults of verbs: requests that fail, or take long. */
#include <string.h>

#include "parse.h"

#define ERRORS 134 /* numbers of errno.h end below */

/* Requests of programs whose handlers are the daemon's part of a verb */
static const struct {
	const char *name;
	uint32_t flags;
} verbs[] = {
#define X(NAME, name, body, flags) [XR_MSG_##NAME] = { #name, flags },
	XR_MESSAGES(X)
#undef X
};
_Static_assert(XR_MSG_COUNT <= 64, "a bit for each request");

static bool is_verb(uint32_t type)
{
	const uint32_t others = XR_FOR_OBSERVERS | XR_FOR_OPERATORS | XR_FOR_CHANNELS | XR_FOR_UMAD;

	return verbs[type].name && !(verbs[type].flags & others);
}

static bool set_verb(struct xd_words *w, struct xd_fault_rule *r)
{
	const char *name = xd_words_next(w);

	r->match.direction = 0;
	for (uint32_t type = 1; name && type < XR_MSG_COUNT; type++)
		if (is_verb(type) && (!strcmp(name, "any") || !strcmp(name, verbs[type].name)))
			r->verbs |= 1ull << type;
	return r->verbs ||
	       xd_words_wrong(w, name, "a verb such as reg_mr, create_qp, modify_qp, or any");
}

bool xd_fault_fail(struct xd_words *w, struct xd_fault_rule *r)
{
	const char *name;

	if (!set_verb(w, r))
		return false;
	name = xd_words_next(w);
	for (int error = 1; name && error < ERRORS && !r->error; error++)
		if (strerrorname_np(error) && !strcmp(strerrorname_np(error), name))
			r->error = -error;
	return r->error ||
	       xd_words_wrong(w, name, "an error such as ENOMEM or EAGAIN behind the verb");
}

bool xd_fault_slow(struct xd_words *w, struct xd_fault_rule *r)
{
	return set_verb(w, r) && xd_words_time(w, XD_FAULT_DELAY_MAX, &r->delay);
}
