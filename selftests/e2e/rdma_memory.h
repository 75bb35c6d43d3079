/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tests of rdma_memory and their helpers. Tests run in the owner: the program that owns the memory
 * and is the driver of endpoint.h. A test, like most helpers, returns true on success; otherwise
 * the first fail() has stored the message.
 */
#ifndef RDMA_MEMORY_H
#define RDMA_MEMORY_H

#include "endpoint.h"

#include <sys/mman.h>

#define PAGE 4096u
#define MIB (1u << 20)
#define RW (PROT_READ | PROT_WRITE)

struct owner {
	struct endpoint ep;
	const char *skip; /* reason why the current test was skipped, or NULL */
	char error[256];  /* message of the first failure */
};

struct test {
	const char *name;
	bool (*run)(struct owner *o);
	const char *text;
};

/* Each list ends with an entry without a name. */
extern const struct test memory_kinds[], memory_uses[], memory_special[];

/* Stores the message unless there is one already. Always returns false. */
__attribute__((format(printf, 2, 3))) bool fail(struct owner *o, const char *fmt, ...);
/* Marks the test as skipped. Always returns true. */
bool skip(struct owner *o, const char *why);

/* Results are those of endpoint.h. */
const char *result_text(int result);
bool expect(struct owner *o, const char *step, int result, int wanted);
bool expect_ok(struct owner *o, const char *step, int result);

struct ibv_mr *reg(struct owner *o, void *p, size_t len, int access);
bool dereg(struct owner *o, struct ibv_mr *mr);
/*
 * Checks the tier of a region, by the command in RDMA_MEMORY_TIER, which gets the L_Key as its
 * argument. Without that variable: any tier will do.
 */
bool expect_tier(struct owner *o, const struct ibv_mr *mr, const char *tier);
/* Registration must fail with errno @wanted. */
bool reg_fails(struct owner *o, const char *what, void *p, size_t len, int access, int wanted);
/* Resets and reconnects both QPs. */
bool reconnect(struct owner *o);
/* Returns a descriptor of new POSIX shared memory, or -1. */
int open_shm(size_t len);

/* Single steps. They return results: */
/* The partner fills its buffer with a pattern. */
int fill_partner(struct owner *o, uint32_t seed, size_t len);
/* The partner executes @op (EP_READ, EP_WRITE, EP_WRITE_HUGE) on @p in @mr. */
int partner_rdma(struct owner *o, uint32_t op, struct ibv_mr *mr, const void *p, size_t len);
/* The owner posts an RDMA WRITE or READ between @p in @mr and the partner's buffer. */
int own_rdma(struct owner *o, enum ibv_wr_opcode opcode, struct ibv_mr *mr, const void *p,
	     size_t len);

/* Transfers with every byte compared: */
bool check_partner_read(struct owner *o, struct ibv_mr *mr, const void *p, size_t len,
			uint32_t seed);
bool check_own_write(struct owner *o, struct ibv_mr *mr, const void *p, size_t len, uint32_t seed);
/* READ and WRITE by both programs. Afterwards @p holds the pattern of seed 4. */
bool check_access(struct owner *o, struct ibv_mr *mr, void *p, size_t len);

/* Registers memory, runs check_access() and deregisters it, which must keep the content. */
bool check_memory(struct owner *o, const char *what, void *p, size_t len);

/* Returns true if all bytes have this value. */
bool all_bytes(const uint8_t *p, size_t len, uint8_t value);

#endif /* RDMA_MEMORY_H */
