/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker's UDP sockets, for the files of this folder: sockets.c opens them, udp_socket.c,
 * receive.c and send.c implement struct xd_socket_ops, udp_io.c makes them the way of a device,
 * addresses.c opens and closes those of addresses. The direct host (provider/host/) uses calls.c,
 * udp_socket.c, receive.c and send.c.
 *
 * All sockets are of family AF_INET6 and carry IPv4 as well, unless the kernel has no IPv6. None is
 * connected: an unconnected socket that forbids fragmentation sends the IPv4 identification 0, and
 * 0, 1, 2, ... in the segments of one call, so the ICRC, which covers it, can be computed before
 * the kernel makes the header.
 */
#ifndef XD_UDP_H
#define XD_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <xroce/control.h>

#include "daemon/io/io.h"
#include "calls.h"

/*
 * A worker sends from several ports, and each QP from one of them, so that switches and receive
 * queues spread the QPs. GRO joins packets from one port. Each can cost a system call in a round.
 */
#define XD_UDP_PORTS 8

/* Messages that are received at once */
#define XD_UDP_RX_MESSAGES 16
/* The longest datagram */
#define XD_UDP_RX_BUFFER 65536
/* TTL and hop limit of packets, unless a QP has another one */
#define XD_UDP_TTL 64
/* Packets of one message: UDP_MAX_SEGMENTS of Linux before 6.9 */
#define XD_UDP_SEGMENTS 64
/* Packets that can wait to be sent, and the messages that they form */
#define XD_UDP_TX_FRAMES 512
#define XD_UDP_TX_MESSAGES 64

/* QPs about which something is remembered, as a power of 2 */
#define XD_UDP_QP_BITS 12

/* Room for IP_PKTINFO, IPV6_PKTINFO, TOS or traffic class, TTL or hop limit, segment size */
#define XD_UDP_CONTROL                                                                             \
	(CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(struct in6_pktinfo)) +          \
	 3 * CMSG_SPACE(sizeof(int)))

/* Pieces of a payload that stays in the memory of the program until the message is sent */
#define XD_UDP_PIECES 2

/* Ethernet, IPv6 and UDP headers, which the kernel removes, are written again for each packet. */
#define XD_UDP_NETWORK (14 + 40 + 8)

struct xd_udp_headers {
	uint8_t bytes[XT_MAX_HEADERS];
	uint8_t icrc[XR_ICRC_LEN]; /* of a packet of a large frame */
};

/* What the headers of a message say that its packets share */
struct xd_udp_about {
	struct xr_addr src, dst;
	uint16_t sport; /* host order */
	uint8_t traffic_class, ttl;
	bool unsealed; /* the packets have no ICRC, see struct xt_frame */
	uint32_t size; /* of the packets in it but the last; 0: it is one packet */
	/* More than one: a large frame of so many, each with `size` bytes of payload */
	uint32_t packets;
};

/*
 * A way for messages beside the kernel's sockets, between engines of one host: see
 * provider/host/peers.c and inbox.c. Calls of one struct xd_udp do not overlap.
 */
struct xd_udp_nearby {
	/* Returns the number of the peer that has a QPN at an address, 0..63; -1: none */
	int (*peer)(struct xd_udp_nearby *n, const struct xr_addr *dst, uint32_t qpn);
	/*
	 * Sends a message to it; a page of it may be absent, if it is unsealed. -EAGAIN:
	 * there is no room yet; -EPIPE: it is to be sent by the sockets.
	 */
	int (*send)(struct xd_udp_nearby *n, int peer, const struct xd_udp_about *about,
		    const struct iovec *iov, uint32_t iovs, uint32_t len);
	/*
	 * Returns true if there is room for a message of so many bytes. If not, *closed becomes
	 * true if send() would leave it to the sockets, false if it would return -EAGAIN.
	 */
	bool (*has_room)(struct xd_udp_nearby *n, int peer, uint32_t len, bool *closed);
	/*
	 * Receives up to max messages, which stay where they are until the next call. Returns how
	 * many. If the next one follows others that were sent to the socket, it is left out, unless
	 * the socket was found empty now, and *behind becomes true.
	 */
	uint32_t (*receive)(struct xd_udp_nearby *n, bool emptied, struct xd_udp_about *about,
			    struct iovec *data, uint32_t max, bool *behind);
	/* Returns true if there is more to receive. */
	bool (*pending)(const struct xd_udp_nearby *n);
	bool open;  /* peers can send; else what they have sent precedes what the socket has */
	bool peers; /* there is one to which this engine can send */
};

