// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "provider/base/debug.h"
#include "provider/cm/ids.h"
#include "provider/cm/early_events.h"

static uint32_t next_number = 1;

void xp_cm_number_seed(uint32_t seed)
{
	__atomic_store_n(&next_number, seed, __ATOMIC_RELAXED);
}

/* ---- ids that get DEVICE_REMOVAL -------------------------------------------------- */

static void watch_connection(struct xp_cm_channel *ch, struct xp_cm_source *s, bool on)
{
	struct epoll_event ev = { .data.u64 = s->number };

	if (s->kernel >= 0 || s->watched == on || s->conn.fd < 0)
		return;
	/* EPOLLHUP and EPOLLERR need not be asked for. */
	epoll_ctl(ch->epfd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->conn.fd, &ev);
	s->watched = on;
}

static bool gets_removal(const struct xp_cm_id *id)
{
	return id->kind == XP_CM_ID && id->committed && id->uid && id->parts;
}

/*
 * The end of a connection makes the epoll set readable. So the set has the connection only while
 * there are ids for which the program can then read DEVICE_REMOVAL.
 */
static void count_bound(struct xp_cm_channel *ch, const struct xp_cm_id *id, int change)
{
	struct xp_cm_source *s;

	if (!gets_removal(id))
		return;
	s = id->parts->source;
	s->bound += change;
	if (!s->lost)
		watch_connection(ch, s, s->bound);
}

/* Closes the connection to a lost daemon once the program has read all DEVICE_REMOVAL of it. */
static void ids_settle(struct xp_cm_channel *ch, struct xp_cm_source *s)
{
	if (!s->lost || s->removals)
		return;
	watch_connection(ch, s, false);
	xp_cm_source_close(s);
}

static void forget_removal(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	if (!id->removed)
		return;
	id->removed = false;
	ch->removals--;
	id->parts->source->removals--;
	ids_settle(ch, id->parts->source);
}

struct xp_cm_id *xp_cm_id_take_removal(struct xp_cm_channel *ch)
{
	struct xp_cm_id *id = ch->removals ? ch->ids : NULL;

	while (id && !id->removed)
		id = id->next;
	if (id)
		forget_removal(ch, id);
	return id;
}

/* ---- ids ------------------------------------------------------------------------ */

static void link_id(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	id->next = ch->ids;
	id->pprev = &ch->ids;
	if (id->next)
		id->next->pprev = &id->next;
	ch->ids = id;
	ch->groups += id->kind == XP_CM_GROUP;
}

static void unlink_id(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	*id->pprev = id->next;
	if (id->next)
		id->next->pprev = id->pprev;
	ch->groups -= id->kind == XP_CM_GROUP;
	xp_cm_table_remove(&ch->numbers, &id->entry);
}

struct xp_cm_id *xp_cm_id_new(struct xp_cm_channel *ch, enum xp_cm_kind kind, uint64_t uid)
{
	struct xp_cm_id *id = calloc(1, sizeof(*id));
	uint32_t number;

	if (!id)
		return NULL;
	id->kind = kind;
	id->uid = uid;
	id->last_record = &id->records;
	do {
		number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
	} while (xp_cm_table_find(&ch->numbers, number));
	if (xp_cm_table_add(&ch->numbers, &id->entry, number)) {
		free(id);
		return NULL;
	}
	link_id(ch, id);
	return id;
}

struct xp_cm_id *xp_cm_id_find(struct xp_cm_channel *ch, enum xp_cm_kind kind, uint32_t number)
{
	struct xp_cm_id *id = (struct xp_cm_id *)xp_cm_table_find(&ch->numbers, number);

	return id && id->kind == kind ? id : NULL;
}

uint32_t xp_cm_id_number(const struct xp_cm_id *id)
{
	return id->entry.key;
}

void xp_cm_id_set_uid(struct xp_cm_channel *ch, struct xp_cm_id *id, uint64_t uid)
{
	count_bound(ch, id, -1);
	id->uid = uid;
	count_bound(ch, id, 1);
}

