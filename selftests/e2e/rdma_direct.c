// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Direct verbs that kernel programs have: draining of queues, RW contexts, fast
 * registration of pieces without alignment, integrity regions. They are looked up in the preloaded
 * library. Each test is one function, which may serve as an example.
 *
 *   rdma_direct [options]         the driver: runs the tests
 *   rdma_direct [options] HOST    its partner: executes requests of the driver (endpoint.h)
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -t NAME  run one test (may be repeated)  -p PORT  TCP port for set-up (18517)
 */
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "endpoint.h"

#include "../lib/direct_verbs.h"
#include "../lib/signatures.h"

#define TIMEOUT_MS 30000
#define SEND_MARK 901u
#define RECV_MARK 902u
#define PAGE 4096u
#define MAX_PIECES 8192

struct direct {
	struct endpoint ep;
	struct direct_verbs dv;
	uint8_t *mem; /* not registered */
	struct ibv_sge sg[MAX_PIECES];
	uint32_t seed;
	char error[200]; /* message of the first failure */
};

static bool expect(struct direct *d, const char *what, long got, long want)
{
	if (got != want && !d->error[0])
		snprintf(d->error, sizeof(d->error), "%s: %ld, expected %ld", what, got, want);
	return got == want;
}

/* ---- drain ------------------------------------------------------------------------- */

/* Completions that were polled while a QP was drained */
struct polled {
	unsigned n, flushed, last_send, last_recv; /* last: its wr_id */
};

static int poll_all(struct ibv_cq *cq, void *arg)
{
	struct polled *p = arg;
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(cq, 4, wc);

	for (int i = 0; i < n; i++) {
		p->n++;
		p->flushed += wc[i].status == IBV_WC_WR_FLUSH_ERR;
		if (wc[i].wr_id % 2) /* WRs of the SQ have odd numbers */
			p->last_send = (unsigned)wc[i].wr_id;
		else
			p->last_recv = (unsigned)wc[i].wr_id;
	}
	return n;
}

static struct xrocedv_drain_attr drain_attr(struct polled *p)
{
	return (struct xrocedv_drain_attr){ .send_wr_id = SEND_MARK,
					    .recv_wr_id = RECV_MARK,
					    .timeout_ms = TIMEOUT_MS,
					    .poll = poll_all,
					    .arg = p };
}

static void post_recvs(struct ibv_qp *qp, struct ibv_srq *srq, unsigned n)
{
	struct ibv_recv_wr *bad, wr = { 0 };

	for (; n; n--) {
		wr.wr_id = 2 * n;
		if (srq)
			ibv_post_srq_recv(srq, &wr, &bad);
		else
			ibv_post_recv(qp, &wr, &bad);
	}
}

static void post_sends(struct ibv_qp *qp, unsigned n)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	for (; n; n--) {
		wr.wr_id = 2 * n + 1;
		ibv_post_send(qp, &wr, &bad);
	}
}

/* The partner has no receives, so the SENDs do not complete by themselves. */
static bool drain(struct direct *d)
{
	struct polled p = { 0 };
	struct xrocedv_drain_attr attr = drain_attr(&p);
	bool ok;

	post_recvs(d->ep.qp, NULL, EP_DEPTH);
	post_sends(d->ep.qp, EP_DEPTH - 1);
	ok = expect(d, "drain_qp", d->dv.drain_qp(d->ep.qp, &attr), 0) &&
	     expect(d, "completions", p.n, 2 * EP_DEPTH + 1) &&
	     expect(d, "flushed", p.flushed, p.n) &&
	     expect(d, "last of the SQ", p.last_send, SEND_MARK) &&
	     expect(d, "last of the RQ", p.last_recv, RECV_MARK) &&
	     expect(d, "reconnect", ep_reconnect(&d->ep), 0) &&
	     expect(d, "drain_sq", d->dv.drain_sq(d->ep.qp, &attr), 0) &&
	     expect(d, "drain_rq", d->dv.drain_rq(d->ep.qp, &attr), 0) &&
	     expect(d, "completions", p.n, 2 * EP_DEPTH + 3);
	return ok && expect(d, "reconnect", ep_reconnect(&d->ep), 0);
}

/* A QP in RESET has nothing to drain, and cannot move to ERR. */
static bool drain_reset(struct direct *d)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct polled p = { 0 };
	struct xrocedv_drain_attr attr = drain_attr(&p);

	return expect(d, "RESET", ibv_modify_qp(d->ep.qp, &reset, IBV_QP_STATE), 0) &&
	       expect(d, "drain_qp", d->dv.drain_qp(d->ep.qp, &attr), EINVAL) &&
	       expect(d, "reconnect", ep_reconnect(&d->ep), 0);
}

/* Two QPs of this program, connected to each other; the first has an SRQ. */
struct pair {
	struct ibv_cq *cq[2];
	struct ibv_srq *srq;
	struct ibv_qp *qp[2];
};

static bool make_pair(struct direct *d, struct pair *p)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 8, .max_sge = 1 } };
	bool ok = (p->srq = ibv_create_srq(d->ep.pd, &srq)) != NULL;
	struct ibv_qp_attr attr;

	for (int i = 0; i < 2 && ok; i++) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
						 .cap = { 8, 8, EP_SGE, 1, 0 } };

		p->cq[i] = ibv_create_cq(d->ep.ctx, 64, NULL, NULL, 0);
		init.send_cq = init.recv_cq = p->cq[i];
		init.srq = i ? NULL : p->srq;
		p->qp[i] = p->cq[i] ? ibv_create_qp(d->ep.pd, &init) : NULL;
		ok = p->qp[i];
	}
	for (int i = 0; i < 2 && ok; i++) {
		attr = rc_attr(d->ep.gid_index, d->ep.me.gid, p->qp[!i]->qp_num);
		attr.qp_access_flags = EP_ACCESS;
		ok = !reset_to_rts(p->qp[i], &attr);
	}
	return ok;
}

