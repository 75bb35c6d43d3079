// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Opens the UDP sockets of a worker. No option here needs a privilege; some do more with one. */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <xroce/gid.h>
#include <xroce/wire.h>

#include "daemon/base/privileges.h"
#include "daemon/base/segmentation.h"
#include "udp.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_ENCAP
#define UDP_ENCAP 100
#endif

/* Bytes that may be on their way to the network interface */
#define SEND_BUFFER (4 << 20)
#define DISCARD_PORT 9 /* RFC 863 */

struct socket_option {
	int level, name;
};

static int sockets_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static bool sockets_has(int fd, int level, int name, int value)
{
	socklen_t len = sizeof(int);
	int is = 0;

	return !getsockopt(fd, level, name, &is, &len) && len == sizeof(is) && is == value;
}

bool xd_udp_has_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Forced sizes take CAP_NET_ADMIN. */
static void set_buffer(int fd, int forced, int usual, int size)
{
	if (sockets_set(fd, SOL_SOCKET, forced, size))
		sockets_set(fd, SOL_SOCKET, usual, size);
}

/* Options of all sockets. The family AF_INET6 has those of IPv4 as well. */
static int set_common(int fd, bool ipv6, const char *ifname)
{
	int err = 0;

	if (ipv6)
		err = sockets_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!err && ifname &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, (socklen_t)strlen(ifname)))
		err = -errno;
	/* "Don't fragment", and no fragments if a packet is longer than the path MTU */
	if (!err)
		err = sockets_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	if (!err && ipv6)
		err = sockets_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	return err;
}

/* addr: NULL: any */
static int sockets_bind_port(int fd, bool ipv6, const struct xr_addr *addr, uint16_t port)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (addr) { /* the GID of an IPv4 address is its mapped IPv6 address */
		memcpy(&in6.sin6_addr, addr->raw, sizeof(in6.sin6_addr));
		memcpy(&in.sin_addr, addr->raw + XR_GID_IPV4_OFF, sizeof(in.sin_addr));
	}
	if (ipv6)
		return bind(fd, (struct sockaddr *)&in6, sizeof(in6)) ? -errno : 0;
	return bind(fd, (struct sockaddr *)&in, sizeof(in)) ? -errno : 0;
}

/* What the kernel tells about each received datagram */
static int ask_for_headers(int fd, bool ipv6)
{
	static const struct socket_option of_ipv4[] = {
		{ IPPROTO_IP, IP_PKTINFO },
		{ IPPROTO_IP, IP_RECVTOS },
		{ IPPROTO_IP, IP_RECVTTL },
	}, of_ipv6[] = {
		{ IPPROTO_IPV6, IPV6_RECVPKTINFO },
		{ IPPROTO_IPV6, IPV6_RECVTCLASS },
		{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT },
	};
	int err = 0;

	for (unsigned int i = 0; !err && i < sizeof(of_ipv4) / sizeof(of_ipv4[0]); i++)
		err = sockets_set(fd, of_ipv4[i].level, of_ipv4[i].name, 1);
	for (unsigned int i = 0; !err && ipv6 && i < sizeof(of_ipv6) / sizeof(of_ipv6[0]); i++)
		err = sockets_set(fd, of_ipv6[i].level, of_ipv6[i].name, 1);
	return err;
}

/*
 * SO_REUSEADDR lets sockets of addresses and of interfaces exist beside each other. Two that have
 * it can be bound to the same place, so those of interfaces give it up afterwards, and nothing that
 * looks whether an address is free has it.
 */
static int bind_rx(int fd, bool ipv6, const struct xd_udp_place *place, bool shared)
{
	int err = sockets_set(fd, SOL_SOCKET, SO_REUSEADDR, shared || !place->addr);

	if (!err)
		err = sockets_bind_port(fd, ipv6, place->addr, XR_UDP_PORT);
	if (!err && !place->addr)
		err = sockets_set(fd, SOL_SOCKET, SO_REUSEADDR, 0);
	return err;
}

