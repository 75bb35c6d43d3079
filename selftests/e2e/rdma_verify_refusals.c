/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tests of rdma_verify: requests that must be refused, with the right status and event and
 * unchanged memory.
 */
#include "rdma_verify.h"

#include <inttypes.h>
#include <poll.h>

struct refusal {
	enum ibv_wr_opcode opcode;
	int access;	   /* of the passive side's region */
	int64_t offset;	   /* of the remote address from the start of the region */
	uint32_t from_end; /* if not 0: of the remote address from the end of the region instead */
	uint32_t len;
	uint32_t key_xor; /* XORed with the R_Key */
	bool stale, other_pd;
	enum ibv_wc_status status;
	enum ibv_event_type event;
};

static bool wait_event(struct verify *v, enum ibv_event_type want)
{
	struct pollfd pfd = { .fd = v->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	enum ibv_event_type type;

	do {
		if (poll(&pfd, 1, wait_seconds() * 1000) != 1)
			return fail(v, "no event %s", ibv_event_type_str(want));
		if (ibv_get_async_event(v->ctx, &ev))
			return fail(v, "ibv_get_async_event failed");
		type = ev.event_type;
		ibv_ack_async_event(&ev);
	} while (type == IBV_EVENT_COMM_EST || type == IBV_EVENT_GID_CHANGE);
	return type == want ||
	       fail(v, "event %s, not %s", ibv_event_type_str(type), ibv_event_type_str(want));
}

static uint64_t remote_address(const struct verify *v, const struct refusal *r)
{
	return v->peer.addr + (r->from_end ? v->size - r->from_end : (uint64_t)r->offset);
}

static bool active_refused(struct verify *v, const struct refusal *r)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, r->len, v->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7,
				  .opcode = r->opcode,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr behind = { .wr_id = 8, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = remote_address(v, r);
	wr.wr.rdma.rkey = v->peer.rkey ^ r->key_xor;
	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote_address(v, r);
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = v->peer.rkey ^ r->key_xor;
	}
	wr.next = &behind;
	if (!post(v, &wr) || !next_wc(v, &wc))
		return false;
	if (wc.wr_id != 7 || wc.status != r->status)
		return fail(v, "completion %" PRIu64 ": %s, expected %s", wc.wr_id,
			    ibv_wc_status_str(wc.status), ibv_wc_status_str(r->status));
	if (!next_wc(v, &wc))
		return false;
	if (wc.wr_id != 8 || wc.status != IBV_WC_WR_FLUSH_ERR)
		return fail(v, "next request: %s", ibv_wc_status_str(wc.status));
	return true;
}

static bool refuse(struct verify *v, const struct refusal *r)
{
	struct ibv_pd *pd = v->pd, *other = NULL;
	struct ibv_mr *extra = NULL;
	bool ok;

	fill_pattern(v->buf, v->size, v->host ? 3 : 4, 0);
	if (!connect_qp(v, v->host ? ALL_ACCESS : r->access))
		return false;
	if (!v->host && r->other_pd) {
		other = ibv_alloc_pd(v->ctx);
		extra = ibv_reg_mr(other, v->buf, v->size, ALL_ACCESS);
		v->me.rkey = extra ? extra->rkey : 0;
	}
	if (!v->host && r->stale) {
		extra = ibv_reg_mr(pd, v->buf, v->size, ALL_ACCESS);
		v->me.rkey = extra ? extra->rkey : 0;
		if (extra)
			ibv_dereg_mr(extra);
		extra = NULL;
	}
	ok = xfer(v, &v->peer, &v->me, sizeof(v->me));
	memcpy(v->want, v->buf, v->size);
	if (ok)
		ok = v->host ? active_refused(v, r) : v->no_events || wait_event(v, r->event);
	ok = ok && barrier(v) && same(v, "memory after a refused request");
	if (extra)
		ibv_dereg_mr(extra);
	if (other)
		ibv_dealloc_pd(other);
	return ok;
}

#define REFUSAL(name, op, bytes, rights, ...)                                                      \
	static bool test_##name(struct verify *v)                                                  \
	{                                                                                          \
		static const struct refusal r = { .opcode = op,                                    \
						  .len = bytes,                                    \
						  .access = rights,                                \
						  .status = IBV_WC_REM_ACCESS_ERR,                 \
						  .event = IBV_EVENT_QP_ACCESS_ERR,                \
						  __VA_ARGS__ };                                   \
		return refuse(v, &r);                                                              \
	}
