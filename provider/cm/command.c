// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "provider/cm/bind.h"
#include "provider/cm/command.h"
#include "provider/cm/event.h"
#include "provider/cm/numbers.h"
#include "provider/cm/refresh.h"
#include "provider/cm/watch.h"

/* A command that is being executed. Handlers return the length of the reply or -errno. */
struct call {
	struct xp_cm_channel *ch;
	int fd;	    /* that the program used */
	int cancel; /* cancellation state of the program */
	struct xp_cm_command c;
	union {
		uint8_t bytes[XP_CM_REPLY_MAX];
		uint32_t number; /* of a new id; number of events */
		struct rdma_ucm_event_resp event;
	} rep;
};

static uint32_t field(const struct call *k, int at)
{
	uint32_t value;

	memcpy(&value, k->c.u.bytes + at, sizeof(value));
	return value;
}

/* ---- creating and destroying ids -------------------------------------------------- */

/* Creates the id at every source. Returns -EIO if there is none. */
static int create_everywhere(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	struct xp_cm_source *s;
	int err, result = -EIO;

	for (s = ch->sources; s; s = s->next) {
		err = s->lost ? -EIO : xp_cm_part_create(ch, id, s);
		if (err != -EIO && result)
			result = err;
	}
	return id->parts ? 0 : result;
}

static int cm_create_id(struct call *k)
{
	struct xp_cm_id *id;
	int err;

	if (k->c.out < sizeof(k->rep.number))
		return -ENOSPC;
	xp_cm_refresh(k->ch);
	id = xp_cm_id_new(k->ch, XP_CM_ID, k->c.u.create_id.uid);
	if (!id)
		return -ENOMEM;
	xp_cm_id_record(id, &k->c);
	err = create_everywhere(k->ch, id);
	if (err == -EIO) {
		/* If a daemon is found now, it gets the id as well. */
		xp_cm_refresh(k->ch);
		err = id->parts ? 0 : -ENODEV;
	}
	if (err) {
		xp_cm_id_free(k->ch, id);
		return err;
	}
	k->rep.number = xp_cm_id_number(id);
	return sizeof(k->rep.number);
}

/*
 * Nobody needs the reply to DESTROY_ID but for the number of events, which is known here. But the
 * port of an id that was bound has to be free for others when the command returns.
 */
static bool ends_alone(const struct xp_cm_id *id)
{
	return id->kind == XP_CM_ID && id->committed && !id->ends_late && id->parts &&
	       xp_cm_source_hears(id->parts->source);
}

/* DESTROY_ID and LEAVE_MCAST. Returns the number of events of the id that the program has read. */
static uint32_t destroy_parts(struct xp_cm_id *id, struct xp_cm_command *c)
{
	struct xp_cm_part *p;
	uint32_t events = 0, n;

	if (ends_alone(id))
		return xp_cm_part_tell(id->parts, c), id->parts->events;
	for (p = id->parts; p; p = p->next) {
		if (xp_cm_part_call(p, c, &n, sizeof(n)) == sizeof(n))
			events += n -
				  (id->early_event != NULL); /* which the daemon takes as read */
		else
			events += p->events;
	}
	return events;
}

static int command_destroy(struct call *k, enum xp_cm_kind kind)
{
	struct xp_cm_id *id = xp_cm_id_find(k->ch, kind,
					    field(k, offsetof(struct rdma_ucm_destroy_id, id)));

	if (k->c.out < sizeof(k->rep.number))
		return -ENOSPC;
	if (!id)
		return -ENOENT;
	k->rep.number = destroy_parts(id, &k->c);
	xp_cm_id_free(k->ch, id);
	return sizeof(k->rep.number);
}

/* ---- commands on ids ---------------------------------------------------------------- */

static int forward(struct call *k, struct xp_cm_id *id)
{
	size_t room = k->c.out < sizeof(k->rep) ? k->c.out : sizeof(k->rep);

	return xp_cm_part_call(id->parts, &k->c, k->rep.bytes, room);
}

static int bind_id(struct call *k, struct xp_cm_id *id)
{
	id->ends_late = true;
	return id->committed ? forward(k, id) : xp_cm_bind(k->ch, id, &k->c);
}

static bool has_source(const struct xp_cm_command *c)
{
	return c->cmd == RDMA_USER_CM_CMD_RESOLVE_IP ? c->u.resolve_ip.src_addr.sin6_family
						     : c->u.resolve_addr.src_size;
}

static int command_resolve(struct call *k, struct xp_cm_id *id)
{
	if (has_source(&k->c)) /* maybe with a port */
		id->ends_late = true;
	return id->committed ? xp_cm_part_resolve(k->ch, id->parts, &k->c)
			     : xp_cm_resolve(k->ch, id, &k->c);
}

