/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * FLUSH between two programs: of a range and of a whole region, after WRITEs, and requests that the
 * peer refuses. Builds with any verbs.h: xrocedv.h defines the names that older ones lack.
 *
 *   rdma_flush -g GID-INDEX -p PORT [HOST]      both sides; the one with a HOST sends
 */
#include "verbs_util.h"

#include <infiniband/xrocedv.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE 65536u
#define WAIT_S 30
#define ACCESS_PERSISTENT (1u << 9) /* IBV_ACCESS_FLUSH_PERSISTENT */
#define TYPE_PERSISTENT 2
#define REMOTE_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Regions of the passive side, with and without FLUSH access */
enum { WITH_FLUSH, WITHOUT_FLUSH, REGIONS };

struct peer {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey[REGIONS];
};

struct side {
	const char *host;
	int sock, gid_index;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr[REGIONS];
	struct ibv_qp *qp;
	struct peer me, peer;
	char *buf;
};

static void exchange(struct side *s)
{
	MUST(send(s->sock, &s->me, sizeof(s->me), MSG_NOSIGNAL) == sizeof(s->me) &&
		     recv(s->sock, &s->peer, sizeof(s->peer), MSG_WAITALL) == sizeof(s->peer),
	     "the other side closed the connection");
}

static void open_side(struct side *s)
{
	static const unsigned access[REGIONS] = { REMOTE_WRITE | XROCEDV_ACCESS_FLUSH_GLOBAL,
						  REMOTE_WRITE };

	MUST(s->ctx = open_device(NULL), "device");
	MUST(s->pd = ibv_alloc_pd(s->ctx), "PD");
	MUST(s->cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0), "CQ");
	MUST(s->buf = aligned_alloc(4096, SIZE), "memory");
	for (int i = 0; i < REGIONS; i++) {
		MUST(s->mr[i] = ibv_reg_mr(s->pd, s->buf, SIZE, access[i]), "region");
		s->me.rkey[i] = s->mr[i]->rkey;
	}
	s->me.gid = own_gid(s->ctx, s->gid_index);
	s->me.addr = (uintptr_t)s->buf;
}

static void connect_side(struct side *s, unsigned access)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.pd = s->pd,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | XROCEDV_QP_EX_WITH_FLUSH,
		.cap = { 16, 16, 1, 1, 0 },
	};
	struct ibv_qp_attr attr;

	MUST(s->qp = ibv_create_qp_ex(s->ctx, &init), "QP with FLUSH");
	s->me.qpn = s->qp->qp_num;
	exchange(s);
	attr = rc_attr(s->gid_index, s->peer.gid, s->peer.qpn);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | access;
	MUST(!reset_to_rts(s->qp, &attr), "to RTS");
	exchange(s);
}

static void disconnect_side(struct side *s)
{
	exchange(s);
	ibv_destroy_qp(s->qp);
}

/* Posts unsignaled WRITEs of the buffer in four parts, and a FLUSH. */
static void post(struct side *s, int region, size_t len, uint8_t type, uint8_t level)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->qp);

	ibv_wr_start(ex);
	ex->wr_flags = 0;
	for (uint32_t off = 0; off < SIZE; off += SIZE / 4) {
		ibv_wr_rdma_write(ex, s->peer.rkey[region], s->peer.addr + off);
		ibv_wr_set_sge(ex, s->mr[0]->lkey, (uintptr_t)s->buf + off, SIZE / 4);
	}
	ex->wr_id = 7;
	ex->wr_flags = IBV_SEND_SIGNALED;
	xrocedv_wr_flush(ex, s->peer.rkey[region], s->peer.addr, len, type, level);
	MUST(!ibv_wr_complete(ex), "post");
}

/* One FLUSH after WRITEs, on a new connection. */
static void flush(struct side *s, int region, size_t len, uint8_t type, uint8_t level,
		  enum ibv_wc_status want)
{
	static uint32_t seed;
	struct ibv_wc wc;