static void free_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->qp[i])
			ibv_destroy_qp(p->qp[i]);
		if (p->cq[i])
			ibv_destroy_cq(p->cq[i]);
	}
	if (p->srq)
		ibv_destroy_srq(p->srq);
}

static int next_event(struct direct *d)
{
	struct pollfd fd = { .fd = d->ep.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, TIMEOUT_MS) != 1 || ibv_get_async_event(d->ep.ctx, &event))
		return -1;
	ibv_ack_async_event(&event);
	return (int)event.event_type;
}

/* The receives that the QP took have completed; the others stay in the SRQ. */
static bool drain_srq(struct direct *d)
{
	struct polled p = { 0 };
	struct xrocedv_drain_attr attr = drain_attr(&p);
	struct pair pair = { 0 };
	struct ibv_wc wc;
	bool ok;

	ok = expect(d, "created", make_pair(d, &pair), true);
	if (ok) {
		post_recvs(NULL, pair.srq, 5);
		post_sends(pair.qp[1], 3);
	}
	for (int i = 0; i < 3 && ok; i++)
		ok = expect(d, "SEND", next_completion(pair.cq[1], &wc, 30), 1) &&
		     expect(d, "status of a SEND", wc.status, 0);
	ok = ok && expect(d, "drain_qp", d->dv.drain_qp(pair.qp[0], &attr), 0) &&
	     expect(d, "completions", p.n, 4) && expect(d, "flushed", p.flushed, 1);
	for (int event = 0; ok && event != IBV_EVENT_QP_LAST_WQE_REACHED;) {
		event = next_event(d);
		ok = expect(d, "event of the last receive", event >= 0, true);
	}
	free_pair(&pair);
	return ok;
}

/* ---- RW contexts -------------------------------------------------------------------- */

/* Pieces of `len` bytes, each `stride` behind the one before it. */
struct layout {
	uint8_t *base;
	uint32_t lkey, n, len, stride;
};

/* Sets d->sg, and fills the pieces with the pattern of d->seed, or with zeros. */
static void lay_out(struct direct *d, const struct layout *l, bool fill)
{
	for (uint32_t i = 0; i < l->n; i++) {
		uint8_t *p = l->base + (size_t)i * l->stride;

		d->sg[i] = (struct ibv_sge){ (uintptr_t)p, l->len, l->lkey };
		if (fill)
			fill_pattern(p, l->len, d->seed, (size_t)i * l->len);
		else
			memset(p, 0, l->len);
	}
}

static bool has_data(const struct direct *d, const struct layout *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (!has_pattern((void *)(uintptr_t)d->sg[i].addr, l->len, d->seed,
				 (size_t)i * l->len))
			return false;
	return true;
}

static struct xrocedv_rw_attr rw_attr(const struct direct *d, uint32_t n)
{
	return (struct xrocedv_rw_attr){ .direction = XROCEDV_RW_WRITE,
					 .rkey = d->ep.peer.rkey,
					 .remote_addr = d->ep.peer.addr,
					 .sg = d->sg,
					 .nents = (int)n };
}

/* Runs a transfer, in as many parts as the send queue needs. Returns as endpoint.h describes. */
static int transfer(struct direct *d, const struct xrocedv_rw_attr *attr, unsigned *parts)
{
	struct xrocedv_rw *rw = d->dv.rw_create(d->ep.qp, attr);
	int err, result = 0;
	struct ibv_wc wc;

	if (!rw)
		return -errno;
	*parts = 0;
	do {
		err = d->dv.rw_post(rw, 77, NULL);
		if (err && err != EINPROGRESS) {
			result = -err;
			break;
		}
		++*parts;
		result = ep_completion(&d->ep, &wc);
		if (wc.wr_id != 77)
			result = -EBADMSG;
	} while (!result && err);
	d->dv.rw_destroy(rw);
	return result;
}

/* Writes the pieces to the partner, and reads others from there. */
static bool both_ways(struct direct *d, const struct layout *l, struct xrocedv_rw_attr *attr,
		      unsigned want_parts)
{
	const uint32_t len = l->n * l->len;
	unsigned parts;

	d->seed++;
	lay_out(d, l, true);
	attr->direction = XROCEDV_RW_WRITE;
	if (!expect(d, "write", transfer(d, attr, &parts), 0) ||
	    !expect(d, "parts", parts, want_parts) ||
	    !expect(d, "data at the partner",
		    ep_call(&d->ep,
			    &(struct ep_request){ .op = EP_CHECK, .len = len, .seed = d->seed }),
		    0))
		return false;
	d->seed++;
	ep_call(&d->ep, &(struct ep_request){ .op = EP_FILL, .len = len, .seed = d->seed });
	lay_out(d, l, false);
	attr->direction = XROCEDV_RW_READ;
	return expect(d, "read", transfer(d, attr, &parts), 0) &&
	       expect(d, "data of the read", has_data(d, l), true);
}

