// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The filter of a UDP socket at the RoCE v2 port, as the daemon loads it. Rows are sent from a
 * packet socket, joined frames by a UDP socket over the loopback interface.
 *
 *     packet socket -- xrf0 ===== xrf1 -- kernel -- filter -- UDP socket
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/udp.h>

#include "daemon/base/options.h"
#include "daemon/bpf/filter.h"
#include "daemon/io/tables.h"
#include "daemon/io/verdict.h"
#include "daemon/base/segmentation.h"
#include "rows.h"
#include "selftests/lib/tap.h"
#include "suites.h"

#define PATIENCE_MS 20000
#define MOST 64		 /* packets of a frame that the filter checks */
#define UDP_NO_CSUM6 102 /* UDP_NO_CHECK6_RX */

struct filtered {
	char bpffs[64];
	struct xd_options opt;
	struct xd_filter *filter;
	struct xd_tables *tables;
	int packet, udp, sender;
	uint8_t mac[ETH_ALEN]; /* of xrf1 */
	struct xr_stat before[XR_REASON_COUNT];
};

/* What has happened to a frame */
struct outcome {
	unsigned delivered;
	int reason; /* counted for one packet; -1: none; -2: more */
	uint64_t bytes;
};

/* ---- set-up ------------------------------------------------------------------------------- */

static bool make_net(void)
{
	return !system("ip link set lo up && ip link add xrf0 type veth peer name xrf1 && "
		       "ip link set xrf0 mtu 9000 up && ip link set xrf1 mtu 9000 up && "
		       "ip addr add 10.9.0.1/24 dev xrf1 && ip addr add 10.9.0.2/24 dev xrf1 && "
		       "ip addr add 10.9.0.7/24 dev xrf1 && "
		       "ip addr add fd00:9::2/64 dev xrf1 nodad && "
		       "for i in all xrf1; do echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter; "
		       "echo 1 >/proc/sys/net/ipv4/conf/$i/accept_local; done");
}

static void remove_net(void)
{
	if (system("ip link del xrf0"))
		printf("# xrf0 could not be removed\n");
}

static bool join(int fd)
{
	struct ip_mreqn four = { .imr_ifindex = (int)if_nametoindex("xrf1") };
	struct ipv6_mreq six = { .ipv6mr_interface = if_nametoindex("xrf1") };
	struct xr_addr group = test_addr(TEST_ADDRS - 1);

	memcpy(&four.imr_multiaddr, group4, sizeof(group4));
	memcpy(&six.ipv6mr_multiaddr, group.raw, sizeof(group.raw));
	return !setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof(four)) &&
	       !setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &six, sizeof(six));
}

/* As that of the daemon */
static int udp_socket(void)
{
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6, .sin6_port = htons(XR_UDP_PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, zero = 0;

	if (fd >= 0 && !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) &&
	    !setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) &&
	    !setsockopt(fd, IPPROTO_UDP, UDP_NO_CSUM6, &one, sizeof(one)) &&
	    !bind(fd, (struct sockaddr *)&addr, sizeof(addr)) && join(fd))
		return fd;
	close(fd);
	return -1;
}

/* Sends from the address of the peer. */
static int peer_socket(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&addr.sin_addr, peer4, sizeof(peer4));
	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int packet_socket(void)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET,
				    .sll_ifindex = (int)if_nametoindex("xrf0") };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool read_mac(int fd, uint8_t mac[ETH_ALEN])
{
	struct ifreq req = { .ifr_name = "xrf1" };

	if (ioctl(fd, SIOCGIFHWADDR, &req))
		return false;
	memcpy(mac, req.ifr_hwaddr.sa_data, ETH_ALEN);
	return true;
}

static void read_stats(struct filtered *f, struct xr_stat *stats)
{
	for (int i = 0; i < XR_REASON_COUNT; i++)
		xd_tables_stat(f->tables, i, &stats[i]);
}

