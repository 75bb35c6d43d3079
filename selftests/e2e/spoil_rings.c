// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * spoil_rings SOCKET: borrows a slot, and stores anything in the rings of captures in its view,
 * until its standard input ends: random indices, blocks that are nearly valid, holes. Prints
 * "ready" when it begins.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xroce/pcapng.h>
#include <xroce/view.h>

#include "hostile.h"

static uint8_t *view;
static const struct xr_direct_page *page;

static int make_view(void)
{
	int fd = memfd_create("view", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)XR_VIEW_SIZE_RINGS) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return -1;
	view = mmap(NULL, XR_VIEW_SIZE_RINGS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return view == MAP_FAILED ? -1 : fd;
}

static bool borrow(struct conn *c)
{
	const struct xr_lend_req q = { .flags = XR_LEND_VIEW };
	struct xr_lend_rep rep = { 0 };
	int fd = make_view();

	if (fd < 0 || !conn_open(c) ||
	    conn_call(c, XR_MSG_LEND, &q, sizeof(q), &fd, 1, &rep, sizeof(rep)))
		return false;
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, c->got_fd[rep.ports + 2], 0);
	return page != MAP_FAILED;
}

/* A block with options as the daemon writes them, in which often one byte is wrong */
static uint32_t put_block(uint8_t *at)
{
	struct xr_pcapng_packet h; /* a block may be at any address */
	const uint32_t flags = 1 + below(2), captured = below(200);
	uint8_t *end = at + sizeof(h) + xr_pcapng_padded(captured);

	end = xr_pcapng_option(end, XR_PCAPNG_COMMENT, "QP 1\033[2J, direct", 16);
	end = xr_pcapng_option(end, XR_PCAPNG_FLAGS, &flags, sizeof(flags));
	end = xr_pcapng_option(end, XR_PCAPNG_END, "", 0);
	h = (struct xr_pcapng_packet){
		.type = XR_PCAPNG_PACKET,
		.length = (uint32_t)(end - at) + 4,
		.time_high = (uint32_t)rnd(),
		.captured = captured,
		.original = captured,
	};
	memcpy(at, &h, sizeof(h));
	memcpy(end, &h.length, sizeof(h.length));
	if (one_in(50))
		at[below((uint32_t)(end - at))] ^= (uint8_t)rnd();
	return (uint32_t)(end - at) + 4;
}

static void fill(struct xr_capture_ring *r, uint8_t *data, uint32_t size)
{
	uint64_t consumer = __atomic_load_n(&r->consumer, __ATOMIC_RELAXED);
	uint32_t at = (uint32_t)consumer & (size - 1), n = 0;

	while (at + n + 1024 < size && n < 20000)
		n += put_block(data + at + n);
	r->lost = rnd();
	r->events[below(XR_CAPTURE_EVENTS)] += one_in(1000);
	__atomic_store_n(&r->producer, consumer + n, __ATOMIC_RELEASE);
}

/* The number of the capture is right: the command reads what follows. */
static void spoil(uint32_t place, const struct xr_direct_capture *c)
{
	uint8_t *room = view + XR_VIEW_RINGS_OFF + place * XR_VIEW_RING_ROOM;
	struct xr_capture_ring *r = (struct xr_capture_ring *)room;
	uint32_t kind = below(2000);

	if (kind == 0) {
		randomize(r, sizeof(*r));
	} else if (kind == 1) {
		randomize(room + 4096, 4096);
	} else if (kind == 2) {
		madvise(room, XR_VIEW_RING_ROOM, MADV_REMOVE);
	} else if (kind == 3) {
		r->producer = rnd();
		r->skip = rnd();
		r->oldest = rnd();
	} else if (c->ring_size <= XR_VIEW_RING && c->ring_size) {
		fill(r, room + 4096, c->ring_size);
	}
	r->capture = c->number;
}

int main(int argc, char **argv)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	struct conn conn = { 0 };

	if (argc != 2)
		return 2;
	daemon_path = argv[1];
	rnd_state = 88172645463325252ull ^ (uint64_t)getpid();
	if (!borrow(&conn))
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (poll(&p, 1, 0) <= 0) {
		for (uint32_t i = 0; i < XR_CAPTURE_MAX; i++) {
			const struct xr_direct_capture c = page->capture[i];

			if (c.number)
				spoil(i, &c);
		}
		usleep(500);
	}
	return 0;
}
