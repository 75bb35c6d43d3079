/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The processes of a floor, see floor.c, and what they share. Failures end the process. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "raw.h"

#define MESSAGE (64u << 10)
#define ACK_SIZE 64 /* a frame */
#define CRC_SIZE 4
#define RING 64 /* as in xdp_ceiling; larger ones are slower, as frames leave the cache */

enum role { SENDER, RECEIVER, PROGRAM, ROLES };

struct shared {
	struct raw_control control;
	/* a cache line each: word that one process writes and another one polls */
	struct {
		uint64_t word __attribute__((aligned(64)));
	} completed, to_worker[2], to_program[2], asleep[2], acked[2];
	uint64_t used[ROLES]; /* processor time */
	uint32_t address[2];  /* of the sides of a floor with sockets, network byte order */
	struct {
		uint64_t frames;	   /* GSO frames */
		uint64_t asked, in_flight; /* packets sent again after a NAK; on their way then */
		uint64_t gaps, gap_ns;	   /* how long the receiver waited for a missing packet */
	} repeat;
};

extern struct shared *shared;

static inline uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline bool running(void)
{
	return raw_running(&shared->control);
}

/* Returns 0 in the new process, which ends with its parent. */
pid_t new_process(void);
void wait_for_all(int n);
uint8_t *new_memory(size_t size);

/* A stream in one direction. A kind of stream is embedded in another struct. */
struct stream {
	struct raw_side side;
	uint64_t sent;	/* packets, each a frame of its own or in a GSO frame; receiver: received */
	uint64_t acked; /* of them */
	bool asked;	/* the last ACK was a NAK */
	uint32_t payload; /* bytes of a packet */
	void (*open)(struct stream *s, const char *netns, const char *ifname);
	/* Sends packets that may be sent now, and returns their number. */
	uint32_t (*send)(struct stream *s);
	raw_take_fn *take; /* with the stream as argument */
	/* NULL, or takes packets that were held back, and returns their number. */
	uint32_t (*release)(struct stream *s);
	/* NULL, or whether an ACK leaves now. */
	bool (*may_acknowledge)(struct stream *s);
};

/* asks: for packet `sent`, the first one that is missing */
void floor_acknowledge(struct stream *s, bool asks);

/*
 * Runs a stream from the second to the first of two interfaces. where: namespace and interface of
 * each. Prints a line, see floor.c.
 */
void floor_stream(char **where, uint64_t duration_ns, struct stream *s, uint32_t frame);

/* Ends a process of a role, and notes its processor time. */
__attribute__((noreturn)) void floor_end(enum role role);
/* Starts the process that looks for completions. */
void floor_program(void);
/* Ends the others, and prints the line: packets that the receiver got in ns. */
void floor_report(uint64_t packets, uint32_t frame, uint64_t ns);

/* Moves the process into the network namespace of that file. */
void floor_enter(const char *netns);
/* Returns the IPv4 address of an interface in network byte order. fd: a socket of its namespace */
uint32_t floor_address(int fd, const char *ifname);

/* The floors. args: as on the command line */
void floor_socket(char **where, uint64_t duration_ns, char **args);
void floor_frames(char **where, uint64_t duration_ns, char **args);
void floor_gso(char **where, uint64_t duration_ns, char **args);

enum word_kind {
	SEND_WORDS,
	WRITE_WORDS,
	PLACE_WORDS, /* WRITEs that an XDP program executes */
};

void floor_words(char **where, uint64_t duration_ns, enum word_kind kind);
void floor_pingpong(char **where, uint64_t duration_ns, bool by_tcp);
void floor_words_within_host(uint64_t duration_ns);

#endif /* BENCH_FLOOR_H */
