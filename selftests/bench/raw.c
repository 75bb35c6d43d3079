// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>

/* Linux 6.6; the headers of some supported distributions are older. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

#define MAX_PARTS 4 /* of a frame */

void raw_die(const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
		strerror(err < 0 ? -err : err));
	exit(1);
}

static void enter_netns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		raw_die(path, errno);
	close(fd);
}

/* Pins the process to the @nth of the allowed CPUs, if there are at least two. */
void raw_take_cpu(unsigned nth)
{
	cpu_set_t allowed, one;
	unsigned seen = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || seen++ != nth)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

/* return bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS) */
static int load_program(int xsks)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_W,
		  .dst_reg = 2,
		  .src_reg = 1,
		  .off = offsetof(struct xdp_md, rx_queue_index) },
		{ .code = BPF_LD | BPF_DW | BPF_IMM,
		  .dst_reg = 1,
		  .src_reg = BPF_PSEUDO_MAP_FD,
		  .imm = xsks },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = BPF_F_XDP_HAS_FRAGS);

	return bpf_prog_load(BPF_PROG_TYPE_XDP, "ceiling", "GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &opts);
}

void raw_attach(const struct raw_side *s, const char *ifname, int prog, int xsks, uint32_t flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = flags);
	uint32_t queue = 0;

	if (bpf_map_update_elem(xsks, &queue, &s->fd, 0))
		raw_die("socket into map", errno);
	/* The kernel removes a link when the process ends. */
	if (bpf_link_create(prog, (int)if_nametoindex(ifname), BPF_XDP, &opts) < 0)
		raw_die("attach the XDP program", errno);
}

/*
 * Retries on EBUSY: a queue stays busy for a moment after its last socket was closed. Before Linux
 * 6.6 a frame is in one buffer.
 */
static int make_socket(struct raw_side *s, const char *ifname)
{
	struct xsk_socket_config cfg = {
		.rx_size = s->ring,
		.tx_size = s->ring,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP | XDP_USE_SG,
	};
	int err = 0;

	for (int tries = 0; tries < 100; tries++) {
		err = xsk_socket__create(&s->xsk, ifname, 0, s->umem, &s->rx, &s->tx, &cfg);
		if (err == -EINVAL && cfg.bind_flags & XDP_USE_SG) {
			cfg.bind_flags &= (uint16_t)~XDP_USE_SG;
			continue;
		}
		if (err != -EBUSY)
			break;
		usleep(20000);
	}
	return err;
}

/* As many chunks for sending as for receiving */
static size_t area_size(const struct raw_side *s)
{
	return 2ull * s->ring * RAW_CHUNK;
}

void raw_open_socket(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring)
{
	const struct xsk_umem_config cfg = {
		.fill_size = 2 * ring, /* the kernel releases entries late */
		.comp_size = ring,
		.frame_size = RAW_CHUNK,
	};
	uint32_t idx = 0;
	int err;

	memset(s, 0, sizeof(*s));
	s->ring = ring;
	enter_netns(netns);
	s->area = mmap(NULL, area_size(s), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->area == MAP_FAILED)
		raw_die("memory", errno);
	err = xsk_umem__create(&s->umem, s->area, area_size(s), &s->fill, &s->comp, &cfg);
	if (err)
		raw_die("umem", err);
	err = make_socket(s, ifname);
	if (err)
		raw_die(ifname, err);
	s->fd = xsk_socket__fd(s->xsk);
	s->tx_free = s->ring;
	xsk_ring_prod__reserve(&s->fill, s->ring, &idx);
	for (uint32_t i = 0; i < s->ring; i++)
		*xsk_ring_prod__fill_addr(&s->fill, idx + i) = (uint64_t)(s->ring + i) * RAW_CHUNK;
	xsk_ring_prod__submit(&s->fill, s->ring);
}

static void open_with(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring,
		      uint32_t flags)
{
	int xsks, prog;

	raw_open_socket(s, netns, ifname, ring);
	xsks = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "xsks", 4, 4, 1, NULL);
	if (xsks < 0)
		raw_die("map", xsks);
	prog = load_program(xsks);
	if (prog < 0)
		raw_die("XDP program", prog);
	raw_attach(s, ifname, prog, xsks, flags);
}

void raw_open(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring)
{
	open_with(s, netns, ifname, ring, XDP_FLAGS_DRV_MODE);
}

