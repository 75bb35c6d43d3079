// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/bpf/filter.h"
#include "daemon/helper/helper.h"

_Static_assert(XD_MAX_SLOTS <= XD_HELPER_SLOTS && XR_LEND_PORTS < XD_RING_FILES,
	       "what the helper keeps");

static enum xd_udp_slot_state state_of(const struct xd_udp_slots *s, uint32_t slot)
{
	return __atomic_load_n(&s->slot[slot].state, __ATOMIC_ACQUIRE);
}

static void lend_set_state(struct xd_udp_slots *s, uint32_t slot, enum xd_udp_slot_state state)
{
	__atomic_store_n(&s->slot[slot].state, state, __ATOMIC_RELEASE);
}

/* ---- start and stop ----------------------------------------------------------------------- */

/* The socket gets packets for the QPNs of its slot only, and that cannot be undone. */
static int keep_slot(const struct xd_udp_slots *s, int fd, uint32_t slot, uint32_t count)
{
	int err = s->filter ? xd_filter_attach_slot(s->filter, fd, slot, count)
			    : xd_udp_keep_slot(fd, count, slot);

	return err ? err : xd_udp_lock_filter(fd);
}

static void close_receiver(const struct xd_udp_slots *s, int fd)
{
	if (s->filter)
		xd_filter_end_slot(s->filter, fd);
	close(fd);
}

/* Returns a socket, which is the last one of the group, or a negative error. */
static int open_receiver(const struct xd_udp_slots *s, uint32_t slot, uint32_t count)
{
	const struct xd_udp_place place = { s->ifname, NULL };
	int fd = xd_udp_open_rx(s->ipv6, &place, true, false), err;

	if (fd < 0)
		return fd;
	err = keep_slot(s, fd, slot, count);
	if (!err)
		return fd;
	close_receiver(s, fd);
	return err;
}

static int open_slot(struct xd_udp_slots *s, uint32_t slot, uint32_t count)
{
	int fd = open_receiver(s, slot, count);

	if (fd < 0)
		return fd;
	s->receive_buffer = xd_udp_receive_buffer(fd);
	s->slot[slot] = (struct xd_udp_slot){ .fd = fd, .state = XD_UDP_SLOT_FREE };
	return 0;
}

/* The QPNs of a slot follow from the number of slots, so there are all of them or none. */
void xd_udp_slots_open(struct xd_udp_slots *s, uint32_t count)
{
	int err = 0;

	pthread_mutex_init(&s->replaces, NULL);
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
		close_receiver(s, s->slot[--s->count].fd);
}

void xd_udp_slots_detach(struct xd_udp_slots *s)
{
	s->steering_fd = -1;
	pthread_mutex_lock(&s->replaces);
	s->helper = NULL;
	pthread_mutex_unlock(&s->replaces);
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
	*state = (struct xd_slots_state){ .total = s->count, .checked = s->filter };
	for (uint32_t i = 0; i < s->count; i++) {
		state->lent += state_of(s, i) == XD_UDP_SLOT_LENT ||
			       state_of(s, i) == XD_UDP_SLOT_ENDED;
		state->retired += state_of(s, i) == XD_UDP_SLOT_RETIRED;
	}
}

/* ---- lending ------------------------------------------------------------------------------ */

/* One half of the slots is for rings, the other for sockets, as long as others are free. */
static bool lend_is_free(const struct xd_udp_slots *s, uint32_t slot, bool ring, bool any)
{
	return state_of(s, slot) == XD_UDP_SLOT_FREE && !(ring && s->slot[slot].plain) &&
	       (any || (slot >= s->count / 2) == ring);
}

static bool find_free(const struct xd_udp_slots *s, bool ring, uint32_t *slot)
{
	for (uint32_t i = 0; i < 2 * s->count; i++) {
		*slot = (s->next + i) % s->count;
		if (lend_is_free(s, *slot, ring, i >= s->count))
			return true;
	}
	return false;
}

static void close_ports(struct xd_loan *loan)
{
	while (loan->ports)
		close(loan->send_fd[--loan->ports]);
}

static int lend_open_ports(const struct xd_udp_slots *s, struct xd_loan *loan)
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

static void lend_drain(int fd);

/*
 * Prepares a socket for a ring. What sends nothing (SHUT_WR, whatever the call returns for a socket
 * without a peer) has no lock that the program could hold, in a page fault of what it sends.
 */
static int lend_prepare(struct xd_loan *loan)
{
	struct epoll_event e = { .events = EPOLLIN };
	int err;

	if (shutdown(loan->fd, SHUT_WR) && errno != ENOTCONN)
		return -errno;
	loan->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loan->epoll < 0)
		return -errno;
	if (!epoll_ctl(loan->epoll, EPOLL_CTL_ADD, loan->fd, &e))
		return 0;
	err = -errno;
	close(loan->epoll);
	return err;
}

