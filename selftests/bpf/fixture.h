/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loaded XDP programs with the tables of tables.h, and an AF_XDP socket on RX queue 0, in a network
 * namespace of the test; and the same checks in user space, with the same entries in their tables.
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/reason.h>
#include <xroce/tables.h>

#include "frame.h"
#include "tables.h"

struct bpf_object;
struct bpf_program;
struct xd_tables;
struct xd_verdict;
struct xroce_bpf;

#define TEST_NAK_RATE 10000 /* per second and CPU */

struct fixture {
	struct xroce_bpf *skel;
	struct bpf_object *gso; /* uses the maps of skel */
	int socket;
	unsigned cpus;
	struct xr_stat before[XR_REASON_COUNT];
	struct xd_tables *memory;
	struct xd_verdict *user;
	struct xr_stat user_before[XR_REASON_COUNT];
	struct ring_buffer *refused;
	struct xr_refused report; /* the last one */
	unsigned reports;
};

bool fixture_open(struct fixture *f, uint32_t nak_rate);
void fixture_close(struct fixture *f);
/* Returns true if the kernel has the kfuncs of xroce_gso (Linux 6.2). */
bool fixture_gso_possible(void);
struct bpf_program *fixture_program(const struct fixture *f, const char *name);
bool fixture_add_qp(struct fixture *f, uint32_t qpn, const struct xr_qp_entry *entry,
		    const struct xr_psn_entry *psns);
bool fixture_del_qp(struct fixture *f, uint32_t qpn);
bool fixture_add_key(struct fixture *f, uint32_t rkey, struct xr_key_entry entry);
bool fixture_del_key(struct fixture *f, uint32_t rkey);
bool fixture_add_addr(struct fixture *f, const struct xr_addr *addr);
bool fixture_del_addr(struct fixture *f, const struct xr_addr *addr);
bool fixture_set_limiter(struct fixture *f, const struct xr_limiter *limiter);
/* Adds the socket to the XSKMAP or removes it. */
bool fixture_plug(struct fixture *f, bool in);
/* Reads the counters, summed over all CPUs. */
bool fixture_stats(struct fixture *f, struct xr_stat stats[XR_REASON_COUNT]);

struct input {
	const uint8_t *data;
	uint32_t len;
	uint32_t linear;       /* bytes in the first buffer; 0: as many as fit */
	uint32_t foreign_meta; /* bytes of metadata written by a previous program */
	const char *program;   /* NULL: xroce; FIXTURE_USER */
};
/* The checks in user space, instead of a program; PASS: dropped as not ours */
#define FIXTURE_USER "user space"

struct verdict {
	uint32_t action; /* XDP_* */
	int reason;	 /* under which one packet was counted; -1: none, or more than one */
	bool has_meta;
	struct xr_meta meta;
	bool reported; /* as refused, once, with the same reason and bytes */
	bool intact;   /* the bytes of the frame have not changed */
};
/* Reasons that any run has had */
extern bool reasons_seen[XR_REASON_COUNT];

/* Runs a frame through a program. Returns 0, or -errno if the test run itself failed. */
int fixture_run(struct fixture *f, const struct input *in, struct verdict *out);

const char *reason_name(int reason);

#endif /* TEST_FIXTURE_H */
