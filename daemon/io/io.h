/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way in which packets enter and leave a device: XDP with AF_XDP sockets (daemon/xdp/) or UDP
 * sockets (daemon/udp/). Nothing above knows which one it has.
 *
 * struct xd_io is the way of a whole device, for the control thread. struct xd_socket is one
 * worker's part of it and not thread-safe: it belongs to its worker, or to the control thread while
 * it pauses that worker.
 */
#ifndef XD_IO_H
#define XD_IO_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>
#include <xroce/wire.h>

#include "daemon/transport/transport.h"

struct json;
struct xd_io;
struct xd_socket;
struct xd_tables;
struct xd_workers;

/* Packets that a worker receives at once */
#define XD_BATCH 64

/* ---- a worker's socket -------------------------------------------------------------------- */

struct xd_socket_stats {
	uint64_t tx_kicks;			/* system calls to send */
	uint64_t tx_full;			/* no frame or descriptor free to send */
	uint64_t tx_refused;			/* packets that the kernel refused to send */
	uint64_t tx_by_memory;			/* packets for engines of this host */
	uint64_t tx_gso_frames, tx_gso_packets; /* sent, and the packets in them */
	uint64_t rx_gso_frames, rx_gso_packets; /* received, and the packets in them */
	uint64_t rx_gso_refused; /* packets in received GSO frames that were left out */
	uint64_t rx_too_long;	 /* frames of too many descriptors or packets */
	uint64_t rx_no_metadata; /* frames that did not come from the XDP program of xroce */
	uint64_t rx_ring_full;	 /* dropped by the kernel */
	uint32_t rx_buffers;	 /* that the kernel has to receive into */
};

struct xd_socket_ops {
	void (*close)(struct xd_socket *s);
	unsigned int (*recv)(struct xd_socket *s, struct xt_frame *frames, unsigned int max,
			     uint64_t now);
	void (*recv_done)(struct xd_socket *s);
	bool (*pending)(struct xd_socket *s);
	bool (*tx_get)(struct xd_socket *s, uint32_t len, struct xt_frame *frame);
	void (*tx_put)(struct xd_socket *s, const struct xt_frame *frame);
	void (*tx_cancel)(struct xd_socket *s, const struct xt_frame *frame);
	void (*tx_flush)(struct xd_socket *s, bool more);
	bool (*tx_pending)(const struct xd_socket *s);
	bool (*tx_stalled)(const struct xd_socket *s);
	bool (*sends_gso)(const struct xd_socket *s);
	void (*stats)(const struct xd_socket *s, struct xd_socket_stats *stats);
	bool kernel_headers; /* the kernel writes the headers of sent packets up to UDP */
};

struct xd_socket {
	const struct xd_socket_ops *ops;
	int fd; /* becomes readable when there is something to receive */
};

static inline void xd_socket_close(struct xd_socket *s) /* NULL allowed */
{
	if (s)
		s->ops->close(s);
}

/*
 * Receives up to max packets, at most XD_BATCH, with their metadata. The frames are valid until
 * xd_socket_recv_done(), which must follow each call that returned more than 0.
 */
static inline unsigned int xd_socket_recv(struct xd_socket *s, struct xt_frame *frames,
					  unsigned int max, uint64_t now)
{
	return s->ops->recv(s, frames, max, now);
}

static inline void xd_socket_recv_done(struct xd_socket *s)
{
	s->ops->recv_done(s);
}

/* Returns true if there is something to receive. */
static inline bool xd_socket_pending(struct xd_socket *s)
{
	return s->ops->pending(s);
}

/*
 * Takes buffers for a packet of len bytes, whose payload starts at frame->meta.payload_off. Returns
 * false if none are free. Then put or cancel it.
 */
static inline bool xd_socket_tx_get(struct xd_socket *s, uint32_t len, struct xt_frame *frame)
{
	return s->ops->tx_get(s, len, frame);
}

static inline void xd_socket_tx_put(struct xd_socket *s, const struct xt_frame *frame)
{
	s->ops->tx_put(s, frame);
}

static inline void xd_socket_tx_cancel(struct xd_socket *s, const struct xt_frame *frame)
{
	s->ops->tx_cancel(s, frame);
}

/*
 * Sends the packets put since the last call. more: it is called again at once, so packets that
 * could be joined with those of that time may wait.
 */
static inline void xd_socket_tx_flush(struct xd_socket *s, bool more)
{
	s->ops->tx_flush(s, more);
}

/* Returns true if the kernel has not taken all packets yet: flush again soon. */
static inline bool xd_socket_tx_pending(const struct xd_socket *s)
{
	return s->ops->tx_pending(s);
}

/* Returns true if the last flush moved nothing, although there were packets. */
static inline bool xd_socket_tx_stalled(const struct xd_socket *s)
{
	return s->ops->tx_stalled(s);
}

