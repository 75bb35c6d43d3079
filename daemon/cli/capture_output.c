// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The file of a capture. Long runs of packets are written from the rings, without a copy. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"

/* Written at once, in some microseconds; then a thread that waits for the processor gets it. */
#define PIECE CAPTURE_BUFFER
/* Shorter runs, as several rings have, are copied, because a call would take longer. */
#define DIRECT (8u << 10)

int capture_output_open(struct capture_output *o)
{
	o->fd = STDOUT_FILENO;
	o->err = 0;
	o->used = 0;
	if (!o->path)
		return CLI_OK;
	if (!strcmp(o->path, "-")) {
		if (isatty(STDOUT_FILENO))
			return cli_error("standard output is a terminal; redirect it");
		return CLI_OK;
	}
	/* packets are data of other users */
	o->fd = open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return o->fd >= 0 ? CLI_OK : cli_error("%s: %m", o->path);
}

/* A signal that ends the capture does not cut a block: a reader that is slow gets all of it. */
static void write_piece(struct capture_output *o, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	for (; len && !o->err; bytes += n, len -= (size_t)n) {
		n = write(o->fd, bytes, len);
		if (n < 0 && errno != EINTR)
			o->err = -errno;
		if (n < 0)
			n = 0;
	}
}

static void empty_buffer(struct capture_output *o)
{
	write_piece(o, o->buffer, o->used);
	o->used = 0;
}

void capture_output_write(struct capture_output *o, const uint8_t *bytes, size_t len, bool share)
{
	size_t n;

	if (o->used + len > sizeof(o->buffer) || len >= DIRECT)
		empty_buffer(o);
	if (len < DIRECT) {
		memcpy(o->buffer + o->used, bytes, len);
		o->used += len;
		return;
	}
	for (; len && !o->err; bytes += n, len -= n) {
		n = len < PIECE ? len : PIECE;
		write_piece(o, bytes, n);
		if (share)
			sched_yield();
	}
}

void capture_output_flush(struct capture_output *o)
{
	if (o->path)
		empty_buffer(o);
	else if (fflush(stdout) && !o->err)
		o->err = -errno;
}

/* A reader that has ended, such as a Wireshark that was closed, is no error. */
int capture_output_close(struct capture_output *o)
{
	int status = CLI_OK;

	capture_output_flush(o);
	if (o->fd >= 0 && o->fd != STDOUT_FILENO && close(o->fd) && !o->err)
		o->err = -errno;
	o->fd = -1;
	if (o->err && o->err != -EPIPE)
		status = cli_error("%s: %s", o->path ? o->path : "standard output",
				   strerror(-o->err));
	if (o->err && !o->path)
		fclose(stdout); /* main() would report the error once more */
	return status;
}
