// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "provider/cm/bind.h"

#define PORT_TRIES 16

/* struct sockaddr_ib of <rdma/ib.h>, up to the port, which is the end of the service id */
struct address_ib {
	uint16_t family;
	uint16_t pkey;
	uint32_t flowinfo;
	uint8_t addr[16];
	uint64_t sid;
};

#define FAMILY_IB 27 /* AF_IB */

/* An address within a command or reply */
union cm_address {
	uint16_t family;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct address_ib ib;
};

static const uint8_t zeros[16];

static union cm_address *bind_address(struct xp_cm_command *c)
{
	return c->cmd == RDMA_USER_CM_CMD_BIND ? (void *)&c->u.bind.addr
					       : (void *)&c->u.bind_ip.addr;
}

static bool is_wildcard(const union cm_address *a)
{
	switch (a->family) {
	case AF_INET:
		return a->in.sin_addr.s_addr == htonl(INADDR_ANY);
	case AF_INET6:
		return !memcmp(&a->in6.sin6_addr, zeros, sizeof(zeros));
	case FAMILY_IB:
		return !memcmp(a->ib.addr, zeros, sizeof(zeros));
	default:
		return false;
	}
}

/* Returns the port in network byte order. */
static uint16_t bind_port_of(const union cm_address *a)
{
	uint16_t port;

	switch (a->family) {
	case AF_INET:
		return a->in.sin_port;
	case AF_INET6:
		return a->in6.sin6_port;
	default:
		memcpy(&port, (const uint8_t *)&a->ib.sid + 6, sizeof(port));
		return port;
	}
}

static void set_port(union cm_address *a, uint16_t port)
{
	if (a->family == AF_INET)
		a->in.sin_port = port;
	else if (a->family == AF_INET6)
		a->in6.sin6_port = port;
	else
		memcpy((uint8_t *)&a->ib.sid + 6, &port, sizeof(port));
}

/* Returns the port that a source chose. */
static int bind_query_port(struct xp_cm_part *p, uint16_t *port)
{
	struct xp_cm_command c = {
		.cmd = RDMA_USER_CM_CMD_QUERY,
		.in = sizeof(struct rdma_ucm_query),
		.u.query.option = RDMA_USER_CM_QUERY_ADDR,
	};
	struct rdma_ucm_query_addr_resp rep;
	int n = xp_cm_part_call(p, &c, &rep, sizeof(rep));

	if (n < 0)
		return n;
	*port = bind_port_of((const union cm_address *)&rep.src_addr);
	return *port ? 0 : -EIO;
}

/* Replaces the parts up to `end` by new ones, which are not bound. */
static int bind_unbind(struct xp_cm_channel *ch, struct xp_cm_id *id, const struct xp_cm_part *end)
{
	struct xp_cm_part *p, *next;
	struct xp_cm_source *s;
	int err = 0;

	for (p = id->parts; p && p != end && !err; p = next) {
		next = p->next;
		s = p->source;
		xp_cm_part_destroy(ch, p);
		err = xp_cm_part_create(ch, id, s);
	}
	return err;
}

/* ---- bind ----------------------------------------------------------------------- */

/*
 * Binds the id at each source to the port of the command. If that is 0, the first source chooses
 * one. *failed is the part where it failed.
 */
static int bind_all(struct xp_cm_id *id, struct xp_cm_command *c, struct xp_cm_part **failed)
{
	union cm_address *a = bind_address(c);
	struct xp_cm_part *p;
	uint16_t port;
	int n;

	for (p = id->parts; p; p = p->next) {
		*failed = p;
		n = xp_cm_part_call(p, c, NULL, 0);
		if (n < 0)
			return n;
		/* Nobody needs the port of a client with a single source. */
		if (bind_port_of(a) || !id->parts->next)
			continue;
		*failed = p->next;
		n = bind_query_port(p, &port);
		if (n < 0)
			return n;
		set_port(a, port);
	}
	*failed = NULL;
	return 0;
}

