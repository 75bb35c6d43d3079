/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "rdma_side.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_SECONDS 45
#define PAGE 4096u

/* ---- memory ------------------------ */

void *anonymous(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint64_t stamp(size_t at)
{
	return at % SIDE_WINDOW * 3 + 1;
}

void stamp_pages(uint8_t *p, size_t len)
{
	for (size_t at = 0; at < len; at += PAGE) {
		uint64_t value = stamp(at);

		memcpy(p + at, &value, sizeof(value));
		memcpy(p + at + PAGE - sizeof(value), &value, sizeof(value));
	}
}

size_t wrong_stamps(const uint8_t *p, size_t len)
{
	size_t wrong = 0;

	for (size_t at = 0; at < len; at += PAGE) {
		uint64_t value = stamp(at);

		wrong += memcmp(p + at, &value, sizeof(value)) ||
			 memcmp(p + at + PAGE - sizeof(value), &value, sizeof(value));
	}
	return wrong;
}

/* ---- the side channel ------------------------ */

static bool tell(struct side *s, const void *p, size_t len)
{
	return send(s->sock, p, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool hear(struct side *s, void *p, size_t len)
{
	return recv(s->sock, p, len, MSG_WAITALL) == (ssize_t)len;
}

/* ---- the queue pair ------------------------ */

/* The peer is known */
static bool to_work(struct side *s)
{
	struct ibv_qp_attr attr = rc_attr(s->gid_index, s->peer.gid, s->peer.qpn);

	attr.path_mtu = s->me.mtu < s->peer.mtu ? s->me.mtu : s->peer.mtu;
	attr.rq_psn = s->peer.psn;
	attr.sq_psn = s->me.psn;
	attr.qp_access_flags = (unsigned int)SIDE_ACCESS;
	return !reset_to_rts(s->qp, &attr);
}

/* Both sides: the same queue pair from whatever state to RTS, nothing left in the CQ */
static bool connect_qp(struct side *s)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;
	char byte = 1;

	if (ibv_modify_qp(s->qp, &reset, IBV_QP_STATE))
		return false;
	while (ibv_poll_cq(s->cq, 1, &wc) > 0)
		;
	s->me.psn = (s->me.psn * 69069 + s->qp->qp_num + 1) & 0xffffff;
	return tell(s, &s->me, sizeof(s->me)) && hear(s, &s->peer, sizeof(s->peer)) && to_work(s) &&
	       tell(s, &byte, 1) && hear(s, &byte, 1);
}

static bool make_objects(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { SIDE_DEPTH, SIDE_DEPTH, SIDE_SGE, SIDE_SGE, 64 },
	};

	s->pd = ibv_alloc_pd(s->ctx);
	s->cq = ibv_create_cq(s->ctx, 4 * SIDE_DEPTH, NULL, NULL, 0);
	s->buf = anonymous(SIDE_BUF);
	if (!s->pd || !s->cq || !s->buf)
		return false;
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->pd, &init);
	s->mr = ibv_reg_mr(s->pd, s->buf, SIDE_BUF, SIDE_ACCESS);
	return s->qp && s->mr;
}

bool side_open(struct side *s, const char *dev, int gid_index)
{
	struct ibv_port_attr port;

	*s = (struct side){ .sock = -1, .gid_index = gid_index, .ctx = open_device(dev) };
	if (!s->ctx || ibv_query_port(s->ctx, 1, &port) ||
	    ibv_query_gid(s->ctx, 1, gid_index, &s->me.gid) || !make_objects(s)) {
		perror("device, GID or objects");
		return false;
	}
	s->me.mtu = port.active_mtu;
	s->me.qpn = s->qp->qp_num;
	s->me.rkey = s->mr->rkey;
	s->me.addr = (uintptr_t)s->buf;
	return true;
}

bool side_meet(struct side *s, const char *host, int port)
{
	s->sock = host ? tcp_connect(host, port) : tcp_accept(port, WAIT_SECONDS);
	if (s->sock >= 0 && connect_qp(s))
		return true;
	perror("connection to the other side");
	return false;
}

void side_close(struct side *s)
{
	close(s->sock);
	ibv_destroy_qp(s->qp);
	ibv_dereg_mr(s->mr);
	ibv_destroy_cq(s->cq);
	ibv_dealloc_pd(s->pd);
	ibv_close_device(s->ctx);
}

/* ---- work requests ------------------------ */

int side_completion(struct side *s, struct ibv_wc *wc)
{
	int n = next_completion(s->cq, wc, WAIT_SECONDS);

	if (n == 1)
		return (int)wc->status;
	return n < 0 ? -EIO : -ETIMEDOUT;
}

