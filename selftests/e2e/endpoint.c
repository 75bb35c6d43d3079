/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "endpoint.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_SECONDS 45
#define PAGE 4096u

/* ---- memory ------------------------ */

void *map_anonymous(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint64_t stamp(size_t at)
{
	return at % EP_HUGE_PERIOD * 3 + 1;
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

/* ---- the TCP connection ------------------------ */

static bool sock_write(struct endpoint *ep, const void *p, size_t len)
{
	return send(ep->sock, p, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool sock_read(struct endpoint *ep, void *p, size_t len)
{
	return recv(ep->sock, p, len, MSG_WAITALL) == (ssize_t)len;
}

/* ---- the QP ------------------------ */

/* Moves the QP from RESET to RTS; peer is valid. */
static bool qp_to_rts(struct endpoint *ep)
{
	struct ibv_qp_attr attr = rc_attr(ep->gid_index, ep->peer.gid, ep->peer.qpn);

	attr.path_mtu = ep->me.mtu < ep->peer.mtu ? ep->me.mtu : ep->peer.mtu;
	attr.rq_psn = ep->peer.psn;
	attr.sq_psn = ep->me.psn;
	attr.qp_access_flags = (unsigned int)EP_ACCESS;
	return !reset_to_rts(ep->qp, &attr);
}

/* Resets the QP, empties the CQ and connects the QP to the peer. Both endpoints call this. */
static bool connect_qp(struct endpoint *ep)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;
	char byte = 1;

	if (ibv_modify_qp(ep->qp, &reset, IBV_QP_STATE))
		return false;
	while (ibv_poll_cq(ep->cq, 1, &wc) > 0)
		;
	ep->me.psn = (ep->me.psn * 69069 + ep->qp->qp_num + 1) & 0xffffff;
	return sock_write(ep, &ep->me, sizeof(ep->me)) &&
	       sock_read(ep, &ep->peer, sizeof(ep->peer)) && qp_to_rts(ep) &&
	       sock_write(ep, &byte, 1) && sock_read(ep, &byte, 1);
}

static bool make_objects(struct endpoint *ep)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { EP_DEPTH, EP_DEPTH, EP_SGE, EP_SGE, 64 },
	};

	ep->pd = ibv_alloc_pd(ep->ctx);
	ep->cq = ibv_create_cq(ep->ctx, 4 * EP_DEPTH, NULL, NULL, 0);
	ep->buf = map_anonymous(EP_BUF_SIZE);
	if (!ep->pd || !ep->cq || !ep->buf)
		return false;
	init.send_cq = init.recv_cq = ep->cq;
	ep->qp = ibv_create_qp(ep->pd, &init);
	ep->mr = ibv_reg_mr(ep->pd, ep->buf, EP_BUF_SIZE, EP_ACCESS);
	return ep->qp && ep->mr;
}

bool ep_open(struct endpoint *ep, const char *dev, int gid_index)
{
	struct ibv_port_attr port;

	*ep = (struct endpoint){ .sock = -1, .gid_index = gid_index, .ctx = open_device(dev) };
	if (!ep->ctx || ibv_query_port(ep->ctx, 1, &port) ||
	    ibv_query_gid(ep->ctx, 1, gid_index, &ep->me.gid) || !make_objects(ep)) {
		perror("cannot open the device or create objects");
		return false;
	}
	ep->me.mtu = port.active_mtu;
	ep->me.qpn = ep->qp->qp_num;
	ep->me.rkey = ep->mr->rkey;
	ep->me.addr = (uintptr_t)ep->buf;
	return true;
}

bool ep_connect(struct endpoint *ep, const char *host, int port)
{
	ep->sock = host ? tcp_connect(host, port) : tcp_accept(port, WAIT_SECONDS);
	if (ep->sock >= 0 && connect_qp(ep))
		return true;
	perror("cannot connect to the other program");
	return false;
}

void ep_close(struct endpoint *ep)
{
	close(ep->sock);
	ibv_destroy_qp(ep->qp);
	ibv_dereg_mr(ep->mr);
	ibv_destroy_cq(ep->cq);
	ibv_dealloc_pd(ep->pd);
	ibv_close_device(ep->ctx);
}

/* ---- work requests ------------------------ */

int ep_completion(struct endpoint *ep, struct ibv_wc *wc)
{
	int n = next_completion(ep->cq, wc, WAIT_SECONDS);

	if (n == 1)
		return (int)wc->status;
	return n < 0 ? -EIO : -ETIMEDOUT;
}

static int run(struct endpoint *ep, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int err;

	wr->send_flags = IBV_SEND_SIGNALED;
	err = ibv_post_send(ep->qp, wr, &bad);
	return err ? -err : ep_completion(ep, &wc);
}

int ep_rdma(struct endpoint *ep, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t addr,
	    uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = sge,
				  .num_sge = sge->length ? 1 : 0,
				  .wr.rdma = { addr, rkey } };

	return run(ep, &wr);
}

