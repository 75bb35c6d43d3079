// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The reader of a capture: rings with any indices and any blocks.
 *
 * Input: how to read; for each ring its indices; the bytes of the rings, which repeat.
 */
#include <errno.h>

#include "daemon/cli/capture.h"
#include "input.h"

#define RINGS 2
#define RING 4096u
#define DATA 4096u
#define RUNS_MAX 10000 /* more than the rings have blocks */

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

static void fill(struct stream *in, uint8_t *memory)
{
	uint8_t *data = memory + DATA;
	const uint8_t *bytes;
	size_t len;

	for (uint32_t i = 0; i < RINGS; i++) {
		struct xr_capture_ring *r = (struct xr_capture_ring *)memory + i;

		r->producer = index_of(in);
		r->oldest = index_of(in);
		r->skip = index_of(in);
	}
	bytes = in->data;
	len = in->left;
	for (size_t i = 0; len && i < RINGS * RING; i++)
		data[i] = bytes[i % len];
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