void xd_udp_receive_groups(int fd, bool ipv6, bool on)
{
	sockets_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, on);
	if (ipv6)
		sockets_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, on);
}

/* Options of sockets that receive, except those that are set once and cannot be changed. */
static int set_receiving(int fd, bool ipv6, bool shared, bool multicast)
{
	int err = ask_for_headers(fd, ipv6);

	if (!err && shared)
		err = sockets_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (err)
		return err;
	/* A datagram of a group arrives at all sockets of the port, also if they share it. */
	xd_udp_receive_groups(fd, ipv6, multicast);
	/* RoCE v2 packets may have the checksum 0, also over IPv6: the ICRC protects them. */
	if (ipv6)
		sockets_set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	/* Linux 5.0; without it the kernel joins no packets */
	sockets_set(fd, IPPROTO_UDP, UDP_GRO, 1);
	return 0;
}

static int set_up_rx(int fd, bool ipv6, const struct xd_udp_place *place, bool shared,
		     bool multicast)
{
	int err = set_common(fd, ipv6, place->ifname);

	if (!err)
		err = set_receiving(fd, ipv6, shared, multicast);
	if (err)
		return err;
	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, XD_UDP_RECEIVE_BUFFER);
	return bind_rx(fd, ipv6, place, shared);
}

/*
 * Sockets that share a port are of one user, also with those of other daemons and those that are
 * opened later, by the user that this daemon becomes.
 */
static void give_to_user(int fd)
{
	uid_t uid;

	if (xd_privileges_becomes(&uid))
		(void)!fchown(fd, uid, (gid_t)-1);
}

int xd_udp_open_rx(bool ipv6, const struct xd_udp_place *place, bool shared, bool multicast)
{
	int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	give_to_user(fd);
	err = set_up_rx(fd, ipv6, place, shared, multicast);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int xd_udp_check_port(bool ipv6, const char *ifname, const struct xr_addr *addr)
{
	const struct xd_udp_place place = { ifname, addr };
	int fd = xd_udp_open_rx(ipv6, &place, false, false);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* rdma_rxe takes the port of all interfaces; up to Linux 6.12 without a device, too. */
const char *xd_udp_who_has_port(int err)
{
	if (err != -EADDRINUSE)
		return "";
	return access("/sys/module/rdma_rxe", F_OK)
		       ? ", by another daemon or program"
		       : ", by the kernel's rdma_rxe or another daemon: modprobe -r rdma_rxe, or "
			 "--io xdp";
}

/*
 * Sets UDP_ENCAP to 0, if it is not. Once it was set, even to 0, Linux 6.x takes the socket for one
 * of a tunnel, for which it takes joined packets apart (udp_unexpected_gso()).
 */
static int end_encap(int fd)
{
	return sockets_has(fd, IPPROTO_UDP, UDP_ENCAP, 0)
		       ? 0
		       : sockets_set(fd, IPPROTO_UDP, UDP_ENCAP, 0);
}

/* Options that make a socket receive less, later or something else than the daemon expects */
static int sockets_set_defaults(int fd, bool ipv6)
{
	const struct timeval never = { 0 };
	static const struct {
		int level, name, value;
	} usual[] = {
		{ SOL_SOCKET, SO_RCVLOWAT, 1 },	   { SOL_SOCKET, SO_PEEK_OFF, -1 },
		{ SOL_SOCKET, SO_TIMESTAMPNS, 0 }, { SOL_SOCKET, SO_TIMESTAMPING, 0 },
		{ SOL_SOCKET, SO_RXQ_OVFL, 0 },	   { SOL_SOCKET, SO_MARK, 0 },
		{ IPPROTO_IP, IP_RECVERR, 0 },	   { IPPROTO_IP, IP_RECVOPTS, 0 },
		{ IPPROTO_IP, IP_RETOPTS, 0 },	   { IPPROTO_IP, IP_MINTTL, 0 },
		{ IPPROTO_IP, IP_CHECKSUM, 0 },	   { IPPROTO_IP, IP_RECVORIGDSTADDR, 0 },
		{ IPPROTO_UDP, UDP_CORK, 0 },	   { IPPROTO_UDP, UDP_SEGMENT, 0 },
	};
	int err = end_encap(fd);

	for (unsigned int i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		int e = sockets_set(fd, usual[i].level, usual[i].name, usual[i].value);

		/* What takes a privilege to set, a borrower cannot have changed without it. */
		if (e && e != -EPERM && e != -ENOPROTOOPT && e != -EOPNOTSUPP)
			err = e;
	}
	if (ipv6)
		sockets_set(fd, IPPROTO_IPV6, IPV6_RECVERR, 0);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never)))
		err = -errno;
	return err;
}

