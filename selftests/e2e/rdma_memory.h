/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rdma_memory's tests and what they share: the side that owns memory and decides (rdma_side.h).
 * A test returns true where all went well; else the first wrong() says why.
 */
#ifndef RDMA_MEMORY_H
#define RDMA_MEMORY_H

#include "rdma_side.h"

#include <sys/mman.h>

#define PAGE 4096u
#define MIB (1u << 20)
#define RW (PROT_READ | PROT_WRITE)

struct owner {
	struct side s;
	const char *skip; /* why a test could not be done */
	char why[256];	  /* first thing that was wrong */
};

struct test {
	const char *name;
	bool (*run)(struct owner *o);
	const char *text;
};

extern const struct test memory_kinds[], memory_uses[],
	memory_special[]; /* end with one without a name */

__attribute__((format(printf, 2, 3))) bool wrong(struct owner *o, const char *fmt, ...);
bool skip(struct owner *o, const char *why);

/* Results of steps: rdma_side.h */
const char *result_text(int result);
bool expect(struct owner *o, const char *step, int result, int wanted);
bool good(struct owner *o, const char *step, int result);

struct ibv_mr *reg(struct owner *o, void *p, size_t len, int access);
bool dereg(struct owner *o, struct ibv_mr *mr);
bool refused(struct owner *o, const char *what, void *p, size_t len, int access, int wanted);
bool reconnect(struct owner *o);
int open_shm(size_t len);

/* The partner's buffer; the partner's READs and WRITEs; ours, from or to its buffer */
int fill(struct owner *o, uint32_t seed, size_t len);
int remote(struct owner *o, uint32_t what, struct ibv_mr *mr, const void *p, size_t len);
int local(struct owner *o, enum ibv_wr_opcode opcode, struct ibv_mr *mr, const void *p, size_t len);

/* ... with every byte compared. After four_ways and usable p holds the pattern of seed 4. */
bool remote_read(struct owner *o, struct ibv_mr *mr, const void *p, size_t len, uint32_t seed);
bool local_write(struct owner *o, struct ibv_mr *mr, const void *p, size_t len, uint32_t seed);
bool four_ways(struct owner *o, struct ibv_mr *mr, void *p, size_t len);

/* Registered, used in all four ways, deregistered: what was there last stays. */
bool usable(struct owner *o, const char *what, void *p, size_t len);

bool all(const uint8_t *p, size_t len, uint8_t value);

#endif /* RDMA_MEMORY_H */
