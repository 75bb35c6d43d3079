/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tests of rdma_verify: reused QPs, RNR, a destroyed peer, rate limits. */
#include "rdma_verify.h"

#include <unistd.h>

/* QPs are reconnected after RESET and replaced by new ones; data is transferred over each. */
static bool test_reuse(struct verify *v)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	int rounds = v->rounds;
	bool ok = true;

	fill_buffer(v);
	v->rounds = 1;
	for (int i = 0; i < 12 && ok; i++) {
		if (i % 4 == 0) {
			disconnect_qp(v);
			ok = connect_qp(v, ALL_ACCESS);
		} else {
			ok = !ibv_modify_qp(v->qp, &reset, IBV_QP_STATE) && bring_up(v);
		}
		ok = ok && run_transfers(v, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 20000);
	}
	v->rounds = rounds;
	return ok || fail(v, "to RESET: %s", strerror(errno));
}

/* A SEND is retried after RNR NAKs until the receive is posted. */
static bool test_rnr(struct verify *v)
{
	const uint32_t len = 5000;
	struct ibv_sge sge = { (uintptr_t)v->buf + GUARD, len, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	if (!connect_qp(v, ALL_ACCESS))
		return false;
	sge.lkey = v->mr->lkey;
	for (int i = 0; i < 3; i++) {
		fill_pattern(v->host ? v->buf + GUARD : v->want, len, 50 + (uint32_t)i, 0);
		if (!barrier(v))
			return false;
		usleep(v->host ? 0 : 50000);
		if (!(v->host ? post(v, &wr) : post_recv(v, &sge, 1, 0)) ||
		    !good_wc(v, &wc, v->host ? IBV_WC_SEND : IBV_WC_RECV))
			return false;
		if (!v->host && memcmp(v->buf + GUARD, v->want, len))
			return fail(v, "data differs");
	}
	return barrier(v);
}

/*
 * The active side posts a SEND that must fail with this status; the next request must be flushed.
 */
static bool fails_with(struct verify *v, enum ibv_wc_status status)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, 64, v->mr->lkey };
	struct ibv_send_wr behind = { .wr_id = 8, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_send_wr wr = { .wr_id = 7,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .next = &behind };
	struct ibv_wc wc;

	if (!v->host)
		return true;
	if (!post(v, &wr) || !next_wc(v, &wc))
		return false;
	if (wc.wr_id != 7 || wc.status != status)
		return fail(v, "completion: %s, expected %s", ibv_wc_status_str(wc.status),
			    ibv_wc_status_str(status));
	if (!next_wc(v, &wc))
		return false;
	return wc.status == IBV_WC_WR_FLUSH_ERR ||
	       fail(v, "next request: %s", ibv_wc_status_str(wc.status));
}

static bool test_rnr_limit(struct verify *v)
{
	bool ok;

	v->rnr_retry = 1;
	ok = connect_qp(v, ALL_ACCESS) && fails_with(v, IBV_WC_RNR_RETRY_EXC_ERR) && barrier(v);
	v->rnr_retry = 7;
	return ok;
}

static bool test_destroyed(struct verify *v)
{
	bool ok;

	v->timeout = 12;
	v->retry_cnt = 2;
	ok = connect_qp(v, ALL_ACCESS);
	if (ok && !v->host) {
		ibv_destroy_qp(v->qp);
		v->qp = NULL;
	}
	ok = ok && barrier(v) && fails_with(v, IBV_WC_RETRY_EXC_ERR) && barrier(v);
	v->timeout = ack_timeout();
	v->retry_cnt = 7;
	return ok;
}

/* Returns how long a WRITE of @len bytes takes in seconds, or a negative number if it fails. */
static double timed_write(struct verify *v, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)v->buf, len, v->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { v->peer.addr, v->peer.rkey } };
	struct ibv_wc wc;
	double start = now();

	return post(v, &wr) && good_wc(v, &wc, IBV_WC_RDMA_WRITE) ? now() - start : -1;
}

/*
 * At 100 Mbit/s a byte takes 80 ns. Only the first burst may be faster; headers take additional
 * time.
 */
static bool test_rate(struct verify *v)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 100000, .max_burst_sz = 20000 };
	const uint32_t len = 1 << 20;
	struct ibv_device_attr_ex dev;
	double took;
	int err;

	if (!connect_qp(v, ALL_ACCESS) || !v->host)
		return barrier(v);
	if (ibv_query_device_ex(v->ctx, NULL, &dev) ||
	    !(dev.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC) ||
	    dev.packet_pacing_caps.qp_rate_limit_max < limit.rate_limit)
		return fail(v, "the device reports no rate limits");
	err = ibv_modify_qp_rate_limit(v->qp, &limit);
	if (err)
		return fail(v, "ibv_modify_qp_rate_limit: %s", strerror(err));
	took = timed_write(v, len);
	if (took >= 0 && took < (len - limit.max_burst_sz) * 80e-9)
		return fail(v, "%.3f s is faster than the limit", took);
	limit.rate_limit = 0;
	if (ibv_modify_qp_rate_limit(v->qp, &limit) || timed_write(v, len) < 0)
		return fail(v, "WRITE without the limit failed");
	return barrier(v);
}

const struct test verify_connections[] = {
	{ "reuse", test_reuse, "QPs work after RESET, and so do new QPs" },
	{ "rnr", test_rnr, "a SEND is retried until its receive is posted" },
	{ "rnr-limit", test_rnr_limit, "a SEND without a receive fails with RNR retry exceeded" },
	{ "destroyed", test_destroyed, "a SEND to a destroyed QP fails with retry exceeded" },
	{ "rate", test_rate, "a QP rate limit is enforced" },
	{ 0 },
};
