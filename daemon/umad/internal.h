/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the files of this folder. */
#ifndef XD_UMAD_INTERNAL_H
#define XD_UMAD_INTERNAL_H

#include <rdma/ib_user_mad.h>

#include "daemon/clients/request.h"
#include "daemon/cm/cm.h"
#include "umad.h"

/* Offsets in MADs (IBTA 13.4.3, 13.6.2.1, 16.5) */
#define UMAD_BASE_VERSION 0
#define UMAD_CLASS 1
#define UMAD_CLASS_VERSION 2
#define UMAD_METHOD 3
#define UMAD_TID 8
#define UMAD_MODIFIER 20
#define UMAD_RMPP_TYPE 25
#define UMAD_RMPP_FLAGS 26
#define UMAD_OUI 37
#define UMAD_HEADER_LEN 24

#define UMAD_CLASS_SUBNET 0x01
#define UMAD_CLASS_SA 0x03
#define UMAD_CLASS_PERFORMANCE 0x04
#define UMAD_CLASS_CM 0x07
#define UMAD_CLASS_DIRECTED 0x81

struct umad_packet {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[XC_MAD_LEN];
};
_Static_assert(sizeof(struct umad_packet) == XR_UMAD_LEN, "struct ib_user_mad");

struct umad_agent {
	bool used;
	struct xr_umad_register_req init;
	uint32_t tid; /* upper half of the transaction IDs of its requests */
};

/* A MAD that waits for its response */
struct umad_send {
	bool used;
	uint32_t retries; /* that are left */
	uint64_t deadline;
	struct xc_path path;
	struct umad_packet packet;
};

struct xd_umad {
	struct xd_umad *next, **pprev; /* of struct xd_objects */
	struct xd_client *client;
	struct xd_event_socket received;
	struct xd_timer *timer; /* for the first deadline */
	struct umad_agent agent[XR_UMAD_AGENTS];
	struct umad_send send[XR_UMAD_SENDS];
};

/* Classes that vendors define, whose MADs have an OUI */
static inline bool umad_is_vendor(uint8_t class)
{
	return class >= 0x30 && class <= 0x4f;
}

/* ---- agent.c -------------------------------------------------------------------- */

int umad_agent_new(struct xd_umad *u, const struct xr_umad_register_req *q, uint32_t *id);
void umad_agent_free(struct xd_umad *u, uint32_t id);
/* The receiver of QP 1, xd_gsi_others_fn. ctx: struct xd_objects */
bool umad_received(void *ctx, const struct xc_path *path, uint32_t qpn, const uint8_t *mad);

/* ---- send.c --------------------------------------------------------------------- */

/* Returns true for a response, which has the transaction ID of its request (IBTA 13.4.5). */
bool umad_is_response(const uint8_t *mad);
/* Returns true for classes whose MADs may be segmented (IBTA 13.6). */
bool umad_has_rmpp(uint8_t class);
/* Returns true for a MAD of RMPP: a segment of a longer one, its ACK, STOP or ABORT. */
bool umad_is_rmpp(const uint8_t *mad);
/* Returns true if the program segments the MADs of the agent; else the kernel would do that. */
bool umad_has_own_rmpp(const struct umad_agent *a);
int umad_send(struct xd_umad *u, struct umad_packet *p);
/* The callback of the timer; arg: struct xd_umad */
void umad_on_timer(void *arg);
/*
 * Finds the request that a MAD responds to, or NULL. Of the segments of a request, which have one
 * transaction ID, that is the one whose time ends first.
 */
struct umad_send *umad_send_find(struct xd_umad *u, const struct xc_path *path, const uint8_t *mad);
/* Forgets the requests of an agent. */
void umad_sends_drop(struct xd_umad *u, uint32_t id);
/* Queues the first len bytes of the MAD for the program. Returns false if there is no room. */
bool umad_deliver(struct xd_umad *u, const struct umad_packet *p, size_t len);

#endif /* XD_UMAD_INTERNAL_H */
