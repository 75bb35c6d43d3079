// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Fast registration with the direct verbs of xroce, xrocedv(3): an owner lets a peer write to its
 * memory, each time to other pages and with another key. First the owner registers and invalidates
 * by work requests, then with a pool. Owner and peer are two QPs of this program, connected to each
 * other (pair.h), to keep the example short.
 *
 *     cc fast_registration.c $(pkg-config --cflags --libs xroce)
 *
 * The program needs no `xroce run`: libxroce comes before libibverbs, handles its own devices and
 * passes everything else on.
 */
#include <stdio.h>
#include <string.h>

#include "pair.h"

#define PAGE 4096
#define PAGES 64
#define ROUNDS 3
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static const char text[] = "This text is written to memory of the owner that is not contiguous.";

/* Message from the owner to the peer */
struct grant {
	uint64_t addr;
	uint32_t rkey, length;
};

static struct ibv_qp *owner, *peer;
static char *memory;	/* the owner's, not registered by ibv_reg_mr() */
static struct buffers { /* of the messages, and the text that the peer writes */
	struct grant sent, received;
	char text[sizeof(text)];
} * buffers;
static struct ibv_mr *buffers_mr;

/* ---- messages and writes ----------------------------------------------------------- */

static void allocate_memory(void)
{
	memory = aligned_alloc(PAGE, PAGES * PAGE);
	buffers = aligned_alloc(PAGE, PAGE);
	must(memory && buffers, "memory");
	buffers_mr = ibv_reg_mr(pd, buffers, sizeof(*buffers), IBV_ACCESS_LOCAL_WRITE);
	must(buffers_mr != NULL, "ibv_reg_mr");
}

static void receive_into(struct ibv_qp *qp, void *p, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)p, len, buffers_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = len ? 1 : 0 };

	must(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

/*
 * Sends a grant from the owner to the peer. May be posted right after the registration. No send of
 * this program is signaled, so entries of the send queue are never freed: it has enough for all.
 */
static void send_grant(const struct grant *grant)
{
	struct ibv_sge sge = { (uintptr_t)&buffers->sent, sizeof(buffers->sent), buffers_mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	buffers->sent = *grant;
	must(!ibv_post_send(owner, &wr, &bad), "SEND");
}

/* The peer writes to the memory, then notifies the owner, which may invalidate the key. */
static void write_and_notify(int invalidate)
{
	struct ibv_sge sge = { (uintptr_t)buffers->text, buffers->received.length,
			       buffers_mr->lkey };
	struct ibv_send_wr *bad, done = {
		.opcode = invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
		.invalidate_rkey = invalidate ? buffers->received.rkey : 0,
	};
	struct ibv_send_wr write = {
		.next = &done,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = buffers->received.addr,
			     .rkey = buffers->received.rkey },
	};

	must(!ibv_post_send(peer, &write, &bad), "WRITE");
}

/* Three ranges of the owner's memory. The first starts and the last ends inside a page. */
static void choose_ranges(int round, struct xrocedv_sg sg[3])
{
	uint64_t base = (uintptr_t)memory + (uint64_t)round * 8 * PAGE;

	sg[0] = (struct xrocedv_sg){ base + 6 * PAGE - 20, 20 };
	sg[1] = (struct xrocedv_sg){ base, PAGE };
	sg[2] = (struct xrocedv_sg){ base + 3 * PAGE, 10 };
}

static void check_ranges(const struct xrocedv_sg sg[3], size_t len)
{
	char got[sizeof(text)] = { 0 };

	memcpy(got, (char *)(uintptr_t)sg[0].addr, 20);
	memcpy(got + 20, (char *)(uintptr_t)sg[1].addr, len - 20);
	must(!memcmp(got, text, len), "the text was not written");
}

/* ---- registration by work requests ------------------------------------------------- */

static void lend_by_wr(struct ibv_mr *mr, int round)
{
	struct xrocedv_sg sg[3];
	struct grant grant;
	struct ibv_wc wc;
	int err;

	choose_ranges(round, sg);
	receive_into(peer, &buffers->received, sizeof(buffers->received));
	receive_into(owner, NULL, 0);
	must(xrocedv_map_mr_sg(mr, sg, 3, NULL, PAGE) == 3, "xrocedv_map_mr_sg");
	/* A new variant, so that the previous key cannot be used */
	xrocedv_update_key(mr, (uint8_t)(round + 1));
	err = xrocedv_post_reg_mr(owner, mr, 0, ACCESS, 0);
	errno = err;
	must(!err, "xrocedv_post_reg_mr");
	grant = (struct grant){ (uintptr_t)mr->addr, mr->rkey, sizeof(text) };
	send_grant(&grant);

	completion("receiving the grant");
	write_and_notify(1);
	wc = completion("receiving the notification");
	must(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == grant.rkey,
	     "the key was not invalidated");
	check_ranges(sg, sizeof(text));
	printf("round %d: key %08x, %zu bytes at %#llx, invalidated by the peer\n", round,
	       grant.rkey, mr->length, (unsigned long long)grant.addr);
}

/* ---- a pool -------------------------------------------------------------------------- */

static void lend_from(struct xrocedv_pool *pool, int round)
{
	const struct xrocedv_mapping *m;
	struct xrocedv_sg sg[3];
	struct grant grant;

	choose_ranges(round, sg);
	receive_into(peer, &buffers->received, sizeof(buffers->received));
	receive_into(owner, NULL, 0);
	m = xrocedv_pool_map(pool, sg, 3);
	must(m != NULL, "xrocedv_pool_map");
	grant = (struct grant){ m->addr, m->rkey, sizeof(text) };
	send_grant(&grant);
	completion("receiving the grant");
	write_and_notify(0);
	completion("receiving the notification");
	check_ranges(sg, sizeof(text));
	printf("pool: key %08x, %llu bytes at %#llx\n", m->rkey, (unsigned long long)m->length,
	       (unsigned long long)m->addr);
	must(!xrocedv_pool_unmap(m), "xrocedv_pool_unmap");
}

static void flushed(struct xrocedv_pool *pool, void *arg)
{
	printf("pool: flushed, its keys are invalid now\n");
}

static void lend_by_pool(void)
{
	struct xrocedv_pool_attr attr = {
		.max_pages = 8,
		.page_size = PAGE,
		.pool_size = 4,
		.access = ACCESS,
		.flags = XROCEDV_POOL_CACHE,
		.flushed = flushed,
	};
	struct xrocedv_pool *pool = xrocedv_create_pool(pd, &attr);

	must(pool != NULL, "xrocedv_create_pool");
	lend_from(pool, 0);
	lend_from(pool, 1);
	lend_from(pool, 0); /* the same list: the same key, from the cache */
	must(!xrocedv_flush_pool(pool), "xrocedv_flush_pool");
	must(!xrocedv_destroy_pool(pool), "xrocedv_destroy_pool");
}

int main(void)
{
	struct ibv_mr *mr;
	int round;

	open_device();
	create_pair(&owner, &peer);
	allocate_memory();
	memcpy(buffers->text, text, sizeof(text));
	mr = xrocedv_alloc_mr(pd, 8);
	must(mr != NULL, "xrocedv_alloc_mr");
	for (round = 0; round < ROUNDS; round++)
		lend_by_wr(mr, round);
	memset(memory, 0, PAGES * PAGE);
	lend_by_pool();
	must(!ibv_dereg_mr(mr) && !ibv_dereg_mr(buffers_mr), "ibv_dereg_mr");
	destroy_pair(owner, peer);
	return 0;
}