static int cm_listen_id(struct call *k, struct xp_cm_id *id)
{
	int err;

	if (id->committed)
		return forward(k, id);
	err = xp_cm_listen(k->ch, id, &k->c);
	if (!err)
		xp_cm_watch(k->ch);
	return err;
}

static int cm_set_option(struct call *k, struct xp_cm_id *id)
{
	const struct rdma_ucm_set_option *opt = &k->c.u.set_option;
	struct xp_cm_part *p;
	int n;

	if (opt->optlen > XR_CM_OPTION_MAX)
		return -EINVAL;
	k->c.extra = (const void *)(uintptr_t)opt->optval;
	k->c.extra_len = opt->optlen;
	if (opt->optlen && !k->c.extra)
		return -EFAULT;
	for (p = id->parts; p; p = p->next) {
		n = xp_cm_part_call(p, &k->c, NULL, 0);
		if (n < 0)
			return n;
	}
	if (!id->committed)
		xp_cm_id_record(id, &k->c);
	return 0;
}

static int cm_accept_id(struct call *k, struct xp_cm_id *id)
{
	int n;

	/*
	 * The end that called CONNECT accepts the reply by RTU. If the connection has ended
	 * meanwhile, an event says so.
	 */
	if (id->has_reply && !k->c.u.accept.conn_param.valid &&
	    xp_cm_source_hears(id->parts->source)) {
		id->has_reply = false;
		return xp_cm_part_tell(id->parts, &k->c);
	}
	n = forward(k, id);
	if (n >= 0 && k->c.u.accept.conn_param.valid)
		xp_cm_id_set_uid(k->ch, id, k->c.u.accept.uid);
	return n;
}

static int cm_join(struct call *k, struct xp_cm_id *id)
{
	struct xp_cm_command leave = {
		.cmd = RDMA_USER_CM_CMD_LEAVE_MCAST,
		.in = sizeof(struct rdma_ucm_destroy_id),
	};
	uint64_t uid = k->c.cmd == RDMA_USER_CM_CMD_JOIN_MCAST ? k->c.u.join.uid
							       : k->c.u.join_ip.uid;
	struct xp_cm_id *group;
	uint32_t handle;
	int n;

	id->ends_late = true;
	n = forward(k, id);
	if (n < 0 || (size_t)n < sizeof(handle))
		return n < 0 ? n : -ENOSPC;
	handle = k->rep.number;
	group = xp_cm_id_new(k->ch, XP_CM_GROUP, uid);
	if (group && xp_cm_part_new(k->ch, group, id->parts->source, handle)) {
		group->owner = id;
		k->rep.number = xp_cm_id_number(group);
		return n;
	}
	if (group)
		xp_cm_id_free(k->ch, group);
	memcpy(leave.u.bytes + offsetof(struct rdma_ucm_destroy_id, id), &handle, sizeof(handle));
	xp_cm_source_call(id->parts->source, &leave, &handle, sizeof(handle));
	return -ENOMEM;
}

static bool only_reads(uint32_t cmd)
{
	return cmd == RDMA_USER_CM_CMD_QUERY || cmd == RDMA_USER_CM_CMD_QUERY_ROUTE ||
	       cmd == RDMA_USER_CM_CMD_INIT_QP_ATTR;
}

/* Returns the length of the reply that came with the last event of the id, or 0. */
static int known_reply(struct call *k, struct xp_cm_id *id)
{
	size_t room = k->c.out < sizeof(k->rep) ? k->c.out : sizeof(k->rep);

	if (!only_reads(k->c.cmd) || id->parts->source->lost ||
	    xp_cm_source_shared(id->parts->source)) {
		xp_cm_early_replies_drop(&id->early_replies);
		return 0;
	}
	return (int)xp_cm_early_replies_find(&id->early_replies, &k->c, k->rep.bytes, room);
}

static int on_id(struct call *k, struct xp_cm_id *id)
{
	int n = known_reply(k, id);

	if (n)
		return n;
	switch (k->c.cmd) {
	case RDMA_USER_CM_CMD_BIND_IP:
	case RDMA_USER_CM_CMD_BIND:
		return bind_id(k, id);
	case RDMA_USER_CM_CMD_RESOLVE_IP:
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		return command_resolve(k, id);
	case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		return xp_cm_part_resolve(k->ch, id->parts, &k->c);
	case RDMA_USER_CM_CMD_LISTEN:
		return cm_listen_id(k, id);
	case RDMA_USER_CM_CMD_SET_OPTION:
		return cm_set_option(k, id);
	case RDMA_USER_CM_CMD_ACCEPT:
		return cm_accept_id(k, id);
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		return cm_join(k, id);
	default:
		return forward(k, id);
	}
}

