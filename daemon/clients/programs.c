// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "programs.h"

#include <stdlib.h>
#include <string.h>

#include "client.h"

/*
 * Two names that differ in bytes that the text of metrics cannot have would be the same series
 * twice, which is an error for all readers.
 */
static void programs_print_name(char *to, const char *comm, size_t room)
{
	size_t n;

	for (n = 0; n + 1 < room && comm[n]; n++)
		to[n] = comm[n] < ' ' || comm[n] > '~' ? '?' : comm[n];
	to[n] = 0;
	if (!n)
		strcpy(to, "?");
}

static struct xd_program *programs_add(struct xd_programs *ps, uid_t uid, const char *comm)
{
	struct xd_program *p = calloc(1, sizeof(*p));

	if (!p)
		return &ps->others;
	p->uid = uid;
	memcpy(p->comm, comm, sizeof(p->comm));
	p->next = ps->first;
	ps->first = p;
	ps->count++;
	return p;
}

static struct xd_program *programs_find(struct xd_programs *ps, uid_t uid, const char *comm)
{
	struct xd_program *p;
	uint32_t of_user = 0;

	for (p = ps->first; p; p = p->next) {
		if (p->uid != uid)
			continue;
		if (!strcmp(p->comm, comm))
			return p;
		of_user++;
	}
	if (of_user >= XD_USER_PROGRAMS || ps->count >= XD_PROGRAMS)
		return &ps->others;
	return programs_add(ps, uid, comm);
}

struct xd_program *xd_program_of(struct xd_client *c)
{
	char comm[sizeof(((struct xd_program *)NULL)->comm)] = "";

	if (!c->program) {
		programs_print_name(comm, c->identity.comm, sizeof(comm));
		c->program = programs_find(&c->clients->programs, c->identity.uid, comm);
	}
	return c->program;
}

void xd_programs_free(struct xd_programs *ps)
{
	struct xd_program *p;

	while ((p = ps->first)) {
		ps->first = p->next;
		free(p);
	}
}
