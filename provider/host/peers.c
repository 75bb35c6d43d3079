// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Direct contexts of the same host, device and user: messages to them go into their inbox while
 * they look there, else to their sockets. They may store anything into the inbox at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xroce/bits.h>

#include "daemon/io/verdict.h"
#include "daemon/transport/memory/guard.h"
#include "internal.h"
#include "requests.h"

/*
 * A peer that takes nothing out of a full ring for so long has stopped: what is for it is lost, as
 * in the full buffer of a socket.
 */
#define FULL_NS 20000000u

static struct xp_nearby *nearby_of(struct xd_udp_nearby *way)
{
	return (struct xp_nearby *)way;
}

/* ---- send --------------------------------------------------------------------------------- */

static int peers_find_peer(struct xd_udp_nearby *way, const struct xr_addr *dst, uint32_t qpn)
{
	struct xp_nearby *n = nearby_of(way);
	uint32_t rest = qpn % n->h->env.lent.rep.qpn_modulus, slot = rest / 2;

	if (!(rest & 1) || slot >= XR_INBOX_RINGS || !(n->peers >> slot & 1))
		return -1;
	if (memcmp(dst, &n->own, sizeof(n->own))) {
		if (!xd_verdict_is_own(xd_udp_of(n->h->socket)->verdict, dst))
			return -1;
		n->own = *dst;
	}
	return (int)slot;
}

/* Returns true if the message is lost: the ring has been full for too long. */
static bool gives_up(struct xp_peer *p, uint64_t now)
{
	if (!p->full_at)
		p->full_at = now;
	return now - p->full_at > FULL_NS;
}

/* Returns -EFAULT if a page of the payload is absent. */
static int write_message(uint8_t *to, uint32_t flags, const struct xd_udp_about *a,
			 const struct iovec *iov, uint32_t iovs, uint32_t len)
{
	const struct xr_inbox_message m = {
		.len = len,
		.size = a->size,
		.src = a->src,
		.dst = a->dst,
		.sport = a->sport,
		.traffic_class = a->traffic_class,
		.ttl = a->ttl,
		.flags = flags,
		.packets = a->packets,
	};

	memcpy(to, &m, sizeof(m));
	to += sizeof(m);
	for (uint32_t i = 0; i < iovs; to += iov[i++].iov_len)
		/* perhaps for a READ of the peer */
		if (XT_UNORDERED(xt_guard_copy(to, iov[i].iov_base, iov[i].iov_len)))
			return -EFAULT;
	return 0;
}

static uint32_t flags_of(const struct xp_peer *p, const struct xd_udp_about *about)
{
	return (p->used_socket ? XR_INBOX_AFTER_SOCKET : 0) |
	       (about->unsealed ? XR_INBOX_UNSEALED : 0);
}

/* The reader clears the bit before it looks at the head again. */
static void set_ready(struct xp_peer *p)
{
	if (!(__atomic_load_n(&p->m->ready, __ATOMIC_SEQ_CST) & p->own_bit))
		__atomic_fetch_or(&p->m->ready, p->own_bit, __ATOMIC_SEQ_CST);
}

/* The room of a message in a ring, and what it leaves out at the end, where it does not fit */
struct room {
	uint64_t size, skip;
};

static struct room peers_room_for(uint64_t head, uint32_t len)
{
	uint32_t to_end = XR_INBOX_RING - (uint32_t)(head % XR_INBOX_RING);
	uint64_t size = (sizeof(struct xr_inbox_message) + (uint64_t)len + XR_INBOX_ALIGN - 1) /
			XR_INBOX_ALIGN * XR_INBOX_ALIGN;

	return (struct room){ size, size > to_end ? to_end : 0 };
}

static bool peers_fits(const struct room *r, uint64_t head, uint64_t tail)
{
	return head - tail <= XR_INBOX_RING && r->skip + r->size <= XR_INBOX_RING - (head - tail);
}

static bool peers_has_room(struct xd_udp_nearby *way, int peer, uint32_t len, bool *closed)
{
	struct xp_nearby *n = nearby_of(way);
	struct xp_peer *p = &n->peer[peer];
	uint64_t head = __atomic_load_n(&p->ring->head, __ATOMIC_RELAXED);
	uint64_t tail = __atomic_load_n(&p->ring->tail, __ATOMIC_ACQUIRE);
	struct room room = peers_room_for(head, len);

	*closed = head & XR_INBOX_CLOSED;
	if (*closed)
		return false;
	if (peers_fits(&room, head, tail))
		return true;
	*closed = gives_up(p, n->h->now);
	return false;
}

