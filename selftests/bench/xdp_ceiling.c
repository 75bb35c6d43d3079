// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Measures the packet rate and latency of two bare AF_XDP sockets in two network namespaces, in
 * native copy mode, which veth supports. They are upper bounds for xroce.
 *
 *   xdp_ceiling NETNS-FILE IF NETNS-FILE IF SECONDS BYTES
 *
 * Sends frames of BYTES one way and prints "rate BYTES PACKETS-PER-SECOND", tab-separated. With
 * BYTES 0, sends a frame of 64 bytes back and forth, both sides spinning, and prints half of the
 * time of round trips in us, one a line, sorted: all of them, or evenly spaced ones of many.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <xdp/xsk.h>

#include "../lib/clock.h"

/* Linux 6.6; the headers of some supported distributions are older. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif
#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

#define CHUNK 4096
#define RING 64 /* small: stays in the cache and limits the sender */
#define CHUNKS (2 * RING)
#define PING_SIZE 64
#define MAX_PINGS (1 << 20)
#define MAX_PRINTED 20000
#define WARM_UP_NS 100000000ull

/* Shared by the two processes */
struct control {
	int ready; /* number of sides that are set up */
	bool over;
};

struct side {
	struct xsk_umem *umem;
	struct xsk_socket *xsk;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons comp, rx;
	uint8_t *area;
	int fd;
	uint32_t size;	  /* of the frames to count, at most CHUNK; 0: all */
	uint32_t tx_free; /* chunks [0, RING) are for sending, the others for receiving */
	uint32_t tx_next;
};

static void die(const char *what, int err)
{
	fprintf(stderr, "xdp_ceiling: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

static void enter_netns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path, errno);
	close(fd);
}

/* Pins the process to the @nth of the allowed CPUs, if there are at least two. */
static void take_cpu(unsigned nth)
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

/* Attaches the XDP program by a link, which the kernel removes when the process ends. */
static void attach(const struct side *s, unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
	uint32_t queue = 0;
	int map, prog;

	map = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "xsks", 4, 4, 1, NULL);
	if (map < 0)
		die("map", map);
	prog = load_program(map);
	if (prog < 0)
		die("XDP program", prog);
	if (bpf_map_update_elem(map, &queue, &s->fd, 0))
		die("socket into map", errno);
	if (bpf_link_create(prog, (int)ifindex, BPF_XDP, &opts) < 0)
		die("attach in native mode", errno);
}

/* Retries on EBUSY: a queue stays busy for a moment after its last socket was closed. */
static int make_socket(struct side *s, const char *ifname)
{
	const struct xsk_socket_config cfg = {
		.rx_size = RING,
		.tx_size = RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP | XDP_USE_SG,
	};
	int err = 0;

	for (int tries = 0; tries < 100; tries++) {
		err = xsk_socket__create(&s->xsk, ifname, 0, s->umem, &s->rx, &s->tx, &cfg);
		if (err != -EBUSY)
			break;
		usleep(20000);
	}
	return err;
}

static void open_side(struct side *s, const char *netns, const char *ifname)
{
	const struct xsk_umem_config cfg = {
		.fill_size = 2 * RING, /* the kernel releases entries late */
		.comp_size = RING,
		.frame_size = CHUNK,
	};
	uint32_t idx = 0;
	int err;

	memset(s, 0, sizeof(*s));
	enter_netns(netns);
	s->area = mmap(NULL, CHUNKS * CHUNK, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->area == MAP_FAILED)
		die("memory", errno);
	err = xsk_umem__create(&s->umem, s->area, CHUNKS * CHUNK, &s->fill, &s->comp, &cfg);
	if (err)
		die("umem", err);
	err = make_socket(s, ifname);
	if (err)
		die(ifname, err);
	s->fd = xsk_socket__fd(s->xsk);
	s->tx_free = RING;
	xsk_ring_prod__reserve(&s->fill, RING, &idx);
	for (uint32_t i = 0; i < RING; i++)
		*xsk_ring_prod__fill_addr(&s->fill, idx + i) = (uint64_t)(RING + i) * CHUNK;
	xsk_ring_prod__submit(&s->fill, RING);
	attach(s, if_nametoindex(ifname));
}

static void close_side(struct side *s)
{
	xsk_socket__delete(s->xsk);
	xsk_umem__delete(s->umem);
	munmap(s->area, CHUNKS * CHUNK);
}

static void reap(struct side *s)
{
	uint32_t idx, n = xsk_ring_cons__peek(&s->comp, RING, &idx);

	if (n) {
		xsk_ring_cons__release(&s->comp, n);
		s->tx_free += n;
	}
}

static void kick(struct side *s)
{
	if (!xsk_ring_prod__needs_wakeup(&s->tx))
		return;
	if (sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN &&
	    errno != EBUSY && errno != ENOBUFS)
		die("send", errno);
}

/* Writes an Ethernet header of a local experimental EtherType, which no protocol stack receives. */
static void fill_frame(uint8_t *chunk)
{
	static const uint8_t header[14] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };

	memcpy(chunk, header, sizeof(header));
}

/*
 * Queues up to @max frames, as many as there are free chunks. Chunks complete in the order of
 * sending.
 */
