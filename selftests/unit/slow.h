/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory that has to be waited for: two QPs of one engine, RC unless noted, exchange packets, and
 * the test decides when accesses to a region finish. Region FAST is mapped, region SLOW is not;
 * accesses reach both.
 */
#ifndef SELFTESTS_SLOW_H
#define SELFTESTS_SLOW_H

#include "daemon/transport/engine.h"
#include "daemon/transport/waiting/waiting.h"
#include "daemon/transport/qp.h"
#include "harness.h"
#include "selftests/lib/tap.h"

#define FAST 0x100000
#define SLOW 0x200000
#define SIZE (256u << 10)
#define MTU 1024
#define MAX_IO 512
#define RATE 1000000 /* kbit/s */
/* Attributes that UC QPs do not have */
#define RELIABLE                                                                                   \
	(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |    \
	 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define QKEY 0x11223344 /* UD */
#define AH 1

static uint8_t fast[SIZE], slow[SIZE];
static struct h_mr fast_mr, slow_mr;
static uint32_t fast_key, slow_key;
static struct harness *h;
static struct h_qp a, b;
static uint32_t type = XR_QPT_RC;
static uint32_t first_psn;
static unsigned delivered; /* frames */

/* ---- the slow memory ------------------------------------------------------------------- */

static struct xt_mem_pool pool;
static struct xt_mem_io *submitted[MAX_IO]; /* NULL: freed or finished */
static unsigned submissions, allocated;
static bool no_room;

static inline struct xt_mem_io *io_new(struct xt_mem *mem, void *ctx, uint32_t len,
				       struct xt_mem_pool **out)
{
	struct xt_mem_io *io;

	*out = &pool;
	if (no_room)
		return NULL;
	io = calloc(1, sizeof(*io) + len);
	io->ops = mem->ops;
	io->pool = &pool;
	io->data = (uint8_t *)(io + 1);
	io->len = len;
	allocated++;
	return io;
}

static inline void io_submit(struct xt_mem_io *io)
{
	if (submissions < MAX_IO)
		submitted[submissions++] = io;
}

static inline void io_free(struct xt_mem_io *io)
{
	unsigned i;

	for (i = 0; i < submissions; i++)
		if (submitted[i] == io)
			submitted[i] = NULL;
	free(io);
	allocated--;
}

static bool hanging;   /* no access ends */
static bool executing; /* accesses that are pending can no longer be prevented */

static inline bool io_cancel(struct xt_mem_io *io)
{
	return !executing;
}

/* The mark is the number of submissions. */
static inline uint32_t io_mark(const struct xt_mem *mem)
{
	return submissions;
}

static inline bool io_in_use(const struct xt_mem *mem, uint32_t before)
{
	unsigned i;

	for (i = 0; i < before; i++)
		if (submitted[i] && submitted[i]->mem == mem && !hanging)
			return true;
	return false;
}

static const struct xt_mem_ops slow_ops = {
	.io_new = io_new,
	.io_submit = io_submit,
	.io_free = io_free,
	.io_cancel = io_cancel,
	.mark = io_mark,
	.in_use = io_in_use,
};

static inline void take_effect(struct xt_mem_io *io)
{
	uint8_t *p = (io->mem == &fast_mr.mem ? fast : slow) + io->at;
	uint64_t value;

	switch (io->op) {
	case XT_MEM_READ:
		memcpy(io->data, p, io->len);
		return;
	case XT_MEM_WRITE:
		memcpy(p, io->data, io->len);
		return;
	}
	memcpy(&io->old, p, 8);
	value = io->op == XT_MEM_FETCH_ADD ? io->old + io->value : io->value;
	if (io->op != XT_MEM_CMP_SWAP || io->old == io->compare)
		memcpy(p, &value, 8);
}

/* Finishes one access. Returns false if there is none. */
static inline bool finish(int err)
{
	struct xt_mem_io *io;
	unsigned i;

	for (i = 0; i < submissions; i++) {
		io = submitted[i];
		if (!io)
			continue;
		submitted[i] = NULL;
		if (!err)
			take_effect(io);
		xt_mem_io_done(io->qp->engine, io, err);
		return true;
	}
	return false;
}

static inline unsigned pending(void)
{
	unsigned i, n = 0;

	for (i = 0; i < submissions; i++)
		n += submitted[i] != NULL;
	return n;
}

/* ---- the world ------------------------------------------------------------------------- */

/* UD: moves the QP to RTS, and makes the path to the other QP the one of AH. */
static inline bool prepare_datagrams(struct h_qp *q, const struct xt_path *path)
{
	static const uint32_t masks[] = {
		[XR_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
		[XR_QPS_RTR] = 0,
		[XR_QPS_RTS] = IBV_QP_SQ_PSN,
	};
	struct xr_qp_attr attr;
	uint32_t state;
	int err = 0;

	if (q == &a)
		xt_ahs_set(h->ahs, AH, 1, path);
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		h_attr(state, &attr);
		attr.qkey = QKEY;
		err = xt_qp_modify(q->qp, &attr, masks[state] | IBV_QP_STATE, NULL, MTU, h->now);
	}
	return !err;
}

static inline bool connect(struct h_qp *q, const struct h_qp *to, bool loopback)
{
	struct xt_path path = h_path(q == &a ? 0x0a000001 : 0x0a000002,
				     to == &a ? 0x0a000001 : 0x0a000002);
	struct xr_qp_attr attr;
	uint32_t state, mask;
	int err = 0;

	path.loopback = loopback;
	if (type == XR_QPT_UD)
		return prepare_datagrams(q, &path);
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = to->qpn;
		attr.sq_psn = attr.rq_psn = first_psn;
		attr.timeout = 8;
		attr.retry_cnt = 1;
		if (type == XR_QPT_UC)
			mask &= ~RELIABLE;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, h->now);
	}
	return !err;
}

