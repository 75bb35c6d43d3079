/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands, and both ends without what carries commands and data, see block.c */
#ifndef BENCH_BLOCK_H
#define BENCH_BLOCK_H

#include "side.h"

enum operation { READ_BLOCK = 1, WRITE_BLOCK };

struct command {
	uint64_t number, offset;
	uint32_t operation, slot;
	uint64_t addr; /* of the initiator's buffer, by verbs */
	uint32_t rkey, length;
	uint8_t rest[24];
};

struct response {
	uint64_t number;
	uint32_t slot, status; /* 0: success */
};

struct initiator {
	const struct options *options;
	uint8_t *buffers;	 /* one of options->size for each slot */
	struct command *command; /* of each slot */
	uint64_t *began;
	uint64_t number; /* of the next command */
	uint32_t busy;	 /* slots */
	struct meter meter;
};

struct target {
	const struct options *options;
	uint8_t *disk;
};

#define DISK (8u << 20)

static inline uint8_t *buffer_of(struct initiator *it, uint32_t slot)
{
	return it->buffers + (size_t)slot * it->options->size;
}

/* Makes the next command of a slot, or returns NULL at the end. */
struct command *next_command(struct initiator *it, uint32_t slot);
/* Checks a response and the data of a block that was read; its command is done. */
void command_done(struct initiator *it, const struct response *r);
/* Returns the place of a command on the disk. A wrong command ends the program. */
uint8_t *command_place(struct target *t, const struct command *c);
/* Checks the data of a block that was written. */
void check_written(struct target *t, const struct command *c);
struct response response_to(const struct command *c);

/* sock: connected to the other end */
void initiate_by_verbs(struct initiator *it, int sock);
void initiate_by_tcp(struct initiator *it, int sock);
void serve_by_verbs(struct target *t, int sock);
void serve_by_tcp(struct target *t, int sock);

#endif /* BENCH_BLOCK_H */