static bool open_filtered(struct filtered *f, uint32_t nak_rate)
{
	f->packet = f->udp = f->sender = -1;
	f->opt = (struct xd_options){
		.name = "xr_filtered",
		.slots = f->opt.slots,
		.max_qp = 255,
		.max_mr = 1024,
		.nak_rate = nak_rate,
	};
	snprintf(f->bpffs, sizeof(f->bpffs), "/tmp/xr_filter.XXXXXX");
	if (!mkdtemp(f->bpffs))
		return false;
	snprintf(f->opt.bpffs, sizeof(f->opt.bpffs), "%s", f->bpffs);
	if (xd_filter_new(&f->opt, &f->filter))
		return false;
	f->tables = xd_filter_tables(f->filter);
	f->udp = udp_socket();
	f->sender = peer_socket();
	f->packet = packet_socket();
	read_stats(f, f->before);
	return f->udp >= 0 && f->sender >= 0 && f->packet >= 0 && read_mac(f->udp, f->mac) &&
	       test_tables_fill(f->tables) && !xd_filter_attach(f->filter, f->udp);
}

static void close_filtered(struct filtered *f)
{
	close(f->packet);
	close(f->sender);
	close(f->udp);
	xd_filter_free(f->filter);
	umount2(f->bpffs, MNT_DETACH);
	rmdir(f->bpffs);
}

/* ---- frames --------------------------------------------------------------------------------- */

static const struct spec sentinel = { .payload = 12, .psn_off = 9 };

static bool send_frame(const struct filtered *f, struct frame *frame)
{
	memcpy(frame->data, f->mac, sizeof(f->mac));
	return send(f->packet, frame->data, frame->len, 0) == (ssize_t)frame->len;
}

/* Receives up to the sentinel. Returns the number of datagrams before it, -1 without it. */
static int receive(const struct filtered *f, const struct frame *last)
{
	struct pollfd pfd = { .fd = f->udp, .events = POLLIN };
	static uint8_t buf[65536];
	uint32_t want = last->len - last->bth;

	for (int n = 0; poll(&pfd, 1, PATIENCE_MS) > 0; n++) {
		ssize_t got = recv(f->udp, buf, sizeof(buf), 0);

		if (got == (ssize_t)want && !memcmp(buf, last->data + last->bth, want))
			return n;
	}
	return -1;
}

static void read_outcome(struct filtered *f, struct outcome *out)
{
	struct xr_stat after[XR_REASON_COUNT];

	out->reason = -1;
	read_stats(f, after);
	for (int i = 0; i < XR_REASON_COUNT; i++) {
		uint64_t n = after[i].packets - f->before[i].packets;

		if (!n)
			continue;
		out->reason = n == 1 && out->reason == -1 ? i : -2;
		out->bytes = after[i].bytes - f->before[i].bytes;
	}
	memcpy(f->before, after, sizeof(after));
}