static bool rw(struct direct *d)
{
	static const struct {
		uint32_t n, len, stride;
		unsigned parts;
	} rows[] = {
		{ 1, 1, 1, 1 },		 { 1, 1 << 20, 1, 1 },	      { 32, 1000, 1001, 1 },
		{ 33, 1000, 1500, 1 },	 { 1000, 37, 41, 1 },	      { 7, 100001, 100003, 1 },
		{ 32 * 64, 99, 100, 1 }, { 32 * 64 + 1, 99, 100, 2 }, { MAX_PIECES, 101, 103, 4 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct layout l = { d->ep.buf, d->ep.mr->lkey, rows[i].n, rows[i].len,
					  rows[i].stride };
		struct xrocedv_rw_attr attr = rw_attr(d, l.n);

		if (!both_ways(d, &l, &attr, rows[i].parts))
			return false;
	}
	return true;
}

/* The same regions are used again and again: each transfer invalidates them. */
static bool rw_regions(struct direct *d)
{
	const struct layout l = { d->mem + 1234, 0, 1, 100 * PAGE, 1 };
	struct xrocedv_rw_attr attr = rw_attr(d, l.n);
	struct ibv_mr *mr[8];
	bool ok = true;

	for (int i = 0; i < 8; i++)
		mr[i] = d->dv.alloc_mr(d->ep.pd, 13);
	attr.mr = mr;
	attr.num_mr = 8;
	attr.page_size = PAGE;
	for (int i = 0; i < 3 && ok; i++)
		ok = both_ways(d, &l, &attr, 1);
	for (int i = 0; i < 8; i++)
		ok &= expect(d, "deregister", ibv_dereg_mr(mr[i]), 0);
	return ok;
}

/* A chained WRITE takes effect behind the transfer, and has the only completion. */
static bool rw_chain(struct direct *d)
{
	const struct layout l = { d->ep.buf, d->ep.mr->lkey, 100, 500, 700 };
	uint8_t *last = d->ep.buf + EP_BUF_SIZE - 8;
	struct xrocedv_rw_attr attr = rw_attr(d, l.n);
	struct ibv_sge sge = { (uintptr_t)last, 8, l.lkey };
	struct ibv_send_wr wr = { .wr_id = 5,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { d->ep.peer.addr + 50000, d->ep.peer.rkey } };
	struct xrocedv_rw *ctx;
	struct ibv_wc wc = { 0 };
	bool ok;

	d->seed++;
	lay_out(d, &l, true);
	fill_pattern(last, 8, d->seed, 50000);
	ctx = d->dv.rw_create(d->ep.qp, &attr);
	ok = expect(d, "created", !!ctx, true) &&
	     expect(d, "post", d->dv.rw_post(ctx, 77, &wr), 0) &&
	     expect(d, "completion", ep_completion(&d->ep, &wc), 0) &&
	     expect(d, "of the chain", (long)wc.wr_id, 5) &&
	     expect(d, "one completion", ibv_poll_cq(d->ep.cq, 1, &wc), 0) &&
	     expect(d, "data at the partner",
		    ep_call(&d->ep,
			    &(struct ep_request){ .op = EP_CHECK, .len = 50008, .seed = d->seed }),
		    0);
	if (ctx)
		d->dv.rw_destroy(ctx);
	return ok;
}

static bool rw_refused(struct direct *d)
{
	const struct layout l = { d->ep.buf, d->ep.mr->lkey, 40, 500, 700 };
	struct xrocedv_rw_attr attr = rw_attr(d, l.n);
	unsigned parts;

	lay_out(d, &l, true);
	attr.remote_addr = d->ep.peer.addr + EP_BUF_SIZE - 100;
	return expect(d, "write beyond the remote region", transfer(d, &attr, &parts),
		      IBV_WC_REM_ACCESS_ERR) &&
	       expect(d, "reconnect", ep_reconnect(&d->ep), 0);
}

/* RW contexts that register pieces of private memory without alignment */
static bool rw_gaps(struct direct *d)
{
	static const struct {
		uint32_t n, len, stride;
	} rows[] = { { 1, 1, 1 }, { 1000, 9, 4099 }, { 3000, 300, 701 }, { 40, 5001, 9001 } };
	struct ibv_mr *mr[4];
	bool ok = true;

	for (int i = 0; i < 4; i++)
		mr[i] = d->dv.alloc_mr(d->ep.pd, 2000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && ok; i++) {
		const struct layout l = { d->mem + 7, 0, rows[i].n, rows[i].len, rows[i].stride };
		struct xrocedv_rw_attr attr = rw_attr(d, l.n);

		attr.mr = mr;
		attr.num_mr = 4;
		attr.page_size = XROCEDV_SG_GAPS;
		ok = both_ways(d, &l, &attr, 1);
	}
	for (int i = 0; i < 4; i++)
		ok &= expect(d, "deregister", ibv_dereg_mr(mr[i]), 0);
	return ok;
}

/* ---- pieces without alignment as memory for the peer ----------------------------------- */

static int key_wr(struct direct *d, struct ibv_mr *mr, bool reg)
{
	struct ibv_send_wr *bad, inv = { .opcode = IBV_WR_LOCAL_INV,
					 .send_flags = IBV_SEND_SIGNALED,
					 .invalidate_rkey = mr->rkey };
	struct ibv_wc wc;
	int err = reg ? d->dv.post_reg_mr(d->ep.qp, mr, 1, EP_ACCESS, IBV_SEND_SIGNALED)
		      : ibv_post_send(d->ep.qp, &inv, &bad);

	return err ? -err : ep_completion(&d->ep, &wc);
}

static int partner_does(struct direct *d, uint32_t op, uint64_t addr, uint32_t len, uint32_t rkey)
{
	return ep_call(&d->ep,
		       &(struct ep_request){
			       .op = op, .addr = addr, .len = len, .rkey = rkey, .seed = d->seed });
}

/* The partner writes all pieces and reads them back, and is refused one byte beyond them. */
static bool gaps_row(struct direct *d, const struct layout *l, struct ibv_mr *mr)
{
	const uint32_t len = l->n * l->len;
	struct xrocedv_sg *sg = calloc(l->n, sizeof(*sg));
	uint64_t addr;
	int mapped;

	d->seed++;
	lay_out(d, l, false);
	for (uint32_t i = 0; i < l->n; i++)
		sg[i] = (struct xrocedv_sg){ d->sg[i].addr, d->sg[i].length };
	mapped = d->dv.map_mr_sg(mr, sg, (int)l->n, NULL, XROCEDV_SG_GAPS);
	free(sg);
	xrocedv_update_key(mr, (uint8_t)d->seed);
	addr = (uintptr_t)mr->addr;
	return expect(d, "mapped", mapped, l->n) && expect(d, "length", (long)mr->length, len) &&
	       expect(d, "register", key_wr(d, mr, true), 0) &&
	       expect(d, "fill", partner_does(d, EP_FILL, 0, len, 0), 0) &&
	       expect(d, "WRITE", partner_does(d, EP_WRITE, addr, len, mr->rkey), 0) &&
	       expect(d, "data", has_data(d, l), true) &&
	       expect(d, "READ", partner_does(d, EP_READ, addr, len, mr->rkey), 0) &&
	       expect(d, "data of the READ", partner_does(d, EP_CHECK, 0, len, 0), 0) &&
	       /* a repeated READ request that arrives late must not find the key invalid */
	       expect(d, "reconnect", ep_reconnect(&d->ep), 0) &&
	       expect(d, "invalidate", key_wr(d, mr, false), 0);
}

static bool gaps(struct direct *d)
{
	static const struct {
		uint32_t n, len, stride;
	} rows[] = { { 1, 1, 1 },	 { 256, 1, 5 },	      { 2000, 9, 17 },
		     { 2000, 301, 601 }, { 100, 2049, 5003 }, { 3, 1 << 18, 1 << 19 } };
	struct ibv_mr *mr = d->dv.alloc_mr(d->ep.pd, 4000);
	bool ok = expect(d, "allocated", !!mr, true);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && ok; i++) {
		const struct layout l = { d->mem + 3, 0, rows[i].n, rows[i].len, rows[i].stride };

		ok = gaps_row(d, &l, mr);
	}
	ok = ok && expect(d, "register", key_wr(d, mr, true), 0) &&
	     expect(d, "WRITE beyond the end",
		    partner_does(d, EP_WRITE, (uintptr_t)mr->addr + 1, (uint32_t)mr->length,
				 mr->rkey),
		    IBV_WC_REM_ACCESS_ERR) &&
	     expect(d, "reconnect", ep_reconnect(&d->ep), 0) &&
	     expect(d, "invalidate", key_wr(d, mr, false), 0) &&
	     expect(d, "WRITE after invalidation",
		    partner_does(d, EP_WRITE, (uintptr_t)mr->addr, 8, mr->rkey),
		    IBV_WC_REM_ACCESS_ERR) &&
	     expect(d, "reconnect", ep_reconnect(&d->ep), 0);
	return expect(d, "deregister", ibv_dereg_mr(mr), 0) && ok;
}

