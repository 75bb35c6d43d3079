/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A loaded XDP program with tables as the daemon fills them, and an AF_XDP socket on RX queue 0, in
 * a network namespace of the test:
 *
 *     peer 10.9.0.1, fd00:9::1   --->   device 10.9.0.2, fd00:9::2, group 239.1.1.1
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/reason.h>
#include <xroce/tables.h>

#include "frame.h"

struct bpf_object;
struct bpf_program;
struct xroce_bpf;

extern const uint8_t peer4[4], local4[4], second4[4], group4[4];
extern const uint8_t peer6[16], local6[16];

struct xr_addr gid4(const uint8_t addr[4]);
struct xr_addr gid6(const uint8_t addr[16]);

#define TEST_PD 7
#define TEST_MTU 1024
#define TEST_QKEY 0x11111111u
#define TEST_PSN 0xfffff0u /* so that PSNs wrap around soon */
#define TEST_IN_FLIGHT 100 /* PSNs from the oldest unacknowledged to the next one */

enum test_qp {
	QP_USUAL, /* chosen by class of the opcode and IP version */
	QP_RC4,
	QP_RC6,
	QP_UC4,
	QP_UC6,
	QP_UD4,
	QP_UD6,
	QP_XRC_SEND4,
	QP_XRC_SEND6,
	QP_XRC_RECV4,
	QP_XRC_RECV6,
	QP_RESET,
	QP_INIT,
	QP_RTR,
	QP_SQD,
	QP_SQE,
	QP_ERR,
	QP_NO_STATE,
	QP_LIMITED, /* limited member of partition 0x1234 */
	QP_NO_WRITE,
	QP_NO_READ,
	QP_NO_ATOMIC,
	QP_NO_FLUSH,
	QP_PERSISTENT,
	QP_PD8,	      /* other protection domain */
	QP_XRC_NO_PD, /* a target without PD, as the daemon mirrors them */
	QP_MTU256,
	QP_MTU4096,
	QP_NO_MTU,
	QP_HALF_IN_FLIGHT, /* 2^23 PSNs in flight: one READ of 2^31 bytes at path MTU 256 */
	QP_MISSING,	   /* not in the map */
	QP_COUNT
};
uint32_t test_qpn(enum test_qp qp);

enum test_key {
	KEY_FULL, /* all remote access, [KEY_VA, KEY_VA + KEY_LEN) */
	KEY_READ_ONLY,
	KEY_WRITE_ONLY,
	KEY_ATOMIC_ONLY,
	KEY_LOCAL_ONLY,
	KEY_FREED,
	KEY_INVALIDATED,
	KEY_WINDOW, /* of QP_RC4 */
	KEY_ZERO_BASED,
	KEY_TOP,	  /* the last KEY_LEN bytes of the address space */
	KEY_EVERYTHING,	  /* 2^64 - 1 bytes from 0 */
	KEY_EMPTY,	  /* length 0 */
	KEY_WRAPPING,	  /* 2^64 - 1 bytes from 4096: beyond the end of the address space */
	KEY_WINDOW_1,	  /* type 1, of no QP; READ only */
	KEY_WINDOW_ZERO,  /* type 2, zero-based, of QP_RC4; no atomics */
	KEY_WINDOW_FREED, /* type 2, invalidated */
	KEY_FAST,
	KEY_FAST_FREED,
	KEY_MISSING, /* not in the map */
	KEY_COUNT
};
#define KEY_VA 0x7f0012345000ull
#define KEY_LEN 8192
uint32_t test_rkey(enum test_key key);
uint64_t test_key_va(enum test_key key);

#define TEST_NAK_RATE 10000 /* per second and CPU */

struct fixture {
	struct xroce_bpf *skel;
	struct bpf_object *gso; /* uses the maps of skel */
	int socket;
	unsigned cpus;
	struct xr_stat before[XR_REASON_COUNT];
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
bool fixture_add_addr(struct fixture *f, const struct xr_addr *addr);
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
	const char *program;   /* NULL: xroce */
};
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

/* Runs a frame through the program. Returns 0, or -errno if the test run itself failed. */
int fixture_run(struct fixture *f, const struct input *in, struct verdict *out);

const char *reason_name(int reason);

#endif /* TEST_FIXTURE_H */