/* Received messages, which are taken apart into packets */
struct xd_udp_rx {
	uint8_t queue; /* number of the worker, for its packets */
	uint8_t *area; /* a buffer for each message */
	struct mmsghdr msg[XD_UDP_RX_MESSAGES];
	struct iovec iov[XD_UDP_RX_MESSAGES];
	struct sockaddr_in6 from[XD_UDP_RX_MESSAGES];
	uint8_t control[XD_UDP_RX_MESSAGES][XD_UDP_CONTROL] __attribute__((aligned(8)));
	uint32_t count, at;   /* messages, and the one that is taken apart now */
	uint32_t from_kernel; /* messages that it gave last */
	bool nearby;	      /* they are those of near_*, not of the kernel */
	bool near_behind;     /* the next of them follows others that the socket has */
	uint32_t near_waits;  /* calls of the kernel until it has given these at the latest */
	uint32_t near_turns;  /* calls in which they were, since the kernel was asked */
	struct xd_udp_about near_about[XD_UDP_RX_MESSAGES];
	struct iovec near_data[XD_UDP_RX_MESSAGES];
	bool begun;		       /* it is being taken apart */
	bool joined;		       /* it has several packets */
	bool ack_first;		       /* the last one comes first */
	uint8_t *data;		       /* of the message that is taken apart */
	uint32_t len;		       /* of it */
	uint32_t off;		       /* of the next packet in it */
	uint32_t index;		       /* of this packet in it */
	uint32_t size;		       /* bytes of each packet in it but the last */
	bool unsealed;		       /* see struct xd_udp_about */
	uint32_t packets, payload;     /* more than one: in a large frame, with this payload each */
	uint32_t head;		       /* bytes in front of the payload of a large frame */
	bool split;		       /* its packets are passed on one by one */
	struct xr_bth bth;	       /* of its first packet */
	struct xd_udp_headers network; /* of the message: Ethernet, IP and UDP headers */
	uint32_t network_len, ip_off;
	uint16_t sport;				 /* of the message, host order */
	struct xd_udp_headers headers[XD_BATCH]; /* of the packets that were passed on */
};

struct xd_udp_message {
	uint32_t first, last; /* frames, linked by next */
	uint32_t count;
	uint32_t size;	    /* bytes behind the UDP header of each frame but the last */
	uint32_t total;	    /* of all frames */
	uint32_t port;	    /* index of the port that it leaves from */
	uint16_t peer_port; /* of struct xd_udp_qp; 0: it has packets of one QP */
	bool acks;	    /* all its packets are ACKs */
	bool ended;	    /* the last frame is shorter */
	bool is_sent;
	bool waits; /* until an engine of this host has room for it */
};

struct xd_udp_frame {
	uint8_t *data;
	uint32_t len;
	uint32_t next; /* in the same message */
	struct xr_meta meta;
	uint32_t pieces; /* of the payload, which is not in `data` yet; 0: the frame is complete */
	struct xt_seg piece[XD_UDP_PIECES];
};

/*
 * A QP that sends. All packets from one port of a peer are those of one socket, which receives for
 * the same QPs.
 */
struct xd_udp_qp {
	uint32_t qpn;
	uint32_t dqpn, address; /* to which it sends: the last bytes of the address */
	uint16_t peer_port;	/* source port of what it has received from there; 0: nothing yet */
	bool nearby;		/* its last message went to an engine of this host */
	uint8_t last;		/* index + 1 of its last message, if `flush` is the current one */
	uint32_t flush;
};

/* What a message of the kernel refers to */
struct xd_udp_parts {
	struct sockaddr_in6 to; /* or struct sockaddr_in */
	uint8_t control[XD_UDP_CONTROL] __attribute__((aligned(8)));
};

/* Messages for one system call */
struct xd_udp_batch {
	struct mmsghdr msg[XD_UDP_TX_MESSAGES];
	struct xd_udp_parts parts[XD_UDP_TX_MESSAGES];
	uint32_t index[XD_UDP_TX_MESSAGES]; /* of the message in xd_udp_tx.message[] */
	struct iovec iov[XD_UDP_TX_FRAMES];
	uint32_t count, iovs;
};

