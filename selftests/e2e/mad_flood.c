// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends MADs of 256 bytes to QP 1 of a host, at a steady rate, until it is killed.
 *
 *   mad_flood IF DESTINATION-MAC SOURCE-IPV4 DESTINATION-IPV4 KIND RATE [SOURCES]
 *
 *   KIND     request     REQs for services that nobody offers
 *            disconnect  DREQs of unknown connections
 *            reply       REPs to unknown connections
 *            malformed   of the class of connection management, with an unknown attribute
 *            other       of a class that no program has
 *            response    to requests that no program has sent
 *   RATE     MADs in a second
 *   SOURCES  number of addresses that follow the first one, 1 by default
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <xroce/opcode.h>
#include <xroce/wire.h>

#include "../lib/clock.h"
#include "../lib/ipv4.h"
#include "daemon/transport/wire/icrc.h"

#define MAD 256
#define CM_CLASS 7
#define OTHER_CLASS 0x0f
#define VENDOR_CLASS 0x30
#define METHOD_SEND 3
#define METHOD_GET_RESP 0x81
#define ATTR_REQ 0x10
#define ATTR_REP 0x13
#define ATTR_DREQ 0x15
#define BATCH_NS 1000000 /* the MADs of a millisecond are sent together */

struct frame {
	struct xr_eth eth;
	struct xr_ipv4 ip;
	struct xr_udp udp;
	struct xr_bth bth;
	struct xr_deth deth;
	uint8_t mad[MAD];
	uint8_t icrc[XR_ICRC_LEN];
} __attribute__((packed));

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_socket(const char *ifname)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET,
				    .sll_ifindex = (int)if_nametoindex(ifname) };
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die(ifname);
	return fd;
}

static const struct kind {
	const char *name;
	uint8_t class;
	uint16_t attribute;
	uint8_t method;
} kinds[] = {
	{ "request", CM_CLASS, ATTR_REQ, METHOD_SEND },
	{ "disconnect", CM_CLASS, ATTR_DREQ, METHOD_SEND },
	{ "reply", CM_CLASS, ATTR_REP, METHOD_SEND },
	{ "malformed", CM_CLASS, 0x99, METHOD_SEND },
	{ "other", OTHER_CLASS, 0x10, METHOD_SEND },
	{ "response", VENDOR_CLASS, 1, METHOD_GET_RESP },
};

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	die(name);
	return NULL;
}

static void build(struct frame *f, const char *mac, const char *to, const struct kind *kind)
{
	uint8_t *m = f->eth.dst;

	*f = (struct frame){
		.eth = { .src = { 2 }, .type = htons(ETH_P_IP) },
		.ip = { .version_ihl = 0x45,
			.len = htons(sizeof(*f) - sizeof(f->eth)),
			.ttl = 64,
			.protocol = IPPROTO_UDP,
			.dst = inet_addr(to) },
		.udp = { htons(0xc000), htons(XR_UDP_PORT),
			 htons(sizeof(*f) - sizeof(f->eth) - sizeof(f->ip)), 0 },
		.bth = { .opcode = XR_CLASS_UD | XR_OP_SEND_ONLY,
			 .flags = XR_BTH_MIGREQ,
			 .pkey = htons(XR_DEFAULT_PKEY),
			 .fecn_dqpn = htonl(XR_GSI_QPN) },
		.deth = { htonl(XR_GSI_QKEY), htonl(XR_GSI_QPN) },
		.mad = { 1, kind->class, 2, kind->method, [16] = (uint8_t)(kind->attribute >> 8),
			 (uint8_t)kind->attribute },
	};
	if (sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", m, m + 1, m + 2, m + 3, m + 4, m + 5) != 6)
		die(mac);
}

/* Another transaction, communication ID and QP each time */
static void number(struct frame *f, uint32_t n, uint32_t first, uint32_t sources)
{
	struct xt_seg seg = { (uint8_t *)f, sizeof(*f) };
	uint32_t id = htonl(n + 1);

	f->ip.src = htonl(first + n % sources);
	ipv4_seal((uint8_t *)&f->ip);
	f->bth.ack_psn = htonl(n & XR_PSN_MASK);
	memcpy(f->mad + 12, &id, sizeof(id)); /* lower half of the transaction ID */
	memcpy(f->mad + 24, &id, sizeof(id)); /* local communication ID */
	f->mad[40] = 1;			      /* REQ: lowest byte but one of the service ID */
	xt_icrc_seal(&seg, 1, offsetof(struct frame, ip), offsetof(struct frame, bth));
}

int main(int argc, char **argv)
{
	uint32_t rate, sources, first, sent = 0;
	struct frame f;
	uint64_t begin;
	int fd;

	if (argc < 7)
		return 2;
	fd = open_socket(argv[1]);
	build(&f, argv[2], argv[4], find_kind(argv[5]));
	first = ntohl(inet_addr(argv[3]));
	rate = (uint32_t)atoi(argv[6]);
	sources = argc > 7 ? (uint32_t)atoi(argv[7]) : 1;
	begin = now_ns();
	for (;;) {
		uint64_t due = (now_ns() - begin) * rate / 1000000000;

		for (; sent < due; sent++) {
			number(&f, sent, first, sources);
			if (send(fd, &f, sizeof(f), 0) < 0)
				usleep(100);
		}
		nanosleep(&(struct timespec){ .tv_nsec = BATCH_NS }, NULL);
	}
}
