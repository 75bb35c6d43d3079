// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"

static enum xd_udp_slot_state state_of(const struct xd_udp_slots *s, uint32_t slot)
{
	return __atomic_load_n(&s->slot[slot].state, __ATOMIC_ACQUIRE);
}

static void set_state(struct xd_udp_slots *s, uint32_t slot, enum xd_udp_slot_state state)
{
	__atomic_store_n(&s->slot[slot].state, state, __ATOMIC_RELEASE);
}

/* ---- start and stop ----------------------------------------------------------------------- */

static int open_slot(struct xd_udp_slots *s, uint32_t slot, uint32_t count)
{
	const struct xd_udp_place place = { s->ifname, NULL };
	int fd = xd_udp_open_rx(s->ipv6, &place, true, false), err;

	if (fd < 0)
		return fd;
	err = xd_udp_keep_slot(fd, count, slot);
	if (err) {
		close(fd);
		return err;
	}
	s->receive_buffer = xd_udp_receive_buffer(fd);
	s->slot[slot] = (struct xd_udp_slot){ .fd = fd, .state = XD_UDP_SLOT_FREE };
	return 0;
}

/* The QPNs of a slot follow from the number of slots, so there are all of them or none. */
void xd_udp_slots_open(struct xd_udp_slots *s, uint32_t count)
{
	int err = 0;

	while (!err && s->count < count) {
		err = open_slot(s, s->count, count);
		s->count += !err;
	}
	if (!err)
		return;
	xd_log(XD_WARN, "no sockets for direct programs (--slots %u): %s", count, strerror(-err));
	/* The sockets of the workers are the first ones of the group, so these can be closed. */
	xd_udp_slots_close(s);
}

void xd_udp_slots_close(struct xd_udp_slots *s)
{
	while (s->count)
		close(s->slot[--s->count].fd);
}

int xd_udp_slots_steer(const struct xd_udp_slots *s)
{
	/* The QPNs of the workers are even, also if no slot could be opened. */
	struct xd_udp_steering steering = {
		.workers = s->workers,
		.slots = s->count ? s->count : 1,
	};

	if (s->steering_fd < 0)
		return 0;
	for (uint32_t i = 0; i < s->count; i++) {
		if (state_of(s, i) != XD_UDP_SLOT_LENT)
			continue;
		steering.slot[steering.lent] = i;
		steering.index[steering.lent++] = s->workers + i;
	}
	return xd_udp_steer(s->steering_fd, &steering);
}

void xd_udp_slots_state(const struct xd_udp_slots *s, struct xd_slots_state *state)
{
	*state = (struct xd_slots_state){ .total = s->count };
	for (uint32_t i = 0; i < s->count; i++) {
		state->lent += state_of(s, i) == XD_UDP_SLOT_LENT ||
			       state_of(s, i) == XD_UDP_SLOT_ENDED;
		state->retired += state_of(s, i) == XD_UDP_SLOT_RETIRED;
	}
}

/* ---- lending ------------------------------------------------------------------------------ */

static bool find_free(const struct xd_udp_slots *s, uint32_t *slot)
{
	for (uint32_t i = 0; i < s->count; i++) {
		*slot = (s->next + i) % s->count;
		if (state_of(s, *slot) == XD_UDP_SLOT_FREE)
			return true;
	}
	return false;
}

static void close_ports(struct xd_loan *loan)
{
	while (loan->ports)
		close(loan->send_fd[--loan->ports]);
}

static int open_ports(const struct xd_udp_slots *s, struct xd_loan *loan)
{
	int fd;

	for (loan->ports = 0; loan->ports < XD_UDP_PORTS; loan->ports++) {
		fd = xd_udp_open_tx(s->ipv6, s->ifname, &loan->port[loan->ports]);
		if (fd < 0) {
			close_ports(loan);
			return fd;
		}
		loan->send_fd[loan->ports] = fd;
	}
	return 0;
}

static void drain(int fd);

int xd_udp_slots_lend(struct xd_udp_slots *s, struct xd_loan *loan)
{
	uint32_t slot;
	int err;

	if (!s->count)
		return -EOPNOTSUPP;
	if (!find_free(s, &slot))
		return -EBUSY;
	*loan = (struct xd_loan){
		.slot = slot,
		.qpn_modulus = 2 * s->count,
		.qpn_rest = 2 * slot + 1,
		.fd = s->slot[slot].fd,
		.ipv6 = s->ipv6,
		.receive_buffer = xd_udp_receive_buffer(s->slot[slot].fd),
	};
	err = open_ports(s, loan);
	if (err)
		return err;
	/* packets that were on their way to it when it was taken back */
	drain(loan->fd);
	set_state(s, slot, XD_UDP_SLOT_LENT);
	err = xd_udp_slots_steer(s);
	if (err) {
		set_state(s, slot, XD_UDP_SLOT_FREE);
		close_ports(loan);
		return err;
	}
	s->next = (slot + 1) % s->count;
	return 0;
}

void xd_udp_slots_end(struct xd_udp_slots *s, uint32_t slot)
{
	int err;

	set_state(s, slot, XD_UDP_SLOT_ENDED);
	err = xd_udp_slots_steer(s);
	if (err)
		xd_log(XD_WARN, "steering packets past slot %u: %s", slot, strerror(-err));
}

/* ---- cleaning ----------------------------------------------------------------------------- */

#define DRAINED 64

/* Takes all datagrams and errors. No more arrive, so it ends; the limit is for a flood. */
static void drain(int fd)
{
	static const uint32_t most = 1 << 20;
	struct mmsghdr msg[DRAINED] = { 0 };
	struct msghdr error = { 0 };
	socklen_t len = sizeof(int);
	int n, taken = 0;

	do {
		n = recvmmsg(fd, msg, DRAINED, MSG_DONTWAIT, NULL);
		taken += n > 0 ? n : 1; /* an error of the socket is taken, too */
	} while ((n > 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) && (uint32_t)taken < most);
	while (recvmsg(fd, &error, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0 && (uint32_t)taken++ < most)
		error = (struct msghdr){ 0 };
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, &len);
}

/*
 * Returns what a borrower has done that cannot be undone. A socket that was connected is not in the
 * group any more, even if the connection is dissolved.
 */
static const char *spoiled(const struct xd_udp_slots *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	sa_family_t family;
	socklen_t len = sizeof(family); /* the kernel refuses more than an address has */
	char ifname[64] = "";

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &family, &len))
		return "it is connected";
	len = sizeof(ifname) - 1;
	if (getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, &len) || strcmp(ifname, s->ifname))
		return "it is bound to another interface";
	if (poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP))
		return "it was shut down";
	return NULL;
}

void xd_udp_slots_clean(struct xd_udp_slots *s, uint32_t slot)
{
	int fd = s->slot[slot].fd, err;
	const char *why = spoiled(s, fd);

	if (!why) {
		err = xd_udp_reset_rx(fd, s->ipv6, s->receive_buffer);
		why = err ? strerror(-err) : NULL;
	}
	drain(fd);
	if (why)
		xd_log(XD_WARN, "slot %u is not lent again: %s", slot, why);
	set_state(s, slot, why ? XD_UDP_SLOT_RETIRED : XD_UDP_SLOT_FREE);
}
