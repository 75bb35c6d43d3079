/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the blocks of packets, and writes the other blocks of a file of pcapng. */
#ifndef XROCE_PCAPNG_CLI_H
#define XROCE_PCAPNG_CLI_H

#include <stddef.h>
#include <stdint.h>

#include <xroce/pcapng.h>

struct pcapng_packet {
	uint64_t time; /* ns since 1970 */
	uint32_t captured, original;
	const uint8_t *bytes;
	uint32_t flags;
	int xdp_action;	     /* enum xdp_action, -1: none */
	uint64_t dropped;    /* packets lost since the one before */
	const char *comment; /* not terminated */
	uint32_t comment_len;
};

/*
 * Returns the length of the packet's block at the start of the buffer, 0 if it is not a valid one.
 * Checks lengths only.
 */
uint32_t pcapng_block(const uint8_t *buf, size_t len);
/* Reads a block that pcapng_block() has checked. Options that are not valid are ignored. */
void pcapng_read(const uint8_t *block, struct pcapng_packet *p);

#define PCAPNG_BLOCK_MAX 1024
struct pcapng_statistics {
	uint64_t start, end; /* ns since 1970 */
	uint64_t received, dropped;
};

/*
 * Return the length of what they have written to buf, which has PCAPNG_BLOCK_MAX bytes. The header
 * is a section header, and one interface with times in ns. snap_len: 0: none
 */
size_t pcapng_header(uint8_t *buf, const char *device, const char *netdev, uint32_t snap_len);
size_t pcapng_statistics(uint8_t *buf, const struct pcapng_statistics *s);

#endif /* XROCE_PCAPNG_CLI_H */
