// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "udp_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <xroce/gid.h>

#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/base/options.h"
#include "daemon/bpf/filter.h"
#include "daemon/io/count.h"
#include "daemon/io/memory_tables.h"
#include "daemon/io/verdict.h"
#include "daemon/io/worker_count.h"
#include "daemon/netdev/net.h"
#include "addresses.h"
#include "lend.h"
#include "udp.h"

/* Memory that the kernel charges for a packet of 4 KiB that waits in a socket */
#define PACKET_CHARGE 8192
/*
 * Packets in flight of all workers together, where there are several. More of them wait in the
 * peer's sockets than fit its processor's cache. A single worker needs more, as nobody sends while
 * it waits for ACKs. Measured: docs/performance-findings.md, "Two workers beside one".
 */
#define WORKERS_WINDOW 1536
#define PORT_RETRIES 100
#define PORT_RETRY_US 10000

struct udp_io {
	struct xd_io io; /* first */
	struct xd_udp_io_config config;
	struct xd_filter *filter; /* NULL: the kernel checks nothing */
	struct xd_tables *memory; /* with which workers check packets */
	bool ipv6;
	uint32_t workers;
	uint32_t receive_buffer;	    /* bytes */
	struct xd_udp_addresses *addresses; /* NULL: sockets are bound to the interface */
	struct xd_udp *of_worker[XR_MAX_WORKERS];
	uint64_t ports[65536 / 64]; /* those from which workers send, by bit */
	struct xd_udp_slots slots;
	int solicitor; /* socket of the control thread; -1: none */
};

static struct udp_io *udp_io_of(struct xd_io *io)
{
	return (struct udp_io *)io;
}

static const struct udp_io *const_udp_io_of(const struct xd_io *io)
{
	return (const struct udp_io *)io;
}

/* ---- sockets ------------------------------------------------------------------------------ */

/* Returns true if sockets are bound to addresses, not to the interface. */
static bool udp_io_is_routed(const struct udp_io *w)
{
	return w->config.link->routed;
}

/* A slot is one socket, so there are none if a worker has one for each address. */
static uint32_t wanted_slots(const struct udp_io *w)
{
	return udp_io_is_routed(w) ? 0 : w->config.opt->slots;
}

/* Returns true if the kernel checks the packets of slots by the tables. */
static bool checked_slots(const struct udp_io *w)
{
	return w->filter && xd_options_verdict_slots(w->config.opt);
}

/* The interface through which packets leave and arrive; NULL: any */
static const char *only_through(const struct udp_io *w)
{
	return udp_io_is_routed(w) ? NULL : w->config.link->ifname;
}

static int udp_io_open_ports(struct udp_io *w, struct xd_udp *u)
{
	for (uint32_t i = 0; i < XD_UDP_PORTS; i++) {
		u->tx.fd[i] = xd_udp_open_tx(w->ipv6, only_through(w), &u->tx.port[i]);
		if (u->tx.fd[i] < 0)
			return u->tx.fd[i];
		w->ports[u->tx.port[i] / 64] |= 1ull << u->tx.port[i] % 64;
	}
	return 0;
}

/* The socket of the interface, or a descriptor that is readable if one of the addresses is */
static int open_rx(struct udp_io *w, struct xd_udp *u, uint32_t worker)
{
	const struct xd_udp_place place = { w->config.link->ifname, NULL };

	if (w->addresses) {
		u->socket.fd = epoll_create1(EPOLL_CLOEXEC);
		return u->socket.fd < 0 ? -errno : 0;
	}
	u->socket.fd = xd_udp_open_rx(w->ipv6, &place, true, !worker);
	if (u->socket.fd < 0)
		return u->socket.fd;
	u->rx_fd[u->rx_fds++] = u->socket.fd;
	return w->filter ? xd_filter_attach(w->filter, u->socket.fd) : 0;
}

static int udp_io_open_all(struct udp_io *w, struct xd_udp *u, uint32_t worker)
{
	int err = xd_verdict_new(w->memory, worker, &u->verdict);

	if (err)
		return err;

	err = open_rx(w, u, worker);
	u->rx.queue = (uint8_t)worker;
	u->delivered = w->ports;
	if (!err)
		err = udp_io_open_ports(w, u);
	if (!err)
		err = xd_udp_rx_init(u);
	return err ? err : xd_udp_tx_init(u);
}

