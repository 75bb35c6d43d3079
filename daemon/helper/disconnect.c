// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "disconnect.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <xroce/opcode.h>

#include "daemon/transport/wire/icrc.h"
#include "daemon/transport/wire/packet.h"

/*
 * The helper does not wait for DREPs, so it sends each DREQ four times: with every tenth packet
 * lost, one peer of 10000 is not told.
 */
#define ROUNDS 4
#define ROUND_NS 250000000
/* A peer may have most of the connections: its QP 1 gets this many MADs a millisecond. */
#define BURST 64
#define BURST_NS 1000000

/* ---- the packet ------------------------------------------------------------------- */

#define MAD_LEN 256

static uint8_t *disconnect_put32(uint8_t *at, uint32_t value)
{
	value = htonl(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static void disconnect_put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* IBTA 13.4.2, 12.6.10 */
static void put_mad(uint8_t *mad, const struct xd_dreq *d)
{
	static const uint8_t header[] = { 1 /* base version */, 0x07 /* class CM */, 2,
					  3 /* Send */ };
	uint64_t tid = htobe64(d->tid);

	memset(mad, 0, MAD_LEN);
	memcpy(mad, header, sizeof(header));
	memcpy(mad + 8, &tid, sizeof(tid));
	mad[17] = 0x15; /* attribute DREQ */
	disconnect_put32(disconnect_put32(disconnect_put32(mad + 24, d->local_id), d->remote_id),
			 d->remote_qpn << 8);
}

/* Sets what the length of the frame decides. The identification of IPv4 is 0. */
static void put_lengths(uint8_t *frame, const struct xt_template *t, uint32_t total)
{
	uint32_t len = total - t->ip_off, sum = t->ip_sum + len;
	uint8_t *ip = frame + t->ip_off;

	disconnect_put16(frame + t->bth_off - 4, total - t->bth_off + XR_UDP_HLEN);
	if (t->ip_version != 4) {
		disconnect_put16(ip + 4, len - XR_IPV6_HLEN);
		return;
	}
	disconnect_put16(ip + 2, len);
	sum = (sum & 0xffff) + (sum >> 16);
	disconnect_put16(ip + 10, ~(sum + (sum >> 16)));
}

uint32_t xd_disconnect_build(const struct xd_dreq *d, uint8_t *frame)
{
	const struct xr_deth deth = { htonl(XR_GSI_QKEY), htonl(XR_GSI_QPN) };
	struct xt_seg seg = { .data = frame };
	struct xt_template t;

	xt_template_build(&t, &d->path, XR_GSI_QPN,
			  xt_source_port(&(struct xt_tuning)XT_TUNING_DEFAULT, &d->path, XR_GSI_QPN,
					 XR_GSI_QPN));
	memcpy(frame, t.bytes, t.len);
	frame[t.bth_off] = XR_CLASS_UD | XR_OP_SEND_ONLY;
	memcpy(frame + t.len, &deth, sizeof(deth));
	put_mad(frame + t.len + sizeof(deth), d);
	seg.len = xt_frame_len(&t, sizeof(deth) + MAD_LEN);
	put_lengths(frame, &t, seg.len);
	xt_icrc_seal(&seg, 1, t.ip_off, t.bth_off);
	return seg.len;
}

/* ---- sending ---------------------------------------------------------------------- */

int xd_disconnect_open(const char *ifname)
{
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET,
		.sll_ifindex = (int)if_nametoindex(ifname),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&ll, sizeof(ll))) {
		close(fd);
		fd = -1;
	}
	return fd < 0 ? -errno : fd;
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/* Returns false if nothing could be sent: there are no connections, or the interface is gone. */
static bool send_round(int sock, const struct xd_dreqs *list)
{
	uint32_t number = 0, sent = 0;
	uint8_t frame[XD_DREQ_MAX];
	struct xd_dreq d;

	while (xd_dreqs_next(list, &number, &d)) {
		if (send(sock, frame, xd_disconnect_build(&d, frame), 0) < 0)
			continue;
		if (++sent % BURST == 0)
			pause_ns(BURST_NS);
	}
	return sent;
}

void xd_disconnect_all(int sock, const struct xd_dreqs *list)
{
	for (int i = 0; send_round(sock, list) && ++i < ROUNDS;)
		pause_ns(ROUND_NS);
}
