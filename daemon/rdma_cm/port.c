// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Port spaces. Ids share a port if the kernel's rules allow it (cma_check_port() and
 * cma_port_is_unique() of drivers/infiniband/core/cma.c).
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "daemon/clients/refuse.h"
#include "id.h"

/* Port spaces as bits of AF_IB service IDs: RDMA_IB_IP_PS_* of the kernel's <rdma/ib.h> */
#define PS_MASK 0xffffffffffff0000ull

/*
 * All ids of a client may have the same port with the option REUSEADDR. They have a list of their
 * own, which most searches need not look at.
 */
struct xd_cm_port {
	uint16_t ps, number;
	struct xt_list exclusive, shared; /* ids without and with the option */
};

/* ---- settings of the system ----------------------------------------------------- */

/* Reads a range, or one number if last is NULL. A file that is not readable changes nothing. */
static void read_sysctl(const char *path, unsigned *first, unsigned *last)
{
	FILE *f = fopen(path, "re");
	unsigned a, b;
	int n;

	if (!f)
		return;
	n = fscanf(f, "%u %u", &a, &b);
	if (n >= 1 && a <= UINT16_MAX)
		*first = a;
	if (last && n == 2 && b >= a && b <= UINT16_MAX)
		*last = b;
	fclose(f);
}

void xd_cm_ports_init(struct xd_rdma_cm *cm)
{
	unsigned first = 32768, last = 60999, unprivileged = 1024;

	read_sysctl("/proc/sys/net/ipv4/ip_local_port_range", &first, &last);
	read_sysctl("/proc/sys/net/ipv4/ip_unprivileged_port_start", &unprivileged, NULL);
	cm->first_port = (uint16_t)first;
	cm->last_port = (uint16_t)(last < first ? first : last);
	cm->unprivileged_port = (uint16_t)unprivileged;
}

/* ---- table ---------------------------------------------------------------------- */

/* Returns NULL if there is no such port space. */
static struct xd_cm_port **port_place_of(struct xd_rdma_cm *cm, uint16_t ps, uint16_t port)
{
	static const uint16_t spaces[XD_CM_PORT_SPACES] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB,
							    RDMA_PS_IPOIB };

	for (uint32_t i = 0; i < XD_CM_PORT_SPACES; i++) {
		if (spaces[i] == ps)
			return &cm->ports[i][port];
	}
	return NULL;
}

static struct xd_cm_id *owner_of(struct xt_list *l)
{
	return container_of(l, struct xd_cm_id, owner);
}

struct xd_cm_id *xd_cm_port_next_exclusive(struct xd_rdma_cm *cm, uint16_t ps, uint16_t port,
					   struct xd_cm_id *prev)
{
	struct xd_cm_port **at = port_place_of(cm, ps, port);
	struct xt_list *next;

	if (!at || !*at)
		return NULL;
	next = prev ? prev->owner.next : (*at)->exclusive.next;
	return next == &(*at)->exclusive ? NULL : owner_of(next);
}

static void link_owner(struct xd_cm_id *id)
{
	xt_list_add_tail(id->reuse ? &id->port->shared : &id->port->exclusive, &id->owner);
}

static int port_take(struct xd_cm_id *id, uint16_t ps, uint16_t number)
{
	struct xd_cm_port **at = port_place_of(id->cm, ps, number), *p = *at;

	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->ps = ps;
		p->number = number;
		xt_list_init(&p->exclusive);
		xt_list_init(&p->shared);
		*at = p;
	}
	xd_cm_addr_set_port(&id->src, number);
	id->port = p;
	link_owner(id);
	return 0;
}

void xd_cm_port_release(struct xd_cm_id *id)
{
	struct xd_cm_port *p = id->port;

	if (!p)
		return;
	id->port = NULL;
	xt_list_del(&id->owner);
	if (!xt_list_empty(&p->exclusive) || !xt_list_empty(&p->shared))
		return;
	*port_place_of(id->cm, p->ps, p->number) = NULL;
	free(p);
}

void xd_cm_port_set_reuse(struct xd_cm_id *id, bool reuse)
{
	id->reuse = reuse;
	if (!id->port)
		return;
	xt_list_del(&id->owner);
	link_owner(id);
}

/* ---- rules ---------------------------------------------------------------------- */

static bool conflict(const struct xd_cm_id *id, const struct xd_cm_id *o)
{
	/* The ids of a client that ends are freed in steps. */
	if (o == id || o->obj.client->ending)
		return false;
	if (id->afonly && o->afonly && id->src.sa.sa_family != o->src.sa.sa_family)
		return false;
	return xd_cm_addr_is_any(&id->src) || xd_cm_addr_is_any(&o->src) ||
	       xd_cm_addr_equal(&id->src, &o->src);
}

static struct xd_cm_id *conflicting_in(const struct xd_cm_id *id, struct xt_list *owners)
{
	for (struct xt_list *l = owners->next; l != owners; l = l->next) {
		if (conflict(id, owner_of(l)))
			return owner_of(l);
	}
	return NULL;
}

/* Returns an owner because of which the id cannot bind the port, or listen on it. NULL: none. */
static struct xd_cm_id *conflicting(const struct xd_cm_id *id, struct xd_cm_port *p, bool reuse)
{
	struct xd_cm_id *o = p ? conflicting_in(id, &p->exclusive) : NULL;