int xd_udp_reset_rx(int fd, bool ipv6, uint32_t receive_buffer)
{
	int err = sockets_set_defaults(fd, ipv6);

	/* Without CAP_NET_ADMIN, which a daemon drops, this could shrink a buffer that is large. */
	if (xd_udp_receive_buffer(fd) < receive_buffer)
		set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, XD_UDP_RECEIVE_BUFFER);
	return err ? err : set_receiving(fd, ipv6, true, false);
}

/* Peers answer to port 4791. Whatever arrives here anyway is dropped. */
static int receive_nothing(int fd)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog prog = { .len = 1, .filter = &drop };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ? -errno : 0;
}

static int sockets_port_of(int fd, uint16_t *port)
{
	struct sockaddr_in6 sa; /* the port has the same place in both families */
	socklen_t len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &len))
		return -errno;
	*port = ntohs(sa.sin6_port);
	return 0;
}

static int set_ttl(int fd, bool ipv6)
{
	int err = sockets_set(fd, IPPROTO_IP, IP_TTL, XD_UDP_TTL);

	if (!err)
		err = sockets_set(fd, IPPROTO_IP, IP_MULTICAST_TTL, XD_UDP_TTL);
	if (!err && ipv6)
		err = sockets_set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, XD_UDP_TTL);
	if (!err && ipv6)
		err = sockets_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, XD_UDP_TTL);
	return err;
}

static int set_up_tx(int fd, bool ipv6, const char *ifname, uint16_t *port)
{
	int err = set_common(fd, ipv6, ifname);

	if (!err)
		err = receive_nothing(fd);
	/* Members of groups on this host can be QPs of direct contexts: they have other sockets. */
	if (!err)
		err = sockets_set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
	if (!err && ipv6)
		err = sockets_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
	if (!err)
		err = set_ttl(fd, ipv6);
	if (!err)
		err = sockets_bind_port(fd, ipv6, NULL, 0);
	if (!err)
		err = sockets_port_of(fd, port);
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER);
	return err;
}

