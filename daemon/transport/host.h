/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an engine needs of its host: a worker of the daemon, a program with a direct context, a
 * simulation or a test. The host passes frames to the engine and gets frames from it, calls it when
 * there is work (transport.h), and provides memory (memory/memory.h) and the functions below.
 */
#ifndef XT_HOST_H
#define XT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/opcode.h>
#include <xroce/tables.h>
#include <xroce/wire.h>

#include "daemon/transport/memory/keys.h"

struct xt_engine;
struct xt_qp;
struct xt_cq;
struct xt_srq;
struct xt_path;

/* ---- frames ------------------------------------------------------------------ */

#define XT_MAX_SEGS 4
/* Ethernet, two VLAN tags, IPv6, UDP, BTH and the longest extended headers */
#define XT_MAX_HEADERS (14 + 8 + 40 + 8 + 12 + 28 + 16)
#define XT_MAX_FRAME (XT_MAX_HEADERS + 4096 + 3 + XR_ICRC_LEN)
/* Packets of a large frame, at most: with 4096 bytes each, it fits a UDP datagram. */
#define XT_LARGE_PACKETS 15

struct xt_seg {
	uint8_t *data;
	uint32_t len;
};

/*
 * An error that a test injects into the QP of a packet: as if the responder had found it in that
 * request, or the device at that moment.
 */
enum xt_inject_kind {
	XT_INJECT_NONE,
	/* of a received request, which is not executed: */
	XT_INJECT_ASK, /* as xt_ops.refusal() says; value: for the host */
	XT_INJECT_NAK, /* value: enum xr_nak */
	XT_INJECT_RNR, /* value: code of the timer, 32: that of the QP */
	/* of the QP: */
	XT_INJECT_ERROR, /* value: enum ibv_wc_status of the oldest send WR, or 0 */
	XT_INJECT_CQ,	 /* received packet: the CQ of receives fails, else that of send WRs */
	XT_INJECT_EVENT, /* value: enum ibv_event_type of a QP, a CQ (as above) or an SRQ */
};
#define XT_INJECT_OWN_TIMER 32

struct xt_inject {
	uint8_t kind;
	uint8_t value;
};

/* One frame, from the Ethernet header to the ICRC, in one or more segments */
struct xt_frame {
	struct xt_seg seg[XT_MAX_SEGS];
	uint32_t nseg;
	uint32_t len;
	/*
	 * Received frames: as written by the XDP program. Frames to be sent: offsets of the
	 * headers, and the QPN of the QP that sends.
	 */
	struct xr_meta meta;
	/*
	 * Frames to be sent: the identification of the IPv4 header. It counts the packets of the QP
	 * unless tx_get() replaces it.
	 */
	uint16_t ip_id;
	/*
	 * Received frames: the identification in the IPv4 header is a guess, as a UDP socket does
	 * not tell it. The engine corrects it if the ICRC says what it was.
	 */
	bool guessed_id;
	/*
	 * Received frames: the ICRC was not computed, as the packet came through memory of this
	 * host. Frames to be sent: tx_get() has left the payload to the host, see below.
	 */
	bool unsealed;
	/*
	 * More than one: a large frame, which stands for so many packets of a reliable QP, with one
	 * path MTU of payload each: a FIRST or MIDDLE packet, whose headers it has, and the MIDDLE
	 * packets behind it. It never leaves the host, and is unsealed.
	 */
	uint8_t packets;
	uint8_t queue;		  /* of received frames: where they arrived; for the host */
	bool forwarded;		  /* from xt_ops.forward: must not be forwarded again */
	bool self;		  /* to or from a QP of this device, see struct xt_path */
	struct xt_inject inject;  /* of received frames: an error of the QP */
	struct xt_inject refusal; /* of received requests */
	/*
	 * Frames to be sent: the payload, in memory that keeps it until the peer has acknowledged
	 * the packet, or until a key or QP changes. n_payload 0: there is none, or it does not stay
	 * there. tx_get() may set `unsealed` then, with one segment: the engine copies no payload,
	 * but leaves room for it, and the host calls xt_frame_complete() before anybody
	 * needs it, or the ICRC, in the frame.
	 */
	const struct xt_seg *payload;
	uint32_t n_payload;
	uint64_t cookie; /* for the host */
};

