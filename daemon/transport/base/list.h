/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Doubly linked circular lists; an unlinked element points to itself. */
#ifndef XT_LIST_H
#define XT_LIST_H

#include <stdbool.h>

struct xt_list {
	struct xt_list *next, *prev;
};

static inline void xt_list_init(struct xt_list *l)
{
	l->next = l->prev = l;
}

static inline bool xt_list_empty(const struct xt_list *l)
{
	return l->next == l;
}

static inline void xt_list_add_tail(struct xt_list *head, struct xt_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Also allowed for an element that is in no list. */
static inline void xt_list_del(struct xt_list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	xt_list_init(l);
}

/* Moves all elements of a list to the end of another one. */
static inline void xt_list_move_all(struct xt_list *to, struct xt_list *from)
{
	if (xt_list_empty(from))
		return;
	from->next->prev = to->prev;
	from->prev->next = to;
	to->prev->next = from->next;
	to->prev = from->prev;
	xt_list_init(from);
}

#endif /* XT_LIST_H */