/* Registers n elements for a QP, without waiting. Returns 0 or an error. */
static int reg_elements(struct direct *d, struct ibv_qp *qp, struct ibv_mr *mr,
			const struct layout *l)
{
	struct xrocedv_sg *sg = calloc(l->n, sizeof(*sg));
	int mapped;

	lay_out(d, l, true);
	for (uint32_t i = 0; i < l->n; i++)
		sg[i] = (struct xrocedv_sg){ d->sg[i].addr, d->sg[i].length };
	mapped = d->dv.map_mr_sg(mr, sg, (int)l->n, NULL, XROCEDV_SG_GAPS);
	free(sg);
	return mapped == (int)l->n ? d->dv.post_reg_mr(qp, mr, 1, EP_ACCESS, 0) : mapped;
}

/*
 * A WRITE over loopback from short pieces of private memory to other ones, with as many SGEs as
 * possible: the step with the most accesses
 */
static bool gaps_loopback(struct direct *d)
{
	static const struct layout from = { .n = 2048, .len = 64, .stride = 97 };
	static const struct layout to = { .n = 2047, .len = 65, .stride = 131 };
	struct ibv_mr *mr[2] = { d->dv.alloc_mr(d->ep.pd, 4096), d->dv.alloc_mr(d->ep.pd, 4096) };
	const uint32_t bytes = from.n * from.len, each = bytes / EP_SGE;
	struct layout l[2] = { from, to };
	struct pair pair = { 0 };
	struct ibv_sge sge[EP_SGE];
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE,
					.sg_list = sge,
					.num_sge = EP_SGE,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc = { .status = -1 };
	bool ok = expect(d, "created", mr[0] && mr[1] && make_pair(d, &pair), true);

	l[0].base = d->mem + 1;
	l[1].base = d->mem + EP_BUF_SIZE / 2;
	for (int i = 0; i < 2 && ok; i++) {
		d->seed++;
		ok = expect(d, "register", reg_elements(d, pair.qp[1], mr[i], &l[i]), 0);
	}
	d->seed--; /* of the first region; the second one is overwritten */
	for (uint32_t i = 0; i < EP_SGE && ok; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)mr[0]->addr + i * each, each, mr[0]->lkey };
	wr.wr.rdma.remote_addr = ok ? (uintptr_t)mr[1]->addr : 0;
	wr.wr.rdma.rkey = ok ? mr[1]->rkey : 0;
	ok = ok && expect(d, "post", ibv_post_send(pair.qp[1], &wr, &bad), 0) &&
	     expect(d, "WRITE", next_completion(pair.cq[1], &wc, 30), 1) &&
	     expect(d, "status", wc.status, 0);
	l[1].n = bytes / l[1].len; /* the last piece is not written wholly */
	ok = ok && expect(d, "data", has_data(d, &l[1]), true);
	free_pair(&pair);
	for (int i = 0; i < 2; i++)
		ok &= expect(d, "deregister", mr[i] ? ibv_dereg_mr(mr[i]) : 0, 0);
	return ok;
}