static int bind_wildcard(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c)
{
	union cm_address *a = bind_address(c);
	uint16_t wanted = bind_port_of(a);
	struct xp_cm_part *failed;
	unsigned int tries;
	int err, undone;

	for (tries = 0; tries < PORT_TRIES; tries++) {
		set_port(a, wanted);
		err = bind_all(id, c, &failed);
		if (!err) {
			xp_cm_id_record(id, c);
			return 0;
		}
		undone = bind_unbind(ch, id, failed);
		if (undone)
			return undone;
		/* Another source has the port that the first one chose: choose again. */
		if (wanted || failed == id->parts || (err != -EADDRINUSE && err != -EADDRNOTAVAIL))
			return err;
	}
	return err;
}

/* The source does not have the address or route, which another may have. */
static bool is_elsewhere(int err)
{
	return err == -ENODEV || err == -EADDRNOTAVAIL || err == -ENETUNREACH ||
	       err == -EHOSTUNREACH;
}

/* Executes a command at the source that accepts it, and commits the id to that source. */
static int try_each(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c)
{
	struct xp_cm_part *p;
	bool binds = c->cmd == RDMA_USER_CM_CMD_BIND || c->cmd == RDMA_USER_CM_CMD_BIND_IP;
	bool answers;
	int n, err = -EIO;

	for (p = id->parts; p; p = p->next) {
		n = binds ? xp_cm_part_call(p, c, NULL, 0) : xp_cm_part_resolve(ch, p, c);
		if (n >= 0) {
			xp_cm_id_commit(ch, id, p);
			return 0;
		}
		answers = !is_elsewhere(n) && n != -EIO;
		/* Of two errors, the one that says more: of the source which has the address */
		if (err == -EIO || err == -ENODEV || answers)
			err = n;
		if (answers)
			break;
	}
	return err;
}

int xp_cm_bind(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c)
{
	return is_wildcard(bind_address(c)) ? bind_wildcard(ch, id, c) : try_each(ch, id, c);
}

int xp_cm_resolve(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c)
{
	static const uint8_t last = 1;
	int err = try_each(ch, id, c);

	if (err != -ENODEV || !id->parts)
		return err;
	/* No source has the route. As in the kernel, an event of one of them reports that. */
	c->extra = &last;
	c->extra_len = sizeof(last);
	err = xp_cm_part_call(id->parts, c, NULL, 0);
	return err < 0 ? err : 0;
}

/* ---- listen --------------------------------------------------------------------- */

/* An id that is not bound listens on any IPv4 address and a port that is chosen. */
static int bind_to_any(struct xp_cm_channel *ch, struct xp_cm_id *id)
{
	struct xp_cm_command c = {
		.cmd = RDMA_USER_CM_CMD_BIND_IP,
		.in = sizeof(struct rdma_ucm_bind_ip),
	};

	bind_address(&c)->family = AF_INET;
	return bind_wildcard(ch, id, &c);
}

/* A daemon that starts later must listen on the port that this one chose. */
static int record_port(struct xp_cm_id *id)
{
	struct xp_cm_record *r = id->records;
	struct xp_cm_command c;
	union cm_address *a;
	uint16_t port;
	int err;

	while (r && r->cmd != RDMA_USER_CM_CMD_BIND && r->cmd != RDMA_USER_CM_CMD_BIND_IP)
		r = r->next;
	if (!r || !id->parts)
		return 0;
	c.cmd = r->cmd;
	memcpy(c.u.bytes, r->bytes, r->in);
	a = bind_address(&c);
	if (bind_port_of(a))
		return 0;
	err = bind_query_port(id->parts, &port);
	if (err)
		return err;
	set_port(a, port);
	memcpy(r->bytes, c.u.bytes, r->in);
	return 0;
}

int xp_cm_listen(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_command *c)
{
	struct xp_cm_part *p;
	int err = 0, n;

	if (!xp_cm_id_has_record(id, RDMA_USER_CM_CMD_BIND) &&
	    !xp_cm_id_has_record(id, RDMA_USER_CM_CMD_BIND_IP))
		err = bind_to_any(ch, id);
	if (!err)
		err = record_port(id);
	if (err)
		return err;
	for (p = id->parts; p; p = p->next) {
		n = xp_cm_part_call(p, c, NULL, 0);
		if (n < 0)
			return n;
	}
	if (!xp_cm_id_has_record(id, RDMA_USER_CM_CMD_LISTEN))
		xp_cm_id_record(id, c);
	return 0;
}
