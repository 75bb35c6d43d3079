/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The captures of a server:
 *
 *   capture.c         requests, and packets that were refused
 *   capture_direct.c  direct contexts, whose programs write rings themselves
 */
#ifndef XD_SERVER_CAPTURE_H
#define XD_SERVER_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/view.h>

#include "daemon/capture/capture.h"
#include "daemon/clients/request.h"

struct xd_server;
struct xd_context_report;

struct xd_capture_client {
	struct xd_capture_client *next;
	struct xd_client *client;
	struct xd_capture *capture; /* NULL: END_CAPTURE was requested */
	struct {
		bool on;	/* the client asked for direct contexts */
		uint32_t place; /* in struct xr_direct_page */
		struct xr_direct_capture entry;
		struct xd_context_report *first, **end; /* what the client has not asked for yet */
		uint32_t reports;			/* of them */
		uint32_t missed;
	} direct;
};

/* ---- capture_direct.c ---- */

/* Lets the direct programs write packets from now on. */
void xd_capture_direct_start(struct xd_server *s, struct xd_capture_client *cc,
			     const struct xr_capture_req *q);
/* They write no more packets. */
void xd_capture_direct_end(struct xd_server *s, struct xd_capture_client *cc);
/* Nobody reads their rings any more. */
void xd_capture_direct_free(struct xd_server *s, struct xd_capture_client *cc);

/* Writes the next report of a context, if there is one. */
void xd_capture_direct_report(struct xd_capture_client *cc, struct xd_reply *rep);

#endif /* XD_SERVER_CAPTURE_H */
