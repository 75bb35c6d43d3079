/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames of an XDP program that executes WRITEs of 8 bytes: see place.bpf.c. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#define PLACE_HEADER 14 /* Ethernet */
#define PLACE_ETHERTYPE 0x88b5
#define PLACE_FRAME 64
#define PLACE_IS_ACK (1ull << 63) /* in the word that follows the Ethernet header */

#ifndef __bpf__
#include "raw.h"

/* As raw_open(), with that program. Returns the memory in which it stores words. */
const uint64_t *place_open(struct raw_side *s, const char *netns, const char *ifname,
			   uint32_t ring);
/* Writes the CRC of a frame. */
void place_crc(uint8_t *frame);
#endif

#endif /* BENCH_PLACE_H */
