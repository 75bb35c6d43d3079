// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <xroce/control.h>
#include <xroce/ring.h>

#define CHUNK_SIZE (64u << 20)
#define MAX_OBJECTS 4096
#define MAX_CLIENTS 16
#define DEPTH_MAX 4096

static void die(const char *what)
{
	perror(what);
	_exit(99);
}

/* ---- state (in the fake's process) --------------------------------------------- */

enum kind { FREE, PD, MR, MW, CHANNEL, CQ, QP, AH, SRQ };

struct object {
	enum kind kind;
	struct client *client;
	/* MR */
	struct xr_mr_segment *segment;
	uint8_t **map;
	unsigned int segments;
	/* CHANNEL */
	int pipe;
	/* CQ */
	struct xr_queue *ring;
	uint32_t depth, producer, channel, cq_flags, comp_written, async_written;
	uint64_t cookie;
	/* QP; an SRQ has the rq_ fields */
	struct xr_queue *sq, *rq;
	uint32_t sq_depth, rq_depth, sq_stride, rq_stride, sq_done, rq_done;
	uint32_t send_cq, recv_cq, slot, state, limit;
	uint32_t burst, typical_packet;
	struct xr_create_qp_req init;
	struct xr_qp_attr attr;
	/* MR for fast registration */
	uint64_t *lists;
	uint32_t max_pages;
};

struct client {
	int fd, pipe, wake, mem;
	uint8_t *chunk;
	uint64_t used;
	struct xr_doorbell *doorbell;
};

static struct object objects[MAX_OBJECTS];
static struct {
	bool on;
	uint32_t failures;	/* of what is completed next */
} automatic;
static struct client clients[MAX_CLIENTS];
static unsigned int async_total, slow_ms;

static struct object *object(struct client *c, enum kind kind, uint32_t handle)
{
	struct object *o = handle && handle < MAX_OBJECTS ? &objects[handle] : NULL;

	return o && o->kind == kind && o->client == c ? o : NULL;
}

static uint32_t new_object(struct client *c, enum kind kind)
{
	uint32_t i;

	for (i = 1; i < MAX_OBJECTS && objects[i].kind != FREE; i++)
		;
	if (i == MAX_OBJECTS)
		return 0;
	objects[i] = (struct object){ .kind = kind, .client = c, .pipe = -1 };
	return i;
}

static void free_object(struct object *o)
{
	unsigned int i;

	if (o->kind == CHANNEL)
		close(o->pipe);
	for (i = 0; i < o->segments; i++) {
		if (o->map[i])
			munmap(o->map[i], o->segment[i].length + (o->segment[i].offset & 4095));
	}
	free(o->segment);
	free(o->map);
	*o = (struct object){ 0 };
}

/* ---- messages ------------------------------------------------------------------ */

struct message {
	struct xr_msg head;
	uint8_t body[XR_MSG_MAX];
	int fds[XR_MSG_MAX_FDS];
	unsigned int nfds;
};

static bool receive(int fd, struct message *m)
{
	char control[CMSG_SPACE(sizeof(m->fds))];
	struct iovec iov[2] = { { &m->head, sizeof(m->head) }, { m->body, sizeof(m->body) } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg;

	memset(m->body, 0, 4096);
	m->nfds = 0;
	if (recvmsg(fd, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(m->head))
		return false;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg) {
		m->nfds = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(m->fds, CMSG_DATA(cmsg), m->nfds * sizeof(int));
	}
	return true;
}

static void reply(int fd, const struct message *to, int status, const void *body, size_t len,
		  const int *fds, unsigned int nfds)
{
	char control[CMSG_SPACE(XR_MSG_MAX_FDS * sizeof(int))] = { 0 };
	struct xr_msg head = { to->head.type, status, to->head.seq, status ? 0 : len };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)body, status ? 0 : len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct cmsghdr *cmsg;

	if (nfds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, nfds * sizeof(int));
	}
	sendmsg(fd, &msg, MSG_NOSIGNAL);
}

static struct xr_shm_ref carve(struct client *c, uint64_t length, void **ptr)
{
	struct xr_shm_ref ref = { .chunk = 0, .chunk_size = CHUNK_SIZE, .offset = c->used,
				  .length = length };

	*ptr = c->chunk + c->used;
	c->used += (length + 4095) & ~4095ull;
	if (c->used > CHUNK_SIZE)
		die("chunk");
	return ref;
}

static struct xr_queue *new_queue(struct client *c, uint32_t depth, uint32_t stride,
				  struct xr_shm_ref *ref)
{
	struct xr_queue *q;

