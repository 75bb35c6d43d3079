// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Commands and data by TCP, see block.c */
#include "block.h"
#include "stream.h"

/* What is being received: a header, and then data unless it has none */
struct inbound {
	size_t have, data_len;
	uint8_t *data; /* NULL: the header is not complete */
};

/* Receives into a place, and returns true when all of it is there. */
static bool fill(struct stream *s, struct inbound *in, void *to, size_t len)
{
	in->have += stream_pull(s, (uint8_t *)to + in->have, len - in->have);
	if (in->have < len)
		return false;
	in->have = 0;
	return true;
}

/* ---- initiator ------------------------------------------------------------------------------- */

static void send_command(struct initiator *it, struct stream *s, uint32_t slot)
{
	const struct command *c = next_command(it, slot);

	if (!c)
		return;
	stream_add(s, c, sizeof(*c));
	if (c->operation == WRITE_BLOCK)
		stream_add(s, buffer_of(it, slot), c->length);
}

/* Returns true if a whole response, with its data, was received. */
static bool receive_response(struct initiator *it, struct stream *s, struct inbound *in,
			     struct response *r)
{
	if (!in->data) {
		if (!fill(s, in, r, sizeof(*r)))
			return false;
		MUST(r->slot < it->options->depth, "slot of a response");
		if (it->options->write)
			return true;
		in->data = buffer_of(it, r->slot);
	}
	if (!fill(s, in, in->data, it->options->size))
		return false;
	in->data = NULL;
	return true;
}

void initiate_by_tcp(struct initiator *it, int sock)
{
	struct stream *s = stream_new(sock, true);
	struct inbound in = { 0 };
	struct response r;

	meter_start(&it->meter, it->options->seconds);
	for (uint32_t slot = 0; slot < it->options->depth; slot++)
		send_command(it, s, slot);
	while (it->busy) {
		stream_push(s);
		while (receive_response(it, s, &in, &r)) {
			command_done(it, &r);
			send_command(it, s, r.slot);
		}
		MUST(!s->ended, "the target has ended");
	}
	free(s);
}

/* ---- target ---------------------------------------------------------------------------------- */

/* Returns true if a whole command, with its data, was received. */
static bool receive_command(struct target *t, struct stream *s, struct inbound *in,
			    struct command *c)
{
	if (!in->data) {
		if (!fill(s, in, c, sizeof(*c)))
			return false;
		in->data = command_place(t, c);
		in->data_len = c->operation == WRITE_BLOCK ? c->length : 0;
	}
	if (in->data_len && !fill(s, in, in->data, in->data_len))
		return false;
	in->data = NULL;
	return true;
}

void serve_by_tcp(struct target *t, int sock)
{
	/* A slot's next command arrives after its response was sent. */
	struct response *responses = calloc(t->options->depth, sizeof(*responses));
	struct stream *s = stream_new(sock, true);
	struct inbound in = { 0 };
	struct command c;

	MUST(responses, "memory");
	while (!s->ended) {
		while (receive_command(t, s, &in, &c)) {
			if (c.operation == WRITE_BLOCK)
				check_written(t, &c);
			responses[c.slot] = response_to(&c);
			stream_add(s, &responses[c.slot], sizeof(responses[0]));
			if (c.operation == READ_BLOCK)
				stream_add(s, t->disk + c.offset, c.length);
		}
		stream_push(s);
	}
	free(responses);
	free(s);
}