/* Sends a frame and, to know that it has been received, a valid one. */
static bool play(struct filtered *f, struct frame *frame, struct outcome *out)
{
	static struct frame last;
	int n;

	frame_build(&sentinel, &last);
	if (!send_frame(f, frame) || !send_frame(f, &last))
		return false;
	n = receive(f, &last);
	out->delivered = (unsigned)n;
	read_outcome(f, out);
	return n >= 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool is_ip(const struct frame *frame)
{
	uint32_t type = (uint32_t)frame->data[12] << 8 | frame->data[13];

	return type == ETH_P_IP || type == ETH_P_IPV6;
}

static bool has_udp_checksum(const struct frame *frame)
{
	return frame->data[frame->udp + 6] || frame->data[frame->udp + 7];
}

/*
 * What is wrong with the headers up to UDP, the kernel may find itself; then nothing is counted. It
 * also drops wrong UDP checksums, and frames with VLAN tags, other than 0, without an interface.
 */
static bool is_right(const struct row *row, const struct frame *frame, const struct outcome *got)
{
	if (!is_ip(frame) || has_udp_checksum(frame))
		return got->reason == -1 && got->delivered <= (row->spec.tags ? 1 : 0);
	if (row->reason != XR_OK && row->reason < XR_TRUNC_BTH)
		return !got->delivered && (got->reason == -1 || got->reason == (int)row->reason);
	if (row->action == REDIRECT)
		return got->delivered == 1 && got->reason == -1;
	return !got->delivered && got->reason == (int)row->reason &&
	       (row->spec.padded_to || got->bytes == frame->len);
}

static bool run_row(struct filtered *f, const struct row *row)
{
	static struct frame frame;
	struct outcome got = { 0 };

	frame_build(&row->spec, &frame);
	if (play(f, &frame, &got) && is_right(row, &frame, &got))
		return true;
	printf("# %s: wanted %s, delivered %u, counted %s, %llu of %u bytes\n", row->what,
	       reason_name(row->reason), got.delivered, reason_name(got.reason),
	       (unsigned long long)got.bytes, frame.len);
	return false;
}

static void test_rows(struct filtered *f)
{
	static const struct table *const tables[] = {
		&ethernet_table, &network_table, &transport_table, &qp_table,
		&psn_table,	 &key_table,	 &range_table,
	};

	for (unsigned i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		bool ok = true;

		for (unsigned r = 0; r < tables[i]->count; r++)
			ok &= run_row(f, &tables[i]->rows[r]);
		TAP_OK(ok, "socket filter: %u rows of the table \"%s\"", tables[i]->count,
		       tables[i]->name);
	}
}

/* Reasons before the BTH that the kernel leaves to the filter */
static void test_network(struct filtered *f)
{
	static const struct row rows[] = {
		{ "reserved flag", DROP, XR_IP_RESERVED, { .patch = { { AT_IP, 6, 2, 0x8000 } } } },
		{ "TTL 0", DROP, XR_IP_TTL, { .patch = { { AT_IP, 8, 1, 0 } } } },
		{ "hop limit 0", DROP, XR_IP_TTL, { .v6 = true, .patch = { { AT_IP, 7, 1, 0 } } } },
		{ "UDP one word too short", DROP, XR_UDP_LEN, { .udp_len_delta = -4 } },
	};
	static struct frame frame;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct outcome got = { 0 };

		frame_build(&rows[i].spec, &frame);
		TAP_OK(play(f, &frame, &got) && !got.delivered && got.reason == (int)rows[i].reason,
		       "socket filter: %s: %s", rows[i].what, reason_name((int)rows[i].reason));
	}
}

static void test_all_opcodes(struct filtered *f)
{
	static struct frame frame;
	bool ok = true;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		struct spec spec = { OP(opcode) };
		struct row row = { "opcode", DROP, XR_BAD_OPCODE, { 0 } };
		struct outcome got = { 0 };

		if (opcode_flags((uint8_t)opcode))
			row = (struct row){ "opcode", REDIRECT, XR_OK, { 0 } };
		frame_build(&spec, &frame);
		ok &= play(f, &frame, &got) && is_right(&row, &frame, &got);
	}
	TAP_OK(ok, "socket filter: all 256 opcodes");
}

/* ---- joined frames --------------------------------------------------------------------------- */

/* Packets with the same length behind UDP */
static const struct spec good = {}, no_qp = { .qp = QP_MISSING }, in_err = { .qp = QP_ERR };
static const struct spec far = { .psn_off = 3 << 21 }, partition = { .pkey_xor = 1 };
static const struct spec shorter = { .payload = 8, .qp = QP_MISSING };

static bool send_joined(const struct filtered *f, const struct spec *const *specs, uint32_t n)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(XR_UDP_PORT) };
	char control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	static uint8_t bytes[65536];
	static struct frame frame;
	struct iovec iov = { .iov_base = bytes };
	struct msghdr msg = { .msg_name = &to,
			      .msg_namelen = sizeof(to),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	uint16_t size;

	memcpy(&to.sin_addr, local4, sizeof(local4));
	frame_build(specs[0], &frame);
	size = (uint16_t)(frame.len - frame.bth);
	for (uint32_t i = 0; i < n; i++) {
		frame_build(specs[i], &frame);
		memcpy(bytes + iov.iov_len, frame.data + frame.bth, frame.len - frame.bth);
		iov.iov_len += frame.len - frame.bth;
	}
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(size)),
			       .cmsg_level = IPPROTO_UDP,
			       .cmsg_type = UDP_SEGMENT };
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	return sendmsg(f->sender, &msg, 0) == (ssize_t)iov.iov_len;
}