static inline void begin(bool loopback)
{
	unsigned i;

	h = h_new(H_CQE);
	fast_key = h_reg(h, &fast_mr, fast, SIZE, FAST);
	slow_key = h_reg(h, &slow_mr, slow, SIZE, SLOW);
	slow_mr.seg.ptr = NULL;
	slow_mr.mem.ops = &slow_ops;
	fast_mr.seg.addressed = true;
	fast_mr.mem.ops = &slow_ops;
	xt_mem_pool_init(&pool);
	for (i = 0; i < SIZE; i++) {
		fast[i] = (uint8_t)(i * 7 + (i >> 8));
		slow[i] = (uint8_t)(i * 5 + (i >> 8));
	}
	submissions = delivered = 0;
	no_room = executing = hanging = false;
	h_create_type(h, &a, type);
	h_create_type(h, &b, type);
	if (!connect(&a, &b, loopback) || !connect(&b, &a, loopback))
		TAP_OK(false, "QPs are connected");
}

static inline void end(const char *what)
{
	h_destroy(&a);
	h_destroy(&b);
	TAP_OK(!allocated, "%s: no access is left", what);
	h_free(h);
}

/* Runs the engine, and delivers the frames that it sends, until nothing is sent any more. */
static inline void settle(void)
{
	struct h_frame *f;
	unsigned i;

	for (i = 0; i < 20; i++)
		xt_engine_run(h->engine, h->now);
	while (delivered < h->sent_count) {
		f = &h->sent[delivered++];
		h_receive(h, f->data, f->len);
		for (i = 0; i < 20; i++)
			xt_engine_run(h->engine, h->now);
	}
}

static inline void ring(struct h_qp *q)
{
	xt_qp_doorbell(q->qp, h->now);
	settle();
}

static inline void finish_all(void)
{
	do
		settle();
	while (finish(0));
	settle();
}

static inline struct xr_send_wqe *post(struct h_qp *q, uint64_t wr_id, uint8_t opcode,
				       uint64_t from, uint64_t to, uint32_t len)
{
	struct xr_send_wqe *w = h_post_send(q, wr_id, opcode, from, len,
					    from >= SLOW ? slow_key : fast_key);

	w->remote_addr = to;
	w->rkey = to >= SLOW ? slow_key : fast_key;
	return w;
}

static inline bool completes(uint64_t wr_id, uint32_t status)
{
	struct xr_cqe cqe;

	if (!h_poll(h, &cqe))
		return false;
	if (cqe.wr_id == wr_id && cqe.status == status)
		return true;
	printf("# wr_id %llu status %u\n", (unsigned long long)cqe.wr_id, cqe.status);
	return false;
}

static inline bool idle(void)
{
	return h->cq_consumer == h->cq_ring->producer;
}

/* Lets the ACK timeout of connect() pass several times. */
static inline void pass_time(void)
{
	unsigned i;

	for (i = 0; i < 10; i++) {
		h->now += 2000000;
		settle();
	}
}

#endif /* SELFTESTS_SLOW_H */