	*ref = carve(c, sizeof(*q) + (uint64_t)depth * stride, (void **)&q);
	*q = (struct xr_queue){ .magic = XR_QUEUE_MAGIC, .depth = depth, .stride = stride,
				.entries_off = sizeof(*q) };
	return q;
}

static uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* ---- what the protocol asks for ------------------------------------------------ */

static void hello(struct client *c, const struct message *m)
{
	const struct xr_hello_req *req = (const void *)m->body;
	struct xr_hello_rep rep = { .version = XR_PROTOCOL_VERSION, .workers = 1,
				    .guid = FAKE_GUID, .device = FAKE_DEVICE, .netdev = "none" };
	int fds[4], p[2], memfd, uffd;
	unsigned int n = 0;

	usleep(slow_ms * 1000);
	if (req->flags & XR_HELLO_OBSERVER) {
		reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p))
		die("pipe");
	c->pipe = p[1];
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memfd = memfd_create("fake-chunk", MFD_CLOEXEC);
	if (memfd < 0 || ftruncate(memfd, CHUNK_SIZE))
		die("memfd");
	c->chunk = mmap(NULL, CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	c->used = 0;
	rep.doorbells = carve(c, sizeof(struct xr_doorbell), (void **)&c->doorbell);
	rep.doorbells.new_chunk = 1;
	uffd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	rep.has_uffd = uffd >= 0;
	fds[n++] = p[0];
	fds[n++] = c->wake;
	fds[n++] = memfd;
	if (uffd >= 0)
		fds[n++] = uffd;
	reply(c->fd, m, 0, &rep, sizeof(rep), fds, n);
	close(p[0]);
	close(memfd);
	if (uffd >= 0)
		close(uffd);
}