/* Finds the id and executes the command. */
static int any_on_id(struct call *k)
{
	int at = xp_cm_layout(k->c.cmd).id;
	struct xp_cm_id *id = at < 0 ? NULL : xp_cm_id_find(k->ch, XP_CM_ID, field(k, at));

	if (at < 0)
		return k->c.cmd < XR_CM_COMMANDS ? -ENOSYS : -EINVAL;
	if (!id)
		return -ENOENT;
	if (!id->committed) /* its source may come or go */
		xp_cm_refresh(k->ch);
	return id->parts ? on_id(k, id) : -ENODEV;
}

/* ---- moving an id ------------------------------------------------------------------ */

/* Returns the number of events that the program has read from the other channel. */
static int migrate_parts(struct call *k, struct xp_cm_id *id, uint32_t *events)
{
	struct xp_cm_source *to;
	struct xp_cm_part *p;
	uint32_t n;
	int err;

	*events = 0;
	for (p = id->parts; p; p = p->next) {
		if (!xp_cm_source_in(k->ch, p->source))
			return -EIO;
	}
	for (p = id->parts; p; p = p->next) {
		to = xp_cm_source_in(k->ch, p->source);
		k->c.u.migrate.id = p->handle;
		k->c.u.migrate.fd = p->source->kernel;
		k->c.extra = p->source->token;
		k->c.extra_len = sizeof(p->source->token);
		err = xp_cm_source_call(to, &k->c, &n, sizeof(n));
		if (err < 0)
			return err;
		*events += n - (id->early_event != NULL);
	}
	return 0;
}

static int cm_migrate_id(struct call *k, struct xp_cm_channel *from)
{
	struct xp_cm_id *id = xp_cm_id_find(from, XP_CM_ID, k->c.u.migrate.id);
	uint32_t events;
	int err;

	if (!id)
		return -ENOENT;
	if (k->c.out < sizeof(k->rep.number))
		return -ENOSPC;
	xp_cm_refresh(k->ch);
	err = migrate_parts(k, id, &events);
	if (err)
		return err;
	if (from != k->ch)
		xp_cm_id_move(from, k->ch, id);
	k->rep.number = events;
	return sizeof(k->rep.number);
}

/* ---- all commands ------------------------------------------------------------------- */

static int any(struct call *k)
{
	int n;

	pthread_mutex_lock(&k->ch->lock);
	k->ch->epfd = k->fd;
	switch (k->c.cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		n = cm_create_id(k);
		break;
	case RDMA_USER_CM_CMD_DESTROY_ID:
		n = command_destroy(k, XP_CM_ID);
		break;
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
		n = command_destroy(k, XP_CM_GROUP);
		break;
	case RDMA_USER_CM_CMD_GET_EVENT:
		n = xp_cm_get_event(k->ch, k->fd, k->c.out, &k->rep.event, k->cancel);
		break;
	default:
		n = any_on_id(k);
	}
	if (n == -EIO)
		xp_cm_sources_check(k->ch);
	pthread_mutex_unlock(&k->ch->lock);
	return n;
}

static int migrate(struct call *k)
{
	int from_fd = k->c.u.migrate.fd, n;
	struct xp_cm_channel *from = xp_cm_get(from_fd);

	if (!from)
		return -EINVAL;
	xp_cm_lock_both(from, k->ch);
	from->epfd = from_fd;
	k->ch->epfd = k->fd;
	n = cm_migrate_id(k, from);
	if (from != k->ch)
		pthread_mutex_unlock(&from->lock);
	pthread_mutex_unlock(&k->ch->lock);
	xp_cm_put(from);
	return n;
}

int xp_cm_execute(struct xp_cm_channel *ch, int fd, const void *data, size_t len, int cancel)
{
	struct call k = { .ch = ch, .fd = fd, .cancel = cancel };
	struct rdma_ucm_cmd_hdr head;
	struct xp_cm_layout layout;
	uint64_t response = 0;
	int n;

	if (len < sizeof(head))
		return -EINVAL;
	memcpy(&head, data, sizeof(head));
	if (head.cmd >= XR_CM_COMMANDS || head.in > len - sizeof(head))
		return -EINVAL;
	k.c.cmd = head.cmd;
	k.c.in = head.in < sizeof(k.c.u) ? head.in : sizeof(k.c.u);
	k.c.out = head.out;
	memcpy(k.c.u.bytes, (const char *)data + sizeof(head), k.c.in);
	layout = xp_cm_layout(head.cmd);
	if (layout.id >= 0 && head.in < layout.id + sizeof(uint32_t))
		return -EINVAL;
	if (layout.response >= 0) {
		memcpy(&response, k.c.u.bytes + layout.response, sizeof(response));
		if (!response)
			return -EFAULT;
	}
	n = head.cmd == RDMA_USER_CM_CMD_MIGRATE_ID ? migrate(&k) : any(&k);
	if (n > 0 && layout.response >= 0)
		memcpy((void *)(uintptr_t)response, k.rep.bytes, n < head.out ? n : head.out);
	return n < 0 ? n : 0;
}