/* Returns the number of datagrams that arrive, or -1. */
static int play_joined(struct filtered *f, const struct spec *const *specs, uint32_t n)
{
	const struct spec *one = &sentinel;
	static struct frame last;

	frame_build(&sentinel, &last);
	if (!send_joined(f, specs, n) || !send_joined(f, &one, 1))
		return -1;
	return receive(f, &last);
}

static bool counted(struct filtered *f, enum xr_reason reason, uint64_t packets)
{
	struct xr_stat stat;

	xd_tables_stat(f->tables, reason, &stat);
	return stat.packets - f->before[reason].packets == packets;
}

static bool nothing_counted(struct filtered *f)
{
	struct xr_stat after[XR_REASON_COUNT];

	read_stats(f, after);
	return !memcmp(after, f->before, sizeof(after));
}

static void test_joined(struct filtered *f)
{
	const struct spec *all_good[] = { &good, &good, &good, &good };
	const struct spec *all_bad[] = { &no_qp, &in_err, &no_qp, &far, &partition, &shorter };
	const struct spec *mixed[] = { &no_qp, &in_err, &good, &far };
	const struct spec *many[MOST + 1];

	TAP_OK(play_joined(f, all_good, 4) == 1 && nothing_counted(f),
	       "socket filter: a frame of valid packets is kept, and counted by user space");
	TAP_OK(play_joined(f, mixed, 4) == 1 && nothing_counted(f),
	       "socket filter: so is a frame with a valid packet");
	TAP_OK(play_joined(f, all_bad, 6) == 0 && counted(f, XR_NO_QP, 3) &&
		       counted(f, XR_QP_STATE, 1) && counted(f, XR_PSN_WINDOW, 1) &&
		       counted(f, XR_PKEY, 1),
	       "socket filter: a frame of invalid packets is dropped, each counted under its "
	       "reason");
	read_stats(f, f->before);
	for (int i = 0; i < MOST + 1; i++)
		many[i] = &no_qp;
	TAP_OK(play_joined(f, many, MOST) == 0 && counted(f, XR_NO_QP, MOST),
	       "socket filter: %u invalid packets", MOST);
	read_stats(f, f->before);
	/* Linux 6.9 sends up to 128 at once */
	if (send_joined(f, many, MOST + 1)) {
		TAP_OK(play_joined(f, many, 1) == 1 && counted(f, XR_NO_QP, 1),
		       "socket filter: a frame with more packets is left to user space");
		read_stats(f, f->before);
	} else {
		tap_skip("socket filter: a frame with more packets", strerror(errno));
	}
}

/* ---- with user space -------------------------------------------------------------------- */

static bool check_in_user_space(struct filtered *f, struct xd_verdict *v, const struct spec *spec)
{
	static struct frame frame;
	struct outcome got = { 0 };
	struct xr_meta meta;
	struct xd_headers h;

	frame_build(spec, &frame);
	h = (struct xd_headers){ .bytes = frame.data, .copied = frame.len, .len = frame.len };
	return play(f, &frame, &got) && (!got.delivered || xd_verdict(v, &h, 0, &meta));
}

static uint64_t packets(struct filtered *f, enum xr_reason reason)
{
	struct xr_stat stat;

	xd_tables_stat(f->tables, reason, &stat);
	return stat.packets;
}

static void test_both(struct filtered *f)
{
	uint64_t taken = packets(f, XR_OK), dropped = packets(f, XR_NO_QP);
	struct xd_verdict *v;
	bool ok = !xd_verdict_new(xd_filter_memory(f->filter), 0, &v);

	for (int i = 0; i < 3 && ok; i++)
		ok = check_in_user_space(f, v, &good) && check_in_user_space(f, v, &no_qp);
	TAP_OK(ok && packets(f, XR_OK) == taken + 3 && packets(f, XR_NO_QP) == dropped + 3,
	       "socket filter: each packet is counted once, by the filter or by user space");
	xd_verdict_free(v);
	read_stats(f, f->before);
}