static void query_device(struct client *c, const struct message *m)
{
	struct xr_query_device_rep rep = {
		.guid = FAKE_GUID, .max_mr_size = 1ull << 40, .page_size_cap = 4096,
		.max_qp = 100, .max_qp_wr = DEPTH_MAX, .max_sge = 16, .max_cq = 100,
		.max_cqe = DEPTH_MAX, .max_srq = 100, .max_srq_wr = DEPTH_MAX, .max_srq_sge = 16,
		.max_mr = 1000, .max_pd = 100, .max_qp_rd_atom = 16,
		.max_pkeys = 1, .max_inline = 256, .fw_ver = "fake",
	};

	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void query_port(struct client *c, const struct message *m)
{
	struct xr_query_port_rep rep = {
		.state = IBV_PORT_ACTIVE, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_2048,
		.gid_tbl_len = XR_GID_TABLE_LEN, .pkey_tbl_len = 1, .active_speed = 1,
		.active_width = 1, .phys_state = 5, .max_msg_sz = 1u << 31,
	};

	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

/* Entries 0 and 2 */
static void query_gids(struct client *c, const struct message *m)
{
	struct {
		struct xr_query_gids_rep head;
		struct xr_gid_entry entry[2];
	} rep = { .head.count = 2 };

	rep.entry[0].gid.raw[0] = 0xfe;
	rep.entry[0].gid.raw[1] = 0x80;
	rep.entry[0].gid.raw[15] = 1;
	rep.entry[1].index = 2;
	rep.entry[1].gid.raw[10] = rep.entry[1].gid.raw[11] = 0xff;
	memcpy(rep.entry[1].gid.raw + 12, "\x0a\x00\x00\x01", 4);
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

/* FD segments are mapped, MAPPING ones opened by map_files; private ones stay with mem. */
static void take_segments(struct client *c, struct object *o, const struct xr_reg_mr_req *req,
			  const struct message *m)
{
	const struct xr_mr_segment *s;
	unsigned int i;
	char path[96];
	void *p;
	int fd;

	o->segments = req->segments;
	o->segment = calloc(req->segments + 1, sizeof(*s));
	o->map = calloc(req->segments + 1, sizeof(*o->map));
	memcpy(o->segment, req->segment, req->segments * sizeof(*s));
	for (i = 0; i < req->segments; i++) {
		s = &req->segment[i];
		fd = -1;
		if (s->kind == XR_SEG_FD && s->fd_index < m->nfds)
			fd = dup(m->fds[s->fd_index]);
		if (s->kind == XR_SEG_MAPPING) {
			snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", getppid(),
				 s->map_start, s->map_end);
			fd = open(path, O_RDWR | O_CLOEXEC);
		}
		if (fd < 0)
			continue;
		p = mmap(NULL, s->length + (s->offset & 4095), PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, s->offset & ~4095ull);
		if (p != MAP_FAILED)
			o->map[i] = p;
		close(fd);
	}
	if (req->flags & XR_REGF_PROC_FDS) {
		if (c->mem >= 0)
			close(c->mem);
		c->mem = dup(m->fds[m->nfds - 2]);
	}
}

/* The segments must be exactly the range. */
static bool segments_fit(const struct xr_reg_mr_req *req)
{
	uint64_t at = req->addr;
	unsigned int i;

	if (req->access & XR_ACCESS_ON_DEMAND)
		return !req->segments;
	for (i = 0; i < req->segments; i++) {
		if (req->segment[i].addr != at || !req->segment[i].length)
			return false;
		at += req->segment[i].length;
	}
	return at == req->addr + req->length;
}

static void reg_mr(struct client *c, const struct message *m)
{
	const struct xr_rereg_mr_req *rereg = (const void *)m->body;
	bool again = m->head.type == XR_MSG_REREG_MR;
	const struct xr_reg_mr_req *req = again ? &rereg->reg : (const void *)m->body;
	struct xr_reg_mr_rep rep = { 0 };
	struct object *o;

	if (!object(c, PD, req->pd) || !segments_fit(req) ||
	    (again && !object(c, MR, rereg->handle))) {
		reply(c->fd, m, -EINVAL, NULL, 0, NULL, 0);
		return;
	}
	rep.handle = again ? rereg->handle : new_object(c, MR);
	o = &objects[rep.handle];
	if (again) {
		free_object(o);
		o->kind = MR;
		o->client = c;
	}
	take_segments(c, o, req, m);
	rep.lkey = rep.rkey = rep.handle << 8;
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void create_channel(struct client *c, const struct message *m)
{
	struct xr_handle_rep rep = { .handle = new_object(c, CHANNEL) };
	int p[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p))
		die("pipe");
	objects[rep.handle].pipe = p[1];
	reply(c->fd, m, 0, &rep, sizeof(rep), p, 1);
	close(p[0]);
}

static void create_cq(struct client *c, const struct message *m)
{
	const struct xr_create_cq_req *req = (const void *)m->body;
	struct xr_create_cq_rep rep = { .depth = power_of_two(req->depth) };
	struct object *o;

	rep.handle = new_object(c, CQ);
	o = &objects[rep.handle];
	o->depth = rep.depth;
	o->channel = req->channel;
	o->cq_flags = req->flags;
	o->cookie = req->cookie;
	o->ring = new_queue(c, rep.depth, sizeof(struct xr_cqe), &rep.ring);
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static struct xr_cqe *cqe_at(struct xr_queue *q, uint32_t i)
{
	return (struct xr_cqe *)((uint8_t *)q + q->entries_off) + (i & (q->depth - 1));
}

static void resize_cq(struct client *c, const struct message *m)
{
	const struct xr_resize_cq_req *req = (const void *)m->body;
	struct xr_create_cq_rep rep = { .handle = req->handle, .depth = power_of_two(req->depth) };
	struct object *o = object(c, CQ, req->handle);
	struct xr_queue *old, *q;
	uint32_t i, n;

	if (!o || o->producer - o->ring->consumer > rep.depth) {
		reply(c->fd, m, -EINVAL, NULL, 0, NULL, 0);
		return;
	}
	old = o->ring;
	q = new_queue(c, rep.depth, sizeof(struct xr_cqe), &rep.ring);
	n = o->producer - old->consumer;
	for (i = 0; i < n; i++)
		*cqe_at(q, i) = *cqe_at(old, old->consumer + i);
	q->word = old->word;
	q->producer = o->producer = n;
	o->ring = q;
	o->depth = rep.depth;
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void create_qp(struct client *c, const struct message *m)
{
	const struct xr_create_qp_req *req = (const void *)m->body;
	struct xr_create_qp_rep rep = {
		.max_send_wr = req->max_send_wr, .max_recv_wr = req->max_recv_wr,
		.max_send_sge = req->max_send_sge, .max_recv_sge = req->max_recv_sge,
		.max_inline = req->max_inline,
	};
	struct object *o;

	if (!object(c, PD, req->pd) || !object(c, CQ, req->send_cq) ||
	    !object(c, CQ, req->recv_cq)) {
		reply(c->fd, m, -EINVAL, NULL, 0, NULL, 0);
		return;
	}
	rep.handle = rep.qpn = new_object(c, QP);
	rep.slot = rep.handle * 61;	/* all three levels of doorbells */
	o = &objects[rep.handle];
	o->init = *req;
	o->cookie = req->cookie;
	o->send_cq = req->send_cq;
	o->recv_cq = req->recv_cq;
	o->slot = rep.slot;
	o->sq_stride = xr_send_stride(req->max_send_sge, req->max_inline);
	o->rq_stride = xr_recv_stride(req->max_recv_sge);
	o->sq_depth = power_of_two(req->max_send_wr);
	o->rq_depth = power_of_two(req->max_recv_wr);
	o->sq = new_queue(c, o->sq_depth, o->sq_stride, &rep.sq);
	if (!req->srq)
		o->rq = new_queue(c, o->rq_depth, o->rq_stride, &rep.rq);
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void create_srq(struct client *c, const struct message *m)
{
	const struct xr_create_srq_req *req = (const void *)m->body;
	struct xr_create_srq_rep rep = {
		.handle = new_object(c, SRQ), .max_wr = power_of_two(req->max_wr),
		.max_sge = req->max_sge,
	};
	struct object *o = &objects[rep.handle];

	o->cookie = req->cookie;
	o->rq_depth = rep.max_wr;
	o->rq_stride = xr_recv_stride(req->max_sge);
	o->rq = new_queue(c, o->rq_depth, o->rq_stride, &rep.ring);
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static uint8_t *rq_entry(const struct object *o, const struct xr_queue *q, uint32_t i)
{
	return (uint8_t *)(q + 1) + (size_t)(i & (q->depth - 1)) * o->rq_stride;
}

static void resize_srq(struct client *c, struct object *o, uint32_t max_wr,
		       struct xr_modify_srq_rep *rep)
{
	struct xr_queue *old = o->rq, *q;
	uint32_t i, n = old->producer - o->rq_done;

	q = new_queue(c, max_wr, o->rq_stride, &rep->ring);
	for (i = 0; i < n; i++)
		memcpy(rq_entry(o, q, i), rq_entry(o, old, o->rq_done + i), o->rq_stride);
	q->producer = n;
	o->rq = q;
	o->rq_depth = max_wr;
	o->rq_done = 0;
}

static void modify_srq(struct client *c, const struct message *m)
{
	const struct xr_modify_srq_req *req = (const void *)m->body;
	struct object *o = object(c, SRQ, req->handle);
	struct xr_modify_srq_rep rep = { .max_wr = power_of_two(req->max_wr) };

	if (!o || (req->mask & IBV_SRQ_MAX_WR && o->rq->producer - o->rq_done > rep.max_wr)) {
		reply(c->fd, m, -EINVAL, NULL, 0, NULL, 0);
		return;
	}
	if (req->mask & IBV_SRQ_MAX_WR)
		resize_srq(c, o, rep.max_wr, &rep);
	if (req->mask & IBV_SRQ_LIMIT)
		o->limit = req->limit;
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void query_srq(struct client *c, const struct message *m)
{
	const struct xr_handle_req *req = (const void *)m->body;
	struct object *o = object(c, SRQ, req->handle);
	struct xr_query_srq_rep rep = { 0 };

	if (o) {
		rep.max_wr = o->rq_depth;
		rep.max_sge = o->rq_stride / sizeof(struct xr_sge) - 1;
		rep.limit = o->limit;
	}
	reply(c->fd, m, o ? 0 : -EINVAL, &rep, sizeof(rep), NULL, 0);
}

static void modify_qp(struct client *c, const struct message *m)
{
	const struct xr_modify_qp_req *req = (const void *)m->body;
	struct object *o = object(c, QP, req->handle);
	struct xr_modify_qp_rep rep = { 0 };

	if (!o) {
		reply(c->fd, m, -EINVAL, NULL, 0, NULL, 0);
		return;
	}
	if (req->attr_mask & IBV_QP_AV && req->attr.ah.hop_limit == FAKE_REFUSED_HOP) {
		reply(c->fd, m, -EHOSTUNREACH, NULL, 0, NULL, 0);
		return;
	}
	if (req->attr_mask & IBV_QP_STATE) {
		o->state = req->attr.qp_state;
		o->sq->word = o->state;
		if (o->rq)
			o->rq->word = o->state;
		if (o->state == IBV_QPS_RESET) {
			o->sq->producer = o->sq->consumer = o->sq_done = 0;
			if (o->rq)
				o->rq->producer = o->rq->consumer = o->rq_done = 0;
		}
	}
	o->attr = req->attr;
	o->burst = req->max_burst;
	o->typical_packet = req->typical_packet;
	rep.state = o->state;
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void query_qp(struct client *c, const struct message *m)
{
	const struct xr_handle_req *req = (const void *)m->body;
	struct object *o = object(c, QP, req->handle);
	struct xr_query_qp_rep rep = { 0 };

	if (o) {
		rep.attr = o->attr;
		rep.attr.qp_state = o->state;
		rep.max_send_wr = o->init.max_send_wr;
		rep.sq_sig_all = o->init.sq_sig_all;
	}
	reply(c->fd, m, o ? 0 : -EINVAL, &rep, sizeof(rep), NULL, 0);
}

static void destroy(struct client *c, const struct message *m, enum kind kind)
{
	const struct xr_handle_req *req = (const void *)m->body;
	struct object *o = object(c, kind, req->handle);
	struct xr_destroy_rep rep = { 0 };

	if (o) {
		rep.comp_events = o->comp_written;
		rep.async_events = o->async_written;
		free_object(o);
	}
	reply(c->fd, m, o ? 0 : -EINVAL, &rep, sizeof(rep), NULL, 0);
}

static void alloc_mw(struct client *c, const struct message *m)
{
	const struct xr_alloc_mw_req *req = (const void *)m->body;
	struct xr_alloc_mw_rep rep = { 0 };

	if (object(c, PD, req->pd) && (req->type == IBV_MW_TYPE_1 || req->type == IBV_MW_TYPE_2))
		rep.handle = new_object(c, MW);
	rep.rkey = rep.handle << 8;
	reply(c->fd, m, rep.handle ? 0 : -EINVAL, &rep, rep.handle ? sizeof(rep) : 0, NULL, 0);
}

static void alloc_fast_mr(struct client *c, const struct message *m)
{
	const struct xr_alloc_fast_mr_req *req = (const void *)m->body;
	struct xr_alloc_fast_mr_rep rep = { 0 };
	struct object *o;

	if (!object(c, PD, req->pd) || !req->max_pages || req->max_pages > XR_FAST_MAX_PAGES) {
		reply(c->fd, m, -EINVAL, NULL, 0, NULL, 0);
		return;
	}
	rep.handle = new_object(c, MR);
	rep.key = rep.handle << 8;
	o = &objects[rep.handle];
	o->max_pages = req->max_pages;
	rep.lists = carve(c, (uint64_t)XR_FAST_LISTS * req->max_pages * sizeof(uint64_t),
			  (void **)&o->lists);
	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

/* For clients whose memory it knows */
static void reserved_lkey(struct client *c, const struct message *m)
{
	struct xr_reserved_lkey_rep rep = { .lkey = XR_RESERVED_LKEY };

	if (c->mem < 0)
		reply(c->fd, m, -EPERM, NULL, 0, NULL, 0);
	else
		reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void simple(struct client *c, const struct message *m, enum kind kind)
{
	struct xr_handle_rep rep = { .handle = new_object(c, kind) };

	reply(c->fd, m, 0, &rep, sizeof(rep), NULL, 0);
}

static void serve(struct client *c, const struct message *m)
{
	switch (m->head.type) {
	case XR_MSG_HELLO: return hello(c, m);
	case XR_MSG_QUERY_DEVICE: return query_device(c, m);
	case XR_MSG_QUERY_PORT: return query_port(c, m);
	case XR_MSG_QUERY_GIDS: return query_gids(c, m);
	case XR_MSG_ALLOC_PD: return simple(c, m, PD);
	case XR_MSG_DEALLOC_PD: return destroy(c, m, PD);
	case XR_MSG_REG_MR:
	case XR_MSG_REREG_MR: return reg_mr(c, m);
	case XR_MSG_DEREG_MR: return destroy(c, m, MR);
	case XR_MSG_RESERVED_LKEY: return reserved_lkey(c, m);
	case XR_MSG_ALLOC_FAST_MR: return alloc_fast_mr(c, m);
	case XR_MSG_ALLOC_MW: return alloc_mw(c, m);
	case XR_MSG_DEALLOC_MW: return destroy(c, m, MW);
	case XR_MSG_CREATE_CHANNEL: return create_channel(c, m);
	case XR_MSG_DESTROY_CHANNEL: return destroy(c, m, CHANNEL);
	case XR_MSG_CREATE_CQ: return create_cq(c, m);
	case XR_MSG_RESIZE_CQ: return resize_cq(c, m);
	case XR_MSG_DESTROY_CQ: return destroy(c, m, CQ);
	case XR_MSG_CREATE_QP: return create_qp(c, m);
	case XR_MSG_MODIFY_QP: return modify_qp(c, m);
	case XR_MSG_QUERY_QP: return query_qp(c, m);
	case XR_MSG_DESTROY_QP: return destroy(c, m, QP);
	case XR_MSG_CREATE_AH: return simple(c, m, AH);
	case XR_MSG_DESTROY_AH: return destroy(c, m, AH);
	case XR_MSG_CREATE_SRQ: return create_srq(c, m);
	case XR_MSG_MODIFY_SRQ: return modify_srq(c, m);
	case XR_MSG_QUERY_SRQ: return query_srq(c, m);
	case XR_MSG_DESTROY_SRQ: return destroy(c, m, SRQ);
	default: reply(c->fd, m, -EOPNOTSUPP, NULL, 0, NULL, 0);
	}
}

/* ---- what the test asks for ---------------------------------------------------- */

enum op {
	OP_COMPLETE,
	OP_ASYNC,
	OP_ERROR,
	OP_DOORBELL,
	OP_SEGMENTS,
	OP_READ,
	OP_WRITE,
	OP_OBJECTS,
	OP_ENTRY,
	OP_CQ_FLAGS,
	OP_BURST,
	OP_PAGES,
	OP_AUTOMATIC,
	OP_SLOW,
};

struct command {
	enum op op;
	uint32_t a, b, c, d, e;
	uint64_t x;
	uint8_t data[4096];
};

static uint32_t complete_one(struct object *qp, bool recv, uint32_t status, bool solicited)
{
	struct object *from = recv && qp->init.srq ? &objects[qp->init.srq] : qp;
	struct xr_queue *q = recv ? from->rq : qp->sq;
	uint32_t *done = recv ? &from->rq_done : &qp->sq_done;
	uint32_t depth = recv ? from->rq_depth : qp->sq_depth;
	uint32_t stride = recv ? from->rq_stride : qp->sq_stride, word;
	struct object *cq = &objects[recv ? qp->recv_cq : qp->send_cq];
	uint8_t *entry = (uint8_t *)(q + 1) + (size_t)(*done & (depth - 1)) * stride;
	struct timespec ts;
	struct xr_cqe cqe = { .status = status, .qpn = qp - objects, .wqe_index = *done,
			      .is_recv = recv, .opcode = recv ? IBV_WC_RECV : IBV_WC_SEND };

	if (__atomic_load_n(&q->producer, __ATOMIC_ACQUIRE) == *done)
		return 0;
	memcpy(&cqe.wr_id, entry, sizeof(cqe.wr_id));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	cqe.timestamp = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	__atomic_store_n(&q->consumer, ++*done, __ATOMIC_RELEASE);
	*cqe_at(cq->ring, cq->producer) = cqe;
	__atomic_store_n(&cq->ring->producer, ++cq->producer, __ATOMIC_SEQ_CST);
	word = __atomic_load_n(&cq->ring->word, __ATOMIC_SEQ_CST);
	if (cq->channel && (word & XR_ARM_ANY || (word && (solicited || status)))) {
		__atomic_store_n(&cq->ring->word, 0, __ATOMIC_SEQ_CST);
		if (write(objects[cq->channel].pipe, &cq->cookie, 8) == 8)
			cq->comp_written++;
	}
	return 1;
}

static void async_event(const struct command *cmd)
{
	struct xr_async_event ev = { .element = cmd->x, .type = cmd->a };
	unsigned int i;

	for (i = 1; i < MAX_OBJECTS; i++) {
		if ((objects[i].kind == QP || objects[i].kind == CQ || objects[i].kind == SRQ) &&
		    objects[i].cookie == cmd->x)
			objects[i].async_written++;
	}
	for (i = 0; i < MAX_CLIENTS; i++) {
		if (clients[i].pipe >= 0 && write(clients[i].pipe, &ev, sizeof(ev)) > 0)
			async_total++;
	}
}

static void doorbell(struct command *cmd)
{
	struct client *c;
	uint64_t wakes = 0;
	uint32_t i;

	for (c = clients; c < clients + MAX_CLIENTS && !c->doorbell; c++)
		;
	cmd->b = __atomic_exchange_n(&c->doorbell->bits0, 0, __ATOMIC_SEQ_CST) != 0;
	for (i = 0; i < 64; i++)
		c->doorbell->bits1[i] = 0;
	for (i = 0; i < 4096; i++)
		c->doorbell->bits2[i] = 0;
	if (read(c->wake, &wakes, sizeof(wakes)) < 0)
		wakes = 0;
	cmd->c = wakes;
	c->doorbell->sleeping = cmd->a;
}

static bool access_memory(struct object *mr, uint64_t addr, void *data, uint32_t len, bool write)
{
	const struct xr_mr_segment *s;
	uint8_t *at;
	unsigned int i;

	for (i = 0; i < mr->segments; i++) {
		s = &mr->segment[i];
		if (addr < s->addr || addr + len > s->addr + s->length)
			continue;
		if (s->kind == XR_SEG_PRIVATE)
			return (write ? pwrite(mr->client->mem, data, len, addr) :
					pread(mr->client->mem, data, len, addr)) == (ssize_t)len;
		if (!mr->map[i])
			return false;
		at = mr->map[i] + (s->offset & 4095) + (addr - s->addr);
		if (write)
			memcpy(at, data, len);
		else
			memcpy(data, at, len);
		return true;
	}
	return false;
}

static void command(int fd)
{
	struct command cmd;
	struct object *o;
	unsigned int i;

	if (recv(fd, &cmd, sizeof(cmd), 0) <= 0)
		_exit(0);
	o = &objects[cmd.a < MAX_OBJECTS ? cmd.a : 0];
	switch (cmd.op) {
	case OP_COMPLETE:
		for (i = 0; i < cmd.c && complete_one(o, cmd.b, cmd.d, cmd.e); i++)
			;
		cmd.a = i;
		break;
	case OP_ASYNC:
		async_event(&cmd);
		break;
	case OP_ERROR:
		o->sq->word = o->rq->word = IBV_QPS_ERR;
		break;
	case OP_DOORBELL:
		doorbell(&cmd);
		break;
	case OP_SEGMENTS:
		memset(cmd.data, 0, 16);
		o = &objects[cmd.a >> 8];
		for (i = 0; i < o->segments; i++)
			((uint32_t *)cmd.data)[o->segment[i].kind & 3]++;
		break;
	case OP_READ:
	case OP_WRITE:
		cmd.b = access_memory(&objects[cmd.a >> 8], cmd.x, cmd.data, cmd.c,
				      cmd.op == OP_WRITE);
		break;
	case OP_OBJECTS:
		for (cmd.a = 0, i = 1; i < MAX_OBJECTS; i++)
			cmd.a += objects[i].kind != FREE;
		break;
	case OP_ENTRY:
		memcpy(cmd.data, (uint8_t *)(o->sq + 1) +
		       (size_t)(cmd.b & (o->sq_depth - 1)) * o->sq_stride, o->sq_stride);
		cmd.a = o->sq->producer;
		break;
	case OP_BURST:
		cmd.b = o->burst;
		cmd.c = o->typical_packet;
		break;
	case OP_SLOW:
		slow_ms = cmd.a;
		break;
	case OP_CQ_FLAGS:
		cmd.b = o->cq_flags;
		break;
	case OP_PAGES:
		o = &objects[cmd.a >> 8];
		memcpy(cmd.data, o->lists + (size_t)cmd.b * o->max_pages, cmd.c * sizeof(uint64_t));
		break;
	case OP_AUTOMATIC:
		automatic.on = cmd.b;
		automatic.failures = cmd.c;
		break;
	}
	send(fd, &cmd, sizeof(cmd), MSG_NOSIGNAL);
}

/* ---- the process --------------------------------------------------------------- */

static void drop_client(struct client *c)
{
	unsigned int i;

	for (i = 1; i < MAX_OBJECTS; i++) {
		if (objects[i].kind != FREE && objects[i].client == c)
			free_object(&objects[i]);
	}
	if (c->pipe >= 0) {
		close(c->pipe);
		close(c->wake);
		munmap(c->chunk, CHUNK_SIZE);
	}
	if (c->mem >= 0)
		close(c->mem);
	close(c->fd);
	*c = (struct client){ .fd = -1, .pipe = -1, .wake = -1, .mem = -1 };
}

static void accept_client(int listener)
{
	struct client *c;

	for (c = clients; c->fd >= 0; c++)
		;
	c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

/* What was posted completes by itself. */
static void complete_all(void)
{
	unsigned int i;

	for (i = 1; i < MAX_OBJECTS; i++) {
		if (objects[i].kind != QP || objects[i].state != IBV_QPS_RTS)
			continue;
		while (complete_one(&objects[i], false,
				    automatic.failures ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS, false))
			automatic.failures -= !!automatic.failures;
	}
}

static void run(int listener, int cmd)
{
	static struct message m;
	struct pollfd p[MAX_CLIENTS + 2];
	unsigned int i;

	for (i = 0; i < MAX_CLIENTS; i++)
		clients[i] = (struct client){ .fd = -1, .pipe = -1, .wake = -1, .mem = -1 };
	for (;;) {
		for (i = 0; i < MAX_CLIENTS; i++)
			p[i] = (struct pollfd){ clients[i].fd, POLLIN, 0 };
		p[i++] = (struct pollfd){ listener, POLLIN, 0 };
		p[i] = (struct pollfd){ cmd, POLLIN, 0 };
		if (poll(p, MAX_CLIENTS + 2, automatic.on ? 1 : -1) < 0)
			die("poll");
		if (automatic.on)
			complete_all();
		for (i = 0; i < MAX_CLIENTS; i++) {
			if (!p[i].revents)
				continue;
			if (receive(clients[i].fd, &m)) {
				serve(&clients[i], &m);
				while (m.nfds)
					close(m.fds[--m.nfds]);
			} else {
				drop_client(&clients[i]);
			}
		}
		if (p[MAX_CLIENTS].revents)
			accept_client(listener);
		if (p[MAX_CLIENTS + 1].revents)
			command(cmd);
	}
}

int fake_start(struct fake *f, const char *dir)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int listener, pair[2];

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" FAKE_DEVICE ".sock", dir);
	unlink(sun.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&sun, sizeof(sun)) || listen(listener, 8) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	f->pid = fork();
	if (f->pid < 0)
		return -errno;
	if (!f->pid) {
		close(pair[0]);
		listen(listener, 8);	/* clients see who it was that listened last */
		run(listener, pair[1]);
	}
	close(pair[1]);
	close(listener);
	f->cmd = pair[0];
	return 0;
}

void fake_kill(struct fake *f)
{
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	close(f->cmd);
}

static void ask(struct fake *f, struct command *cmd)
{
	if (send(f->cmd, cmd, sizeof(*cmd), MSG_NOSIGNAL) < 0 ||
	    recv(f->cmd, cmd, sizeof(*cmd), 0) <= 0) {
		fprintf(stderr, "the fake daemon died\n");
		exit(1);
	}
}

unsigned int fake_complete(struct fake *f, uint32_t qpn, bool recv, unsigned int n,
			   uint32_t status, bool solicited)
{
	struct command cmd = { .op = OP_COMPLETE, .a = qpn, .b = recv, .c = n, .d = status,
			       .e = solicited };

	ask(f, &cmd);
	return cmd.a;
}

void fake_async_event(struct fake *f, uint64_t element, uint32_t type)
{
	struct command cmd = { .op = OP_ASYNC, .a = type, .x = element };

	ask(f, &cmd);
}

void fake_qp_error(struct fake *f, uint32_t qpn)
{
	struct command cmd = { .op = OP_ERROR, .a = qpn };

	ask(f, &cmd);
}

void fake_doorbell(struct fake *f, bool sleeping, bool *rang, unsigned int *wakes)
{
	struct command cmd = { .op = OP_DOORBELL, .a = sleeping };

	ask(f, &cmd);
	*rang = cmd.b;
	*wakes = cmd.c;
}

void fake_segments(struct fake *f, uint32_t rkey, unsigned int kinds[4])
{
	struct command cmd = { .op = OP_SEGMENTS, .a = rkey };

	ask(f, &cmd);
	memcpy(kinds, cmd.data, 16);
}

bool fake_read(struct fake *f, uint32_t rkey, uint64_t addr, void *data, unsigned int len)
{
	struct command cmd = { .op = OP_READ, .a = rkey, .x = addr, .c = len };

	ask(f, &cmd);
	memcpy(data, cmd.data, len);
	return cmd.b;
}

bool fake_write(struct fake *f, uint32_t rkey, uint64_t addr, const void *data, unsigned int len)
{
	struct command cmd = { .op = OP_WRITE, .a = rkey, .x = addr, .c = len };

	memcpy(cmd.data, data, len);
	ask(f, &cmd);
	return cmd.b;
}

uint32_t fake_send_entry(struct fake *f, uint32_t qpn, uint32_t index, void *entry,
			 unsigned int len)
{
	struct command cmd = { .op = OP_ENTRY, .a = qpn, .b = index };

	ask(f, &cmd);
	memcpy(entry, cmd.data, len);
	return cmd.a;
}

void fake_burst(struct fake *f, uint32_t qpn, uint32_t *burst, uint32_t *typical_packet)
{
	struct command cmd = { .op = OP_BURST, .a = qpn };

	ask(f, &cmd);
	*burst = cmd.b;
	*typical_packet = cmd.c;
}

void fake_slow(struct fake *f, unsigned int ms)
{
	struct command cmd = { .op = OP_SLOW, .a = ms };

	ask(f, &cmd);
}

uint32_t fake_cq_flags(struct fake *f, uint32_t handle)
{
	struct command cmd = { .op = OP_CQ_FLAGS, .a = handle };

	ask(f, &cmd);
	return cmd.b;
}

unsigned int fake_objects(struct fake *f)
{
	struct command cmd = { .op = OP_OBJECTS };

	ask(f, &cmd);
	return cmd.a;
}

void fake_pages(struct fake *f, uint32_t rkey, uint32_t list, uint64_t *pages, unsigned int n)
{
	struct command cmd = { .op = OP_PAGES, .a = rkey, .b = list, .c = n };

	ask(f, &cmd);
	memcpy(pages, cmd.data, n * sizeof(*pages));
}

void fake_automatic(struct fake *f, bool on, unsigned int failures)
{
	struct command cmd = { .op = OP_AUTOMATIC, .b = on, .c = failures };

	ask(f, &cmd);
}
