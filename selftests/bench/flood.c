// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends invalid RoCE packets as fast as one core can, until SIGTERM. Then prints packets/s.
 *
 *   flood IF DESTINATION-MAC SOURCE-IPV4 DESTINATION-IPV4 qpn|icrc|junk [QPN]
 *
 *   qpn    SEND to a QPN that does not exist
 *   icrc   SEND to QPN with a wrong ICRC
 *   junk   bytes that are no RoCE packet, to UDP port 4791
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <xroce/opcode.h>
#include <xroce/wire.h>

#include "../lib/clock.h"
#include "../lib/ipv4.h"

#define BATCH 64
#define PAYLOAD 64

static volatile sig_atomic_t over;

static void stop(int signal)
{
	over = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_socket(const char *ifname)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET,
				    .sll_ifindex = (int)if_nametoindex(ifname) };
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die(ifname);
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	return fd;
}

/* Returns the length. */
static size_t build(uint8_t *f, char **arg, unsigned int qpn)
{
	size_t udp_len = XR_UDP_HLEN + XR_BTH_HLEN + PAYLOAD + XR_ICRC_LEN;
	struct xr_ipv4 *ip = (void *)(f + 14);
	struct xr_udp *udp = (void *)(ip + 1);
	struct xr_bth *bth = (void *)(udp + 1);

	memset(f, 0x5a, 14 + XR_IPV4_HLEN + udp_len);
	if (sscanf(arg[0], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", f, f + 1, f + 2, f + 3, f + 4, f + 5) !=
	    6)
		die(arg[0]);
	f[12] = ETH_P_IP >> 8;
	f[13] = ETH_P_IP & 0xff;
	*ip = (struct xr_ipv4){ .version_ihl = 0x45,
				.len = htons((uint16_t)(XR_IPV4_HLEN + udp_len)),
				.ttl = 64,
				.protocol = 17,
				.src = inet_addr(arg[1]),
				.dst = inet_addr(arg[2]) };
	ipv4_seal((uint8_t *)ip);
	*udp = (struct xr_udp){ htons(0xc000), htons(XR_UDP_PORT), htons((uint16_t)udp_len), 0 };
	if (strcmp(arg[3], "junk"))
		*bth = (struct xr_bth){ .opcode = XR_CLASS_RC | XR_OP_SEND_ONLY,
					.flags = XR_BTH_MIGREQ,
					.pkey = htons(XR_DEFAULT_PKEY),
					.fecn_dqpn = htonl(qpn) };
	return 14 + XR_IPV4_HLEN + udp_len;
}

int main(int argc, char **argv)
{
	static uint8_t frame[256];
	struct mmsghdr messages[BATCH] = { 0 };
	struct iovec iov = { .iov_base = frame };
	uint64_t start, sent = 0;
	int fd, n;

	if (argc < 6) {
		fprintf(stderr, "usage: flood IF MAC SOURCE DESTINATION qpn|icrc|junk [QPN]\n");
		return 2;
	}
	signal(SIGTERM, stop);
	fd = open_socket(argv[1]);
	iov.iov_len = build(frame, argv + 2, argc > 6 ? (unsigned int)atoi(argv[6]) : 2);
	for (int i = 0; i < BATCH; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	printf("ready\n");
	fflush(stdout);
	start = now_ns();
	while (!over) {
		n = sendmmsg(fd, messages, BATCH, 0);
		if (n > 0)
			sent += (uint64_t)n;
	}
	printf("%.0f\n", (double)sent * 1e9 / (double)(now_ns() - start));
	return 0;
}
