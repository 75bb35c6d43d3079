// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <xroce/gid.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/bpf/filter.h"
#include "daemon/datapath/worker.h"
#include "daemon/helper/helper.h"
#include "daemon/netdev/net.h"
#include "udp.h"

#define RETRY_NS 1000000000ull

struct addresses_list {
	uint32_t count;
	struct xr_addr addr[XR_GID_TABLE_LEN];
};

struct xd_udp_addresses {
	struct xd_udp_addresses_config config;
	struct xd_workers *workers; /* NULL: no sockets are opened */
	struct xd_udp *const *u;    /* of each worker */
	struct xd_timer *retry;
	struct addresses_list served;  /* the sockets of served.addr[i] are u[]->rx_fd[i] */
	struct addresses_list missing; /* addresses whose sockets could not be opened */
};

/* ---- lists -------------------------------------------------------------------------------- */

static int index_in(const struct addresses_list *l, const struct xr_addr *addr)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (xr_gid_equal(&l->addr[i], addr))
			return (int)i;
	return -1;
}

/* The interface has no more addresses than the lists have room for (net.h). */
static void add_to(struct addresses_list *l, const struct xr_addr *addr)
{
	l->addr[l->count++] = *addr;
}

static void remove_from(struct addresses_list *l, int i)
{
	l->addr[i] = l->addr[--l->count];
}

static const char *addresses_text_of(const struct xr_addr *addr, char text[INET6_ADDRSTRLEN])
{
	bool v4 = xr_gid_is_ipv4(addr);

	inet_ntop(v4 ? AF_INET : AF_INET6, addr->raw + (v4 ? XR_GID_IPV4_OFF : 0), text,
		  INET6_ADDRSTRLEN);
	return text;
}

/* ---- the sockets of an address ------------------------------------------------------------ */

static uint32_t workers_of(const struct xd_udp_addresses *a)
{
	return xd_workers_count(a->workers);
}

