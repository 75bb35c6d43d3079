/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory that the daemon shares with one mover: for each worker a ring of accesses with their
 * results, and staging, which holds the bytes. The daemon's side (mover_io.c) relies on nothing
 * that the mover writes but results of accesses, and on these only for bytes of this client.
 */
#ifndef XD_MOVER_AREA_H
#define XD_MOVER_AREA_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/ring.h>

#include "proc_maps.h"

#define XD_MOVER_RING 1024 /* more than pieces of staging, so a ring is never full */

#define XD_STAGING_LARGE 32 /* pieces of XT_MEM_IO_MAX bytes */
#define XD_STAGING_SMALL 512
#define XD_STAGING_SMALL_SIZE 4160u /* the largest payload of a packet with a GRH, aligned */
/* Parts of a group of pieces: their list is in the second half of a piece of staging. */
#define XD_PARTS XR_GROUP_BYTES
_Static_assert(XR_GROUP_BYTES + XR_GROUP_PIECES * sizeof(uint64_t) <= XD_STAGING_SMALL_SIZE,
	       "the list fits into the smallest piece of staging");
_Static_assert(XR_GROUP_BYTES < 1 << 12 && XR_PIECE_END == 1ull << (64 - 12), "xd_part()");

static inline uint64_t xd_part(uint64_t addr, uint32_t len)
{
	return addr << 12 | len;
}

static inline uint64_t xd_part_addr(uint64_t part)
{
	return part >> 12;
}

static inline uint32_t xd_part_len(uint64_t part)
{
	return part & 0xfff;
}

#define XD_STAGING_PIECES (XD_STAGING_LARGE + XD_STAGING_SMALL)

enum xd_move_state { XD_MOVE_WAITS, XD_MOVE_BEGUN, XD_MOVE_CANCELLED };

struct xd_move {
	/* written by the daemon before it adds 1 to `submitted` */
	uint8_t op;	/* enum xt_mem_op */
	uint8_t check;	/* whether the owner has mapped the bytes with the rights for this access */
	uint8_t last;	/* WRITE: the last bytes are stored after all others */
	uint16_t parts; /* 0, or READ and WRITE of parts, xd_part() of each at data + XD_PARTS */
	uint32_t len;
	uint64_t addr; /* in the client's process; parts: unused */
	uint64_t data; /* READ and WRITE: offset in the area */
	uint64_t compare, value;
	/*
	 * enum xd_move_state, atomic. XD_MOVE_WAITS is replaced by the mover, which begins, or by
	 * the daemon, which needs the access no more.
	 */
	uint8_t state;
	/* written by the mover before it adds 1 to `executed` */
	int32_t err;
	uint64_t old;
};

/* All indices count up and wrap. The mover executes a ring in order. */
struct xd_move_ring {
	/* written by the worker */
	uint32_t submitted __attribute__((aligned(64)));
	uint32_t want_wake; /* write to the eventfd after the next result; cleared by the mover */
	/* written by the mover */
	uint32_t executed __attribute__((aligned(64)));
	struct xd_move move[XD_MOVER_RING] __attribute__((aligned(64)));
};

struct xd_mover_area {
	uint32_t asleep; /* futex: 1 while the mover sleeps; cleared by the worker that wakes it */
	uint32_t rings;
	struct xd_move_ring ring[];
	/* the pieces of staging follow */
};

/* The descriptors that a mover gets, followed by an eventfd of each worker */
enum {
	XD_MOVER_AREA_FD,
	XD_MOVER_SOCKET, /* SOCK_SEQPACKET, for requests to list mappings */
	XD_MOVER_MEM_FD,
	XD_MOVER_MAPS_FD,
	XD_MOVER_WAKE_FDS,
};

/* A request for the mappings that overlap [start, end), and its replies; the last has count 0. */
struct xd_maps_request {
	uint64_t start, end;
};
#define XD_MAPS_BATCH 256
struct xd_maps_reply {
	int32_t err;
	uint32_t count;
	struct xd_vma vma[XD_MAPS_BATCH];
};

/* Main function of a mover process. */
void xd_mover_main(const int *fds, uint32_t n);

#endif /* XD_MOVER_AREA_H */
