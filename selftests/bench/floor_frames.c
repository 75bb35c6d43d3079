// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A stream of single frames over AF_XDP, see floor.c */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/transport/base/crc.h"
#include "floor.h"

#define HEADERS (RAW_HEADER + 8) /* with the number of the frame */

struct frames {
	struct stream stream;
	uint8_t *memory;
	uint32_t frame;
	uint32_t memory_size;
	uint32_t at;	/* in memory */
	uint32_t crc;	/* of the frame that is being received */
	uint32_t taken; /* its bytes */
};

/* Copies the next bytes of the message into a chunk, and returns their number. */
static uint32_t copy_out(struct frames *s, uint8_t *to, uint32_t room, uint32_t left)
{
	uint32_t n = left < room ? left : room;

	memcpy(to, s->memory + s->at, n);
	s->at = (s->at + n) % s->memory_size;
	return n;
}

/* payload divides MESSAGE, so a frame never crosses the end of the area. */
static void build(void *arg, uint8_t *const *chunk)
{
	struct frames *s = arg;
	uint32_t headers = s->frame - s->stream.payload - CRC_SIZE, first, rest = 0, crc;

	memcpy(chunk[0] + RAW_HEADER, &s->stream.sent, sizeof(s->stream.sent));
	s->stream.sent++;
	first = copy_out(s, chunk[0] + headers, RAW_CHUNK - headers, s->stream.payload);
	crc = xt_crc32(0, chunk[0] + RAW_HEADER, headers - RAW_HEADER + first);
	if (first < s->stream.payload) {
		rest = copy_out(s, chunk[1], RAW_CHUNK, s->stream.payload - first);
		crc = xt_crc32(crc, chunk[1], rest);
		memcpy(chunk[1] + rest, &crc, CRC_SIZE);
	} else if (headers + first + CRC_SIZE <= RAW_CHUNK) {
		memcpy(chunk[0] + headers + first, &crc, CRC_SIZE);
	}
}

/* A frame that begins: its header has the number of the frame. */
static void begin_frame(struct frames *s, const uint8_t *data)
{
	uint64_t number;

	memcpy(&number, data + RAW_HEADER, sizeof(number));
	if (number != s->stream.sent++)
		raw_die("a frame was lost", EBADMSG);
	s->crc = 0;
}

static void take(void *arg, const uint8_t *data, uint32_t len, bool last)
{
	struct frames *s = arg;
	uint32_t skip = s->taken ? 0 : s->frame - s->stream.payload - CRC_SIZE, crc;
	uint32_t from = s->taken ? 0 : RAW_HEADER, end = last ? len - CRC_SIZE : len;

	if (!s->taken)
		begin_frame(s, data);
	s->crc = xt_crc32(s->crc, data + from, end - from);
	memcpy(s->memory + s->at, data + skip, end - skip);
	s->at = (s->at + end - skip) % s->memory_size;
	s->taken += len;
	if (!last)
		return;
	memcpy(&crc, data + end, CRC_SIZE);
	if (crc != s->crc || s->taken != s->frame)
		raw_die("CRC of a frame", EBADMSG);
	s->taken = 0;
}

/* Frames that may be sent now: those under way fill half of the receiver's ring at most. */
static uint32_t window(const struct frames *s)
{
	uint32_t parts = (s->frame + RAW_CHUNK - 1) / RAW_CHUNK, most = RING / 2 / parts;

	return most - (uint32_t)(s->stream.sent - s->stream.acked);
}

static uint32_t send_frames(struct stream *stream)
{
	struct frames *s = (struct frames *)stream;
	uint32_t n = raw_send(&stream->side, s->frame, window(s), build, s);

	if (n)
		raw_kick(&stream->side);
	return n;
}

static void open_frames(struct stream *stream, const char *netns, const char *ifname)
{
	struct frames *s = (struct frames *)stream;

	s->memory = new_memory(s->memory_size);
	raw_open(&stream->side, netns, ifname, RING);
}

void floor_frames(char **where, uint64_t duration, char **args)
{
	struct frames s = {
		.stream = { .open = open_frames,
			    .send = send_frames,
			    .take = take,
			    .payload = (uint32_t)atoi(args[1]) },
		.frame = (uint32_t)atoi(args[0]),
		.memory_size = (uint32_t)atoi(args[2]),
	};

	if (!s.stream.payload || MESSAGE % s.stream.payload ||
	    s.frame < s.stream.payload + HEADERS + CRC_SIZE)
		raw_die(args[1], EINVAL);
	if (!s.memory_size || s.memory_size % MESSAGE)
		raw_die(args[2], EINVAL);
	floor_stream(where, duration, &s.stream, s.frame);
}
