// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Ethernet, VLAN, IP, UDP: what is ours, and what stays the kernel's. */
#include "rows.h"

#define ETHERTYPE(v) .patch = { { AT_ETH, 12, 2, v } }
#define TAGGED_TYPE(v) .tags = 1, .patch = { { AT_VLAN, 4, 2, v } }
#define IP_PATCH(o, w, v) .patch = { { AT_IP, o, w, v } }
#define UDP_PATCH(o, w, v) .patch = { { AT_UDP, o, w, v } }

/* the last four bytes of an IPv6 destination stand at 36 */
/* clang-format off */
static const struct row ethernet[] = {
	{ "ARP", PASS, XR_NOT_IP, { ETHERTYPE(0x0806) } },
	{ "LLDP", PASS, XR_NOT_IP, { ETHERTYPE(0x88cc) } },
	{ "802.3 length instead of a type", PASS, XR_NOT_IP, { ETHERTYPE(0x0040) } },
	{ "RoCE v1", PASS, XR_NOT_IP, { ETHERTYPE(0x8915) } },
	{ "ARP behind a VLAN tag", PASS, XR_NOT_IP, { TAGGED_TYPE(0x0806) } },
	{ "IPv4, untagged", REDIRECT, XR_OK, {} },
	{ "IPv4, one tag", REDIRECT, XR_OK, { .tags = 1 } },
	{ "IPv4, two tags", REDIRECT, XR_OK, { .tags = 2 } },
	{ "IPv4, three tags", PASS, XR_VLAN_DEPTH, { .tags = 3 } },
	{ "IPv6, untagged", REDIRECT, XR_OK, { .v6 = true } },
	{ "IPv6, one tag", REDIRECT, XR_OK, { .v6 = true, .tags = 1 } },
	{ "IPv6, two tags", REDIRECT, XR_OK, { .v6 = true, .tags = 2 } },
	{ "IPv6, three tags", PASS, XR_VLAN_DEPTH, { .v6 = true, .tags = 3 } },
	{ "priority tag (VLAN 0)", REDIRECT, XR_OK,
	  { .tags = 1, .patch = { { AT_VLAN, 2, 2, 0x6000 } } } },
	{ "one tag, of the outer kind", REDIRECT, XR_OK, { TAGGED_TYPE(0x0800),
	  .patch[1] = { AT_VLAN, 0, 2, 0x88a8 } } },
	{ "two tags, both of the inner kind", REDIRECT, XR_OK,
	  { .tags = 2, .patch = { { AT_VLAN, 0, 2, 0x8100 } } } },
	{ "first tag cut off", PASS, XR_TRUNC_ETH, { .tags = 1, .cut_to = 16 } },
	{ "second tag cut off", PASS, XR_TRUNC_ETH, { .tags = 2, .cut_to = 20 } },
	{ "nothing behind the Ethernet header", PASS, XR_TRUNC_IP, { .cut_to = 14 } },
	{ "UDP header cut off", PASS, XR_TRUNC_UDP, { .cut_to = 38 } },
	{ "IPv6, UDP header cut off", PASS, XR_TRUNC_UDP, { .v6 = true, .cut_to = 61 } },
	{ "another station's MAC", REDIRECT, XR_OK, { .patch = { { AT_ETH, 5, 1, 0x77 } } } },
};
/* clang-format on */
TABLE("Ethernet", ethernet);