/* Packets that wait to be sent */
struct xd_udp_tx {
	uint8_t *area; /* a buffer for each frame */
	int fd[XD_UDP_PORTS];
	uint16_t port[XD_UDP_PORTS]; /* host order */
	uint32_t frames;	     /* in use, the first ones */
	uint32_t messages;	     /* with frames, in the order of their first frames */
	uint32_t left;		     /* packets that the last flush left in the last message */
	uint32_t unsent;	     /* messages that were not sent yet */
	bool stalled;		     /* the kernel took none in the last flush */
	bool joins;		     /* the kernel segments; atomic */
	struct xd_udp_frame frame[XD_UDP_TX_FRAMES];
	struct xd_udp_message message[XD_UDP_TX_MESSAGES];
	struct xd_udp_qp qp[1 << XD_UDP_QP_BITS]; /* by a hash of the QPN: the one that sent last */
	uint32_t flush;				  /* counts those that have left no message */
	/* index + 1 of the newest message for several QPs; [1]: of ACKs, [0]: of others */
	uint8_t shared[2];
	bool incomplete; /* frames may have pieces */
	bool responses;	 /* messages may have responses other than ACKs */
	struct xd_udp_batch batch, single;
};

struct xd_udp {
	struct xd_socket socket;	  /* first; its fd is readable if one of rx_fd[] is */
	const struct xd_udp_calls *calls; /* NULL: system calls with descriptors */
	void *calls_arg;
	/*
	 * Changed by the control thread while it pauses the worker. Numbers of calls, if there are
	 * any; and so is tx.fd[]
	 */
	int rx_fd[XR_GID_TABLE_LEN];
	uint32_t rx_fds;
	uint64_t dropped_before; /* by the kernel, at those that were removed */
	uint32_t rx_turn;	 /* where receiving goes on */
	bool ipv6;		 /* the family is AF_INET6 */
	uint8_t mac[6];		 /* of the interface */
	struct xd_udp_rx rx;
	struct xd_udp_tx tx;
	struct xd_verdict *verdict;
	struct xd_udp_nearby *nearby; /* NULL: there is no other way than sockets */
	bool splits;		      /* large frames that are received, for captures and rules */
	struct xd_socket_stats stats;
	/*
	 * A bit for each UDP port: datagrams of this host to a group that come from it are dropped,
	 * as the engine has delivered them itself. NULL: there is none
	 */
	const uint64_t *delivered;
};

static inline struct xd_udp *xd_udp_of(struct xd_socket *s)
{
	return (struct xd_udp *)s;
}

static inline const struct xd_udp *xd_const_udp_of(const struct xd_socket *s)
{
	return (const struct xd_udp *)s;
}

/* Returns the place of a QP, which may have another one. */
static inline struct xd_udp_qp *xd_udp_qp_place(struct xd_udp *u, uint32_t qpn)
{
	return &u->tx.qp[qpn * 0x9e3779b1u >> (32 - XD_UDP_QP_BITS)];
}

/* Returns what is known of a QP, NULL if that is nothing. */
static inline struct xd_udp_qp *xd_udp_qp_of(struct xd_udp *u, uint32_t qpn)
{
	struct xd_udp_qp *qp = xd_udp_qp_place(u, qpn);

	return qp->qpn == qpn ? qp : NULL;
}

/* Packets that wait for xd_socket_tx_flush() */
static inline uint32_t xd_udp_queued(const struct xd_socket *s)
{
	return xd_const_udp_of(s)->tx.frames;
}

/* ---- udp_socket.c ---- */

/*
 * Returns one without descriptors, verdict and buffers, which the caller adds, or NULL.
 * xd_socket_close() closes and frees what it has. joins: the kernel segments
 */
struct xd_udp *xd_udp_new(bool ipv6, const uint8_t *mac, bool joins);
/* Takes rx_fd[index] away, and moves the last one there. Returns it, to be closed. */
int xd_udp_remove_rx(struct xd_udp *u, uint32_t index);

/* ---- sockets.c ---- */

/*
 * Bytes of received packets that the kernel keeps until the worker takes them, with its own memory
 * for each. Without CAP_NET_ADMIN net.core.rmem_max is the limit, 212 992 by default: 200 packets
 * in 100 000 are lost then while the worker has no processor, and sent again.
 */
#define XD_UDP_RECEIVE_BUFFER (8 << 20)

/* What a socket is bound to, besides the port */
struct xd_udp_place {
	const char *ifname;	    /* NULL: any interface */
	const struct xr_addr *addr; /* NULL: any address */
};

