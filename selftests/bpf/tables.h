/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tables as the daemon fills them, for tests of the checks of packets:
 *
 *     peer 10.9.0.1, fd00:9::1   --->   device 10.9.0.2, fd00:9::2, group 239.1.1.1
 */
#ifndef TEST_TABLES_H
#define TEST_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/tables.h>

struct xd_tables;

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
/* Returns the entries of a QP, other than QP_USUAL and QP_MISSING. */
struct xr_qp_entry test_qp_entry(enum test_qp qp);
struct xr_psn_entry test_psns(enum test_qp qp);

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
/* Returns the entry of a key, other than KEY_MISSING. */
struct xr_key_entry test_key_entry(enum test_key key);

/* Addresses of the device, and of groups */
#define TEST_ADDRS 5
struct xr_addr test_addr(unsigned i);
/* Returns the GID index of an address, or XR_ADDR_GROUP. */
uint32_t test_gid_index(const struct xr_addr *addr);

/* Adds all entries to tables with at least QP_COUNT slots. */
bool test_tables_fill(struct xd_tables *tables);

#endif /* TEST_TABLES_H */
