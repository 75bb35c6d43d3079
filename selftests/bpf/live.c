// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The program attached to one end of a veth pair, with an AF_XDP socket. The test sends frames from
 * the other end.
 *
 *     packet socket -- xrt0 ===== xrt1 -- XDP program -- AF_XDP socket, queue 0
 *                                              \------- packet socket (frames for the kernel)
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <xdp/xsk.h>

#include "fixture.h"
#include "selftests/lib/tap.h"
#include "suites.h"
#include "xroce.skel.h"

#define CHUNKS 64
#define CHUNK 4096
#define HEADROOM 64
#define PATIENCE_MS 20000
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

struct live {
	const char *mode;
	uint32_t attach_flags;
	const char *program;
	struct fixture f;
	int link;
	int sender, kernel; /* packet sockets on xrt0 and xrt1 */
	uint8_t *area;
	struct xsk_umem *umem;
	struct xsk_socket *xsk;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons comp, rx;
};

static bool make_pair(void)
{
	return !system("ip link add xrt0 mtu 3498 type veth peer name xrt1 mtu 3498 && "
		       "ip link set xrt0 up && ip link set xrt1 up");
}

static void remove_pair(void)
{
	if (system("ip link del xrt0"))
		printf("# xrt0 could not be removed\n");
}

static int packet_socket(const char *ifname)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET,
				    .sll_protocol = htons(ETH_P_ALL),
				    .sll_ifindex = if_nametoindex(ifname) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));

	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool make_xsk(struct live *l, uint16_t bind_flags)
{
	const struct xsk_umem_config umem = { .fill_size = CHUNKS,
					      .comp_size = CHUNKS,
					      .frame_size = CHUNK,
					      .frame_headroom = HEADROOM };
	const struct xsk_socket_config config = {
		.rx_size = CHUNKS,
		.tx_size = CHUNKS,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = bind_flags,
	};
	uint32_t i, at = 0;

	l->area = mmap(NULL, CHUNKS * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (l->area == MAP_FAILED)
		return false;
	if (xsk_umem__create(&l->umem, l->area, CHUNKS * CHUNK, &l->fill, &l->comp, &umem) ||
	    xsk_socket__create(&l->xsk, "xrt1", 0, l->umem, &l->rx, &l->tx, &config))
		return false;
	xsk_ring_prod__reserve(&l->fill, CHUNKS, &at);
	for (i = 0; i < CHUNKS; i++)
		*xsk_ring_prod__fill_addr(&l->fill, at + i) = i * CHUNK;
	xsk_ring_prod__submit(&l->fill, CHUNKS);
	return true;
}

static bool attach(struct live *l)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = l->attach_flags);
	const struct bpf_program *prog = fixture_program(&l->f, l->program);
	uint32_t queue = 0;
	int fd = xsk_socket__fd(l->xsk);

	if (bpf_map_update_elem(bpf_map__fd(l->f.skel->maps.xsks), &queue, &fd, BPF_ANY))
		return false;
	l->link = bpf_link_create(bpf_program__fd(prog), if_nametoindex("xrt1"), BPF_XDP, &opts);
	return l->link >= 0;
}

static bool open_live(struct live *l, uint16_t bind_flags)
{

	l->link = l->sender = l->kernel = -1;
	if (!fixture_open(&l->f, TEST_NAK_RATE) || !make_xsk(l, bind_flags) || !attach(l))
		return false;
	l->sender = packet_socket("xrt0");
	l->kernel = packet_socket("xrt1");
	return l->sender >= 0 && l->kernel >= 0;
}

static void close_live(struct live *l)
{
	if (l->link >= 0)
		close(l->link);
	xsk_socket__delete(l->xsk);
	xsk_umem__delete(l->umem);
	if (l->area && l->area != MAP_FAILED)
		munmap(l->area, CHUNKS * CHUNK);
	if (l->sender >= 0)
		close(l->sender);
	if (l->kernel >= 0)
		close(l->kernel);
	fixture_close(&l->f);
}

static bool send_frame(struct live *l, const struct spec *spec, struct frame *frame)
{
	frame_build(spec, frame);
	return send(l->sender, frame->data, frame->len, 0) == (ssize_t)frame->len;
}

/* Receives one frame and compares its segments with the frame that was sent. */
static bool take_frame(struct live *l, const struct frame *frame, struct xr_meta *meta)
{
	struct pollfd pfd = { .fd = xsk_socket__fd(l->xsk), .events = POLLIN };
	uint32_t at, off = 0, n, i;
	bool ok = true;

	if (poll(&pfd, 1, PATIENCE_MS) <= 0)
		return false;
	n = xsk_ring_cons__peek(&l->rx, CHUNKS, &at);
	for (i = 0; i < n && ok; i++) {
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&l->rx, at + i);
		const uint8_t *data = l->area + desc->addr;

		if (!i)
			memcpy(meta, data - sizeof(*meta), sizeof(*meta));
		ok = off + desc->len <= frame->len && !memcmp(frame->data + off, data, desc->len) &&
		     !!(desc->options & XDP_PKT_CONTD) == (i + 1 < n);
		off += desc->len;
	}
	xsk_ring_cons__release(&l->rx, n);
	return ok && off == frame->len;
}