static bool map_has(const struct filtered *f, const char *map, const void *key, void *value)
{
	char path[128];
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", xd_filter_pins(f->filter), map);
	fd = bpf_obj_get(path);
	err = fd < 0 || bpf_map_lookup_elem(fd, key, value);
	close(fd);
	return !err;
}

static void test_maps(struct filtered *f)
{
	uint32_t qpn = test_qpn(QP_RC4), index = XR_KEY_INDEX(test_rkey(KEY_FULL));
	struct xr_qp_entry qp, want_qp = test_qp_entry(QP_RC4);
	static const struct spec unreliable = { OP(UC(SEND_ONLY)) };
	struct xr_key_entry key, want_key = test_key_entry(KEY_FULL);
	static struct frame frame;
	struct outcome got = { 0 };

	TAP_OK(map_has(f, "qps", &qpn, &qp) && !memcmp(&qp, &want_qp, sizeof(qp)) &&
		       map_has(f, "keys", &index, &key) && !memcmp(&key, &want_key, sizeof(key)),
	       "socket filter: the pinned maps show QPs and keys");
	frame_build(&unreliable, &frame);
	TAP_OK(!xd_tables_del_qp(f->tables, frame.qpn) && !map_has(f, "qps", &frame.qpn, &qp) &&
		       play(f, &frame, &got) && !got.delivered && got.reason == XR_NO_QP,
	       "socket filter: a QP that is destroyed is in no map");
}

static void on_refused(void *arg, const struct xr_refused *r)
{
	*(struct xr_refused *)arg = *r;
}

static void test_reports(struct filtered *f)
{
	struct spec specs[] = { { .qp = QP_MISSING }, { .qp = QP_MISSING, .v6 = true } };
	struct xr_refused r = { 0 };
	static struct frame frame;
	struct outcome got;

	xd_tables_report_refused(f->tables, true);
	for (int i = 0; i < 2; i++) {
		frame_build(&specs[i], &frame);
		TAP_OK(play(f, &frame, &got) && !xd_tables_refused(f->tables, 10, on_refused, &r) &&
			       r.reason == XR_NO_QP && r.length == frame.len &&
			       r.qpn == frame.qpn && r.ip_off == frame.ip &&
			       r.bth_off == frame.bth && r.ip_version == frame.ip_version &&
			       r.captured == (frame.len < 132 ? frame.len : 132) &&
			       !memcmp(r.bytes + 12, frame.data + 12, r.captured - 12u),
		       "socket filter: a report of a dropped packet, IPv%u", frame.ip_version);
	}
	xd_tables_report_refused(f->tables, false);
}

