// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * RW contexts and draining with the direct verbs of xroce, xrocedv(3): what storage targets of the
 * kernel do with rdma_rw_ctx and ib_drain_qp(). An initiator has a buffer with one R_Key. A target
 * reads it into pieces of its memory, changes them, and writes them back, followed by a message
 * that says so. Then the target ends the connection with work requests outstanding, and frees its
 * memory. Both are QPs of this program, connected to each other (pair.h), to keep the example
 * short.
 *
 *     cc rw_context.c $(pkg-config --cflags --libs xroce)
 */
#include <stdio.h>
#include <string.h>

#include "pair.h"

#define PAGE 4096
#define LENGTH (6 * PAGE)
#define PIECES 5

enum { TRANSFER = 1, ANNOUNCEMENT, RECEIVE, SEND_MARKER, RECV_MARKER };

static struct ibv_qp *initiator, *target;
static unsigned char *buffer; /* the initiator's */
static unsigned char *pages;  /* the target's */
static struct ibv_mr *buffer_mr, *pages_mr, *region;

static void allocate(void)
{
	int i;

	buffer = aligned_alloc(PAGE, LENGTH);
	pages = aligned_alloc(PAGE, 4 * LENGTH);
	must(buffer && pages, "memory");
	buffer_mr = ibv_reg_mr(pd, buffer, LENGTH,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				       IBV_ACCESS_REMOTE_READ);
	pages_mr = ibv_reg_mr(pd, pages, 4 * LENGTH, IBV_ACCESS_LOCAL_WRITE);
	must(buffer_mr && pages_mr, "ibv_reg_mr");
	region = xrocedv_alloc_mr(pd, 2 * PIECES);
	must(region != NULL, "xrocedv_alloc_mr");
	for (i = 0; i < LENGTH; i++)
		buffer[i] = (unsigned char)(i * 7);
}

/* Pieces of different lengths, which together have the length of the buffer */
static void choose_pieces(struct ibv_sge sg[PIECES])
{
	static const uint32_t length[PIECES] = { 100, 2 * PAGE, 1, PAGE + 7, 3 * PAGE - 108 };
	int i;

	for (i = 0; i < PIECES; i++)
		sg[i] = (struct ibv_sge){ (uintptr_t)pages +
						  (uint64_t)(PIECES - 1 - i) * LENGTH / 2,
					  length[i], pages_mr->lkey };
}

/* ---- transfers ------------------------------------------------------------------------- */

/*
 * Posts the transfer, in as many parts as the send queue needs, and waits for the completion of the
 * last work request: that of the chain, if there is one.
 */
static void run(struct xrocedv_rw *rw, const struct ibv_send_wr *chain, uint64_t last)
{
	struct ibv_wc wc;
	int status;

	must(rw != NULL, "xrocedv_rw_create");
	printf("%u work requests", xrocedv_rw_wrs(rw));
	while ((status = xrocedv_rw_post(rw, TRANSFER, chain)) == EINPROGRESS)
		completion("a part of the transfer");
	errno = status;
	must(!status, "xrocedv_rw_post");
	do
		wc = completion("the transfer");
	while (wc.wr_id != last);
	printf(", one completion\n");
	xrocedv_rw_destroy(rw);
}

/* Each READ takes as many pieces as the QP permits in one work request: one. */
static void read_buffer(const struct ibv_sge sg[PIECES])
{
	const struct xrocedv_rw_attr attr = {
		.direction = XROCEDV_RW_READ,
		.rkey = buffer_mr->rkey,
		.remote_addr = (uintptr_t)buffer,
		.sg = sg,
		.nents = PIECES,
	};

	printf("READ of %d bytes into %d pieces: ", LENGTH, PIECES);
	run(xrocedv_rw_create(target, &attr), NULL, TRANSFER);
}

/*
 * With a region one WRITE takes all pieces: the transfer registers them, writes, and invalidates
 * the region. Then comes the announcement.
 */