	seed++;
	memset(s->buf, 0, SIZE);
	connect_side(s, XROCEDV_ACCESS_FLUSH_GLOBAL | ACCESS_PERSISTENT);
	if (s->host) {
		fill_pattern(s->buf, SIZE, seed, 0);
		post(s, region, len, type, level);
		MUST(next_completion(s->cq, &wc, WAIT_S) == 1, "completion");
		if (wc.status != want || wc.wr_id != 7 ||
		    (!wc.status && (int)wc.opcode != XROCEDV_WC_FLUSH)) {
			fprintf(stderr, "region %d, type %u, level %u: %s, opcode %d\n", region,
				type, level, ibv_wc_status_str(wc.status), wc.opcode);
			exit(1);
		}
		exchange(s);
	} else {
		exchange(s);
		MUST(has_pattern(s->buf, SIZE, seed, 0), "data of the WRITEs before the FLUSH");
	}
	disconnect_side(s);
}

/* A FLUSH to a QP without FLUSH access is refused by a NAK with invalid request. */
static void flush_without_right(struct side *s)
{
	struct ibv_wc wc;

	connect_side(s, 0);
	if (s->host) {
		post(s, WITH_FLUSH, 8, XROCEDV_FLUSH_GLOBAL, XROCEDV_FLUSH_RANGE);
		MUST(next_completion(s->cq, &wc, WAIT_S) == 1, "completion");
		MUST(wc.status == IBV_WC_REM_INV_REQ_ERR, ibv_wc_status_str(wc.status));
	}
	disconnect_side(s);
}

/* The ibv_wr builder refuses FLUSH requests that no peer would accept. */
static void refused_locally(struct side *s)
{
	static const struct {
		size_t len;
		uint8_t type, level;
	} bad[] = { { 8, 0, 0 }, { 8, 4, 0 }, { 8, 1, 2 }, { 1ull << 32, 1, 0 } };
	struct ibv_qp_ex *ex;

	connect_side(s, 0);
	ex = ibv_qp_to_qp_ex(s->qp);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ibv_wr_start(ex);
		xrocedv_wr_flush(ex, 0, 0, bad[i].len, bad[i].type, bad[i].level);
		MUST(ibv_wr_complete(ex) == EINVAL, "an invalid FLUSH was not refused");
	}
	disconnect_side(s);
}

int main(int argc, char **argv)
{
	struct sides sides = { .gid_index = 1, .port = 18517 };
	struct side s = { 0 };

	parse_sides(argc, argv, &sides);
	s.host = sides.host;
	s.gid_index = sides.gid_index;
	open_side(&s);
	errno = 0;
	MUST(!ibv_reg_mr(s.pd, s.buf, SIZE, IBV_ACCESS_LOCAL_WRITE | ACCESS_PERSISTENT) &&
		     errno == EOPNOTSUPP,
	     "a region with FLUSH_PERSISTENT access was registered");
	s.sock = connect_sides(&sides, WAIT_S);
	flush(&s, WITH_FLUSH, SIZE, XROCEDV_FLUSH_GLOBAL, XROCEDV_FLUSH_RANGE, IBV_WC_SUCCESS);
	flush(&s, WITH_FLUSH, 0, XROCEDV_FLUSH_GLOBAL, XROCEDV_FLUSH_RANGE, IBV_WC_SUCCESS);
	flush(&s, WITH_FLUSH, 1ull << 31, XROCEDV_FLUSH_GLOBAL, XROCEDV_FLUSH_MR, IBV_WC_SUCCESS);
	flush(&s, WITH_FLUSH, SIZE + 1, XROCEDV_FLUSH_GLOBAL, XROCEDV_FLUSH_RANGE,
	      IBV_WC_REM_ACCESS_ERR);
	flush(&s, WITHOUT_FLUSH, 8, XROCEDV_FLUSH_GLOBAL, XROCEDV_FLUSH_RANGE,
	      IBV_WC_REM_ACCESS_ERR);
	flush(&s, WITH_FLUSH, 8, TYPE_PERSISTENT, XROCEDV_FLUSH_RANGE, IBV_WC_REM_ACCESS_ERR);
	flush_without_right(&s);
	refused_locally(&s);
	close(s.sock);
	return 0;
}
