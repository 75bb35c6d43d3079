// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An integrity region with the direct verbs of xroce, xrocedv(3): blocks without protection
 * information (PI) are written to a peer, which gets them with T10-DIF behind each block. A bit of
 * the peer's copy changes, and reading it back finds the block. Initiator and target are two QPs of
 * this program, connected to each other (pair.h), to keep the example short.
 *
 *     cc integrity.c $(pkg-config --cflags --libs xroce)
 */
#include <stdio.h>

#include "pair.h"

#define BLOCK 512
#define BLOCKS 8
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_qp *initiator, *target;
static struct memory {
	unsigned char data[BLOCKS * BLOCK];	    /* the initiator's */
	unsigned char stored[BLOCKS * (BLOCK + 8)]; /* the target's */
} * memory;
static struct ibv_mr *memory_mr, *region;

/* ---- the region --------------------------------------------------------------------- */

static void create_regions(void)
{
	memory = aligned_alloc(4096, (sizeof(*memory) + 4095) / 4096 * 4096);
	must(memory != NULL, "memory");
	memory_mr = ibv_reg_mr(pd, memory, sizeof(*memory), ACCESS);
	region = xrocedv_alloc_integrity_mr(pd, 4);
	must(memory_mr && region, "regions");
}

/* The initiator's data has no PI; on the wire each block has T10-DIF of type 1. */
static void register_blocks(void)
{
	struct ibv_sge data = { (uintptr_t)memory->data, sizeof(memory->data), memory_mr->lkey };
	struct xrocedv_integrity_attr attr = {
		.access = IBV_ACCESS_LOCAL_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.block_size = BLOCK,
		.memory = { .type = XROCEDV_SIG_NONE },
		.wire = { .type = XROCEDV_SIG_T10DIF_1,
			  .check = XROCEDV_SIG_CHECK_GUARD | XROCEDV_SIG_CHECK_REF_TAG,
			  .app_tag = 0x5a,
			  .ref_tag = 1000 }, /* usually the low bits of the block address */
		.data = &data,
		.num_data = 1,
	};

	xrocedv_update_key(region, 1);
	errno = xrocedv_post_reg_integrity(initiator, region, &attr);
	must(!errno, "xrocedv_post_reg_integrity");
	completion("registration");
	printf("%zu bytes of memory are %zu bytes on the wire\n", sizeof(memory->data),
	       region->length);
}

static void transfer(enum ibv_wr_opcode opcode, const char *what)
{
	struct ibv_sge sge = { (uintptr_t)region->addr, (uint32_t)region->length, region->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)memory->stored, memory_mr->rkey },
	};

	must(!ibv_post_send(initiator, &wr, &bad), what);
	completion(what);
}

static int check(const char *what)
{
	struct xrocedv_integrity_error e;
	int failed = xrocedv_check_integrity(region, &e);

	must(failed >= 0, "xrocedv_check_integrity");
	if (!failed)
		printf("%s: no error\n", what);
	else
		printf("%s: error %d at offset %llu: expected %x, actual %x\n", what, (int)e.kind,
		       (unsigned long long)e.offset, e.expected, e.actual);
	return failed ? (int)e.kind : 0;
}

int main(void)
{
	const unsigned char *pi;
	int i;

	open_device();
	create_pair(&initiator, &target);
	create_regions();
	for (i = 0; i < BLOCKS * BLOCK; i++)
		memory->data[i] = (unsigned char)(i * 7);
	register_blocks();
	transfer(IBV_WR_RDMA_WRITE, "WRITE");
	pi = memory->stored + 2 * (BLOCK + 8) + BLOCK;
	printf("PI of block 2: guard %02x%02x, application tag %02x%02x, reference tag %d\n", pi[0],
	       pi[1], pi[2], pi[3], pi[6] << 8 | pi[7]);
	transfer(IBV_WR_RDMA_READ, "READ");
	must(!check("READ"), "unexpected error");
	memory->stored[5 * (BLOCK + 8) + 3] ^= 1;
	transfer(IBV_WR_RDMA_READ, "READ");
	must(check("READ of a wrong bit") == XROCEDV_INTEGRITY_GUARD, "the error was not found");
	must(!ibv_dereg_mr(region) && !ibv_dereg_mr(memory_mr), "ibv_dereg_mr");
	destroy_pair(initiator, target);
	return 0;
}