static void write_buffer(const struct ibv_sge sg[PIECES])
{
	const struct xrocedv_rw_attr attr = {
		.direction = XROCEDV_RW_WRITE,
		.rkey = buffer_mr->rkey,
		.remote_addr = (uintptr_t)buffer,
		.sg = sg,
		.nents = PIECES,
		.mr = &region,
		.num_mr = 1,
		.page_size = XROCEDV_SG_GAPS,
	};
	const struct ibv_send_wr announcement = {
		.wr_id = ANNOUNCEMENT,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr *bad, receive = { .wr_id = RECEIVE };

	must(!ibv_post_recv(initiator, &receive, &bad), "ibv_post_recv");
	printf("WRITE of %d bytes from %d pieces: ", LENGTH, PIECES);
	run(xrocedv_rw_create(target, &attr), &announcement, ANNOUNCEMENT);
}

/* ---- the end --------------------------------------------------------------------------- */

struct ended {
	int sends, receives, markers;
};

/* Called by xrocedv_drain_qp() until the markers were polled. */
static int poll_flushed(struct ibv_cq *queue, void *arg)
{
	struct ended *e = arg;
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(queue, 8, wc), i;

	for (i = 0; i < n; i++) {
		e->sends += wc[i].wr_id == TRANSFER;
		e->receives += wc[i].wr_id == RECEIVE;
		e->markers += wc[i].wr_id == SEND_MARKER || wc[i].wr_id == RECV_MARKER;
	}
	return n;
}

/* Ends the connection while work requests of the target are outstanding. */
static void end(const struct ibv_sge sg[PIECES])
{
	struct ibv_recv_wr *bad, receive = { .wr_id = RECEIVE, .sg_list = (struct ibv_sge *)sg };
	const struct xrocedv_rw_attr attr = {
		.direction = XROCEDV_RW_READ,
		.rkey = buffer_mr->rkey,
		.remote_addr = (uintptr_t)buffer,
		.sg = sg,
		.nents = PIECES,
	};
	struct xrocedv_rw *rw = xrocedv_rw_create(target, &attr);
	struct ended e = { 0 };
	const struct xrocedv_drain_attr drain = {
		.send_wr_id = SEND_MARKER,
		.recv_wr_id = RECV_MARKER,
		.timeout_ms = 5000,
		.poll = poll_flushed,
		.arg = &e,
	};
	int i;

	receive.num_sge = 1;
	for (i = 0; i < 3; i++)
		must(!ibv_post_recv(target, &receive, &bad), "ibv_post_recv");
	must(rw && !xrocedv_rw_post(rw, TRANSFER, NULL), "xrocedv_rw_post");
	errno = xrocedv_drain_qp(target, &drain);
	must(!errno, "xrocedv_drain_qp");
	must(e.receives == 3 && e.sends >= 1 && e.markers == 2, "not all was polled");
	printf("drained: %d receives, and the completions of a transfer\n", e.receives);
	xrocedv_rw_destroy(rw);
	must(!ibv_dereg_mr(region) && !ibv_dereg_mr(pages_mr) && !ibv_dereg_mr(buffer_mr),
	     "ibv_dereg_mr");
	free(pages);
	free(buffer);
}

int main(void)
{
	struct ibv_sge sg[PIECES];
	int i;

	open_device();
	create_pair(&initiator, &target);
	allocate();
	choose_pieces(sg);
	read_buffer(sg);
	for (i = 0; i < PIECES; i++)
		*(unsigned char *)(uintptr_t)sg[i].addr ^= 0xff;
	write_buffer(sg);
	must(buffer[0] == 0xff && buffer[100] == (unsigned char)~(100 * 7) && buffer[1] == 7,
	     "the initiator's buffer has other bytes than it should");
	end(sg);
	destroy_pair(initiator, target);
	return 0;
}
