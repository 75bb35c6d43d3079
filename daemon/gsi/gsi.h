/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * QP 1 of the daemon, the general services interface (IBTA 13.5): sends and receives MADs of the
 * communication management class, responds to requests of the performance management class (pma.h),
 * and passes MADs on to programs (daemon/umad). It is a UD QP of a transport engine like those of
 * clients, with its rings and buffers in the daemon's own memory and a flow of its own. Control
 * thread only.
 *
 * A worker places a received MAD into a free buffer and never waits. If no buffer is free, the MAD
 * is dropped, and counted as a datagram without a posted receive; its sender repeats it. The
 * control thread takes at most XD_GSI_BATCH MADs in one turn of its loop, and fewer if they take a
 * millisecond, so a flood of MADs does not keep it from other work.
 *
 * An operator's program may have QP 1 instead (xrocedv_create_gsi_qp), while the daemon's is not in
 * use: see xd_gsi_hold() and xd_gsi_lend().
 */
#ifndef XD_GSI_H
#define XD_GSI_H

#include <stdbool.h>
#include <stdint.h>

struct xc_path;
struct xd_gsi;
struct xd_loop;
struct xd_net;
struct xd_workers;
struct xd_tables;
struct xt_cq;
struct xt_path;

/* MADs that the control thread takes in one turn */
#define XD_GSI_BATCH 64
#define XD_GSI_FLUSH_MS 50

/* Requests of performance management per second that are responded to, and at once */
#define XD_GSI_PMA_RATE 200
#define XD_GSI_PMA_BURST 64

/*
 * Called for each MAD of the communication management class, within a turn of the loop. path->local
 * is the destination; mad has XC_MAD_LEN bytes.
 */
typedef void (*xd_gsi_received_fn)(void *ctx, const struct xc_path *path, const uint8_t *mad);

/*
 * Called for each other MAD that is no request of the performance management class. qpn: of the
 * sender. Returns false if no program gets it.
 */
typedef bool (*xd_gsi_others_fn)(void *ctx, const struct xc_path *path, uint32_t qpn,
				 const uint8_t *mad);

struct xd_gsi_config {
	struct xd_loop *loop;
	struct xd_net *net;
	struct xd_tables *tables;
	struct xd_workers *workers;
};

/* Creates QP 1. Call while the workers are not paused. */
int xd_gsi_new(const struct xd_gsi_config *config, struct xd_gsi **gsi);
void xd_gsi_free(struct xd_gsi *g); /* NULL allowed */

/* Without a receiver (fn NULL), MADs of communication management are dropped and counted. */
void xd_gsi_set_receiver(struct xd_gsi *g, xd_gsi_received_fn fn, void *ctx);
struct xt_counters;
/* Adds the counters of engines that are not in workers to those of the port. */
typedef void (*xd_gsi_counters_fn)(void *ctx, struct xt_counters *sum);
void xd_gsi_set_counters(struct xd_gsi *g, xd_gsi_counters_fn fn, void *ctx); /* NULL: none */
/* fn NULL: other MADs are dropped and counted. */
void xd_gsi_set_others(struct xd_gsi *g, xd_gsi_others_fn fn, void *ctx);

/*
 * Sends a MAD of XC_MAD_LEN bytes to QP 1 of path->peer, after its next hop was resolved. A MAD
 * that cannot be sent is lost and counted; CM repeats it. Returns 0, or an error that is known at
 * once: -EINVAL (path->local is no GID of the device), -EBUSY (a program has QP 1), -ENETUNREACH,
 * -ENOBUFS (too many MADs wait for their next hops or for the worker).
 */
int xd_gsi_send(struct xd_gsi *g, const struct xc_path *path, const uint8_t *mad);
/*
 * The same to any QP with the Q_Key of QP 1, and only if fewer than `waiting` MADs wait for their
 * next hops.
 */
int xd_gsi_send_to(struct xd_gsi *g, const struct xc_path *path, uint32_t qpn, uint32_t waiting,
		   const uint8_t *mad);
#define XD_GSI_WAITING_PROGRAMS 128 /* a program's MAD is refused if this many are waiting */

/*
 * The path that the last MAD to path->peer took, with the fields that *path sets. Returns false if
 * it is not known: none was sent, or MADs to other peers took its place.
 */
bool xd_gsi_last_path(struct xd_gsi *g, const struct xc_path *path, struct xt_path *last);
/* The same, only if MADs would take it now without looking for the next hop again */
bool xd_gsi_known_path(struct xd_gsi *g, const struct xc_path *path, struct xt_path *known);

/* Waits until the worker has sent the queued MADs, at most XD_GSI_FLUSH_MS. */
void xd_gsi_flush(struct xd_gsi *g);

/* To be called when addresses, routes or neighbours change: drops resolved next hops. */
void xd_gsi_net_changed(struct xd_gsi *g);

/*
 * QP 1 belongs to the daemon while it is held, once for each CM id, for example. xd_gsi_hold()
 * returns -EBUSY if a program has QP 1. xd_gsi_lend() destroys the daemon's QP so that a program
 * can create its own; it returns -EBUSY if QP 1 is held or lent already. xd_gsi_take_back() creates
 * the daemon's QP again after the program's was destroyed. g NULL: there is no QP to hold or lend,
 * and the functions succeed.
 */
int xd_gsi_hold(struct xd_gsi *g);
void xd_gsi_release(struct xd_gsi *g);
int xd_gsi_lend(struct xd_gsi *g);
void xd_gsi_take_back(struct xd_gsi *g);
bool xd_gsi_lent(const struct xd_gsi *g);

/* X(field, "text") */
#define XD_GSI_COUNTERS(X)                                                                         \
	X(mads_sent, "MADs sent")                                                                  \
	X(mads_received, "MADs received")                                                          \
	X(mads_refused, "received MADs that nobody expects or reads, or shorter than 256 bytes")   \
	X(pma_requests, "requests for port counters that were responded to")                       \
	X(pma_limited, "requests for port counters dropped because of the rate limit")             \
	X(mads_no_path, "MADs not sent because there was no way to the peer")                      \
	X(mads_no_room, "MADs not sent because too many were waiting")

struct xd_gsi_counters {
#define X(field, text) uint64_t field;
	XD_GSI_COUNTERS(X)
#undef X
};
const struct xd_gsi_counters *xd_gsi_counters(const struct xd_gsi *g);

/* Called by a worker: a completion was added to an armed CQ whose owner is NULL. */
void xd_gsi_cq_event(struct xt_cq *cq);

#endif /* XD_GSI_H */