static int udp_io_open_socket(struct xd_io *io, uint32_t worker,
			      const struct xt_receivers *receivers, struct xd_socket **socket)
{
	struct udp_io *w = udp_io_of(io);
	struct xd_udp *u = xd_udp_new(w->ipv6, w->config.link->mac,
				      w->config.opt->gso != XD_GSO_OFF);
	int err;

	(void)receivers;
	if (!u)
		return -ENOMEM;
	err = udp_io_open_all(w, u, worker);
	if (err) {
		xd_log(XD_ERR, "UDP sockets of worker %u: %s", worker, strerror(-err));
		xd_socket_close(&u->socket);
		return err;
	}
	w->of_worker[worker] = u;
	*socket = &u->socket;
	return 0;
}

/*
 * Packets in flight must fit into the receive buffer of the peer, which is as large as this one if
 * the peer has the same privileges and settings.
 */
static void udp_io_tune(const struct xd_io *io, uint32_t worker, const struct xd_socket *socket,
			struct xt_tuning *t)
{
	const struct udp_io *w = const_udp_io_of(io);
	const struct xd_udp *u = xd_const_udp_of(socket);
	uint32_t room = w->receive_buffer / PACKET_CHARGE;

	if (room < t->window)
		room = t->window;
	if (w->workers > 1)
		t->engine_window = WORKERS_WINDOW / w->workers;
	if (t->engine_window > room)
		t->engine_window = room;
	if (t->engine_window < t->window)
		t->engine_window = t->window;
	if (t->short_window > t->engine_window)
		t->short_window = t->engine_window;
	t->ports = u->tx.port;
	t->n_ports = XD_UDP_PORTS;
	if (wanted_slots(w)) {
		t->qpn_modulus = 2 * w->workers;
		t->qpn_rest = 2 * worker;
		t->shares_addresses = true;
	} else if (w->workers > 1) {
		t->qpn_modulus = w->workers;
		t->qpn_rest = worker;
	}
}

/* ---- the device --------------------------------------------------------------------------- */

static unsigned int udp_workers(const struct xd_io *io)
{
	return const_udp_io_of(io)->workers;
}

/* The sockets of the workers are open. */
static int udp_io_steer(struct udp_io *w)
{
	const struct xd_udp_steering to_workers = { .workers = w->workers };
	const struct xd_udp *first = w->of_worker[0];

	if (wanted_slots(w)) {
		w->slots = (struct xd_udp_slots){
			.ipv6 = w->ipv6,
			.ifname = w->config.link->ifname,
			.filter = checked_slots(w) ? w->filter : NULL,
			.workers = w->workers,
			.steering_fd = first->socket.fd,
			.helper = w->config.helper,
		};
		xd_udp_slots_open(&w->slots, wanted_slots(w));
		return xd_udp_slots_steer(&w->slots);
	}
	return w->workers > 1 ? xd_udp_steer(first->socket.fd, &to_workers) : 0;
}

static int begin_receiving(struct udp_io *w, struct xd_workers *workers)
{
	int err;

	if (w->addresses)
		return xd_udp_addresses_open(w->addresses, workers, w->of_worker);
	err = udp_io_steer(w);
	if (err)
		xd_log(XD_ERR, "steering packets to %u UDP sockets: %s", w->workers,
		       strerror(-err));
	return err;
}

static int udp_io_attach(struct xd_io *io, struct xd_workers *workers)
{
	struct udp_io *w = udp_io_of(io);
	int err = begin_receiving(w, workers);
	uint32_t sockets = w->workers * w->of_worker[0]->rx_fds;

	if (!err)
		xd_log(XD_NOTICE, "UDP port 4791 of %s: %u socket%s, receive buffer %u bytes",
		       w->config.link->ifname, sockets, sockets == 1 ? "" : "s", w->receive_buffer);
	return err;
}

static void address_changed(struct xd_io *io, const struct xr_addr *addr, bool added)
{
	const struct udp_io *w = udp_io_of(io);

	if (w->addresses)
		xd_udp_addresses_changed(w->addresses, addr, added);
}

static bool udp_io_is_attached(const struct xd_io *io)
{
	(void)io;
	return true;
}

static int udp_io_give_pins(struct xd_io *io)
{
	struct udp_io *w = udp_io_of(io);

	return w->filter ? xd_filter_give_pins(w->filter) : -1;
}

