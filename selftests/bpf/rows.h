/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules of the XDP program as rows: description, verdict, reason, packet. Each row runs through
 * all three entry points, through xroce_frags with first buffers of several lengths, and through
 * the user-space builds of the checks and of the parser. All results must be the same.
 */
#ifndef TEST_ROWS_H
#define TEST_ROWS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

#include <xroce/reason.h>

#include "fixture.h"
#include "frame.h"

struct row {
	const char *what;
	enum xdp_action action;
	enum xr_reason reason;
	struct spec spec;
};

/* Patches of addresses and QPNs */
#define QPN(v) .patch = { { AT_BTH, 5, 3, v } }
#define SOURCE4(v) .patch = { { AT_IP, 12, 4, v } }
#define DEST4(v) .patch = { { AT_IP, 16, 4, v } }
#define GROUP4 0xef010101
/* Multicast group as destination, and a QPN */
#define GROUP_QPN(v) .patch = { { AT_IP, 16, 4, GROUP4 }, { AT_BTH, 5, 3, v } }

#define PASS XDP_PASS
#define DROP XDP_DROP
#define REDIRECT XDP_REDIRECT

struct table {
	const char *name;
	const struct row *rows;
	unsigned count;
};
#define TABLE(table_name, r)                                                                       \
	const struct table r##_table = { table_name, r, sizeof(r) / sizeof((r)[0]) }

extern const struct table ethernet_table, network_table, transport_table, qp_table, psn_table,
	key_table, range_table;

/* Runs a frame in all these ways. Prints differences from the expected result as TAP comments. */
bool run_frame(struct fixture *f, const struct frame *frame, enum xdp_action action,
	       enum xr_reason reason);
/* Like run_frame(), for raw bytes. meta: expected metadata, or NULL if they are not known. */
bool run_bytes(struct fixture *f, const uint8_t *data, uint32_t len, enum xdp_action action,
	       enum xr_reason reason, const struct xr_meta *meta);

#endif /* TEST_ROWS_H */