static void free_records(struct xp_cm_id *id)
{
	struct xp_cm_record *r;

	while (id->records) {
		r = id->records;
		id->records = r->next;
		free(r);
	}
	id->last_record = &id->records;
}

static void drop_part(struct xp_cm_channel *ch, struct xp_cm_part *p)
{
	struct xp_cm_part **at = &p->id->parts;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->source->parts--;
	xp_cm_table_remove(&ch->parts, &p->entry);
	free(p);
}

void xp_cm_id_free(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	struct xp_cm_id *group, *next;

	for (group = ch->groups && id->kind == XP_CM_ID ? ch->ids : NULL; group; group = next) {
		next = group->next;
		if (group->owner == id)
			xp_cm_id_free(ch, group);
	}
	count_bound(ch, id, -1);
	forget_removal(ch, id);
	xp_cm_early_event_drop(ch, id);
	while (id->parts)
		drop_part(ch, id->parts);
	free_records(id);
	xp_cm_early_replies_drop(&id->early_replies);
	unlink_id(ch, id);
	free(id);
}

/* ---- parts ---------------------------------------------------------------------- */

static uint64_t part_key(const struct xp_cm_source *s, enum xp_cm_kind kind, uint32_t handle)
{
	return (uint64_t)s->number << 33 | (uint64_t)kind << 32 | handle;
}

/*
 * Daemons are used in the order of their names. The kernel's rdma_cm comes last: it has no error
 * for a route that is not its own.
 */
static bool ids_precedes(const struct xp_cm_source *a, const struct xp_cm_source *b)
{
	return a->kernel < 0 && (b->kernel >= 0 || strcmp(a->path, b->path) < 0);
}

struct xp_cm_part *xp_cm_part_new(struct xp_cm_channel *ch, struct xp_cm_id *id,
				  struct xp_cm_source *s, uint32_t handle)
{
	struct xp_cm_part *p = calloc(1, sizeof(*p)), **at = &id->parts;

	if (!p)
		return NULL;
	if (xp_cm_table_add(&ch->parts, &p->entry, part_key(s, id->kind, handle))) {
		free(p);
		return NULL;
	}
	p->id = id;
	p->source = s;
	p->handle = handle;
	while (*at && !ids_precedes(s, (*at)->source))
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	s->parts++;
	count_bound(ch, id, 1);
	return p;
}

struct xp_cm_part *xp_cm_part_find(struct xp_cm_channel *ch, const struct xp_cm_source *s,
				   enum xp_cm_kind kind, uint32_t handle)
{
	return (struct xp_cm_part *)xp_cm_table_find(&ch->parts, part_key(s, kind, handle));
}

int xp_cm_part_call(const struct xp_cm_part *p, struct xp_cm_command *c, void *rep, size_t room)
{
	memcpy(c->u.bytes + xp_cm_layout(c->cmd).id, &p->handle, sizeof(p->handle));
	return xp_cm_source_call(p->source, c, rep, room);
}

int xp_cm_part_tell(const struct xp_cm_part *p, struct xp_cm_command *c)
{
	memcpy(c->u.bytes + xp_cm_layout(c->cmd).id, &p->handle, sizeof(p->handle));
	return xp_cm_source_tell(p->source, c);
}

int xp_cm_part_resolve(struct xp_cm_channel *ch, struct xp_cm_part *p, struct xp_cm_command *c)
{
	bool hears = !p->id->early_event && xp_cm_source_hears(p->source);
	struct xp_cm_early_event *t = hears ? malloc(sizeof(*t)) : NULL;
	int n = xp_cm_part_call(p, c, t ? t->bytes : NULL, t ? sizeof(t->bytes) : 0);

	if (n <= 0 || !t) {
		free(t);
		return n < 0 ? n : 0;
	}
	t->id = p->id;
	t->len = (size_t)n;
	xp_cm_early_event_add(ch, t);
	return 0;
}