/* Returns true if packets of a flow leave joined; once that failed, they do not. Any thread. */
static inline bool xd_socket_sends_gso(const struct xd_socket *s)
{
	return s->ops->sends_gso(s);
}

/*
 * Returns true if the kernel writes Ethernet, IP and UDP headers of sent packets, and reads from
 * those of the frame only where it goes.
 */
static inline bool xd_socket_kernel_headers(const struct xd_socket *s)
{
	return s->ops->kernel_headers;
}

/* Any thread. */
static inline void xd_socket_stats(const struct xd_socket *s, struct xd_socket_stats *stats)
{
	s->ops->stats(s, stats);
}

/* ---- slots: sockets for programs -------------------------------------------------------- */

/* Most slots of a device */
#define XD_MAX_SLOTS 64

/* A slot that is lent. The descriptors but fd belong to the caller. */
struct xd_loan {
	uint32_t slot;
	uint32_t qpn_modulus, qpn_rest; /* of the QPNs whose packets arrive there */
	int fd;				/* receives; stays open until the device is freed */
	bool ipv6, segments;
	uint32_t receive_buffer; /* bytes */
	uint32_t ports;
	int send_fd[XR_LEND_PORTS];
	uint16_t port[XR_LEND_PORTS]; /* host order */
	int epoll;		      /* readable if fd is; -1: not for a ring */
};

struct xd_slots_state {
	uint32_t total, lent, retired;
	bool checked; /* the kernel checks their packets, by what the programs publish */
};

/* Returns true if packets to a QPN go to a slot while it is lent, and its number. */
static inline bool xd_slot_of_qpn(const struct xd_slots_state *state, uint32_t qpn, uint32_t *slot)
{
	if (!state->total || qpn == XR_GSI_QPN || !(qpn & 1))
		return false;
	*slot = (qpn >> 1) % state->total;
	return true;
}

/* ---- the way of a device -------------------------------------------------------------------- */

/* The RX queues of a worker: the number of the first, and how far each is behind the last */
struct xd_queues {
	uint32_t first, step, count;
};

struct xd_io_ops {
	const char *name; /* as in --io */
	unsigned int (*workers)(const struct xd_io *io);
	struct xd_queues (*queues)(const struct xd_io *io, uint32_t worker);
	int (*open)(struct xd_io *io, uint32_t worker, const struct xt_receivers *receivers,
		    struct xd_socket **socket);
	void (*tune)(const struct xd_io *io, uint32_t worker, const struct xd_socket *socket,
		     struct xt_tuning *t);
	int (*attach)(struct xd_io *io, struct xd_workers *workers);
	bool (*is_attached)(const struct xd_io *io);
	void (*address_changed)(struct xd_io *io, const struct xr_addr *addr, bool added);
	int (*give_pins)(struct xd_io *io);
	void (*detach)(struct xd_io *io);
	void (*free)(struct xd_io *io);
	uint32_t (*max_mtu)(const struct xd_io *io);
	bool (*solicit)(struct xd_io *io, int family, const uint8_t *addr);
	bool (*sends_to)(const struct xd_io *io, const struct xr_addr *group);
	/* All NULL: there are no slots. */
	void (*slots)(const struct xd_io *io, struct xd_slots_state *state);
	int (*lend)(struct xd_io *io, bool ring, struct xd_loan *loan);
	void (*end_loan)(struct xd_io *io, uint32_t slot);
	void (*clean_slot)(struct xd_io *io, uint32_t slot);
	void (*receive_groups)(struct xd_io *io, uint32_t slot, bool on);
	int (*publish)(struct xd_io *io, uint32_t slot, enum xr_publish_kind kind, uint32_t number,
		       const void *entry);
	int (*publish_more)(struct xd_io *io, uint32_t slot, uint32_t flags);
	const char *(*mode)(const struct xd_io *io);
	void (*show)(const struct xd_io *io, struct json *j);
	void (*log_hints)(const struct xd_io *io);
};

struct xd_io {
	const struct xd_io_ops *ops;
	struct xd_tables *tables;
};

/* Returns how many workers the device has: 1..XR_MAX_WORKERS. */
static inline unsigned int xd_io_workers(const struct xd_io *io)
{
	return io->ops->workers(io);
}

/* Returns the RX queues that a worker serves; none if it does not choose them. */
static inline struct xd_queues xd_io_queues(const struct xd_io *io, uint32_t worker)
{
	return io->ops->queues ? io->ops->queues(io, worker) : (struct xd_queues){ 0 };
}

/* Opens a worker's socket. receivers: the QPs that will receive. Logs errors. */
static inline int xd_io_open(struct xd_io *io, uint32_t worker,
			     const struct xt_receivers *receivers, struct xd_socket **socket)
{
	return io->ops->open(io, worker, receivers, socket);
}

/*
 * Adapts the settings of a worker's engine to its socket: what this host and its peers can hold,
 * and how packets are steered to the socket.
 */