/* A piece in unmapped memory, between others: the memory is looked up at each access. */
static bool gaps_unmapped(struct direct *d)
{
	struct ibv_mr *mr = d->dv.alloc_mr(d->ep.pd, 6);
	uint8_t *gone = map_anonymous(PAGE);
	struct xrocedv_sg sg[3] = { { (uintptr_t)d->mem, 10 },
				    { (uintptr_t)gone, 10 },
				    { (uintptr_t)d->mem + 20, 10 } };
	bool ok;

	munmap(gone, PAGE);
	ok = expect(d, "mapped", d->dv.map_mr_sg(mr, sg, 3, NULL, XROCEDV_SG_GAPS), 3) &&
	     expect(d, "register", key_wr(d, mr, true), 0) &&
	     expect(d, "WRITE before it",
		    partner_does(d, EP_WRITE, (uintptr_t)mr->addr, 10, mr->rkey), 0) &&
	     expect(d, "WRITE of it", partner_does(d, EP_WRITE, (uintptr_t)mr->addr, 11, mr->rkey),
		    IBV_WC_REM_OP_ERR) &&
	     expect(d, "reconnect", ep_reconnect(&d->ep), 0);
	return expect(d, "deregister", ibv_dereg_mr(mr), 0) && ok;
}

/* ---- integrity regions --------------------------------------------------------------------- */

#define BLOCKS 37u
#define STREAM (BLOCKS * (XR_INTEGRITY_MAX_BLOCK + 8))
#define SPARE (2u << 20) /* offset in the driver's buffer of what is read back */

/* One registration: blocks in a region of the driver */
struct blocks {
	struct xrocedv_integrity_attr attr;
	struct xr_signature memory, wire;
	uint8_t *base; /* data; its PI is behind all of it if apart */
	uint32_t lkey;
	bool apart;
	uint8_t in_memory[STREAM], on_wire[STREAM];
	uint32_t memory_len, wire_len;
	struct ibv_sge sg[16];
};

static struct blocks blocks;

static struct xrocedv_signature usual_signature(enum xrocedv_signature_type type)
{
	struct xrocedv_signature s = { .type = type, .check = XROCEDV_SIG_CHECK_GUARD };

	if (type == XROCEDV_SIG_NONE)
		return (struct xrocedv_signature){ .type = type };
	s.seed = type >= XROCEDV_SIG_CRC32 ? 0xffffffff : 0;
	if (type >= XROCEDV_SIG_CRC32)
		return s;
	s.check |= XROCEDV_SIG_CHECK_APP_TAG;
	if (type != XROCEDV_SIG_T10DIF_3)
		s.check |= XROCEDV_SIG_CHECK_REF_TAG;
	s.app_tag = 0xabcd;
	s.app_mask = 0xffff;
	s.ref_tag = 1000;
	return s;
}

static struct xr_signature reference(const struct xrocedv_signature *s)
{
	return (struct xr_signature){
		.type = (uint8_t)s->type,
		.app_tag = s->app_tag,
		.ref_tag = s->ref_tag,
		.seed = s->seed,
	};
}

/* Cuts [p, p + len) into pieces. Returns their number. */
static uint32_t cut_pieces(struct ibv_sge *sg, uint8_t *p, uint32_t len, uint32_t lkey)
{
	uint32_t n = 0, part;

	for (; len; p += part, len -= part) {
		part = n == 6 || len < 100 ? len : len / 3 + 1;
		sg[n++] = (struct ibv_sge){ (uintptr_t)p, part, lkey };
	}
	return n;
}

/* Prepares blocks of a size with random data, and what memory and wire must have. */
static void prepare(struct direct *d, struct blocks *b, uint32_t size,
		    enum xrocedv_signature_type memory, enum xrocedv_signature_type wire)
{
	struct xrocedv_integrity_attr *a = &b->attr;
	static uint8_t data[STREAM];
	uint32_t pi;

	*a = (struct xrocedv_integrity_attr){ .access = EP_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC,
					      .send_flags = IBV_SEND_SIGNALED,
					      .block_size = size,
					      .memory = usual_signature(memory),
					      .wire = usual_signature(wire),
					      .data = b->sg };
	b->memory = reference(&a->memory);
	b->wire = reference(&a->wire);
	pi = xr_signature_len(memory);
	b->apart &= pi != 0;
	fill_pattern(data, size * BLOCKS, ++d->seed, 0);
	b->memory_len = (uint32_t)ref_stream(&b->memory, size, BLOCKS, data, b->in_memory);
	b->wire_len = (uint32_t)ref_stream(&b->wire, size, BLOCKS, data, b->on_wire);
	a->num_data = cut_pieces(b->sg, b->base, BLOCKS * (size + (b->apart ? 0 : pi)), b->lkey);
	a->pi = b->sg + a->num_data;
	a->num_pi = b->apart ? cut_pieces(b->sg + a->num_data, b->base + BLOCKS * size, BLOCKS * pi,
					  b->lkey)
			     : 0;
}

/* Copies the blocks to memory, or compares. */
static bool move_blocks(struct blocks *b, bool compare)
{
	uint32_t size = b->attr.block_size, pi = xr_signature_len(b->memory.type);
	uint8_t *at = b->base, *pis = b->base + BLOCKS * size, *in = b->in_memory;
	bool same = true;

	for (uint32_t i = 0; i < BLOCKS; i++, in += size + pi) {
		uint8_t *p = b->apart ? pis + i * pi : at + size;

		same &= !compare || (!memcmp(at, in, size) && !memcmp(p, in + size, pi));
		if (!compare) {
			memcpy(at, in, size);
			memcpy(p, in + size, pi);
		}
		at += size + (b->apart ? 0 : pi);
	}
	return same;
}