int xd_udp_slots_lend(struct xd_udp_slots *s, bool ring, struct xd_loan *loan)
{
	uint32_t slot;
	int err;

	if (!s->count)
		return -EOPNOTSUPP;
	if (!find_free(s, ring, &slot))
		return -EBUSY;
	*loan = (struct xd_loan){
		.slot = slot,
		.qpn_modulus = 2 * s->count,
		.qpn_rest = 2 * slot + 1,
		.fd = s->slot[slot].fd,
		.ipv6 = s->ipv6,
		.receive_buffer = xd_udp_receive_buffer(s->slot[slot].fd),
		.epoll = -1,
	};
	err = lend_open_ports(s, loan);
	if (!err && ring)
		err = lend_prepare(loan);
	if (err) {
		close_ports(loan);
		return err;
	}
	/* packets that were on their way to it when it was taken back */
	lend_drain(loan->fd);
	lend_set_state(s, slot, XD_UDP_SLOT_LENT);
	err = xd_udp_slots_steer(s);
	if (err) {
		lend_set_state(s, slot, XD_UDP_SLOT_FREE);
		close_ports(loan);
		if (ring)
			close(loan->epoll);
		return err;
	}
	s->slot[slot].ring = ring;
	s->slot[slot].plain |= !ring;
	s->next = (slot + 1) % s->count;
	return 0;
}

void xd_udp_slots_end(struct xd_udp_slots *s, uint32_t slot)
{
	int err;

	lend_set_state(s, slot, XD_UDP_SLOT_ENDED);
	err = xd_udp_slots_steer(s);
	if (err)
		xd_log(XD_WARN, "steering packets past slot %u: %s", slot, strerror(-err));
}

/* ---- cleaning ----------------------------------------------------------------------------- */

#define DRAINED 64

/* Takes all datagrams and errors. No more arrive, so it ends; the limit is for a flood. */
static void lend_drain(int fd)
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

/*
 * Replaces a socket that a ring uses. The new one is the last of the group when the old one leaves
 * it, so it moves to its place, and no other socket moves: therefore one at a time.
 */
static int lend_replace(struct xd_udp_slots *s, uint32_t slot)
{
	struct xd_udp_slot *t = &s->slot[slot];
	int fd, err;

	pthread_mutex_lock(&s->replaces);
	if (!s->helper)
		fd = -ESHUTDOWN;
	else
		fd = s->stuck ? -ETIMEDOUT : open_receiver(s, slot, s->count);
	if (fd >= 0 && xd_udp_receive_buffer(fd) < s->receive_buffer)
		xd_helper_enlarge(s->helper, fd, XD_UDP_RECEIVE_BUFFER);
	err = fd < 0 ? fd : xd_helper_replace(s->helper, slot);
	s->stuck |= err == -ETIMEDOUT;
	if (!err) {
		lend_drain(t->fd);
		close_receiver(s, t->fd);
		t->fd = fd;
	} else if (fd >= 0 && !s->stuck) {
		close_receiver(s, fd);
	}
	pthread_mutex_unlock(&s->replaces);
	return err == -ENOENT ? 0 : err; /* nobody has got it */
}

static const char *clean_socket(struct xd_udp_slots *s, uint32_t slot)
{
	int fd = s->slot[slot].fd, err;
	const char *why = spoiled(s, fd);

	if (!why) {
		err = xd_udp_reset_rx(fd, s->ipv6, s->receive_buffer);
		why = err ? strerror(-err) : NULL;
	}
	lend_drain(fd);
	return why;
}

void xd_udp_slots_clean(struct xd_udp_slots *s, uint32_t slot)
{
	const char *why;
	int err;

	if (s->slot[slot].ring) {
		err = lend_replace(s, slot);
		why = err ? strerror(-err) : NULL;
	} else {
		why = clean_socket(s, slot);
	}
	/* a device that ends lends nothing again */
	if (why && s->steering_fd >= 0)
		xd_log(XD_WARN, "slot %u is not lent again: %s", slot, why);
	lend_set_state(s, slot, why ? XD_UDP_SLOT_RETIRED : XD_UDP_SLOT_FREE);
}

void xd_udp_slots_receive_groups(struct xd_udp_slots *s, uint32_t slot, bool on)
{
	xd_udp_receive_groups(s->slot[slot].fd, s->ipv6, on);
}

int xd_udp_slots_publish_more(const struct xd_udp_slots *s, uint32_t slot, uint32_t flags)
{
	return xd_filter_set_slot(s->filter, s->slot[slot].fd, slot, s->count, flags);
}