static inline void xd_io_tune(const struct xd_io *io, uint32_t worker,
			      const struct xd_socket *socket, struct xt_tuning *t)
{
	io->ops->tune(io, worker, socket, t);
}

/* Packets arrive from now on. All sockets are open. Logs errors. */
static inline int xd_io_attach(struct xd_io *io, struct xd_workers *workers)
{
	return io->ops->attach(io, workers);
}

/* Returns false if somebody else has taken away what makes packets arrive. */
static inline bool xd_io_is_attached(const struct xd_io *io)
{
	return io->ops->is_attached(io);
}

/*
 * The interface has got an address, or has lost it. Packets to a new one arrive afterwards, or a
 * warning is logged. Pauses each worker. Does nothing before xd_io_attach(), which finds the
 * addresses itself.
 */
static inline void xd_io_address_changed(struct xd_io *io, const struct xr_addr *addr, bool added)
{
	if (io->ops->address_changed)
		io->ops->address_changed(io, addr, added);
}

/*
 * Returns a locked directory of files that show the tables, which the caller has to close, and
 * whose files it has to remove from now on; -1: there are none.
 */
static inline int xd_io_give_pins(struct xd_io *io)
{
	return io->ops->give_pins(io);
}

/* No packets arrive any more. The tables stay usable. */
static inline void xd_io_detach(struct xd_io *io)
{
	io->ops->detach(io);
}

static inline void xd_io_free(struct xd_io *io) /* NULL allowed */
{
	if (io)
		io->ops->free(io);
}

/* Returns the largest path MTU. */
static inline uint32_t xd_io_max_mtu(const struct xd_io *io)
{
	return io->ops->max_mtu(io);
}

/*
 * Makes the kernel resolve a neighbour, by a packet to it. Returns false if this way cannot. addr:
 * 4 or 16 bytes
 */
static inline bool xd_io_solicit(struct xd_io *io, int family, const uint8_t *addr)
{
	return io->ops->solicit && io->ops->solicit(io, family, addr);
}

/* Returns true if datagrams to a multicast group reach other hosts. */
static inline bool xd_io_sends_to(const struct xd_io *io, const struct xr_addr *group)
{
	return !io->ops->sends_to || io->ops->sends_to(io, group);
}

/* Reads how many slots there are. */
static inline void xd_io_slots(const struct xd_io *io, struct xd_slots_state *state)
{
	*state = (struct xd_slots_state){ 0 };
	if (io->ops->slots)
		io->ops->slots(io, state);
}

/*
 * Lends a slot. ring: the program gets no sockets, but the use of them (xd_helper_ring()). Such a
 * slot has never been lent otherwise: the one who has had a socket may still have it. -EOPNOTSUPP:
 * there are none; -EBUSY: none is free.
 */
static inline int xd_io_lend(struct xd_io *io, bool ring, struct xd_loan *loan)
{
	return io->ops->lend ? io->ops->lend(io, ring, loan) : -EOPNOTSUPP;
}

/* A slot that is lent for a ring gets datagrams of all multicast groups of the host, or none. */
static inline void xd_io_receive_groups(struct xd_io *io, uint32_t slot, bool on)
{
	io->ops->receive_groups(io, slot, on);
}

/*
 * Sets the entry of a QP of the slot, or of a key, in the tables by which the kernel checks its
 * packets, if there are such (struct xd_slots_state). number: QPN or index of the key. entry:
 * struct xr_qp_entry or struct xr_key_entry; NULL: deletes it, if there is one
 */
static inline int xd_io_publish(struct xd_io *io, uint32_t slot, enum xr_publish_kind kind,
				uint32_t number, const void *entry)
{
	return io->ops->publish(io, slot, kind, number, entry);
}

/* flags: XR_SLOT_*, until the next call */
static inline int xd_io_publish_more(struct xd_io *io, uint32_t slot, uint32_t flags)
{
	return io->ops->publish_more(io, slot, flags);
}

/* No packets arrive at the slot any more. Then clean it. */
static inline void xd_io_end_loan(struct xd_io *io, uint32_t slot)
{
	io->ops->end_loan(io, slot);
}

/*
 * Removes what the borrower has left in the slot, so that it can be lent again. In a job: takes
 * time.
 */
static inline void xd_io_clean_slot(struct xd_io *io, uint32_t slot)
{
	io->ops->clean_slot(io, slot);
}

/* Returns the mode of operation as text. */
static inline const char *xd_io_mode(const struct xd_io *io)
{
	return io->ops->mode(io);
}

/* Adds the members of `xroce status` that describe this way. */
static inline void xd_io_show(const struct xd_io *io, struct json *j)
{
	io->ops->show(io, j);
}

/* Logs what makes this way slow, or keeps it from working in part. */
static inline void xd_io_log_hints(const struct xd_io *io)
{
	io->ops->log_hints(io);
}

#endif /* XD_IO_H */
