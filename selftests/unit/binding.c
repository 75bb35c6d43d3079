// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "binding.h"

#include "selftests/lib/parse.h"
#include "selftests/lib/tap.h"

uint8_t memory[SIZE];
bool over_wire;

static uint8_t before[SIZE];

const char *path_name(void)
{
	return over_wire ? "wire" : "loopback";
}

static void connect(struct world *w, unsigned i, unsigned to)
{
	uint32_t from_ip = 0x0a000001, to_ip = over_wire ? 0x0a000002 : from_ip, state, mask;
	struct h_qp *q = &w->q[i];
	struct xr_qp_attr attr;
	struct xt_path path;
	int err = 0;

	path = i == 1 ? h_path(to_ip, from_ip) : h_path(from_ip, to_ip);
	path.loopback = !over_wire;
	for (state = XR_QPS_INIT; state <= XR_QPS_RTS && !err; state++) {
		mask = h_attr(state, &attr);
		attr.dest_qp_num = w->q[to].qpn;
		attr.sq_psn = i == 1 ? 9 : 5;
		attr.rq_psn = i == 1 ? 5 : 9;
		attr.timeout = 8;
		attr.retry_cnt = 3;
		err = xt_qp_modify(q->qp, &attr, mask, &path, 4096, w->h->now);
	}
	if (err)
		TAP_OK(false, "connect: %d", err);
}

void begin(struct world *w)
{
	unsigned i;

	memset(w, 0, sizeof(*w));
	w->h = h_new(H_CQE);
	w->lkey = h_reg(w->h, &w->mr, memory, SIZE, BASE);
	w->mr.key->entry.access |= XR_ACCESS_MW_BIND;
	for (i = 0; i < SIZE; i++)
		memory[i] = i * 7 + (i >> 8);
	for (i = 0; i < QPS; i++)
		h_create(w->h, &w->q[i]);
	connect(w, 0, 1);
	connect(w, 1, 0);
	connect(w, 2, 1);
}

void end(struct world *w)
{
	unsigned i;

	for (i = 0; i < QPS; i++)
		h_destroy(&w->q[i]);
	h_free(w->h);
}

void make_window(struct world *w, bool type_2)
{
	w->window = xt_keys_alloc(w->h->shared.keys);
	w->window->entry.variant = 0;
	w->window->entry.pd = 1;
	w->window->entry.type = XR_KEY_MW;
	w->window->entry.flags = type_2 ? XR_KEYF_TYPE_2 : 0;
}

/* Receives all frames sent, except the one to be dropped. Returns false if none was sent. */
static bool deliver(struct world *w)
{
	static struct h_frame frames[H_FRAMES];
	unsigned n = w->h->sent_count, i;

	memcpy(frames, w->h->sent, n * sizeof(frames[0]));
	w->h->sent_count = 0;
	for (i = 0; i < n; i++) {
		struct xt_frame f = { .seg[0] = { frames[i].data, frames[i].len },
				      .nseg = 1,
				      .len = frames[i].len };

		if (w->drop && !--w->drop)
			continue;
		if (parse_frame(&f) == XR_OK)
			xt_engine_rx(w->h->engine, &f, 1, w->h->now);
	}
	return n;
}

void run_until_idle(struct world *w)
{
	uint64_t next;
	unsigned i;

	for (i = 0; i < QPS; i++)
		xt_qp_doorbell(w->q[i].qp, w->h->now);
	for (i = 0; i < 2000; i++) {
		next = xt_engine_run(w->h->engine, w->h->now);
		if (deliver(w))
			next = 0;
		else if (next == XT_NEVER)
			return;
		w->h->now = next > w->h->now ? next : w->h->now + 1000;
	}
}

struct xr_send_wqe *post_bind(struct world *w, unsigned q, uint64_t wr_id, uint32_t variant,
			      uint64_t from, uint64_t len, uint32_t access)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[q], wr_id, XR_WR_BIND_MW, 0, 0, 0);

	wqe->bind.mw_rkey = xt_key_value(w->window);
	wqe->bind.new_rkey = XR_KEY(w->window->index, variant);
	wqe->bind.mr_lkey = w->lkey;
	wqe->bind.access = access;
	wqe->remote_addr = BASE + from;
	wqe->bind_len = len;
	return wqe;
}

struct xr_send_wqe *post_rdma(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
			      uint64_t addr, uint32_t len, uint32_t rkey)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[q], wr_id, opcode, BASE + 40000, len, w->lkey);

	wqe->remote_addr = addr;
	wqe->rkey = rkey;
	return wqe;
}

struct xr_send_wqe *post_inv(struct world *w, unsigned q, uint64_t wr_id, uint8_t opcode,
			     uint32_t rkey)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[q], wr_id, opcode, 0, 0, 0);

	wqe->invalidate_rkey = rkey;
	return wqe;
}

int status_of(struct world *w, uint64_t wr_id, struct xr_cqe *cqe)
{
	struct xr_cqe local;

	if (!cqe)
		cqe = &local;
	if (!h_poll(w->h, cqe))
		return -1;
	if (cqe->wr_id == wr_id)
		return (int)cqe->status;
	printf("# wr_id %llu status %u vendor_err %x\n", (unsigned long long)cqe->wr_id,
	       cqe->status, cqe->vendor_err);
	return -1;
}

int do_bind(struct world *w, uint32_t variant, uint64_t from, uint64_t len, uint32_t access)
{
	post_bind(w, 0, 100, variant, from, len, access);
	run_until_idle(w);
	return status_of(w, 100, NULL);
}

int do_rdma(struct world *w, uint8_t opcode, uint64_t addr, uint32_t len, uint32_t rkey)
{
	int status;

	memcpy(before, memory, SIZE);
	post_rdma(w, 1, 101, opcode, addr, len, rkey);
	run_until_idle(w);
	status = status_of(w, 101, NULL);
	if (status && memcmp(before, memory, SIZE))
		TAP_OK(false, "a refused request does not change memory");
	return status;
}

bool moved(uint32_t off, uint32_t len)
{
	return !memcmp(memory + off, memory + 40000, len);
}