int xd_udp_open_tx(bool ipv6, const char *ifname, uint16_t *port)
{
	int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	err = set_up_tx(fd, ipv6, ifname, port);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* ---- programs ----------------------------------------------------------------------------- */

#define STEER_CODE (12 + 2 * XD_MAX_SLOTS)

struct code {
	struct sock_filter insn[STEER_CODE];
	unsigned short n;
};

static void sockets_add(struct code *c, uint16_t op, uint32_t k)
{
	c->insn[c->n++] = (struct sock_filter)BPF_STMT(op, k);
}

/* Jumps by jt instructions if the test is true, else by jf. */
static void add_jump(struct code *c, uint16_t test, uint32_t k, uint8_t jt, uint8_t jf)
{
	c->insn[c->n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, k, jt, jf);
}

/* The program sees the UDP payload: the BTH, with the QPN in bytes 5 to 7. */
static void load_qpn(struct code *c, uint32_t bth)
{
	sockets_add(c, BPF_LD | BPF_W | BPF_ABS, bth + 4);
	sockets_add(c, BPF_ALU | BPF_AND | BPF_K, XR_QPN_MASK);
}

static void build_steering(struct code *c, const struct xd_udp_steering *s)
{
	load_qpn(c, 0);
	add_jump(c, BPF_JEQ, XR_GSI_QPN, 0, 1);
	sockets_add(c, BPF_RET | BPF_K, 0);
	if (s->slots) {
		add_jump(c, BPF_JSET, 1, 3, 0);
		sockets_add(c, BPF_ALU | BPF_RSH | BPF_K, 1);
	}
	sockets_add(c, BPF_ALU | BPF_MOD | BPF_K, s->workers);
	sockets_add(c, BPF_RET | BPF_A, 0);
	if (!s->slots)
		return;
	sockets_add(c, BPF_ALU | BPF_RSH | BPF_K, 1);
	sockets_add(c, BPF_ALU | BPF_MOD | BPF_K, s->slots);
	for (uint32_t i = 0; i < s->lent; i++) {
		add_jump(c, BPF_JEQ, s->slot[i], 0, 1);
		sockets_add(c, BPF_RET | BPF_K, s->index[i]);
	}
	sockets_add(c, BPF_RET | BPF_K, 0);
}

static int sockets_attach(int fd, int name, struct code *c)
{
	const struct sock_fprog prog = { .len = c->n, .filter = c->insn };

	return setsockopt(fd, SOL_SOCKET, name, &prog, sizeof(prog)) ? -errno : 0;
}

int xd_udp_steer(int fd, const struct xd_udp_steering *s)
{
	struct code c = { .n = 0 };

	build_steering(&c, s);
	return sockets_attach(fd, SO_ATTACH_REUSEPORT_CBPF, &c);
}

/* Filters of sockets, other than programs of groups, see the UDP header as well. */
int xd_udp_keep_slot(int fd, uint32_t slots, uint32_t slot)
{
	struct code c = { .n = 0 };

	load_qpn(&c, XR_UDP_HLEN);
	add_jump(&c, BPF_JEQ, XR_MULTICAST_QPN, 4, 0);
	add_jump(&c, BPF_JSET, 1, 0, 4);
	sockets_add(&c, BPF_ALU | BPF_RSH | BPF_K, 1);
	sockets_add(&c, BPF_ALU | BPF_MOD | BPF_K, slots);
	add_jump(&c, BPF_JEQ, slot, 0, 1);
	sockets_add(&c, BPF_RET | BPF_K, UINT32_MAX);
	sockets_add(&c, BPF_RET | BPF_K, 0);
	return sockets_attach(fd, SO_ATTACH_FILTER, &c);
}

int xd_udp_lock_filter(int fd)
{
	return sockets_set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

/* ---- what the kernel knows ---------------------------------------------------------------- */

uint32_t xd_udp_receive_buffer(int fd)
{
	socklen_t len = sizeof(int);
	int size = 0;

	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len);
	return (uint32_t)size;
}

uint32_t xd_udp_usual_receive_buffer(bool ipv6)
{
	int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t size;

	if (fd < 0)
		return 0;
	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, XD_UDP_RECEIVE_BUFFER);
	size = xd_udp_receive_buffer(fd);
	close(fd);
	return size;
}

void xd_udp_solicit(int fd, bool ipv6, unsigned int ifindex, int family, const uint8_t *addr)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(DISCARD_PORT) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(DISCARD_PORT),
				    .sin6_scope_id = ifindex };

	if (family == AF_INET && !ipv6) {
		memcpy(&in.sin_addr, addr, 4);
		sendto(fd, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&in, sizeof(in));
		return;
	}
	if (family == AF_INET) {
		in6.sin6_addr.s6_addr16[5] = 0xffff;
		memcpy(&in6.sin6_addr.s6_addr32[3], addr, 4);
	} else {
		memcpy(&in6.sin6_addr, addr, 16);
	}
	sendto(fd, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&in6, sizeof(in6));
}