/* The handle exists only at the source: DESTROY_ID frees it there. */
static void destroy_handle(struct xp_cm_source *s, uint32_t handle)
{
	struct xp_cm_command c = {
		.cmd = RDMA_USER_CM_CMD_DESTROY_ID,
		.in = sizeof(struct rdma_ucm_destroy_id),
	};
	struct rdma_ucm_destroy_id_resp rep;

	memcpy(c.u.bytes + offsetof(struct rdma_ucm_destroy_id, id), &handle, sizeof(handle));
	xp_cm_source_call(s, &c, &rep, sizeof(rep));
}

void xp_cm_part_destroy(struct xp_cm_channel *ch, struct xp_cm_part *p)
{
	destroy_handle(p->source, p->handle);
	drop_part(ch, p);
}

/* Executes a recorded command. CREATE_ID must be the first one, and adds the part. */
static int ids_repeat(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_source *s,
		      const struct xp_cm_record *r, struct xp_cm_part **p)
{
	struct xp_cm_command c = {
		.cmd = r->cmd,
		.in = r->in,
		.extra = r->bytes + r->in,
		.extra_len = r->extra_len,
	};
	struct rdma_ucm_create_id_resp rep;
	int n;

	memcpy(c.u.bytes, r->bytes, r->in);
	if (*p) {
		n = xp_cm_part_call(*p, &c, NULL, 0);
		return n < 0 ? n : 0;
	}
	n = xp_cm_source_call(s, &c, &rep, sizeof(rep));
	if (n < 0)
		return n;
	*p = xp_cm_part_new(ch, id, s, rep.id);
	if (*p)
		return 0;
	destroy_handle(s, rep.id);
	return -ENOMEM;
}

static int repeat_all(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_source *s,
		      bool bind)
{
	struct xp_cm_part *p = NULL;
	struct xp_cm_record *r;
	int err = 0;

	for (r = id->records; r && !err; r = r->next) {
		if (bind || r->cmd == RDMA_USER_CM_CMD_CREATE_ID ||
		    r->cmd == RDMA_USER_CM_CMD_SET_OPTION)
			err = ids_repeat(ch, id, s, r, &p);
	}
	if (err && p)
		xp_cm_part_destroy(ch, p);
	return p || err ? err : -EIO;
}

int xp_cm_part_create(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_source *s)
{
	return repeat_all(ch, id, s, false);
}

int xp_cm_id_extend(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_source *s)
{
	int err = repeat_all(ch, id, s, true);

	if (err)
		xp_debug("rdma_cm: %s does not take id %u: %s", s->path, xp_cm_id_number(id),
			 strerror(-err));
	return err;
}

void xp_cm_id_record(struct xp_cm_id *id, const struct xp_cm_command *c)
{
	struct xp_cm_record *r = malloc(sizeof(*r) + c->in + c->extra_len);

	if (!r)
		return;
	r->next = NULL;
	r->cmd = c->cmd;
	r->in = c->in;
	r->extra_len = c->extra_len;
	memcpy(r->bytes, c->u.bytes, c->in);
	if (c->extra_len)
		memcpy(r->bytes + c->in, c->extra, c->extra_len);
	*id->last_record = r;
	id->last_record = &r->next;
}

bool xp_cm_id_has_record(const struct xp_cm_id *id, uint32_t cmd)
{
	const struct xp_cm_record *r = id->records;

	while (r && r->cmd != cmd)
		r = r->next;
	return r;
}

void xp_cm_id_commit(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_part *p)
{
	struct xp_cm_part *other, *next;

	for (other = id->parts; other; other = next) {
		next = other->next;
		if (other != p)
			xp_cm_part_destroy(ch, other);
	}
	free_records(id);
	id->committed = true;
	count_bound(ch, id, 1);
}

/* ---- moving to another channel ---------------------------------------------------- */