int ep_rdma_list(struct endpoint *ep, enum ibv_wr_opcode opcode, struct ibv_sge *sge, int n)
{
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = sge,
				  .num_sge = n,
				  .wr.rdma = { ep->peer.addr, ep->peer.rkey } };

	return run(ep, &wr);
}

/* ---- requests of the driver ------------------------ */

int ep_call(struct endpoint *ep, const struct ep_request *request)
{
	int32_t result;

	if (!sock_write(ep, request, sizeof(*request)) || !sock_read(ep, &result, sizeof(result)))
		return -EPIPE;
	return result;
}

int ep_reconnect(struct endpoint *ep)
{
	int result = ep_call(ep, &(struct ep_request){ .op = EP_RECONNECT });

	if (result)
		return result;
	return connect_qp(ep) ? 0 : -EIO;
}

static int own_buffer_rdma(struct endpoint *ep, enum ibv_wr_opcode opcode,
			   const struct ep_request *r)
{
	struct ibv_sge sge = { (uintptr_t)ep->buf, r->len, ep->mr->lkey };

	if (r->len > EP_BUF_SIZE)
		return -EINVAL;
	if (opcode == IBV_WR_RDMA_READ)
		memset(ep->buf, 0, r->len);
	return ep_rdma(ep, opcode, &sge, r->addr, r->rkey);
}

static int send_sges(struct endpoint *ep, uint32_t n, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge[EP_SGE];
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = sge, .num_sge = (int)n, .invalidate_rkey = rkey
	};

	if (n > EP_SGE)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)ep->buf + i * SEND_STRIDE, SEND_SGE_LEN,
					   ep->mr->lkey };
	return run(ep, &wr);
}

/*
 * Maps the same pages repeatedly to fill EP_HUGE bytes of address space: touching 2 GiB takes long.
 */
static uint8_t *map_repeated(void)
{
	int fd = memfd_create("rdma-endpoint", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, EP_HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok = fd >= 0 && p != MAP_FAILED && !ftruncate(fd, EP_HUGE_PERIOD);

	for (size_t at = 0; ok && at < EP_HUGE; at += EP_HUGE_PERIOD)
		ok = mmap(p + at, EP_HUGE_PERIOD, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED,
			  fd, 0) != MAP_FAILED;
	close(fd);
	if (ok)
		return p;
	if (p != MAP_FAILED)
		munmap(p, EP_HUGE);
	return NULL;
}

static int write_huge(struct endpoint *ep, const struct ep_request *r)
{
	uint8_t *p = map_repeated();
	struct ibv_mr *mr;
	struct ibv_sge sge;
	int result = -ENOMEM;

	if (!p)
		return result;
	stamp_pages(p, EP_HUGE_PERIOD);
	mr = ibv_reg_mr(ep->pd, p, EP_HUGE, IBV_ACCESS_LOCAL_WRITE);
	if (mr) {
		sge = (struct ibv_sge){ (uintptr_t)p, EP_HUGE, mr->lkey };
		result = ep_rdma(ep, IBV_WR_RDMA_WRITE, &sge, r->addr, r->rkey);
		ibv_dereg_mr(mr);
	}
	munmap(p, EP_HUGE);
	return result;
}

static int handle_request(struct endpoint *ep, const struct ep_request *r)
{
	switch (r->op) {
	case EP_FILL:
		fill_pattern(ep->buf, r->len, r->seed, 0);
		return 0;
	case EP_CHECK:
		return has_pattern(ep->buf, r->len, r->seed, 0) ? 0 : -EBADMSG;
	case EP_WRITE:
		return own_buffer_rdma(ep, IBV_WR_RDMA_WRITE, r);
	case EP_READ:
		return own_buffer_rdma(ep, IBV_WR_RDMA_READ, r);
	case EP_SEND:
		return send_sges(ep, r->len, IBV_WR_SEND, 0);
	case EP_SEND_INV:
		return send_sges(ep, r->len, IBV_WR_SEND_WITH_INV, r->rkey);
	case EP_WRITE_HUGE:
		return write_huge(ep, r);
	case EP_RECONNECT:
	case EP_END:
		return 0;
	default:
		return -EINVAL;
	}
}

bool ep_serve(struct endpoint *ep)
{
	struct ep_request r;
	int32_t result;

	while (sock_read(ep, &r, sizeof(r))) {
		result = handle_request(ep, &r);
		if (!sock_write(ep, &result, sizeof(result)))
			return false;
		if (r.op == EP_END)
			return true;
		if (r.op == EP_RECONNECT && !connect_qp(ep))
			return false;
	}
	return false;
}