static int addresses_watch(const struct xd_udp *u, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(u->socket.fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int addresses_set_up(struct xd_udp_addresses *a, uint32_t worker, int fd)
{
	int err = a->config.filter ? xd_filter_attach(a->config.filter, fd) : 0;

	if (!err)
		err = addresses_watch(a->u[worker], fd);
	if (!err && xd_udp_receive_buffer(fd) < a->config.receive_buffer)
		xd_helper_enlarge(a->config.helper, fd, XD_UDP_RECEIVE_BUFFER);
	return err;
}

/* The worker is woken by sockets that it does not read, but not for long. */
static void close_sockets(const struct xd_udp_addresses *a, const int *fd, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		/* the helper may still have it open, and it would stay in the set */
		epoll_ctl(a->u[i]->socket.fd, EPOLL_CTL_DEL, fd[i], NULL);
		close(fd[i]);
	}
}

/* Opens the socket of each worker, in their order, by which packets are steered to them. */
static int open_sockets(struct xd_udp_addresses *a, const struct xr_addr *addr, int *fd)
{
	const struct xd_udp_steering steering = { .workers = workers_of(a) };
	const struct xd_udp_place place = { NULL, addr };
	uint32_t count = 0;
	int err = xd_udp_check_port(a->config.ipv6, a->config.ifname, addr);

	while (!err && count < workers_of(a)) {
		fd[count] = xd_udp_open_rx(a->config.ipv6, &place, true, false);
		if (fd[count] < 0) {
			err = fd[count];
			break;
		}
		err = addresses_set_up(a, count, fd[count]);
		count++;
	}
	if (!err && count > 1)
		err = xd_udp_steer(fd[0], &steering);
	if (err)
		close_sockets(a, fd, count);
	return err;
}

static int addresses_serve(struct xd_udp_addresses *a, const struct xr_addr *addr)
{
	int fd[XR_MAX_WORKERS], err = open_sockets(a, addr, fd);

	if (err)
		return err;
	for (uint32_t i = 0; i < workers_of(a); i++) {
		xd_worker_pause(a->workers, i);
		a->u[i]->rx_fd[a->u[i]->rx_fds++] = fd[i];
		xd_worker_resume_no_wake(a->workers, i);
	}
	add_to(&a->served, addr);
	return 0;
}

/* What the sockets still have is lost, as it is for packets that arrive later. */
static void serve_no_more(struct xd_udp_addresses *a, int index)
{
	int fd[XR_MAX_WORKERS];

	for (uint32_t i = 0; i < workers_of(a); i++) {
		xd_worker_pause(a->workers, i);
		fd[i] = xd_udp_remove_rx(a->u[i], (uint32_t)index);
		xd_worker_resume_no_wake(a->workers, i);
	}
	close_sockets(a, fd, workers_of(a));
	remove_from(&a->served, index);
}

/* ---- changes ------------------------------------------------------------------------------ */

static void on_retry(void *arg)
{
	struct xd_udp_addresses *a = arg;
	char text[INET6_ADDRSTRLEN];
	struct xr_addr addr;

	for (int i = (int)a->missing.count - 1; i >= 0; i--) {
		addr = a->missing.addr[i];
		if (addresses_serve(a, &addr))
			continue;
		remove_from(&a->missing, i);
		xd_log(XD_NOTICE, "packets to %s arrive now", addresses_text_of(&addr, text));
	}
	if (a->missing.count)
		xd_timer_arm(a->retry, RETRY_NS);
}

static void try_later(struct xd_udp_addresses *a, const struct xr_addr *addr, int err)
{
	char text[INET6_ADDRSTRLEN];

	xd_log(XD_WARN, "packets to %s do not arrive yet: UDP port 4791: %s%s",
	       addresses_text_of(addr, text), strerror(-err), xd_udp_who_has_port(err));
	add_to(&a->missing, addr);
	xd_timer_arm(a->retry, RETRY_NS);
}

/* Link-local addresses mean nothing on another link. */
static int addresses_add(struct xd_udp_addresses *a, const struct xr_addr *addr)
{
	if (xr_gid_is_link_local(addr) || index_in(&a->served, addr) >= 0 ||
	    index_in(&a->missing, addr) >= 0)
		return 0;
	return addresses_serve(a, addr);
}

static void forget(struct xd_udp_addresses *a, const struct xr_addr *addr)
{
	int i = index_in(&a->served, addr);

	if (i >= 0)
		serve_no_more(a, i);
	i = index_in(&a->missing, addr);
	if (i >= 0)
		remove_from(&a->missing, i);
}

void xd_udp_addresses_changed(struct xd_udp_addresses *a, const struct xr_addr *addr, bool added)
{
	int err;

	if (!a->workers)
		return;
	if (!added) {
		forget(a, addr);
		return;
	}
	err = addresses_add(a, addr);
	if (err)
		try_later(a, addr, err);
}

/* ---- start and end ------------------------------------------------------------------------ */

int xd_udp_addresses_new(const struct xd_udp_addresses_config *config,
			 struct xd_udp_addresses **out)
{
	struct xd_udp_addresses *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->config = *config;
	a->retry = xd_timer_new(config->loop, on_retry, a);
	if (!a->retry) {
		free(a);
		return -ENOMEM;
	}
	*out = a;
	return 0;
}

void xd_udp_addresses_free(struct xd_udp_addresses *a)
{
	if (!a)
		return;
	xd_timer_free(a->retry);
	free(a);
}

int xd_udp_addresses_open(struct xd_udp_addresses *a, struct xd_workers *workers,
			  struct xd_udp *const u[])
{
	char text[INET6_ADDRSTRLEN];
	struct xr_addr addr;
	int err = 0;

	a->workers = workers;
	a->u = u;
	for (uint32_t i = 0; !err && i < XR_GID_TABLE_LEN; i++)
		if (xd_net_gid(a->config.net, i, &addr))
			err = addresses_add(a, &addr);
	if (!err)
		return 0;
	xd_log(XD_ERR, "UDP port 4791 of %s: %s%s; xroce doctor %s tells who has it",
	       addresses_text_of(&addr, text), strerror(-err), xd_udp_who_has_port(err),
	       a->config.ifname);
	return err;
}

void xd_udp_addresses_stop(struct xd_udp_addresses *a)
{
	a->workers = NULL;
	a->missing.count = 0;
	xd_timer_cancel(a->retry);
}

uint32_t xd_udp_addresses_served(const struct xd_udp_addresses *a)
{
	return a->served.count;
}

uint32_t xd_udp_addresses_missing(const struct xd_udp_addresses *a)
{
	return a->missing.count;
}