static int reg_blocks(struct direct *d, struct ibv_qp *qp, struct ibv_mr *mr, struct blocks *b)
{
	xrocedv_update_key(mr, (uint8_t)d->seed);
	return d->dv.post_reg_integrity(qp, mr, &b->attr);
}

static int integrity_wr(struct direct *d, struct ibv_mr *mr, bool reg)
{
	struct ibv_wc wc;
	int err;

	if (!reg)
		return key_wr(d, mr, false);
	err = reg_blocks(d, d->ep.qp, mr, &blocks);
	return err ? -err : ep_completion(&d->ep, &wc);
}

/* Compares bytes at the start of the partner's buffer, or writes them there. */
static int partner_bytes(struct direct *d, uint8_t *bytes, uint32_t len, bool compare)
{
	struct ibv_sge sge = { (uintptr_t)d->ep.buf + SPARE, len, d->ep.mr->lkey };
	int err;

	if (!compare) {
		memcpy(d->ep.buf + SPARE, bytes, len);
		return ep_rdma(&d->ep, IBV_WR_RDMA_WRITE, &sge, d->ep.peer.addr, d->ep.peer.rkey);
	}
	err = ep_rdma(&d->ep, IBV_WR_RDMA_READ, &sge, d->ep.peer.addr, d->ep.peer.rkey);
	return err ? err : memcmp(d->ep.buf + SPARE, bytes, len) != 0;
}

static int own_rdma(struct direct *d, struct ibv_mr *mr, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, (uint32_t)mr->length, mr->lkey };

	return ep_rdma(&d->ep, opcode, &sge, d->ep.peer.addr, d->ep.peer.rkey);
}

static int partner_rdma(struct direct *d, struct ibv_mr *mr, uint32_t op)
{
	return partner_does(d, op, (uintptr_t)mr->addr, (uint32_t)mr->length, mr->rkey);
}

/* The driver's WRITE and the partner's READ send the stream; the others store it in memory. */
static bool integrity_moves(struct direct *d, struct ibv_mr *mr)
{
	struct blocks *b = &blocks;
	bool ok = true;

	for (int own = 0; own < 2 && ok; own++) {
		move_blocks(b, false);
		ok = expect(d, own ? "WRITE" : "READ of the partner",
			    own ? own_rdma(d, mr, IBV_WR_RDMA_WRITE) : partner_rdma(d, mr, EP_READ),
			    0) &&
		     expect(d, "stream", partner_bytes(d, b->on_wire, b->wire_len, true), 0);
		memset(b->base, 0, b->memory_len);
		ok = ok &&
		     expect(d, own ? "READ" : "WRITE of the partner",
			    own ? own_rdma(d, mr, IBV_WR_RDMA_READ) : partner_rdma(d, mr, EP_WRITE),
			    0) &&
		     expect(d, "memory", move_blocks(b, true), true);
	}
	return ok;
}

/* A bit of block 30 is wrong at one side, and the other side gets the data nevertheless. */
static bool integrity_finds(struct direct *d, struct ibv_mr *mr)
{
	struct xrocedv_integrity_error error = { 0 };
	struct blocks *b = &blocks;
	uint32_t stride = b->wire_len / BLOCKS;
	bool of_wire = b->wire.type != XR_SIG_NONE;
	const struct xr_signature *s = of_wire ? &b->wire : &b->memory;
	uint32_t kind = s->type >= XR_SIG_CRC32 ? XROCEDV_INTEGRITY_SIGNATURE
						: XROCEDV_INTEGRITY_GUARD;
	uint8_t *bad;
	int err;

	if (of_wire) {
		bad = b->on_wire + 30 * stride;
		bad[77] ^= 0x10;
		err = partner_bytes(d, b->on_wire, b->wire_len, false);
	} else {
		bad = b->in_memory + 30 * (b->memory_len / BLOCKS);
		bad[77] ^= 0x10;
		move_blocks(b, false);
		err = 0;
	}
	return expect(d, "prepare", err, 0) &&
	       expect(d, "no error before", d->dv.check_integrity(mr, &error), 0) &&
	       expect(d, "transfer",
		      own_rdma(d, mr, of_wire ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE), 0) &&
	       expect(d, "error", d->dv.check_integrity(mr, &error), 1) &&
	       expect(d, "kind", (long)error.kind, kind) &&
	       expect(d, "offset", (long)error.offset, 30 * stride) &&
	       expect(d, "expected", error.expected, ref_guard(s, bad, b->attr.block_size)) &&
	       expect(d, "actual", error.actual != error.expected, true);
}

/*
 * Moves the blocks by an RW context, whose only piece is the integrity region. A chained LOCAL_INV
 * ends the registration.
 */
static int move_by_context(struct direct *d, struct ibv_mr *mr, enum xrocedv_rw_direction direction)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, (uint32_t)mr->length, mr->lkey };
	struct ibv_send_wr inv = { .wr_id = 5,
				   .opcode = IBV_WR_LOCAL_INV,
				   .send_flags = IBV_SEND_SIGNALED,
				   .invalidate_rkey = mr->rkey };
	struct xrocedv_rw_attr attr = rw_attr(d, 1);
	struct xrocedv_rw *ctx;
	struct ibv_wc wc = { 0 };
	int err;

	attr.direction = direction;
	attr.sg = &sge;
	ctx = d->dv.rw_create(d->ep.qp, &attr);
	if (!ctx)
		return -errno;
	err = -d->dv.rw_post(ctx, 77, &inv);
	if (!err)
		err = ep_completion(&d->ep, &wc);
	d->dv.rw_destroy(ctx);
	return !err && wc.wr_id != 5 ? -EBADMSG : err;
}

