// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The list of rules in force, and the programs whose packets they select. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "mads.h"
#include "random.h"

struct xd_faults *xd_faults_new(void)
{
	struct xd_faults *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->mads = xd_fault_mads_new();
	if (!f->mads) {
		free(f);
		return NULL;
	}
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

void xd_faults_free(struct xd_faults *f)
{
	if (!f)
		return;
	pthread_mutex_destroy(&f->lock);
	xd_fault_mads_free(f->mads);
	free(f);
}

struct xd_fault_mads *xd_faults_mads(struct xd_faults *f)
{
	return f->mads;
}

/* Returns the number of rules of programs but this one: of all, or of its user's. */
static uint32_t count_others(const struct xd_faults *f, const struct xd_fault_program *p, bool user)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		const struct xd_rule *r = &f->rule[i];

		n += r->owner && r->owner != p->client && (!user || r->uid == p->uid);
	}
	return n;
}

static void faults_remove_rules(struct xd_faults *f, uint64_t owner)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < f->n; i++)
		if (f->rule[i].owner != owner)
			f->rule[kept++] = f->rule[i];
	f->n = kept;
}

static bool rules_has_room(const struct xd_faults *f, const struct xd_fault_program *p, uint32_t n)
{
	if (!p)
		return n <= XD_FAULT_RULES - XD_FAULT_CLIENTS_RULES;
	return n <= XD_FAULT_CLIENT_RULES &&
	       (!n || p->is_operator || n + count_others(f, p, true) <= XD_FAULT_USER_RULES) &&
	       n + count_others(f, p, false) <= XD_FAULT_CLIENTS_RULES;
}

static bool names_program(const struct xd_rule *r)
{
	const struct xd_fault_match *m = &r->rule.match;

	return r->owner || m->pid != XD_FAULT_ANY || m->uid != XD_FAULT_ANY || m->command[0];
}

static void summarize(struct xd_faults *f)
{
	uint32_t directions = 0;

	f->any = 0;
	for (uint32_t i = 0; i < f->n; i++) {
		directions |= f->rule[i].rule.match.direction;
		f->any |= (uint64_t)!names_program(&f->rule[i]) << i;
	}
	__atomic_store_n(&f->directions, directions, __ATOMIC_RELAXED);
}

int xd_faults_set(struct xd_faults *f, const struct xd_fault_program *program, uint64_t seed,
		  const struct xd_fault_rule *rules, uint32_t n)
{
	uint64_t owner = program ? program->client : 0;

	if (!rules_has_room(f, program, n))
		return -ENOSPC;
	faults_remove_rules(f, owner);
	if (!owner)
		f->seed = seed;
	for (uint32_t i = 0; i < n; i++) {
		struct xd_rule *r = &f->rule[f->n++];

		*r = (struct xd_rule){ .rule = rules[i], .owner = owner, .random = seed + i };
		r->pid = program ? program->pid : 0;
		r->uid = program ? program->uid : 0;
		r->random = xd_fault_draw(&r->random);
	}
	summarize(f);
	return 0;
}

bool xd_faults_on(const struct xd_faults *f, uint32_t direction)
{
	return __atomic_load_n(&f->directions, __ATOMIC_RELAXED) & direction;
}

bool xd_faults_of_user(const struct xd_faults *f, uint32_t uid)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->rule[i].rule.match.direction && (!f->rule[i].owner || f->rule[i].uid == uid))
			return true;
	return false;
}

bool xd_faults_by_program(const struct xd_faults *f)
{
	return f->any != (f->n < 64 ? (1ull << f->n) - 1 : UINT64_MAX);
}

static bool owns(const struct xd_fault_program *p, const struct xd_rule *r)
{
	return r->owner == p->client || (p->is_channel && r->pid == p->pid && r->uid == p->uid);
}

static bool selects_program(const struct xd_rule *r, const struct xd_fault_program *p)
{
	const struct xd_fault_match *m = &r->rule.match;

	return (!r->owner || owns(p, r)) && (m->pid == XD_FAULT_ANY || m->pid == p->pid) &&
	       (m->uid == XD_FAULT_ANY || m->uid == p->uid) &&
	       (!m->command[0] || !strcmp(m->command, p->command));
}

uint64_t xd_faults_of(const struct xd_faults *f, const struct xd_fault_program *program)
{
	uint64_t rules = f->any;

	for (uint32_t i = 0; program && i < f->n; i++)
		rules |= (uint64_t)selects_program(&f->rule[i], program) << i;
	return rules;
}

uint64_t xd_faults_of_mads(const struct xd_faults *f, uint64_t rules, bool self)
{
	for (uint32_t i = 0; i < f->n; i++) {
		const struct xd_rule *r = &f->rule[i];

		if (xd_rule_is_injection(r) || (r->owner && r->rule.seal) ||
		    (self && xd_rule_is_timed(r)))
			rules &= ~(1ull << i);
	}
	return rules;
}

const struct xd_fault_rule *xd_faults_at(struct xd_faults *f, uint32_t index,
					 struct xd_fault_hits *hits, uint64_t *owner)
{
	struct xd_rule *r = &f->rule[index];

	if (index >= f->n)
		return NULL;
	pthread_mutex_lock(&f->lock);
	*hits = r->hits;
	hits->seen += r->elsewhere.seen;
	hits->hits += r->elsewhere.hits;
	pthread_mutex_unlock(&f->lock);
	*owner = r->owner;
	return &r->rule;
}

void xd_faults_add_hits(struct xd_faults *f, uint32_t index, uint64_t seen, uint64_t hits)
{
	/* The turns of faults of time are the same everywhere, and are counted here. */
	if (index >= f->n || xd_rule_is_timed(&f->rule[index]))
		return;
	pthread_mutex_lock(&f->lock);
	f->rule[index].elsewhere.seen += seen;
	f->rule[index].elsewhere.hits += hits;
	pthread_mutex_unlock(&f->lock);
}

uint64_t xd_faults_seed(const struct xd_faults *f)
{
	return f->seed;
}

void xd_faults_lock(struct xd_faults *f)
{
	pthread_mutex_lock(&f->lock);
}

void xd_faults_unlock(struct xd_faults *f)
{
	pthread_mutex_unlock(&f->lock);
}
