/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The header checksum of IPv4 packets that tests build or change. */
#ifndef TEST_IPV4_H
#define TEST_IPV4_H

#include <stdint.h>

/* Stores the checksum of a header without options (RFC 1071), written without parse.h. */
static inline void ipv4_seal(uint8_t *ip)
{
	uint32_t sum = 0;
	unsigned i;

	for (i = 0; i < 20; i += 2)
		if (i != 10)
			sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	ip[10] = ~sum >> 8 & 0xff;
	ip[11] = ~sum & 0xff;
}

/* The same for an untagged Ethernet frame, if it holds IPv4. */
static inline void ipv4_seal_frame(uint8_t *frame, uint32_t len)
{
	if (len >= 34 && frame[12] == 0x08 && !frame[13])
		ipv4_seal(frame + 14);
}

#endif /* TEST_IPV4_H */