static void udp_io_detach(struct xd_io *io)
{
	struct udp_io *w = udp_io_of(io);

	/* the sockets of the workers are closed before the last loans end */
	xd_udp_slots_detach(&w->slots);
	if (w->addresses)
		xd_udp_addresses_stop(w->addresses);
	if (w->filter)
		xd_filter_release_pins(w->filter);
}

static void udp_free_io(struct xd_io *io)
{
	struct udp_io *w = udp_io_of(io);

	if (w->solicitor >= 0)
		close(w->solicitor);
	xd_udp_slots_close(&w->slots);
	if (w->filter)
		xd_filter_free(w->filter);
	else
		xd_memory_tables_free(w->memory);
	xd_udp_addresses_free(w->addresses);
	free(w);
}

static uint32_t udp_io_max_mtu(const struct xd_io *io)
{
	(void)io;
	return 4096;
}

static bool udp_io_solicit(struct xd_io *io, int family, const uint8_t *addr)
{
	const struct udp_io *w = udp_io_of(io);

	xd_udp_solicit(w->solicitor, w->ipv6, w->config.link->ifindex, family, addr);
	return true;
}

/*
 * The kernel sends nothing to IPv6 groups of interface-local scope (RFC 4291, 2.7). Other groups
 * need an interface.
 */
static bool udp_io_sends_to(const struct xd_io *io, const struct xr_addr *group)
{
	if (udp_io_is_routed(const_udp_io_of(io)))
		return false;
	return xr_gid_is_ipv4(group) || (group->raw[1] & 15) > 1;
}

static void slots(const struct xd_io *io, struct xd_slots_state *state)
{
	xd_udp_slots_state(&const_udp_io_of(io)->slots, state);
}

static int udp_io_lend(struct xd_io *io, bool ring, struct xd_loan *loan)
{
	const struct udp_io *w = udp_io_of(io);
	int err = xd_udp_slots_lend(&udp_io_of(io)->slots, ring, loan);

	loan->segments = w->config.opt->gso != XD_GSO_OFF;
	return err;
}

static void end_loan(struct xd_io *io, uint32_t slot)
{
	xd_udp_slots_end(&udp_io_of(io)->slots, slot);
}

static void clean_slot(struct xd_io *io, uint32_t slot)
{
	xd_udp_slots_clean(&udp_io_of(io)->slots, slot);
}

static void udp_io_receive_groups(struct xd_io *io, uint32_t slot, bool on)
{
	xd_udp_slots_receive_groups(&udp_io_of(io)->slots, slot, on);
}

static int udp_io_publish(struct xd_io *io, uint32_t slot, enum xr_publish_kind kind,
			  uint32_t number, const void *entry)
{
	struct xd_filter *f = udp_io_of(io)->filter;

	return kind == XR_PUBLISH_QP ? xd_filter_publish_qp(f, number, entry)
				     : xd_filter_publish_key(f, slot, number, entry);
}

static int publish_more(struct xd_io *io, uint32_t slot, uint32_t flags)
{
	return xd_udp_slots_publish_more(&udp_io_of(io)->slots, slot, flags);
}

static const char *udp_io_mode(const struct xd_io *io)
{
	(void)io;
	return "UDP sockets";
}

/* Returns the number of packets that the kernel did not send. */
static uint64_t udp_io_refused(const struct udp_io *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < w->workers; i++)
		n += w->of_worker[i] ? xd_counted(&w->of_worker[i]->stats.tx_refused) : 0;
	return n;
}

static void udp_io_show(const struct xd_io *io, struct json *j)
{
	const struct udp_io *w = const_udp_io_of(io);

	json_begin(j, "socket", '{');
	json_number(j, "port", XR_UDP_PORT);
	json_boolean(j, "ipv6", w->ipv6);
	json_text(j, "bind", udp_io_is_routed(w) ? "address" : "interface");
	if (w->addresses) {
		json_number(j, "addresses", xd_udp_addresses_served(w->addresses));
		json_number(j, "addresses_missing", xd_udp_addresses_missing(w->addresses));
	}
	json_number(j, "receive_buffer", w->receive_buffer);
	json_boolean(j, "segmentation", xd_socket_sends_gso(&w->of_worker[0]->socket));
	json_text(j, "checks", w->filter ? "kernel and daemon" : "daemon");
	if (w->filter)
		json_text(j, "pins", xd_filter_pins(w->filter));
	json_number(j, "tx_refused", udp_io_refused(w));
	json_end(j, '}');
}

static void udp_io_log_hints(const struct xd_io *io)
{
	(void)io;
}

