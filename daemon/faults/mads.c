// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mads.h"

#include <pthread.h>
#include <stdlib.h>

#include <xroce/wire.h>

#include "fields.h"

#define BUCKETS 1024

/* Offsets in a MAD (IBTA 12.6) */
#define ATTRIBUTE 16
#define LOCAL_ID 24 /* communication ID of the sender; request ID of SIDR_REQ and SIDR_REP */
#define REMOTE_ID 28
#define SERVICE_ID 32 /* of REQ and SIDR_REQ */

#define ATTRIBUTE_REQ 0x10
#define ATTRIBUTE_SIDR_REQ 0x17
#define ATTRIBUTE_SIDR_REP 0x18

struct xd_fault_mads {
	pthread_mutex_t lock;
	struct xd_fault_mad *bucket[BUCKETS];
};

struct xd_fault_mads *xd_fault_mads_new(void)
{
	struct xd_fault_mads *t = calloc(1, sizeof(*t));

	if (t)
		pthread_mutex_init(&t->lock, NULL);
	return t;
}

void xd_fault_mads_free(struct xd_fault_mads *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- entries ------------------------------------------------------------------------------ */

static struct xd_fault_mad **mads_bucket_of(struct xd_fault_mads *t, uint64_t key)
{
	return &t->bucket[key * 0x9e3779b97f4a7c15ull >> 54];
}

static void unlink_entry(struct xd_fault_mad *e)
{
	if (!e->pprev)
		return;
	*e->pprev = e->next;
	if (e->next)
		e->next->pprev = e->pprev;
	e->pprev = NULL;
}

void xd_fault_mads_set(struct xd_fault_mads *t, struct xd_fault_mad *e,
		       const struct xd_fault_mad *value)
{
	struct xd_fault_mad **first = mads_bucket_of(t, value->key);

	pthread_mutex_lock(&t->lock);
	unlink_entry(e);
	*e = *value;
	e->next = *first;
	e->pprev = first;
	if (e->next)
		e->next->pprev = &e->next;
	*first = e;
	pthread_mutex_unlock(&t->lock);
}

void xd_fault_mads_remove(struct xd_fault_mads *t, struct xd_fault_mad *e)
{
	pthread_mutex_lock(&t->lock);
	unlink_entry(e);
	pthread_mutex_unlock(&t->lock);
}

/* ---- whose MAD ---------------------------------------------------------------------------- */

/* Returns the kind of the entry that a MAD belongs to, and its key. */
static enum xd_fault_mad_kind identify(const struct xt_frame *f, bool received, uint64_t *key)
{
	const uint32_t mad = xd_frame_mad(f);
	const uint64_t attribute = xd_frame_load(f, mad + ATTRIBUTE, 2);

	if (received && (attribute == ATTRIBUTE_REQ || attribute == ATTRIBUTE_SIDR_REQ)) {
		*key = xd_frame_load(f, mad + SERVICE_ID, 8);
		return XD_FAULT_MAD_LISTENER;
	}
	if (attribute == ATTRIBUTE_SIDR_REP) {
		*key = xd_frame_load(f, mad + LOCAL_ID, 4);
		return received ? XD_FAULT_MAD_CONNECTION : XD_FAULT_MAD_SIDR;
	}
	*key = xd_frame_load(f, mad + (received ? REMOTE_ID : LOCAL_ID), 4);
	return XD_FAULT_MAD_CONNECTION;
}

/* Returns how well an entry agrees with a MAD; 0: it does not. */
static unsigned int agrees(const struct xd_fault_mad *e, const struct xt_frame *f, bool received)
{
	if (e->kind != XD_FAULT_MAD_LISTENER)
		return xd_frame_has_address(f, received, &e->addr);
	if (!e->any)
		return xd_frame_has_address(f, false, &e->addr) ? 2 : 0;
	return !e->ip_version || e->ip_version == xd_frame_ip_version(f);
}

uint64_t xd_fault_mads_rules(struct xd_fault_mads *t, bool received, const struct xt_frame *f,
			     uint64_t none)
{
	enum xd_fault_mad_kind kind;
	unsigned int best = 0, n;
	uint64_t key, rules = none;

	if (!xd_frame_is_cm_mad(f))
		return none;
	kind = identify(f, received, &key);
	pthread_mutex_lock(&t->lock);
	for (struct xd_fault_mad *e = *mads_bucket_of(t, key); e; e = e->next) {
		n = e->kind == kind && e->key == key ? agrees(e, f, received) : 0;
		if (n > best) {
			best = n;
			rules = *e->rules;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return rules;
}