static void send_frames(struct side *s, uint32_t size, uint32_t max)
{
	uint32_t parts = (size + CHUNK - 1) / CHUNK, n = s->tx_free / parts, idx;

	if (n > max)
		n = max;
	if (!n || !xsk_ring_prod__reserve(&s->tx, n * parts, &idx))
		return;
	for (uint32_t f = 0; f < n; f++) {
		uint32_t left = size;

		for (uint32_t p = 0; p < parts; p++, idx++) {
			struct xdp_desc *desc = xsk_ring_prod__tx_desc(&s->tx, idx);

			desc->addr = (uint64_t)(s->tx_next++ % RING) * CHUNK;
			desc->len = left < CHUNK ? left : CHUNK;
			left -= desc->len;
			desc->options = left ? XDP_PKT_CONTD : 0;
			if (p == 0)
				fill_frame(s->area + desc->addr);
		}
	}
	xsk_ring_prod__submit(&s->tx, n * parts);
	s->tx_free -= n * parts;
}

/*
 * Receives all pending frames, returns their chunks to the fill ring and returns the number of
 * frames.
 */
static uint32_t receive_frames(struct side *s)
{
	uint32_t idx, fidx, frames = 0, n = xsk_ring_cons__peek(&s->rx, RING, &idx);

	if (!n)
		return 0;
	if (!xsk_ring_prod__reserve(&s->fill, n, &fidx))
		die("fill ring", ENOSPC);
	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&s->rx, idx + i);

		frames += !(desc->options & XDP_PKT_CONTD) && (!s->size || desc->len == s->size);
		*xsk_ring_prod__fill_addr(&s->fill, fidx + i) = desc->addr & ~(CHUNK - 1ull);
	}
	xsk_ring_cons__release(&s->rx, n);
	xsk_ring_prod__submit(&s->fill, n);
	return frames;
}

/*
 * Waits until both processes are ready. Exits if @child ends.
 * @child: the child process, or 0 in the child itself.
 */
static void wait_for_peer(struct control *m, pid_t child)
{
	__atomic_add_fetch(&m->ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&m->ready, __ATOMIC_ACQUIRE) < 2) {
		if (child && waitpid(child, NULL, WNOHANG))
			exit(1);
		sched_yield();
	}
}

static bool running(const struct control *m)
{
	return !__atomic_load_n(&m->over, __ATOMIC_ACQUIRE);
}

static void stop(struct control *m)
{
	__atomic_store_n(&m->over, true, __ATOMIC_RELEASE);
}

static void flood(struct side *s, struct control *m, uint32_t size)
{
	while (running(m)) {
		reap(s);
		send_frames(s, size, RING);
		kick(s);
	}
}

static double count_window(struct side *s, uint64_t duration)
{
	uint64_t start = now_ns(), frames = 0, t;

	do {
		for (int i = 0; i < 64; i++)
			frames += receive_frames(s);
		t = now_ns() - start;
	} while (t < duration);
	return (double)frames * 1e9 / (double)t;
}

static double count(struct side *s, struct control *m, uint64_t duration)
{
	double rate;

	count_window(s, WARM_UP_NS);
	rate = count_window(s, duration);
	stop(m);
	return rate;
}

static void pong(struct side *s, struct control *m)
{
	while (running(m)) {
		if (!receive_frames(s))
			continue;
		reap(s);
		send_frames(s, PING_SIZE, 1);
		kick(s);
	}
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void print_sorted(uint32_t *took, uint32_t n)
{
	uint32_t step = (n + MAX_PRINTED - 1) / MAX_PRINTED;

	qsort(took, n, sizeof(*took), by_value);
	for (uint32_t i = 0; i < n; i += step)
		printf("%.3f\n", took[i] / 2e3);
}

/* Repeats a ping without a reply: packets of other programs may have filled the ring. */
static void ping(struct side *s, struct control *m, uint64_t duration)
{
	uint32_t *took = malloc(MAX_PINGS * sizeof(*took)), n = 0;
	uint64_t start = now_ns(), t0, t = start;

	if (!took)
		die("memory", ENOMEM);
	while (t - start < duration && n < MAX_PINGS) {
		t0 = t;
		reap(s);
		send_frames(s, PING_SIZE, 1);
		kick(s);
		do {
			t = now_ns();
		} while (!receive_frames(s) && t - t0 < 100000000);
		t = now_ns();
		took[n++] = (uint32_t)(t - t0);
	}
	stop(m);
	print_sorted(took, n);
	free(took);
}

/* Runs one measurement; @size 0 is ping-pong. The parent receives and prints the result. */
static void measure(char **where, uint32_t size, uint64_t duration)
{
	struct control *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct side s;
	pid_t child;
	int status;

	if (m == MAP_FAILED)
		die("memory", errno);
	fflush(stdout);
	child = fork();
	if (child < 0)
		die("fork", errno);
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	take_cpu(child ? 0 : 1);
	open_side(&s, where[child ? 0 : 2], where[child ? 1 : 3]);
	s.size = size <= CHUNK ? size : 0;
	wait_for_peer(m, child);
	if (!child) {
		if (size)
			flood(&s, m, size);
		else
			pong(&s, m);
		_exit(0);
	}
	if (size)
		printf("rate\t%u\t%.0f\n", size, count(&s, m, duration));
	else
		ping(&s, m, duration);
	if (waitpid(child, &status, 0) != child || status)
		die("the child process failed", ECHILD);
	close_side(&s);
	munmap(m, sizeof(*m));
}

int main(int argc, char **argv)
{
	if (argc != 7 || atof(argv[5]) <= 0) {
		fprintf(stderr, "usage: xdp_ceiling NETNS-FILE IF NETNS-FILE IF SECONDS BYTES\n");
		return 2;
	}
	measure(argv + 1, (uint32_t)atoi(argv[6]), (uint64_t)(1e9 * atof(argv[5])));
	return 0;
}