void raw_open_generic(struct raw_side *s, const char *netns, const char *ifname, uint32_t ring)
{
	open_with(s, netns, ifname, ring, XDP_FLAGS_SKB_MODE);
}

void raw_close(struct raw_side *s)
{
	xsk_socket__delete(s->xsk);
	xsk_umem__delete(s->umem);
	munmap(s->area, area_size(s));
}

void raw_reap(struct raw_side *s)
{
	uint32_t idx, n = xsk_ring_cons__peek(&s->comp, s->ring, &idx);

	if (n) {
		xsk_ring_cons__release(&s->comp, n);
		s->tx_free += n;
	}
}

void raw_kick(struct raw_side *s)
{
	if (!xsk_ring_prod__needs_wakeup(&s->tx))
		return;
	if (sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN &&
	    errno != EBUSY && errno != ENOBUFS)
		raw_die("send", errno);
}

/* The EtherType is a local experimental one, which no protocol stack receives. */
const uint8_t raw_header[RAW_HEADER] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };

/* Describes the chunks of the next frame, which complete in the order of sending. */
static void describe(struct raw_side *s, uint32_t idx, uint32_t size, uint8_t **chunk)
{
	struct xdp_desc *desc;

	for (; size; idx++, chunk++, size -= desc->len) {
		desc = xsk_ring_prod__tx_desc(&s->tx, idx);
		desc->addr = (uint64_t)(s->tx_next++ % s->ring) * RAW_CHUNK;
		desc->len = size < RAW_CHUNK ? size : RAW_CHUNK;
		desc->options = size > RAW_CHUNK ? XDP_PKT_CONTD : 0;
		*chunk = s->area + desc->addr;
	}
}

uint32_t raw_send(struct raw_side *s, uint32_t size, uint32_t max, raw_fill_fn *fill, void *arg)
{
	uint32_t parts = (size + RAW_CHUNK - 1) / RAW_CHUNK, n = s->tx_free / parts, idx;
	uint8_t *chunk[MAX_PARTS];

	if (n > max)
		n = max;
	if (!n || !xsk_ring_prod__reserve(&s->tx, n * parts, &idx))
		return 0;
	for (uint32_t f = 0; f < n; f++, idx += parts) {
		describe(s, idx, size, chunk);
		memcpy(chunk[0], raw_header, RAW_HEADER);
		if (fill)
			fill(arg, chunk);
	}
	xsk_ring_prod__submit(&s->tx, n * parts);
	s->tx_free -= n * parts;
	return n;
}

/* Other programs send frames as well, such as those of IPv6 autoconfiguration. */
static bool is_own(struct raw_side *s, const uint8_t *data, const struct xdp_desc *desc)
{
	if (!s->inside)
		s->foreign = desc->len < RAW_HEADER || memcmp(data, raw_header, 2 * ETH_ALEN);
	s->inside = desc->options & XDP_PKT_CONTD;
	return !s->foreign;
}

uint32_t raw_receive(struct raw_side *s, raw_take_fn *take, void *arg)
{
	uint32_t idx, fidx, frames = 0, n = xsk_ring_cons__peek(&s->rx, s->ring, &idx);

	if (!n)
		return 0;
	if (!xsk_ring_prod__reserve(&s->fill, n, &fidx))
		raw_die("fill ring", ENOSPC);
	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&s->rx, idx + i);
		uint8_t *data = s->area + desc->addr;

		if (is_own(s, data, desc)) {
			frames += !s->inside;
			if (take)
				take(arg, data, desc->len, !s->inside);
		}
		*xsk_ring_prod__fill_addr(&s->fill, fidx + i) = desc->addr & ~(RAW_CHUNK - 1ull);
	}
	xsk_ring_cons__release(&s->rx, n);
	xsk_ring_prod__submit(&s->fill, n);
	return frames;
}

void raw_wait_for_peers(struct raw_control *m, int sides, pid_t child)
{
	__atomic_add_fetch(&m->ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&m->ready, __ATOMIC_ACQUIRE) < sides) {
		if (child && waitpid(child, NULL, WNOHANG))
			exit(1);
		sched_yield();
	}
}

bool raw_running(const struct raw_control *m)
{
	return !__atomic_load_n(&m->over, __ATOMIC_ACQUIRE);
}

void raw_stop(struct raw_control *m)
{
	__atomic_store_n(&m->over, true, __ATOMIC_RELEASE);
}
