// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sent.h"

#include <string.h>

#include "daemon/transport/qp.h"

static bool sent_has(const struct xt_sent *s, uint32_t psn)
{
	return psn - s->psn < s->end - s->psn;
}

struct xt_sent *xt_sent_find(struct xt_sent_log *l, uint32_t psn, uint32_t end)
{
	for (uint32_t i = l->count; i--;)
		if (xt_diff(l->sent[i].psn, end) < 0 && xt_diff(psn, l->sent[i].end) < 0)
			return &l->sent[i];
	return NULL;
}

static void sent_drop(struct xt_sent_log *l, struct xt_sent *s)
{
	memmove(s, s + 1, (size_t)(&l->sent[l->count--] - (s + 1)) * sizeof(*s));
}

static bool is_message(const struct xt_sent *s)
{
	return !s->read && !s->probe;
}

/* If a part of the last record is answered, what follows is not of the same order. */
static bool sent_continues(const struct xt_sent *last, const struct xt_sent *s, uint32_t unacked)
{
	return is_message(last) && is_message(s) && last->end == s->psn && last->next == s->next &&
	       !last->passed && xt_diff(last->psn, unacked) >= 0;
}

void xt_sent_add(struct xt_sent_log *l, struct xt_sent *old, const struct xt_sent *s,
		 uint32_t unacked)
{
	struct xt_sent *last;

	if (old)
		sent_drop(l, old);
	last = l->count ? &l->sent[l->count - 1] : NULL;
	if (last && sent_continues(last, s, unacked)) {
		last->end = s->end;
		last->at = s->at;
		return;
	}
	if (l->count == XT_SENT)
		sent_drop(l, l->sent);
	l->sent[l->count++] = *s;
}

static void sent_pass(struct xt_sent_log *l, uint32_t n)
{
	while (n--)
		l->sent[n].passed = true;
}

void xt_sent_answered(struct xt_sent_log *l, uint32_t psn)
{
	for (uint32_t i = l->count; i--;) {
		bool by_new = l->sent[i].read && xt_diff(psn, l->sent[i].next) >= 0;

		if (!by_new && !sent_has(&l->sent[i], psn))
			continue;
		sent_pass(l, i + by_new);
		return;
	}
}

struct xt_acked xt_sent_acked(struct xt_sent_log *l, uint32_t unacked)
{
	struct xt_acked acked = { .horizon = unacked };
	uint32_t left = 0;

	for (uint32_t i = 0; i < l->count; i++) {
		const struct xt_sent s = l->sent[i];
		bool more = xt_diff(s.next, unacked) > 0;

		if (xt_diff(s.end, unacked) > 0) {
			l->sent[left++] = s;
			continue;
		}
		acked = (struct xt_acked){
			.horizon = unacked,
			.kept = more && s.end != unacked,
			.dropped = more && s.end == unacked,
		};
		if (s.probe && !acked.dropped)
			continue;
		sent_pass(l, left);
		if (more)
			acked.horizon = s.next;
	}
	l->count = left;
	return acked;
}