static int run(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int err;

	wr->send_flags = IBV_SEND_SIGNALED;
	err = ibv_post_send(s->qp, wr, &bad);
	return err ? -err : side_completion(s, &wc);
}

int side_rdma(struct side *s, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t addr,
	      uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = sge,
				  .num_sge = sge->length ? 1 : 0,
				  .wr.rdma = { addr, rkey } };

	return run(s, &wr);
}

int side_rdma_list(struct side *s, enum ibv_wr_opcode opcode, struct ibv_sge *sge, int n)
{
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = sge,
				  .num_sge = n,
				  .wr.rdma = { s->peer.addr, s->peer.rkey } };

	return run(s, &wr);
}

/* ---- asking, and doing what is asked ------------------------ */

int ask(struct side *s, const struct side_request *request)
{
	int32_t result;

	if (!tell(s, request, sizeof(*request)) || !hear(s, &result, sizeof(result)))
		return -EPIPE;
	return result;
}

int side_reconnect(struct side *s)
{
	int result = ask(s, &(struct side_request){ .what = ASK_CONNECT });

	if (result)
		return result;
	return connect_qp(s) ? 0 : -EIO;
}

static int rdma_own(struct side *s, enum ibv_wr_opcode opcode, const struct side_request *r)
{
	struct ibv_sge sge = { (uintptr_t)s->buf, r->len, s->mr->lkey };

	if (r->len > SIDE_BUF)
		return -EINVAL;
	if (opcode == IBV_WR_RDMA_READ)
		memset(s->buf, 0, r->len);
	return side_rdma(s, opcode, &sge, r->addr, r->rkey);
}

static int send_pieces(struct side *s, uint32_t n, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge[SIDE_SGE];
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = sge, .num_sge = (int)n, .invalidate_rkey = rkey
	};

	if (n > SIDE_SGE)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)s->buf + i * SEND_STRIDE, SEND_PIECE,
					   s->mr->lkey };
	return run(s, &wr);
}

/* SIDE_HUGE bytes of address space, the same few pages over and over: touching 2 GiB takes long. */
static uint8_t *map_windows(void)
{
	int fd = memfd_create("rdma-side", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, SIDE_HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok = fd >= 0 && p != MAP_FAILED && !ftruncate(fd, SIDE_WINDOW);

	for (size_t at = 0; ok && at < SIDE_HUGE; at += SIDE_WINDOW)
		ok = mmap(p + at, SIDE_WINDOW, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, fd,
			  0) != MAP_FAILED;
	close(fd);
	if (ok)
		return p;
	if (p != MAP_FAILED)
		munmap(p, SIDE_HUGE);
	return NULL;
}

static int write_huge(struct side *s, const struct side_request *r)
{
	uint8_t *p = map_windows();
	struct ibv_mr *mr;
	struct ibv_sge sge;
	int result = -ENOMEM;

	if (!p)
		return result;
	stamp_pages(p, SIDE_WINDOW);
	mr = ibv_reg_mr(s->pd, p, SIDE_HUGE, IBV_ACCESS_LOCAL_WRITE);
	if (mr) {
		sge = (struct ibv_sge){ (uintptr_t)p, SIDE_HUGE, mr->lkey };
		result = side_rdma(s, IBV_WR_RDMA_WRITE, &sge, r->addr, r->rkey);
		ibv_dereg_mr(mr);
	}
	munmap(p, SIDE_HUGE);
	return result;
}

static int do_asked(struct side *s, const struct side_request *r)
{
	switch (r->what) {
	case ASK_FILL:
		pattern(s->buf, r->len, r->seed, 0);
		return 0;
	case ASK_HOLDS:
		return holds(s->buf, r->len, r->seed, 0) ? 0 : -EBADMSG;
	case ASK_WRITE:
		return rdma_own(s, IBV_WR_RDMA_WRITE, r);
	case ASK_READ:
		return rdma_own(s, IBV_WR_RDMA_READ, r);
	case ASK_SEND:
		return send_pieces(s, r->len, IBV_WR_SEND, 0);
	case ASK_SEND_INV:
		return send_pieces(s, r->len, IBV_WR_SEND_WITH_INV, r->rkey);
	case ASK_HUGE:
		return write_huge(s, r);
	case ASK_CONNECT:
	case ASK_END:
		return 0;
	default:
		return -EINVAL;
	}
}

/* Until the other side has had enough; false where it went without a word. */
bool side_serve(struct side *s)
{
	struct side_request r;
	int32_t result;

	while (hear(s, &r, sizeof(r))) {
		result = do_asked(s, &r);
		if (!tell(s, &result, sizeof(result)))
			return false;
		if (r.what == ASK_END)
			return true;
		if (r.what == ASK_CONNECT && !connect_qp(s))
			return false;
	}
	return false;
}