static int put_message(const struct xp_nearby *n, struct xp_peer *p,
		       const struct xd_udp_about *about, const struct iovec *iov, uint32_t iovs,
		       uint32_t len)
{
	uint64_t head = __atomic_load_n(&p->ring->head, __ATOMIC_RELAXED);
	uint64_t tail = __atomic_load_n(&p->ring->tail, __ATOMIC_ACQUIRE);
	uint32_t at = (uint32_t)(head % XR_INBOX_RING);
	struct room room = peers_room_for(head, len);

	/* A head that is not aligned was changed by the peer against the rules. */
	if (head & XR_INBOX_CLOSED || head % XR_INBOX_ALIGN)
		return -EPIPE;
	if (!peers_fits(&room, head, tail))
		return gives_up(p, n->h->now) ? 0 : -EAGAIN;
	p->full_at = 0;
	if (room.skip)
		*(__u32 *)(void *)(p->data + at) = XR_INBOX_SKIP;
	/* lost: the next attempt finds the page absent, or not */
	if (write_message(p->data + (room.skip ? 0 : at), flags_of(p, about), about, iov, iovs,
			  len))
		return 0;
	if (!__atomic_compare_exchange_n(&p->ring->head, &head, head + room.skip + room.size, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return -EPIPE;
	set_ready(p);
	p->used_socket = false;
	return 0;
}

static int send_to_peer(struct xd_udp_nearby *way, int peer, const struct xd_udp_about *about,
			const struct iovec *iov, uint32_t iovs, uint32_t len)
{
	struct xp_nearby *n = nearby_of(way);
	int err = put_message(n, &n->peer[peer], about, iov, iovs, len);

	if (err == -EPIPE)
		n->peer[peer].used_socket = true;
	return err;
}

static uint32_t receive_from_inbox(struct xd_udp_nearby *way, bool emptied,
				   struct xd_udp_about *about, struct iovec *data, uint32_t max,
				   bool *behind)
{
	return xp_inbox_receive(&nearby_of(way)->inbox, emptied, about, data, max, behind);
}

static bool inbox_pending(const struct xd_udp_nearby *way)
{
	return xp_inbox_pending(&((const struct xp_nearby *)way)->inbox);
}

/* ---- peers -------------------------------------------------------------------------------- */

/* A file that could shrink would end this program by SIGBUS. */
static bool is_inbox(int fd, struct stat *st)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	return !fstat(fd, st) && st->st_size == (off_t)XR_INBOX_SIZE &&
	       (fcntl(fd, F_GET_SEALS) & seals) == seals;
}

static void drop_peer(struct xp_nearby *n, uint32_t slot)
{
	n->peers &= ~(1ull << slot);
	n->way.peers = n->peers;
	munmap(n->peer[slot].m, XR_INBOX_SIZE);
	n->peer[slot].m = NULL;
}

/* own: the ring that this context may write. Entered. */
static void attach_peer(struct xp_nearby *n, uint32_t slot, uint32_t own, struct xr_inbox *m,
			uint64_t inode)
{
	struct xp_peer *p = &n->peer[slot];

	*p = (struct xp_peer){
		.m = m,
		.ring = &m->ring[own],
		.data = (uint8_t *)m + XR_INBOX_RINGS_OFF + (size_t)own * XR_INBOX_RING,
		.own_bit = 1ull << own,
		.inode = inode,
		.used_socket = true,
	};
	n->peers |= 1ull << slot;
	n->way.peers = true;
	n->h->env.debug("the context of slot %u is sent to through memory while it polls", slot);
	__atomic_fetch_or(&m->attached, p->own_bit, __ATOMIC_SEQ_CST);
}

static void peers_take_inbox(struct xp_host *h, const struct xr_peer_rep *rep, int fd)
{
	struct xp_nearby *n = &h->nearby;
	struct xr_inbox *m;
	struct stat st;

	if (rep->slot >= XR_INBOX_RINGS || rep->own >= XR_INBOX_RINGS || !is_inbox(fd, &st))
		return;
	if (n->peer[rep->slot].m && n->peer[rep->slot].inode == st.st_ino)
		return;
	m = mmap(NULL, XR_INBOX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		return;
	xp_host_enter(h);
	if (n->peer[rep->slot].m)
		drop_peer(n, rep->slot);
	if (m->magic == XR_INBOX_MAGIC && m->layout == XR_INBOX_LAYOUT)
		attach_peer(n, rep->slot, rep->own, m, st.st_ino);
	else
		munmap(m, XR_INBOX_SIZE);
	xp_host_leave_quietly(h);
}

void xp_peer_find(struct xp_host *h, uint32_t qpn)
{
	const struct xr_peer_req req = { .qpn = qpn };
	struct xr_peer_rep rep = { 0 };
	int fd = -1;

	if (!h->nearby.inbox.m)
		return;
	if (h->env.request_fd(h->env.arg, XR_MSG_PEER, &req, sizeof(req), &rep, sizeof(rep), &fd)) {
		h->env.why[0] = '\0'; /* there need not be one */
		return;
	}
	peers_take_inbox(h, &rep, fd);
	close(fd);
}

void xp_nearby_init(struct xp_host *h)
{
	h->nearby.h = h;
	h->nearby.way = (struct xd_udp_nearby){
		.peer = peers_find_peer,
		.send = send_to_peer,
		.has_room = peers_has_room,
		.receive = receive_from_inbox,
		.pending = inbox_pending,
	};
	xp_inbox_map(&h->nearby.inbox, h->env.lent.inbox);
	h->env.lent.inbox = -1;
}

void xp_nearby_free(struct xp_host *h)
{
	__u64 peers = h->nearby.peers;

	while (peers)
		drop_peer(&h->nearby, xr_next_bit(&peers));
	xp_inbox_unmap(&h->nearby.inbox);
}