/*
 * Opens a socket that receives from port 4791. shared: several sockets of this user may have the
 * port at the same place. multicast: datagrams of all groups that the interface has joined arrive,
 * too. Returns a descriptor or a negative error.
 *
 * The kernel prefers a socket of an address to one of an interface, so both can exist beside each
 * other.
 */
int xd_udp_open_rx(bool ipv6, const struct xd_udp_place *place, bool shared, bool multicast);
/*
 * Returns -EADDRINUSE if another daemon or program has the port of an interface, or of an address
 * of it. Sockets that are shared would only fail if it is of another user. addr: NULL: any
 */
int xd_udp_check_port(bool ipv6, const char *ifname, const struct xr_addr *addr);
/* Returns who may have it, as a text to append to that of the error; "" for other errors. */
const char *xd_udp_who_has_port(int err);
/*
 * Opens a socket that only sends, from a port that the kernel selects. ifname: NULL: through any
 * interface
 */
int xd_udp_open_tx(bool ipv6, const char *ifname, uint16_t *port);
/* Returns true if sockets of family AF_INET6 exist. */
bool xd_udp_has_ipv6(void);
/*
 * Sends an empty datagram to the discard port of a neighbour, so that the kernel resolves its MAC
 * as for any packet. addr: 4 or 16 bytes
 */
void xd_udp_solicit(int fd, bool ipv6, unsigned int ifindex, int family, const uint8_t *addr);
/*
 * How packets are steered to the sockets of the group by their destination QPN. Sockets count in
 * the order in which they were opened.
 */
struct xd_udp_steering {
	uint32_t workers; /* whose sockets are the first ones; QP 1 and what is left: the first */
	/*
	 * Without slots, worker QPN % workers. With slots, even QPNs are those of the workers:
	 * worker (QPN >> 1) % workers. Odd ones are those of slot (QPN >> 1) % slots.
	 */
	uint32_t slots;
	/* Slots that are lent, and the indices of their sockets */
	uint32_t lent;
	uint32_t slot[XD_MAX_SLOTS], index[XD_MAX_SLOTS];
};
int xd_udp_steer(int fd, const struct xd_udp_steering *s);
/* Drops all packets but those to the QPNs of a slot, and of multicast. */
int xd_udp_keep_slot(int fd, uint32_t slots, uint32_t slot);
/* Makes the filter of a socket one that cannot be removed. */
int xd_udp_lock_filter(int fd);
/*
 * Sets all options of a socket that receives which a borrower may have changed, as
 * xd_udp_open_rx() with shared does. receive_buffer: the size that it had then. A buffer that the
 * borrower has shrunk stays smaller if that size takes a privilege.
 */
int xd_udp_reset_rx(int fd, bool ipv6, uint32_t receive_buffer);

/* Makes datagrams arrive of all multicast groups that the interface has joined, or of none. */
void xd_udp_receive_groups(int fd, bool ipv6, bool on);

/* Returns the size of the receive buffer in bytes, as the kernel counts them. */
uint32_t xd_udp_receive_buffer(int fd);
/* Returns that of a socket that is opened now. */
uint32_t xd_udp_usual_receive_buffer(bool ipv6);

/* ---- receive.c ---- */

int xd_udp_rx_init(struct xd_udp *u);
void xd_udp_rx_free(struct xd_udp *u);
unsigned int xd_udp_recv(struct xd_socket *s, struct xt_frame *frames, unsigned int max,
			 uint64_t now);
void xd_udp_recv_done(struct xd_socket *s);
bool xd_udp_rx_pending(struct xd_socket *s);

/* ---- send.c ---- */

int xd_udp_tx_init(struct xd_udp *u);
void xd_udp_tx_free(struct xd_udp *u);
bool xd_udp_tx_get(struct xd_socket *s, uint32_t len, struct xt_frame *frame);
/*
 * Copies all payload that is still in the memory of the program: before that may change, which is
 * before the engine changes a key or a QP, or a program destroys one.
 */
void xd_udp_complete(struct xd_udp *u);
void xd_udp_tx_put(struct xd_socket *s, const struct xt_frame *frame);
void xd_udp_tx_cancel(struct xd_socket *s, const struct xt_frame *frame);
/* As xt_ops.large_packets() and send_large() */
uint32_t xd_udp_large_packets(struct xd_socket *s, const struct xt_path *path, uint32_t dqpn,
			      uint32_t want);
bool xd_udp_send_large(struct xd_socket *s, const struct xt_frame *frame);
void xd_udp_tx_flush(struct xd_socket *s, bool more);

#endif /* XD_UDP_H */
