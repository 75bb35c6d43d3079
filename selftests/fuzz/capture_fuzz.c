// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The reader of a capture: rings with any indices and any blocks, of the daemon or of a program.
 *
 * Input: how to read; for each ring its indices; the bytes of the rings, which repeat. Those of a
 * program are followed by the indices that it stores while the ring is read.
 */
#include <errno.h>

#include "daemon/cli/capture.h"
#include "input.h"

#define RINGS 2
#define RING 4096u
#define DATA 4096u
#define RUNS_MAX 10000 /* more than the rings have blocks */
#define CAPTURE 7

/* capture_rings_open() is not tested here. */
int cli_client_call(struct cli_client *c, struct xp_call *call)
{
	return -ENOSYS;
}

/* Most indices are near those of a ring that is used as it should be. */
static uint64_t index_of(struct stream *in)
{
	return (uint64_t)input_u16(in) << (input_u8(in) % 8 ? 0 : 32);
}

static void fill_indices(struct stream *in, struct xr_capture_ring *r)
{
	r->producer = index_of(in);
	r->oldest = index_of(in);
	r->skip = index_of(in);
}

static void fill_data(const struct stream *in, uint8_t *data, size_t room)
{
	for (size_t i = 0; in->left && i < room; i++)
		data[i] = in->data[i % in->left];
}

static void fill(struct stream *in, uint8_t *memory)
{
	for (uint32_t i = 0; i < RINGS; i++)
		fill_indices(in, (struct xr_capture_ring *)memory + i);
	fill_data(in, memory + DATA, (size_t)RINGS * RING);
}

/* With any content of the rings, only their bytes are read, and every block is complete. */
static void read_run(const struct capture_run *run, const uint8_t *memory, FILE *out)
{
	uint32_t n;

	MUST(run->blocks >= memory + DATA && run->len <= RING);
	MUST(run->blocks + run->len <= memory + DATA + RINGS * RING);
	for (size_t at = 0; at < run->len; at += n) {
		n = pcapng_block(run->blocks + at, run->len - at);
		if (!n)
			return; /* runs of a single ring are not looked at */
		capture_print(out, run->blocks + at);
	}
}

/* ---- the ring of a program ------------------------------------------------------------------ */

/* What is written is valid, whatever the program stores, and nothing that the program can reach. */
static uint64_t check_direct_run(const struct capture_run *run, const uint8_t *ring, FILE *out)
{
	uint64_t packets = 0;
	uint32_t n;

	MUST(run->blocks + run->len <= ring || run->blocks >= ring + DATA + RING);
	for (size_t at = 0; at < run->len; at += n) {
		const struct xr_pcapng_packet *h = (const void *)(run->blocks + at);

		n = pcapng_block(run->blocks + at, run->len - at);
		MUST(n && !h->interface && h->captured <= h->original);
		capture_print(out, run->blocks + at);
		packets++;
	}
	return packets;
}

static void test_direct(struct stream *in, uint8_t how, FILE *out)
{
	static struct capture_rings rings;
	uint8_t *daemons = calloc(1, DATA + RING), *ring = calloc(1, DATA + RING);
	struct xr_capture_ring *r = (struct xr_capture_ring *)ring;
	const struct xr_capture_rep rep = {
		.rings = 1,
		.ring_size = RING,
		.data = DATA,
		.clock = 1,
		.memory.length = DATA + RING,
	};
	struct capture_direct *c;
	struct capture_run run;
	uint64_t packets = 0;

	MUST(daemons && ring && !capture_rings_attach(&rings, &rep, daemons));
	rings.overwrite = how & 1;
	fill_indices(in, r);
	r->lost = index_of(in);
	r->capture = how & 16 ? CAPTURE : how;
	c = capture_direct_attach(&rings, ring, RING, CAPTURE);
	MUST(c);
	fill_data(in, ring + DATA, RING);
	capture_direct_count(&rings);
	if (how & 1)
		capture_rings_rewind(&rings);
	for (int n = 0; n < RUNS_MAX; n++) {
		MUST(!capture_rings_next(&rings, UINT64_MAX, how & 2, &run));
		if (run.blocks)
			packets += check_direct_run(&run, ring, out);
		else if (in->left < 16)
			break;
		if (in->left >= 16)
			fill_indices(in, r);
		MUST(n < RUNS_MAX - 1);
	}
	MUST(capture_rings_matched(&rings) - capture_rings_lost(&rings) == packets);
	capture_rings_close(&rings);
	free(daemons);
	free(ring);
}

/* ---- the rings of the daemon ---------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct xr_capture_rep rep = {
		.rings = RINGS,
		.ring_size = RING,
		.data = DATA,
		.memory.length = DATA + RINGS * RING,
	};
	struct stream in = { data, size };
	static struct capture_rings rings;
	static FILE *out;
	struct capture_run run;
	uint8_t how = input_u8(&in), *memory;

	if (!out)
		out = fopen("/dev/null", "w");
	if (how & 8) {
		test_direct(&in, how, out);
		return 0;
	}
	/* of exactly its length: AddressSanitizer finds what is read behind it */
	memory = calloc(1, DATA + RINGS * RING);
	MUST(out && memory);
	fill(&in, memory);
	MUST(!capture_rings_attach(&rings, &rep, memory));
	if (how & 1)
		capture_rings_rewind(&rings);
	for (int n = 0; n < RUNS_MAX; n++) {
		if (capture_rings_next(&rings, how & 4 ? how : UINT64_MAX, how & 2, &run) ||
		    !run.blocks)
			break;
		read_run(&run, memory, out);
		MUST(n < RUNS_MAX - 1);
	}
	free(memory);
	return 0;
}