static bool meta_matches(const struct xr_meta *meta, const struct frame *frame,
			 enum xr_reason reason)
{
	return meta->magic == XR_META_MAGIC && meta->reason == reason &&
	       meta->ip_version == frame->ip_version && meta->ip_off == frame->ip &&
	       meta->bth_off == frame->bth && meta->payload_off == frame->payload &&
	       meta->payload_len == frame->payload_len && meta->qpn == frame->qpn;
}

static void check_delivered(struct live *l, const char *what, const struct spec *spec,
			    enum xr_reason reason)
{
	static struct frame frame;
	struct xr_meta meta = {};

	if (!TAP_OK(send_frame(l, spec, &frame) && take_frame(l, &frame, &meta),
		    "%s: %s: every byte arrives", l->mode, what))
		return;
	TAP_OK(meta_matches(&meta, &frame, reason), "%s: %s: the metadata is correct", l->mode,
	       what);
}

/* Waits for the frame. The kernel also gets other frames (neighbour discovery, MLD). */
static bool kernel_got(struct live *l, const struct frame *frame)
{
	struct pollfd pfd = { .fd = l->kernel, .events = POLLIN };
	static uint8_t buf[FRAME_MAX];

	while (poll(&pfd, 1, PATIENCE_MS) > 0)
		if (recv(l->kernel, buf, sizeof(buf), 0) == (ssize_t)frame->len &&
		    !memcmp(buf, frame->data, frame->len))
			return true;
	return false;
}

static void check_passed(struct live *l, const char *what, const struct spec *spec)
{
	static struct frame frame;

	TAP_OK(send_frame(l, spec, &frame) && kernel_got(l, &frame), "%s: %s: passed to the kernel",
	       l->mode, what);
}

/* Sends the frame and then a valid one, and checks that only the valid one arrives. */
static void check_dropped(struct live *l, const char *what, const struct spec *spec,
			  enum xr_reason reason)
{
	struct xr_stat before[XR_REASON_COUNT], after[XR_REASON_COUNT];
	static struct frame frame;
	const struct spec valid = { .payload = 4 };
	struct xr_meta meta;
	bool ok;

	ok = fixture_stats(&l->f, before) && send_frame(l, spec, &frame) &&
	     send_frame(l, &valid, &frame) && take_frame(l, &frame, &meta) &&
	     fixture_stats(&l->f, after);
	TAP_OK(ok && after[reason].packets == before[reason].packets + 1,
	       "%s: %s: dropped and counted", l->mode, what);
}

static const struct spec small = {}, v6 = { .v6 = true, .tags = 0 };
static const struct spec write1024 = { OP(RC(WRITE_FIRST)), .dma_len = 4096 };
static const struct spec forged = { OP(RC(WRITE_ONLY)), .key_xor = 1 };
static const struct spec stray = { .qp = QP_MISSING };
static const struct spec tcp = { .patch = { { AT_IP, 9, 1, 6 } } };
static const struct spec elsewhere = { .patch = { { AT_IP, 19, 1, 9 } } };
static const struct spec large = { OP(RC(SEND_FIRST)), .qp = QP_MTU4096, .payload = 4096 };

static void check_mode(struct live *l)
{
	if (!TAP_OK(open_live(l, XDP_COPY), "%s: program is attached", l->mode)) {
		printf("# %s\n", strerror(errno));
		close_live(l);
		return;
	}
	check_delivered(l, "SEND", &small, XR_OK);
	check_delivered(l, "SEND over IPv6", &v6, XR_OK);
	check_delivered(l, "WRITE of a path MTU", &write1024, XR_OK);
	check_delivered(l, "stale R_Key", &forged, XR_KEY_VARIANT);
	check_dropped(l, "QP that does not exist", &stray, XR_NO_QP);
	check_passed(l, "TCP", &tcp);
	check_passed(l, "RoCE v2 for another host", &elsewhere);
	close_live(l);
}

/* Kernels before 6.6 refuse sockets with XDP_USE_SG. */
static void check_multi_buffer(struct live *l)
{
	if (system("ip link set xrt0 mtu 9000 && ip link set xrt1 mtu 9000"))
		return;
	if (open_live(l, XDP_COPY | XDP_USE_SG))
		check_delivered(l, "SEND of 4096 bytes", &large, XR_OK);
	else
		tap_skip("multi-buffer frames", "kernel without multi-buffer AF_XDP sockets");
	close_live(l);
}

void test_live(void)
{
	struct live native = { .mode = "native",
			       .attach_flags = XDP_FLAGS_DRV_MODE,
			       .program = "xroce" };
	struct live frags = { .mode = "native, frags",
			      .attach_flags = XDP_FLAGS_DRV_MODE,
			      .program = "xroce_frags" };
	struct live generic = { .mode = "generic",
				.attach_flags = XDP_FLAGS_SKB_MODE,
				.program = "xroce" };
	struct live gso = { .mode = "generic, gso",
			    .attach_flags = XDP_FLAGS_SKB_MODE,
			    .program = "xroce_gso" };
	struct live jumbo = { .mode = "jumbo, frags",
			      .attach_flags = XDP_FLAGS_DRV_MODE,
			      .program = "xroce_frags" };

	if (!TAP_OK(make_pair(), "a veth pair"))
		return;
	check_mode(&native);
	check_mode(&frags);
	check_mode(&generic);
	if (fixture_gso_possible())
		check_mode(&gso);
	else
		tap_skip("generic mode, GSO frames", "Linux before 6.2");
	check_multi_buffer(&jumbo);
	remove_pair();
}