/*
 * Copies the payload of a frame to be sent that is unsealed into its segments, and computes the
 * ICRC: a wrong one if a page of the payload is absent. Returns false then.
 */
bool xt_frame_complete(struct xt_frame *frame);

/* ---- what the host does for the engine ------------------------------------------------------- */

struct xt_ops {
	/*
	 * Allocates a frame of len bytes: fills frame->seg; the first segment has room for all
	 * headers. frame->meta.payload_off is set, so that the payload can be aligned. Returns
	 * false if there is no room; the engine tries again in the next xt_engine_run(). tx_put
	 * sends the frame and follows each tx_get.
	 */
	bool (*tx_get)(void *ctx, uint32_t len, struct xt_frame *frame);
	void (*tx_put)(void *ctx, struct xt_frame *frame);
	/* Sends what was put at once, instead of together with later frames. May be NULL. */
	void (*tx_push)(void *ctx);
	/*
	 * Returns how many packets a large frame to this QPN at the end of a path may have now, at
	 * most @want; 1: none can be sent there, 0: later, as the peer has no room. May be NULL.
	 */
	uint32_t (*large_packets)(void *ctx, const struct xt_path *path, uint32_t dqpn,
				  uint32_t want);
	/*
	 * Sends a large frame behind all that was put: one segment with the headers, and the
	 * payload, which is copied now. Returns false if it was not sent.
	 */
	bool (*send_large)(void *ctx, const struct xt_frame *frame);

	/*
	 * A packet that would have been sent if the peer were not a QP of this device. May be NULL;
	 * not called without xt_engine_show(). The segments can have fewer bytes than frame->len.
	 */
	void (*show)(void *ctx, const struct xt_frame *frame);
	/* A completion was added to an armed CQ. */
	void (*cq_event)(void *ctx, struct xt_cq *cq);
	/* Asynchronous event of a QP or of a CQ, the other one NULL. type: enum ibv_event_type */
	void (*async_event)(void *ctx, struct xt_qp *qp, struct xt_cq *cq, uint32_t type);
	/* Asynchronous event of an SRQ. May be NULL if there are no SRQs. */
	void (*srq_event)(void *ctx, struct xt_srq *srq, uint32_t type);
	/* The engine moved a QP to ERR or SQE: mirror the state. */
	void (*qp_state)(void *ctx, struct xt_qp *qp);
	/*
	 * Copies a received frame whose QP, or a member of whose multicast group, belongs to
	 * another engine. That engine's worker passes it to xt_engine_rx(), marked as forwarded.
	 * Returns false if the frame is lost. May be NULL if there is one engine.
	 */
	bool (*forward)(void *ctx, struct xt_engine *other, const struct xt_frame *frame);
	/*
	 * Returns the NAK or RNR NAK that a test injects for a request with XT_INJECT_ASK. Called
	 * once, when the request would be executed: never for a duplicate, which has no NAK. May be
	 * NULL if there are no such requests.
	 */
	struct xt_inject (*refusal)(void *ctx, const struct xt_frame *frame);
	/*
	 * Locks another engine for loopback. Returns false if it is busy: the caller tries again in
	 * the next run. May be NULL if there is one engine.
	 */
	bool (*engine_lock)(void *ctx, struct xt_engine *other);
	void (*engine_unlock)(void *ctx, struct xt_engine *other);
	/*
	 * An engine, perhaps another one, has work now: wake its worker. May be NULL if the
	 * host runs engines anyway.
	 */
	void (*wake)(void *ctx, struct xt_engine *other);
	/* The engine changed the state or rights of a key: mirror them. May be NULL. */
	void (*key_changed)(void *ctx, const struct xt_key *key);
	/*
	 * Waits until no other engine uses a key that it looked up before. Called in a round, while
	 * this engine uses none. May be NULL if there is one engine.
	 */
	void (*quiesce_keys)(void *ctx);
};

#endif /* XT_HOST_H */
