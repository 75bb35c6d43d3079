/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the CM engine. The files of the engine:
 *
 *   mad.c         messages to and from MADs
 *   table.c       hash tables
 *   id.c          ids: creation, lookup, half-open ids of each peer
 *   send.c        messages of ids and their retries; responses without an id
 *   end.c         states after a connection: TIMEWAIT, ids that only repeat a response
 *   reject.c      REJ
 *   disconnect.c  DREQ and DREP
 *   mra.c         MRA
 *   active.c      REQ sent, REP received
 *   passive.c     REQ received, REP sent
 *   sidr.c        SIDR_REQ and SIDR_REP
 *   destroy.c     ids that are given up
 *   names.c       names of messages, states and reasons
 *   cm.c          received MADs, expired timers
 */
#ifndef XC_ENGINE_H
#define XC_ENGINE_H

#include "cm.h"
#include "daemon/transport/base/list.h"
#include "table.h"
#include "daemon/base/heap.h"

/* Of responses. The hop limit of a received MAD was decremented by routers. */
#define XC_HOP_LIMIT 64

struct xc_cm {
	struct xc_config config;
	const struct xc_ops *ops;
	void *ctx;
	uint64_t seed; /* of hashes */
	struct xt_list ids;
	struct xc_table by_local;  /* ids, by communication ID */
	struct xc_table by_remote; /* ids, by GID, GUID and communication ID of the peer */
	struct xc_table by_qpn;	   /* connections, by GID, GUID and QPN of the peer */
	struct xc_table sources;   /* peers with half-open ids, by GID */
	struct xt_list answered;   /* see end.c; the oldest one first */
	uint32_t answered_count;
	struct xd_heap timers;
	struct xc_counters counters;
	struct xc_gauges gauges;
};

/* A peer with half-open ids */
struct xc_source {
	struct xc_node node;
	struct xr_addr gid;
	uint32_t half_open;
};

struct xc_id {
	struct xc_info info;
	struct xc_cm *cm;
	struct xt_list all;	 /* in xc_cm.ids */
	struct xt_list answered; /* in xc_cm.answered */
	struct xc_node by_local, by_remote, by_qpn;
	struct xc_source *source; /* NULL: not half-open, or active */
	struct xd_heap_node timer;
	uint64_t own_tid;     /* of REQ, DREQ and SIDR_REQ that are sent */
	uint64_t tid;	      /* of the current exchange */
	uint64_t timeout;     /* ns until the next retry */
	uint64_t timewait;    /* ns */
	uint64_t hold;	      /* ns in which the peer may send a duplicate after the end */
	uint8_t max_retries;  /* of each message */
	uint8_t retries_left; /* of the last message */
	bool repeats;	      /* the exchange ended; sent[] is the response to each duplicate */
	bool lingers;	      /* rejected after a REP, see reject.c */
	bool peer_connected;  /* see struct xc_ops, which has given the number */
	uint32_t peer_number;
	void *payer; /* see xc_destroy_for(); NULL: none */
	enum xc_kind sent_kind;
	uint8_t sent[XC_MAD_LEN]; /* the last message with the states of the id, to be repeated */
};

_Static_assert(sizeof(struct xc_id) <= XC_ID_BYTES, "XC_ID_BYTES");

static inline uint64_t xc_now(const struct xc_cm *cm)
{
	return cm->ops->now(cm->ctx);
}

/* The QP of such an id may outlive it. */
static inline bool xc_is_xrc_target(const struct xc_id *id)
{
	return id->info.transport == XC_XRC && !id->info.active;
}

/* ns of a timeout code (IBTA 12.7) */
static inline uint64_t xc_timeout_ns(uint8_t code)
{
	return 4096ull << code;
}

#endif /* XC_ENGINE_H */
