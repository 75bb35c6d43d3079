// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A target that has a disk in memory, and an initiator that reads or writes blocks, as in NVMe over
 * fabrics: one connection, commands of 64 bytes, responses of 16 bytes, DEPTH commands under way.
 * By verbs, the target reads the data of a written block from the initiator's memory, and writes
 * the data of a block that is read. By TCP, data follow commands and responses. Both poll.
 *
 *   block [OPTION...]        serves one initiator; ends when it has closed its connection
 *   block [OPTION...] HOST   see side.h; -c, -d, -s and -w as the target
 */
#include "block.h"

#include <unistd.h>

/* ---- initiator ------------------------------------------------------------------------------- */

/* A block that is read has the stamp of its place, a written one that of the command. */
static uint64_t stamp_of_place(const struct options *o, uint64_t offset)
{
	return offset / o->size + 1;
}

struct command *next_command(struct initiator *it, uint32_t slot)
{
	const struct options *o = it->options;
	struct command *c = &it->command[slot];
	uint64_t now = now_ns();

	if (!meter_runs(&it->meter, now))
		return NULL;
	it->began[slot] = now;
	*c = (struct command){
		.number = it->number++,
		.operation = o->write ? WRITE_BLOCK : READ_BLOCK,
		.slot = slot,
		.addr = (uintptr_t)buffer_of(it, slot),
		.length = o->size,
	};
	c->offset = c->number % (DISK / o->size) * o->size;
	/* A block that is not received must not pass for the one before it. */
	stamp(buffer_of(it, slot), o->size, o->write ? c->number : 0, o->check);
	it->busy++;
	return c;
}

void command_done(struct initiator *it, const struct response *r)
{
	const struct options *o = it->options;
	const struct command *c;

	MUST(r->slot < o->depth, "slot of a response");
	c = &it->command[r->slot];
	MUST(r->number == c->number && !r->status, "response");
	if (!o->write)
		MUST(has_stamp(buffer_of(it, r->slot), o->size, stamp_of_place(o, c->offset),
			       o->check),
		     "data of a block");
	meter_add(&it->meter, it->began[r->slot], now_ns());
	it->busy--;
}

static void initiate(const struct options *o)
{
	struct initiator it = { .options = o };
	int sock = side_connect(o->arguments[0], o->port);

	it.buffers = side_memory((size_t)o->depth * o->size);
	it.command = calloc(o->depth, sizeof(*it.command));
	it.began = calloc(o->depth, sizeof(*it.began));
	MUST(it.command && it.began, "memory");
	if (o->tcp)
		initiate_by_tcp(&it, sock);
	else
		initiate_by_verbs(&it, sock);
	meter_print(&it.meter);
}

/* ---- target ---------------------------------------------------------------------------------- */

uint8_t *command_place(struct target *t, const struct command *c)
{
	MUST(c->operation == READ_BLOCK || c->operation == WRITE_BLOCK, "operation");
	MUST(c->slot < t->options->depth && c->length == t->options->size, "slot or length");
	MUST(c->offset <= DISK - c->length, "offset");
	return t->disk + c->offset;
}

void check_written(struct target *t, const struct command *c)
{
	MUST(has_stamp(t->disk + c->offset, c->length, c->number, t->options->check),
	     "data of a block");
}

struct response response_to(const struct command *c)
{
	return (struct response){ .number = c->number, .slot = c->slot };
}

static void serve(const struct options *o)
{
	struct target t = { .options = o, .disk = side_memory(DISK) };
	int listener = side_listen(o->port), sock;

	for (uint64_t offset = 0; offset + o->size <= DISK; offset += o->size)
		stamp(t.disk + offset, o->size, stamp_of_place(o, offset), o->check);
	sock = side_accept(listener);
	close(listener);
	if (o->tcp)
		serve_by_tcp(&t, sock);
	else
		serve_by_verbs(&t, sock);
}

int main(int argc, char **argv)
{
	struct options options;

	parse_options(argc, argv, &options, "[HOST]");
	MUST(options.depth && options.depth <= 64, "depth");
	MUST(options.size >= 512 && options.size <= DISK / 2, "size");
	MUST(!options.events, "both ends poll");
	if (options.arguments[0])
		initiate(&options);
	else
		serve(&options);
	return 0;
}
