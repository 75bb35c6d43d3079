// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stream.h"

#include <sys/socket.h>

#define AT_ONCE 64 /* pieces of a system call */

struct stream *stream_new(int sock, bool spills)
{
	struct stream *s = calloc(1, sizeof(*s));

	MUST(s, "memory");
	s->sock = sock;
	s->spills = spills;
	return s;
}

void stream_add(struct stream *s, const void *data, size_t len)
{
	MUST(s->pieces < STREAM_PIECES, "too much to send");
	s->piece[(s->first + s->pieces++) % STREAM_PIECES] = (struct iovec){ (void *)data, len };
}

/* Takes n bytes off what is to be sent. */
static void sent(struct stream *s, size_t n)
{
	while (n) {
		struct iovec *piece = &s->piece[s->first];
		size_t part = n < piece->iov_len ? n : piece->iov_len;

		piece->iov_base = (uint8_t *)piece->iov_base + part;
		piece->iov_len -= part;
		n -= part;
		if (piece->iov_len)
			return;
		s->first = (s->first + 1) % STREAM_PIECES;
		s->pieces--;
	}
}

void stream_push(struct stream *s)
{
	struct iovec iov[AT_ONCE];
	struct msghdr msg = { .msg_iov = iov };
	ssize_t n;

	while (s->pieces) {
		msg.msg_iovlen = s->pieces < AT_ONCE ? s->pieces : AT_ONCE;
		for (uint32_t i = 0; i < msg.msg_iovlen; i++)
			iov[i] = s->piece[(s->first + i) % STREAM_PIECES];
		n = sendmsg(s->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0) {
			MUST(errno == EAGAIN, "send");
			return;
		}
		sent(s, (size_t)n);
	}
}

static size_t pull_spilt(struct stream *s, void *to, size_t len)
{
	size_t n = s->spill_end - s->spill_begin;

	n = n < len ? n : len;
	memcpy(to, s->spill + s->spill_begin, n);
	s->spill_begin += (uint32_t)n;
	return n;
}

/* One system call for the rest of a large piece and for small ones that follow it */
size_t stream_pull(struct stream *s, void *to, size_t len)
{
	struct iovec iov[2] = { { to, len }, { s->spill, STREAM_SPILL } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = s->spills ? 2 : 1 };
	ssize_t n;

	if (s->spill_begin < s->spill_end)
		return pull_spilt(s, to, len);
	n = recvmsg(s->sock, &msg, MSG_DONTWAIT);
	if (n <= 0) {
		MUST(!n || errno == EAGAIN, "receive");
		s->ended = !n;
		return 0;
	}
	s->spill_begin = 0;
	s->spill_end = (size_t)n > len ? (uint32_t)((size_t)n - len) : 0;
	return (size_t)n < len ? (size_t)n : len;
}
