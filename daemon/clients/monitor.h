/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events of the device, as JSON texts for the readers of `xroce monitor` (docs/monitor.md lists
 * them). Without readers nothing is written. Control thread only: workers count, and the
 * control thread compares their counters.
 *
 * The last XD_MONITOR_RECORDS texts are kept for all readers together. A reader that is slower
 * loses the oldest ones, and is sent their number.
 *
 * To publish an event:
 *
 *	struct json *j = xd_publish_begin(clients, "link");
 *
 *	if (j) {
 *		json_text(j, "state", "up");
 *		xd_publish(clients);
 *	}
 */
#ifndef XD_MONITOR_H
#define XD_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/json.h"

#define XD_MONITOR_RECORDS 8192 /* a power of two */

struct xd_client;
struct xd_clients;
struct xd_monitor;

struct xd_monitors {
	struct xd_monitor *first;
	uint64_t since; /* time at which there was no reader last */
	uint64_t next;	/* number of the next text, from 0 */
	struct xd_monitor_record {
		char *text; /* NULL: none */
		size_t length;
	} record[XD_MONITOR_RECORDS], writing;
	struct json json; /* of the text that is written; f NULL: none is */
};

/*
 * Sends the client all events from now on. *client_end: the socket that it reads. -EBUSY: it reads
 * events already, or too many clients do; -EMFILE, -ENOMEM.
 */
int xd_monitor_open(struct xd_client *c, int *client_end);
/* No effect for a client that reads no events. */
void xd_monitor_close(struct xd_client *c);
void xd_monitors_free(struct xd_monitors *ms);

/* Returns true if there are readers. */
bool xd_monitored(const struct xd_clients *cs);
/*
 * Begins an event. Returns NULL if there are no readers, or without memory. The caller adds members
 * and calls xd_publish().
 */
struct json *xd_publish_begin(struct xd_clients *cs, const char *event);
void xd_publish(struct xd_clients *cs);
/* Adds the members that describe a client: its number, process, user and name. */
void xd_publish_client(struct json *j, const struct xd_client *c);

#endif /* XD_MONITOR_H */