static const struct xd_io_ops udp_io_ops = {
	.name = "socket",
	.workers = udp_workers,
	.open = udp_io_open_socket,
	.tune = udp_io_tune,
	.attach = udp_io_attach,
	.is_attached = udp_io_is_attached,
	.address_changed = address_changed,
	.give_pins = udp_io_give_pins,
	.detach = udp_io_detach,
	.free = udp_free_io,
	.max_mtu = udp_io_max_mtu,
	.solicit = udp_io_solicit,
	.sends_to = udp_io_sends_to,
	.slots = slots,
	.lend = udp_io_lend,
	.end_loan = end_loan,
	.clean_slot = clean_slot,
	.receive_groups = udp_io_receive_groups,
	.publish = udp_io_publish,
	.publish_more = publish_more,
	.mode = udp_io_mode,
	.show = udp_io_show,
	.log_hints = udp_io_log_hints,
};

/*
 * Programs that have borrowed sockets of the daemon before give them back when they get to run. So
 * a port that is in use is tried again, for a second at all places together.
 */
static int check_place(const struct udp_io *w, const struct xr_addr *addr, uint32_t *retries)
{
	const char *ifname = w->config.link->ifname;
	int err = xd_udp_check_port(w->ipv6, ifname, addr);

	while (err == -EADDRINUSE && *retries) {
		--*retries;
		usleep(PORT_RETRY_US);
		err = xd_udp_check_port(w->ipv6, ifname, addr);
	}
	return err;
}

/* The kernel prefers the sockets of an address, which another daemon may have (--bind). */
static int check_port(const struct udp_io *w)
{
	const char *ifname = w->config.link->ifname;
	uint32_t retries = PORT_RETRIES;
	int err = check_place(w, NULL, &retries);
	struct xr_addr addr;

	for (uint32_t i = 0; !err && i < XR_GID_TABLE_LEN; i++)
		if (xd_net_gid(w->config.net, i, &addr) && !xr_gid_is_link_local(&addr))
			err = check_place(w, &addr, &retries);
	if (err)
		xd_log(XD_ERR, "UDP port 4791 of %s: %s%s; xroce doctor %s tells who has it%s",
		       ifname, strerror(-err), xd_udp_who_has_port(err), ifname,
		       w->filter ? "; --io xdp does without it" : "");
	return err;
}

static int prepare_addresses(struct udp_io *w)
{
	const struct xd_udp_addresses_config config = {
		.ipv6 = w->ipv6,
		.ifname = w->config.link->ifname,
		.receive_buffer = w->receive_buffer,
		.net = w->config.net,
		.filter = w->filter,
		.helper = w->config.helper,
		.loop = w->config.loop,
	};

	return xd_udp_addresses_new(&config, &w->addresses);
}

/* With CAP_BPF and CAP_PERFMON the kernel checks packets as well, on maps that bpftool shows. */
static int make_tables(struct udp_io *w)
{
	const struct xd_options *opt = w->config.opt;
	int err;

	if (!xd_filter_new(opt, &w->filter)) {
		w->memory = xd_filter_memory(w->filter);
		w->io.tables = xd_filter_tables(w->filter);
		return 0;
	}
	w->filter = NULL;
	if (opt->direct_verdict == XD_VERDICT_BPF) {
		xd_log(XD_ERR, "--direct-verdict bpf: there is no socket filter, which takes "
			       "CAP_BPF and CAP_PERFMON");
		return -EPERM;
	}
	err = xd_memory_tables_new(opt->max_qp + XD_OWN_QPS, opt->nak_rate, &w->memory);
	w->io.tables = w->memory;
	return err;
}

int xd_udp_io_new(const struct xd_udp_io_config *config, struct xd_io **io)
{
	struct udp_io *w = calloc(1, sizeof(*w));
	uint16_t port;
	int err;

	if (!w)
		return -ENOMEM;
	w->io.ops = &udp_io_ops;
	w->config = *config;
	w->ipv6 = xd_udp_has_ipv6();
	w->workers = xd_io_worker_count(config->opt);
	w->solicitor = xd_udp_open_tx(w->ipv6, config->link->ifname, &port);
	err = make_tables(w);
	w->receive_buffer = xd_udp_usual_receive_buffer(w->ipv6);
	if (!err)
		err = udp_io_is_routed(w) ? prepare_addresses(w) : check_port(w);
	if (err) {
		udp_free_io(&w->io);
		return err;
	}
	*io = &w->io;
	return 0;
}