struct xp_cm_source *xp_cm_source_in(const struct xp_cm_channel *ch, const struct xp_cm_source *s)
{
	struct xp_cm_source *twin = ch->sources;

	while (twin && (twin->lost || strcmp(twin->path, s->path)))
		twin = twin->next;
	return s->lost ? NULL : twin;
}

void xp_cm_id_move(struct xp_cm_channel *from, struct xp_cm_channel *to, struct xp_cm_id *id)
{
	uint32_t number = xp_cm_id_number(id);
	struct xp_cm_part *p;

	count_bound(from, id, -1);
	unlink_id(from, id);
	for (p = id->parts; p; p = p->next) {
		xp_cm_table_remove(&from->parts, &p->entry);
		p->source->parts--;
		p->source = xp_cm_source_in(to, p->source);
		p->source->parts++;
		/* Fails only in an empty table without memory: then no event finds the id. */
		xp_cm_table_add(&to->parts, &p->entry, part_key(p->source, id->kind, p->handle));
	}
	xp_cm_table_add(&to->numbers, &id->entry, number);
	link_id(to, id);
	xp_cm_early_event_move(from, to, id);
	count_bound(to, id, 1);
}

/* ---- sources ---------------------------------------------------------------------- */

void xp_cm_source_add(struct xp_cm_channel *ch, struct xp_cm_source *s, int events)
{
	struct xp_cm_source **at = &ch->sources;
	struct epoll_event ev = { .events = EPOLLIN };

	s->number = ++ch->source_number;
	ev.data.u64 = s->number;
	if (epoll_ctl(ch->epfd, EPOLL_CTL_ADD, events, &ev))
		xp_debug("rdma_cm: %s: no events: %m", s->path);
	while (*at)
		at = &(*at)->next;
	*at = s;
}

/* Handles the end of a daemon: queues DEVICE_REMOVAL for its committed ids. */
static void source_lost(struct xp_cm_channel *ch, struct xp_cm_source *s)
{
	struct xp_cm_part *p, *next;
	struct xp_cm_id *id;

	s->lost = true;
	for (id = ch->ids; id; id = id->next) {
		if (gets_removal(id) && id->parts->source == s) {
			id->removed = true;
			ch->removals++;
			s->removals++;
		}
		for (p = id->committed ? NULL : id->parts; p; p = next) {
			next = p->next;
			if (p->source == s)
				drop_part(ch, p);
		}
	}
	xp_debug("rdma_cm: %s: the daemon is gone", s->path);
	ids_settle(ch, s);
}

void xp_cm_sources_check(struct xp_cm_channel *ch)
{
	struct xp_cm_source **at = &ch->sources, *s;

	while (*at) {
		s = *at;
		if (!s->lost && xp_cm_source_failed(s))
			source_lost(ch, s);
		if (s->lost && !s->parts) {
			*at = s->next;
			free(s);
		} else {
			at = &s->next;
		}
	}
}

/* ---- channels --------------------------------------------------------------------- */

struct xp_cm_channel *xp_cm_channel_new(void)
{
	struct xp_cm_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	pthread_mutex_init(&ch->lock, NULL);
	ch->epfd = -1;
	ch->watched = -1;
	return ch;
}

void xp_cm_channel_free(struct xp_cm_channel *ch)
{
	struct xp_cm_source *s;

	/* watch.c may use it until now. */
	pthread_mutex_lock(&ch->lock);
	pthread_mutex_unlock(&ch->lock);
	/* Another process may share the epoll set, so nothing must be removed from it. */
	ch->epfd = -1;
	while (ch->ids)
		xp_cm_id_free(ch, ch->ids);
	while (ch->sources) {
		s = ch->sources;
		ch->sources = s->next;
		xp_cm_source_close(s);
		free(s);
	}
	if (ch->watched >= 0)
		close(ch->watched);
	xp_cm_table_free(&ch->numbers);
	xp_cm_table_free(&ch->parts);
	pthread_mutex_destroy(&ch->lock);
	free(ch->umad);
	free(ch);
}
