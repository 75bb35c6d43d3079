/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Blocks of pcapng files (draft-ietf-opsawg-pcapng), in the byte order of the host. Each function
 * writes one or more blocks to a buffer and returns their length.
 */
#ifndef XROCE_PCAPNG_H
#define XROCE_PCAPNG_H

#include <stddef.h>
#include <stdint.h>

#define PCAPNG_TEXT_MAX 256 /* bytes of a text, with NUL */
#define PCAPNG_OPTIONS_MAX 512
/* Longest block without the bytes of the packet */
#define PCAPNG_BLOCK_MAX 1024

enum pcapng_direction { PCAPNG_IN = 1, PCAPNG_OUT = 2 };

/* What is noted of a packet */
struct pcapng_notes {
	uint32_t queue;
	enum pcapng_direction direction;
	int xdp_action;	  /* enum xdp_action, -1: none */
	uint64_t dropped; /* packets lost since the one before */
	const char *comment;
	size_t comment_len;
};

struct pcapng_packet {
	uint64_t time; /* ns since 1970 */
	uint32_t captured, length;
	const uint8_t *bytes;
	const uint8_t *options; /* of pcapng_options() */
	size_t options_len;
};

struct pcapng_statistics {
	uint64_t start, end; /* ns since 1970 */
	uint64_t received, dropped;
};

/* Section header, and one interface with times in ns. snap_len: 0: none */
size_t pcapng_header(uint8_t *buf, const char *device, const char *netdev, uint32_t snap_len);
/* The last part of a packet's block, which many packets have in common. buf: PCAPNG_OPTIONS_MAX */
size_t pcapng_options(uint8_t *buf, const struct pcapng_notes *n);
/* buf: PCAPNG_BLOCK_MAX bytes and those of the packet */
size_t pcapng_packet(uint8_t *buf, const struct pcapng_packet *p);
size_t pcapng_statistics(uint8_t *buf, const struct pcapng_statistics *s);

#endif /* XROCE_PCAPNG_H */