/* clang-format off */
static const struct row network[] = {
	{ "IPv6 packet as IPv4", PASS, XR_IP_VERSION, { .v6 = true, ETHERTYPE(0x0800) } },
	{ "IPv4 packet as IPv6", PASS, XR_IP_VERSION, { ETHERTYPE(0x86dd) } },
	{ "IP version 5", PASS, XR_IP_VERSION, { IP_PATCH(0, 1, 0x55) } },
	{ "IPv4: TCP", PASS, XR_NOT_UDP, { IP_PATCH(9, 1, 6) } },
	{ "IPv4: ICMP", PASS, XR_NOT_UDP, { IP_PATCH(9, 1, 1) } },
	{ "IPv4: TCP with options", PASS, XR_NOT_UDP,
	  { .patch = { { AT_IP, 9, 1, 6 }, { AT_IP, 0, 1, 0x46 } } } },
	{ "IPv4: UDP-Lite", PASS, XR_NOT_UDP, { IP_PATCH(9, 1, 136) } },
	{ "IPv6: TCP", PASS, XR_NOT_UDP, { .v6 = true, IP_PATCH(6, 1, 6) } },
	{ "IPv6: ICMPv6 (neighbours)", PASS, XR_NOT_UDP, { .v6 = true, IP_PATCH(6, 1, 58) } },
	{ "IPv6: hop-by-hop options", PASS, XR_NOT_UDP, { .v6 = true, IP_PATCH(6, 1, 0) } },
	{ "IPv6: fragment header", PASS, XR_NOT_UDP, { .v6 = true, IP_PATCH(6, 1, 44) } },
	{ "IPv6: destination options", PASS, XR_NOT_UDP, { .v6 = true, IP_PATCH(6, 1, 60) } },
	{ "IPv4: one option word", PASS, XR_IP_OPTIONS, { IP_PATCH(0, 1, 0x46) } },
	{ "IPv4: longest header", PASS, XR_IP_OPTIONS, { IP_PATCH(0, 1, 0x4f) } },
	{ "IPv4: header length below 20", PASS, XR_IP_OPTIONS, { IP_PATCH(0, 1, 0x44) } },
	{ "IPv4: header length 0", PASS, XR_IP_OPTIONS, { IP_PATCH(0, 1, 0x40) } },
	{ "IPv4: first fragment", PASS, XR_IP_FRAGMENT, { IP_PATCH(6, 2, 0x2000) } },
	{ "IPv4: middle fragment", PASS, XR_IP_FRAGMENT, { IP_PATCH(6, 2, 0x2001) } },
	{ "IPv4: last fragment", PASS, XR_IP_FRAGMENT, { IP_PATCH(6, 2, 0x1000) } },
	{ "IPv4: first fragment, DF set", PASS, XR_IP_FRAGMENT, { IP_PATCH(6, 2, 0x6000) } },
	{ "IPv4: DF clear", REDIRECT, XR_OK, { IP_PATCH(6, 2, 0) } },
	{ "IPv4: reserved flag", REDIRECT, XR_OK, { IP_PATCH(6, 2, 0x8000) } },
	{ "IPv4: congestion experienced", REDIRECT, XR_OK, { IP_PATCH(1, 1, 0x6b) } },
	{ "IPv4: time to live 1", REDIRECT, XR_OK, { IP_PATCH(8, 1, 1) } },
	{ "IPv6: traffic class and flow label", REDIRECT, XR_OK,
	  { .v6 = true, IP_PATCH(0, 4, 0x6abfffff) } },
	{ "IPv6: hop limit 1", REDIRECT, XR_OK, { .v6 = true, IP_PATCH(7, 1, 1) } },

	{ "IPv4: port 4790", PASS, XR_NOT_ROCE_PORT, { UDP_PATCH(2, 2, 4790) } },
	{ "IPv4: port 4792", PASS, XR_NOT_ROCE_PORT, { UDP_PATCH(2, 2, 4792) } },
	{ "IPv4: port 4791 in the wrong byte order", PASS, XR_NOT_ROCE_PORT,
	  { UDP_PATCH(2, 2, 0xb712) } },
	{ "IPv4: source port 4791 only", PASS, XR_NOT_ROCE_PORT,
	  { UDP_PATCH(0, 4, 4791u << 16 | 53) } },
	{ "IPv6: port 53", PASS, XR_NOT_ROCE_PORT, { .v6 = true, UDP_PATCH(2, 2, 53) } },
	{ "source port 0", REDIRECT, XR_OK, { UDP_PATCH(0, 2, 0) } },
	{ "UDP checksum set", REDIRECT, XR_OK, { UDP_PATCH(6, 2, 0x1234) } },
	{ "another port with wrong lengths stays the kernel's", PASS, XR_NOT_ROCE_PORT,
	  { UDP_PATCH(2, 2, 53), .udp_len_delta = 9 } },

	{ "IPv4: another host", PASS, XR_NOT_OUR_ADDR, { IP_PATCH(19, 1, 3) } },
	{ "IPv4: broadcast", PASS, XR_NOT_OUR_ADDR, { IP_PATCH(16, 4, 0xffffffff) } },
	{ "IPv4: group that was not joined", PASS, XR_NOT_OUR_ADDR,
	  { IP_PATCH(16, 4, 0xef010102) } },
	{ "IPv6: another host", PASS, XR_NOT_OUR_ADDR, { .v6 = true, IP_PATCH(39, 1, 3) } },
	{ "IPv6: one bit at the front", PASS, XR_NOT_OUR_ADDR,
	  { .v6 = true, IP_PATCH(24, 1, 0xfc) } },
	{ "IPv6: all nodes", PASS, XR_NOT_OUR_ADDR,
	  { .v6 = true, .patch = { { AT_IP, 24, 8, 0xff02ull << 48 }, { AT_IP, 32, 8, 1 } } } },
	{ "IPv6: our IPv4 address, mapped", PASS, XR_NOT_OUR_ADDR,
	  { .v6 = true, .patch = { { AT_IP, 24, 8, 0 }, { AT_IP, 32, 8, 0xffff0a090002 } } } },
	{ "another host's packet with a wrong length stays the kernel's", PASS, XR_NOT_OUR_ADDR,
	  { IP_PATCH(19, 1, 3), .udp_len_delta = 1 } },

	{ "IPv4: one byte longer than the frame", DROP, XR_IP_LEN, { .ip_len_delta = 1 } },
	{ "IPv4: length 65535", DROP, XR_IP_LEN, { IP_PATCH(2, 2, 0xffff) } },
	{ "IPv4: length 0", DROP, XR_IP_LEN, { IP_PATCH(2, 2, 0) } },
	{ "IPv4: length below its header", DROP, XR_IP_LEN, { IP_PATCH(2, 2, 19) } },
	{ "IPv4: no room for UDP", DROP, XR_IP_LEN, { IP_PATCH(2, 2, 27) } },
	{ "IPv6: one byte longer than the frame", DROP, XR_IP_LEN,
	  { .v6 = true, .ip_len_delta = 1 } },
	{ "IPv6: jumbo payload (length 0)", DROP, XR_IP_LEN, { .v6 = true, IP_PATCH(4, 2, 0) } },
	{ "IPv6: no room for UDP", DROP, XR_IP_LEN, { .v6 = true, IP_PATCH(4, 2, 7) } },
	{ "IPv4 and UDP both one byte too long", DROP, XR_IP_LEN,
	  { .ip_len_delta = 1, .udp_len_delta = 1 } },
	{ "IPv4 shorter than UDP", DROP, XR_UDP_LEN, { .ip_len_delta = -4 } },
	{ "UDP one byte too long", DROP, XR_UDP_LEN, { .udp_len_delta = 1 } },
	{ "UDP one byte too short", DROP, XR_UDP_LEN, { .udp_len_delta = -1 } },
	{ "UDP one word too short", DROP, XR_UDP_LEN, { .udp_len_delta = -4 } },
	{ "UDP length 0", DROP, XR_UDP_LEN, { UDP_PATCH(4, 2, 0) } },
	{ "UDP length 65535", DROP, XR_UDP_LEN, { UDP_PATCH(4, 2, 0xffff) } },
	{ "IPv6: UDP one byte too long", DROP, XR_UDP_LEN, { .v6 = true, .udp_len_delta = 1 } },
	{ "UDP longer than IP, within Ethernet padding", DROP, XR_UDP_LEN,
	  { .udp_len_delta = 4, .padded_to = 200 } },

	{ "short frame, padded", REDIRECT, XR_OK, { .payload = EMPTY, .padded_to = 60 } },
	{ "padded far beyond need", REDIRECT, XR_OK, { .padded_to = 1500 } },
	{ "IPv6, padded, two tags", REDIRECT, XR_OK,
	  { .v6 = true, .tags = 2, .payload = EMPTY, .padded_to = 128 } },
};
/* clang-format on */
TABLE("network", network);