/* T10-PI is inserted on the way to the partner, checked and stripped on the way back. */
static bool integrity_rw(struct direct *d)
{
	struct ibv_mr *mr = d->dv.alloc_integrity_mr(d->ep.pd, 16);
	struct xrocedv_integrity_error error;
	struct blocks *b = &blocks;
	bool ok = expect(d, "allocated", !!mr, true);

	b->base = d->ep.buf + 1;
	b->lkey = d->ep.mr->lkey;
	b->apart = false;
	prepare(d, b, 512, XROCEDV_SIG_NONE, XROCEDV_SIG_T10DIF_1);
	move_blocks(b, false);
	ok = ok && expect(d, "register", integrity_wr(d, mr, true), 0) &&
	     expect(d, "write", move_by_context(d, mr, XROCEDV_RW_WRITE), 0) &&
	     expect(d, "invalidated", own_rdma(d, mr, IBV_WR_RDMA_WRITE), IBV_WC_LOC_PROT_ERR) &&
	     expect(d, "reconnect", ep_reconnect(&d->ep), 0) &&
	     expect(d, "stream", partner_bytes(d, b->on_wire, b->wire_len, true), 0);
	b->on_wire[b->wire_len - 1] ^= 1; /* a reference tag */
	memset(b->base, 0, b->memory_len);
	ok = ok && expect(d, "prepare", partner_bytes(d, b->on_wire, b->wire_len, false), 0) &&
	     expect(d, "register again", integrity_wr(d, mr, true), 0) &&
	     expect(d, "read", move_by_context(d, mr, XROCEDV_RW_READ), 0) &&
	     expect(d, "memory", move_blocks(b, true), true) &&
	     expect(d, "error", d->dv.check_integrity(mr, &error), 1) &&
	     expect(d, "kind", (long)error.kind, XROCEDV_INTEGRITY_REF_TAG);
	return expect(d, "deregister", mr ? ibv_dereg_mr(mr) : 0, 0) && ok;
}

/* base: memory of a region with that lkey */
static bool integrity_rows(struct direct *d, uint8_t *base, uint32_t lkey)
{
	static const struct {
		uint32_t size;
		enum xrocedv_signature_type memory, wire;
		bool apart;
	} rows[] = {
		{ 512, XROCEDV_SIG_NONE, XROCEDV_SIG_T10DIF_1, false },
		{ 512, XROCEDV_SIG_T10DIF_1, XROCEDV_SIG_NONE, true },
		{ 512, XROCEDV_SIG_T10DIF_2, XROCEDV_SIG_T10DIF_2, false },
		{ 520, XROCEDV_SIG_T10DIF_3, XROCEDV_SIG_CRC32C, true },
		{ 520, XROCEDV_SIG_CRC32, XROCEDV_SIG_NONE, false },
		{ 4096, XROCEDV_SIG_NONE, XROCEDV_SIG_T10DIF_3, false },
		{ 4096, XROCEDV_SIG_CRC32C, XROCEDV_SIG_T10DIF_1, true },
		{ 4096, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32, false },
		{ 4104, XROCEDV_SIG_T10DIF_1, XROCEDV_SIG_T10DIF_1, true },
		{ 4104, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32C, false },
	};
	struct ibv_mr *mr = d->dv.alloc_integrity_mr(d->ep.pd, 16);
	bool ok = expect(d, "allocated", !!mr, true);

	blocks.base = base;
	blocks.lkey = lkey;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && ok; i++) {
		struct xrocedv_integrity_error error;

		blocks.apart = rows[i].apart;
		prepare(d, &blocks, rows[i].size, rows[i].memory, rows[i].wire);
		ok = expect(d, "register", integrity_wr(d, mr, true), 0) &&
		     expect(d, "length", (long)mr->length, blocks.wire_len) &&
		     integrity_moves(d, mr) &&
		     expect(d, "no error", d->dv.check_integrity(mr, &error), 0) &&
		     integrity_finds(d, mr) && expect(d, "reconnect", ep_reconnect(&d->ep), 0) &&
		     expect(d, "invalidate", integrity_wr(d, mr, false), 0);
	}
	return expect(d, "deregister", mr ? ibv_dereg_mr(mr) : 0, 0) && ok;
}

static bool integrity(struct direct *d)
{
	return integrity_rows(d, d->ep.buf + 1, d->ep.mr->lkey);
}

/* Memory that is looked up at each access: the daemon waits for each of them. */
static bool integrity_on_demand(struct direct *d)
{
	struct ibv_mr *mr = ibv_reg_mr(d->ep.pd, d->mem, EP_BUF_SIZE,
				       EP_ACCESS | IBV_ACCESS_ON_DEMAND);
	bool ok = expect(d, "on demand", !!mr, true) && integrity_rows(d, d->mem + 1, mr->lkey);

	return expect(d, "deregister", mr ? ibv_dereg_mr(mr) : 0, 0) && ok;
}