static void test_naks(void)
{
	static const struct spec forged = { OP(RC(WRITE_ONLY)), .key_xor = 1 };
	struct filtered f = { 0 };
	static struct frame frame;
	struct outcome got = { 0 };
	bool ok = open_filtered(&f, 1);

	frame_build(&forged, &frame);
	for (int i = 0; i < 3 && ok; i++)
		ok = play(&f, &frame, &got);
	TAP_OK(ok && !got.delivered && got.reason == XR_RATE_LIMIT,
	       "socket filter: packets that require a NAK are limited");
	close_filtered(&f);
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Returns true if the frame is delivered, or dropped for a reason. XR_OK: delivered */
static bool slot_gets(struct filtered *f, const struct spec *spec, enum xr_reason reason)
{
	static struct frame frame;
	struct outcome got = { 0 };

	frame_build(spec, &frame);
	if (!play(f, &frame, &got))
		return false;
	return reason == XR_OK ? got.delivered == 1 && got.reason == -1
			       : !got.delivered && got.reason == (int)reason;
}

/* QPs that the program has published, of one slot: their QPNs are odd */
static void test_slot_qps(struct filtered *f)
{
	static const struct spec even = { .v6 = true };
	static const struct spec multicast = {
		OP(UD(SEND_ONLY)),
		.patch = { { AT_IP, 16, 4, 0xef010101 }, { AT_BTH, 5, 3, XR_MULTICAST_QPN } },
	};
	struct xr_addr group = gid4(group4);
	struct xr_qp_entry qp = test_qp_entry(QP_RC4);

	TAP_OK(slot_gets(f, &good, XR_OK) && slot_gets(f, &even, XR_NO_QP),
	       "filter of a slot: packets to its QPNs only");
	qp.slot = XR_NO_PSNS;
	TAP_OK(slot_gets(f, &far, XR_PSN_WINDOW) &&
		       !xd_filter_publish_qp(f->filter, test_qpn(QP_RC4), &qp) &&
		       slot_gets(f, &far, XR_OK),
	       "filter of a slot: sequence numbers are left to the program");
	TAP_OK(!xd_tables_del_addr(f->tables, &group) && slot_gets(f, &multicast, XR_OK),
	       "filter of a slot: and so are the groups that it has joined");
}

static void test_slot_keys(struct filtered *f)
{
	static const struct spec right = { OP(UC(WRITE_ONLY)) };
	static const struct spec stale = { OP(UC(WRITE_ONLY)), .key_xor = 1 };
	uint32_t index = XR_KEY_INDEX(test_rkey(KEY_FULL));
	struct xr_key_entry key = test_key_entry(KEY_FULL);

	TAP_OK(slot_gets(f, &right, XR_KEY_INDEX) &&
		       !xd_filter_publish_key(f->filter, 1, index, &key) &&
		       slot_gets(f, &right, XR_KEY_INDEX) &&
		       !xd_filter_publish_key(f->filter, 0, index, &key) &&
		       slot_gets(f, &right, XR_OK) && slot_gets(f, &stale, XR_KEY_VARIANT),
	       "filter of a slot: keys of this program, not of the daemon or another program");
	key.flags |= XR_KEYF_PROGRAM;
	TAP_OK(!xd_filter_publish_key(f->filter, 0, index, &key) && slot_gets(f, &stale, XR_OK),
	       "filter of a slot: keys that work requests change are left to the program");
	TAP_OK(!xd_filter_publish_key(f->filter, 0, index, NULL) &&
		       !xd_filter_publish_key(f->filter, 0, index, NULL) &&
		       slot_gets(f, &right, XR_KEY_INDEX) &&
		       !xd_filter_set_slot(f->filter, f->udp, 0, 1, XR_SLOT_MORE_KEYS) &&
		       slot_gets(f, &right, XR_OK),
	       "filter of a slot: unknown keys of a program that has more");
}

static void test_slots(void)
{
	struct filtered f = { .opt.slots = 2 };
	bool ok = open_filtered(&f, 1000000);

	if (TAP_OK(ok && !xd_filter_attach_slot(f.filter, f.udp, 0, 1),
		   "filter of a slot: it loads")) {
		test_slot_qps(&f);
		test_slot_keys(&f);
	}
	close_filtered(&f);
}

/* In a process of its own */
static void test_privileges(void)
{
	struct xd_options opt = { .name = "xr_filtered", .max_qp = 255, .max_mr = 1024 };
	struct xd_filter *filter;
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(setresuid(65534, 65534, 65534) || xd_filter_new(&opt, &filter) != -EPERM);
	TAP_OK(pid > 0 && waitpid(pid, &status, 0) == pid && !status,
	       "socket filter: not permitted without privileges");
}

void test_filter(void)
{
	struct filtered f = { 0 };

	test_privileges();
	if (!TAP_OK(make_net() && open_filtered(&f, 1000000), "socket filter: it loads")) {
		printf("# %s\n", strerror(errno));
		close_filtered(&f);
		remove_net();
		return;
	}
	test_rows(&f);
	test_network(&f);
	test_all_opcodes(&f);
	test_joined(&f);
	test_both(&f);
	test_reports(&f);
	test_maps(&f);
	close_filtered(&f);
	test_naks();
	test_slots();
	remove_net();
}