	return o || !p || reuse ? o : conflicting_in(id, &p->shared);
}

/*
 * Checks whether the id may share a port with its owners. A program that is started again may bind
 * before the control thread has read the end of the channel of the former one, so channels that
 * were closed are ended first.
 */
static int check_shared(const struct xd_cm_id *id, uint16_t ps, uint16_t port, bool reuse)
{
	struct xd_cm_id *o;

	while ((o = conflicting(id, *port_place_of(id->cm, ps, port), reuse))) {
		if (o->obj.client == id->obj.client || !xd_connection_hung_up(o->obj.client))
			return xd_refuse(id->obj.client,
					 xd_cm_addr_is_any(&id->src) || xd_cm_addr_is_any(&o->src)
						 ? -EADDRNOTAVAIL
						 : -EADDRINUSE,
					 "port %u is in use: xroce cm -l", port);
		xd_client_end(o->obj.client);
	}
	return 0;
}

static bool differ(const union xd_cm_addr *a, const union xd_cm_addr *b)
{
	return !xd_cm_addr_is_any(a) && !xd_cm_addr_is_any(b) && !xd_cm_addr_equal(a, b);
}

static bool unique_in(const struct xd_cm_id *id, struct xt_list *owners)
{
	uint16_t port = xd_cm_addr_port(&id->dst), other;
	const struct xd_cm_id *o;

	for (struct xt_list *l = owners->next; l != owners; l = l->next) {
		o = owner_of(l);
		other = xd_cm_addr_port(&o->dst);
		if (!(port && other && port != other) && !differ(&id->src, &o->src) &&
		    !differ(&id->dst, &o->dst))
			return false;
	}
	return true;
}

/* A port that is selected here must make the id's pair of addresses unique. */
static bool unique(const struct xd_cm_id *id, struct xd_cm_port *p)
{
	return unique_in(id, &p->exclusive) && unique_in(id, &p->shared);
}

static uint16_t random_port(const struct xd_rdma_cm *cm)
{
	uint32_t n = 0;

	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n = cm->last_taken + 1u;
	return (uint16_t)(cm->first_port + n % (cm->last_port - cm->first_port + 1u));
}

static uint16_t port_after(const struct xd_rdma_cm *cm, uint16_t port)
{
	return port == cm->last_port ? cm->first_port : (uint16_t)(port + 1);
}

/*
 * Returns a port that the id may have, or -1. free: only one that has no owner. Not the port of the
 * last such bind, whose connections may be in TIMEWAIT at peers.
 */
static int find_port(struct xd_cm_id *id, uint16_t ps, bool free)
{
	struct xd_rdma_cm *cm = id->cm;
	struct xd_cm_port **ports = port_place_of(cm, ps, 0);
	uint32_t left = cm->last_port - cm->first_port + 1u;
	uint16_t port = random_port(cm);

	for (; left; left--, port = port_after(cm, port)) {
		if (port != cm->last_taken && (!ports[port] || (!free && unique(id, ports[port]))))
			return port;
	}
	return -1;
}

/* Ports are shared only if no other is left. */
static int take_any(struct xd_cm_id *id, uint16_t ps)
{
	int port = find_port(id, ps, true), err;

	if (port < 0)
		port = find_port(id, ps, false);
	if (port < 0)
		return -EADDRNOTAVAIL;
	err = port_take(id, ps, (uint16_t)port);
	if (!err)
		id->cm->last_taken = (uint16_t)port;
	return err;
}

/* The service ID of an AF_IB address contains the port space. Returns 0 if they do not match. */
static uint16_t ib_port_space(struct xd_cm_id *id)
{
	static const uint16_t spaces[] = { RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP };
	struct xd_sockaddr_ib *a = &id->src.ib;
	uint64_t mask = be64toh(a->sid_mask) & PS_MASK;
	uint64_t sid = be64toh(a->sid) & mask;
	size_t i;

	for (i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		uint64_t space = (uint64_t)spaces[i] << 16;

		if ((id->ps != RDMA_PS_IB && id->ps != spaces[i]) || sid != (space & mask))
			continue;
		a->sid = htobe64(space | xd_cm_addr_port(&id->src));
		a->sid_mask = htobe64(PS_MASK | be64toh(a->sid_mask));
		return spaces[i];
	}
	return 0;
}

int xd_cm_port_bind(struct xd_cm_id *id)
{
	uint16_t ps = id->src.sa.sa_family == AF_IB ? ib_port_space(id) : id->ps;
	uint16_t port = xd_cm_addr_port(&id->src);
	int err;

	if (!ps)
		return -EPROTONOSUPPORT;
	if (!port)
		return take_any(id, ps);
	if (port < id->cm->unprivileged_port && !id->obj.client->identity.is_operator)
		return xd_refuse(id->obj.client, -EACCES,
				 "port %u is for operators; others use %u or higher", port,
				 id->cm->unprivileged_port);
	err = check_shared(id, ps, port, id->reuse);
	return err ? err : port_take(id, ps, port);
}

uint64_t xd_cm_port_service_id(const struct xd_cm_id *id)
{
	return xc_ip_service_id(id->port->ps, id->port->number);
}

int xd_cm_port_listen(struct xd_cm_id *id)
{
	int err;

	if (!id->reuse)
		return 0;
	err = check_shared(id, id->port->ps, id->port->number, false);
	if (!err)
		xd_cm_port_set_reuse(id, false);
	return err;
}
