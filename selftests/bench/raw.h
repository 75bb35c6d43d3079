/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A bare AF_XDP socket in copy mode on queue 0 of an interface in a network namespace. XDP is in
 * native mode, which veth supports, unless said otherwise. Errors end the process.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <xdp/xsk.h>

/* Linux 6.6; the headers of some supported distributions are older. */
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

#define RAW_CHUNK 4096
#define RAW_HEADER 14

/* The Ethernet header of all frames; raw_receive() takes frames with these addresses only. */
extern const uint8_t raw_header[RAW_HEADER];

/* Shared by the processes of a measurement */
struct raw_control {
	int ready; /* number of sides that are set up */
	bool over;
};

struct raw_side {
	struct xsk_umem *umem;
	struct xsk_socket *xsk;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons comp, rx;
	uint8_t *area;
	int fd;
	uint32_t ring; /* chunks [0, ring) are for sending, as many for receiving */
	uint32_t tx_free;
	uint32_t tx_next;
	bool inside;  /* the next chunk received continues a frame */
	bool foreign; /* which is of another program */
};

__attribute__((noreturn)) void raw_die(const char *what, int err);
/* Pins the process to the @nth of the allowed CPUs, if there are at least two. */
void raw_take_cpu(unsigned nth);

/* Creates a socket in the namespace, which the process enters. ring: descriptors, a power of two */
void raw_open_socket(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring);
/*
 * Attaches an XDP program until the process ends, with flags of if_link.h. The map xsks of the
 * program gets the socket.
 */
void raw_attach(const struct raw_side *s, const char *ifname, int prog, int xsks, uint32_t flags);
/* Both, with a program that passes all frames to the socket */
void raw_open(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring);
/* The same in generic mode */
void raw_open_generic(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring);
void raw_close(struct raw_side *s);

/* Takes back the chunks of frames that were sent. */
void raw_reap(struct raw_side *s);
/*
 * Queues up to @max frames, as many as there are free chunks, with an Ethernet header each, and
 * returns their number. fill: NULL, or writes the rest of a frame into its chunks.
 */
typedef void raw_fill_fn(void *arg, uint8_t *const *chunk);
uint32_t raw_send(struct raw_side *s, uint32_t size, uint32_t max, raw_fill_fn *fill, void *arg);
void raw_kick(struct raw_side *s);
/*
 * Receives all pending frames, returns their chunks to the fill ring and returns the number of
 * those that raw_send() sent. take: NULL, or called for each of their chunks before that; last: it
 * ends a frame.
 */
typedef void raw_take_fn(void *arg, const uint8_t *data, uint32_t len, bool last);
uint32_t raw_receive(struct raw_side *s, raw_take_fn *take, void *arg);

/* Waits until @sides processes are ready. Exits if @child, unless 0, ends. */
void raw_wait_for_peers(struct raw_control *m, int sides, pid_t child);
bool raw_running(const struct raw_control *m);
void raw_stop(struct raw_control *m);

#endif /* BENCH_RAW_H */