#define NO_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define ONLY_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

REFUSAL(wrong_index, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .key_xor = 0x00ff0000)
REFUSAL(wrong_variant, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .key_xor = 0x01)
REFUSAL(stale_key, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .stale = true)
REFUSAL(other_pd, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .other_pd = true)
REFUSAL(one_below, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .offset = -1)
REFUSAL(one_above, IBV_WR_RDMA_WRITE, 64, ALL_ACCESS, .from_end = 63)
REFUSAL(read_one_below, IBV_WR_RDMA_READ, 64, ALL_ACCESS, .offset = -1)
REFUSAL(read_one_above, IBV_WR_RDMA_READ, 64, ALL_ACCESS, .from_end = 63)
REFUSAL(long_one_above, IBV_WR_RDMA_WRITE, 1 << 20, ALL_ACCESS, .from_end = (1 << 20) - 1)
REFUSAL(no_read, IBV_WR_RDMA_READ, 64, ONLY_WRITE, .offset = 0)
REFUSAL(no_write, IBV_WR_RDMA_WRITE, 64, NO_WRITE, .offset = 0)
REFUSAL(no_atomic, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, NO_WRITE, .offset = 0)

/* The request fails locally. */
static bool test_wrong_lkey(struct verify *v)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, 64, 0 };
	struct ibv_send_wr wr = { .wr_id = 9,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	sge.lkey = v->mr->lkey ^ 0x1;
	wr.wr.rdma.remote_addr = v->peer.addr;
	wr.wr.rdma.rkey = v->peer.rkey;
	if (v->host) {
		if (!post(v, &wr) || !next_wc(v, &wc))
			return false;
		if (wc.status != IBV_WC_LOC_PROT_ERR)
			return fail(v, "completion: %s", ibv_wc_status_str(wc.status));
	}
	return barrier(v);
}

/* A SEND that is longer than the receive. */
static bool test_short_receive(struct verify *v)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, v->host ? 100 : 99, 0 };
	struct ibv_send_wr wr = { .wr_id = 9,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	enum ibv_wc_status want = v->host ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_LOC_LEN_ERR;
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	sge.lkey = v->mr->lkey;
	if (!v->host && !post_recv(v, &sge, 1, 10))
		return false;
	if (!barrier(v) || (v->host && !post(v, &wr)) || !next_wc(v, &wc))
		return false;
	return wc.status == want || fail(v, "completion: %s", ibv_wc_status_str(wc.status));
}

const struct test verify_refusals[] = {
	{ "wrong-index", test_wrong_index,
	  "a WRITE with an unknown R_Key index is NAKed with remote access error" },
	{ "wrong-variant", test_wrong_variant,
	  "a WRITE with a wrong R_Key variant is NAKed with remote access error" },
	{ "stale-key", test_stale_key,
	  "a WRITE with the R_Key of a deregistered region is NAKed with remote access error" },
	{ "other-pd", test_other_pd,
	  "a WRITE with the R_Key of another PD is NAKed with remote access error" },
	{ "one-below", test_one_below,
	  "a WRITE from one byte below the region is NAKed with remote access error" },
	{ "one-above", test_one_above,
	  "a WRITE to one byte above the region is NAKed with remote access error" },
	{ "long-one-above", test_long_one_above,
	  "a long WRITE to one byte above the region is NAKed with remote access error" },
	{ "read-one-below", test_read_one_below,
	  "a READ from one byte below the region is NAKed with remote access error" },
	{ "read-one-above", test_read_one_above,
	  "a READ to one byte above the region is NAKed with remote access error" },
	{ "no-read", test_no_read,
	  "a READ of a region without remote read access is NAKed with remote access error" },
	{ "no-write", test_no_write,
	  "a WRITE to a region without remote write access is NAKed with remote access error" },
	{ "no-atomic", test_no_atomic,
	  "an atomic on a region without remote atomic access is NAKed with remote access error" },
	{ "wrong-lkey", test_wrong_lkey, "a WRITE with an invalid L_Key fails locally" },
	{ "short-receive", test_short_receive,
	  "a SEND longer than the receive fails on both sides" },
	{ 0 },
};