/* Over loopback, from one integrity region to another one, both in memory on demand */
static bool integrity_loopback(struct direct *d)
{
	struct ibv_mr *od = ibv_reg_mr(d->ep.pd, d->mem, EP_BUF_SIZE,
				       EP_ACCESS | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *mr[2] = { d->dv.alloc_integrity_mr(d->ep.pd, 16),
				 d->dv.alloc_integrity_mr(d->ep.pd, 16) };
	static struct blocks from, to;
	struct ibv_send_wr *bad,
		wr = { .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct xrocedv_integrity_error error;
	struct pair pair = { 0 };
	struct ibv_wc wc = { .status = -1 };
	struct ibv_sge sge;
	bool ok = expect(d, "created", od && mr[0] && mr[1] && make_pair(d, &pair), true);

	from.base = d->mem + 1;
	to.base = d->mem + EP_BUF_SIZE / 2;
	from.lkey = to.lkey = od ? od->lkey : 0;
	from.apart = true;
	for (int i = 0; i < 8 && ok; i++) {
		uint32_t size = i % 4 == 0 ? 512 : i % 4 == 1 ? 520 : i % 4 == 2 ? 4096 : 4104;

		d->seed++;
		prepare(d, &from, size, XROCEDV_SIG_T10DIF_1, XROCEDV_SIG_CRC32C);
		d->seed--;
		prepare(d, &to, size, i < 4 ? XROCEDV_SIG_NONE : XROCEDV_SIG_T10DIF_3,
			XROCEDV_SIG_CRC32C);
		from.attr.send_flags = to.attr.send_flags = IBV_SEND_SIGNALED;
		move_blocks(&from, false);
		ok = expect(d, "register", reg_blocks(d, pair.qp[0], mr[0], &from), 0) &&
		     expect(d, "registered", next_completion(pair.cq[0], &wc, 30), 1) &&
		     expect(d, "status", wc.status, 0) &&
		     expect(d, "register the other", reg_blocks(d, pair.qp[1], mr[1], &to), 0) &&
		     expect(d, "registered", next_completion(pair.cq[1], &wc, 30), 1) &&
		     expect(d, "status", wc.status, 0);
		if (!ok)
			break;
		sge = (struct ibv_sge){ (uintptr_t)mr[0]->addr, from.wire_len, mr[0]->lkey };
		wr.sg_list = &sge;
		wr.wr.rdma.remote_addr = (uintptr_t)mr[1]->addr;
		wr.wr.rdma.rkey = mr[1]->rkey;
		ok = expect(d, "post", ibv_post_send(pair.qp[0], &wr, &bad), 0) &&
		     expect(d, "WRITE", next_completion(pair.cq[0], &wc, 30), 1) &&
		     expect(d, "status", wc.status, 0) &&
		     expect(d, "data", move_blocks(&to, true), true) &&
		     expect(d, "no error", d->dv.check_integrity(mr[0], &error), 0) &&
		     expect(d, "no error", d->dv.check_integrity(mr[1], &error), 0);
		for (int q = 0; q < 2 && ok; q++) {
			struct ibv_send_wr inv = { .opcode = IBV_WR_LOCAL_INV,
						   .send_flags = IBV_SEND_SIGNALED,
						   .invalidate_rkey = mr[q]->rkey };

			ok = expect(d, "invalidate", ibv_post_send(pair.qp[q], &inv, &bad), 0) &&
			     expect(d, "invalidated", next_completion(pair.cq[q], &wc, 30), 1) &&
			     expect(d, "status", wc.status, 0);
		}
	}
	free_pair(&pair);
	for (int i = 0; i < 2; i++)
		ok &= expect(d, "deregister", mr[i] ? ibv_dereg_mr(mr[i]) : 0, 0);
	return expect(d, "deregister", od ? ibv_dereg_mr(od) : 0, 0) && ok;
}

/* ---- the tests --------------------------------------------------------------------- */

static const struct test {
	const char *name;
	bool (*run)(struct direct *d);
} tests[] = {
	{ "drain", drain },
	{ "drain-reset", drain_reset },
	{ "drain-srq", drain_srq },
	{ "rw", rw },
	{ "rw-regions", rw_regions },
	{ "rw-chain", rw_chain },
	{ "rw-refused", rw_refused },
	{ "rw-gaps", rw_gaps },
	{ "gaps", gaps },
	{ "gaps-unmapped", gaps_unmapped },
	{ "gaps-loopback", gaps_loopback },
	{ "integrity", integrity },
	{ "integrity-rw", integrity_rw },
	{ "integrity-on-demand", integrity_on_demand },
	{ "integrity-loopback", integrity_loopback },
};
#define TESTS (sizeof(tests) / sizeof(tests[0]))

static bool run_one(struct direct *d, const struct test *t)
{
	bool ok;

	d->error[0] = '\0';
	ok = t->run(d);
	printf("%s %s%s%s\n", ok ? "ok" : "FAILED", t->name, ok ? "" : ": ", d->error);
	fflush(stdout);
	return ok;
}

static bool run(struct direct *d, const char *const *names, int n)
{
	bool ok = expect(d, "direct verbs", find_direct_verbs(&d->dv), true);

	d->mem = map_anonymous(EP_BUF_SIZE);
	ok = ok && expect(d, "memory", !!d->mem, true);

	for (size_t i = 0; i < TESTS && ok; i++) {
		bool wanted = !n;

		for (int j = 0; j < n; j++)
			wanted |= !strcmp(names[j], tests[i].name);
		if (wanted)
			ok = run_one(d, &tests[i]);
	}
	return ok && !ep_call(&d->ep, &(struct ep_request){ .op = EP_END });
}

int main(int argc, char **argv)
{
	const char *dev = NULL, *host, *names[TESTS];
	int gid_index = 1, port = 18517, opt, n = 0;
	static struct direct d;
	bool ok;

	while ((opt = getopt(argc, argv, "d:g:p:t:")) != -1) {
		if (opt == 'd')
			dev = optarg;
		else if (opt == 'g')
			gid_index = atoi(optarg);
		else if (opt == 'p')
			port = atoi(optarg);
		else if (opt == 't' && n < (int)TESTS)
			names[n++] = optarg;
		else
			return 2;
	}
	host = argv[optind];
	ok = ep_open(&d.ep, dev, gid_index) && ep_connect(&d.ep, host, port) &&
	     (host ? ep_serve(&d.ep) : run(&d, names, n));
	ep_close(&d.ep);
	return !ok;
}
